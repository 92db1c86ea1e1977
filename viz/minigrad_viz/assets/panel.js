"use strict";
// The side panel. Texts from the graph enter the page through textContent alone.

const panel = document.getElementById("panel");

function tag(name, text = "", style = "") {
  const element = document.createElement(name);
  if (text) element.textContent = text;
  if (style) element.className = style;
  return element;
}

function section(heading, ...content) {
  if (content.length) panel.append(tag("h3", heading), ...content);
}

function facts(pairs) {
  const list = tag("dl");
  for (const [name, value] of pairs)
    if (value !== undefined && value !== "") list.append(tag("dt", name), tag("dd", String(value)));
  return list;
}

function action(text, note, act) {
  const button = tag("button");
  button.append(tag("b", text), tag("span", note));
  button.addEventListener("click", act);
  return button;
}

function nodeName(at) {
  const node = graph.nodes[at];
  return node.op || node.name || KIND_WORD[node.kind];
}

function legendRow(name, word) {
  const row = tag("p"), swatch = tag("span", "", "swatch");
  const rim = MARKED.includes(name) ? name : name + "-rim";
  swatch.style.background = MARKED.includes(name)
    ? `color-mix(in srgb, var(--${name}) 22%, var(--op))` : `var(--${name})`;
  swatch.style.borderColor = `var(--${rim})`;
  row.append(swatch, word);
  return row;
}

// Inputs without gradient, which a click hides and shows.
function untrackedRow(app) {
  if (!app.untracked) return [];
  const label = tag("label", "", "toggle"), box = tag("input");
  box.type = "checkbox";
  box.checked = untrackedShown;
  box.addEventListener("change", () => app.toggleUntracked());
  const swatch = tag("span", "", "swatch");
  Object.assign(swatch.style, { background: "var(--leaf)", borderColor: "var(--leaf-rim)",
    borderStyle: "dashed" });
  label.append(swatch, "input without gradient", box);
  return [label];
}

function showOverview(app) {
  panel.replaceChildren(tag("h2", graph.title), tag("p", graph.summary, "quiet"));
  const kinds = [["leaf", "input"], ["parameter", "parameter"], ["op", "operation"],
    ["scope", "folded scope"]];
  const marks = MARKED.filter((mark) => graph.nodes.some((node) => node.mark === mark));
  const rows = [...kinds, ...marks.map((mark) => [mark, mark])];
  section("Legend", ...rows.map((row) => legendRow(...row)), ...untrackedRow(app),
    tag("p", "A double rim marks the result; a line's width is its bytes (log).", "quiet"));
  if (graph.critical) section("Critical path", ...pathFacts());
  section("Finite differences", ...checkRows(app));
  section("Differences", ...differences(app));
  if (listedGroups(app).length) section("Scopes", scopeTree(app));
  const recorded = [app.player && ["s", "step through backward"],
    graph.critical && ["p", "critical path"]].filter(Boolean);
  section("Keys", facts([["drag, wheel", "move, zoom"], ["0  +  −", "fit, zoom in, zoom out"],
    ["↑ ↓ ← →", "walk along links and rows; move"],
    ["enter", "choose, open"], ["/", "search, Enter for the next"],
    ["c  e", "fold, open the scope here"], ["⇧C  ⇧E", "fold, open all"], ...recorded,
    ...(app.untracked ? [["i", "inputs without gradient"]] : []),
    ["t", "light or dark"], ["Esc", "let go"]]));
}

function checkText([verdict, words]) {
  return tag("p", `${SIGNS[verdict]} ${words}`, "check " + verdict);
}

// How many of each verdict, and the nodes whose rules are wrong.
function checkRows(app) {
  const checked = [...graph.nodes.keys()].filter((at) => graph.nodes[at].check);
  const of = (one) => checked.filter((at) => graph.nodes[at].check[0] === one);
  const rows = Object.keys(SIGNS).filter((one) => of(one).length)
    .map((one) => checkText([one, `${of(one).length} ${one}`]));
  return [...rows, ...of("wrong").slice(0, 50).map((at) =>
    action(nodeName(at), "✗ " + graph.nodes[at].check[2], () => app.reveal(at)))];
}

function pathFacts() {
  const { work, span, path } = graph.critical;
  return [facts([["nodes", path.length],
    ["span T∞", timeText(span)], ["work T₁", timeText(work)],
    ["T₁ / T∞", span ? numberText(work / span) : ""]])];
}

function differences(app) {
  const marked = [...graph.nodes.keys()].filter((at) => graph.nodes[at].mark).slice(0, 200);
  return marked.map((at) => action(nodeName(at), graph.nodes[at].note, () => app.reveal(at)));
}

function showScope(app, box) {
  const words = `${fullName(box.group)}, ${censusText(box.members)}`;
  panel.replaceChildren(tag("h2", box.title), tag("p", words, "quiet"));
  section("Signs", ...signsOf(box).map((line) => tag("p", line)));
  section("Scope", action("Open", "e", () => app.toggle(box.scope)));
  const bytes = heatOf(box, "bytes"), time = heatOf(box, "time");
  section("Sums", facts([["bytes", byteText(bytes)],
    ["backward", time === null ? "" : timeText(time)]]));
  section("Nodes", ...box.members.slice(0, 100).map((at) =>
    action(nodeName(at), `#${graph.nodes[at].id}`, () => app.reveal(at))));
}

