"use strict";
// From the graph and the set of folded scopes to boxes and links, as collapse.py and picture.py do.

const graph = JSON.parse(document.getElementById("data").textContent);
const FONT = '"Inter","Segoe UI",system-ui,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif';
const pen = document.createElement("canvas").getContext("2d");

function textWidth(text, size, weight) {
  pen.font = `${weight} ${size}px ${FONT}`;
  return pen.measureText(text).width;
}

function byteText(count) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let value = count, unit = 0;
  while (value >= 999.5 && unit < 5) { value /= 1000; unit += 1; }
  return `${unit ? Number(value.toPrecision(3)) : count} ${units[unit]}`;
}

function timeText(ns) {
  for (const [limit, unit] of [[1e3, "ns"], [1e6, "µs"], [1e9, "ms"]])
    if (ns < limit) return `${Number((ns / (limit / 1e3)).toPrecision(3))} ${unit}`;
  return `${Number((ns / 1e9).toPrecision(3))} s`;
}

function countText(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

const KIND_WORD = { op: "op", parameter: "parameter", leaf: "input" };

// Every scope with the number of nodes in it and below it, outermost first.
function allScopes() {
  const counts = new Map();
  for (const node of graph.nodes) for (const scope of prefixes(node.scope)) counts.set(scope, (counts.get(scope) || 0) + 1);
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
const bySeq = [...graph.nodes.keys()].sort((a, b) => graph.nodes[a].seq - graph.nodes[b].seq);

// Which folded scope each node stands in ("" for none). A parameter that one folded scope alone
// uses goes with it, though it was made outside.
function homes(closed) {
  const folded = new Map([["", ""], [undefined, ""]]);
  for (const node of graph.nodes)
    if (!folded.has(node.scope)) folded.set(node.scope, prefixes(node.scope).find((scope) => closed.has(scope)) || "");
  const home = graph.nodes.map((node) => folded.get(node.scope));
  const users = home.map((_, at) => new Set(outgoing[at].map((edge) => home[edge[2]])));
  graph.nodes.forEach((node, at) => {
    if (node.kind === "parameter" && !home[at] && users[at].size === 1) home[at] = [...users[at]][0];
  });
  const crowd = new Map();
  for (const scope of home) crowd.set(scope, (crowd.get(scope) || 0) + 1);
  return home.map((scope) => (crowd.get(scope) > 1 ? scope : ""));
}

function buildScene(closed) {
  const home = homes(closed), boxOf = new Array(home.length), boxes = [], byScope = new Map();
  for (const at of bySeq) {
    const scope = home[at];
    if (scope && byScope.has(scope)) byScope.get(scope).members.push(at);
    else {
      const box = { kind: scope ? "scope" : graph.nodes[at].kind, scope, members: [at], ports: new Map() };
      boxes.push(box);
      if (scope) byScope.set(scope, box);
    }
  }
  boxes.forEach((box, k) => { for (const at of box.members) boxOf[at] = k; });
  const links = buildLinks(boxes, boxOf);
  for (const box of boxes) dress(box);
  const exits = links.map((link) => boxes[link.source].ports.get(link.key).offset);
  const layout = placeGraph(boxes.map((b) => b.w + rim(b)), boxes.map((b) => b.h + rim(b)),
    links.map((l) => [l.source, l.target, boxes[l.source].ports.get(l.key).port]), exits);
  boxes.forEach((box, k) => { box.x = layout.x[k]; box.y = layout.y[k]; });
  links.forEach((link, k) => Object.assign(link, { points: layout.routes[k], direct: layout.direct[k], back: layout.backward[k] }));
  return { boxes, links, boxOf, width: layout.width, height: layout.height };
}

// What a second rim adds: arrows end outside of it.
function rim(box) {
  return box.root || box.kind === "scope" ? 7 : 0;
}

function buildLinks(boxes, boxOf) {
  const carried = new Map();
  for (const at of bySeq) {
    for (const [producer, output] of incoming[at]) {
      const source = boxOf[producer], target = boxOf[at];
      if (source === target) continue;
      const single = boxes[source].scope ? "" : ":" + output;
      const key = `${source}>${target}${single}`;
      if (!carried.has(key)) carried.set(key, { source, target, tensors: new Map() });
      carried.get(key).tensors.set(`${producer}:${output}`, [producer, output]);
    }
  }
  return [...carried.values()].map(({ source, target, tensors }) => {
    const key = [...tensors.keys()].join(" "), list = [...tensors.values()], ports = boxes[source].ports;
    const bytes = list.reduce((sum, [p, o]) => sum + graph.nodes[p].bytes[o], 0);
    const text = list.length === 1 ? graph.nodes[list[0][0]].outputs[list[0][1]] : `${list.length} arrays · ${byteText(bytes)}`;
    if (!ports.has(key)) ports.set(key, { port: ports.size, text });
    return { source, target, key, bytes, width: 1 + 0.17 * Math.max(0, Math.log2(Math.max(bytes, 1)) - 6) };
  });
}

function shorten(text, limit) {
  return text.length > limit ? "…" + text.slice(1 - limit) : text;
}

// Words, size and marks of a box.
function dress(box) {
  const first = graph.nodes[box.members[0]];
  box.root = box.members.some((at) => graph.nodes[at].root);
  if (box.kind === "scope") {
    box.title = shorten(box.scope, 32);
    box.lines = [censusText(box.members)];
  } else if (box.kind === "op") {
    box.title = shorten(first.op || "op", 28);
    box.lines = [first.scope && shorten(first.scope, 26), first.at].filter(Boolean);
  } else {
    box.title = shorten(first.name || KIND_WORD[box.kind], 30);
    box.lines = [];
  }
  if (box.root && !box.ports.size && box.kind !== "scope") box.ports.set("root", { port: 0, text: first.outputs[0] });
  let words = textWidth(box.title, 12.5, 600), labels = 0;
  for (const line of box.lines) words = Math.max(words, textWidth(line, 9.5, 400));
  for (const port of box.ports.values()) { port.wide = textWidth(port.text, 9, 400) + 10; labels += port.wide; }
  box.w = Math.max(words + 24, labels, 64);
  box.h = 28 + 13 * box.lines.length;
  let at = -labels / 2;
  for (const port of box.ports.values()) { port.offset = at + port.wide / 2; at += port.wide; }
}

function censusText(members) {
  const counts = { op: 0, parameter: 0, leaf: 0 };
  for (const at of members) counts[graph.nodes[at].kind] += 1;
  return Object.entries(counts).filter(([, n]) => n).map(([kind, n]) => countText(n, KIND_WORD[kind])).join(", ");
}

// Heat of each box between 0 and 1 (null: nothing known), on a logarithmic scale of five decades.
function heatOf(box, by) {
  let sum = 0, known = false;
  for (const at of box.members) {
    const step = stepOf.get(at);
    if (by === "bytes") { sum += graph.nodes[at].bytes.reduce((a, b) => a + b, 0); known = true; }
    else if (by === "time" && step) { sum += step[4] - step[3]; known = true; }
    else if (by === "norm" && step && step[6] !== null) { sum += step[6] * step[6]; known = true; }
  }
  return known ? (by === "norm" ? Math.sqrt(sum) : sum) : null;
}

function warm(scene, by) {
  const values = scene.boxes.map((box) => (by ? heatOf(box, by) : null));
  const most = values.reduce((a, b) => Math.max(a, b || 0), 0);
  scene.boxes.forEach((box, k) => {
    const value = values[k];
    box.heat = value === null || most === 0 ? null : value === 0 ? 0 : Math.max(0, 1 + Math.log10(value / most) / 3);
    box.bad = box.members.some((at) => stepOf.has(at) && stepOf.get(at)[7]);
  });
}
