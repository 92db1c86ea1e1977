"use strict";
// Tables that sort and search, and the main one: by op, shape, line, scope, thread.

const FIRST_ROWS = 20;

// columns: [{title, left, value(row), text(row), cell(row)}]; the first column is searched.
class Grid {
  constructor(host, columns, rows, sorted, label) {
    this.host = host;
    this.columns = columns;
    this.rows = rows;
    this.order = { column: sorted, down: true };
    this.words = "";
    this.all = false;
    this.label = label;
    this.draw();
  }

  get matching() {
    const words = this.words.toLowerCase().split(/\s+/).filter(Boolean);
    const { value } = this.columns[0];
    return this.rows.filter((row) => {
      const name = String(value(row)).toLowerCase();
      return words.every((word) => name.includes(word));
    });
  }

  sortBy(column) {
    const down = this.order.column === column ? !this.order.down : !this.columns[column].left;
    this.order = { column, down };
    this.draw();
    this.host.querySelectorAll("th button")[column].focus();
  }

  draw() {
    const { column, down } = this.order;
    const { value } = this.columns[column];
    const found = this.matching.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      const order = typeof x === "string" ? x.localeCompare(y) : x - y;
      return down ? -order : order;
    });
    const shown = this.all ? found : found.slice(0, FIRST_ROWS);
    const head = this.columns.map((c, at) => element("th", {
      scope: "col", class: c.left ? "left" : null,
      "aria-sort": at === column ? (down ? "descending" : "ascending") : null,
    }, element("button", { onclick: () => this.sortBy(at) }, c.title)));
    const body = shown.map((row) => element("tr", {}, ...this.columns.map((c) =>
      element("td", { class: c.left ? "left" : null }, c.cell ? c.cell(row) : c.text(row)))));
    this.host.replaceChildren(element("div", { class: "scroll", tabindex: "0", role: "region",
      "aria-label": this.label },
    element("table", {}, element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...body))));
    const rest = found.length - shown.length;
    if (rest > 0) this.host.append(element("button", { class: "more",
      onclick: () => { this.all = true; this.draw(); } }, `Show ${grouped(rest)} more`));
    if (!found.length) this.host.append(element("p", { class: "quiet" }, 
      this.words.trim() ? "No row has these words." : "Nothing was recorded."));
  }
}

const BADGES = { compute: "compute", memory: "memory", overhead: "overhead" };

function badge(bound, arrow) {
  if (!BADGES[bound]) return null;
  return element("span", { class: `badge ${bound}`, title: `${arrow === "→" ? "forward" : "backward"
  }: ${bound} bound` }, `${arrow} ${BADGES[bound]}`);
}

function startTable() {
  const names = ["op", "shape", "line", "scope", "thread"];
  const at = Object.fromEntries(report.columns.map((name, i) => [name, i]));
  const time = (name) => ({
    title: name, value: (row) => row[at[name]],
    text: (row) => row[at[name]] ? duration(row[at[name]]) : "",
  });
  const amount = (name, title, text) => ({
    title, value: (row) => row[at[name]], text: (row) => row[at[name]] ? text(row[at[name]]) : "",
  });
  const columns = (by) => [
    { title: by, left: true, value: (row) => row[0], cell: (row) => nameCell(row, at) },
    amount("calls", "calls", grouped),
    time("self"), time("forward"), time("backward"), time("total"),
    amount("share", "share", (x) => `${x.toFixed(1)} %`),
    amount("bytes", "output", bytes),
    amount("flops", "FLOP", (x) => rate(x).trim()),
    amount("moved", "moved", bytes),
    { title: "bound", left: true, value: (row) => row[at.bound_forward] + row[at.bound_backward],
      cell: (row) => element("span", { class: "badges" }, badge(row[at.bound_forward], "→"),
        badge(row[at.bound_backward], "←")) },
  ];
  let grid = null;
  const show = (by) => {
    grid = new Grid($("table"), columns(by), report.tables[by].rows, 2, `Table by ${by}`);
    grid.words = $("search").value;
    search();
  };
  const search = () => {
    if (grid.words !== $("search").value) { grid.words = $("search").value; grid.all = false; }
    grid.draw();
    $("found").textContent = grid.words ? `${grouped(grid.matching.length)} found` : "";
  };
  choices($("by"), names.map((name) => [name, name]), "op", show);
  $("search").addEventListener("input", search);
  show("op");
}

function nameCell(row, at) {
  const bar = element("i", { class: "share", style: `width: ${row[at.share]}%` });
  const place = row[at.place];
  const name = place ? placeLink(place, row[0]) : element("span", {}, row[0]);
  return element("span", { class: "name" }, bar, name);
}
