"use strict";
// The strip below the graph: a lane for each worker, the bytes alive, and the playhead over both.

const LANE = 9, LANES_AT_MOST = 16, CURVE = 44, PAD = 12;
const KINDS = [["saved", "saved arrays", "saved"], ["moving", "cotangents", "w0"],
  ["grads", ".grad", "grad"]]; // kind, word, colour

class Dock {
  constructor(recording) {
    this.recording = recording;
    this.root = document.getElementById("strip");
    this.pen = this.root.getContext("2d");
    this.lanes = Math.min(recording.lanes.length, LANES_AT_MOST);
    this.root.style.height = `${this.lanes * (LANE + 2) + CURVE + 14}px`;
    this.legend();
  }

  legend() {
    const list = document.getElementById("kinds");
    list.replaceChildren(...KINDS.map(([kind, word, colour]) => {
      const item = tag("p"), swatch = tag("i"), bytes = tag("b");
      swatch.style.background = `var(--${colour})`;
      bytes.id = "live-" + kind;
      item.append(swatch, tag("span", word), bytes);
      return item;
    }));
  }

  setTheme() {
    const colour = colours();
    this.ink = { ink: colour("ink"), rule: colour("rule") };
    for (const [kind, , name] of KINDS) this.ink[kind] = colour(name);
    this.workers = Array.from({ length: 8 }, (_, k) => colour("w" + k));
    this.drawn = null;
  }

  // The x of a position, and back.
  across(axis, at) {
    const all = this.recording.length(axis) || 1;
    return PAD + (at / all) * Math.max(0, this.root.clientWidth - 2 * PAD);
  }

  positionAt(axis, x) {
    const share = (x - PAD) / Math.max(1, this.root.clientWidth - 2 * PAD);
    return Math.min(1, Math.max(0, share)) * this.recording.length(axis);
  }

  show(axis, at, n) {
    const ratio = window.devicePixelRatio || 1, { clientWidth, clientHeight } = this.root;
    if (!clientWidth || !clientHeight) return; // a frame that is not laid out yet
    const size = `${clientWidth} ${clientHeight} ${ratio} ${axis}`;
    if (this.drawn !== size) this.drawStill(axis, ratio, clientWidth, clientHeight);
    this.drawn = size;
    const pen = this.pen, x = this.across(axis, at);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.root.width, this.root.height);
    pen.globalAlpha = 0.35;
    pen.drawImage(this.still, 0, 0);
    pen.globalAlpha = 1;
    const past = [0, 0, x * ratio, this.still.height];
    if (past[2] >= 1) pen.drawImage(this.still, ...past, ...past);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = this.ink.ink;
    pen.fillRect(x - 0.75, 3, 1.5, clientHeight - 6);
    pen.beginPath();
    pen.arc(x, 5, 4.5, 0, 2 * Math.PI);
    pen.fill();
    this.tell(n);
  }

  // Lanes and curve do not change while playing; they are drawn once and then copied.
  drawStill(axis, ratio, width, height) {
    this.root.width = Math.round(width * ratio);
    this.root.height = Math.round(height * ratio);
    this.still = document.createElement("canvas");
    this.still.width = this.root.width;
    this.still.height = this.root.height;
    const pen = this.still.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawLanes(pen, axis);
    this.drawCurve(pen, axis, height - 4);
  }

  drawLanes(pen, axis) {
    for (const step of this.recording.steps) {
      if (step.lane >= this.lanes) continue;
      const from = this.across(axis, axis === "time" ? step.from : step.k);
      const till = this.across(axis, axis === "time" ? step.till : step.k + 1);
      const wide = till - from, y = 10 + step.lane * (LANE + 2);
      pen.fillStyle = this.workers[step.lane % this.workers.length];
      pen.beginPath();
      const shown = Math.max(0.8, wide > 4 ? wide - 1 : wide);
      pen.roundRect(from, y, shown, LANE, Math.min(2.5, shown / 3));
      pen.fill();
    }
  }

  drawCurve(pen, axis, base) {
    const { recording } = this, steps = recording.steps.length, top = recording.peak || 1;
    const below = new Float64Array(steps + 1), x = [];
    for (let n = 0; n <= steps; n++) x.push(this.across(axis, recording.after(axis, n)));
    for (const [kind] of KINDS) {
      const lower = below.slice();
      for (let n = 0; n <= steps; n++) below[n] += recording.memory[kind][n];
      const go = (n, bytes) => pen.lineTo(x[n], base - (bytes / top) * CURVE);
      pen.beginPath();
      go(0, below[0]);
      for (let n = 1; n <= steps; n++) { go(n, below[n - 1]); go(n, below[n]); }
      for (let n = steps; n >= 1; n--) { go(n, lower[n]); go(n, lower[n - 1]); }
      go(0, lower[0]);
      pen.fillStyle = this.ink[kind];
      pen.globalAlpha = 0.75;
      pen.fill();
    }
    pen.globalAlpha = 1;
    pen.fillStyle = this.ink.rule;
    pen.fillRect(PAD, base, this.root.clientWidth - 2 * PAD, 1);
  }

  tell(n) {
    const { memory, live, peak } = this.recording;
    for (const [kind] of KINDS)
      document.getElementById("live-" + kind).textContent = byteText(memory[kind][n]);
    document.getElementById("live").textContent = byteText(live[n]);
    document.getElementById("gauge").style.width = `${peak ? (100 * live[n]) / peak : 0}%`;
    document.getElementById("peak").textContent = `peak ${byteText(peak)}`;
  }
}
