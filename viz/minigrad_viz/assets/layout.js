"use strict";
// The layered layout of layout.py, layering.py and ordering.py, step for step in JavaScript: the
// browser lays out again whenever a scope opens or folds. A test holds the two together.

const ROOM = { box: 26, waypoint: 12, entry: 14, row: 46, rim: 24, exit: 36, label: 16, stub: 18,
  careful: 3000 };

// `pins` hold some boxes, ports on the rim of a frame, in the first row or the last. `before` says
// where some boxes stood: in each row they keep their order.
function placeGraph(widths, heights, links, exits, pins = new Map(), before = []) {
  if (!widths.length)
    return { x: [], y: [], routes: [], direct: [], backward: [], width: 0, height: 0 };
  const layers = assignLayers(widths.length, links, pins);
  const rows = orderRows(layers, before);
  const x = columns(rows, layers, widths);
  const { tops, bottoms } = rowEdges(rows, heights, pins);
  const y = widths.map((_, box) => (tops[layers.row[box]] + bottoms[layers.row[box]]) / 2);
  const entries = entryPoints(layers, links, x, widths);
  const routes = links.map((link, at) =>
    route(at, link, layers, x, y, heights, tops, bottoms, exits[at], entries[at]));
  let width = x.reduce((most, at) => Math.max(most, at), 0);
  widths.forEach((w, box) => { width = Math.max(width, x[box] + w / 2); });
  const last = pins.size && [...pins.values()].includes("bottom") ? 0 : ROOM.stub;
  const waypoints = x.slice(widths.length).map((at, k) => [layers.row[widths.length + k], at]);
  return { x: x.slice(0, widths.length), y, routes, direct: layers.direct, links,
    backward: layers.reversed, deepest: layers.deepest, row: layers.row, waypoints, tops, bottoms,
    width, height: bottoms[bottoms.length - 1] + last };
}

// -- rows -----------------------------------------------------------------------------------------

function assignLayers(boxes, links, pins) {
  const rank = topologicalRank(boxes, links);
  const oriented = links.map(([s, t, p], k) => (rank[s] < rank[t] ? [s, t, p] : [t, s, -1 - k]));
  const row = rowsByLongestPath(boxes, oriented, rank);
  pinRows(row, pins);
  const layers = { boxes, row, pins, trunk: [], deepest: [], direct: [],
    reversed: links.map(([s, t]) => rank[s] > rank[t]) };
  addTrunks(layers, oriented, 20000 + 2 * boxes);
  return layers;
}

function lists(count) {
  return Array.from({ length: count }, () => []);
}

function topologicalRank(boxes, links) {
  const waiting = new Array(boxes).fill(0), rank = new Array(boxes).fill(-1);
  const targets = lists(boxes);
  for (const [s, t] of links) { targets[s].push(t); waiting[t] += 1; }
  let ready = [], placed = 0, lowest = 0;
  for (let box = 0; box < boxes; box++) if (!waiting[box]) ready.push(box);
  while (placed < boxes) {
    if (!ready.length) {
      while (rank[lowest] >= 0) lowest += 1;
      ready.push(lowest);
    }
    for (let i = 0; i < ready.length; i++) {
      const box = ready[i];
      if (rank[box] >= 0) continue;
      rank[box] = placed++;
      for (const t of targets[box]) if (--waiting[t] === 0) ready.push(t);
    }
    ready = [];
  }
  return rank;
}

function rowsByLongestPath(boxes, oriented, rank) {
  const order = [...rank.keys()].sort((a, b) => rank[a] - rank[b]);
  const targets = lists(boxes), inputs = new Array(boxes).fill(0), row = new Array(boxes).fill(0);
  for (const [s, t] of oriented) { targets[s].push(t); inputs[t] += 1; }
  for (const box of order) for (const t of targets[box]) row[t] = Math.max(row[t], row[box] + 1);
  for (const box of order.reverse()) {
    if (!targets[box].length) continue;
    let least = Infinity;
    for (const t of targets[box]) least = Math.min(least, row[t]);
    row[box] = least - 1;
  }
  const alone = [...row.keys()].filter((box) => !targets[box].length && !inputs[box]);
  const across = Math.max(6, Math.floor(Math.sqrt(alone.length)));
  alone.forEach((box, at) => { row[box] = Math.floor(at / across); });
  return row;
}

