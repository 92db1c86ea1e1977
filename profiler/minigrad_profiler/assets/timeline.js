"use strict";
// The timeline: a canvas of lanes; drag, wheel and keys move it, Shift+drag selects a stretch.

const RULER = 22;
const MOST_ARROWS = 300;
const TONES = { forward: "forward", backward: "backward", pass: "engine", communication: "accent",
  optimizer: "optimizer", hook: "hook" };

class Timeline {
  constructor(data) {
    this.data = data;
    this.model = makeLanes(data);
    this.canvas = $("chart");
    this.from = 0;
    this.to = data.span;
    this.hover = null;
    this.picked = null; // [from, to] of the selection
    this.arrows = false;
    this.selecting = false;
    let y = RULER;
    this.tops = this.model.lanes.map((lane) => { const top = y; y += lane.height; return top; });
    this.height = Math.max(y + 12, 80);
  }

  start() {
    const { data } = this;
    const bars = this.model.lanes.reduce((sum, lane) => sum + lane.bars.length, 0);
    const rest = this.model.lanes.reduce((sum, lane) => sum + lane.rest, 0);
    const marks = data.lanes.reduce((sum, lane) => sum + lane.marks.length, 0);
    $("honest").textContent = (rest
      ? `${grouped(bars - marks)} of ${grouped(bars - marks + rest)} events have a bar, those longer than `
        + `${duration(data.shortest)}; the grey strip below each lane shows the ${grouped(rest)} others: `
        + "the darker, the busier. " : bars - marks ? `All ${grouped(bars - marks)} events have a bar. ` : "No event was recorded. ")
      + (data.marks > marks ? `${grouped(marks)} of ${grouped(data.marks)} scopes and steps. ` : "")
      + (data.hidden ? `${grouped(data.hidden)} more threads with ${grouped(data.hidden_events)} `
        + "events are not drawn. " : "")
      + "Drag to move, Ctrl+wheel or + − to zoom, Shift+drag to select, click a bar for its partner.";
    this.hands();
    whenResized(() => this.draw());
  }

  get width() { return this.canvas.clientWidth || 1; }
  x(t) { return (t - this.from) / (this.to - this.from) * this.width; }
  t(x) { return this.from + x / this.width * (this.to - this.from); }

