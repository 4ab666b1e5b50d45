"use strict";
// Steps of certainty that a disc's colour is made in.
const LEVELS = 24;

// A disc as pixels: their steps from its centre, the part of the ground that shows through each, and for every class
// and certainty what is added to that. shade(code, level) gives red, green and blue; the rim sets discs apart.
function makeDisc(radius, rimWidth, rim, classes, shade) {
  const dx = [], dy = [], through = [], parts = [];
  const reach = Math.ceil(radius + rimWidth + 1);
  const cover = (distance, size) => Math.max(0, Math.min(1, size + 0.5 - distance));
  for (let y = -reach; y <= reach; y++) {
    for (let x = -reach; x <= reach; x++) {
      const fill = cover(Math.hypot(x, y), radius), edge = cover(Math.hypot(x, y), radius + rimWidth);
      if (edge > 0) {
        dx.push(x);
        dy.push(y);
        through.push((1 - edge) * (1 - fill));
        parts.push([edge * (1 - fill), fill]);
      }
    }
  }
  const added = [];
  for (let code = 0; code < classes; code++) {
    for (let level = 0; level < LEVELS; level++) {
      const colour = shade(code, level), channels = new Float32Array(3 * parts.length);
      parts.forEach(([edge, fill], at) => {
        for (let c = 0; c < 3; c++) {
          channels[3 * at + c] = edge * rim[c] + fill * colour[c];
        }
      });
      added.push(channels);
    }
  }
  return { dx: Int16Array.from(dx), dy: Int16Array.from(dy), through: Float32Array.from(through), added };
}
