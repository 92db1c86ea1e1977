"use strict";
// The state of the page (what is folded, chosen, looked at) and the hands on it.

const $ = (id) => document.getElementById(id);
const stage = $("stage");

class App {
  constructor() {
    this.closed = new Set();
    this.view = { x: 0, y: 0, k: 1 };
    this.chosen = null; // a node's position
    this.painters = {};
    this.hits = [];
    this.hit = -1;
    this.outline = new Outline($("outline"));
    this.player = graph.steps.length ? new Player(this) : null;
  }

  start() {
    $("title").textContent = graph.title;
    $("summary").textContent = graph.summary;
    $("step").hidden = !this.player;
    $("path").hidden = !graph.critical;
    this.path = Boolean(graph.start.path);
    $("path").setAttribute("aria-pressed", String(this.path));
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    this.setTheme(this.fromHash().get("theme") || system, false);
    $("heat").value = graph.start.heat || "";
    $("scale").hidden = !graph.start.heat; // it takes room from the first picture
    this.closed = this.firstClosed();
    this.layOut();
    this.restore();
    window.addEventListener("hashchange", () => {
      if (location.hash !== this.hash) this.restore(true);
    });
  }

  get untracked() {
    return graph.nodes.some((node) => node.still);
  }

  toggleUntracked() {
    untrackedShown = !untrackedShown;
    if (this.chosen !== null && graph.nodes[this.chosen].still) this.chosen = null;
    this.layOut();
    this.fit();
    this.remember();
  }

  get stepping() {
    return this.player !== null && this.player.on;
  }

  togglePath() {
    if (!graph.critical) return;
    this.path = !this.path;
    markPath(this.scene, this.path);
    $("path").setAttribute("aria-pressed", String(this.path));
    this.paint();
  }

  toggleStepping() {
    if (!this.player) return;
    if (this.stepping) this.player.leave(); else this.player.enter();
    $("step").setAttribute("aria-pressed", String(this.stepping));
    this.remember();
  }

  // -- what is folded ---------------------------------------------------------------------------

  // What the address or the file says; else what can be read.
  firstClosed() {
    const words = this.fromHash(), given = words.get("closed"), open = words.get("open");
    if (given !== null) return new Set(JSON.parse(given));
    if (open !== null) {
      const opened = new Set(JSON.parse(open));
      return new Set(groupNames().filter((name) => !opened.has(name)));
    }
    const closed = new Set(graph.closed.filter((scope) => scopes.has(scope)));
    if (graph.folded) for (const name of repeats.keys()) closed.add(name);
    for (const scope of scopes.keys())
      if (graph.depth && scope.split("/").length === graph.depth) closed.add(scope);
    this.chosenByPage = !closed.size && graph.depth === null;
    return this.chosenByPage ? this.readable() : closed;
  }

  readable() {
    const { closed, inner, zoom } = readableFolding(this.room());
    Object.assign(this, { inner, leastZoom: zoom });
    return closed;
  }

  toggle(scope) {
    if (!this.closed.delete(scope)) this.closed.add(scope);
    else for (const { name } of softIn(scope)) this.closed.delete(name); // wished for, too
    this.refold();
    const { boxes, frames } = this.scene, is = (one) => one.scope === scope;
    this.lookAt(frames.find(is) || boxes.find(is));
    const shown = boxes.length === 1 ? "one box" : `${boxes.length.toLocaleString("en")} boxes`;
    $("announce").textContent = `${this.closed.has(scope) ? "folded" : "opened"}: ${shown}`;
  }

  foldAll() {
    this.closed = new Set(groupNames((group) => !group.soft || this.closed.has(group.name)));
    this.refold(null);
    this.fit();
  }

  unfoldAll() {
    this.closed.clear();
    this.refold(null);
    this.fit();
  }

  refold(before = this.scene) {
    this.chosenByPage = false;
    this.layOut(before);
    this.remember();
  }

