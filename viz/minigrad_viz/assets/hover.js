"use strict";
// What a box and the signs on it mean, in words, for the pointer that rests on it.

function explained(box) {
  if (!box) return "";
  if (box.items) return `${fullName(box.group)}; a click on the title folds it`;
  const [at] = box.members, node = graph.nodes[at];
  const what = box.group ? [`${fullName(box.group)}, ${censusText(box.members)}; a click opens it`]
    : [[KIND_WORD[node.kind], node.op, node.name].filter(Boolean).join(" "), node.scope,
      node.outputs.map((text, k) => `${text}, ${byteText(node.bytes[k])}`).join("; ")];
  return [...what, ...signsOf(box)].filter(Boolean).join("\n");
}

// What the signs on a box mean, a line each; the panel tells them, too.
function signsOf(box) {
  const [at] = box.members, node = graph.nodes[at];
  const what = [], by = $("heat").value, scale = SCALE_WORDS[by];
  const known = scale && box.value !== null && by !== "slack";
  if (known) what.push(`${scale[0]}: ${scale[1](box.value)}`);
  if (node.still && !box.group) what.push("dashed: no gradient flows here");
  if (box.root) what.push("double rim: a result, from which backward starts");
  const trouble = box.members.map(troubleOf).find(Boolean);
  const holds = trouble === "values" ? "values here hold" : "a gradient here holds";
  if (trouble) what.push(`⚠: ${holds} NaN or Inf`);
  if (box.badge) what.push(`${box.badge.text}: finite differences say ${box.badge.verdict}`);
  if (box.critical) what.push("on the critical path of backward");
  if (app.stepping) what.push(...explainedStep(box));
  return what;
}

// The signs of the step-through: the circle, the number at the upper right.
function explainedStep(box) {
  const { recording } = app.player, n = recording.finished(app.player.axis, app.player.at);
  const [at] = box.members, words = [];
  const held = box.members.reduce((sum, one) =>
    sum + (graph.released && recording.done(one, n) ? 0 : recording.held[one]), 0);
  if (held) words.push(`upper right: keeps ${byteText(held)} for its rule`);
  if (box.group) return [...words, "bar: the part of its steps that has run"];
  const all = recording.nodes[at].due.length, left = recording.pending(at, n);
  if (all && left) words.push(`circle: waits for ${left} of ${countText(all, "contribution")}`);
  else if (all && graph.nodes[at].kind !== "op") words.push("tick: its gradient is complete");
  if (all > 1) words.push("＋ where one arrives: it is added to what is there");
  if (recording.done(at, n)) words.push(`coloured: worker ${workerOf(recording, at)} ran its rule`);
  else if (all && graph.nodes[at].kind !== "op") words.push("filled: the part that has arrived");
  return words;
}

function workerOf(recording, at) {
  return recording.steps[recording.stepOf(at)].worker;
}
