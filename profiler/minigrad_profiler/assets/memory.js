"use strict";
// Memory over time by category, the live set at the peak, and the arrays kept for the backward.

const CHART = { width: 1000, height: 240, left: 62, bottom: 24, top: 12 };

class MemoryChart {
  constructor(data) {
    this.data = data;
    const times = data.timeline.map(([t]) => t);
    this.stop = Math.max(...times, 1);
  }

  x(t) { return CHART.left + (CHART.width - CHART.left - 8) * Math.min(1, Math.max(0, t / this.stop)); }
  y(n) {
    const { height, bottom, top } = CHART;
    return height - bottom - (height - bottom - top) * n / (this.data.peak || 1);
  }

  start() {
    const { data } = this;
    $("memory").hidden = false;
    const needless = data.owners.reduce((sum, owner) => sum + owner.needless, 0);
    const waits = data.owners.reduce((sum, owner) => sum + owner.waiting, 0);
    const kinds = Object.entries(data.at_peak).map(([name, n]) => `${bytes(n)} ${name}`).join(", ");
    $("memory-text").textContent = `Peak ${bytes(data.peak)} at ${duration(data.peak_ns)}${kinds && `: ${kinds}`}. `
      + `${bytes(waits)} of it waited for the backward (at most ${bytes(data.most_waiting)}, at `
      + `${duration(data.most_waiting_ns)}); ${bytes(needless)} was never read again. If every array went after its last use the peak would be ${bytes(data.possible)}. `
      + `${bytes(data.at_end)} alive at the end.`
      + (data.untracked ? ` ${grouped(data.untracked)} arrays were not followed.` : "");
    this.draw();
    this.legend();
    this.tables();
  }

  draw() {
    const { data } = this;
    const steps = data.timeline;
    const sums = steps.map(() => 0);
    const areas = data.categories.map((name, at) => {
      const below = [...sums];
      steps.forEach(([, , kinds], i) => { sums[i] += kinds[at]; });
      if (!steps.some(([, , kinds]) => kinds[at])) return null;
      const over = steps.map(([t], i) => `${this.x(t).toFixed(1)},${this.y(sums[i]).toFixed(1)}`);
      const under = steps.map(([t], i) => `${this.x(t).toFixed(1)},${this.y(below[i]).toFixed(1)}`);
      return drawing("polygon", { points: [...over, ...under.reverse()].join(" "),
        class: `kind-${at}` });
    });
    const axis = ticks(0, this.stop, 8).map((t) => drawing("text", { x: this.x(t), y: CHART.height - 7,
      "text-anchor": "middle" }, duration(t)));
    const levels = [0, 0.5, 1].map((part) => drawing("text", { x: CHART.left - 6,
      y: this.y(part * data.peak) + 4, "text-anchor": "end" }, bytes(part * data.peak)));
    const peak = this.x(data.peak_ns);
    this.span = drawing("rect", { class: "span", y: CHART.top, height: CHART.height
      - CHART.bottom - CHART.top, width: 0, x: 0 });
    this.hair = drawing("line", { class: "hair", y1: CHART.top, y2: CHART.height - CHART.bottom });
    const picture = drawing("svg", { viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: "img",
      "aria-label": $("memory-text").textContent,
      onpointermove: (event) => this.point(event, picture),
      onpointerleave: () => { tip.hide(); this.hair.classList.remove("on"); },
    }, ...areas, this.span,
    drawing("line", { class: "peak", x1: peak, x2: peak, y1: 4, y2: CHART.height - CHART.bottom }),
    drawing("text", { x: peak + (peak > 900 ? -5 : 5), y: 11,
      "text-anchor": peak > 900 ? "end" : "start" }, "peak"),
    ...axis, ...levels, this.hair);
    $("memory-chart").replaceChildren(picture);
  }

  point(event, picture) {
    const box = picture.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * CHART.width;
    const { timeline, categories } = this.data;
    let at = 0;
    while (at < timeline.length - 1 && this.x(timeline[at][0]) < x) at += 1;
    const [t, total, kinds] = timeline[at];
    this.hair.setAttribute("x1", this.x(t));
    this.hair.setAttribute("x2", this.x(t));
    this.hair.classList.add("on");
    tip.show(event.clientX, event.clientY, [`${bytes(total)} at ${duration(t)}`,
      ...kinds.map((n, i) => n ? `${bytes(n)} ${categories[i]}` : "")]);
  }

  legend() {
    const { categories, timeline } = this.data;
    $("memory-legend").replaceChildren(...categories.map((name, at) =>
      timeline.some(([, , kinds]) => kinds[at])
        ? element("span", {}, element("i", { class: `kind-${at}` }), name) : ""));
  }

  // Marks a stretch of time in the chart.
  mark(from, to) {
    this.span.setAttribute("x", this.x(from));
    this.span.setAttribute("width", Math.max(2, this.x(to) - this.x(from)));
  }

  tables() {
    const { data } = this;
    const place = (row) => row.place ? placeLink(row.place) : "";
    const spanned = (from, to) => (row) => element("button", { class: "small",
      title: "Show in the chart", onclick: () => this.mark(from(row), to(row)) }, duration(to(row)));
    const text = (title, value) => ({ title, left: true, value, text: value });
    const amount = (title, value) => ({ title, value, text: (row) => value(row) ? bytes(value(row)) : "" });
    const first = { title: "line", left: true, cell: place,
      value: (row) => `${row.place} ${row.op} ${row.scope} ${row.category || ""}` };
    const gone = (row) => row.released_ns === null ? Infinity : row.released_ns;
    new Grid($("owners"), [
      first, text("made by", (row) => row.op), text("scope", (row) => row.scope),
      text("category", (row) => row.category),
      amount("bytes", (row) => row.bytes), amount("waits for the backward", (row) => row.waiting),
      amount("never read again", (row) => row.needless),
      { title: "could go at", value: (row) => row.earliest_ns,
        cell: spanned(() => data.peak_ns, (row) => row.earliest_ns) },
      { title: "went at", value: gone,
        text: (row) => row.released_ns === null ? "never" : duration(row.released_ns) },
    ], data.owners, 4, "Owners of memory at the peak");
    if (data.rest[0]) $("owners").append(element("p", { class: "quiet" },
      `${grouped(data.rest[0])} more owners with ${bytes(data.rest[1])}`));
    new Grid($("waiting"), [
      first, text("made by", (row) => row.op), text("scope", (row) => row.scope),
      amount("most at once", (row) => row.bytes),
      { title: "arrays", value: (row) => row.count, text: (row) => grouped(row.count) },
      { title: "could go at", value: (row) => row.start_ns, cell: spanned((row) => row.start_ns,
        (row) => row.start_ns) },
      { title: "backward read it at", value: (row) => row.stop_ns,
        cell: spanned((row) => row.start_ns, (row) => row.stop_ns) },
    ], data.waiting, 3, "Arrays that waited for the backward");
  }
}
