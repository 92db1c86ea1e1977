"use strict";
// The words and shapes of a drawn graph, and the painter for graphs of some size: SVG. Painters
// draw what they are told and know nothing of the mouse.

const CANVAS_FROM = 1200;
const FAR_TITLE = 11; // pixels of a frame's title, however far away
const RADIUS = { leaf: 14, op: 4, parameter: 6, scope: 6 };
const MARKED = ["appeared", "gone", "changed", "slower"];

// Curves from point to point that leave and arrive upright; where a line runs level, round corners.
function pathOf(points) {
  let d = `M${points[0][0]} ${points[0][1]}`;
  for (let k = 1; k < points.length; k++) {
    const [ax, ay] = points[k - 1], [bx, by] = points[k], middle = (ay + by) / 2;
    const corner = k + 1 < points.length && cornerAt(points[k - 1], points[k], points[k + 1]);
    if (corner) d += corner;
    else if (Math.abs(ax - bx) < 0.05 || level(points[k - 1], points[k])) d += `L${bx} ${by}`;
    else d += `C${ax} ${middle} ${bx} ${middle} ${bx} ${by}`;
  }
  return d;
}

const level = ([ax, ay], [bx, by]) => Math.abs(ay - by) < 0.05 && Math.abs(ax - bx) >= 0.05;
const upright = ([ax, ay], [bx, by]) => Math.abs(ax - bx) < 0.05 && Math.abs(ay - by) >= 0.05;

function cornerAt(a, b, c) {
  if (!(upright(a, b) && level(b, c)) && !(level(a, b) && upright(b, c))) return "";
  const toward = ([x, y]) => {
    const far = Math.hypot(x - b[0], y - b[1]), share = Math.min(7, far / 2) / far;
    return `${b[0] + (x - b[0]) * share} ${b[1] + (y - b[1]) * share}`;
  };
  return `L${toward(a)}Q${b[0]} ${b[1]} ${toward(c)}`;
}

// The line without its last few pixels, and the arrowhead that takes their place.
function arrow(link) {
  const points = link.points, [x, y] = points[points.length - 1], size = 2.6 + link.width;
  const back = size * 1.5 * (y < points[points.length - 2][1] ? 1 : -1);
  return { line: pathOf([...points.slice(0, -1), [x, y + back * 0.8]]),
    head: `M${x} ${y}l${-size} ${back}h${2 * size}z` };
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue("--" + name).trim();
}

function mixed(colour, over, share, under) {
  return `color-mix(in srgb, ${colour(over)} ${Math.round(share * 100)}%, ${colour(under)})`;
}

function fillOf(box, colour) {
  if (box.mark) return mixed(colour, box.mark, 0.22, "op");
  if (box.hue >= 0) return mixed(colour, "w" + (box.hue % 8), 0.45, "op");
  if (box.heat === null || box.heat === undefined) return colour(box.kind);
  return mixed(colour, "hot", box.heat * 0.85, "op");
}

// Over the upper left corner, clear of the arrow at the middle.
function badgeLeft({ x, w, badge }) {
  return Math.min(x - w / 2 - 7, x - 8 - badge.w);
}

const isWrong = (box) => box.bad || (box.badge !== null && box.badge.verdict === "wrong");

function rimOf(box, colour) {
  if (isWrong(box)) return colour("bad");
  if (box.critical) return colour("accent");
  if (box.mark) return colour(box.mark);
  if (box.hue >= 0) return colour("w" + (box.hue % 8));
  return colour(box.root ? "root-rim" : box.kind + "-rim");
}

const isStill = ({ group, members: [at] }) => !group && graph.nodes[at].still;
const rimWidth = (box) => (box.critical ? 2.6 : box.mark || isWrong(box) ? 2 : 1.1);
const titleText = (box) => (box.bad ? "⚠ " : "") + box.title;

class SvgPainter {
  constructor(stage) {
    this.root = this.make("svg");
    stage.prepend(this.root);
  }

