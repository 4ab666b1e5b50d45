"use strict";
// The map: points and edges on a canvas. It draws what it is told and knows nothing of the rest of the page.
class Stage {
  // graph: indptr and indices of a CSR matrix; positions: x and y of every point; colours: one for each class.
  constructor(canvas, graph, positions, colours) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
    this.graph = graph;
    this.positions = positions;
    this.colours = colours;
    this.points = positions.length / 2;
    // Where the points are, in pixels of the canvas.
    this.place = new Float32Array(positions.length);
  }

  // Reads the size and the colours of the page anew; the edges are drawn once, as the ground of every picture.
  prepare() {
    const { canvas, pen } = this;
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    const box = canvas.getBoundingClientRect();
    canvas.width = Math.max(1, Math.round(box.width * this.ratio));
    canvas.height = Math.max(1, Math.round(box.height * this.ratio));
    const style = getComputedStyle(document.documentElement);
    const [panel, neutral, muted, ink, bad] = ["--panel", "--neutral", "--muted", "--ink", "--bad"].map((key) =>
      style.getPropertyValue(key).trim());
    this.ink = ink;
    this.bad = bad;
    this.grey = this.rgb(neutral);
    this.radius = this.ratio * Math.max(2.4, Math.min(6, 130 / Math.sqrt(this.points)) * Math.min(1, box.width / 640));
    const shade = (code, level) => this.shade(code, level);
    this.disc = makeDisc(this.radius, 0.8 * this.ratio, this.rgb(panel), this.colours.length, shade);
    this.putPoints();
    pen.fillStyle = panel;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.strokeStyle = muted;
    pen.globalAlpha = Math.max(0.07, Math.min(0.28, 1500 / this.graph.indices.length));
    pen.lineWidth = 0.8 * this.ratio;
    pen.beginPath();
    for (let i = 0; i < this.points; i++) this.edges(i, (j) => j > i);
    pen.stroke();
    pen.globalAlpha = 1;
    this.ground = pen.getImageData(0, 0, canvas.width, canvas.height);
    this.picture = new ImageData(canvas.width, canvas.height);
  }

  putPoints() {
    const { positions, place } = this, { width, height } = this.canvas;
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let at = 0; at < positions.length; at += 2) {
      left = Math.min(left, positions[at]); right = Math.max(right, positions[at]);
      low = Math.min(low, positions[at + 1]); high = Math.max(high, positions[at + 1]);
    }
    const room = 8 * this.radius;
    const scale = Math.max(0, Math.min((width - room) / (right - left || 1), (height - room) / (high - low || 1)));
    for (let at = 0; at < positions.length; at += 2) {
      place[at] = width / 2 + scale * (positions[at] - (left + right) / 2);
      place[at + 1] = height / 2 - scale * (positions[at + 1] - (low + high) / 2);
    }
  }

  rgb(colour) {
    this.pen.fillStyle = "#000";
    this.pen.fillStyle = colour;
    const text = this.pen.fillStyle;
    return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  }

  shade(code, level) {
    const full = this.rgb(this.colours[code]), part = level / (LEVELS - 1);
    return full.map((x, channel) => this.grey[channel] + part * (x - this.grey[channel]));
  }

  // top: the class of every point; lead: by how much; sound: whether its values are probabilities; trained and held:
  // points with a ring and with two; looked: the point that is looked at, or -1, and whether it was chosen for good.
  draw({ top, lead, sound, trained, held, looked, chosen }) {
    const { pen, radius, place } = this;
    const levelOf = (i) => Math.round((LEVELS - 1) * Math.sqrt(Math.min(1, Math.max(0, lead[i] || 0))));
    this.blend(top, levelOf);
    pen.strokeStyle = this.bad;
    pen.lineWidth = 1.3 * this.ratio;
    pen.beginPath();
    const reach = 1.25 * radius;
    for (let i = 0; i < this.points; i++) {
      if (!sound[i]) {
        const x = place[2 * i], y = place[2 * i + 1];
        pen.moveTo(x, y - reach); pen.lineTo(x + reach, y); pen.lineTo(x, y + reach); pen.lineTo(x - reach, y); pen.closePath();
      }
    }
    pen.stroke();
    const large = (i) => this.large(i, this.shade(top[i], levelOf(i)));
    for (const i of trained) { large(i); this.ring(i, 1.5, this.ink); }
    for (const i of held) { large(i); this.ring(i, 1.5, this.ink); this.ring(i, 2.2, this.ink); }
    if (looked >= 0) {
      pen.strokeStyle = this.ink;
      pen.lineWidth = 1.2 * this.ratio;
      pen.beginPath();
      this.edges(looked, () => true);
      pen.stroke();
      large(looked);
      this.ring(looked, 1.7, chosen ? this.bad : this.ink);
    }
  }

  // Points are blended into the pixels by hand: thousands of discs a frame are too many for paths or stamps.
  blend(top, levelOf) {
    const { place, picture, ground } = this, { dx, dy, through, added } = this.disc;
    const pixels = picture.data, wide = picture.width, tall = picture.height;
    pixels.set(ground.data);
    for (let i = 0; i < this.points; i++) {
      const x = Math.round(place[2 * i]), y = Math.round(place[2 * i + 1]);
      const colour = added[top[i] * LEVELS + levelOf(i)];
      for (let m = 0; m < dx.length; m++) {
        const px = x + dx[m], py = y + dy[m];
        if (px < 0 || py < 0 || px >= wide || py >= tall) continue;
        const at = 4 * (py * wide + px), part = through[m];
        pixels[at] = pixels[at] * part + colour[3 * m];
        pixels[at + 1] = pixels[at + 1] * part + colour[3 * m + 1];
        pixels[at + 2] = pixels[at + 2] * part + colour[3 * m + 2];
      }
    }
    this.pen.putImageData(picture, 0, 0);
  }

  edges(i, wanted) {
    const { pen, place, graph } = this;
    for (let e = graph.indptr[i]; e < graph.indptr[i + 1]; e++) {
      const j = graph.indices[e];
      if (wanted(j)) { pen.moveTo(place[2 * i], place[2 * i + 1]); pen.lineTo(place[2 * j], place[2 * j + 1]); }
    }
  }

  circle(i, size) {
    this.pen.beginPath();
    this.pen.arc(this.place[2 * i], this.place[2 * i + 1], size * this.radius, 0, 2 * Math.PI);
  }

  ring(i, size, colour) {
    this.pen.strokeStyle = colour;
    this.pen.lineWidth = 2 * this.ratio;
    this.circle(i, size);
    this.pen.stroke();
  }

  // A disc that stands out, for the few points that do.
  large(i, [r, g, b]) {
    this.pen.fillStyle = `rgb(${Math.round(r)} ${Math.round(g)} ${Math.round(b)})`;
    this.circle(i, 1.5);
    this.pen.fill();
  }

  // The point under the pointer, or -1.
  nearest(event) {
    const { place, ratio } = this, box = this.canvas.getBoundingClientRect();
    const x = (event.clientX - box.left) * ratio, y = (event.clientY - box.top) * ratio;
    let best = -1, distance = (14 * ratio) ** 2;
    for (let i = 0; i < this.points; i++) {
      const d = (place[2 * i] - x) ** 2 + (place[2 * i + 1] - y) ** 2;
      if (d < distance) { distance = d; best = i; }
    }
    return best;
  }

  // The next point in a direction, or the point itself where there is none.
  next(from, [dx, dy]) {
    const { place } = this;
    let best = from, cost = Infinity;
    for (let i = 0; i < this.points; i++) {
      const x = place[2 * i] - place[2 * from], y = place[2 * i + 1] - place[2 * from + 1];
      const along = x * dx + y * dy, aside = Math.abs(x * dy - y * dx);
      if (i !== from && along > 0 && along >= aside && along + 2 * aside < cost) { cost = along + 2 * aside; best = i; }
    }
    return best;
  }

  // Where a point is in the window.
  inWindow(i) {
    const box = this.canvas.getBoundingClientRect();
    return [box.left + this.place[2 * i] / this.ratio, box.top + this.place[2 * i + 1] / this.ratio];
  }
}
