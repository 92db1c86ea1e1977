"use strict";
// The program's lines with their time and bytes.

const NEAR = 3; // lines shown around a measured one

class Source {
  constructor(files) {
    this.files = files;
    this.file = 0;
    this.all = false;
    this.most = Math.max(1, ...files.flatMap((file) => Object.values(file.hot).map((hot) => hot[0] + hot[1])));
  }

  start() {
    if (!this.files.length) { $("source").hidden = true; return; }
    $("file").replaceChildren(...this.files.map((file, at) => element("option", { value: at }, file.file)));
    $("file").addEventListener("change", () => { this.file = Number($("file").value); this.draw(); });
    $("all-lines").addEventListener("click", () => {
      this.all = !this.all;
      $("all-lines").setAttribute("aria-pressed", String(this.all));
      this.draw();
    });
    this.draw();
  }

  show(place) {
    const at = place.lastIndexOf(":");
    const found = this.files.findIndex((file) => file.file === place.slice(0, at));
    if (found < 0) return;
    this.file = found;
    $("file").value = String(found);
    this.draw();
    const line = $("code").querySelector(`[data-line="${place.slice(at + 1)}"]`);
    if (!line) return;
    $("code").querySelectorAll(".shown").forEach((other) => other.classList.remove("shown"));
    line.classList.add("shown");
    line.scrollIntoView({ block: "center" });
    $("code").focus({ preventScroll: true });
  }

  draw() {
    const file = this.files[this.file];
    $("file-note").textContent = file.note;
    $("all-lines").hidden = !file.lines.length;
    const head = element("div", { class: "line head" }, ...["line", "forward", "backward", "made",
      "kept"].map((title) => element("span", {}, title)), element("code", {}, ""));
    const rows = [head];
    let before = null;
    for (const number of this.numbers(file)) {
      if (before !== null && number > before + 1) rows.push(element("div", { class: "gap" }, "⋯"));
      rows.push(this.line(file, number));
      before = number;
    }
    $("code").replaceChildren(...rows);
  }

  numbers(file) {
    const hot = Object.keys(file.hot).map(Number).sort((a, b) => a - b);
    if (!file.lines.length) return hot;
    const { first } = file;
    const last = first + file.lines.length - 1;
    if (this.all) return file.lines.map((_, at) => first + at);
    const shown = new Set();
    for (const line of hot)
      for (let at = line - NEAR; at <= line + NEAR; at++) if (at >= first && at <= last) shown.add(at);
    return [...shown].sort((a, b) => a - b);
  }

  line(file, number) {
    const hot = file.hot[number];
    const [forward, backward, engine, calls, made, flops, kept] = hot || [0, 0, 0, 0, 0, 0, 0];
    const heat = Math.round(70 * Math.sqrt((forward + backward) / this.most));
    const title = hot ? `${grouped(calls)} calls, ${rate(flops)}FLOP`
      + (engine ? `, engine ${duration(engine)}` : "") : null;
    return element("div", { class: "line", "data-line": number, title,
      style: heat ? `--heat: ${heat}%` : null },
    element("span", {}, String(number)), element("span", {}, forward ? duration(forward) : ""),
    element("span", {}, backward ? duration(backward) : ""),
    element("span", {}, made ? bytes(made) : ""), element("span", {}, kept ? bytes(kept) : ""),
    element("code", {}, file.lines.length ? file.lines[number - file.first] ?? "" : ""));
  }
}
