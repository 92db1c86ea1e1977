"use strict";
// The step-through: the position, the clock that moves it, and its buttons and keys.

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16, 32];
const PULSE = 0.45; // seconds that an arrival is shown

// "layers.3/self_attn: matmul"
function whereOf({ scope, op, kind }) {
  const inner = scope ? scope.split("/").slice(1).join("/") || scope : "";
  const what = op || KIND_WORD[kind];
  return shorten(inner ? `${inner}: ${what}` : what, 60);
}

// The two outermost scopes of a step: a layer of a model.
function chapterOf({ node }) {
  return (graph.nodes[node].scope || "").split("/").slice(0, 2).join("/");
}

class Player {
  constructor(app) {
    this.app = app;
    this.recording = new Recording();
    this.axis = "node";
    this.at = 0;
    this.speed = 1;
    this.on = this.playing = false;
    this.follows = true;
    this.goal = null; // where a single step is heading
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
  }

  build() {
    if (this.flow) return;
    this.flow = new Flow(stage);
    this.dock = new Dock(this.recording);
    this.now = new Now(this.recording);
    this.listen();
    this.listChapters();
  }

  enter() {
    this.on = true;
    $("dock").hidden = false;
    document.body.classList.add("stepping");
    this.build();
    this.flow.root.style.display = "";
    this.setTheme();
    if (this.app.chosenByPage) this.app.closed = this.app.readable(); // there is less room now
    this.app.layOut();
    this.firstLook();
    this.app.describe();
    this.refresh();
  }

  leave() {
    this.pause();
    this.on = false;
    $("dock").hidden = true;
    document.body.classList.remove("stepping");
    this.flow.root.style.display = "none";
    if (this.app.chosenByPage) this.app.closed = this.app.readable();
    this.app.layOut();
    this.app.fit();
    this.app.describe();
  }

  // All of the graph where its numbers can be read, else the root, from which backward starts.
  firstLook() {
    this.app.fit();
    if (this.app.view.k >= DETAIL) return;
    const { steps } = this.recording, n = this.recording.finished(this.axis, this.at), k = 0.95;
    const { scene } = this.app, box = scene.boxes[scene.boxOf[(steps[n] || steps[0]).node]];
    const { clientWidth: wide, clientHeight: tall } = stage;
    this.app.move(this.within({ k, x: wide / 2 - box.x * k, y: tall * 0.68 - box.y * k }));
  }

  // A view with no blank beside the picture, as far as that is large enough.
  within({ x, y, k }) {
    const { width, height } = this.app.scene, { clientWidth: wide, clientHeight: tall } = stage;
    const inside = (at, room, size) => (size < room ? (room - size) / 2
      : Math.min(EDGE.x, Math.max(room - EDGE.x - size, at)));
    return { k, x: inside(x, wide, width * k), y: inside(y, tall, height * k) };
  }

  setTheme() {
    if (!this.flow) return;
    this.flow.setTheme();
    this.dock.setTheme();
  }

  // -- the clock --------------------------------------------------------------------------------

  // Positions a second at speed 1: the whole takes at least 0.9 s a step, but two minutes at most.
  rate() {
    const steps = Math.max(1, this.recording.steps.length);
    return (this.recording.length(this.axis) / Math.min(120, 0.9 * steps)) * this.speed;
  }

  play() {
    if (this.at >= this.end()) this.at = 0;
    this.playing = true;
    this.goal = null;
    this.wake();
  }

  pause() {
    this.playing = false;
    this.goal = null;
    this.refresh();
    this.app.remember();
  }

  toggle() {
    if (this.playing) this.pause(); else this.play();
    this.buttons();
  }

  end() {
    return this.recording.length(this.axis);
  }

  // To where one step more, or one less, is finished; forward it is played, back it jumps.
  step(by) {
    const from = this.goal === null ? this.at : this.goal, { recording, axis } = this;
    const n = recording.finished(axis, from), whole = recording.after(axis, n);
    const back = from > whole + 1e-9 ? n : n - 1;
    this.playing = false;
    if (by < 0) return this.seek(recording.after(axis, Math.max(0, back)));
    const goal = recording.after(axis, Math.min(recording.steps.length, n + 1));
    if (this.still.matches) return this.seek(goal);
    if (this.goal !== null) this.at = this.goal;
    this.goal = goal;
    this.wake();
  }

  seek(at) {
    this.goal = null;
    this.at = Math.min(this.end(), Math.max(0, at));
    this.refresh();
    if (this.follows) this.wake();
    clearTimeout(this.later);
    this.later = setTimeout(() => this.app.remember(), 250);
  }

