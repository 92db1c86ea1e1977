"use strict";
// Mouse, touch and keyboard.

function boxAt(event) {
  const frame = stage.getBoundingClientRect(), { x, y, k } = app.view;
  const gx = (event.clientX - frame.left - x) / k, gy = (event.clientY - frame.top - y) / k;
  const inside = (box) => Math.abs(box.x - gx) <= box.w / 2 && Math.abs(box.y - gy) <= box.h / 2;
  const onTitle = ({ outer, grow = 1, titleWidth, ...frame }) => outer && inside(frame)
    && gy < frame.y - frame.h / 2 + 26 * grow && gx < frame.x - frame.w / 2 + titleWidth * grow;
  return app.scene.boxes.find(inside) || [...app.scene.frames].reverse().find(onTitle);
}

let held = null;
stage.addEventListener("pointerdown", (event) => {
  held = { x: event.clientX, y: event.clientY, view: { ...app.view }, moved: false };
  stage.setPointerCapture(event.pointerId);
});
stage.addEventListener("pointermove", (event) => {
  if (!held) {
    const text = explained(boxAt(event));
    if (stage.title !== text) stage.title = text;
    return;
  }
  const dx = event.clientX - held.x, dy = event.clientY - held.y;
  held.moved = held.moved || Math.hypot(dx, dy) > 4;
  stage.classList.toggle("moving", held.moved);
  if (!held.moved) return;
  if (app.stepping) app.player.follows = false;
  app.move({ x: held.view.x + dx, y: held.view.y + dy });
});
stage.addEventListener("pointerup", (event) => {
  const click = held && !held.moved;
  held = null;
  stage.classList.remove("moving");
  if (!click) return;
  const box = boxAt(event);
  if (box && box.scope) app.toggle(box.scope);
  else app.choose(box ? box.members[0] : null);
});
stage.addEventListener("pointercancel", () => { held = null; });
stage.addEventListener("wheel", (event) => {
  event.preventDefault();
  const frame = stage.getBoundingClientRect(), lines = event.deltaMode === 1 ? 30 : 1;
  const factor = Math.exp(-event.deltaY * lines * 0.0016);
  app.zoom(factor, event.clientX - frame.left, event.clientY - frame.top);
}, { passive: false });

function foldHere() {
  if (app.chosen === null) return;
  const { frame } = app.scene.boxes[app.scene.boxOf[app.chosen]];
  if (frame.outer) app.toggle(frame.scope);
}

function openHere() {
  if (app.chosen === null) return;
  const { scope } = app.scene.boxes[app.scene.boxOf[app.chosen]];
  if (scope) app.toggle(scope);
}

function arrowKey(key) {
  if (app.chosen !== null) return app.walk(key);
  const [dx, dy] = {
    ArrowUp: [0, 60], ArrowDown: [0, -60], ArrowLeft: [60, 0], ArrowRight: [-60, 0],
  }[key];
  app.move({ x: app.view.x + dx, y: app.view.y + dy });
}

const KEYS = {
  0: () => app.fit(), "+": () => app.zoom(1.25), "=": () => app.zoom(1.25),
  "-": () => app.zoom(0.8), "/": () => $("search").focus(),
  t: () => app.setTheme(app.theme === "dark" ? "light" : "dark"),
  c: foldHere, e: openHere, Enter: () => app.enter(),
  C: () => app.foldAll(), E: () => app.unfoldAll(),
  i: () => { if (app.untracked) app.toggleUntracked(); },
  s: () => app.toggleStepping(), p: () => app.togglePath(), Escape: () => app.choose(null),
};

// While stepping the player's keys come first; on a focused button, space presses the button.
function actFor(event) {
  if (event.key === "Enter" && event.target instanceof HTMLButtonElement) return null;
  const walks = event.shiftKey && event.key.startsWith("Arrow"); // while stepping, too
  if (app.stepping && !walks) {
    if (event.key === " " && event.target instanceof HTMLButtonElement) return null;
    const act = app.player.key(event.key);
    if (act) return act;
  }
  return event.key.startsWith("Arrow") ? () => arrowKey(event.key) : KEYS[event.key];
}

window.addEventListener("keydown", (event) => {
  const { target } = event;
  const typing = target instanceof HTMLInputElement || target instanceof HTMLSelectElement;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing) {
    if (event.key === "Escape") { $("search").value = ""; app.search(""); stage.focus(); }
    else if (event.key === "Enter" && target === $("search")) app.nextHit();
    return;
  }
  const act = actFor(event);
  if (!act) return;
  event.preventDefault();
  act();
});

$("search").addEventListener("input", (event) => app.search(event.target.value));
$("heat").addEventListener("change", () => {
  if (app.colour()) app.resized(); // there is less room now, or more
  app.paint();
});
$("step").addEventListener("click", KEYS.s);
$("path").addEventListener("click", KEYS.p);
$("fold").addEventListener("click", () => app.foldAll());
$("unfold").addEventListener("click", () => app.unfoldAll());
$("fit").addEventListener("click", () => app.fit());
$("theme").addEventListener("click", KEYS.t);
$("info").addEventListener("click", () => app.inform($("info").ariaExpanded !== "true"));
window.addEventListener("resize", () => app.resized());

// Paper is light.
let shown = null;
window.addEventListener("beforeprint", () => { shown = app.theme; app.setTheme("light"); });
window.addEventListener("afterprint", () => app.setTheme(shown));
