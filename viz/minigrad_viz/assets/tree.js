"use strict";
// The tree of groups that fold and open: scopes, repeated parts with their copies, and runs, which
// keep a level without scopes readable. The innermost group of each node is its home. A soft group
// has no frame when it is open: it folds source lines and inputs where the page is small.

const CROWD = 24; // children of a group from which they are put into runs
const SOFT_CROWD = 8; // from which they are put into soft ones
const FAN = 12; // runs of one group
const FREE_INPUTS = 8; // inputs that stand outside of all groups, up to this many

const SOFT = "⋯·"; // in the name of a soft group

const root = { name: "", kind: "root", parent: null, depth: 0, members: [], inner: new Map() };
const groups = [root]; // outer ones before inner ones
const chains = graph.nodes.map(({ scope }) => prefixes(scope).map((name) => [name, "scope"]));
const homes = graph.nodes.map(() => root);

function growTree() {
  const least = graph.folded ? 0 : bySeq.length / 100; // shorter repeats are no help
  graph.repeats.forEach(([, , members], k) => {
    if (members.length >= least && keepsScopes(k, members)) insertRepeat(k, members);
    else repeats.delete("×" + k);
  });
  gatherRuns(bySeq.filter((at) => graph.nodes[at].kind === "op"), 0, "");
  takeInputsAlong();
  gatherInputs();
  for (const at of bySeq) for (const [name, kind] of chains[at]) enter(at, name, kind);
  homes.forEach((home, at) => {
    while (isIdle(home)) home = home.parent;
    homes[at] = home;
  });
  const kept = groups.filter((group) => !isIdle(group));
  groups.splice(0, groups.length, ...kept);
}

// A group of one node is that node, and a soft one that is all of its parent is that parent.
function isIdle({ members, parent, soft }) {
  return Boolean(parent)
    && (members.length === 1 || (soft && members.length === parent.members.length));
}

function enter(at, name, kind) {
  const outer = homes[at];
  if (!outer.inner.has(name)) {
    const group = { name, kind, parent: outer, depth: outer.depth + 1, members: [],
      inner: new Map(), soft: name.includes(SOFT) };
    outer.inner.set(name, group);
    groups.push(group);
  }
  homes[at] = outer.inner.get(name);
  homes[at].members.push(at);
}

// Whether each scope lies in one copy with all its nodes, or in every copy with some: a repeat that
// cuts through scopes would tear them apart.
function keepsScopes(k, members) {
  const [, copies, , length] = graph.repeats[k], counts = new Map();
  const shared = sharedChain(members).length;
  members.forEach((at, place) => {
    for (const [name] of chains[at].slice(shared)) {
      if (!counts.has(name)) counts.set(name, { all: 0, copies: new Set() });
      counts.get(name).all += 1;
      counts.get(name).copies.add(Math.floor(place / length));
    }
  });
  return [...counts].every(([name, { all, copies: inside }]) =>
    inside.size === copies || (inside.size === 1 && all === scopes.get(name)));
}

// All copies but the first go into one group below the scope that they share.
function insertRepeat(k, members) {
  const length = graph.repeats[k][3], shared = sharedChain(members).length;
  const copyOf = (place) => Math.floor(place / length);
  const copyName = (place) => `×${k}#${copyOf(place) + 2}`;
  const below = (at) => (chains[at][shared] || [""])[0];
  const scoped = members.every((at, place) => below(at) === below(members[copyOf(place) * length]))
    && below(members[0]) !== below(members[length]);
  members.forEach((at, place) => {
    const copy = scoped || members.length === length ? [] : [[copyName(place), "copy"]];
    chains[at].splice(shared, 0, ["×" + k, "repeat"], ...copy);
  });
}

// What the chains of these nodes begin with, all of them.
function sharedChain(members) {
  let shared = chains[members[0]];
  for (const at of members) {
    let count = 0;
    while (count < shared.length && chains[at][count] && chains[at][count][0] === shared[count][0])
      count += 1;
    if (count < shared.length) shared = shared.slice(0, count);
  }
  return shared;
}

// Splits the children of a group, where they are many, into runs of neighbours in time: by the
// source line that made them, else in equal parts. Neighbours in time make no cycle.
function gatherRuns(members, depth, outer) {
  const children = new Map();
  for (const at of members) {
    const key = depth < chains[at].length ? chains[at][depth][0] : at;
    if (!children.has(key)) children.set(key, []);
    children.get(key).push(at);
  }
  if (children.size <= CROWD) {
    for (const [key, inside] of children)
      if (typeof key === "string") gatherRuns(inside, depth + 1, key);
    if (children.size > SOFT_CROWD) gatherLines([...children.values()], depth, outer);
    return;
  }
  const list = [...children.values()], lines = byLine(list);
  const byLines = lines.length > 1 && lines.length <= list.length / 2;
  const runs = byLines ? lines : inParts(list, Math.min(FAN, Math.ceil(list.length / FAN)));
  runs.forEach((run, k) => {
    if (run.length === 1) return;
    const name = `${outer}⋯${byLines ? "line" : ""}${depth}.${k}`;
    for (const at of run.flat()) chains[at].splice(depth, 0, [name, byLines ? "line" : "run"]);
  });
  gatherRuns(members, depth, outer);
}

// Neighbours that one source line made, without a scope of their own, are a soft group.
function gatherLines(list, depth, outer) {
  byLine(list).forEach((run, k) => {
    const bare = run.every(([at]) => chains[at].length === depth && graph.nodes[at].site);
    if (run.length === 1 || !bare) return;
    for (const [at] of run) chains[at].push([`${outer}${SOFT}${depth}.${k}`, "line"]);
  });
}

