"use strict";
// The way of a gradient along a link: from the consumer's upper edge down the drawn line to the
// producer, by length.

const PIECES = 10; // straight pieces to a curve

function bend([ax, ay], [bx, by], t) {
  const middle = (ay + by) / 2, s = 1 - t;
  const c0 = s * s * s, c1 = 3 * s * s * t, c2 = 3 * s * t * t, c3 = t * t * t;
  return [(c0 + c1) * ax + (c2 + c3) * bx, c0 * ay + (c1 + c2) * middle + c3 * by];
}

// {points, lengths}: the route from consumer to producer, with the length up to each point.
function wayBack(link) {
  if (link.way) return link.way;
  const route = link.whole, points = [route[0]];
  for (let k = 1; k < route.length; k++) {
    const straight = Math.abs(route[k][0] - route[k - 1][0]) < 0.05, pieces = straight ? 1 : PIECES;
    for (let i = 1; i <= pieces; i++) points.push(bend(route[k - 1], route[k], i / pieces));
  }
  points.reverse();
  const lengths = [0];
  for (let k = 1; k < points.length; k++) {
    const [ax, ay] = points[k - 1], [bx, by] = points[k];
    lengths.push(lengths[k - 1] + Math.hypot(bx - ax, by - ay));
  }
  return (link.way = { points, lengths });
}

// The point at a share u of the way.
function alongWay({ points, lengths }, u) {
  const wanted = Math.min(1, Math.max(0, u)) * lengths[lengths.length - 1];
  const k = Math.max(1, Math.min(points.length - 1, lowerBound(lengths, wanted)));
  const span = lengths[k] - lengths[k - 1] || 1, share = (wanted - lengths[k - 1]) / span;
  const [ax, ay] = points[k - 1], [bx, by] = points[k];
  return [ax + (bx - ax) * share, ay + (by - ay) * share];
}

// The points of the way between the shares `from` and `till`.
function partOfWay(way, from, till) {
  const { points, lengths } = way, all = lengths[lengths.length - 1];
  const low = from * all, high = till * all;
  const inside = points.filter((_, k) => lengths[k] > low && lengths[k] < high);
  return [alongWay(way, from), ...inside, alongWay(way, till)];
}
