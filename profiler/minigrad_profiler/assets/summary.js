"use strict";
// The top of the page: figures, the shares of the time, findings, facts about the log.

function startSummary() {
  const { summary } = report;
  $("title").textContent = report.title;
  const lost = summary.dropped ? `, ${grouped(summary.dropped)} dropped` : "";
  const sum = (column) => {
    const at = report.columns.indexOf(column);
    return report.tables.op.rows.reduce((total, row) => total + row[at], 0);
  };
  const own = summary.recording;
  const facts = [
    ["recorded", duration(summary.wall), `${grouped(summary.events)} events${lost}`],
    ["in ops and engine", duration(sum("self")),
      summary.threads > 1 ? `on ${summary.threads} threads` : "on one thread"],
    ["arithmetic", `${rate(sum("flops"))}FLOP`, `${bytes(sum("moved"))} read and written at least`],
    ["peak memory", summary.peak === null ? "not recorded" : bytes(summary.peak),
      summary.peak === null ? "record with --memory" : "of arrays that ops see"],
    ["the profiler itself", own === null ? "not known" : duration(own),
      own === null ? "" : `${(100 * own / summary.run).toFixed(1)} %, in no other row`],
  ];
  $("facts").replaceChildren(...facts.map(([name, value, note]) => element("div", { class: "fact" },
    element("span", {}, name), element("b", {}, value), element("small", {}, note))));
  if (summary.cut) {
    $("warning").textContent = `${summary.cut}. The report covers the part before.`;
    $("warning").hidden = false;
  }
  $("parts").replaceChildren(
    element("div", { class: "stack", role: "img",
      "aria-label": summary.parts.map(([name, , part]) => `${name} ${part} %`).join(", ") },
    ...summary.parts.map(([, , part, kind]) =>
      element("i", { class: kind, style: `flex-grow: ${part}` }))),
    element("div", { class: "legend" }, ...summary.parts.map(([name, time, part, kind]) =>
      element("span", {}, element("i", { class: kind }),
        `${name} ${part.toFixed(1)} % · ${duration(time)}`)),
    summary.threads > 1 ? element("span", {}, "(of the main thread)") : ""));
  about(summary);
  const findings = report.advice;
  $("findings").replaceChildren(...findings.map(finding));
  if (!findings.length) $("findings").replaceWith(element("p", {}, "Nothing stands out."));
}

function finding(found) {
  return element("li", { "data-kind": found.kind },
    element("b", {}, found.title), found.place ? placeLink(found.place) : null,
    found.code ? element("p", {}, element("code", {}, found.code)) : null,
    element("p", {}, found.evidence), element("p", { class: "quiet" }, found.suggestion));
}

function about(summary) {
  const { options } = summary;
  const rows = [
    ["log", summary.log],
    ["began", summary.began === null ? "not known" : new Date(summary.began / 1e6).toISOString()],
    ...Object.entries(summary.about),
    ["shorter events dropped", options.min_ns ? `below ${duration(options.min_ns)}` : "none"],
    ["frames of callers kept", String(options.stack || 0)],
    ["waited for the device", options.sync ? "after each op" : "no"],
    ...summary.marks.slice(0, 40).map(([what, name, count, time]) =>
      [`${what} ${name}`, `${count === 1 ? "once" : `${grouped(count)} times`}, ${duration(time)}`]),
  ];
  $("about").replaceChildren(...rows.flatMap(([name, value]) =>
    [element("dt", {}, name), element("dd", {}, value)]));
}
