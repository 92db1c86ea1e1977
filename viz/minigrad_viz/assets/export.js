"use strict";
// The picture of a step as a file of its own: SVG with plain colours, which any program reads. The
// moving layer is drawn by its own code, with a pen that writes shapes down instead of pixels.

const FRAMES_AT_MOST = 500, AROUND = 14, CAPTION = 30;
const SVG = "http://www.w3.org/2000/svg";
const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity",
  "font-size", "font-weight", "text-anchor", "paint-order", "stroke-linejoin"];
const WORKS_AT = 0.72; // of a step: its node has run, and what it gives is on its way

function shape(name, attributes, text = "") {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  if (text) element.textContent = text;
  return element;
}

// The part of a canvas's pen that flow.js uses.
class SvgPen {
  constructor() {
    this.root = shape("g", {});
    this.clips = [];
    this.alphas = [];
    Object.assign(this, { globalAlpha: 1, lineWidth: 1, lineCap: "butt", textAlign: "left" });
  }

  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${x} ${y}`; }
  lineTo(x, y) { this.path += `L${x} ${y}`; }
  rect(x, y, w, h) { this.path += `M${x} ${y}h${w}v${h}h${-w}z`; }
  arc(x, y, r) { this.roundRect(x - r, y - r, 2 * r, 2 * r, r); } // whole circles alone

  roundRect(x, y, w, h, radius) {
    const r = Math.max(0, Math.min(radius, w / 2, h / 2));
    const turn = (dx, dy) => `a${r} ${r} 0 0 1 ${dx} ${dy}`;
    this.path += `M${x + r} ${y}h${w - 2 * r}${turn(r, r)}v${h - 2 * r}${turn(-r, r)}`
      + `h${2 * r - w}${turn(-r, -r)}v${2 * r - h}${turn(r, -r)}z`;
  }

  add(element) {
    const [clip] = this.clips;
    if (clip) element.setAttribute("clip-path", `url(#${clip})`);
    this.root.append(element);
  }

  fill() {
    const fill = plain(this.fillStyle);
    this.add(shape("path", { d: this.path, fill, opacity: this.globalAlpha }));
  }

  stroke(path = this.path) {
    this.add(shape("path", { d: path, fill: "none", stroke: plain(this.strokeStyle),
      "stroke-width": this.lineWidth, "stroke-linecap": this.lineCap, opacity: this.globalAlpha }));
  }

  fillRect(x, y, w, h) {
    this.beginPath();
    this.rect(x, y, w, h);
    this.fill();
  }

  fillText(text, x, y) {
    const [weight, size] = this.font.split(" ");
    this.add(shape("text", { x, y, fill: plain(this.fillStyle), "font-weight": weight,
      "font-size": size, opacity: this.globalAlpha,
      "text-anchor": this.textAlign === "center" ? "middle" : "start" }, text));
  }

  measureText(text) {
    pen.font = this.font;
    return pen.measureText(text);
  }

  save() { this.alphas.push(this.globalAlpha); }

  restore() {
    this.clips.pop();
    this.globalAlpha = this.alphas.pop();
  }

  clip() {
    const id = `c${this.root.childElementCount}`, path = shape("clipPath", { id });
    path.append(shape("path", { d: this.path }));
    this.root.append(path);
    this.clips.push(id);
  }
}

// "rgb(1,2,3)" of any colour that the browser knows, mixed ones too.
const plainColours = new Map();

function plain(colour) {
  if (colour === "none" || !colour) return "none";
  if (!plainColours.has(colour)) {
    const canvas = document.createElement("canvas"), dot = canvas.getContext("2d");
    dot.fillStyle = colour;
    dot.fillRect(0, 0, 1, 1);
    const [r, g, b, alpha] = dot.getImageData(0, 0, 1, 1).data;
    plainColours.set(colour, alpha ? `rgb(${r},${g},${b})` : "none");
  }
  return plainColours.get(colour);
}

// The still picture with what its style sheet says written to each shape.
function stillPicture(scene) {
  const host = tag("div");
  host.hidden = true;
  document.body.append(host);
  const painter = new SvgPainter(host);
  painter.show(scene, { chosen: -1, links: new Set(), faded: () => false });
  const { world } = painter;
  for (const element of world.querySelectorAll("*")) {
    const style = getComputedStyle(element), group = element.tagName === "g";
    for (const key of group ? ["opacity"] : KEPT) {
      const value = style.getPropertyValue(key), colour = key === "fill" || key === "stroke";
      element.setAttribute(key, colour ? plain(value) : value);
    }
    element.removeAttribute("style");
    element.removeAttribute("class");
  }
  host.remove();
  return world;
}

