"use strict";
// The first picture: as many groups open as can be read at the page's size, by measured sizes.

const DETAIL = LEAST / TEXT.label; // zoom from which every word is read
const TITLES = LEAST / TEXT.title; // zoom from which titles are
const EDGE = { x: 16, y: 6 }; // pixels around a fitted picture
const FEW = 5; // boxes that say too little: their titles alone, opened, say more
const WRAPS = [1, 0.6, 0.4]; // of the page that a level inside may fill
const LEAST_AREA = 10000; // of a box with the room around it

// The stage in units of the graph, at a zoom: the least that shows every word, or every title.
function pageSpace(zoom = DETAIL) {
  const { clientWidth: w, clientHeight: h } = stage;
  return w && { width: (w - 2 * EDGE.x) / zoom, height: (h - 2 * EDGE.y) / zoom };
}

function zoomToFit({ width, height }) {
  const { clientWidth: w, clientHeight: h } = stage;
  return Math.min(1.25, (w - 2 * EDGE.x) / width, (h - 2 * EDGE.y) / height);
}

// What is folded, and how tightly levels wrap: levels open, one by one, as long as all can be read,
// then only what holds most of the graph.
function readableFolding(room) {
  // While stepping each op of a line is seen, and so is the gradient of each of a few leaves.
  const plays = ({ soft, kind, members }) => soft && (kind === "line"
    || (members.length <= FEW && members.some((at) => !graph.nodes[at].still)));
  const closed = new Set(groupNames((group) => !room || !plays(group)));
  let best = { closed, inner: 1, zoom: DETAIL };
  if (!pageSpace()) return best;
  let scene = buildScene(closed, room, pageSpace());
  const open = (wanted, least) => {
    const page = pageSpace(least);
    if (!wanted.length || !couldFit(scene, wanted, page)) return false;
    const fewer = new Set(best.closed);
    for (const group of wanted) fewer.delete(group.name);
    const tried = WRAPS.map((inner) => [inner, buildScene(fewer, room, { ...page, inner })]);
    let [inner, widest] = tried[0];
    for (const [other, next] of tried)
      if (zoomToFit(next) > 1.1 * zoomToFit(widest)) [inner, widest] = [other, next];
    if (zoomToFit(widest) < least) return false;
    best = { closed: fewer, inner, zoom: least };
    scene = widest;
    return true;
  };
  const most = (group) => group.members.length > graph.nodes.length / 3;
  const further = (least) => {
    const folded = foldedGroups(scene);
    return [withSoft(folded), folded, folded.filter(most)].some((wanted) => open(wanted, least));
  };
  open(softInside(root), DETAIL);
  const few = () => !room && scene.boxes.length < FEW; // while stepping numbers are read
  while (further(DETAIL) || (few() && further(TITLES)));
  return best;
}

// What stands folded in a scene and may open by itself: a repeat shows one copy, which is enough.
function foldedGroups({ boxes }) {
  return boxes.map((box) => box.group).filter((group) => group && group.kind !== "repeat");
}

// The soft groups that show as soon as a group is open.
function softInside(outer) {
  return groups.filter((group) => group.soft && group.parent === outer);
}

const softIn = (name) => groups.filter((group) => group.soft && group.parent.name === name);

function withSoft(wanted) {
  return [...new Set([...wanted, ...wanted.flatMap(softInside)])];
}

function couldFit({ boxes }, opened, { width, height }) {
  const more = opened.reduce((sum, group) => sum + childCount(group), 0);
  return (boxes.length + more) * LEAST_AREA < width * height;
}

function childCount(group) {
  const direct = group.members.filter((at) => homes[at] === group).length;
  return direct + groups.filter((one) => one.parent === group).length;
}
