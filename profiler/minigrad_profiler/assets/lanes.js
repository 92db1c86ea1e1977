"use strict";
// The timeline's data: bars and marks of each lane in rows by depth, and links forward → backward.

const ROW = 17; // pixels of a row
const MOST_DEPTH = 14;
const EACH_LOG = 2 ** 44; // node numbers of the second log begin here

class Bar {
  constructor(lane, start, length, name, kind, call, seq) {
    Object.assign(this, { lane, start, length, name, kind, call, seq, depth: 0 });
  }

  get stop() { return this.start + this.length; }

  // The lines of the tooltip.
  get lines() {
    const call = this.call;
    if (!call) return [`${this.kind} ${this.name}`, duration(this.length)];
    const [kind, op, shapes, place, code, scope, made, flops, moved] = call;
    return [
      kind === "pass" ? `${op}: a whole backward` : `${op} ${kind}`,
      `${duration(this.length)}, from ${duration(this.start)}`, shapes,
      `${place} ${code}`, scope && `scope ${scope}`,
      made ? `${bytes(made)} made${moved ? `, ${bytes(moved)} moved` : ""}` : "",
      flops ? `${rate(flops)}FLOP, ${rate(1e9 * flops / Math.max(this.length, 1))}FLOP/s` : "",
      this.seq >= 0 ? `node ${this.seq % EACH_LOG}` : "",
    ];
  }
}

class Lane {
  constructor(number, data, calls) {
    this.name = data.name;
    this.busy = data.busy;
    this.rest = data.rest;
    this.bars = [];
    for (let i = 0; i < data.bars.length; i += 4) {
      const [start, length, at, seq] = data.bars.slice(i, i + 4);
      this.bars.push(new Bar(number, start, length, calls[at][1], calls[at][0], calls[at], seq));
    }
    for (const [start, length, what, name] of data.marks)
      this.bars.push(new Bar(number, start, length, name, what, null, -1));
    this.bars.sort((a, b) => a.start - b.start || b.length - a.length);
    this.longest = this.bars.reduce((most, bar) => Math.max(most, bar.length), 0);
    this.depth = this.stack();
  }

  // Gives each bar the row below those that enclose it; how many rows there are.
  stack() {
    const open = [];
    let deepest = 0;
    for (const bar of this.bars) {
      while (open.length && open[open.length - 1].stop <= bar.start) open.pop();
      bar.depth = Math.min(open.length, MOST_DEPTH);
      deepest = Math.max(deepest, bar.depth + 1);
      open.push(bar);
    }
    return deepest;
  }

  get height() { return 18 + this.depth * ROW + (this.busy.length ? 12 : 0) + 8; }

  // The bars that may show between two times: those that start early enough to reach in.
  between(from, to) {
    let low = 0;
    let high = this.bars.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.bars[middle].start < from - this.longest) low = middle + 1; else high = middle;
    }
    const found = [];
    for (let i = low; i < this.bars.length && this.bars[i].start <= to; i++)
      if (this.bars[i].stop >= from) found.push(this.bars[i]);
    return found;
  }
}

function makeLanes(data) {
  const lanes = data.lanes.map((lane, at) => new Lane(at, lane, data.calls));
  const forward = new Map();
  const backward = new Map();
  for (const lane of lanes) for (const bar of lane.bars) {
    if (bar.seq < 0) continue;
    (bar.kind === "forward" ? forward : backward).set(bar.seq, bar);
  }
  return { lanes, forward, backward };
}

// The other direction of a bar's node, if it has a bar.
function partner(model, bar) {
  if (bar.seq < 0) return null;
  return (bar.kind === "forward" ? model.backward : model.forward).get(bar.seq) || null;
}

// Own time by op and direction inside a stretch, the longest first.
function summed(model, from, to) {
  const sums = new Map();
  for (const lane of model.lanes) {
    const open = [];
    for (const bar of lane.between(from, to)) {
      const inside = Math.max(0, Math.min(bar.stop, to) - Math.max(bar.start, from));
      if (!bar.call) continue;
      while (open.length && open[open.length - 1].stop <= bar.start) open.pop();
      const name = bar.kind === "pass" ? "engine between its ops" : `${bar.name} ${bar.kind}`;
      const entry = sums.get(name) || { name, count: 0, time: 0 };
      entry.count += 1;
      entry.time += inside;
      sums.set(name, entry);
      if (open.length) open[open.length - 1].entry.time -= inside;
      open.push({ stop: bar.stop, entry });
    }
  }
  return [...sums.values()].sort((a, b) => b.time - a.time);
}