  // Words for which boxes leave room while stepping; null else.
  room() {
    return this.stepping ? gradientRoom(this.player.recording) : null;
  }

  colour() {
    const by = $("heat").value;
    warm(this.scene, by);
    return showScale(this.scene, by);
  }

  layOut(before = null) {
    const space = pageSpace(this.leastZoom), at = space && { ...space, inner: this.inner };
    this.scene = buildScene(this.closed, this.room(), at, before);
    this.colour();
    markPath(this.scene, this.path);
    const name = this.scene.boxes.length > CANVAS_FROM ? "canvas" : "svg";
    const kind = name === "svg" ? SvgPainter : CanvasPainter;
    if (!this.painters[name]) this.painters[name] = new kind(stage);
    for (const [key, painter] of Object.entries(this.painters))
      painter.root.style.display = key === name ? "" : "none";
    this.painter = this.painters[name];
    this.outline.show(this.scene);
    this.tellChosen();
    this.paint();
    this.describe();
  }

  // -- what is chosen ---------------------------------------------------------------------------

  choose(at) {
    this.chosen = at;
    this.tellChosen();
    if (at !== null) this.inform(true);
    this.describe();
    this.paint();
    this.remember();
  }

  tellChosen() {
    const { chosen, scene } = this, drawn = chosen !== null && scene.boxOf[chosen] !== undefined;
    if (drawn) this.outline.choose(scene.boxes[scene.boxOf[chosen]], this.announced(chosen));
    else this.outline.choose(null);
  }

  // What a screen reader says of the box of a node: its words, where it stands, and its links.
  announced(at) {
    const k = this.scene.boxOf[at], box = this.scene.boxes[k];
    const count = (end) => this.scene.links.filter((link) => link[end] === k).length;
    const kind = box.group ? "folded, enter opens it" : KIND_WORD[graph.nodes[at].kind];
    const inside = box.frame.title ? `in ${box.frame.title}` : "";
    return [titleText(box), kind, ...box.lines, ...[...box.ports.values()].map(({ text }) => text),
      inside, countText(count("target"), "input"), countText(count("source"), "user")]
      .filter(Boolean).join(", ");
  }

  reveal(at) {
    if (graph.nodes[at].still && !untrackedShown) this.toggleUntracked();
    if (this.scene.boxes[this.scene.boxOf[at]].group) {
      for (let group = homes[at]; group.parent; group = group.parent)
        this.closed.delete(group.name);
      this.layOut(this.scene);
    }
    this.chosen = at;
    this.centre(this.scene.boxes[this.scene.boxOf[at]]);
    this.choose(at);
  }

  // On a small page the panel takes its room from the stage, when it is asked for.
  inform(on) {
    if ($("info").ariaExpanded === String(on)) return;
    $("info").ariaExpanded = String(on);
    document.body.classList.toggle("informed", on);
    if (getComputedStyle($("info")).display !== "none") this.resized();
  }

  describe() {
    if (this.chosen === null && this.stepping) this.player.now.enter();
    else if (this.chosen === null) showOverview(this);
    else {
      const box = this.scene.boxes[this.scene.boxOf[this.chosen]];
      if (box.scope) showScope(this, box);
      else showNode(this, this.chosen);
    }
    const { boxes } = this.scene, number = (count) => count.toLocaleString("en");
    const folded = boxes.reduce((sum, box) => sum + (box.scope ? box.members.length : 0), 0);
    const nodes = countText(graph.nodes.length, "node");
    $("status").textContent = `${nodes} in ${number(boxes.length)} boxes`
      + (folded ? `, ${number(folded)} folded into scopes` : "");
  }

  // Along the links, up to an input, down to a user; left and right to the next box of a row.
  walk(key) {
    const at = this.scene.boxOf[this.chosen], up = key === "ArrowUp";
    if (key === "ArrowLeft" || key === "ArrowRight") return this.walkTo(this.beside(at, key));
    const link = this.scene.links.find((one) => (up ? one.target : one.source) === at);
    if (link) this.walkTo(this.scene.boxes[up ? link.source : link.target]);
  }

