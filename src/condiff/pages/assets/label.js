// The labelling page. Whatever comes from the table is text, never markup.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  // A page that is loaded again is the same browser: its row is still kept for it, and it may undo what it said.
  const who = sessionStorage.getItem("who") ?? [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  sessionStorage.setItem("who", who);
  const MOST = 5, LONG = 12; // labels that look wrong; letters of a name that needs room
  let card = null, state = null, shown = [], busy = false, issuesOf = -1;

  function made(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  async function ask(path, content) {
    const options = content === undefined ? {} : {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ who, ...content }),
    };
    let response;
    try {
      response = await fetch(path, options);
    } catch {
      throw new Error("condiff label does not answer: was it stopped? Nothing that it acknowledged is lost");
    }
    const found = await response.json();
    if (!response.ok) throw Object.assign(new Error(found.error), { status: response.status });
    return found;
  }

  function tell(words, bad = false) {
    $("told").textContent = words;
    $("told").classList.toggle("bad", bad);
  }

  const percent = (part) => `${Math.round(100 * part)}\u00a0%`;

  function drawing(pixels) {
    const side = pixels.length, canvas = made("canvas", { width: side, height: side });
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `picture of ${side} by ${side} numbers`);
    const context = canvas.getContext("2d"), image = context.createImageData(side, side);
    pixels.flat().forEach((value, at) => image.data.set([255 * value, 255 * value, 255 * value, 255], 4 * at));
    context.putImageData(image, 0, 0);
    return canvas;
  }

  // ---- the row ------------------------------------------------------------------------------------------------

  function showLook() {
    const look = $("look");
    look.replaceChildren();
    if (card.picture) look.append(made("img", { src: card.picture, alt: card.file }), made("p", { className: "muted file" }, card.file));
    if (card.pixels) look.append(drawing(card.pixels));
    for (const [name, value] of card.texts) {
      look.append(made("p", { className: "text", tabIndex: 0 }, value));
      look.lastChild.setAttribute("role", "region");
      look.lastChild.setAttribute("aria-label", name);
    }
    if (card.cells.length) {
      const region = made("dl", { className: "cells", tabIndex: 0 });
      for (const [name, value] of card.cells) region.append(made("div", {}, made("dt", {}, name), made("dd", {}, value || "–")));
      region.setAttribute("aria-label", "cells of the row");
      look.append(region);
    }
  }

  // Up to nine classes keep their places; of more, the most probable ones are shown, and stay where they are while a row
  // is looked at: a key must not change its meaning under the finger. Classes that are digits have these as keys.
  function choices() {
    const names = state.classes.map(([name]) => name), digits = names.every((name) => /^[0-9]$/.test(name));
    if (digits) return names.sort().map((name) => ({ name, key: name }));
    if (card) card.likely ??= card.answers.map(([name]) => name);
    const first = names.length <= 9 ? names : [...new Set([...(card?.likely ?? []), ...names])].slice(0, 9);
    return first.map((name, at) => ({ name, key: String(at + 1) }));
  }

  function showClasses() {
    const chances = new Map(card ? card.answers : []), best = card && card.answers.length ? card.answers[0][0] : null;
    const focused = document.activeElement?.dataset?.name;
    shown = choices();
    $("classes").classList.toggle("wide", shown.some(({ name }) => name.length > LONG));
    $("classes").replaceChildren(...shown.map(({ name, key }) => {
      const chance = chances.get(name), button = made("button", { type: "button" });
      button.dataset.name = name;
      button.classList.toggle("answer", name === best);
      button.setAttribute("aria-pressed", String(card !== null && card.said.label === name));
      button.append(made("kbd", {}, key), made("span", { className: "name" }, name));
      if (chance !== undefined) {
        const bar = made("span", { className: "bar" });
        bar.style.width = `${100 * chance}%`;
        button.append(made("span", { className: "chance" }, percent(chance)), bar);
      }
      button.addEventListener("click", () => decide("label", name));
      return button;
    }));
    if (focused !== undefined) [...$("classes").children].find((each) => each.dataset.name === focused)?.focus();
    $("classes-title").textContent = shown.length ? "Which class?" : "No class yet: type the first one below";
    $("known").replaceChildren(...state.classes.map(([name]) => made("option", { value: name })));
  }

  function line(row, ...said) {
    const item = made("li");
    if (row.picture) item.append(made("img", { src: row.picture, alt: "" }));
    else if (row.pixels) item.append(drawing(row.pixels));
    const name = made("span", { className: "which" }, `row ${row.row + 1}`);
    item.append(made("div", {}, name, row.text ? ` ${row.text}` : "", made("span", { className: "said" }, ...said)));
    return item;
  }

  function showNeighbours() {
    $("neighbours").replaceChildren(...card.neighbours.map((row) => {
      const [answer] = row.answers;
      const said = row.label ? ["labelled ", made("b", {}, row.label)]
        : answer ? ["answer ", made("b", {}, answer[0]), ` ${percent(answer[1])}`] : ["nothing known yet"];
      return line(row, ...said, `; counts ${percent(row.share)}`);
    }));
  }

  function show(found) {
    card = found;
    $("card").hidden = false;
    if (card === null) {
      $("row-name").textContent = "Every row is decided on";
      $("why").textContent = $("now").textContent = "";
      $("look").replaceChildren();
      $("neighbours").replaceChildren();
      showClasses();
      return;
    }
    $("row-name").textContent = card.name;
    $("why").textContent = card.drawn ? "drawn at random, to measure the answers" : card.said.kind === "open" && !card.said.label ? "its label would tell most" : "";
    showLook();
    const [best] = card.answers, before = card.said.label ? `Labelled ${card.said.label}. ` : "";
    $("now").textContent = best ? `${before}Answer now: ${best[0]}, ${percent(best[1])}.` : `${before}No answer yet.`;
    showClasses();
    showNeighbours();
  }

  // ---- how it goes ----------------------------------------------------------------------------------------------

  function showState(found) {
    const before = state;
    state = found;
    const others = [["not sure", found.unsure], ["none of these", found.none], ["skipped", found.skipped]].filter(([, count]) => count);
    $("labelled").textContent = `${found.labelled} of ${found.rows} rows` + others.map(([name, count]) => `, ${count} ${name}`).join("");
    const score = found.score;
    $("score").textContent = score
      ? `${percent(score.right / score.of)} of ${score.of} labels held out (95 % interval ${Math.round(100 * score.low)} to ${percent(score.high)})`
      : "not known yet: some rows are drawn at random to measure it";
    const flows = found.moved.flows.map(([old, now, count]) => `${old} → ${now} (${count})`).join(", ");
    $("moved").textContent = found.fit < 2 ? "none yet" : `${found.moved.rows} by the last labels${flows ? `: ${flows}` : ""}`;
    $("gain").textContent = found.gain === null ? "not known yet"
      : found.gain < 0.05 ? "hardly anything more, if it goes on like this" : `about ${found.gain.toFixed(1)} points more, if it goes on like this`;
    showModel(found.model);
    if (found.problem) tell(`The model could not follow (${found.problem}); your labels are safe`, true);
    if (!before || JSON.stringify(before.classes) !== JSON.stringify(found.classes)) showClasses();
    if (found.fit !== issuesOf) {
      showIssues(found.fit).catch((error) => {
        issuesOf = -1; // once more when the server answers again
        tell(error.message, true);
      });
    }
  }

  // A status is read aloud when it changes: seconds that pass stay out of it.
  function say(id, words) {
    if ($(id).textContent !== words) $(id).textContent = words;
  }

  function showModel({ busy: fitting, seconds, problem, found }) {
    $("fit").disabled = fitting;
    $("fit").title = fitting ? `for ${seconds} s` : "";
    const stale = found && !found.current ? " Labels have come in since." : "";
    say("model", fitting ? "Fitting a full model; you may go on labelling." : problem ? `No model: ${problem}`
      : found ? `Full model of ${found.labels} labels in ${found.folder}: ${found.score}.${stale}` : "");
    $("model").classList.toggle("bad", Boolean(problem) && !fitting);
    $("use").hidden = !found || fitting || Boolean(problem);
    say("command", found ? found.use : "");
  }

  async function showIssues(fit) {
    issuesOf = fit;
    const found = await ask("issues");
    $("issues").replaceChildren(...found.slice(0, MOST).map((row) => {
      const item = line(row, "labelled ", made("b", {}, row.label), ` (${percent(row.chance)}), answer `, made("b", {}, row.answer), ` ${percent(row.answer_chance)}`);
      const button = made("button", { type: "button" }, `Look at row ${row.row + 1}`);
      button.addEventListener("click", () => attempt(() => go(row.row)));
      item.lastChild.append(button);
      return item;
    }));
    const more = found.length - MOST;
    if (!found.length) $("issues").append(made("li", { className: "muted" }, "none so far"));
    if (more > 0) $("issues").append(made("li", { className: "muted" }, `and ${more} more, when these are settled`));
  }

  // ---- what a person does ---------------------------------------------------------------------------------------

  async function attempt(action) {
    if (busy) return;
    busy = true;
    try {
      await action();
    } catch (error) {
      tell(error.message, true);
      if (error.status === 409) show(await ask(`card?who=${who}&row=${card.row}`));
    } finally {
      busy = false;
    }
  }

  async function go(row) {
    show(await ask(`card?who=${who}${row === undefined ? "" : `&row=${row}`}`));
    $("card").focus();
  }

  function decide(kind, label = "") {
    return attempt(async () => {
      if (card === null) return;
      const said = { unsure: "not sure", none: "none of these", skip: "skipped" }[kind] ?? label;
      await ask("act", { row: card.row, seen: card.seen, kind, label });
      const name = card.name;
      const [next, now] = await Promise.all([ask(`card?who=${who}`), ask("state")]);
      card = null;
      showState(now);
      show(next);
      tell(`${name}: ${said}. Saved. ${next ? `Now ${next.name}.` : "That was the last one."}`);
    });
  }

  function undo() {
    return attempt(async () => {
      const { row } = await ask("undo", {});
      if (row === null) {
        tell("There is nothing of yours to undo");
        return;
      }
      const [back, now] = await Promise.all([ask(`card?who=${who}&row=${row}`), ask("state")]);
      showState(now);
      show(back);
      tell(`${back.name} is as it was before`);
    });
  }

  // What is typed means the class of that name, or the only one that begins with it, or else a new one.
  function meant() {
    const typed = $("search").value.trim().replace(/\s+/g, " "), small = typed.toLowerCase();
    const names = state.classes.map(([name]) => name), begun = small.length > 1 && !/^[0-9]+$/.test(small);
    const alike = begun ? names.filter((name) => name.toLowerCase().startsWith(small)) : [];
    const same = names.find((name) => name === typed) ?? names.find((name) => name.toLowerCase() === small);
    return { typed, same, alike, known: same ?? (alike.length === 1 ? alike[0] : undefined) };
  }

  function showMeant() {
    const { typed, same, alike, known } = meant();
    $("take").disabled = !typed || (!known && alike.length > 1);
    $("take").textContent = known ? `Choose ${known}` : "Add";
    $("new").hidden = !typed || Boolean(same) || !alike.length;
    say("meant", !known && alike.length > 1 ? `${alike.length} classes begin like this: ${alike.slice(0, 5).join(", ")}${alike.length > 5 ? ", …" : ""}` : "");
  }

  function take(label) {
    $("search").value = "";
    showMeant();
    decide("label", label).then(() => $("card").focus());
  }

  $("search").addEventListener("input", showMeant);
  $("find").addEventListener("submit", (event) => {
    event.preventDefault();
    const { typed, alike, known } = meant();
    if (typed && (known || !alike.length)) take(known ?? typed);
  });
  $("new").addEventListener("click", () => take(meant().typed));
  for (const button of document.querySelectorAll("[data-kind]")) button.addEventListener("click", () => decide(button.dataset.kind));
  $("undo").addEventListener("click", undo);
  $("export").addEventListener("click", () => attempt(async () => {
    const { labels, out } = await ask("export", {});
    $("saved").textContent = `${labels} labels in ${out}`;
  }));
  $("fit").addEventListener("click", () => attempt(async () => {
    const { labels, out } = await ask("fit", {});
    $("saved").textContent = `${labels} labels in ${out}`;
    showState(await ask("state"));
  }));

  document.addEventListener("keydown", (event) => {
    if (event.target === $("search")) {
      if (event.key === "Escape") $("card").focus();
      return;
    }
    if (event.altKey || event.metaKey || event.ctrlKey) {
      if (event.key === "z" && !event.altKey) { event.preventDefault(); undo(); }
      return;
    }
    const chosen = shown.find(({ key }) => key === event.key);
    const kind = { n: "unsure", x: "none", s: "skip" }[event.key];
    if (chosen) decide("label", chosen.name);
    else if (kind) decide(kind);
    else if (event.key === "u") undo();
    else if (event.key === "/") $("search").focus();
    else return;
    event.preventDefault();
  });

  // Others may label too, and the model follows a moment later.
  async function follow() {
    if (!busy && !document.hidden) {
      try {
        const found = await ask("state");
        const fresh = state && found.fit !== state.fit;
        showState(found);
        if (fresh && card && !busy) {
          const again = await ask(`card?who=${who}&row=${card.row}`);
          if (!busy && card && again.row === card.row && again.seen === card.seen) {
            card = { ...again, drawn: card.drawn, likely: card.likely };
            const [best] = card.answers;
            $("now").textContent = best ? `Answer now: ${best[0]}, ${percent(best[1])}.` : "No answer yet.";
            showClasses();
            showNeighbours();
          }
        }
      } catch (error) {
        tell(error.message, true);
      }
    }
    setTimeout(follow, 700);
  }

  attempt(async () => {
    showState(await ask("state"));
    await go();
  }).then(follow);
})();