  // To where a gradient is next added to another.
  seekAccumulation() {
    const { recording, axis } = this, n = recording.finished(axis, this.at);
    const next = recording.steps.slice(n).find((step) => step.sent.some((part) => part.rank > 0));
    if (next) this.seek(recording.after(axis, next.k + 1));
  }

  // The steps with which a chapter, a layer of the model, begins.
  get chapters() {
    const { steps } = this.recording;
    return steps.filter(({ k }) => k === 0 || chapterOf(steps[k]) !== chapterOf(steps[k - 1]));
  }

  // To the first step of the next chapter, or of this one, or of the one before.
  seekChapter(by) {
    const { recording, axis } = this, n = recording.finished(axis, this.at);
    const starts = this.chapters.map(({ k }) => k);
    const found = by > 0 ? starts.find((k) => k > n) : starts.reverse().find((k) => k < n);
    if (found !== undefined) this.seek(recording.after(axis, found));
  }

  listChapters() {
    const { chapters } = this, words = (step) => chapterOf(step).split("/").pop() || "outside";
    $("chapter").hidden = chapters.length < 2;
    $("chapter").replaceChildren(...chapters.map((step) => {
      const option = tag("option", shorten(words(step), 24));
      option.value = String(step.k);
      return option;
    }));
    this.starts = chapters.map(({ k }) => k);
    $("sum").hidden = !this.recording.steps.some(({ sent }) => sent.some(({ rank }) => rank > 0));
  }

  setAxis(axis) {
    const n = this.recording.finished(this.axis, this.at);
    this.axis = axis;
    this.seek(this.recording.after(axis, n));
  }

