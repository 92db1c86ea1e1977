"use strict";
// Groups inside groups: each open group is laid out on its own, from the inside out, and stands as
// one box in the layout of the group around it. A link that enters or leaves an open group passes
// through a port on its rim, and is joined from its parts when every place is known.

const FRAME = { side: 16, top: 34, bottom: 10, port: 8 };

function placeScene(scene, space, before) {
  const memory = new Map(((before && before.frames) || []).map((one) => [one.group.name, one]));
  for (const frame of scene.frames) Object.assign(frame, { items: [], at: new Map(), links: [],
    named: new Map(), ports: new Map(), pins: new Map() });
  for (const box of scene.boxes) itemAt(box.frame, box);
  for (const frame of scene.frames) if (frame.outer) itemAt(frame.outer, frame);
  for (const link of scene.links) link.parts = partsOf(scene, link);
  for (const frame of [...scene.frames].reverse())
    placeFrame(frame, space, memory.get(frame.group.name));
  const [whole] = scene.frames;
  Object.assign(whole, { x: whole.w / 2, y: whole.h / 2 });
  for (const frame of scene.frames) spread(frame);
  for (const link of scene.links) join(scene, link);
  trimShared(scene);
  return Object.assign(scene, { width: whole.w, height: whole.h });
}

// -- from links to parts --------------------------------------------------------------------------

function itemAt(frame, item) {
  if (!frame.at.has(item)) {
    frame.at.set(item, frame.items.length);
    frame.items.push(item);
  }
  return frame.at.get(item);
}

// The port of a tensor on the upper ("top") or lower ("bottom") rim of a frame.
function rimPort(frame, side, tensor) {
  const name = side + tensor;
  if (!frame.ports.has(name)) {
    const port = { w: FRAME.port, h: 0, stub: true };
    frame.ports.set(name, port);
    frame.pins.set(itemAt(frame, port), side);
  }
  return frame.ports.get(name);
}

// [frame, position among its links] of each piece of the way from source to target.
function partsOf(scene, link) {
  const source = scene.boxes[link.source], target = scene.boxes[link.target];
  const tensor = `${link.source}:${link.key}`, [up, shared, down] = between(source, target);
  const parts = [];
  let item = source;
  for (const frame of up) {
    parts.push(partOf(frame, item, tensor, rimPort(frame, "bottom", tensor)));
    item = frame;
  }
  parts.push(partOf(shared, item, tensor, down[0] || target));
  down.forEach((frame, k) =>
    parts.push(partOf(frame, rimPort(frame, "top", tensor), tensor, down[k + 1] || target)));
  return parts;
}

// The frames that a link leaves, the one in which both its ends stand, and those that it enters.
function between(source, target) {
  const up = [], down = [];
  let a = source.frame, b = target.frame;
  while (a !== b) {
    if (a.group.depth >= b.group.depth) { up.push(a); a = a.outer; }
    else { down.unshift(b); b = b.outer; }
  }
  return [up, a, down];
}

function partOf(frame, source, tensor, target) {
  const from = itemAt(frame, source), to = itemAt(frame, target);
  const name = `${from}>${to} ${tensor}`;
  if (!frame.named.has(name)) {
    frame.named.set(name, frame.links.length);
    frame.links.push({ from, to, tensor });
  }
  return [frame, frame.named.get(name)];
}

// -- places ---------------------------------------------------------------------------------------

// What a box or frame is called in every layout; ports on a rim have no name.
function nameOf(item) {
  return item.stub ? "" : item.group ? item.group.name : "#" + item.members[0];
}

// Where the items of a frame stood in the scene before.
function placesBefore(items, before) {
  if (!before) return null;
  const places = new Map(before.items.map((item, k) => [nameOf(item), before.layout.x[k]]));
  return items.map((item) => (item.stub ? null : places.get(nameOf(item)) ?? null));
}

