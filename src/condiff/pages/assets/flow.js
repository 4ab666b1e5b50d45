"use strict";
// Explicit diffusion layers on a graph, with points that are held at a class. No page: arrays in, arrays out.
class Flow {
  // graph: indptr, indices, weights of a CSR matrix; base: n rows of c - 1 columns, the last one being the rest of 1.
  constructor(graph, base, points, classes) {
    this.graph = graph;
    this.points = points;
    this.classes = classes;
    this.columns = classes - 1;
    this.base = Float64Array.from(base);
    this.degree = new Float64Array(points);
    for (let i = 0; i < points; i++) {
      for (let e = graph.indptr[i]; e < graph.indptr[i + 1]; e++) {
        this.degree[i] += graph.weights[e];
      }
    }
    this.held = new Map();
    this.strength = 0;
    this.target = 0;
    this.spare = new Float64Array(this.base.length);
    this.current = new Float64Array(this.base.length);
    this.restart();
  }

  setStrength(strength) {
    if (strength !== this.strength) {
      this.strength = strength;
      this.restart();
    }
  }

  // Holds a point at a class, or frees it where the class is null.
  hold(point, code) {
    if (code === null) {
      this.held.delete(point);
    } else {
      this.held.set(point, code);
    }
    this.restart();
  }

  releaseAll() {
    this.held.clear();
    this.restart();
  }

  restart() {
    this.current.set(this.base);
    this.fixHeld(this.current);
    this.layer = 0;
    // Kept states to go back to; they are thinned out when there are many.
    this.stride = 1;
    this.kept = new Map([[0, this.current.slice()]]);
  }

  // Sets the layer to be reached; going back starts from the nearest state that was kept.
  goTo(layer) {
    this.target = layer;
    if (layer < this.layer) {
      const start = Math.floor(layer / this.stride) * this.stride;
      this.current.set(this.kept.get(start));
      this.layer = start;
    }
  }

  get done() {
    return this.layer === this.target;
  }

  // Computes layers until the target is reached or the milliseconds are spent.
  advance(milliseconds) {
    const end = performance.now() + milliseconds;
    while (this.layer < this.target) {
      this.step();
      if (performance.now() > end) {
        break;
      }
    }
    return this.done;
  }

  step() {
    const { indptr, indices, weights } = this.graph;
    const u = this.current, next = this.spare, c = this.columns, s = this.strength;
    for (let i = 0; i < this.points; i++) {
      const own = 1 - s * this.degree[i], row = i * c;
      if (c === 1) {
        let sum = 0;
        for (let e = indptr[i]; e < indptr[i + 1]; e++) {
          sum += weights[e] * u[indices[e]];
        }
        next[i] = own * u[i] + s * sum;
        continue;
      }
      for (let k = 0; k < c; k++) {
        next[row + k] = own * u[row + k];
      }
      for (let e = indptr[i]; e < indptr[i + 1]; e++) {
        const factor = s * weights[e], other = indices[e] * c;
        for (let k = 0; k < c; k++) {
          next[row + k] += factor * u[other + k];
        }
      }
    }
    this.fixHeld(next);
    this.spare = u;
    this.current = next;
    this.layer++;
    if (this.layer % this.stride === 0) {
      this.keep();
    }
  }

  keep() {
    this.kept.set(this.layer, this.current.slice());
    if (this.kept.size > 64) {
      this.stride *= 2;
      for (const layer of [...this.kept.keys()]) {
        if (layer % this.stride) {
          this.kept.delete(layer);
        }
      }
    }
  }

  fixHeld(u) {
    for (const [point, code] of this.held) {
      for (let k = 0; k < this.columns; k++) {
        u[point * this.columns + k] = k === code ? 1 : 0;
      }
    }
  }
}