  look(from, to) {
    const least = Math.min(200, this.data.span);
    const length = Math.min(Math.max(to - from, least), this.data.span);
    this.from = Math.min(Math.max(0, from), this.data.span - length);
    this.to = this.from + length;
    this.draw();
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    this.look(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  pan(part) {
    const step = part * (this.to - this.from);
    this.look(this.from + step, this.to + step);
  }

  // -- drawing ----------------------------------------------------------------------------------

  draw() {
    const { canvas } = this;
    canvas.style.height = `${this.height}px`;
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(this.width * scale);
    canvas.height = Math.round(this.height * scale);
    const paint = canvas.getContext("2d");
    paint.setTransform(scale, 0, 0, scale, 0, 0);
    paint.font = "11px system-ui, sans-serif";
    paint.textBaseline = "middle";
    this.colours = Object.fromEntries(["ink", "quiet", "rule", "forward", "backward", "engine",
      "mark", "optimizer", "hook", "accent", "panel", "onbar"].map((name) => [name, colour(name)]));
    this.drawRuler(paint);
    this.model.lanes.forEach((lane, at) => this.drawLane(paint, lane, this.tops[at]));
    if (this.picked) this.drawPicked(paint);
    if (this.arrows) this.drawArrows(paint);
    const shown = this.chosen || this.hover;
    const other = shown && partner(this.model, shown);
    if (other) this.drawArrow(paint, shown, other, this.colours.accent, 1.6);
    $("range").textContent = `${duration(this.from)} to ${duration(this.to)}`;
  }

  drawRuler(paint) {
    paint.fillStyle = this.colours.quiet;
    paint.strokeStyle = this.colours.rule;
    for (const at of ticks(this.from, this.to, Math.max(2, this.width / 110))) {
      const x = this.x(at);
      paint.beginPath();
      paint.moveTo(x + 0.5, 0);
      paint.lineTo(x + 0.5, this.height);
      paint.stroke();
      if (x < this.width - 60) paint.fillText(duration(at), x + 4, 10);
    }
  }

  drawLane(paint, lane, top) {
    const { colours } = this;
    const ends = []; // per row, how far to the right it is painted: thinner bars share a pixel
    for (const bar of lane.between(this.from, this.to)) {
      const y = top + 18 + bar.depth * ROW;
      let x = Math.max(this.x(bar.start), -2);
      const right = Math.min(this.x(bar.stop), this.width + 2);
      if (right - (ends[bar.depth] ?? -9) < 0.8) continue;
      x = Math.min(x, right - 0.8);
      ends[bar.depth] = right;
      paint.fillStyle = colours[TONES[bar.kind] || "mark"];
      paint.globalAlpha = bar.call ? 1 : 0.55;
      paint.fillRect(x, y, Math.max(right - x - (right - x > 4 ? 1 : 0), 0.8), ROW - 2);
      paint.globalAlpha = 1;
      if (right - x > 34) this.label(paint, bar, x, y, right);
      if (bar === this.hover || bar === this.chosen) {
        paint.strokeStyle = colours.ink;
        paint.lineWidth = 1.5;
        paint.strokeRect(x, y, right - x, ROW - 2);
        paint.lineWidth = 1;
      }
    }
    this.drawBusy(paint, lane, top + 18 + lane.depth * ROW);
    paint.fillStyle = colours.panel;
    paint.globalAlpha = 0.8;
    paint.fillRect(0, top + 2, paint.measureText(lane.name).width + 10, 14);
    paint.globalAlpha = 1;
    paint.fillStyle = colours.ink;
    paint.fillText(lane.name, 4, top + 9);
  }

  label(paint, bar, x, y, right) {
    paint.save();
    paint.beginPath();
    paint.rect(x, y, right - x - 2, ROW);
    paint.clip();
    paint.fillStyle = bar.call ? this.colours.onbar : this.colours.ink;
    paint.fillText(bar.name, Math.max(x, 0) + 4, y + ROW / 2 - 0.5);
    paint.restore();
  }

  drawBusy(paint, lane, y) {
    if (!lane.busy.length) return;
    const each = this.data.span / lane.busy.length;
    paint.fillStyle = this.colours.quiet;
    lane.busy.forEach((percent, at) => {
      const [x, right] = [this.x(at * each), this.x((at + 1) * each)];
      if (!percent || right < 0 || x > this.width) return;
      paint.globalAlpha = 0.15 + 0.85 * percent / 100;
      paint.fillRect(x, y + 1, Math.max(right - x, 0.5), 9);
    });
    paint.globalAlpha = 1;
  }

  drawPicked(paint) {
    const [from, to] = this.picked.map((t) => this.x(t));
    paint.globalAlpha = 0.16;
    paint.fillStyle = this.colours.accent;
    paint.fillRect(from, 0, to - from, this.height);
    paint.globalAlpha = 1;
  }

  drawArrows(paint) {
    const found = [];
    for (const lane of this.model.lanes)
      for (const bar of lane.between(this.from, this.to))
        if (bar.kind === "forward" && partner(this.model, bar)) found.push(bar);
    found.sort((a, b) => b.length - a.length);
    for (const bar of found.slice(0, MOST_ARROWS))
      this.drawArrow(paint, bar, partner(this.model, bar), this.colours.quiet, 0.7);
  }

  // From the end of the forward to the start of its backward.
  drawArrow(paint, one, other, ink, thick) {
    const [from, to] = one.kind === "forward" ? [one, other] : [other, one];
    const height = (bar) => this.tops[bar.lane] + 18 + bar.depth * ROW + ROW / 2;
    const [x0, y0, x1, y1] = [this.x(from.stop), height(from), this.x(to.start), height(to)];
    const sag = Math.min(40, Math.abs(x1 - x0) / 4 + 8);
    paint.strokeStyle = paint.fillStyle = ink;
    paint.lineWidth = thick;
    paint.beginPath();
    paint.moveTo(x0, y0);
    const low = Math.min(sag, 22);
    paint.bezierCurveTo(x0 + sag, y0 + low, x1 - sag, y1 + low, x1, y1);
    paint.stroke();
    paint.beginPath();
    paint.moveTo(x1, y1);
    paint.lineTo(x1 - 6, y1 + 1);
    paint.lineTo(x1 - 3, y1 + 6);
    paint.fill();
    paint.lineWidth = 1;
  }

  // -- hands ------------------------------------------------------------------------------------

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const number = this.tops.findLastIndex((top) => y >= top);
    if (number < 0) return { x, bar: null };
    const row = Math.floor((y - this.tops[number] - 18) / ROW);
    const t = this.t(x);
    const slack = 2 * (this.to - this.from) / this.width;
    const near = this.model.lanes[number].between(t - slack, t + slack)
      .filter((bar) => bar.depth === row);
    const away = (bar) => Math.max(bar.start - t, t - bar.stop, 0);
    near.sort((a, b) => away(a) - away(b) || a.length - b.length);
    return { x, bar: near[0] || null };
  }

  hands() {
    const { canvas } = this;
    let held = null;
    canvas.addEventListener("pointerdown", (event) => {
      const { x, bar } = this.at(event);
      const select = event.shiftKey || this.selecting;
      held = { x, bar, from: this.from, to: this.to, select, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const { x, bar } = this.at(event);
      if (!held) return this.point(event, bar);
      held.moved = held.moved || Math.abs(x - held.x) > 3;
      if (!held.moved) return undefined;
      tip.hide();
      if (held.select) return this.pick(this.t(held.x), this.t(x));
      const shift = (held.x - x) / this.width * (held.to - held.from);
      return this.look(held.from + shift, held.to + shift);
    });
    canvas.addEventListener("pointerup", () => {
      if (held && !held.moved) this.choose(held.bar);
      held = null;
    });
    canvas.addEventListener("pointerleave", () => { tip.hide(); this.hover = null; this.draw(); });
    canvas.addEventListener("dblclick", (event) => {
      const { bar } = this.at(event);
      if (bar) this.look(bar.start - bar.length * 0.1, bar.stop + bar.length * 0.1);
    });
    canvas.addEventListener("wheel", (event) => {
      if (!(event.ctrlKey || event.metaKey || document.activeElement === canvas)) return;
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) return this.pan(event.deltaX / 800);
      return this.zoom(Math.exp(event.deltaY / 400), this.t(this.at(event).x));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    $("nearer").addEventListener("click", () => this.zoom(0.5));
    $("farther").addEventListener("click", () => this.zoom(2));
    $("whole").addEventListener("click", () => this.look(0, this.data.span));
    $("select").addEventListener("click", () => {
      this.selecting = !this.selecting;
      $("select").setAttribute("aria-pressed", String(this.selecting));
    });
    $("arrows").addEventListener("click", () => this.toggleArrows());
  }

  key(event) {
    const deeds = {
      ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
      0: () => this.look(0, this.data.span), a: () => this.toggleArrows(),
      Escape: () => { this.picked = null; this.choose(null); },
    };
    if (!deeds[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    deeds[event.key]();
  }

  toggleArrows() {
    this.arrows = !this.arrows;
    $("arrows").setAttribute("aria-pressed", String(this.arrows));
    this.draw();
  }

  point(event, bar) {
    if (bar) tip.show(event.clientX, event.clientY, bar.lines); else tip.hide();
    if (bar !== this.hover) { this.hover = bar; this.draw(); }
  }

  choose(bar) {
    this.chosen = bar;
    this.draw();
    if (!bar) return $("selected").replaceChildren();
    const other = partner(this.model, bar);
    const [title, ...rest] = bar.lines;
    return $("selected").replaceChildren(
      element("p", {}, element("b", {}, title), ` ${rest.filter(Boolean).join(" · ")}`),
      other ? element("p", { class: "quiet" }, `its ${other.kind}: ${duration(other.length)}, from `
        + duration(other.start)) : "");
  }

  pick(a, b) {
    const [from, to] = [Math.max(0, Math.min(a, b)), Math.min(this.data.span, Math.max(a, b))];
    this.picked = [from, to];
    this.draw();
    const sums = summed(this.model, from, to);
    const rows = sums.slice(0, 12).map((entry) => element("tr", {},
      element("td", { class: "left" }, entry.name), element("td", {}, grouped(entry.count)),
      element("td", {}, duration(Math.max(0, entry.time)))));
    $("selected").replaceChildren(
      element("p", {}, element("b", {}, `${duration(to - from)} selected`),
        ` from ${duration(from)}; own time of the bars drawn`),
      element("div", { class: "scroll" }, element("table", {}, ...rows)));
  }
}