  walkTo(box) {
    if (!box) return;
    this.centre(box);
    this.choose(box.members[0]);
  }

  beside(at, key) {
    const { boxes } = this.scene, here = boxes[at], side = key === "ArrowLeft" ? -1 : 1;
    const level = ({ y, h }) => Math.abs(y - here.y) < (h + here.h) / 2;
    const row = boxes.filter((box) => level(box) && (box.x - here.x) * side > 1);
    return row.sort((a, b) => (a.x - b.x) * side)[0];
  }

  // Opens the chosen box where it is folded; chooses the first where none is chosen.
  enter() {
    if (this.chosen === null) return this.walkTo(this.scene.boxes[0]);
    const { scope } = this.scene.boxes[this.scene.boxOf[this.chosen]];
    if (scope) this.toggle(scope);
  }

  // Nodes by what is told of them, and groups by their titles.
  search(text) {
    const wanted = text.trim().toLowerCase(), has = (word) => word.toLowerCase().includes(wanted);
    const nodes = !wanted ? [] : bySeq.filter((at) => wordsOf(at).some(has));
    const found = !wanted ? [] : groups.slice(1).filter((group) => has(groupTitle(group)));
    this.hits = [...found, ...nodes];
    this.hit = -1;
    $("found").textContent = wanted ? `${this.hits.length.toLocaleString("en")} found` : "";
    this.paint();
  }

  nextHit() {
    if (!this.hits.length) return;
    this.hit = (this.hit + 1) % this.hits.length;
    const found = this.hits[this.hit];
    if (typeof found === "number") this.reveal(found); else this.revealGroup(found);
    $("found").textContent = `${this.hit + 1} of ${this.hits.length}`;
  }

  // Opens what is around a group; itself it stays as it is.
  revealGroup(group) {
    for (let outer = group.parent; outer.parent; outer = outer.parent)
      this.closed.delete(outer.name);
    this.refold();
    const is = (one) => one.group === group;
    this.lookAt(this.scene.frames.find(is) || this.scene.boxes.find(is));
  }

  // -- what is looked at ------------------------------------------------------------------------

  paint() {
    const chosen = this.chosen === null ? -1 : this.scene.boxOf[this.chosen], links = new Set();
    this.scene.links.forEach((link, at) => {
      if (link.source === chosen || link.target === chosen) links.add(at);
    });
    const bright = this.hits.length ? new Set(this.hits.flatMap((hit) => this.boxesOf(hit))) : null;
    const faded = (box) => bright !== null && !bright.has(box);
    this.painter.show(this.scene, { chosen, links, faded });
    this.drawView();
  }

  boxesOf(hit) {
    const nodes = typeof hit === "number" ? [hit] : hit.members;
    return nodes.map((at) => this.scene.boxOf[at]);
  }

  drawView() {
    this.painter.move(this.view);
    if (this.stepping) this.player.refresh();
  }

