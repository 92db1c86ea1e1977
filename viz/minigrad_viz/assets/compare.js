"use strict";
// In the step-through: the numbers of small arrays, written out, and two steps held side by side.

// The numbers of a small array as a table of rows; null where they are not known.
function numbersTable(values, shape) {
  if (!values || !shape) return null;
  const columns = shape.length > 1 ? shape[shape.length - 1] : values.length;
  const table = tag("table", "", "numbers");
  for (let at = 0; at < values.length; at += columns) {
    const row = tag("tr");
    for (const value of values.slice(at, at + columns)) row.append(tag("td", numberText(value)));
    table.append(row);
  }
  return table;
}

const shapeOf = (at, output) => (graph.nodes[at].shapes || [])[output];

// [words, table] of what a step reads and gives, as far as it is known in numbers.
function numbersOf(step, recording) {
  const rows = incoming[step.node].map(([p, o]) =>
    [nodeName(p), o ? null : numbersTable(graph.nodes[p].values, shapeOf(p, 0))]);
  rows.push(["cotangent", numbersTable(step.values, shapeOf(step.node, 0))]);
  for (const part of step.sent) {
    const shape = shapeOf(part.producer, part.output), name = giftName(part);
    const before = part.rank ? recording.gradient(part.producer, step.k) : null;
    const total = before && before.values && part.values
      && part.values.map((value, k) => Number(value) + Number(before.values[k]));
    rows.push([`→ ${name}`, numbersTable(part.values, shape)]);
    if (total) rows.push([`added up at ${name}`, numbersTable(total, shape)]);
  }
  return rows.filter(([, table]) => table);
}

function numberBlocks(step, recording) {
  const rows = numbersOf(step, recording);
  if (!rows.length) return [];
  const block = tag("div", "", "worked");
  for (const [words, table] of rows) {
    const part = tag("div");
    part.append(tag("span", words), table);
    block.append(part);
  }
  return [block];
}

// A table of what two steps have in common and where they differ.
function comparison(a, b, recording) {
  const ratio = (x, y) => (x && y ? `×${numberText(y / x)}` : "");
  const bytes = (step) => step.sent.reduce((sum, part) => sum + part.bytes, 0);
  const took = (step) => step.t1 - step.t0, live = (step) => recording.live[step.k + 1];
  const sizeOf = (step) => (step.norm === null ? "" : numberText(step.norm));
  const rows = [["step", String(a.k + 1), String(b.k + 1), ""],
    ["op", nodeName(a.node), nodeName(b.node), ""],
    ["scope", graph.nodes[a.node].scope || "", graph.nodes[b.node].scope || "", ""],
    ["took", timeText(took(a)), timeText(took(b)), ratio(took(a), took(b))],
    ["‖cotangent‖", sizeOf(a), sizeOf(b), ratio(a.norm, b.norm)],
    ["gives", byteText(bytes(a)), byteText(bytes(b)), ratio(bytes(a), bytes(b))],
    ["live after", byteText(live(a)), byteText(live(b)), ratio(live(a), live(b))]];
  const table = tag("table", "", "compared");
  for (const [word, ...cells] of rows) {
    const row = tag("tr");
    row.append(tag("th", word), ...cells.map((text) => tag("td", text)));
    if (cells[0] || cells[1]) table.append(row);
  }
  return table;
}
