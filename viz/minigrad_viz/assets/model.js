"use strict";
// From the graph and the set of folded scopes to boxes and links, as collapse.py and picture.py do.

const graph = JSON.parse(document.getElementById("data").textContent);

// Every scope with the number of nodes in it and below it, outermost first.
function allScopes() {
  const counts = new Map();
  for (const node of graph.nodes)
    for (const scope of prefixes(node.scope)) counts.set(scope, (counts.get(scope) || 0) + 1);
  return counts;
}

function prefixes(scope) {
  if (!scope) return [];
  const parts = scope.split("/");
  return parts.map((_, k) => parts.slice(0, k + 1).join("/"));
}

const scopes = allScopes();
const outgoing = graph.nodes.map(() => []);
const incoming = graph.nodes.map(() => []);
graph.edges.forEach((edge) => { outgoing[edge[0]].push(edge); incoming[edge[2]].push(edge); });
for (const edges of incoming) edges.sort((a, b) => a[3] - b[3]);
const stepOf = new Map(graph.steps.map((step) => [step[0], step]));
const twins = new Map(); // nodes of the forward -> those of their rules, where both are drawn
graph.nodes.forEach(({ twin }, at) => { if (twin !== undefined) twins.set(twin, at); });
for (const [forward, rule] of twins)
  if (stepOf.has(forward)) stepOf.set(rule, stepOf.get(forward));
const bySeq = [...graph.nodes.keys()].sort((a, b) => graph.nodes[a].seq - graph.nodes[b].seq);

// The copies of a repeated part fold as a scope of their own: "×0", "×1" ...
const repeats = new Map(graph.repeats.map(([title, copies, members], k) =>
  ["×" + k, { title, copies, members }]));

// `room` gives the words for which a box leaves room below its title while stepping; `space` is
// the page's size in units of the graph, for which deep levels wrap into columns; of the scene
// `before` all that is still there keeps its order.
function buildScene(closed, room = null, space = null, before = null) {
  const scene = { ...buildBoxes(closed), links: [], linkBy: new Map() };
  buildLinks(scene);
  for (const box of scene.boxes) dress(box, room);
  return placeScene(scene, space, before);
}

// A box for each node that no folded group holds and for each outermost folded group; the open
// groups around them are frames, outer ones first.
function buildBoxes(closed) {
  const shown = new Map([[root, null]]), frames = [], boxOf = new Array(homes.length);
  for (const group of groups)
    if (group !== root)
      shown.set(group, shown.get(group.parent) || (closed.has(group.name) ? group : null));
  const boxes = [], byGroup = new Map(), frameOf = new Map();
  const frame = (group) => {
    if (group.soft) return frame(group.parent);
    if (!frameOf.has(group)) {
      const outer = group.parent && frame(group.parent);
      const title = outer ? groupTitle(group) : "";
      frameOf.set(group, { group, outer, scope: group.name, title });
      frames.push(frameOf.get(group));
    }
    return frameOf.get(group);
  };
  frame(root);
  for (const at of bySeq) {
    if (graph.nodes[at].still && !untrackedShown) continue;
    const group = shown.get(homes[at]);
    if (group && byGroup.has(group)) byGroup.get(group).members.push(at);
    else {
      const kind = group ? "scope" : graph.nodes[at].kind;
      const inside = group ? group.parent : homes[at];
      const box = { kind, group, scope: group ? group.name : "", members: [at], ports: new Map(),
        frame: frame(inside) };
      boxes.push(box);
      if (group) byGroup.set(group, box);
    }
  }
  boxes.forEach((box, k) => { for (const at of box.members) boxOf[at] = k; });
  return { boxes, boxOf, frames };
}

// What a second rim adds: arrows end outside of it.
function rim(box) {
  return box.root || box.kind === "scope" ? 7 : 0;
}

// Which link carries an output to a consumer; undefined inside one box.
function linkName(scene, producer, output, consumer) {
  const source = scene.boxOf[producer], target = scene.boxOf[consumer];
  return `${source}>${target}${scene.boxes[source].scope ? "" : ":" + output}`;
}

function buildLinks(scene) {
  const { boxes, boxOf } = scene, carried = new Map();
  for (const at of bySeq) {
    for (const [producer, output, , , mark = ""] of incoming[at]) {
      const source = boxOf[producer], target = boxOf[at];
      if (source === target || source === undefined) continue;
      const name = linkName(scene, producer, output, at);
      if (!carried.has(name)) carried.set(name, { source, target, tensors: new Map(), users: [],
        mark });
      carried.get(name).tensors.set(`${producer}:${output}`, [producer, output]);
      carried.get(name).users.push(at);
      if (carried.get(name).mark !== mark) carried.get(name).mark = ""; // some of it stays
    }
  }
  for (const [name, { source, target, tensors, users, mark }] of carried) {
    const { ports, group, members } = boxes[source], inputs = group && group.kind === "inputs";
    const list = inputs ? members.map((at) => [at, 0]) : [...tensors.values()];
    const key = inputs ? "inputs" : [...tensors.keys()].join(" "), [producer, output] = list[0];
    const bytes = list.reduce((sum, [p, o]) => sum + graph.nodes[p].bytes[o], 0);
    const text = list.length === 1 ? graph.nodes[producer].outputs[output]
      : `${list.length} arrays · ${byteText(bytes)}`;
    if (!ports.has(key)) ports.set(key, { port: ports.size, text });
    const width = 1 + 0.17 * Math.max(0, Math.log2(Math.max(bytes, 1)) - 6);
    scene.linkBy.set(name, scene.links.length);
    scene.links.push({ source, target, key, bytes, width, users, mark });
  }
}