function showNode(app, at) {
  const node = graph.nodes[at], step = stepOf.get(at);
  const words = [node.root && "result", KIND_WORD[node.kind], `#${node.id}`,
    node.still && "no gradient flows here", node.source && `made by ${node.source}`];
  panel.replaceChildren(tag("h2", nodeName(at)),
    tag("p", words.filter(Boolean).join(" · "), "quiet"));
  section("Signs", ...signsOf(app.scene.boxes[app.scene.boxOf[at]]).map((line) => tag("p", line)));
  if (node.note) section("Difference", tag("p", node.note));
  if (node.formula) section("Formula", tag("code", node.formula, "formula"));
  section(node.kind !== "op" ? "Array" : node.outputs.length > 1 ? "Results" : "Result",
    ...node.outputs.map((text, k) => tag("code", `${text} · ${byteText(node.bytes[k])}`)));
  section("Facts", facts([["name", node.op ? node.name : ""], ["device", node.device],
    ["value", node.values && valuesText(node.values, 16)],
    ["work", node.flops ? workText(node.flops) : ""], ...(node.params || [])]));
  if (node.check) section("Finite differences", checkText(node.check));
  if (node.bad || node.spread) section("Values", ...valueRows(node));
  section("Gradient", ...gradientRows(node));
  if (node.saved) section("Saved for backward", ...node.saved.map((text) => tag("code", text)));
  if (node.site) section("Made at", ...madeAt(node));
  if (step) section("Backward", facts(stepFacts(at, step)));
  section("Inputs", ...incoming[at].map(([p, o]) =>
    action(nodeName(p), graph.nodes[p].outputs[o], () => app.reveal(p))));
  section("Used by", ...outgoing[at].slice(0, 50).map(([, o, c]) =>
    action(nodeName(c), node.outputs[o], () => app.reveal(c))));
  section("Fold", ...prefixes(node.scope).map((scope) =>
    action(scope, countText(scopes.get(scope), "node"), () => app.toggle(scope))));
}

function madeAt(node) {
  const where = node.function ? `in ${node.function}` : "";
  const place = [tag("code", node.site), tag("p", where, "quiet")];
  return node.text ? [tag("code", node.text, "formula"), ...place] : place;
}

function valueRows({ bad, spread }) {
  return [...(bad ? [tag("p", `⚠ ${bad === "nan" ? "NaN" : "Inf"} among them`)] : []),
    ...(spread ? [histogram(spread, "values")] : [])];
}

function gradientRows(node) {
  if (node.grad) return [facts(gradientFacts(node)),
    ...(node.gradSpread ? [histogram(node.gradSpread, "gradient")] : [])];
  const asked = node.kind !== "op" && !node.still && node.twin === undefined;
  return asked ? [tag("p", "none was recorded: mg.record_backward() keeps it", "quiet")] : [];
}

// Bars of a histogram between its ends, as tall as their counts.
function histogram([least, most, counts], what) {
  const top = Math.max(1, ...counts), svg = "http://www.w3.org/2000/svg";
  const figure = tag("figure"), bars = document.createElementNS(svg, "svg");
  const wide = (most - least) / counts.length, all = counts.reduce((sum, n) => sum + n, 0);
  bars.setAttribute("viewBox", `0 0 ${counts.length} 1`);
  bars.setAttribute("preserveAspectRatio", "none");
  counts.forEach((count, k) => {
    const bar = document.createElementNS(svg, "rect");
    bar.setAttribute("x", k + 0.06);
    bar.setAttribute("y", 1 - count / top);
    bar.setAttribute("width", 0.88);
    bar.setAttribute("height", count / top);
    const title = document.createElementNS(svg, "title");
    title.textContent = `${count.toLocaleString("en")} from ${numberText(least + k * wide)} `
      + `to ${numberText(least + (k + 1) * wide)}`;
    bar.append(title);
    bars.append(bar);
  });
  const ends = tag("p", "", "ends");
  ends.append(tag("span", numberText(least)), tag("span", countText(all, "number")),
    tag("span", numberText(most)));
  const often = numberText(least + (counts.indexOf(top) + 0.5) * wide);
  bars.setAttribute("role", "img");
  bars.setAttribute("aria-label", `histogram of ${what} from ${numberText(least)} to `
    + `${numberText(most)}, most often near ${often}`);
  figure.append(bars, ends);
  return figure;
}

function gradientFacts({ grad: [norm, bad, values], before }) {
  return [[".grad", values ? valuesText(values, 16) : ""],
    ["norm", norm === null ? "" : numberText(norm)], ["holds", badWord(bad)],
    ["before", before && before[2] ? valuesText(before[2], 16) : ""]];
}

const badWord = (bad) => (bad ? (bad === "nan" ? "NaN" : "Inf") : "");

// Times count as in the step-through: from the first step on, without what recording took.
function stepFacts(at, [, order, worker, t0, t1, contributions, norm, bad, values]) {
  const slack = slackOf.get(at);
  const room = slack ? timeText(slack) : slack === 0 ? "none: critical" : "";
  return [["step", order + 1], ["took", timeText(t1 - t0)], ["slack", room],
    ["began at", timeText(app.player.recording.steps[app.player.recording.stepOf(at)].from)],
    ["worker", worker], ["contributions", contributions],
    ["cotangent", values ? valuesText(values, 16) : ""],
    ["gradient norm", norm === null ? "" : numberText(norm)], ["holds", badWord(bad)]];
}
