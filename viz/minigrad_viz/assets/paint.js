"use strict";
// Two painters of one scene: SVG for graphs of some size, canvas beyond. Both draw what they are
// told and know nothing of the mouse.

const CANVAS_FROM = 2000;
const RADIUS = { leaf: 14, op: 4, parameter: 6, scope: 6 };

function pathOf(points) {
  let d = `M${points[0][0]} ${points[0][1]}`;
  for (let k = 1; k < points.length; k++) {
    const [ax, ay] = points[k - 1], [bx, by] = points[k], middle = (ay + by) / 2;
    d += Math.abs(ax - bx) < 0.05 ? `L${bx} ${by}` : `C${ax} ${middle} ${bx} ${middle} ${bx} ${by}`;
  }
  return d;
}

// The line without its last few pixels, and the arrowhead that takes their place.
function arrow(link) {
  const points = link.points, [x, y] = points[points.length - 1];
  const size = 2.6 + link.width, rise = y < points[points.length - 2][1] ? 1 : -1, back = size * 1.5 * rise;
  return { line: pathOf([...points.slice(0, -1), [x, y + back * 0.8]]), head: `M${x} ${y}l${-size} ${back}h${2 * size}z` };
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue("--" + name).trim();
}

function fillOf(box, colour) {
  if (box.heat === null || box.heat === undefined) return colour(box.kind);
  return `color-mix(in srgb, ${colour("hot")} ${Math.round(box.heat * 85)}%, ${colour("op")})`;
}

class SvgPainter {
  constructor(stage) {
    this.root = this.make("svg");
    stage.append(this.root);
  }

  make(tag, attributes = {}, text = "") {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text) element.textContent = text;
    return element;
  }

  show(scene, marks) {
    const colour = colours(), world = this.make("g");
    for (const [k, link] of scene.links.entries()) {
      const { line, head } = arrow(link), near = marks.links.has(k) ? " near" : "";
      const style = "link" + (link.direct ? " direct" : "") + (link.back ? " back" : "") + near;
      world.append(this.make("path", { class: style, d: line, "stroke-width": link.width }));
      world.append(this.make("path", { class: "head", d: head }));
    }
    for (const [k, box] of scene.boxes.entries()) world.append(this.box(box, k, marks, colour));
    this.root.replaceChildren(world);
    this.world = world;
  }

  box(box, k, marks, colour) {
    const group = this.make("g", { class: `node ${box.kind}${marks.faded(k) ? " faded" : ""}${box.heat > 0.2 ? " warm" : ""}` });
    const left = box.x - box.w / 2, top = box.y - box.h / 2, rx = RADIUS[box.kind];
    const rect = (style, grow, dx, dy, more = {}) => this.make("rect", { class: style, x: left - grow + dx, y: top - grow + dy,
      width: box.w + 2 * grow, height: box.h + 2 * grow, rx: rx + grow, ...more });
    const paint = { fill: fillOf(box, colour), stroke: box.bad ? colour("bad") : colour(box.root ? "root-rim" : box.kind + "-rim") };
    if (box.root) group.append(rect("rim", 3.5, 0, 0));
    if (box.kind === "scope") group.append(rect("box", 0, 3.5, -3.5, paint));
    group.append(rect("box", 0, 0, 0, paint));
    if (marks.chosen === k) group.append(rect("chosen", 4.5, 0, 0));
    group.append(this.make("text", { class: "title", x: box.x, y: top + 18.5 }, (box.bad ? "⚠ " : "") + box.title));
    box.lines.forEach((line, at) => group.append(this.make("text", { class: "line", x: box.x, y: top + 31.5 + 13 * at }, line)));
    for (const port of box.ports.values())
      group.append(this.make("text", { class: "label", x: box.x + port.offset, y: top + box.h + (box.root ? 14.5 : 12) }, port.text));
    return group;
  }

  move({ x, y, k }) {
    this.world.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
  }
}

class CanvasPainter {
  constructor(stage) {
    this.root = document.createElement("canvas");
    stage.append(this.root);
    this.pen = this.root.getContext("2d");
  }

