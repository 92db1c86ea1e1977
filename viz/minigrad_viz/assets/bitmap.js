"use strict";
// The painter of large graphs: canvas. What is seen, and a margin around it, is painted into a
// bitmap, a few milliseconds a frame; moving the view moves the bitmap until the next is ready.

const MARGIN = 0.3; // of the stage, on each side
const BADGE_INK = { right: "appeared", wrong: "bad", unsure: "changed", skipped: "quiet" };
const SLICE = 7; // milliseconds of painting a frame
const WORDS_FROM = 0.4, HEADS_FROM = 0.25, CURVES_FROM = 0.12; // zoom

// Whether a box, or a region given by its middle and size, lies in a part of the world.
function overlaps({ x, y, w, h }, { left, top, right, bottom }) {
  return x + w > left && x - w < right && y + h > top && y - h < bottom;
}

// A canvas is cleared by setting its size, so that happens only where the size is another.
function resize(canvas, width, height) {
  if (canvas.width !== Math.round(width)) canvas.width = Math.round(width);
  if (canvas.height !== Math.round(height)) canvas.height = Math.round(height);
}

class CanvasPainter {
  constructor(stage) {
    this.root = document.createElement("canvas");
    stage.prepend(this.root);
    this.pen = this.root.getContext("2d");
    this.front = null; // {canvas, view, left, top}: what is shown
    this.job = null; // the painting of the next, sliced
  }

  show(scene, marks) {
    Object.assign(this, { scene, marks, colour: colours() });
    this.prepare();
    this.stale = true;
  }

  // Once a scene: outlines of links and what each box is filled with.
  prepare() {
    const fills = new Map();
    for (const box of this.scene.boxes) {
      const key = `${box.kind}${box.mark}${Math.round((box.heat ?? -1) * 50)}:${box.hue}`;
      if (!fills.has(key)) fills.set(key, fillOf(box, this.colour));
      box.fill = fills.get(key);
      box.rim = rimOf(box, this.colour);
    }
    if (this.pathsOf === this.scene) return;
    this.pathsOf = this.scene;
    this.front = null;
    for (const link of this.scene.links) {
      link.bounds = boundsOf(link.points);
      link.drawn = null;
    }
  }

  move(view) {
    const { clientWidth: width, clientHeight: height } = this.root.parentElement;
    this.size = { width, height, ratio: window.devicePixelRatio || 1 };
    if (!this.front) this.finish(this.begin(view));
    else if (this.stale || !this.covers(view)) {
      if (!this.job || this.stale || !this.near(this.job.view, view)) this.job = this.begin(view);
      this.work();
    }
    this.stale = false;
    this.copy(view);
    this.latest = view;
  }

  near(a, b) {
    const share = a.k / b.k;
    return share > 0.85 && share < 1.18 && Math.abs(a.x - b.x * share) < this.size.width * MARGIN
      && Math.abs(a.y - b.y * share) < this.size.height * MARGIN;
  }

  // Whether the bitmap holds all that is seen (or all there is) sharply enough.
  covers(view) {
    const { width, height } = this.size, share = this.front.view.k / view.k, { scene } = this;
    if (share < 0.75 || share > 1.5) return false;
    const part = this.part(this.front.view), seen = this.part(view, 0);
    return part.left <= Math.max(seen.left, -20) && part.top <= Math.max(seen.top, -20)
      && part.right >= Math.min(seen.right, scene.width + 20)
      && part.bottom >= Math.min(seen.bottom, scene.height + 20)
      && this.front.width === width && this.front.height === height;
  }

  // What a view shows of the world, with a margin.
  part({ x, y, k }, margin = MARGIN) {
    const { width, height } = this.size, dx = width * margin, dy = height * margin;
    return { left: (-x - dx) / k, top: (-y - dy) / k,
      right: (width - x + dx) / k, bottom: (height - y + dy) / k };
  }