// Pinned boxes stand alone in their rows: nothing is drawn between them and the rim.
function pinRows(row, pins) {
  const sides = [...pins.values()], top = sides.includes("top") ? 1 : 0;
  let most = -1;
  row.forEach((at, box) => { if (!pins.has(box)) most = Math.max(most, at); });
  let least = most;
  row.forEach((at, box) => { if (!pins.has(box)) least = Math.min(least, at); });
  if (!pins.size) return;
  row.forEach((at, box) => {
    const side = pins.get(box);
    row[box] = side === "top" ? 0 : side === "bottom" ? most - least + top + 1 : at - least + top;
  });
}

function addTrunks(layers, oriented, budget) {
  const { row } = layers, trunks = new Map(), made = new Map(), drawn = new Set();
  const keyOf = (source, port) => source + ":" + port;
  for (const [s, t, p] of oriented) {
    const trunk = trunks.get(keyOf(s, p)) || { source: s, length: 0 };
    trunk.length = Math.max(trunk.length, row[t] - row[s] - 1);
    trunks.set(keyOf(s, p), trunk);
  }
  for (const [key, { source, length }] of [...trunks].sort((a, b) => a[1].length - b[1].length)) {
    if (length > budget) break;
    budget -= length;
    made.set(key, row.length);
    for (let k = 1; k <= length; k++) row.push(row[source] + k);
  }
  layers.upper = lists(row.length);
  layers.lower = lists(row.length);
  const join = (above, below) => {
    layers.lower[above].push(below);
    layers.upper[below].push(above);
  };
  for (const [key, first] of made) {
    let above = trunks.get(key).source;
    for (let k = 0; k < trunks.get(key).length; k++) { join(above, first + k); above = first + k; }
  }
  for (const [s, t, p] of oriented) {
    const key = keyOf(s, p), first = made.get(key), span = row[t] - row[s] - 1;
    layers.direct.push(first === undefined && span > 0);
    layers.trunk.push([first || 0, first === undefined ? 0 : span]);
    const last = first !== undefined && span ? first + span - 1 : s;
    if (first !== undefined || span === 0) join(last, t);
    const whole = span === trunks.get(key).length && !drawn.has(key);
    layers.deepest.push(whole);
    if (whole) drawn.add(key);
  }
}

// -- order ----------------------------------------------------------------------------------------

function orderRows(layers, before) {
  const place = new Array(layers.row.length).fill(0), rows = fewCrossings(layers, place);
  if (before.length) keepOrder(rows, layers, place, before);
  return rows;
}

// Boxes that stood in a row before stand in their old order; lines make room for them.
function keepOrder(rows, layers, place, before) {
  const kept = (point) => before[point] !== undefined;
  for (const row of rows) {
    const slots = [...row.keys()].filter((at) => kept(row[at]));
    const points = slots.map((at) => row[at]).sort((a, b) => before[a] - before[b]);
    slots.forEach((at, k) => { row[at] = points[k]; });
  }
  number(rows, place);
  const rounds = place.length > ROOM.careful ? 0 : 4;
  for (let k = 0; k < rounds; k++) if (!swapNeighbours(rows, layers, place, kept)) break;
}

function fewCrossings(layers, place) {
  const rows = firstOrder(layers), points = layers.row.length;
  const sweeps = points > 50000 ? 2 : points > ROOM.careful ? 3 : 12;
  number(rows, place);
  if (points > ROOM.careful) {
    for (let k = 0; k < sweeps; k++) sweep(rows, layers, place, k % 2 === 0);
    return rows;
  }
  let best = rows.map((row) => [...row]), fewest = crossings(rows, layers);
  for (let k = 0; k < sweeps; k++) {
    sweep(rows, layers, place, k % 2 === 0);
    const found = crossings(rows, layers);
    if (found < fewest) { best = rows.map((row) => [...row]); fewest = found; }
    if (fewest === 0) break;
  }
  number(best, place);
  for (let k = 0; k < 4; k++) if (!swapNeighbours(best, layers, place)) break;
  return best;
}