// [left, top, right, bottom] of a route, of which a long link may have 10^5 points: too many to be
// the arguments of one call of Math.min.
function boundsOf(points) {
  const bounds = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y] of points) {
    bounds[0] = Math.min(bounds[0], x);
    bounds[1] = Math.min(bounds[1], y);
    bounds[2] = Math.max(bounds[2], x);
    bounds[3] = Math.max(bounds[3], y);
  }
  return bounds;
}

// Words, size and marks of a box.
function dress(box, room) {
  const first = graph.nodes[box.members[0]];
  box.root = box.members.some((at) => graph.nodes[at].root);
  box.title = box.group ? groupTitle(box.group) : titleOf(first, box.frame);
  box.lines = box.group ? groupLines(box.group) : linesOf(box, room !== null);
  if (box.root && !box.ports.size && box.kind !== "scope")
    box.ports.set("root", { port: 0, text: first.outputs[0] });
  box.badge = badgeOf(box.members);
  let words = textWidth(box.title, TEXT.title, 600), labels = 0;
  for (const line of box.lines) words = Math.max(words, textWidth(line, TEXT.line, 400));
  if (room) words = Math.max(words, ...room(box).map((text) => textWidth(text, 10.5, 600)));
  for (const port of box.ports.values()) {
    port.wide = textWidth(port.text, TEXT.label, 400) + 10;
    labels += port.wide;
  }
  box.w = Math.max(words + 24, labels, 64);
  box.slot = 30 + TEXT.leading * box.lines.length; // where the gradient's words stand
  box.h = box.slot + (room ? 17 : 0);
  let at = -labels / 2;
  for (const port of box.ports.values()) { port.offset = at + port.wide / 2; at += port.wide; }
}

let untrackedShown = true; // inputs that no gradient flows to

function titleOf(node, frame) {
  if (node.kind === "op" && node.name) return shorten(`${node.name} = ${node.op}`, 28);
  if (node.kind === "op") return shorten(node.op || "op", 28);
  const name = nameInside(node.name || "", scopeAround(frame.group));
  return shorten(name || KIND_WORD[node.kind], 30);
}

// Below the title: an op's scope, where no frame tells it, and line; the numbers of a small result,
// its gradient too.
function linesOf({ members: [at], frame }, stepping) {
  const node = graph.nodes[at], lines = [];
  const around = scopeAround(frame.group), inner = around === node.scope ? "" : node.scope || "";
  const own = inner.startsWith(around + "/") ? inner.slice(around.length + 1) : inner;
  if (node.kind === "op" && own && !stepping) lines.push(shorten(own, 26));
  if (node.kind === "op" && node.at) lines.push(node.at);
  if (node.rule) lines.push(clip(node.rule, 44));
  const [shape] = node.shapes || [];
  const few = node.values && node.values.length <= 4, isRule = node.twin !== undefined;
  if (few) lines.push(`${isRule ? "gives" : "value"} ${valuesText(node.values, 4, shape)}`);
  if (!stepping && few && !isRule) {
    const known = node.grad ? node.grad[2] : stepOf.has(at) && stepOf.get(at)[8];
    if (known) lines.push("grad " + valuesText(known, 4, shape));
  }
  const source = node.source ? `from ${clip(node.source, 24)}, ` : "";
  if (node.still) lines.push(source + "no gradient");
  if (node.note) lines.push(node.note);
  if (node.beyond) lines.push(`… ${beyondText(node.beyond)} not shown`);
  return lines;
}

// What a search finds a node by: all that its box may show.
function wordsOf(at) {
  const node = graph.nodes[at], kind = node.name || node.op ? "" : KIND_WORD[node.kind];
  const title = titleOf(node, { group: homes[at] });
  return [title, node.op, node.name, node.scope, node.site, node.text, node.source, kind, node.note,
    ...node.outputs, "#" + node.id].filter(Boolean);
}

// "layers.0.linear1.weight" is "weight" inside the frame Encoder/layers.0/linear1.
function nameInside(name, scope) {
  const dotted = "." + scope.replaceAll("/", ".");
  for (let at = name.lastIndexOf("."); at > 0; at = name.lastIndexOf(".", at - 1))
    if (dotted.endsWith("." + name.slice(0, at))) return name.slice(at + 1);
  return name;
}

// The innermost scope that this group is or stands in.
function scopeAround(group) {
  while (group.parent && group.kind !== "scope") group = group.parent;
  return group.name;
}

// What finite differences say of the nodes of a box, as badge_of in checks.py.
const SIGNS = { wrong: "✗", unsure: "?", right: "✓", skipped: "–" };