// The text of an SVG file: the still picture, the moment over it, and a line that says what runs.
function frameText(still, moment, words) {
  const { scene, player } = app, ink = colours();
  const wide = wideEnough(scene), tall = scene.height + 2 * AROUND + CAPTION;
  const picture = shape("svg", { xmlns: SVG, viewBox: `${-AROUND} ${-AROUND} ${wide} ${tall}`,
    width: Math.round(wide), height: Math.round(tall), "font-family": FONT.replaceAll('"', "'") });
  picture.append(shape("title", {}, `${graph.title}: ${words}`),
    shape("rect", { x: -AROUND, y: -AROUND, width: wide, height: tall, fill: plain(ink("paper")) }),
    still.cloneNode(true), player.flow.written(new SvgPen(), scene, player.recording, moment),
    shape("text", { x: 0, y: scene.height + AROUND + 8, fill: plain(ink("ink")), "font-size": 13,
      "font-weight": 600 }, words));
  return new XMLSerializer().serializeToString(picture);
}

// Room for the picture, numbers on their way right of it, and the longest caption; of all frames.
function wideEnough(scene) {
  const { steps } = app.player.recording, few = ({ values }) => values && values.length <= 4;
  let numbers = 0, caption = 0;
  for (const step of steps) {
    const words = wordsOfMoment({ n: step.k, running: [[step, 1]] });
    caption = Math.max(caption, textWidth(words, 13, 600));
    for (const { values } of step.sent.filter(few))
      numbers = Math.max(numbers, textWidth(valuesText(values), 9.5, 600) + 40);
  }
  return Math.max(scene.width + numbers, caption) + 2 * AROUND;
}

function wordsOfMoment({ n, running }) {
  const { steps } = app.player.recording, [step] = running[0] || [steps[n - 1]];
  if (!step) return "before the backward";
  const state = running.length ? "runs" : "has run";
  return `step ${step.k + 1} of ${steps.length} ${state}: ${whereOf(graph.nodes[step.node])}`;
}

const fileStem = () => graph.title.replace(/\.json$/, "").replace(/[^\w.-]+/g, "-") || "graph";

function saveStep() {
  const moment = app.player.moment(), { digits } = numbering();
  const text = frameText(stillPicture(app.scene), moment, wordsOfMoment(moment));
  const blob = new Blob([text], { type: "image/svg+xml" });
  download(`${fileStem()}-step-${digits(moment.n)}.svg`, blob);
}

function numbering() {
  const { steps } = app.player.recording, places = String(steps.length + 1).length;
  return { steps, digits: (n) => String(n).padStart(places, "0") };
}

// The moments of the numbered frames: before, each step as it runs, and the end.
function frameMoments() {
  const { steps } = numbering(), stride = Math.ceil((steps.length + 2) / FRAMES_AT_MOST);
  const still = (n) => ({ n, running: [], ended: [], pulse: 0 });
  const run = steps.filter(({ k }) => k % stride === 0)
    .map((step) => ({ ...still(step.k), running: [[step, WORKS_AT]] }));
  return [still(0), ...run, still(steps.length)];
}

function saveFrames() {
  const picture = stillPicture(app.scene), { digits } = numbering();
  const files = frameMoments().map((moment, k) => [`${fileStem()}-${digits(k)}.svg`,
    new TextEncoder().encode(frameText(picture, moment, wordsOfMoment(moment)))]);
  download(`${fileStem()}-frames.zip`, new Blob(zipOf(files), { type: "application/zip" }));
}

function download(name, blob) {
  const link = tag("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// A link that opens at this moment; where the clipboard is closed to pages, to be copied by hand.
function copyLink(button) {
  app.remember();
  const done = () => { button.textContent = "Copied"; };
  const byHand = () => {
    const field = tag("input");
    Object.assign(field, { readOnly: true, value: location.href });
    field.setAttribute("aria-label", "Link to this step");
    button.parentElement.append(field);
    field.select();
  };
  if (navigator.clipboard) navigator.clipboard.writeText(location.href).then(done, byHand);
  else byHand();
}

// -- zip ------------------------------------------------------------------------------------------

function checksum(bytes) {
  let sum = -1;
  for (const byte of bytes) {
    sum ^= byte;
    for (let k = 0; k < 8; k++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
}

// The parts of a zip file that holds [name, bytes] as they are (PKWARE's APPNOTE, method 0).
function zipOf(files) {
  const local = [], central = [];
  let at = 0;
  for (const [name, bytes] of files) {
    const title = new TextEncoder().encode(name);
    const facts = fields([20, 2], [0x800, 2], [0, 2], [0, 2], [0x21, 2], [checksum(bytes), 4],
      [bytes.length, 4], [bytes.length, 4], [title.length, 2], [0, 2]);
    local.push(fields([0x04034b50, 4]), facts, title, bytes);
    central.push(fields([0x02014b50, 4], [20, 2]), facts,
      fields([0, 2], [0, 2], [0, 2], [0, 4], [at, 4]), title);
    at += 4 + facts.length + title.length + bytes.length;
  }
  const size = central.reduce((sum, part) => sum + part.length, 0), count = [files.length, 2];
  const end = fields([0x06054b50, 4], [0, 2], [0, 2], count, count, [size, 4], [at, 4], [0, 2]);
  return [...local, ...central, end];
}

// Numbers of so many bytes each, the lowest byte first.
function fields(...pairs) {
  return Uint8Array.from(pairs.flatMap(([value, size]) =>
    Array.from({ length: size }, (_, k) => Math.floor(value / 256 ** k) % 256)));
}
