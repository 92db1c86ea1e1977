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
  for (const [name, value] of pairs) if (value !== undefined && value !== "") list.append(tag("dt", name), tag("dd", String(value)));
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

function showOverview(app) {
  panel.replaceChildren(tag("h2", graph.title), tag("p", graph.summary, "quiet"));
  section("Legend", ...[["leaf", "input"], ["parameter", "parameter"], ["op", "operation"], ["scope", "folded scope"]].map(([kind, word]) => {
    const row = tag("p"), swatch = tag("span", "", "swatch");
    swatch.style.background = `var(--${kind})`;
    swatch.style.borderColor = `var(--${kind}-rim)`;
    row.append(swatch, word);
    return row;
  }), tag("p", "A double rim marks the result; a line's width is its bytes (log).", "quiet"));
  const inside = (scope) => prefixes(scope).slice(0, -1).some((outer) => app.closed.has(outer));
  const listed = [...scopes].filter(([scope]) => !inside(scope)).sort((a, b) => (a[0] < b[0] ? -1 : 1)).slice(0, 300);
  section("Scopes", ...listed.map(([scope, count]) =>
    action((app.closed.has(scope) ? "▸ " : "▾ ") + scope, countText(count, "node"), () => app.toggle(scope))));
  section("Keys", facts([["drag, wheel", "move, zoom"], ["0  +  −", "fit, zoom in, zoom out"], ["↑ ↓ ← →", "walk along the links; move"], ["/", "search, Enter for the next"],
    ["c  e", "fold, open the scope here"], ["⇧C  ⇧E", "fold, open all"], ["t", "light or dark"], ["Esc", "let go"]]));
}

function showScope(app, box) {
  panel.replaceChildren(tag("h2", box.scope), tag("p", `scope of ${censusText(box.members)}`, "quiet"));
  section("Scope", action("Open", "e", () => app.toggle(box.scope)));
  const bytes = box.members.reduce((sum, at) => sum + graph.nodes[at].bytes.reduce((a, b) => a + b, 0), 0);
  const time = heatOf(box, "time");
  section("Sums", facts([["bytes", byteText(bytes)], ["backward", time === null ? "" : timeText(time)]]));
  section("Nodes", ...box.members.slice(0, 100).map((at) => action(nodeName(at), `#${graph.nodes[at].id}`, () => app.reveal(at))));
}

function showNode(app, at) {
  const node = graph.nodes[at], step = stepOf.get(at);
  panel.replaceChildren(tag("h2", nodeName(at)), tag("p", [node.root && "result", KIND_WORD[node.kind], `#${node.id}`].filter(Boolean).join(" · "), "quiet"));
  if (node.formula) section("Formula", tag("code", node.formula, "formula"));
  section(node.outputs.length > 1 ? "Results" : "Result", ...node.outputs.map((text, k) => tag("code", `${text} · ${byteText(node.bytes[k])}`)));
  section("Facts", facts([["name", node.op ? node.name : ""], ["device", node.device], ...(node.params || [])]));
  if (node.saved) section("Saved for backward", ...node.saved.map((text) => tag("code", text)));
  if (node.site) section("Made at", tag("code", node.site), tag("p", node.function ? `in ${node.function}` : "", "quiet"));
  if (step) section("Backward", facts([["step", step[1] + 1], ["took", timeText(step[4] - step[3])], ["began at", timeText(step[3])], ["worker", step[2]],
    ["contributions", step[5]], ["gradient norm", step[6] === null ? "" : Number(step[6].toPrecision(5))], ["holds", step[7] || ""]]));
  section("Inputs", ...incoming[at].map(([p, o]) => action(nodeName(p), graph.nodes[p].outputs[o], () => app.reveal(p))));
  section("Used by", ...outgoing[at].slice(0, 50).map(([, o, c]) => action(nodeName(c), node.outputs[o], () => app.reveal(c))));
  section("Fold", ...prefixes(node.scope).map((scope) => action(scope, countText(scopes.get(scope), "node"), () => app.toggle(scope))));
}
