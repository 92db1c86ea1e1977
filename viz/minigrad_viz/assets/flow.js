"use strict";
// The moving layer of the step-through: a canvas above the drawn graph. It is told the moment and
// draws what has happened, what happens and what is still missing; it keeps nothing in between.

const RUN = 0.3; // of a step: the node works; then its contributions travel
const FAR = 0.3; // zoom below which boxes are mere spots
const NUMBERS_FROM = 0.55; // zoom from which badges carry numbers

function smooth(u) {
  const t = Math.min(1, Math.max(0, u));
  return t * t * (3 - 2 * t);
}

class Flow {
  constructor(stage) {
    this.root = document.createElement("canvas");
    this.root.id = "flow";
    stage.append(this.root);
    this.pen = this.root.getContext("2d");
  }

  setTheme() {
    const colour = colours();
    this.ink = {};
    for (const name of ["paper", "panel", "ink", "quiet", "rule", "grad", "bad", "op-rim", "saved"])
      this.ink[name] = colour(name);
    this.workers = Array.from({ length: 8 }, (_, k) => colour("w" + k));
  }

  worker(lane) {
    return this.workers[lane % this.workers.length];
  }

  // moment: {n, running, pulse, still}; pulse says how long ago (0 to 1) the last steps ended.
  draw(scene, view, recording, moment) {
    Object.assign(this, { scene, view, recording, moment });
    const { clientWidth: width, clientHeight: height } = this.root.parentElement;
    const ratio = window.devicePixelRatio || 1, { pen } = this, k = ratio * view.k;
    resize(this.root, width * ratio, height * ratio);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.root.width, this.root.height);
    pen.setTransform(k, 0, 0, k, ratio * view.x, ratio * view.y);
    this.seen = { left: -view.x / view.k, top: -view.y / view.k,
      right: (width - view.x) / view.k, bottom: (height - view.y) / view.k };
    this.drawMoment();
  }

  // The moment in the units of the graph, by any pen, whole.
  written(pen, scene, recording, moment) {
    const everything = { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };
    const twin = Object.assign(Object.create(Flow.prototype), this, { pen, scene, recording, moment,
      view: { x: 0, y: 0, k: 1 }, seen: everything });
    twin.drawMoment();
    return pen.root;
  }

  drawMoment() {
    const { scene, view, moment } = this;
    this.index();
    const busy = new Map(moment.running.flatMap(([step, u]) => [step.node, twins.get(step.node)]
      .filter((at) => at !== undefined).map((at) => [scene.boxOf[at], [step, u]])));
    if (view.k < FAR) this.drawFar(busy);
    else {
      this.drawTraces();
      scene.boxes.forEach((box, at) => { if (this.visible(box)) this.drawBox(box, busy.get(at)); });
    }
    for (const [step, u] of moment.running) this.drawPackets(step, u);
    this.drawPulses();
  }

  visible(region) {
    return overlaps(region, this.seen);
  }

  // Once a scene: which step first sends something along each link, and the drawn lines.
  index() {
    if (this.indexed === this.scene) return;
    this.indexed = this.scene;
    for (const link of this.scene.links) {
      const users = isStill(this.scene.boxes[link.source]) ? [] : link.users; // nothing is sent back
      const steps = users.map((at) => this.recording.nodes[at].step).filter((k) => k >= 0);
      link.first = steps.reduce((a, b) => Math.min(a, b), Infinity);
      const [left, top, right, bottom] = boundsOf(link.points);
      link.edge = { x: (left + right) / 2, w: right - left + 8, y: (top + bottom) / 2,
        h: bottom - top + 8 };
      link.line = null;
    }
    for (const box of this.scene.boxes) {
      const steps = box.members.map((at) => this.recording.stepOf(at)).filter((k) => k >= 0);
      box.steps = steps.sort((a, b) => a - b);
    }
  }

  // -- links ------------------------------------------------------------------------------------

  drawTraces() {
    const { pen, view, recording, moment } = this;
    for (const link of this.scene.links) {
      if (link.first >= moment.n || !this.visible(link.edge)) continue;
      pen.globalAlpha = 0.5;
      pen.strokeStyle = this.worker(recording.steps[link.first].lane);
      pen.lineWidth = Math.max(link.width, 0.8 / view.k);
      if (pen instanceof SvgPen) pen.stroke(pathOf(link.points));
      else pen.stroke((link.line ??= new Path2D(pathOf(link.points))));
    }
    pen.globalAlpha = 1;
  }

  // From far away: one path for all that one worker has done, one for the filled leaves.
  drawFar(busy) {
    const { pen, view, recording, moment } = this, leaves = [];
    const lanes = this.workers.map(() => [[], []]);
    const whole = (box) => recording.whole(box.members[0], moment.n);
    const group = (k) => lanes[recording.steps[k].lane % lanes.length];
    for (const link of this.scene.links)
      if (link.first < moment.n && this.visible(link.edge)) group(link.first)[0].push(link);
    for (const box of this.scene.boxes) {
      if (!this.visible(box)) continue;
      if (box.steps.length && box.steps[0] < moment.n) group(box.steps[0])[1].push(box);
      else if (box.kind !== "op" && box.kind !== "scope" && whole(box)) leaves.push(box);
    }
    pen.lineWidth = 0.9 / view.k;
    lanes.forEach(([links, boxes], lane) => this.drawSpots(links, boxes, this.worker(lane)));
    this.drawSpots([], leaves, this.ink.grad);
    for (const [at, [step, u]] of busy) this.drawBusy(this.scene.boxes[at], step, u);
  }

  drawSpots(links, boxes, colour) {
    const { pen } = this;
    pen.strokeStyle = pen.fillStyle = colour;
    pen.globalAlpha = Math.min(0.5, Math.max(0.1, this.view.k * 4));
    pen.beginPath();
    for (const { points } of links) {
      pen.moveTo(...points[0]);
      for (let k = 1; k < points.length; k++) pen.lineTo(...points[k]);
    }
    pen.stroke();
    pen.globalAlpha = 0.7;
    pen.beginPath();
    for (const { x, y, w, h } of boxes) pen.rect(x - w / 2, y - h / 2, w, h);
    pen.fill();
    pen.globalAlpha = 1;
  }

  // [contribution, its way or null] of a step.
  ways(step) {
    return step.sent.map((part) => {
      const name = linkName(this.scene, part.producer, part.output, step.node);
      const link = this.scene.links[this.scene.linkBy.get(name)];
      return [part, link ? wayBack(link) : null];
    });
  }

  drawPackets(step, u) {
    const share = smooth((u - RUN) / (1 - RUN));
    if (share <= 0) return;
    for (const [part, way] of this.ways(step)) if (way) this.drawPacket(step, part, way, share);
  }

  drawPacket(step, part, way, share) {
    const { pen, view } = this, colour = part.bad ? this.ink.bad : this.worker(step.lane);
    const tail = partOfWay(way, Math.max(0, share - 0.45), share), [x, y] = tail[tail.length - 1];
    const size = Math.max(4.2, 2 / view.k) + Math.min(5, Math.log2(Math.max(part.bytes, 16)) / 5);
    pen.lineCap = "round";
    for (let k = 1; k < tail.length; k++) {
      pen.globalAlpha = 0.75 * (k / tail.length) ** 2;
      pen.strokeStyle = colour;
      pen.lineWidth = size * (0.5 + 0.9 * (k / tail.length));
      pen.beginPath();
      pen.moveTo(...tail[k - 1]);
      pen.lineTo(...tail[k]);
      pen.stroke();
    }
    pen.lineCap = "butt";
    pen.globalAlpha = 0.22;
    this.disc(x, y, size * 2, colour);
    pen.globalAlpha = 1;
    this.disc(x, y, size, colour);
    this.disc(x, y, size * 0.4, this.ink.panel);
    const few = part.values && part.values.length <= 4 && view.k > NUMBERS_FROM;
    if (!few) return;
    const words = valuesText(part.values, 4, shapeOf(part.producer, part.output));
    this.pill(x + size + 5, y, words, colour, "left");
  }

  // What arrived last: a ring where it went in, with a plus where it was added to something.
  drawPulses() {
    const { pen, moment, recording } = this;
    for (const step of moment.ended) {
      for (const [part, way] of this.ways(step)) {
        if (!way) continue;
        const [x, y] = alongWay(way, 1), age = moment.pulse, added = part.rank > 0;
        const colour = part.bad ? this.ink.bad : this.worker(step.lane);
        pen.globalAlpha = (1 - age) * 0.9;
        pen.strokeStyle = colour;
        pen.lineWidth = 1.6;
        pen.beginPath();
        pen.arc(x, y, 6 + 12 * age, 0, 2 * Math.PI);
        pen.stroke();
        if (added) this.plus(x, y, colour, recording);
        pen.globalAlpha = 1;
      }
    }
  }

  plus(x, y, colour) {
    const { pen } = this;
    this.disc(x, y, 7, colour);
    pen.strokeStyle = this.ink.panel;
    pen.lineWidth = 1.8;
    pen.beginPath();
    pen.moveTo(x - 3.6, y); pen.lineTo(x + 3.6, y);
    pen.moveTo(x, y - 3.6); pen.lineTo(x, y + 3.6);
    pen.stroke();
  }

  disc(x, y, radius, colour) {
    const { pen } = this;
    pen.fillStyle = colour;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.fill();
  }

  // -- boxes ------------------------------------------------------------------------------------

  outline(box, grow = 0) {
    const { pen } = this, radius = RADIUS[box.kind] + grow;
    pen.beginPath();
    pen.roundRect(box.x - box.w / 2 - grow, box.y - box.h / 2 - grow,
      box.w + 2 * grow, box.h + 2 * grow, radius);
  }

  drawBox(box, busy) {
    if (box.kind === "scope") this.drawScope(box, busy);
    else if (box.kind === "op") this.drawOp(box, box.members[0], busy);
    else this.drawLeaf(box, box.members[0]);
    if (box.kind !== "scope") this.drawGradient(box, box.members[0]);
    this.drawPending(box);
    this.drawSaved(box, busy);
  }

  drawOp(box, at, busy) {
    const { pen, recording, moment } = this, done = recording.done(at, moment.n);
    if (busy) return this.drawBusy(box, ...busy);
    if (!done && !recording.whole(at, moment.n)) return;
    const { lane } = recording.steps[recording.stepOf(at)] || { lane: 0 };
    this.outline(box);
    pen.fillStyle = pen.strokeStyle = this.worker(lane);
    if (done) { pen.globalAlpha = 0.1; pen.fill(); }
    pen.globalAlpha = done ? 0.55 : 0.9;
    pen.lineWidth = Math.max(done ? 1.1 : 1.8, 0.8 / this.view.k);
    pen.stroke();
    pen.globalAlpha = 1;
  }

  drawBusy(box, step, u) {
    const { pen } = this, colour = this.worker(step.lane), glow = Math.min(1, u / 0.15);
    pen.strokeStyle = pen.fillStyle = colour;
    for (const [grow, alpha] of [[9, 0.1], [6, 0.16], [3, 0.3]]) {
      this.outline(box, grow / 2);
      pen.globalAlpha = alpha * glow;
      pen.lineWidth = grow;
      pen.stroke();
    }
    this.outline(box);
    pen.globalAlpha = 0.16;
    pen.fill();
    pen.globalAlpha = 1;
    pen.lineWidth = Math.max(2.4, 2 / this.view.k);
    pen.stroke();
  }

  // A leaf fills from below: each contribution raises its gradient by an equal part.
  drawLeaf(box, at) {
    const { pen, recording, moment } = this, { due } = recording.nodes[at];
    const whole = recording.whole(at, moment.n);
    const level = due.length ? 1 - recording.pending(at, moment.n) / due.length : 0;
    if (!recording.arrived(at, moment.n)) return;
    pen.save();
    this.outline(box);
    pen.clip();
    pen.globalAlpha = 0.27;
    pen.fillStyle = this.ink.grad;
    pen.fillRect(box.x - box.w / 2, box.y + box.h / 2 - box.h * level, box.w, box.h * level);
    pen.restore();
    if (!whole) return;
    this.outline(box);
    pen.strokeStyle = this.ink.grad;
    pen.lineWidth = Math.max(1.8, 1 / this.view.k);
    pen.stroke();
  }

  // A folded scope: how much of it is done.
  drawScope(box, busy) {
    const { pen, recording, moment } = this;
    const { steps } = box, done = lowerBound(steps, moment.n);
    if (busy) this.drawBusy(box, ...busy);
    if (!steps.length || !done) return;
    const left = box.x - box.w / 2 + 6, width = (box.w - 12) * (done / steps.length);
    pen.fillStyle = this.worker(recording.steps[steps[0]].lane);
    pen.globalAlpha = 0.85;
    pen.fillRect(left, box.y + box.h / 2 - 7, width, 3);
    pen.globalAlpha = 1;
    const words = `${done} of ${steps.length} done`;
    this.words(box.x, box.y - box.h / 2 + box.slot + 3, words, this.ink.quiet);
  }

  drawGradient(box, at) {
    const { recording, moment } = this, text = gradientText(recording, at, moment.n);
    if (!text) return;
    const bad = (recording.gradient(at, moment.n) || {}).bad;
    this.words(box.x, box.y - box.h / 2 + box.slot + 3.5, text, bad ? this.ink.bad : this.ink.ink);
  }

  words(x, y, text, colour) {
    const { pen } = this;
    pen.font = `600 10.5px ${FONT}`;
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    pen.fillStyle = colour;
    pen.fillText(text, x, y);
  }

  // How many contributions are still missing, at the lower left corner.
  drawPending(box) {
    const { pen, recording, moment } = this, x = box.x - box.w / 2, y = box.y + box.h / 2 - 5;
    if (box.kind === "scope") return;
    const at = box.members[0], { due, step } = recording.nodes[at];
    const left = recording.pending(at, moment.n), ready = recording.whole(at, moment.n);
    if (!due.length || recording.done(at, moment.n) || (ready && box.kind !== "op" && !left)) {
      if (due.length && box.kind !== "op" && ready) this.tick(x, y);
      return;
    }
    if (moment.running.some(([one]) => one.k === step)) return;
    const touched = left < due.length, colour = touched ? this.worker(0) : this.ink.quiet;
    this.disc(x, y, 8, this.ink.panel);
    pen.strokeStyle = colour;
    pen.lineWidth = 1.2;
    pen.beginPath();
    pen.arc(x, y, 8, 0, 2 * Math.PI);
    pen.stroke();
    this.words(x, y + 3.6, left > 99 ? "99" : String(left), colour);
  }

  tick(x, y) {
    const { pen } = this;
    this.disc(x, y, 8, this.ink.grad);
    pen.strokeStyle = this.ink.panel;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(x - 3.6, y); pen.lineTo(x - 1, y + 3); pen.lineTo(x + 4, y - 3);
    pen.stroke();
  }

  // What a node keeps for its rules, at the upper right corner; it fades as the node lets it go.
  drawSaved(box, busy) {
    const { pen, recording, moment, view } = this;
    const gone = (at) => graph.released && recording.done(at, moment.n);
    const bytes = box.members.reduce((sum, at) => sum + (gone(at) ? 0 : recording.held[at]), 0);
    if (!bytes) return;
    const going = busy && box.kind !== "scope" && graph.released;
    const fade = going ? 1 - smooth((busy[1] - 0.55) / 0.4) : 1;
    const x = box.x + box.w / 2, y = box.y - box.h / 2 - 3 - 5 * (1 - fade);
    pen.globalAlpha = fade;
    if (view.k < NUMBERS_FROM) this.disc(x, y, 4, this.ink.saved);
    else this.pill(x + 4, y, byteText(bytes), this.ink.saved, "right");
    pen.globalAlpha = 1;
  }

  // A number on a rounded ground, its left or right end at x.
  pill(x, y, text, colour, end) {
    const { pen } = this;
    pen.font = `600 9.5px ${FONT}`;
    const width = pen.measureText(text).width + 11, left = end === "left" ? x : x - width;
    pen.beginPath();
    pen.roundRect(left, y - 7.5, width, 15, 7.5);
    pen.fillStyle = this.ink.panel;
    pen.fill();
    pen.strokeStyle = pen.fillStyle = colour;
    pen.lineWidth = 1.1;
    pen.stroke();
    pen.textAlign = "left";
    pen.textBaseline = "alphabetic";
    pen.fillText(text, left + 5.5, y + 3.4);
  }
}

// The gradient at a node after n steps, in the words of its box.
function gradientText(recording, at, n) {
  const found = recording.gradient(at, n);
  if (!found) return "";
  const count = recording.arrived(at, n), more = count && recording.pending(at, n) ? " + …" : "";
  const few = found.values && found.values.length <= 4;
  if (few) return `grad ${valuesText(found.values, 4, shapeOf(at, 0))}${more}`;
  if (found.bad) return "grad has " + (found.bad === "nan" ? "NaN" : "Inf");
  if (more) return `${count} of ${recording.nodes[at].due.length}`;
  return found.norm === null ? "grad ✓" : "‖g‖ " + numberText(found.norm);
}

// The words that a box will hold while stepping: after its first few arrivals and at the end.
function gradientRoom(recording) {
  return ({ kind, members: [at] }) => {
    if (kind === "scope") return ["999 of 999 done"];
    const moments = recording.nodes[at].arrivals.slice(0, 8).map((arrival) => arrival.k + 1);
    return [...moments, recording.steps.length].map((n) => gradientText(recording, at, n));
  };
}
