"use strict";
// Puts the parts together: sections, theme, keys, printing.

const source = new Source(report.source);
const timeline = new Timeline(report.timeline);

function showLine(place) { source.show(place); }

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  redrawAll();
}

function sections() {
  return [...document.querySelectorAll("main section")].filter((section) => !section.hidden);
}

function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const writing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key === "Escape" && writing) document.activeElement.blur();
    if (writing) return;
    if (event.key === "/") { event.preventDefault(); $("search").focus(); }
    if (event.key === "t") $("theme").click();
    const section = /^[1-9]$/.test(event.key) && sections()[Number(event.key) - 1];
    if (section) section.scrollIntoView();
  });
}

function start() {
  startSummary();
  startTable();
  timeline.start();
  new Flame(report.flame).start();
  if (report.memory) new MemoryChart(report.memory).start();
  new RoofChart(report.roofline).start();
  source.start();
  if (report.compare) new Comparison(report.compare).start();
  $("nav").replaceChildren(...sections().map((section, at) => element("a", { href: `#${section.id}`,
    title: `${section.getAttribute("aria-label")} (${at + 1})` }, section.getAttribute("aria-label"))));
  $("theme").addEventListener("click", () =>
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  startKeys();
  let before = null;
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    setTheme("light");
  });
  addEventListener("afterprint", () => setTheme(before));
  addEventListener("resize", redrawAll);
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

start();
