"use strict";
// How sizes, times, numbers and names read; the same words as wording.py.

const FONT = '"Inter","Segoe UI",system-ui,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif';
const KIND_WORD = { op: "op", parameter: "parameter", leaf: "input" };
// Sizes of the words in a picture, in pixels at zoom 1; a test holds page.css to them.
const TEXT = { title: 13, line: 11, label: 11, badge: 10, leading: 14 };
const LEAST = 9; // pixels below which words are not read
const pen = document.createElement("canvas").getContext("2d");

function textWidth(text, size, weight) {
  pen.font = `${weight} ${size}px ${FONT}`;
  return pen.measureText(text).width;
}

function byteText(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let value = count, unit = 0;
  while (value >= 999.5 && unit < 5) { value /= 1024; unit += 1; }
  return `${unit ? Number(value.toPrecision(3)) : count} ${units[unit]}`;
}

function timeText(ns) {
  for (const [limit, unit] of [[1e3, "ns"], [1e6, "µs"], [1e9, "ms"]])
    if (ns < limit) return `${Number((ns / (limit / 1e3)).toPrecision(3))} ${unit}`;
  return `${Number((ns / 1e9).toPrecision(3))} s`;
}

function workText(flops) {
  for (const [limit, sign] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (flops >= limit) return `${Number((flops / limit).toPrecision(3))} ${sign}FLOP`;
  return `${flops} FLOP`;
}

function countText(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

// 4 significant digits, a true minus sign.
function numberText(value) {
  if (!Number.isFinite(Number(value))) return String(value).replace("-", "−");
  const size = Math.abs(value);
  const plain = size === 0 || (size >= 1e-3 && size < 1e5);
  const number = Number(value);
  const text = plain ? String(Number(number.toPrecision(4))) : number.toExponential(2);
  return text.replaceAll("-", "−");
}

// [1, 2, 3], [[1, 2], [3, 4]]; a single number stands alone; at most `most` of them.
function valuesText(values, most = 4, shape = []) {
  if (values.length === 1) return numberText(values[0]);
  const columns = shape[1] || 1;
  if (shape.length === 2 && columns > 1 && columns < values.length && values.length <= most) {
    const row = (_, k) => valuesText(values.slice(k * columns, (k + 1) * columns), most);
    return `[${Array.from({ length: shape[0] }, row).join(", ")}]`;
  }
  const shown = values.slice(0, most).map(numberText).join(", ");
  return `[${shown}${values.length > most ? ", …" : ""}]`;
}

function shorten(text, limit) {
  return text.length > limit ? "…" + text.slice(1 - limit) : text;
}

// The beginning of a text, where `shorten` keeps its end.
function clip(text, limit) {
  return text.length > limit ? text.slice(0, limit - 1) + "…" : text;
}