  wake() {
    this.last = performance.now();
    this.buttons();
    if (!this.frame) this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  tick(now) {
    this.frame = 0;
    if (!this.on) return;
    const passed = Math.min(0.1, Math.max(0, now - this.last) / 1000), { goal } = this;
    this.last = now;
    if (goal !== null) this.at = Math.min(goal, this.at + passed * this.stepRate());
    else if (this.playing) this.at = Math.min(this.end(), this.at + passed * this.rate());
    if (this.at === goal || (this.playing && this.at === this.end())) {
      this.goal = null;
      this.playing = false;
      this.app.remember();
    }
    const moved = this.follow(passed);
    this.refresh();
    if (this.playing || this.goal !== null || moved)
      this.frame = requestAnimationFrame((time) => this.tick(time));
  }

  // A single step takes most of a second, however long it took.
  stepRate() {
    const n = this.recording.finished(this.axis, this.goal - 1e-9 * this.end());
    const start = this.recording.after(this.axis, Math.max(0, n));
    return Math.max(this.goal - start, 1e-9) / 0.8 * Math.max(1, this.speed);
  }

  // -- what is shown ----------------------------------------------------------------------------

  moment() {
    const { recording, axis } = this, n = recording.finished(axis, this.at);
    const jump = this.still.matches && this.playing;
    const running = jump ? [] : recording.running(axis, this.at);
    const window = Math.max(PULSE * this.rate(), 1e-9), ended = [];
    for (let k = n - 1; k >= 0 && k >= n - 8; k--) {
      const since = this.at - recording.after(axis, k + 1);
      if (since > window || (ended.length && !this.playing)) break;
      ended.push(recording.steps[k]);
    }
    const since = ended.length ? this.at - recording.after(axis, n) : 0;
    return { n, running, ended, pulse: jump ? 0 : Math.min(1, since / window) };
  }

  // Draws the moment; called whenever position, view or scene change.
  refresh() {
    if (!this.on) return;
    const moment = this.moment();
    this.flow.draw(this.app.scene, this.app.view, this.recording, moment);
    this.dock.show(this.axis, this.at, moment.n);
    if (this.app.chosen === null) this.now.show(moment);
    this.buttons(moment);
  }

  buttons(moment = this.moment()) {
    const all = this.recording.steps.length, { axis } = this;
    $("play").classList.toggle("on", this.playing);
    $("play").setAttribute("aria-label", this.playing ? "Pause" : "Play");
    const [step] = moment.running[0] || [this.recording.steps[moment.n - 1]];
    if (step) $("status").textContent = whereOf(graph.nodes[step.node]);
    if (step && !this.playing) $("announce").textContent = wordsOfMoment(moment);
    $("count").textContent = `${moment.n.toLocaleString("en")} of ${countText(all, "step")} done`;
    const clock = axis === "time" ? this.at : moment.n ? this.recording.after("time", moment.n) : 0;
    const elapsed = timeText(this.recording.elapsed);
    $("clock").textContent = `${timeText(Math.round(clock))} of ${elapsed}`;
    $("strip").setAttribute("aria-valuenow", String(moment.n));
    $("strip").setAttribute("aria-valuetext", $("count").textContent);
    $("axis").value = axis;
    const here = step ? step.k : 0;
    $("chapter").value = String(this.starts.filter((k) => k <= here).pop() ?? 0);
    $("speed").value = String(this.speed);
    $("follow").setAttribute("aria-pressed", String(this.follows));
  }

  // Keeps what runs in the middle of the stage; whether the view moved.
  follow(passed) {
    const { recording, axis } = this, n = recording.finished(axis, this.at);
    const step = (recording.running(axis, this.at)[0] || [recording.steps[n - 1]])[0];
    const racing = this.playing && this.rate() * recording.steps.length > 40 * this.end();
    if (!this.follows || !step || racing) return false;
    const { scene, view } = this.app, box = scene.boxes[scene.boxOf[step.node]];
    const x = view.x + box.x * view.k, y = view.y + box.y * view.k;
    const { clientWidth: w, clientHeight: h } = stage;
    const across = view.x >= 0 && view.x + scene.width * view.k <= w;
    if (across && view.y >= 0 && view.y + scene.height * view.k <= h) return false; // all is seen
    const dx = x < w * 0.15 ? w * 0.3 - x : x > w * 0.85 ? w * 0.7 - x : 0;
    const dy = y < h * 0.34 ? h * 0.62 - y : y > h * 0.86 ? h * 0.7 - y : 0;
    const goal = this.within({ k: view.k, x: view.x + dx, y: view.y + dy });
    if (dx || dy) this.drift = { dx: goal.x - view.x, dy: goal.y - view.y };
    if (!this.drift) return false;
    const share = this.still.matches ? 1 : 1 - Math.exp(-passed * 5);
    const move = { x: this.drift.dx * share, y: this.drift.dy * share };
    this.drift = { dx: this.drift.dx - move.x, dy: this.drift.dy - move.y };
    if (Math.abs(this.drift.dx) + Math.abs(this.drift.dy) < 1) this.drift = null;
    Object.assign(view, { x: view.x + move.x, y: view.y + move.y });
    this.app.painter.move(view);
    return true;
  }

  // -- hands ------------------------------------------------------------------------------------

  listen() {
    const click = (id, act) => $(id).addEventListener("click", act);
    click("play", () => this.toggle());
    click("first", () => this.seek(0));
    click("back", () => this.step(-1));
    click("forth", () => this.step(1));
    click("last", () => this.seek(this.end()));
    click("sum", () => this.seekAccumulation());
    $("chapter").addEventListener("change", (event) =>
      this.seek(this.recording.after(this.axis, Number(event.target.value))));
    click("follow", () => { this.follows = !this.follows; this.buttons(); });
    $("speed").addEventListener("change", (event) => { this.speed = Number(event.target.value); });
    $("axis").addEventListener("change", (event) => this.setAxis(event.target.value));
    const scrub = (event) => {
      const frame = $("strip").getBoundingClientRect();
      this.playing = false;
      this.seek(this.dock.positionAt(this.axis, event.clientX - frame.left));
    };
    $("strip").addEventListener("pointerdown", (event) => {
      $("strip").setPointerCapture(event.pointerId);
      scrub(event);
    });
    $("strip").addEventListener("pointermove", (event) => { if (event.buttons) scrub(event); });
    $("strip").setAttribute("aria-valuemax", String(this.recording.steps.length));
  }

  faster(by) {
    const k = SPEEDS.indexOf(this.speed) + by;
    this.speed = SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, k))];
    this.buttons();
  }

  // What a key does while stepping; undefined for keys that are not the player's.
  key(name) {
    return {
      " ": () => this.toggle(), ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1),
      Home: () => this.seek(0), End: () => this.seek(this.end()), "<": () => this.faster(-1),
      ">": () => this.faster(1), n: () => this.setAxis(this.axis === "node" ? "time" : "node"),
      a: () => this.seekAccumulation(), m: () => this.now.pin(), "]": () => this.seekChapter(1),
      "[": () => this.seekChapter(-1),
      f: () => { this.follows = !this.follows; this.buttons(); },
    }[name];
  }
}
