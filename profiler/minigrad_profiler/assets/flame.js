"use strict";
// The flame graph: the bars below a bar are its parts; a click or Enter zooms into it.

const LEAST = 0.0008; // of the width: narrower bars are not drawn
const LEVEL = 19;

// A node is [name, forward ns, backward ns, calls, parts].
class Flame {
  constructor(trees) {
    this.trees = trees;
    this.titles = { scope: "scope and op", line: "line and op", stack: "callers" };
    this.path = [];
  }

  start() {
    const names = Object.keys(this.trees);
    choices($("flame-by"), names.map((name) => [name, this.titles[name]]), names[0],
      (by) => this.show(by));
    $("flame-up").addEventListener("click", () => this.up());
    $("flame").addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.up();
    });
    this.show(names[0]);
  }

  show(by) {
    this.path = [this.trees[by]];
    this.draw();
  }

  up() {
    if (this.path.length > 1) this.path.pop();
    this.draw();
  }

  look(nodes) {
    this.path.push(...nodes);
    this.draw();
    const first = $("flame-body").querySelector("button");
    if (first) first.focus({ preventScroll: true });
  }

  draw() {
    const root = this.path[this.path.length - 1];
    const whole = root[1] + root[2];
    const bars = [];
    let deepest = 0;
    const add = (node, left, depth, chain) => {
      const time = node[1] + node[2];
      const width = whole ? time / whole : 0;
      if (width < LEAST && depth) return;
      deepest = Math.max(deepest, depth);
      bars.push(this.bar(node, left, width, depth, chain, time / whole));
      let at = left;
      for (const part of node[4]) {
        add(part, at, depth + 1, [...chain, part]);
        at += whole ? (part[1] + part[2]) / whole : 0;
      }
    };
    add(root, 0, 0, []);
    const body = $("flame-body");
    body.style.height = `${(deepest + 1) * LEVEL}px`;
    body.replaceChildren(...bars);
    $("flame-up").disabled = this.path.length < 2;
    $("flame-at").textContent = this.path.slice(1).map((node) => node[0]).join(" › ");
  }

  bar(node, left, width, depth, chain, part) {
    const [name, forward, backward, calls] = node;
    const time = forward + backward;
    const split = time ? 100 * forward / time : 0;
    const lines = [name, `${duration(time)}, ${(100 * part).toFixed(1)} % of the view`,
      `${duration(forward)} forward, ${duration(backward)} backward`, `${grouped(calls)} calls`];
    return element("button", {
      class: name === "(engine)" ? "flame-bar engine" : "flame-bar", "aria-label": lines.join(", "),
      style: `left: ${100 * left}%; width: ${100 * width}%; top: ${depth * LEVEL}px; `
        + `--split: ${split.toFixed(1)}%`,
      onclick: () => { tip.hide(); if (chain.length) this.look(chain); },
      onpointermove: (event) => tip.show(event.clientX, event.clientY, lines),
      onpointerleave: () => tip.hide(),
    }, width > 0.02 ? name : "");
  }
}