function placeFrame(frame, space, before) {
  const { items, links, pins } = frame, tensors = new Map();
  const number = ({ tensor }) => {
    if (!tensors.has(tensor)) tensors.set(tensor, tensors.size);
    return tensors.get(tensor);
  };
  const widths = items.map((item) => item.w + (item.stub ? 0 : rim(item)));
  const heights = items.map((item) => item.h + (item.stub ? 0 : rim(item)));
  const ends = links.map((link) => [link.from, link.to, number(link)]);
  const exits = links.map(({ from, tensor }) => exitOf(items[from], tensor));
  const sides = items.map((_, k) => pins.get(k) || "");
  const layout = layered.place(widths, heights, ends, exits, sides, placesBefore(items, before));
  layout.routes = wholeRoutes(layout, ends);
  intoColumns(layout, { widths, heights, ends }, inside(frame, space), before && before.layout);
  Object.assign(frame, { layout, w: layout.width, h: layout.height });
  if (!frame.outer) return;
  frame.titleWidth = textWidth("▾ " + frame.title, TEXT.title, 600) + 20;
  frame.w = Math.max(layout.width + 2 * FRAME.side, frame.titleWidth + 8);
  frame.h = layout.height + FRAME.top + FRAME.bottom;
}

// The page's size for a level: what the frames around it leave, and of that a share.
function inside({ group: { depth } }, space) {
  const share = depth && space ? space.inner || 1 : 1;
  return space && { width: share * (space.width - 2 * FRAME.side * depth),
    height: share * (space.height - (FRAME.top + FRAME.bottom) * depth) };
}

// Where a tensor leaves an item, right of its middle.
function exitOf(item, tensor) {
  if (item.stub) return 0;
  if (!item.items) return item.ports.get(tensor.slice(tensor.indexOf(":") + 1)).offset;
  const port = item.at.get(item.ports.get("bottom" + tensor));
  return item.layout.x[port] - item.layout.width / 2;
}

// Routes with the points of the trunk that they branch off from.
function wholeRoutes({ routes, backward, deepest }, ends) {
  const trunks = new Map(), nameOf = (k) => `${ends[k][0]}:${backward[k] ? -1 - k : ends[k][2]}`;
  routes.forEach((route, k) => { if (deepest[k]) trunks.set(nameOf(k), route); });
  return routes.map((route, k) => {
    const trunk = trunks.get(nameOf(k)) || [], start = route[0][1];
    return trunk === route ? route : [...trunk.filter((point) => point[1] < start - 0.5), ...route];
  });
}

// Gives each item of a frame its place in the whole picture.
function spread(frame) {
  const { x, y, w, h, layout, items, outer } = frame;
  frame.left = outer ? x - layout.width / 2 : x - w / 2;
  frame.top = outer ? y - h / 2 + FRAME.top : y - h / 2;
  items.forEach((item, k) =>
    Object.assign(item, { x: frame.left + layout.x[k], y: frame.top + layout.y[k] }));
}

// One line from the parts of a link.
function join(scene, link) {
  link.points = link.parts.flatMap(([{ layout, left, top }, k]) =>
    layout.routes[k].map(([x, y]) => [left + x, top + y]));
  link.whole = link.points;
  link.direct = link.parts.some(([{ layout }, k]) => layout.direct[k]);
  link.back = link.parts.some(([{ layout }, k]) => layout.backward[k]);
}

// Links of one tensor run together at first: all but one are drawn from where they branch off.
function trimShared(scene) {
  const drawn = new Map();
  for (const link of scene.links) {
    const tensor = `${link.source}:${link.key}`;
    if (!drawn.has(tensor)) drawn.set(tensor, []);
    let shared = 0;
    for (const other of drawn.get(tensor).slice(0, 50)) {
      let count = 0;
      const most = Math.min(other.length, link.whole.length);
      while (count < most && same(other[count], link.whole[count])) count += 1;
      shared = Math.max(shared, count);
    }
    drawn.get(tensor).push(link.whole);
    link.points = link.whole.slice(Math.max(0, Math.min(shared, link.whole.length - 1) - 1));
  }
}

const same = ([ax, ay], [bx, by]) => Math.abs(ax - bx) < 0.01 && Math.abs(ay - by) < 0.01;
