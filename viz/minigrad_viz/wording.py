"""How sizes, shapes and places read in a picture."""

from __future__ import annotations

import math
import os.path
import unicodedata
from collections.abc import Sequence

from minigrad_viz.escape import shown
from minigrad_viz.graph import Array, Graph, Node

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def byte_text(count: int) -> str:
    """2560 -> '2.5 KiB' (binary units, as in the profiler)."""
    value = float(count)
    for unit in _UNITS:
        if value < 999.5 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"


def shape_text(shape: tuple[int, ...]) -> str:
    """(64, 10) -> '64×10'; () -> 'scalar'."""
    if len(shape) > 8:
        return "×".join(map(str, shape[:7])) + "×…"
    return "×".join(map(str, shape)) if shape else "scalar"


def array_text(array: Array) -> str:
    """'64×10 float32'."""
    return f"{shown(shape_text(array.shape), 32)} {shown(array.dtype, 12)}".strip()


def site_text(node: Node) -> str:
    """'train.py:42', or nothing where the site was not recorded."""
    if node.site is None:
        return ""
    return f"{shown(os.path.basename(node.site.file), 28, 'tail')}:{node.site.line}"


def untracked_text(node: Node) -> str:
    """Of an input that no gradient flows to: 'no gradient', 'from getitem, no gradient'."""
    return f"from {shown(node.source, 24)}, no gradient" if node.source else "no gradient"


def count_text(count: int, thing: str) -> str:
    """1 -> '1 node'; 2000 -> '2,000 nodes'."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines whose cells stand below each other, each column as wide as it needs."""
    widths = [max(map(_cells, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(_filled, row, widths)).rstrip() for row in rows]


def _filled(text: str, width: int) -> str:
    return text + " " * (width - _cells(text))


def _cells(text: str) -> int:
    """Columns of a terminal: two for wide signs, none for marks above another."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) != 0 for char in text)


def nanoseconds_text(duration: int) -> str:
    """1_500_000 -> '1.5 ms'."""
    for limit, unit in ((1_000, "ns"), (1_000_000, "µs"), (1_000_000_000, "ms")):
        if duration < limit:
            return f"{duration / (limit // 1_000):.3g} {unit}"
    return f"{duration / 1e9:.3g} s"


def number_text(value: float | str) -> str:
    """3.14159 -> '3.142', -0.00001 -> '−1.00e−5'; words such as 'nan' stay."""
    if isinstance(value, str) or not math.isfinite(value):
        return str(value).replace("-", "−")
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e5:
        rounded = float(f"{value:.4g}")  # 8.064e+04, as Python writes it
        return f"{rounded:.6g}".replace("-", "−")
    mantissa, _, power = f"{value:.2e}".partition("e")
    return f"{mantissa}e{int(power)}".replace("-", "−")


def values_text(values: Sequence[float | str], most: int = 4) -> str:
    """(2.0,) -> '2'; (1, 2, 3) -> '[1, 2, 3]'."""
    if len(values) == 1:
        return number_text(values[0])
    words = ", ".join(map(number_text, values[:most]))
    return f"[{words}{', …' if len(values) > most else ''}]"


def count_of(value: float) -> str:
    """1_500_000 -> '1.5 M', to stand before a unit."""
    for limit, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {sign}"
    return f"{value:.3g} "


def no_steps_text(graph: Graph) -> str:
    """Why there are no steps of a backward to show, and what to do."""
    if graph.backward is not None:  # of a loss that is itself a leaf
        return "the recorded backward ran no op: there is nothing to show of it"
    return (
        "the dump holds no recorded backward; record one with `with mg.record_backward() as rec: "
        "loss.backward()`, or MINIGRAD_GRAPH_OUT=graph.json"
    )


_KIND_WORDS = {"op": "op", "parameter": "parameter", "leaf": "input"}


def census_text(counts: dict[str, int], separator: str = ", ") -> str:
    """{"op": 2, "leaf": 1, ...} -> '2 ops, 1 input'; kinds that are not there are left out."""
    words = (count_text(count, _KIND_WORDS[kind]) for kind, count in counts.items() if count)
    return separator.join(words)