  copy(view) {
    const { width, height, ratio } = this.size, { pen, front } = this;
    const share = view.k / front.view.k;
    resize(this.root, width * ratio, height * ratio);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.root.width, this.root.height);
    const x = view.x - (front.view.x + front.width * MARGIN) * share;
    const y = view.y - (front.view.y + front.height * MARGIN) * share;
    pen.setTransform(ratio * share, 0, 0, ratio * share, ratio * x, ratio * y);
    if (!front.canvas.width || !front.canvas.height) return; // a frame that is not laid out yet
    pen.drawImage(front.canvas, 0, 0, front.canvas.width / ratio, front.canvas.height / ratio);
  }

  // -- painting, in slices ----------------------------------------------------------------------

  begin(view) {
    const { width, height, ratio } = this.size, canvas = document.createElement("canvas");
    canvas.width = Math.round(width * (1 + 2 * MARGIN) * ratio);
    canvas.height = Math.round(height * (1 + 2 * MARGIN) * ratio);
    const pen = canvas.getContext("2d"), k = view.k * ratio;
    const x = view.x + width * MARGIN, y = view.y + height * MARGIN;
    pen.setTransform(k, 0, 0, k, x * ratio, y * ratio);
    const job = { canvas, view: { ...view }, width, height };
    job.steps = this.paint(pen, this.part(view), view.k);
    return job;
  }

  finish(job) {
    while (!job.steps.next().done);
    this.front = job;
  }

  work() {
    const { job } = this, until = performance.now() + SLICE;
    if (!job) return;
    while (performance.now() < until)
      if (job.steps.next().done) { this.front = job; this.job = null; return; }
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      this.work();
      if (!this.job) this.copy(this.latest);
    });
  }

  *paint(pen, seen, k) {
    this.frames(pen, seen, k);
    yield* this.links(pen, seen, k);
    yield* this.boxes(pen, seen, k);
    this.frameTitles(pen, seen, k);
  }

  frames(pen, seen, k) {
    pen.lineWidth = Math.max(1, 0.6 / k);
    pen.strokeStyle = this.colour("scope-rim");
    for (const frame of this.scene.frames) {
      if (!frame.outer || !overlaps(frame, seen)) continue;
      const { x, y, w, h, group } = frame;
      pen.beginPath();
      pen.roundRect(x - w / 2, y - h / 2, w, h, 8);
      pen.fillStyle = this.colour(group.depth % 2 ? "scope" : "paper");
      pen.globalAlpha = group.depth % 2 ? 0.45 : 0.7;
      pen.fill();
      pen.globalAlpha = 0.55;
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  frameTitles(pen, seen, k) {
    if (k <= WORDS_FROM) return;
    pen.font = `600 ${TEXT.title}px ${FONT}`;
    pen.textAlign = "left";
    for (const frame of this.scene.frames) {
      if (!frame.outer || !overlaps(frame, seen)) continue;
      const left = frame.x - frame.w / 2, top = frame.y - frame.h / 2;
      pen.fillStyle = this.colour("scope");
      pen.fillRect(left + 3, top + 3, frame.titleWidth - 6, 21);
      pen.fillStyle = this.colour("root-rim");
      pen.fillText("▾ " + frame.title, left + 9, top + 18);
    }
    pen.textAlign = "center";
  }

  // Far away, links of one colour are one path: a stroke for each would cost most of a frame.
  *links(pen, seen, k) {
    const inks = ["link", "back", "accent", "appeared", "gone"].map((name) => this.colour(name));
    const groups = inks.map(() => []), marks = { appeared: 3, gone: 4 };
    this.scene.links.forEach((link, at) => {
      const [left, top, right, bottom] = link.bounds;
      if (right < seen.left || left > seen.right || bottom < seen.top || top > seen.bottom) return;
      const special = this.marks.links.has(at) || link.critical ? 2 : marks[link.mark];
      groups[special || (link.back ? 1 : 0)].push(link);
    });
    for (const [at, links] of groups.entries()) {
      pen.strokeStyle = pen.fillStyle = inks[at];
      for (let from = 0; from < links.length; from += 200) {
        const some = links.slice(from, from + 200);
        if (k < HEADS_FROM) this.farLinks(pen, some, k); else this.nearLinks(pen, some, k);
        yield;
      }
    }
  }

  // The farther away, the fainter: thousands of full lines would be one dark spot.
  farLinks(pen, links, k) {
    pen.lineWidth = 0.6 / k;
    pen.globalAlpha = Math.min(1, Math.max(0.12, k / CURVES_FROM));
    pen.beginPath();
    for (const { points } of links) {
      pen.moveTo(points[0][0], points[0][1]);
      for (let at = 1; at < points.length; at++) {
        const [ax, ay] = points[at - 1], [bx, by] = points[at], middle = (ay + by) / 2;
        if (k < CURVES_FROM || ax === bx) pen.lineTo(bx, by);
        else pen.bezierCurveTo(ax, middle, bx, middle, bx, by);
      }
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  nearLinks(pen, links, k) {
    for (const link of links) {
      if (!link.drawn) {
        const { line, head } = arrow(link);
        link.drawn = { line: new Path2D(line), head: new Path2D(head) };
      }
      pen.lineWidth = Math.max(link.width, 0.6 / k);
      pen.stroke(link.drawn.line);
      pen.fill(link.drawn.head);
    }
  }

  *boxes(pen, seen, k) {
    const words = { ink: this.colour("ink"), quiet: this.colour("quiet") };
    let count = 0;
    pen.textAlign = "center";
    for (const [at, box] of this.scene.boxes.entries()) {
      if (!overlaps(box, seen)) continue;
      pen.globalAlpha = this.marks.faded(at) ? 0.25 : 1;
      if (k < CURVES_FROM) this.farBox(pen, box, k); else this.nearBox(pen, box, k);
      if (this.marks.chosen === at) this.chosenRim(pen, box, k);
      if (k > WORDS_FROM) this.words(pen, box, words, k);
      if (box.badge && (k > WORDS_FROM || box.badge.verdict === "wrong")) this.badge(pen, box, k);
      if ((count += 1) % 60 === 0) yield;
    }
    pen.globalAlpha = 1;
  }

  farBox(pen, { x, y, w, h, fill, rim, heat, hue }, k) {
    const line = 0.5 / k, spot = heat !== null || hue >= 0 || w < 4 * line; // no room for a rim
    pen.fillStyle = heat !== null ? fill : rim;
    pen.fillRect(x - w / 2, y - h / 2, w, Math.max(h, line));
    if (spot) return;
    pen.fillStyle = fill;
    pen.fillRect(x - w / 2 + line, y - h / 2 + line, w - 2 * line, Math.max(0, h - 2 * line));
  }

  nearBox(pen, box, k) {
    pen.fillStyle = box.fill;
    pen.strokeStyle = box.rim;
    pen.lineWidth = Math.max(rimWidth(box), 0.5 / k);
    if (box.root) { this.outline(pen, box, 3.5, 0); pen.stroke(); }
    if (box.kind === "scope") { this.outline(pen, box, 0, 3.5); pen.fill(); pen.stroke(); }
    this.outline(pen, box, 0, 0);
    pen.fill();
    if (isStill(box)) pen.setLineDash([4, 3]);
    pen.stroke();
    pen.setLineDash([]);
  }

  chosenRim(pen, box, k) {
    this.outline(pen, box, box.root ? 6 : 2.6, 0);
    pen.strokeStyle = this.colour("accent");
    pen.lineWidth = Math.max(2.4, 2 / k);
    pen.stroke();
  }

  outline(pen, { x, y, w, h, kind }, grow, shift) {
    pen.beginPath();
    pen.roundRect(x - w / 2 - grow + shift, y - h / 2 - grow - shift, w + 2 * grow, h + 2 * grow,
      RADIUS[kind] + grow);
  }

  // Of what finite differences say only errors are seen from far away.
  badge(pen, { x, y, w, h, badge }, k) {
    const colour = this.colour(BADGE_INK[badge.verdict]), wrong = badge.verdict === "wrong";
    const tall = Math.max(15, 5 / k), wide = k > WORDS_FROM ? badge.w : tall;
    const left = badgeLeft({ x, w, badge }), top = y - h / 2 - 8;
    pen.beginPath();
    pen.roundRect(left, top, wide, tall, tall / 2);
    pen.fillStyle = wrong ? colour : this.colour("panel");
    pen.strokeStyle = colour;
    pen.lineWidth = 1.1;
    pen.fill();
    pen.stroke();
    if (k <= WORDS_FROM) return;
    pen.fillStyle = wrong ? this.colour("panel") : colour;
    pen.font = `600 ${TEXT.badge}px ${FONT}`;
    pen.fillText(badge.text, left + wide / 2, top + 11);
  }

  words(pen, box, { ink, quiet }, k) {
    const top = box.y - box.h / 2;
    pen.fillStyle = ink;
    pen.font = `600 ${TEXT.title}px ${FONT}`;
    const alone = k < DETAIL - 1e-6;
    pen.fillText(titleText(box), box.x, alone ? box.y + 4.5 : top + 19.5);
    if (alone) return;
    pen.fillStyle = quiet;
    pen.font = `400 ${TEXT.line}px ${FONT}`;
    box.lines.forEach((line, at) => pen.fillText(line, box.x, top + 34 + TEXT.leading * at));
    pen.font = `400 ${TEXT.label}px ${FONT}`;
    const below = top + box.h + (box.root ? 15.5 : 13);
    for (const port of box.ports.values()) pen.fillText(port.text, box.x + port.offset, below);
  }
}
