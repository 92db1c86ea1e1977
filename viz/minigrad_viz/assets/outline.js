"use strict";
// The graph for screen readers: the stage is a tree with one item for each frame and box, in the
// order in which they are read, of which the chosen one is the active element.

const TOLD_AT_MOST = 400; // items of a tree; of a larger graph the chosen one alone

class Outline {
  constructor(root) {
    this.root = root;
  }

  show(scene) {
    this.items = new Map();
    this.root.replaceChildren();
    const few = scene.boxes.length + scene.frames.length <= TOLD_AT_MOST;
    if (few) this.addInside(scene.frames[0], 1);
  }

  addInside(frame, level) {
    const inside = frame.items.filter((item) => !item.stub)
      .sort((one, other) => one.y - other.y || one.x - other.x);
    inside.forEach((item, k) => {
      const row = this.add(item, level, item.items ? "true" : item.group ? "false" : null);
      row.setAttribute("aria-posinset", String(k + 1));
      row.setAttribute("aria-setsize", String(inside.length));
      if (item.items) this.addInside(item, level + 1);
    });
  }

  add(item, level, expanded) {
    const row = tag("div", item.title);
    row.id = `item-${this.items.size}`;
    row.setAttribute("role", "treeitem");
    row.setAttribute("aria-level", String(level));
    row.setAttribute("aria-selected", "false");
    if (expanded !== null) row.setAttribute("aria-expanded", expanded);
    this.items.set(item, row);
    this.root.append(row);
    return row;
  }

  // Makes the item of a box the active one, with words for it; null lets go.
  choose(box, words) {
    if (this.active) this.active.setAttribute("aria-selected", "false");
    this.active = null;
    stage.removeAttribute("aria-activedescendant");
    if (!box) return;
    if (!this.items.has(box)) this.add(box, 1, box.group ? "false" : null);
    this.active = this.items.get(box);
    this.active.textContent = words;
    this.active.setAttribute("aria-selected", "true");
    stage.setAttribute("aria-activedescendant", this.active.id);
  }
}