function crossings(rows, layers) {
  const place = new Array(layers.row.length).fill(0);
  number(rows, place);
  let total = 0;
  for (const row of rows.slice(0, -1)) {
    const ends = [];
    for (const point of row) {
      const places = layers.lower[point].map((p) => place[p]).sort((a, b) => a - b);
      for (const end of places) total += ends.length - after(ends, end);
      for (const end of places) ends.splice(after(ends, end), 0, end);
    }
  }
  return total;
}

function after(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value < sorted[middle]) high = middle; else low = middle + 1;
  }
  return low;
}

function firstOrder(layers) {
  const seen = new Array(layers.row.length).fill(false), stack = [];
  const rows = lists(layers.row.reduce((a, b) => Math.max(a, b), -1) + 1);
  for (let box = layers.boxes - 1; box >= 0; box--) if (!layers.lower[box].length) stack.push(box);
  while (stack.length) {
    const point = stack.pop();
    if (seen[point]) continue;
    seen[point] = true;
    rows[layers.row[point]].push(point);
    for (let k = layers.upper[point].length - 1; k >= 0; k--) stack.push(layers.upper[point][k]);
  }
  return rows;
}

function number(rows, place) {
  for (const row of rows) row.forEach((point, at) => { place[point] = at; });
}

function sweep(rows, layers, place, downward) {
  const beside = downward ? layers.upper : layers.lower, centre = new Array(place.length).fill(0);
  for (let k = 0; k < rows.length; k++) {
    const row = rows[downward ? k : rows.length - 1 - k];
    if (row.length === 1) continue;
    row.forEach((point, at) => {
      const others = beside[point];
      let sum = 0;
      for (const other of others) sum += place[other];
      centre[point] = others.length ? sum / others.length : at;
    });
    row.sort((a, b) => centre[a] - centre[b]);
    row.forEach((point, at) => { place[point] = at; });
  }
}

function swapNeighbours(rows, layers, place, kept = () => false) {
  let swapped = false;
  for (const row of rows) {
    for (let at = 0; at < row.length - 1; at++) {
      const left = row[at], right = row[at + 1];
      if ((kept(left) && kept(right)) || gain(left, right, layers, place) <= 0) continue;
      row[at] = right; row[at + 1] = left; place[left] = at + 1; place[right] = at;
      swapped = true;
    }
  }
  return swapped;
}

function gain(left, right, layers, place) {
  let total = 0;
  for (const beside of [layers.upper, layers.lower])
    for (const a of beside[left])
      for (const b of beside[right]) total += (place[a] > place[b]) - (place[a] < place[b]);
  return total;
}

// -- columns --------------------------------------------------------------------------------------

function columns(rows, layers, boxWidths) {
  const points = layers.row.length, x = new Array(points).fill(0);
  const widths = (point) => (point < layers.boxes ? boxWidths[point] : 0);
  const offsets = rows.map((row) => rowOffsets(row, layers.boxes, widths));
  rows.forEach((row, k) => row.forEach((point, at) => {
    x[point] = offsets[k][at] - offsets[k][row.length - 1] / 2;
  }));
  const strength = x.map((_, p) => (p >= layers.boxes || layers.pins.has(p) ? 3
    : layers.upper[p].length ? 1 : 0.002));
  const ofAKind = (others, p) => { // else a chain would drift towards a long link beside it
    const same = others.filter((other) => strength[other] === strength[p]);
    return same.length ? same : others;
  };
  const above = layers.upper.map((up, p) => ofAKind(up.length ? up : layers.lower[p], p));
  const below = layers.lower.map(ofAKind);
  const rounds = points > 3000 ? 1 : points > 600 ? 8 : 20;
  for (let k = 0; k < rounds; k++) {
    for (let at = 0; at < rows.length; at++) settle(rows[at], offsets[at], above, strength, x);
    for (let at = rows.length - 2; at >= 0; at--)
      settle(rows[at], offsets[at], below, strength, x);
  }
  for (let at = 0; at < rows.length; at++) settle(rows[at], offsets[at], above, strength, x);
  const left = x.reduce((least, at, p) => Math.min(least, at - widths(p) / 2), Infinity);
  return x.map((at) => at - left);
}