  make(tag, attributes = {}, text = "") {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text) element.textContent = text;
    return element;
  }

  show(scene, marks) {
    const colour = colours(), world = this.make("g");
    for (const frame of scene.frames) if (frame.outer) world.append(this.frame(frame));
    for (const [k, link] of scene.links.entries()) {
      const { line, head } = arrow(link), near = marks.links.has(k) ? " near" : "";
      const mark = link.mark ? " " + link.mark : "";
      const marked = near + (link.critical ? " critical" : "") + mark;
      const style = "link" + (link.direct ? " direct" : "") + (link.back ? " back" : "") + marked;
      world.append(this.make("path", { class: style, d: line, "stroke-width": link.width }));
      world.append(this.make("path", { class: "head" + marked, d: head }));
    }
    for (const [k, box] of scene.boxes.entries()) world.append(this.box(box, k, marks, colour));
    this.tabs = scene.frames.filter((frame) => frame.outer)
      .map((frame) => [frame, world.appendChild(this.frameTitle(frame))]);
    this.zoom = 0;
    this.root.replaceChildren(world);
    this.world = world;
  }

  box(box, k, marks, colour) {
    const faded = marks.faded(k) ? " faded" : "", warm = box.heat > 0.2 ? " warm" : "";
    const still = isStill(box) ? " still" : "";
    const style = `node ${box.kind}${faded}${warm}${still}`;
    const group = this.make("g", { class: style });
    const paint = { fill: fillOf(box, colour), stroke: rimOf(box, colour),
      "stroke-width": rimWidth(box) };
    if (box.root) group.append(this.rect(box, "rim", 3.5));
    if (box.kind === "scope") group.append(this.rect(box, "box", 0, 3.5, paint));
    group.append(this.rect(box, "box", 0, 0, paint));
    if (marks.chosen === k) group.append(this.rect(box, "chosen", box.root ? 6 : 2.6));
    this.words(box, group);
    if (box.badge) group.append(this.badge(box));
    return group;
  }

  frame({ x, y, w, h, group }) {
    const style = `frame ${group.depth % 2 ? "odd" : "even"}`;
    const place = { x: x - w / 2, y: y - h / 2, width: w, height: h };
    return this.make("rect", { class: style, ...place, rx: 8 });
  }

  frameTitle({ x, y, w, h, title, titleWidth }) {
    const group = this.make("g", { class: "tab" }), left = x - w / 2, top = y - h / 2;
    const tab = { x: left + 3, y: top + 3, width: titleWidth - 6, height: 21 };
    group.append(this.make("rect", { ...tab, rx: 6 }));
    group.append(this.make("text", { class: "title", x: left + 9, y: top + 18 }, "▾ " + title));
    return group;
  }

  rect(box, style, grow, shift = 0, more = {}) {
    return this.make("rect", { class: style, x: box.x - box.w / 2 - grow + shift,
      y: box.y - box.h / 2 - grow - shift, width: box.w + 2 * grow, height: box.h + 2 * grow,
      rx: RADIUS[box.kind] + grow, ...more });
  }

  badge({ x, y, w, h, badge }) {
    const left = badgeLeft({ x, w, badge }), top = y - h / 2 - 8;
    const group = this.make("g", { class: "badge " + badge.verdict });
    group.append(this.make("rect", { x: left, y: top, width: badge.w, height: 15, rx: 7 }));
    group.append(this.make("text", { x: left + badge.w / 2, y: top + 11 }, badge.text));
    return group;
  }

  words(box, group) {
    const { x } = box, top = box.y - box.h / 2;
    const text = (style, at, y, words) =>
      group.append(this.make("text", { class: style, x: at, y }, words));
    text("title", x, top + 19.5, titleText(box));
    group.lastChild.style.setProperty("--middle", `${box.h / 2 - 15}px`); // where it stands alone
    box.lines.forEach((line, at) => text("line", x, top + 34 + TEXT.leading * at, line));
    const below = top + box.h + (box.root ? 15.5 : 13);
    for (const port of box.ports.values()) text("label", x + port.offset, below, port.text);
  }

  move({ x, y, k }) {
    this.root.classList.toggle("small", k < DETAIL - 1e-6);
    if (this.zoom !== k) this.sizeTabs(k);
    this.zoom = k;
    this.world.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
  }

  // From far away titles of frames keep a size that can be read, where they find room.
  sizeTabs(k) {
    const grow = Math.max(1, FAR_TITLE / (TEXT.title * k)), shown = [];
    for (const [frame, tab] of this.tabs) {
      const left = frame.x - frame.w / 2, top = frame.y - frame.h / 2;
      const place = [left, top, left + frame.titleWidth * grow, top + 24 * grow];
      const fits = grow === 1 || (place[2] < left + frame.w && place[3] < top + frame.h / 2
        && !shown.some((other) => place[0] < other[2] && other[0] < place[2]
          && place[1] < other[3] && other[1] < place[3]));
      tab.style.display = fits ? "" : "none";
      frame.grow = fits ? grow : 0;
      const [x, y] = [left * (1 - grow), top * (1 - grow)];
      tab.setAttribute("transform", `translate(${x} ${y}) scale(${grow})`);
      if (fits) shown.push(place);
    }
  }
}
