"use strict";
// A recorded backward, asked about any moment. Nothing is played through: "how many contributions
// are still missing here?" is answered from the number of finished steps alone, so that the
// scrubber may jump anywhere. A position counts steps ("node") or nanoseconds ("time").

// The first place in a sorted list whose value is not below `value`.
function lowerBound(list, value, of = (item) => item) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of(list[middle]) < value) low = middle + 1; else high = middle;
  }
  return low;
}

class Recording {
  constructor() {
    this.steps = graph.steps.map((row) => this.decode(row));
    this.steps.sort((a, b) => a.t1 - b.t1 || a.order - b.order);
    this.steps.forEach((step, k) => { step.k = k; });
    this.lanes = [...new Set(this.steps.map((step) => step.worker))].sort((a, b) => a - b);
    this.setClock();
    this.setNodes();
    this.setMemory();
  }

  decode([node, order, worker, t0, t1, , norm, bad, values, looking, , sent]) {
    const every = ([producer, output, , slot]) =>
      [producer, output, slot, graph.nodes[producer].bytes[output], null, null, null];
    const tracked = incoming[node].filter(([producer]) => !graph.nodes[producer].still);
    const parts = (sent || tracked.map(every)).map((row) => {
      const [producer, output, slot, bytes, size, wrong, numbers] = row;
      return { producer, output, slot, bytes, norm: size, bad: wrong, values: numbers };
    });
    return { node, order, worker, t0, t1, norm, bad, values, looking: looking || 0, sent: parts };
  }

  // The clock without the time that recording took; with several workers it cannot be told apart.
  setClock() {
    let lost = 0, last = 0;
    for (const step of this.steps) {
      step.lane = this.lanes.indexOf(step.worker);
      const took = step.t1 - step.t0;
      step.from = this.lanes.length > 1 ? step.t0 : Math.max(last, step.t0 - lost);
      step.till = step.from + took;
      last = step.till;
      lost += step.looking;
    }
    this.elapsed = this.steps.reduce((most, step) => Math.max(most, step.till), 0);
    this.byLane = this.lanes.map((_, lane) => this.steps.filter((step) => step.lane === lane)
      .sort((a, b) => a.from - b.from));
  }

  setNodes() {
    this.nodes = graph.nodes.map(() => ({ step: -1, due: [], arrivals: [] }));
    for (const step of this.steps) {
      if (this.nodes[step.node].step < 0) this.nodes[step.node].step = step.k;
      for (const part of step.sent) {
        const arrivals = this.nodes[part.producer].arrivals;
        part.rank = arrivals.length; // from the second on it is added to what is there
        arrivals.push({ k: step.k, part });
      }
    }
    this.nodes.forEach((node, at) => {
      const users = graph.nodes[at].still ? [] : outgoing[at]; // nothing is sent to it
      node.due = users.map((edge) => this.nodes[edge[2]].step).filter((k) => k >= 0);
      node.due.sort((a, b) => a - b);
    });
  }

  // Bytes alive after n steps: arrays saved for backward, cotangents on their way, finished .grad.
  setMemory() {
    const none = () => new Float64Array(this.steps.length + 2);
    const change = { saved: none(), moving: none(), grads: none() };
    const add = (kind, bytes, from, till) => {
      change[kind][from] += bytes;
      if (till >= 0) change[kind][till + 1] -= bytes;
    };
    for (const { bytes, till } of this.buffers()) add("saved", bytes, 0, till);
    graph.nodes.forEach((node, at) => {
      const { step, arrivals } = this.nodes[at], kind = node.kind === "op" ? "moving" : "grads";
      const first = new Map(), from = node.root ? 0 : -1;
      for (const { k, part } of arrivals)
        if (!first.has(part.output)) first.set(part.output, [k + 1, part.bytes]);
      if (from === 0 && !first.size && step >= 0) first.set(0, [0, node.bytes[0]]);
      if (node.before) add("grads", node.bytes[0], 0, -1);
      for (const [k, bytes] of first.values())
        if (kind === "moving" || !node.before) add(kind, bytes, k, kind === "moving" ? step : -1);
    });
    this.memory = {};
    for (const [kind, steps] of Object.entries(change)) {
      let sum = 0;
      this.memory[kind] = steps.map((value) => (sum += value));
    }
    const { saved, moving, grads } = this.memory;
    this.live = saved.map((bytes, n) => bytes + moving[n] + grads[n]);
    this.peak = this.live.slice(0, this.steps.length + 1).reduce((a, b) => Math.max(a, b), 0);
  }