  move(view) {
    Object.assign(this.view, view);
    this.fitted = null;
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.drawView(); });
    clearTimeout(this.later);
    this.later = setTimeout(() => this.remember(), 250);
  }

  zoom(factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
    const k = Math.min(4, Math.max(0.001, this.view.k * factor)), by = k / this.view.k;
    this.move({ k, x: x - (x - this.view.x) * by, y: y - (y - this.view.y) * by });
  }

  fit() {
    const { clientWidth: w, clientHeight: h } = stage, { width, height } = this.scene;
    const k = Math.max(zoomToFit(this.scene), 0.001);
    this.move({ k, x: (w - width * k) / 2, y: (h - height * k) / 2 });
    this.fitted = "fit";
  }

  // The whole where its titles can be read, else its top at a size that can.
  begin() {
    this.fit();
    const k = DETAIL, spare = stage.clientWidth - this.scene.width * k;
    const left = Math.max(EDGE.x, spare / 2);
    if (this.view.k < TITLES) this.move({ k, x: left, y: EDGE.y });
    this.fitted = "begin";
  }

  // A box or frame that has just changed: with the whole, where that can be read.
  lookAt(item) {
    if (!item || zoomToFit(this.scene) >= TITLES) return this.fit();
    const { clientWidth: wide, clientHeight: tall } = stage, { x, y, w, h } = item;
    const k = Math.min(1, Math.max(TITLES, Math.min((wide - 80) / w, (tall - 80) / h)));
    const left = w * k < wide ? wide / 2 - x * k : 40 - (x - w / 2) * k;
    const top = h * k < tall ? tall / 2 - y * k : 40 - (y - h / 2) * k;
    this.move({ k, x: left, y: top });
  }

  // The page has another size: what it chose itself it chooses anew, and what fitted fits again.
  resized() {
    if (!stage.clientWidth) return;
    if (!this.fitted) return this.drawView();
    const look = this.fitted;
    if (this.chosenByPage) this.closed = this.readable();
    this.layOut();
    this[look]();
  }

  centre(box) {
    const k = Math.max(this.view.k, 0.7);
    this.move({ k, x: stage.clientWidth / 2 - box.x * k, y: stage.clientHeight / 2 - box.y * k });
  }

  setTheme(theme, repaint = true) {
    this.theme = document.documentElement.dataset.theme = theme === "dark" ? "dark" : "light";
    if (this.player) this.player.setTheme();
    if (repaint) { this.paint(); this.remember(); }
  }

  // -- the address ------------------------------------------------------------------------------

  fromHash() {
    return new URLSearchParams(location.hash.slice(1));
  }

  remember() {
    const { x, y, k } = this.view, words = new URLSearchParams();
    words.set("at", [x, y, k].map((value) => Number(value.toPrecision(5))).join(","));
    if (this.chosen !== null) words.set("node", graph.nodes[this.chosen].id);
    const open = groupNames().filter((name) => !this.closed.has(name));
    if (open.length < this.closed.size) words.set("open", JSON.stringify(open));
    else words.set("closed", JSON.stringify([...this.closed]));
    words.set("theme", this.theme);
    if (this.stepping)
      words.set("step", `${this.player.axis},${Number(this.player.at.toFixed(4))}`);
    this.hash = "#" + words;
    if (this.hash.length > 8000) return;
    try {
      history.replaceState(null, "", this.hash);
    } catch {
      // In a notebook's frame the page has no address of its own: nothing to remember.
    }
  }

  restore(again = false) {
    const words = this.fromHash(), at = (words.get("at") || "").split(",").map(Number);
    if (again) { this.closed = this.firstClosed(); this.layOut(); }
    const node = graph.nodes.findIndex((one) => String(one.id) === words.get("node"));
    if (node >= 0) this.chosen = node;
    const stepped = this.restoreStep(words.get("step"));
    if (at.length === 3 && at.every(Number.isFinite) && at[2] > 0)
      this.move({ x: at[0], y: at[1], k: at[2] });
    else if (stepped) this.player.firstLook();
    else if (node >= 0) this.reveal(node);
    else this.begin();
    this.describe();
    this.paint();
  }

  // Enters the step-through where the address, or the file, asks for it: "node,12.5".
  restoreStep(words) {
    const wanted = words !== null || (graph.start.mode === "step" && !location.hash);
    if (!this.player || !wanted) return false;
    const [axis, at] = (words || "node,0").split(",");
    if (!this.stepping) this.toggleStepping();
    this.player.axis = axis === "time" ? "time" : "node";
    this.player.at = Math.min(this.player.end(), Math.max(0, Number(at) || 0));
    this.player.refresh();
    return true;
  }
}

const unseen = !stage.clientWidth; // so it may be with a notebook's frame that is being opened
const app = new App();
app.start();
if (unseen) new ResizeObserver((_, watch) => {
  if (!stage.clientWidth) return;
  watch.disconnect();
  app.restore(); // the first look again, now that there is room
}).observe(stage);
