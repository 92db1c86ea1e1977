"use strict";
// A level that is far taller than the page is cut between rows, where few links cross, and its
// parts stand side by side. A link across a cut runs below its column and above the next.

const COLUMN = { gap: 30, lane: 7, most: 8, crossing: 6, worth: 1.05 };

// Changes a layout in place where columns show it larger at the page's size. A level with the rows
// that it had `before` is cut where it was.
function intoColumns(layout, graph, space, before) {
  const { tops, bottoms } = layout, rows = tops.length;
  if (before && before.tops.length === rows) {
    if (before.cuts) cutAt(layout, graph, before.cuts);
    return;
  }
  const plain = { zoom: zoomOf(layout.width, layout.height, space) };
  if (!space || plain.zoom >= 1 || rows < 4) return;
  const trunks = trunkSpans(layout, graph.ends), open = openTrunks(trunks, rows);
  let best = plain;
  for (let count = 2; count <= COLUMN.most; count++) {
    const cuts = cutRows(tops, bottoms, open, count);
    if (!cuts) continue;
    const plan = planColumns(layout, graph, cuts, trunks);
    plan.zoom = zoomOf(plan.width, plan.height, space);
    if (plan.zoom > best.zoom * COLUMN.worth) best = plan;
  }
  if (best !== plain) moveTo(layout, graph, best);
}

function cutAt(layout, graph, cuts) {
  moveTo(layout, graph, planColumns(layout, graph, cuts, trunkSpans(layout, graph.ends)));
}

function zoomOf(width, height, space) {
  return space ? Math.min(1, space.width / width, space.height / height) : 1;
}

// From which row to which each tensor's line runs.
function trunkSpans({ row }, ends) {
  const spans = new Map();
  for (const [source, target, port] of ends) {
    const name = `${source}:${port}`, span = spans.get(name) || [Infinity, -1];
    spans.set(name, [Math.min(span[0], row[source], row[target]),
      Math.max(span[1], row[source], row[target])]);
  }
  return spans;
}

// How many lines cross the gap below each row.
function openTrunks(spans, rows) {
  const open = new Array(rows).fill(0);
  for (const [from, till] of spans.values()) { open[from] += 1; open[till] -= 1; }
  for (let row = 1; row < rows; row++) open[row] += open[row - 1];
  return open;
}

// The first row of each column but the first; null where too many lines would be cut.
function cutRows(tops, bottoms, open, count) {
  const ideal = bottoms[bottoms.length - 1] / count, cuts = [];
  for (let k = 1; k < count; k++) {
    const wanted = (cuts.length ? tops[cuts[cuts.length - 1]] : 0) + ideal;
    let best = -1, least = Infinity;
    for (let row = (cuts[cuts.length - 1] || 0) + 1; row < tops.length; row++) {
      const off = Math.abs(bottoms[row - 1] - wanted) / ideal;
      const cost = off + 0.08 * open[row - 1];
      if (off < 0.35 && open[row - 1] <= COLUMN.crossing && cost < least) {
        best = row;
        least = cost;
      }
    }
    if (best < 0) return null;
    cuts.push(best);
  }
  return cuts;
}

// Where the columns stand, and in which lane each line that is cut runs.
function planColumns({ points, row, tops, bottoms }, { widths }, cuts, trunks) {
  const columnOf = tops.map((_, k) => cuts.filter((cut) => cut <= k).length);
  const empty = () => ({ left: Infinity, right: -Infinity });
  const columns = Array.from({ length: cuts.length + 1 }, empty);
  points.forEach((middle, k) => {
    const column = columns[columnOf[row[k]]], half = (widths[k] || 0) / 2;
    column.left = Math.min(column.left, middle - half);
    column.right = Math.max(column.right, middle + half);
  });
  const lanes = new Map(), used = columns.map(() => 0);
  for (const [name, [from, till]] of trunks)
    for (let at = columnOf[from] + 1; at <= columnOf[till]; at++)
      lanes.set(`${name} ${at}`, used[at]++);
  const most = Math.max(...used), margin = most ? 10 + COLUMN.lane * most : 0;
  let across = 0, height = 0;
  columns.forEach((column, k) => {
    if (k) across += COLUMN.gap + COLUMN.lane * used[k];
    column.shift = across - column.left;
    column.start = across;
    across += column.right - column.left;
    column.up = tops[k ? cuts[k - 1] : 0];
    const last = k < cuts.length ? cuts[k] - 1 : tops.length - 1;
    const below = last + 1 < tops.length ? layered.STUB : 0;
    height = Math.max(height, bottoms[last] + below - column.up);
  });
  return { columns, columnOf, cuts, lanes, margin, floor: margin + height,
    width: across, height: height + 2 * margin };
}

function moveTo(layout, { ends }, plan) {
  const { columns, columnOf, margin } = plan, { row } = layout;
  const names = ends.map(([source, , port]) => `${source}:${port}`);
  const moved = (column, [x, y]) => [x + columns[column].shift, y - columns[column].up + margin];
  layout.routes = layout.routes.map((route, k) => {
    const points = [];
    let last = -1;
    for (const point of route) {
      const column = columnAt(columns, point[1]);
      const here = moved(column, point);
      if (last >= 0 && column !== last) {
        const end = points[points.length - 1];
        points.push(...around(plan, names[k], end, last, here, column));
      }
      points.push(here);
      last = column;
    }
    return points;
  });
  layout.x.forEach((x, k) => {
    [layout.x[k], layout.y[k]] = moved(columnOf[row[k]], [x, layout.y[k]]);
  });
  Object.assign(layout, { width: plan.width, height: plan.height, cuts: plan.cuts });
}

function columnAt(columns, y) {
  let at = columns.length - 1;
  while (at > 0 && y < columns[at].up - 0.5) at -= 1;
  return at;
}

// Below one column, up beside the next, and in from above; the other way where a line runs back.
function around({ columns, lanes, floor }, name, [x], from, [nextX], to) {
  const later = Math.max(from, to), lane = lanes.get(`${name} ${later}`) || 0;
  const low = floor + 6 + COLUMN.lane * lane, high = 4 + COLUMN.lane * lane;
  const gutter = columns[later].start - 14 - COLUMN.lane * lane;
  const [out, back] = from < to ? [low, high] : [high, low];
  return [[x, out], [gutter, out], [gutter, back], [nextX, back]];
}