  // Each stretch of memory that nodes keep, once, with the step that lets it go (-1: none does).
  // What a leaf shows is the user's own memory and is not counted.
  buffers() {
    const leaves = new Set(graph.nodes.map((node) => node.buffer)), found = new Map();
    this.held = graph.nodes.map(() => 0); // by each node, though another may hold it too
    graph.nodes.forEach((node, at) => (node.holds || []).forEach(([bytes, buffer], k) => {
      if (buffer !== null && leaves.has(buffer)) return;
      const key = buffer === null ? `${at}:${k}` : buffer, last = found.get(key);
      const step = graph.released ? this.nodes[at].step : -1;
      const kept = step < 0 || (last && last.till < 0);
      this.held[at] += bytes;
      found.set(key, { bytes: Math.max(bytes, last ? last.bytes : 0),
        till: kept ? -1 : Math.max(step, last ? last.till : step) });
    }));
    return found.values();
  }

  // -- positions --------------------------------------------------------------------------------

  length(axis) {
    return axis === "time" ? this.elapsed : this.steps.length;
  }

  // How many steps are finished at a position.
  finished(axis, at) {
    if (axis === "node") return Math.min(this.steps.length, Math.floor(at + 1e-9));
    return lowerBound(this.steps, at * (1 + 1e-12) + 1e-9, (step) => step.till);
  }

  // The position at which n steps are finished.
  after(axis, n) {
    if (axis === "node" || !this.steps.length) return n;
    return n === 0 ? 0 : this.steps[Math.min(n, this.steps.length) - 1].till;
  }

  // [step, how far between 0 and 1] of what runs at a position.
  running(axis, at) {
    const n = this.finished(axis, at);
    if (axis === "node") return n < this.steps.length && at > n ? [[this.steps[n], at - n]] : [];
    const found = [];
    for (const lane of this.byLane) {
      const step = lane[lowerBound(lane, at, (one) => one.from) - 1];
      if (step && step.k >= n && at > step.from)
        found.push([step, (at - step.from) / Math.max(1, step.till - step.from)]);
    }
    return found;
  }

  // -- what is known of a node after n steps ----------------------------------------------------

  pending(at, n) {
    const { due } = this.nodes[at];
    return due.length - lowerBound(due, n);
  }

  arrived(at, n) {
    return lowerBound(this.nodes[at].arrivals, n, (arrival) => arrival.k);
  }

  // The step of a node; a rule that is drawn beside the forward runs with its node there.
  stepOf(at) {
    return this.nodes[graph.nodes[at].twin ?? at].step;
  }

  done(at, n) {
    const step = this.stepOf(at);
    return step >= 0 && step < n;
  }

  // Whether a cotangent stands whole at a node: the seed at a root, else all contributions.
  whole(at, n) {
    if (this.pending(at, n)) return false;
    return graph.nodes[at].root ? this.nodes[at].step >= 0 : this.arrived(at, n) > 0;
  }

  // {values, norm, bad} of the gradient that stands at a node; null before the first arrival.
  gradient(at, n) {
    const node = graph.nodes[at], { step, arrivals } = this.nodes[at], count = this.arrived(at, n);
    const [norm, bad, values] = node.before || [null, null, null];
    if (!count && !node.root) return node.before ? { norm, bad, values } : null;
    if (this.whole(at, n)) {
      if (node.grad) return { norm: node.grad[0], bad: node.grad[1], values: node.grad[2] };
      if (step >= 0) return { ...this.steps[step], part: false };
    }
    return this.sum(arrivals.slice(0, count).map((arrival) => arrival.part), values);
  }

  // The sum of contributions: in numbers where all of them are known, the norm where there is one.
  sum(parts, start) {
    const bad = parts.map((part) => part.bad).find(Boolean) || null;
    const known = parts.length > 0 && parts.every((part) => part.values);
    const values = !known ? null : parts.reduce((sum, part) =>
      part.values.map((value, k) => Number(value) + (sum ? Number(sum[k]) : 0)), start);
    return { values, bad, norm: parts.length === 1 && !start ? parts[0].norm : null };
  }
}