  show(scene, marks) {
    Object.assign(this, { scene, marks, colour: colours() });
    if (this.pathsOf === scene) return;
    this.pathsOf = scene;
    this.paths = scene.links.map((link) => {
      const { line, head } = arrow(link), xs = link.points.map((p) => p[0]), ys = link.points.map((p) => p[1]);
      return { line: new Path2D(line), head: new Path2D(head), left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
    });
  }

  move(view) {
    const ratio = window.devicePixelRatio || 1, { clientWidth, clientHeight } = this.root.parentElement, pen = this.pen;
    this.root.width = clientWidth * ratio;
    this.root.height = clientHeight * ratio;
    pen.setTransform(ratio * view.k, 0, 0, ratio * view.k, ratio * view.x, ratio * view.y);
    const seen = { left: -view.x / view.k, top: -view.y / view.k, right: (clientWidth - view.x) / view.k, bottom: (clientHeight - view.y) / view.k };
    this.links(seen, view.k);
    this.boxes(seen, view.k);
  }

  links(seen, k) {
    const pen = this.pen, link = this.colour("link"), near = this.colour("accent"), back = this.colour("back");
    this.scene.links.forEach((one, at) => {
      const path = this.paths[at];
      if (path.right < seen.left || path.left > seen.right || path.bottom < seen.top || path.top > seen.bottom) return;
      pen.strokeStyle = this.marks.links.has(at) ? near : one.back ? back : link;
      pen.lineWidth = Math.max(one.width, 0.6 / k);
      pen.stroke(path.line);
      if (k < 0.25) return;
      pen.fillStyle = link;
      pen.fill(path.head);
    });
  }

  boxes(seen, k) {
    const rims = { op: this.colour("op-rim"), leaf: this.colour("leaf-rim"), parameter: this.colour("parameter-rim"), scope: this.colour("scope-rim") };
    this.pen.textAlign = "center";
    this.scene.boxes.forEach((box, at) => {
      if (box.x + box.w < seen.left || box.x - box.w > seen.right || box.y + box.h < seen.top || box.y - box.h > seen.bottom) return;
      this.box(box, at, rims, k);
    });
  }

  box(box, at, rims, k) {
    const pen = this.pen, left = box.x - box.w / 2, top = box.y - box.h / 2;
    pen.globalAlpha = this.marks.faded(at) ? 0.25 : 1;
    const rect = (grow, dx, dy) => { pen.beginPath(); pen.roundRect(left - grow + dx, top - grow + dy, box.w + 2 * grow, box.h + 2 * grow, RADIUS[box.kind] + grow); };
    pen.fillStyle = fillOf(box, this.colour);
    pen.strokeStyle = box.bad ? this.colour("bad") : box.root ? this.colour("root-rim") : rims[box.kind];
    pen.lineWidth = Math.max(1.1, 0.5 / k);
    if (box.root) { rect(3.5, 0, 0); pen.stroke(); }
    if (box.kind === "scope") { rect(0, 3.5, -3.5); pen.fill(); pen.stroke(); }
    rect(0, 0, 0); pen.fill(); pen.stroke();
    if (this.marks.chosen === at) { rect(4.5, 0, 0); pen.strokeStyle = this.colour("accent"); pen.lineWidth = Math.max(2.4, 2 / k); pen.stroke(); }
    if (k > 0.3) this.words(box, top);
    pen.globalAlpha = 1;
  }

  words(box, top) {
    const pen = this.pen;
    pen.fillStyle = this.colour("ink");
    pen.font = `600 12.5px ${FONT}`;
    pen.fillText((box.bad ? "⚠ " : "") + box.title, box.x, top + 18.5);
    pen.fillStyle = this.colour("quiet");
    pen.font = `400 9.5px ${FONT}`;
    box.lines.forEach((line, k) => pen.fillText(line, box.x, top + 31.5 + 13 * k));
    pen.font = `400 9px ${FONT}`;
    for (const port of box.ports.values()) pen.fillText(port.text, box.x + port.offset, top + box.h + (box.root ? 14.5 : 12));
  }
}
