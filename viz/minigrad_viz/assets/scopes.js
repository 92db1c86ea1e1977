"use strict";
// The list of scopes in the panel: a tree that is as open as the picture, with counts, times and
// bytes. A click or a key folds and opens both.

const SCOPES_SHOWN = 300;
const SUMS = ["nodes", "time", "bytes"];

// The groups that the list shows, in the order of time; a scope of one node is a row too.
function listedGroups(app) {
  const rows = [], visit = (outer) => {
    for (const group of inOrder(outer.inner.values())) {
      if (rows.length >= SCOPES_SHOWN) return;
      if (group.soft && !app.closed.has(group.name)) continue;
      rows.push(group);
      if (!app.closed.has(group.name)) visit(group);
    }
  };
  visit(root);
  return rows;
}

function scopeTree(app) {
  const tree = tag("div", "", "tree"), head = tag("p", "", "sums");
  head.append(tag("b"), cells(SUMS));
  tree.setAttribute("role", "tree");
  tree.setAttribute("aria-label", "Scopes: arrows walk, fold and open");
  const rows = listedGroups(app).map((group) => scopeRow(app, group));
  rows.forEach((row, k) => { row.tabIndex = k ? -1 : 0; });
  tree.append(...rows);
  tree.addEventListener("keydown", (event) => walkTree(app, event));
  const list = tag("div");
  list.append(head, tree);
  return list;
}

function cells(texts) {
  const all = tag("span", "", "cells");
  all.append(...texts.map((text) => tag("span", text)));
  return all;
}

function scopeRow(app, group) {
  const { name, members, depth } = group, single = members.length === 1;
  const folded = app.closed.has(name), sign = single ? "·" : folded ? "▸" : "▾";
  const time = heatOf(group, "time");
  const sums = [members.length.toLocaleString("en"), time === null ? "" : timeText(time),
    byteText(heatOf(group, "bytes"))];
  const row = tag("button", "", "scope");
  row.append(tag("b", `${sign} ${groupTitle(group)}`), cells(sums));
  row.addEventListener("click", () => toggleRow(app, group));
  row.title = `${fullName(group)}: ${[countText(members.length, "node"), ...sums.slice(1)].filter(Boolean)
    .join(", ")}`;
  row.dataset.name = name;
  row.style.paddingLeft = `${6 + 11 * (depth - 1)}px`;
  row.setAttribute("role", "treeitem");
  row.setAttribute("aria-level", String(depth));
  if (!single) row.setAttribute("aria-expanded", String(!folded));
  return row;
}

// The picture follows, and the list is made anew: its row keeps the focus.
function toggleRow(app, group) {
  const { scrollTop } = panel;
  if (group.members.length === 1) return app.reveal(group.members[0]);
  app.toggle(group.name);
  panel.scrollTop = scrollTop;
  const again = [...panel.querySelectorAll(".scope")]
    .find((row) => row.dataset.name === group.name);
  if (again) focusRow(again);
}

function focusRow(row) {
  for (const other of row.parentElement.children) other.tabIndex = other === row ? 0 : -1;
  row.focus();
}

// As trees do: up and down walk, right opens or enters, left folds or leaves.
function walkTree(app, event) {
  const row = event.target.closest(".scope"), rows = [...row.parentElement.children];
  const at = rows.indexOf(row), level = (one) => Number(one.ariaLevel);
  const { ariaExpanded } = row, act = {
    ArrowDown: () => rows[at + 1] && focusRow(rows[at + 1]),
    ArrowUp: () => rows[at - 1] && focusRow(rows[at - 1]),
    Home: () => focusRow(rows[0]),
    End: () => focusRow(rows[rows.length - 1]),
    ArrowRight: () => {
      if (ariaExpanded === "false") row.click();
      else if (ariaExpanded && rows[at + 1]) focusRow(rows[at + 1]);
    },
    ArrowLeft: () => {
      const outer = rows.slice(0, at).reverse().find((one) => level(one) < level(row));
      if (ariaExpanded === "true") row.click();
      else if (outer) focusRow(outer);
    },
  }[event.key];
  if (!act) return;
  event.preventDefault();
  event.stopPropagation();
  act();
}