function byLine(list) {
  const runs = [];
  let last = null;
  for (const child of list) {
    const { site } = graph.nodes[child[0]];
    if (!runs.length || site !== last) runs.push([]);
    runs[runs.length - 1].push(child);
    last = site;
  }
  return runs;
}

function inParts(list, count) {
  const size = Math.ceil(list.length / count);
  return Array.from({ length: count }, (_, k) => list.slice(k * size, (k + 1) * size))
    .filter((part) => part.length);
}

// A parameter belongs to the innermost group that holds all its users, and so does an input where
// inputs are many.
function takeInputsAlong() {
  const inputs = graph.nodes.filter((node) => node.kind === "leaf").length;
  graph.nodes.forEach((node, at) => {
    if (node.kind === "op" || !outgoing[at].length) return;
    if (node.kind === "leaf" && inputs <= FREE_INPUTS) return;
    chains[at] = [...sharedChain(outgoing[at].map((edge) => edge[2]))];
  });
}

// Parameters, or inputs, of one group that those inside of it share stand in one of their own: a
// soft one where they are few.
function gatherInputs() {
  const levels = new Map();
  graph.nodes.forEach(({ kind }, at) => {
    const name = [kind, ...chains[at].map(([one]) => one)].join("\n");
    if (kind === "op") return;
    if (!levels.has(name)) levels.set(name, []);
    levels.get(name).push(at);
  });
  for (const [name, inputs] of levels) {
    const sign = inputs.length > CROWD ? "⋯" : SOFT;
    if (inputs.length > 1)
      for (const at of inputs) chains[at].push([`${name}${sign}inputs`, "inputs"]);
  }
}

// -- words ----------------------------------------------------------------------------------------

// The name of a group, as it reads inside the groups around it.
function groupTitle(group) {
  const { name, kind, members } = group;
  if (kind === "repeat") return `×${repeats.get(name).copies.toLocaleString("en")} more`;
  if (kind === "copy") return "copy " + name.split("#")[1];
  if (kind === "inputs") return censusText(members);
  const ops = members.filter((at) => graph.nodes[at].kind === "op"), first = graph.nodes[ops[0]];
  if (kind === "line") return clip(first.text || first.at || "one line", 40);
  if (kind === "run") return `ops ${numberOf(ops[0])}–${numberOf(ops[ops.length - 1])}`;
  let outer = group.parent;
  while (outer.kind !== "scope" && outer.parent) outer = outer.parent;
  const own = outer.name ? name.slice(outer.name.length + 1) : name;
  const numbered = outer.name && /^\d+$/.test(own);
  return shorten(numbered ? `${outer.name.split("/").pop()}.${own}` : own, 32);
}

// The whole name of a scope; of any other group its title and what it holds.
function fullName(group) {
  const { kind, name } = group, holds = {
    repeat: "copies of the part before", copy: "one of the copies", line: "ops of a source line",
    run: "ops in a row", inputs: "inputs of one level",
  }[kind];
  return holds ? `${groupTitle(group)}: ${holds}` : name;
}

const opNumbers = new Map(bySeq.filter((at) => graph.nodes[at].kind === "op")
  .map((at, k) => [at, k + 1]));
const numberOf = (at) => opNumbers.get(at).toLocaleString("en");

// Below the title of a folded group.
function groupLines(group) {
  const counts = censusText(group.members), { kind } = group;
  if (kind === "inputs") return [inputNames(group)];
  const first = graph.nodes[group.members.find((at) => graph.nodes[at].kind === "op")];
  if (kind === "repeat") return [innerNames(group) || repeats.get(group.name).title, counts];
  if (kind === "line") return [first.text ? `${first.at} · ${counts}` : counts];
  if (kind === "run" || kind === "copy") return [frequentOps(group.members), counts];
  return [counts];
}

// "weight, bias, …", as they read inside the groups around them.
function inputNames({ members, parent }) {
  const around = scopeAround(parent);
  const names = members.map((at) => nameInside(graph.nodes[at].name || "", around)).filter(Boolean);
  const few = names.slice(0, 3).map((name) => shorten(name, 14)).join(", ");
  return few ? few + (members.length > 3 ? ", …" : "") : "without a name";
}

// "layers.1 – layers.11" where a repeat holds whole scopes.
function innerNames(group) {
  const outermost = (one) => one.kind === "scope" && isOutermost(one, group);
  const inner = inOrder(groups.filter(outermost));
  if (inner.length < 2) return "";
  return shorten(`${groupTitle(inner[0])} – ${groupTitle(inner[inner.length - 1])}`, 40);
}

// Groups by the first op of each: parameters are older than what uses them.
function inOrder(some) {
  const began = ({ members }) => members.find((at) => graph.nodes[at].kind === "op") ?? members[0];
  return [...some].map((group) => [graph.nodes[began(group)].seq, group])
    .sort((a, b) => a[0] - b[0]).map(([, group]) => group);
}

// Whether no scope stands between a group and one around it.
function isOutermost({ parent }, around) {
  while (parent && parent !== around && parent.kind !== "scope") parent = parent.parent;
  return parent === around;
}

function frequentOps(members) {
  const counts = new Map();
  for (const at of members) {
    const { kind, op } = graph.nodes[at];
    if (kind === "op") counts.set(op, (counts.get(op) || 0) + 1);
  }
  const most = [...counts].sort((a, b) => b[1] - a[1]);
  const words = most.slice(0, 3).map(([op]) => shorten(op, 16));
  return words.join(" ") + (most.length > 3 ? " …" : "");
}

growTree();
const groupNames = (wanted = () => true) =>
  [...new Set(groups.slice(1).filter(wanted).map((group) => group.name))];
