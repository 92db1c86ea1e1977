"use strict";
// The scale of the colours on the stage: which values they mean, with units.

const SCALE_WORDS = {
  time: ["time of backward", timeText], bytes: ["bytes of results", byteText],
  saved: ["bytes saved for backward", byteText], norm: ["norm of the cotangent", numberText],
  flops: ["work, forward and backward", workText], slack: ["slack of backward", timeText],
};
const DECADES = 3; // of a logarithmic scale, as in heat.py

// Fills the bar below the stage; whether it has appeared or gone.
function showScale(scene, by) {
  const place = document.getElementById("scale"), before = place.hidden;
  place.hidden = !by || (by === "scope" && !hues.size);
  if (by) place.replaceChildren(...(by === "scope" ? scopeColours() : ramp(by, scene.most)));
  return place.hidden !== before;
}

function ramp(by, most) {
  const [words, text] = SCALE_WORDS[by];
  if (!most) return [tag("b", words), tag("span", "nothing was recorded")];
  const [least, greatest] = by === "slack" ? [text(most), "none: critical"]
    : [`${text(rounded(most / 10 ** DECADES, by))} or less`, text(most)];
  return [tag("b", words), tag("span", least), tag("span", "", "ramp"), tag("span", greatest),
    tag("span", by === "slack" ? "linear" : "logarithmic")];
}

// Bytes and operations are whole numbers.
function rounded(value, by) {
  return by === "norm" ? value : Math.max(1, Math.round(value));
}

function scopeColours() {
  const items = [...hues].slice(0, 16).map(([scope, hue]) => {
    const item = tag("span"), swatch = tag("span", "", "swatch");
    swatch.style.background = `color-mix(in srgb, var(--w${hue % 8}) 45%, var(--op))`;
    swatch.style.borderColor = `var(--w${hue % 8})`;
    item.append(swatch, shorten(scope.split("/").pop(), 24));
    return item;
  });
  const more = hues.size > 16 ? [tag("span", `and ${hues.size - 16} more`)] : [];
  return [tag("b", "scope"), ...items, ...more];
}
