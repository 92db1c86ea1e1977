"use strict";
// The side panel of the step-through: what runs, what it gives to whom, and the user's program with
// the line that is being differentiated.

const LINES_SHOWN = 400;

// The recorded lines of the user's program: [{file, lines: [{number, text, nodes}]}].
function programLines() {
  const files = new Map();
  graph.nodes.forEach((node, at) => {
    if (!node.site || node.kind !== "op") return;
    const cut = node.site.lastIndexOf(":"), file = node.site.slice(0, cut);
    const number = Number(node.site.slice(cut + 1));
    if (!files.has(file)) files.set(file, new Map());
    const lines = files.get(file);
    if (!lines.has(number)) lines.set(number, { number, text: node.text || "", nodes: [] });
    lines.get(number).nodes.push(at);
  });
  return [...files].map(([file, lines]) =>
    ({ file, lines: [...lines.values()].sort((a, b) => a.number - b.number) }));
}

class Program {
  constructor() {
    this.root = tag("div", "", "program");
    this.rowOf = new Map(); // node -> its line
    let left = LINES_SHOWN;
    for (const { file, lines } of programLines()) {
      const shown = lines.slice(0, left), first = shown.length && graph.nodes[shown[0].nodes[0]];
      left -= shown.length;
      if (shown.length) this.root.append(tag("p", shorten(file, 44), "file"));
      shown.forEach((line, k) => {
        if (k && line.number > shown[k - 1].number + 1) this.root.append(tag("p", "⋯", "gap"));
        this.root.append(this.row(line, first));
      });
    }
  }

  row({ number, text, nodes }) {
    const row = tag("p", "", "line");
    const words = text || `${graph.nodes[nodes[0]].function || ""} …`;
    row.append(tag("i", String(number)), tag("code", words));
    for (const at of nodes) this.rowOf.set(at, row);
    return row;
  }

  mark(running, recording) {
    for (const row of this.marked || []) { row.classList.remove("now"); row.style.color = ""; }
    this.marked = running.map(({ node }) => this.rowOf.get(node)).filter(Boolean);
    running.forEach(({ node, lane }) => {
      const row = this.rowOf.get(node);
      if (!row) return;
      row.classList.add("now");
      row.style.setProperty("--mark", `var(--w${lane % 8})`);
    });
    if (this.marked.length) keepInView(this.marked[0], this.root);
  }
}

// Scrolls the list, and only the list, until the row is inside it.
function keepInView(row, list) {
  const top = row.offsetTop - list.offsetTop - 20, bottom = top + row.offsetHeight + 40;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (bottom > list.scrollTop + list.clientHeight) list.scrollTop = bottom - list.clientHeight;
}

class Now {
  constructor(recording) {
    this.recording = recording;
    this.program = new Program();
    this.cards = tag("div", "", "cards");
    this.pinned = null; // a step that others are compared with
  }

  // Puts the step-through's own content into the panel.
  enter() {
    panel.replaceChildren(this.cards, this.tools());
    if (this.program.rowOf.size) {
      section("Program", this.program.root);
    }
    section("Keys", facts([["space", "play, pause"], ["← →", "one step back, forward"],
      ["home end", "first, last"], ["[ ]", "layer before, after"],
      ["a", "next sum of gradients"], ["m", "pin this step, compare"],
      ["< >", "slower, faster"], ["n", "by node or by wall clock"],
      ["f", "follow"], ["⇧ arrows", "walk along links"], ["Esc", "back to the moment"],
      ["s", "leave the step-through"]]));
    this.shown = null;
  }

  tools() {
    const row = tag("p", "", "deeds"), deeds = [
      ["Pin", "Compare this step with others (m)", () => this.pin()],
      ["Link", "Copy a link that opens here", (event) => copyLink(event.target)],
      ["SVG", "Save the picture of this step", () => saveStep()],
      ["Frames", "Save a picture of each step, numbered", () => saveFrames()]];
    for (const [word, title, act] of deeds) {
      const button = tag("button", word);
      button.title = title;
      button.addEventListener("click", act);
      row.append(button);
    }
    return row;
  }

  // Pins the step that is shown, or lets go of the one that is.
  pin() {
    this.pinned = this.pinned === null && this.subject ? this.subject : null;
    this.shown = null;
    app.player.refresh();
  }

