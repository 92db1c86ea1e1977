"use strict";
// The roofline: operations a second over operations a byte, both logarithmic, under two roofs.

const ROOF = { width: 1000, height: 400, left: 70, right: 16, top: 18, bottom: 44 };

class RoofChart {
  constructor(data) { this.data = data; }

  start() {
    choices($("roof-by"), [["op", "op"], ["line", "line"]], "op", (by) => this.draw(by));
    $("roof-legend").replaceChildren(...["compute", "memory", "overhead"].map((bound) =>
      element("span", {}, element("i", { class: bound }), `${bound} bound`)),
    element("span", {}, element("i", { class: "neither" }), "none of these"),
    element("span", {}, "● forward"), element("span", {}, "◆ backward"));
    const { peaks } = this.data;
    $("roof-text").textContent = `Measured on the machine that wrote this report: ${
      rate(peaks.float32)}FLOP/s float32, ${rate(peaks.float64)}FLOP/s float64, ${
      rate(peaks.bandwidth)}B/s from memory, ${rate(peaks.cached)}B/s from caches (dashed): the roof of a point
      is that of the cache or memory which holds the arrays of one call. Ops without a count of operations are left out.`;
    this.draw("op");
  }

  frame(points) {
    const { peaks } = this.data;
    const ridge = peaks.float32 / peaks.bandwidth;
    const xs = [...points.map((p) => p.intensity), ridge / 10, ridge * 4].map(Math.log10);
    const ys = [...points.map((p) => p.rate), peaks.float32 * 1.3, peaks.float32 / 1e3].map(Math.log10);
    const [x0, x1] = [Math.min(...xs) - 0.15, Math.max(...xs) + 0.15];
    const [y0, y1] = [Math.min(...ys) - 0.1, Math.max(...ys)];
    this.bounds = [x0, x1, y0, y1];
    this.x = (v) => ROOF.left + (ROOF.width - ROOF.left - ROOF.right) * (Math.log10(v) - x0) / (x1 - x0);
    this.y = (v) => ROOF.height - ROOF.bottom
      - (ROOF.height - ROOF.top - ROOF.bottom) * (Math.log10(v) - y0) / (y1 - y0);
  }

  draw(by) {
    const { peaks, points } = this.data;
    const shown = points[by];
    this.frame(shown);
    const most = Math.max(...shown.map((p) => p.self), 1);
    const marks = shown.slice().reverse().map((point) => this.point(point, most));
    $("roof").replaceChildren(drawing("svg", { viewBox: `0 0 ${ROOF.width} ${ROOF.height}`,
      role: "group", "aria-label": "Roofline" }, ...this.axes(),
    this.roof("float32", peaks.float32, peaks.bandwidth), this.roof("float64", peaks.float64, peaks.bandwidth),
    this.slope(peaks.float32, peaks.cached), ...marks,
    ...this.labels(shown)));
  }

  axes() {
    const [x0, x1, y0, y1] = this.bounds;
    const found = [];
    const bottom = ROOF.height - ROOF.bottom;
    for (let power = Math.ceil(x0); power <= x1; power++) {
      const x = this.x(10 ** power);
      found.push(drawing("line", { class: "grid", x1: x, x2: x, y1: ROOF.top, y2: bottom }),
        drawing("text", { x, y: bottom + 15, "text-anchor": "middle" }, String(10 ** power)));
    }
    for (let power = Math.ceil(y0); power <= y1; power++) {
      const y = this.y(10 ** power);
      found.push(drawing("line", { class: "grid", y1: y, y2: y, x1: ROOF.left, x2: ROOF.width - ROOF.right }),
        drawing("text", { x: ROOF.left - 6, y: y + 4, "text-anchor": "end" }, rate(10 ** power).trim()));
    }
    found.push(drawing("text", { x: ROOF.width / 2, y: ROOF.height - 8, "text-anchor": "middle" },
      "operations a byte"),
    drawing("text", { transform: `translate(13 ${ROOF.height / 2}) rotate(-90)`,
      "text-anchor": "middle" }, "operations a second"));
    return found;
  }

  // From the lowest rate shown up to the peak, and on to the right edge.
  line(peak, bandwidth) {
    const [x0, x1, y0] = this.bounds;
    const left = Math.max(10 ** x0, 10 ** y0 / bandwidth);
    const points = [[left, left * bandwidth], [peak / bandwidth, peak], [10 ** x1, peak]]
      .filter(([x]) => x >= left);
    return drawing("polyline", { points: points.map(([x, y]) => `${this.x(x)},${this.y(y)}`).join(" ") });
  }

  slope(peak, bandwidth) {
    return drawing("g", { class: "roof float32 caches" }, this.line(peak, bandwidth));
  }

  roof(name, peak, bandwidth) {
    return drawing("g", { class: `roof ${name}` },
      this.line(peak, bandwidth),
      drawing("text", { x: ROOF.width - ROOF.right, "text-anchor": "end",
        y: this.y(peak) + (name === "float32" ? -5 : 14) }, `${name} ${rate(peak)}FLOP/s`));
  }

  point(point, most) {
    const [x, y] = [this.x(point.intensity), this.y(point.rate)];
    const size = 3.5 + 7 * Math.sqrt(point.self / most);
    const lines = [`${point.name} ${point.phase}`, `${duration(point.self)}, ${grouped(point.calls)} calls`,
      `${rate(point.rate)}FLOP/s, ${rate(point.speed)}B/s`,
      `${point.intensity.toPrecision(3)} operations a byte`,
      `${(100 * point.roof).toFixed(0)} % of the roof${point.bound && `: ${point.bound} bound`}`];
    const hands = {
      class: `point ${point.bound}`, tabindex: "0", role: "img", "aria-label": lines.join(", "),
      onpointerenter: (event) => tip.show(event.clientX, event.clientY, lines),
      onpointerleave: () => tip.hide(),
      onfocus: (event) => {
        const box = event.target.getBoundingClientRect();
        tip.show(box.right, box.top, lines);
      },
      onblur: () => tip.hide(),
    };
    if (point.phase === "forward") return drawing("circle", { ...hands, cx: x, cy: y, r: size });
    const corners = [[x, y - size], [x + size, y], [x, y + size], [x - size, y]];
    return drawing("polygon", { ...hands, points: corners.map((corner) => corner.join()).join(" ") });
  }

  // Names of the longest points, where they do not lie on each other.
  labels(points) {
    const taken = points.map((point) => ({ x: this.x(point.intensity) - 8, width: 16,
      y: this.y(point.rate) + 4 }));
    for (const name of ["float32", "float64"])
      taken.push({ x: ROOF.width - 150, width: 140,
        y: this.y(this.data.peaks[name]) + (name === "float32" ? -5 : 14) });
    const clash = (x, y, width) => taken.some((box) =>
      Math.abs(box.y - y) < 12 && x < box.x + box.width && box.x < x + width);
    return points.slice(0, 24).map((point) => {
      const text = point.name.length > 30 ? `…${point.name.slice(-29)}` : point.name;
      const [at, y] = [this.x(point.intensity), this.y(point.rate) + 4];
      const width = text.length * 6.2;
      const x = [at + 13, at - 13 - width].find((left) => left > ROOF.left
        && left + width < ROOF.width - ROOF.right && !clash(left, y, width));
      if (x === undefined) return null;
      taken.push({ x, y, width });
      return drawing("text", { class: "label", x, y }, text);
    });
  }
}
