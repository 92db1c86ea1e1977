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
  }

  start() {
    $("title").textContent = graph.title;
    $("summary").textContent = graph.summary;
    this.setTheme(this.fromHash().get("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"), false);
    this.closed = this.firstClosed();
    this.layOut();
    this.restore();
    window.addEventListener("hashchange", () => { if (location.hash !== this.hash) this.restore(true); });
  }

  // -- what is folded ---------------------------------------------------------------------------

  firstClosed() {
    const given = this.fromHash().get("closed");
    if (given !== null) return new Set(JSON.parse(given));
    const closed = new Set(graph.closed.filter((scope) => scopes.has(scope)));
    const deep = (depth) => [...scopes.keys()].filter((scope) => scope.split("/").length === depth);
    if (graph.depth) deep(graph.depth).forEach((scope) => closed.add(scope));
    else if (graph.nodes.length > CANVAS_FROM && !closed.size) deep(1).forEach((scope) => closed.add(scope));
    return closed;
  }

  toggle(scope) {
    if (this.closed.has(scope)) this.closed.delete(scope);
    else this.closed.add(scope);
    this.refold(scope);
  }

  foldAll() {
    for (const scope of scopes.keys()) if (!scope.includes("/")) this.closed.add(scope);
    this.refold();
  }

  unfoldAll() {
    this.closed.clear();
    this.refold();
  }

  // Lays out again and keeps what was under the eye where it was.
  refold(scope) {
    const anchor = this.chosen !== null ? this.chosen : graph.nodes.findIndex((node) => prefixes(node.scope).includes(scope));
    const before = anchor >= 0 && this.scene.boxes[this.scene.boxOf[anchor]];
    const at = before && [this.view.x + before.x * this.view.k, this.view.y + before.y * this.view.k];
    this.layOut();
    if (!at) return this.fit();
    const after = this.scene.boxes[this.scene.boxOf[anchor]];
    this.view.x = at[0] - after.x * this.view.k;
    this.view.y = at[1] - after.y * this.view.k;
    this.paint();
    this.remember();
  }

  layOut() {
    this.scene = buildScene(this.closed);
    warm(this.scene, $("heat").value);
    const name = this.scene.boxes.length > CANVAS_FROM ? "canvas" : "svg";
    if (!this.painters[name]) this.painters[name] = name === "svg" ? new SvgPainter(stage) : new CanvasPainter(stage);
    for (const [key, painter] of Object.entries(this.painters)) painter.root.style.display = key === name ? "" : "none";
    this.painter = this.painters[name];
    this.paint();
    this.describe();
  }

  // -- what is chosen ---------------------------------------------------------------------------

  choose(at) {
    this.chosen = at;
    this.describe();
    this.paint();
    this.remember();
  }

  reveal(at) {
    const inside = this.scene.boxes[this.scene.boxOf[at]].scope;
    if (inside) {
      for (const scope of [...prefixes(graph.nodes[at].scope), inside]) this.closed.delete(scope);
      this.layOut();
    }
    this.chosen = at;
    this.centre(this.scene.boxes[this.scene.boxOf[at]]);
    this.choose(at);
  }

  describe() {
    if (this.chosen === null) showOverview(this);
    else {
      const box = this.scene.boxes[this.scene.boxOf[this.chosen]];
      if (box.scope) showScope(this, box);
      else showNode(this, this.chosen);
    }
    const folded = this.scene.boxes.filter((box) => box.scope).reduce((sum, box) => sum + box.members.length, 0);
    $("status").textContent = `${countText(graph.nodes.length, "node")} in ${this.scene.boxes.length.toLocaleString("en")} boxes` + (folded ? `, ${folded.toLocaleString("en")} folded into scopes` : "");
  }

  // Along the links: up to an input, down to a user.
  walk(key) {
    const box = this.scene.boxOf[this.chosen];
    const link = this.scene.links.find((one) => (key === "ArrowUp" ? one.target === box : one.source === box));
    if (!link) return;
    const next = this.scene.boxes[key === "ArrowUp" ? link.source : link.target];
    this.centre(next);
    this.choose(next.members[0]);
  }

  search(text) {
    const wanted = text.trim().toLowerCase();
    this.hits = !wanted ? [] : bySeq.filter((at) => {
      const node = graph.nodes[at];
      return [node.op, node.name, node.scope, node.site, "#" + node.id].some((word) => word && word.toLowerCase().includes(wanted));
    });
    this.hit = -1;
    $("found").textContent = wanted ? `${this.hits.length.toLocaleString("en")} found` : "";
    this.paint();
  }

  nextHit() {
    if (!this.hits.length) return;
    this.hit = (this.hit + 1) % this.hits.length;
    this.reveal(this.hits[this.hit]);
    $("found").textContent = `${this.hit + 1} of ${this.hits.length}`;
  }

  // -- what is looked at ------------------------------------------------------------------------

  paint() {
    const chosen = this.chosen === null ? -1 : this.scene.boxOf[this.chosen], links = new Set();
    this.scene.links.forEach((link, at) => { if (link.source === chosen || link.target === chosen) links.add(at); });
    const bright = this.hits.length ? new Set(this.hits.map((at) => this.scene.boxOf[at])) : null;
    this.painter.show(this.scene, { chosen, links, faded: (box) => bright !== null && !bright.has(box) });
    this.painter.move(this.view);
  }

  move(view) {
    Object.assign(this.view, view);
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.painter.move(this.view); });
    clearTimeout(this.later);
    this.later = setTimeout(() => this.remember(), 250);
  }

  zoom(factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
    const k = Math.min(4, Math.max(0.001, this.view.k * factor)), by = k / this.view.k;
    this.move({ k, x: x - (x - this.view.x) * by, y: y - (y - this.view.y) * by });
  }

  fit() {
    const { clientWidth: w, clientHeight: h } = stage, { width, height } = this.scene;
    const k = Math.min(1.25, (w - 60) / width, (h - 60) / height);
    this.move({ k: Math.max(k, 0.001), x: (w - width * k) / 2, y: (h - height * k) / 2 });
  }

  // The first look: the whole graph, or its top where the whole would be too small to read.
  begin() {
    this.fit();
    const k = 0.8, { width } = this.scene;
    if (this.view.k < k && width * k < stage.clientWidth - 60) this.move({ k, x: (stage.clientWidth - width * k) / 2, y: 30 });
  }

  centre(box) {
    const k = Math.max(this.view.k, 0.7);
    this.move({ k, x: stage.clientWidth / 2 - box.x * k, y: stage.clientHeight / 2 - box.y * k });
  }

  setTheme(theme, repaint = true) {
    this.theme = document.documentElement.dataset.theme = theme === "dark" ? "dark" : "light";
    if (repaint) { this.paint(); this.remember(); }
  }

  // -- the address ------------------------------------------------------------------------------

  fromHash() {
    return new URLSearchParams(location.hash.slice(1));
  }

  remember() {
    const { x, y, k } = this.view, words = new URLSearchParams({ at: [x, y, k].map((v) => Number(v.toPrecision(5))).join(",") });
    if (this.chosen !== null) words.set("node", graph.nodes[this.chosen].id);
    words.set("closed", JSON.stringify([...this.closed]));
    words.set("theme", this.theme);
    this.hash = "#" + words;
    if (this.hash.length < 8000) history.replaceState(null, "", this.hash);
  }

  restore(again = false) {
    const words = this.fromHash(), at = (words.get("at") || "").split(",").map(Number);
    if (again) { this.closed = this.firstClosed(); this.layOut(); }
    const node = graph.nodes.findIndex((one) => String(one.id) === words.get("node"));
    if (node >= 0) this.chosen = node;
    if (at.length === 3 && at.every(Number.isFinite) && at[2] > 0) this.move({ x: at[0], y: at[1], k: at[2] });
    else if (node >= 0) this.reveal(node);
    else this.begin();
    this.describe();
    this.paint();
  }
}

const app = new App();
app.start();
