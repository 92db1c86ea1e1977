"use strict";
// Engines side by side: a Gantt chart of the recorded backwards on one axis, work and span, times.

const GANTT = { width: 1000, left: 46, lane: 20 };

class Comparison {
  constructor(data) {
    this.data = data;
    this.length = Math.max(...data.runs.map((run) => run.length), 1e-9);
    this.scale = (GANTT.width - GANTT.left - 10) / this.length;
    const spent = new Map();
    for (const run of data.runs)
      for (const [, op, , start, stop] of run.bars) spent.set(op, (spent.get(op) || 0) + stop - start);
    this.ops = [...spent].sort((a, b) => b[1] - a[1]).map(([op]) => op);
  }

  kind(op) { return `op-${Math.min(this.ops.indexOf(op), 7)}`; }

  start() {
    const { data } = this;
    $("compare").hidden = false;
    $("verdict").textContent = data.verdict;
    $("limit").textContent = data.limit;
    $("bounds").textContent = `Work T₁ ${this.ms(data.work)}, span T∞ ${this.ms(data.span)}, `
      + `parallelism ${data.parallelism.toFixed(2)}. Least is max(T₁/p, T∞) of the nodes at their `
      + "best, most T₁/p + T∞ of the recorded run. Framed bars are on the critical path."
      + (data.runs.some((run) => run.bars.length) && data.shortest
        ? ` Of ${grouped(data.bars)} bars those from ${this.ms(data.shortest)} on are drawn.` : "");
    this.gantt();
    this.table("ways", ["engine", "median", "quartiles", "speed", "gradients"], data.ways.map((way) =>
      [way.name, this.ms(way.median), `${threeDigits(way.low)} to ${threeDigits(way.high)} ms`,
        `${(data.ways[0].median / Math.max(way.median, 1e-9)).toFixed(2)}×`,
        way.same_bits ? "same bits" : `≤ ${way.off.toExponential(1)} off`]));
    const names = Object.keys(data.runs[0] ? data.runs[0].losses : {});
    this.table("losses", ["recorded run", "took", "least", "most", ...names], data.runs.map((run) => {
      const total = Math.max(run.workers * run.length, 1e-9);
      const [low, high] = run.bounds || [NaN, NaN];
      const bound = (x) => Number.isFinite(x) ? this.ms(x) : "";
      return [run.name, this.ms(run.length), bound(low), bound(high),
        ...names.map((name) => `${(100 * Math.max(0, run.losses[name] || 0) / total).toFixed(0)} %`)];
    }));
  }

  ms(x) { return duration(x * 1e6); }

  table(id, titles, rows) {
    const cells = (tag, row) => row.map((cell, at) => element(tag, { class: at ? null : "left" }, cell));
    $(id).replaceChildren(element("div", { class: "scroll" }, element("table", {},
      element("thead", {}, element("tr", {}, ...cells("th", titles))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells("td", row)))))));
  }

  gantt() {
    const parts = [];
    let y = 4;
    for (const run of this.data.runs) {
      const lanes = Math.max(run.workers, ...run.bars.map((bar) => bar[0] + 1));
      if (lanes > 256) continue;
      parts.push(drawing("text", { x: GANTT.left, y: y + 12 }, `${run.name}: ${this.ms(run.length)}`));
      y += 18;
      for (let lane = 0; lane < lanes; lane++) {
        parts.push(drawing("rect", { class: "lane", x: GANTT.left, y: y + lane * GANTT.lane,
          width: run.length * this.scale, height: GANTT.lane - 3 }),
        drawing("text", { x: GANTT.left - 6, y: y + lane * GANTT.lane + 13, "text-anchor": "end" }, `w${lane}`));
      }
      for (const bar of run.bars) parts.push(this.bar(bar, y));
      y += lanes * GANTT.lane + 8;
    }
    const picture = drawing("svg", { viewBox: `0 0 ${GANTT.width} ${y}`, role: "img",
      "aria-label": "Gantt chart of the recorded backwards" }, ...parts);
    picture.addEventListener("pointermove", (event) => this.point(event, picture));
    picture.addEventListener("pointerleave", () => this.light(picture, null));
    const legend = element("div", { class: "legend" }, ...this.ops.slice(0, 7).map((op) =>
      element("span", {}, element("i", { class: this.kind(op) }), op)));
    $("gantt").replaceChildren(element("div", { class: "picture" }, picture), legend);
  }

  bar([lane, op, node, start, stop, critical], y) {
    return drawing("rect", { class: `${this.kind(op)}${critical ? " critical" : ""}`,
      x: GANTT.left + start * this.scale, y: y + lane * GANTT.lane, "data-node": node,
      width: Math.max(0.5, (stop - start) * this.scale), height: GANTT.lane - 3,
      "data-tip": `${op} #${node}\n${this.ms(stop - start)}, from ${this.ms(start)}\nworker ${lane}${
        critical ? "\non the critical path" : ""}` });
  }

  point(event, picture) {
    const { tip: text, node } = event.target.dataset;
    if (text) tip.show(event.clientX, event.clientY, text.split("\n")); else tip.hide();
    this.light(picture, node);
  }

  // The same node is lit in every run.
  light(picture, node) {
    picture.querySelectorAll(".lit").forEach((bar) => bar.classList.remove("lit"));
    if (node === undefined || node === null) return tip.hide();
    return picture.querySelectorAll(`[data-node="${Number(node)}"]`)
      .forEach((bar) => bar.classList.add("lit"));
  }
}