function badgeOf(members) {
  const checks = members.map((at) => graph.nodes[at].check).filter(Boolean);
  if (!checks.length) return null;
  const count = (one) => checks.filter(([verdict]) => verdict === one).length;
  const verdict = Object.keys(SIGNS).find(count), some = count(verdict);
  const share = some === checks.length ? "" : ` of ${checks.length}`;
  const words = checks.length === 1 ? checks[0][2] : some + share;
  const text = SIGNS[verdict] + (words ? " " + words : "");
  return { verdict, text, w: textWidth(text, TEXT.badge, 600) + 10 };
}

function beyondText([inputs, users]) {
  return [inputs && countText(inputs, "input"), users && countText(users, "user")]
    .filter(Boolean).join(", ");
}

function censusText(members) {
  const counts = { op: 0, parameter: 0, leaf: 0 };
  for (const at of members) counts[graph.nodes[at].kind] += 1;
  return Object.entries(counts).filter(([, n]) => n)
    .map(([kind, n]) => countText(n, KIND_WORD[kind])).join(", ");
}

// The value by which a box is coloured; null where nothing is known.
function heatOf(box, by) {
  let sum = 0, known = false;
  for (const at of box.members) {
    const step = stepOf.get(at);
    const { bytes, holds, flops } = graph.nodes[at];
    const work = (flops || 0) + ((step && step[10]) || 0);
    if (by === "bytes") { sum += bytes.reduce((a, b) => a + b, 0); known = true; }
    else if (by === "saved" && holds) { sum += holds.reduce((a, [b]) => a + b, 0); known = true; }
    else if (by === "flops" && work) { sum += work; known = true; }
    else if (by === "time" && step) { sum += step[4] - step[3]; known = true; }
    else if (by === "norm" && step && step[6] !== null) { sum += step[6] * step[6]; known = true; }
  }
  return known ? (by === "norm" ? Math.sqrt(sum) : sum) : null;
}

// Heat of each box between 0 and 1, on a logarithmic scale of three decades, as in heat.py.
function warm(scene, by) {
  if (by === "slack") warmBySlack(scene);
  for (const box of scene.boxes) box.hue = by === "scope" ? hueOf(box) : -1;
  const values = scene.boxes.map((box) => (by ? heatOf(box, by) : null));
  const most = values.reduce((a, b) => Math.max(a, b || 0), 0);
  if (by !== "slack") scene.most = most;
  scene.boxes.forEach((box, k) => {
    const value = values[k];
    box.value = value;
    if (by !== "slack") box.heat = value === null || most === 0 ? null
      : value === 0 ? 0 : Math.max(0, 1 + Math.log10(value / most) / 3);
    box.bad = box.members.some(isBad);
    box.mark = MARKED.find((mark) => box.members.some((at) => graph.nodes[at].mark === mark)) || "";
  });
}

// What at a node holds NaN or Inf: the cotangent that arrived, the .grad of a leaf, its values.
function troubleOf(at) {
  const { grad, bad, values } = graph.nodes[at];
  if (bad || (values && values.some((value) => typeof value === "string"))) return "values";
  return (stepOf.has(at) && stepOf.get(at)[7]) || (grad && grad[1]) ? "gradient" : "";
}

const isBad = (at) => troubleOf(at) !== "";

const slackOf = new Map(graph.critical ? graph.critical.slack : []);

// Hottest without any slack, linear down to the most there is; of a box its least.
function warmBySlack(scene) {
  const slacks = scene.boxes.map((box) => {
    const known = box.members.filter((at) => slackOf.has(at)).map((at) => slackOf.get(at));
    return known.length ? known.reduce((a, b) => Math.min(a, b)) : null;
  });
  const most = slacks.reduce((a, b) => Math.max(a, b || 0), 0) || 1;
  scene.most = most;
  scene.boxes.forEach((box, k) => { box.heat = slacks[k] === null ? null : 1 - slacks[k] / most; });
}

// A colour for each outermost scope (by two parts where all share the first), -1 outside of any.
const outermost = [...scopes.keys()].filter((scope) => !scope.includes("/"));
const parts = outermost.length === 1 ? 2 : 1;
const hues = new Map([...scopes.keys()].filter((scope) => scope.split("/").length === parts)
  .map((scope, k) => [scope, k]));

function hueOf(box) {
  const scope = graph.nodes[box.members[box.members.length - 1]].scope || "";
  return hues.get(scope.split("/").slice(0, parts).join("/")) ?? -1;
}

// Marks boxes and links on the critical path of the recorded backward, or none.
function markPath(scene, on) {
  const steps = on && graph.critical ? graph.critical.path.map((at) => scene.boxOf[at]) : [];
  const boxes = new Set(steps), pairs = new Set();
  steps.forEach((box, k) => { if (k) pairs.add(`${box}>${steps[k - 1]}`); });
  scene.boxes.forEach((box, at) => { box.critical = boxes.has(at); });
  for (const link of scene.links) link.critical = pairs.has(`${link.source}>${link.target}`);
}