  show(moment) {
    const running = moment.running.map(([step]) => step), runs = running.length > 0;
    const key = `${moment.n}:${running.map((step) => step.k)}`;
    if (this.shown === key) return;
    this.shown = key;
    const last = this.recording.steps[moment.n - 1];
    const subject = runs ? running : last ? [last] : [];
    this.cards.replaceChildren(...subject.slice(0, 4).map((step) => this.card(step, runs)));
    this.subject = subject[0];
    if (this.pinned !== null && this.subject)
      this.cards.append(tag("h3", "Against the pinned step"),
        comparison(this.pinned, this.subject, this.recording));
    if (!subject.length) this.cards.replaceChildren(...this.before());
    if (moment.n === this.recording.steps.length && !runs) this.cards.append(...this.result());
    this.program.mark(subject, this.recording);
  }

  before() {
    const roots = [...graph.nodes.keys()].filter((at) => graph.nodes[at].root).map(nodeName);
    return [tag("h2", "Backward"), tag("p", `The seed stands at ${roots.slice(0, 3).join(", ")}. ` +
      "Press space to play, → for one step.", "quiet")];
  }

  card(step, runs) {
    const card = tag("div", "", "card"), node = graph.nodes[step.node], head = tag("h2");
    const held = this.recording.held[step.node];
    const dot = tag("i", "", "dot");
    dot.style.background = `var(--w${step.lane % 8})`;
    head.append(dot, nodeName(step.node), tag("small", runs ? "runs" : "has run"));
    card.append(head, ...scopeWords(node), tag("p", this.place(step), "quiet"));
    if (node.site) card.append(codeOf(node, step.lane));
    if (node.formula) card.append(tag("code", node.formula, "formula"));
    card.append(facts([["took", timeText(step.t1 - step.t0)], ["cotangent", gradientWords(step)],
      ["lets go", graph.released && held ? byteText(held) : ""]]));
    step.sent.slice(0, 12).forEach((part) => card.append(this.gift(part)));
    card.append(...numberBlocks(step, this.recording));
    return card;
  }

  place(step) {
    const worker = this.recording.lanes.length > 1 ? ` · worker ${step.worker}` : "";
    const number = `step ${step.k + 1} of ${this.recording.steps.length}`;
    return `${number}${worker} · #${graph.nodes[step.node].id}`;
  }

  gift(part) {
    const row = tag("button", "", "gift");
    row.append(tag("b", `${part.rank ? "+" : "→"} ${giftName(part)}`),
      tag("span", gradientWords(part) || byteText(part.bytes)));
    row.title = part.rank ? "added to what has arrived" : "the first to arrive";
    row.addEventListener("click", () => app.reveal(part.producer));
    return row;
  }

  // At the end: the gradient of each leaf.
  result() {
    const leaves = [...graph.nodes.keys()].filter((at) => graph.nodes[at].kind !== "op"
      && this.recording.gradient(at, this.recording.steps.length)).slice(0, 200);
    return [tag("h3", "Gradients of the leaves"), ...leaves.map((at) => {
      const found = this.recording.gradient(at, this.recording.steps.length);
      const row = action(nodeName(at), gradientWords(found), () => app.reveal(at));
      row.dataset.leaf = graph.nodes[at].id;
      return row;
    })];
  }
}

// The scope of a node from the outside in, "Encoder › layers.3 › self_attn".
function scopeWords({ scope }) {
  return scope ? [tag("p", scope.replaceAll("/", " › "), "scope")] : [];
}

function giftName(part) {
  const node = graph.nodes[part.producer];
  return nodeName(part.producer) + (node.outputs.length > 1 ? `, output ${part.output}` : "");
}

function gradientWords({ values, norm, bad }) {
  if (values) return valuesText(values, 6);
  if (bad) return bad === "nan" ? "holds NaN" : "holds Inf";
  return norm === null || norm === undefined ? "" : "‖·‖ " + numberText(norm);
}

// The user's line: its text where the dump has it, and where it stands.
function codeOf(node, lane) {
  const block = tag("div", "", "source");
  block.style.setProperty("--mark", `var(--w${lane % 8})`);
  if (node.text) block.append(tag("code", node.text));
  block.append(tag("p", `${node.at}${node.function ? ` · ${node.function}` : ""}`, "quiet"));
  return block;
}
