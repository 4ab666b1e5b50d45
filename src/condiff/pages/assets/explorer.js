"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
  const n = data.points, classes = data.classes.length, columns = classes - 1;
  const positions = new Float32Array(bytes(data.positions));
  const base = new Float32Array(bytes(data.base));
  const labels = new Int16Array(bytes(data.labels));
  const truth = data.truth && new Int16Array(bytes(data.truth));
  const graph = {
    indptr: new Uint32Array(bytes(data.indptr)),
    indices: n <= 65536 ? new Uint16Array(bytes(data.indices)) : new Uint32Array(bytes(data.indices)),
    weights: new Float32Array(bytes(data.weights)),
  };
  const flow = new Flow(graph, base, n, classes);

  // ---- the state: what is wanted, and what is shown until that is computed ----------------------------------------
  const positivity = data.positivity ?? Infinity, stability = data.stability ?? Infinity;
  const strongest = 1.25 * (Number.isFinite(stability) ? stability : 2 * data.strength);
  const mostLayers = Math.max(40, 2 * data.layers);
  const wanted = { layers: data.layers, strength: data.strength };
  const shown = { u: flow.base.slice(), layer: 0 };
  let stale = false, playing = false, playFrom = 0, chosen = -1, hovered = -1;
  const frames = [];

  // Few layers change much and many little: the slider's places grow by squares.
  const layersAt = (place) => Math.round(mostLayers * (place / 1000) ** 2);
  const placeOf = (layers) => Math.round(1000 * Math.sqrt(layers / mostLayers));
  const value = (u, i, k) => {
    if (k < columns) return u[i * columns + k];
    let rest = 1;
    for (let j = 0; j < columns; j++) rest -= u[i * columns + j];
    return rest;
  };
  const number = (x) => (!Number.isFinite(x) ? "overflow" : Math.abs(x) < 1e4 ? x.toFixed(3) : x.toExponential(1));
  const name = (i) => (data.names ? data.names[i] : `point ${i + 1}`);

  // Top class, its lead over the second, and whether every value is a probability.
  const top = new Int16Array(n), lead = new Float32Array(n), sound = new Uint8Array(n);
  const baseTop = new Int16Array(n);
  function judge(u, into) {
    let smallest = Infinity, largest = -Infinity;
    for (let i = 0; i < n; i++) {
      let first = -Infinity, second = -Infinity, at = 0, rest = 1, fine = 1;
      for (let k = 0; k < classes; k++) {
        const x = k < columns ? u[i * columns + k] : rest;
        rest -= x;
        if (x > first) { second = first; first = x; at = k; } else if (x > second) { second = x; }
        if (!(x >= -1e-6 && x <= 1 + 1e-6)) fine = 0;
        if (!(x >= smallest)) smallest = x;
        if (!(x <= largest)) largest = x;
      }
      into[i] = at;
      if (into === top) { lead[i] = first - second; sound[i] = fine; }
    }
    return [smallest, largest];
  }
  judge(flow.base, baseTop);

  const canvas = $("stage"), stage = new Stage(canvas, graph, positions, data.colours);
  const trained = Array.from(labels.keys()).filter((i) => labels[i] >= 0);
  const looked = () => (chosen >= 0 ? chosen : hovered);

  // ---- words ------------------------------------------------------------------------------------------------------
  function write(id, text) {
    if ($(id).textContent !== text) $(id).textContent = text;
  }

  function tell([smallest, largest]) {
    let right = 0, changed = 0, broken = 0;
    for (let i = 0; i < n; i++) {
      if (truth && top[i] === truth[i]) right++;
      if (top[i] !== baseTop[i]) changed++;
      if (!sound[i]) broken++;
    }
    if (truth) write("right", `${((100 * right) / n).toFixed(1)} %`);
    write("changed", changed.toLocaleString("en"));
    write("smallest", number(smallest));
    write("largest", number(largest));
    const s = wanted.strength;
    const state = s <= positivity * (1 + 1e-6) ? "good" : s <= stability ? "amber" : "bad";
    const outside = broken ? ` ${broken.toLocaleString("en")} ${broken === 1 ? "point is" : "points are"} outside [0, 1] now.` : "";
    $("verdict").dataset.state = state;
    write("verdict", {
      good: "Certified: every layer is an average, so probabilities stay probabilities.",
      amber: `Past the positivity limit: a layer overshoots some averages, and u may leave [0, 1].${outside}`,
      bad: `Past the stability limit: some patterns grow with every layer.${outside}`,
    }[state]);
  }

  function describe() {
    const i = looked();
    const picture = i >= 0 && data.pictures ? data.pictures[i] : "";
    $("picture").hidden = !picture;
    if (picture) $("picture").src = picture;
    if (i < 0) return write("point", "Move over a point, or focus the map and use the arrow keys.");
    const best = (u) => {
      let at = 0;
      for (let k = 1; k < classes; k++) if (value(u, i, k) > value(u, i, at)) at = k;
      return `${data.classes[at]} ${number(value(u, i, at))}`;
    };
    const held = flow.held.has(i) ? ` Held at ${data.classes[flow.held.get(i)]}.` : "";
    const trained = labels[i] >= 0 ? ` Trained on as ${data.classes[labels[i]]}.` : "";
    const near = [];
    for (let e = graph.indptr[i]; e < graph.indptr[i + 1]; e++) if (graph.indices[e] !== i) near.push(graph.indices[e]);
    const agree = near.filter((j) => top[j] === top[i]).length;
    write("point", `${name(i)}: network alone ${best(flow.base)}, now ${best(shown.u)}; ${agree} of ${near.length} neighbours agree.${trained}${held}`);
  }

  function controls() {
    write("layers-value", wanted.layers.toLocaleString("en"));
    write("strength-value", wanted.strength.toPrecision(3));
    write("time", (wanted.layers * wanted.strength).toPrecision(3));
    $("layers").value = placeOf(wanted.layers);
    $("layers").setAttribute("aria-valuetext", `${wanted.layers} layers`);
    $("strength").value = Math.round((1000 * wanted.strength) / strongest);
    $("strength").setAttribute("aria-valuetext", wanted.strength.toPrecision(3));
    write("held-count", flow.held.size ? `${flow.held.size} held` : "none held");
    $("release").disabled = $("save").disabled = !flow.held.size;
  }

  // ---- the loop: at most a few milliseconds of layers a frame, so that the page stays quick at any size ---------------
  let queued = false;
  function ask() {
    stale = true;
    if (!queued) { queued = true; requestAnimationFrame(frame); }
  }

  function frame() {
    queued = false;
    const began = performance.now();
    if (playing) {
      // Faster and faster, because late layers change less and less.
      const next = Math.min(playFrom, Math.max(wanted.layers + 1, Math.round(wanted.layers * 1.025)));
      wanted.layers = next;
      controls();
      if (next === playFrom) setPlaying(false);
    }
    // A computation under way is finished before a newer request is taken up, or dragging would never show anything.
    if (flow.done || playing) {
      flow.setStrength(wanted.strength);
      flow.goTo(wanted.layers);
    }
    if (flow.advance(8)) {
      shown.u.set(flow.current);
      shown.layer = flow.layer;
      tell(judge(shown.u, top));
      describe();
      stage.draw({ top, lead, sound, trained, held: flow.held.keys(), looked: looked(), chosen: chosen >= 0 });
    }
    frames.push(performance.now() - began);
    if (frames.length > 240) frames.shift();
    stale = playing || !flow.done || flow.target !== wanted.layers || flow.strength !== wanted.strength;
    if (stale) { queued = true; requestAnimationFrame(frame); }
  }

  function setPlaying(on) {
    playing = on;
    write("play-sign", on ? "❚❚" : "▶");
    write("play-text", on ? "Pause" : "Play");
  }

  // ---- hands ------------------------------------------------------------------------------------------------------
  $("play").addEventListener("click", () => {
    if (!playing) {
      playFrom = wanted.layers || data.layers || mostLayers / 2;
      wanted.layers = 0;
    }
    setPlaying(!playing);
    controls();
    ask();
  });
  $("layers").addEventListener("input", (event) => {
    setPlaying(false);
    wanted.layers = layersAt(Number(event.target.value));
    controls();
    ask();
  });
  function setStrength(strength) {
    wanted.strength = strength;
    controls();
    ask();
  }
  $("strength").addEventListener("input", (event) => setStrength((strongest * Number(event.target.value)) / 1000));
  for (const [id, title, limit] of [["to-positivity", "positivity", positivity], ["to-stability", "stability", stability]]) {
    $(id).textContent = `${title} limit ${Number.isFinite(limit) ? limit.toPrecision(3) : "none"}`;
    $(id).disabled = !Number.isFinite(limit);
    $(id).addEventListener("click", () => setStrength(limit));
  }
  const part = (limit) => Math.min(1, limit / strongest);
  $("zone-good").style.width = `${100 * part(positivity)}%`;
  $("zone-amber").style.width = `${100 * Math.max(0, part(stability) - part(positivity))}%`;
  $("zone-bad").style.width = `${100 * (1 - Math.max(part(stability), part(positivity)))}%`;
  write("layers-max", `${mostLayers.toLocaleString("en")} layers`);

  const brush = () => Number(document.querySelector("input[name=brush]:checked").value);
  function label(i, code) {
    flow.hold(i, flow.held.get(i) === code ? null : code);
    flow.goTo(wanted.layers);
    controls();
    ask();
  }
  $("release").addEventListener("click", () => {
    flow.releaseAll();
    flow.goTo(wanted.layers);
    controls();
    ask();
    canvas.focus();
  });

  // Text that a spreadsheet would run as a formula gets a ' before it, as in every other table that is written.
  const cell = (text) => `"${text.replace(/^(?=[=+\-@\t\r].)/, "'").replaceAll('"', '""')}"`;
  $("save").addEventListener("click", () => {
    const lines = [...flow.held].map(([i, code]) => `${(data.rows ? data.rows[i] : i) + 1},${cell(name(i))},${cell(data.classes[code])}`);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([["row,point,label", ...lines, ""].join("\n")], { type: "text/csv" }));
    link.download = "labels.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });

  canvas.addEventListener("pointermove", (event) => {
    const i = stage.nearest(event);
    if (i !== hovered) { hovered = i; chosen = -1; ask(); }
  });
  canvas.addEventListener("pointerleave", () => { hovered = -1; ask(); });
  canvas.addEventListener("click", (event) => {
    const i = stage.nearest(event);
    if (i >= 0) label(i, brush());
  });

  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  function move(direction) {
    if (chosen >= 0) chosen = stage.next(chosen, direction);
    else chosen = hovered >= 0 ? hovered : trained[0] ?? 0;
  }
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (ARROWS[event.key]) move(ARROWS[event.key]);
    else if (event.key === "Escape") chosen = -1;
    else if (chosen >= 0 && (event.key === "Enter" || event.key === " ")) label(chosen, brush());
    else if (chosen >= 0 && event.key >= "1" && event.key <= "9" && Number(event.key) <= classes) label(chosen, Number(event.key) - 1);
    else return;
    event.preventDefault();
    ask();
  });
  canvas.addEventListener("blur", () => { chosen = -1; ask(); });

  function renew() { stage.prepare(); ask(); }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", renew);
  new ResizeObserver(renew).observe(canvas);
  renew();
  controls();

  // For the console: explorer.u() gives the outputs that are shown, row by row.
  window.explorer = {
    u: () => Array.from({ length: n }, (_, i) => Array.from({ length: classes }, (_, k) => value(shown.u, i, k))),
    state: () => ({ ...wanted, layer: shown.layer, settled: !stale && !queued, held: Object.fromEntries(flow.held), playing }),
    frames: () => frames.slice(),
    place: (i) => stage.inWindow(i),
  };
})();
