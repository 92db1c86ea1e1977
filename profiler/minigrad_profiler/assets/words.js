"use strict";
// Shared by all parts of the page: the data, readable numbers, elements, the tooltip.

const report = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);

function threeDigits(x) {
  return x < 9.995 ? x.toFixed(2) : x < 99.95 ? x.toFixed(1) : grouped(Math.round(x));
}

function grouped(n) {
  return n.toLocaleString("en-US");
}

function duration(ns) {
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]])
    if (ns >= 0.9995 * size) return `${threeDigits(ns / size)} ${unit}`;
  return `${Math.round(ns)} ns`;
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1000 && at < units.length - 1) { n /= 1024; at += 1; }
  return at ? `${threeDigits(n)} ${units[at]}` : `${Math.round(n)} B`;
}

function rate(x) {
  for (const [size, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (x >= 0.9995 * size) return `${threeDigits(x / size)} ${prefix}`;
  return `${x.toPrecision(3)} `;
}

// element("p", {class: "quiet"}, "text", child): texts become text nodes, never markup.
function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function drawing(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== null && value !== false && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A link to a line of the program; of a long path the last two parts are shown.
function placeLink(place, text = place) {
  const [path, ...rest] = text.split(" ");
  const parts = path.split("/");
  const short = parts.length > 3 ? `…/${parts.slice(-2).join("/")}` : path;
  return element("a", { href: "#source", class: "place", title: text,
    onclick: (event) => { event.preventDefault(); showLine(place); } }, [short, ...rest].join(" "));
}

// A row of buttons of which one is pressed; choose(value) is called when that changes.
function choices(host, values, first, choose) {
  const buttons = values.map(([value, text]) => element("button", {
    "aria-pressed": String(value === first), "data-value": value,
    onclick: () => {
      for (const button of buttons)
        button.setAttribute("aria-pressed", String(button.dataset.value === value));
      choose(value);
    },
  }, text));
  host.replaceChildren(...buttons);
}

const tip = {
  show(x, y, lines) {
    const box = $("tip");
    box.replaceChildren(...lines.filter(Boolean).map((line, at) =>
      element(at ? "span" : "b", {}, line)));
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    box.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 4))}px`;
    box.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 10) : y + 18}px`;
  },
  hide() { $("tip").hidden = true; },
};

// Redraws that depend on size or theme; each is called at the start, too.
const redraws = [];
function whenResized(draw) { redraws.push(draw); }
function redrawAll() { for (const draw of redraws) draw(); }

// Times of an axis with round numbers: [nanoseconds, ...], at most `most` of them.
function ticks(from, to, most) {
  const rough = Math.max((to - from) / most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}