function rowOffsets(row, boxes, widths) {
  const offsets = [0], room = (point) => (point < boxes ? ROOM.box : ROOM.waypoint);
  for (let k = 1; k < row.length; k++) {
    const apart = room(row[k - 1]) + room(row[k]);
    offsets.push(offsets[k - 1] + (widths(row[k - 1]) + widths(row[k]) + apart) / 2);
  }
  return offsets;
}

function settle(row, offset, beside, strength, x) {
  const pools = [];
  for (let k = 0; k < row.length; k++) {
    const point = row[k], least = offset[k];
    let total = 0, wish = 0, count = 1;
    for (const other of beside[point]) {
      total += strength[other];
      wish += strength[other] * x[other];
    }
    if (total === 0) { total = 0.01; wish = 0.01 * x[point]; }
    wish = strength[point] * (wish - total * least);
    total = strength[point] * total;
    while (pools.length && pools[pools.length - 1][0] * total > wish * pools[pools.length - 1][1]) {
      const before = pools.pop();
      wish = before[0] + wish; total = before[1] + total; count = before[2] + count;
    }
    pools.push([wish, total, count]);
  }
  let at = 0;
  for (const [wish, total, count] of pools)
    for (let k = 0; k < count; k++, at++) x[row[at]] = wish / total + offset[at];
}

// -- routes ---------------------------------------------------------------------------------------

function rowEdges(rows, heights, pins) {
  const tops = [], bottoms = [];
  const gap = (above, below) => (pins.get(above) === "top" ? ROOM.rim
    : pins.get(below) === "bottom" ? ROOM.exit : ROOM.row);
  let y = 0;
  for (const [k, row] of rows.entries()) {
    tops.push(y);
    const tall = (point) => (point < heights.length ? heights[point] : 0);
    y += row.reduce((most, point) => Math.max(most, tall(point)), 0);
    bottoms.push(y);
    if (k + 1 < rows.length) y += gap(row[0], rows[k + 1][0]);
  }
  return { tops, bottoms };
}

function entryPoints(layers, links, x, widths) {
  const arriving = new Map(), entries = new Array(links.length).fill(0);
  links.forEach(([source, target], at) => {
    const [upper, lower] = layers.reversed[at] ? [target, source] : [source, target];
    const [first, span] = layers.trunk[at];
    if (!arriving.has(lower)) arriving.set(lower, []);
    arriving.get(lower).push([x[span ? first + span - 1 : upper], at]);
  });
  for (const [box, group] of arriving) {
    group.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const reach = 0.42 * widths[box], gap = Math.min(ROOM.entry, (2 * reach) / group.length);
    let at = x[box] - reach - gap;
    group.forEach(([origin, link], rank) => {
      const last = x[box] + reach - gap * (group.length - 1 - rank);
      at = Math.min(Math.max(origin, at + gap), last);
      entries[link] = at;
    });
  }
  return entries;
}

function route(at, [source, target], layers, x, y, heights, tops, bottoms, exit, entry) {
  const against = layers.reversed[at];
  const [upper, lower] = against ? [target, source] : [source, target];
  const [first, span] = layers.trunk[at], points = [];
  let from = first + span - 1;
  if (span === 0 || layers.deepest[at]) {
    const out = x[upper] + (against ? 0 : exit);
    points.push([out, y[upper] + heights[upper] / 2 + ROOM.label]);
    points.push([out, bottoms[layers.row[upper]] + ROOM.stub]);
    from = first;
  }
  for (let point = from; point < first + span; point++) {
    const row = layers.row[point];
    points.push([x[point], tops[row]], [x[point], bottoms[row] + ROOM.stub]);
  }
  points.push([entry, tops[layers.row[lower]]], [entry, y[lower] - heights[lower] / 2]);
  const kept = span ? withoutRepeats(points) : points;
  return against ? kept.reverse() : kept;
}

function withoutRepeats(points) {
  const kept = [points[0]];
  for (let at = 1; at < points.length - 1; at++) {
    const before = kept[kept.length - 1][0], x = points[at][0], next = points[at + 1][0];
    if (Math.abs(before - x) > 0.01 || Math.abs(next - x) > 0.01) kept.push(points[at]);
  }
  kept.push(points[points.length - 1]);
  return kept;
}
