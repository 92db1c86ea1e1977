"""Overlays: how hot each box is by time, bytes, gradient norm, FLOPs or slack, and where NaN arose.

By slack the hottest are those without any: making them faster makes the backward faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from minigrad_viz.collapse import Group
from minigrad_viz.critical import critical_path
from minigrad_viz.errors import ViewerError
from minigrad_viz.graph import Graph, Node
from minigrad_viz.wording import (
    byte_text,
    count_of,
    nanoseconds_text,
    no_steps_text,
    number_text,
)

HEATS = ("time", "bytes", "saved", "norm", "flops", "slack")
DECADES = 3.0  # from the hottest down to none


@dataclass(slots=True)
class Heat:
    """For each group its share of the hottest (0 to 1, logarithmic) and its value in words."""

    by: str
    share: list[float | None]
    words: list[str]
    most: str


def heat_of(graph: Graph, groups: list[Group], by: str) -> Heat:
    """The heat of each group; a ViewerError where the dump does not hold it."""
    values = heat_values(graph, by)
    if by == "slack":
        return _by_slack(values, groups)
    sums = [_together([values[at] for at in group.members], by) for group in groups]
    most = max((value for value in sums if value is not None), default=0.0)
    shares = [None if value is None else share_of(value, most) for value in sums]
    words = ["" if value is None else _WORDS[by](value) for value in sums]
    return Heat(by, shares, words, _WORDS[by](most))


def heat_values(graph: Graph, by: str) -> list[float | None]:
    """What `by` tells of each node; a ViewerError where it tells nothing of any."""
    values = _node_values(graph, by)
    if all(value is None for value in values):
        raise ViewerError(f"--heat {by}: {_why_none(graph, by)}")
    return values


def _why_none(graph: Graph, by: str) -> str:
    stepped = graph.backward is not None and graph.backward.steps
    return _WHY[by] if stepped or by not in _FROM_STEPS else no_steps_text(graph)


def _by_slack(values: list[float | None], groups: list[Group]) -> Heat:
    """Of a group the least slack; linear from none (1) to the most there is (0)."""
    known = [[v for at in group.members if (v := values[at]) is not None] for group in groups]
    least = [min(slacks) if slacks else None for slacks in known]
    most = max(value for value in least if value is not None) or 1.0
    shares = [None if value is None else 1 - value / most for value in least]
    words = ["" if value is None else _WORDS["slack"](value) for value in least]
    return Heat("slack", shares, words, "none")


def share_of(value: float, most: float) -> float:
    """1 for the most, 0 for a thousandth of it and less."""
    if value <= 0 or most <= 0:
        return 0.0
    return max(0.0, 1 + math.log10(value / most) / DECADES)


def troubled(graph: Graph) -> set[int]:
    """Nodes whose values, cotangent or .grad held NaN or Inf."""
    steps = graph.backward.steps if graph.backward else []
    found = {at for at, node in enumerate(graph.nodes) if _holds_nan(node)}
    return found | {step.node for step in steps if step.nonfinite is not None}


def _holds_nan(node: Node) -> bool:
    words = any(isinstance(value, str) for value in node.values or ())  # numbers are finite
    return words or node.nonfinite is not None or bool(node.grad and node.grad.nonfinite)


def _node_values(graph: Graph, by: str) -> list[float | None]:
    values: list[float | None] = [None] * len(graph.nodes)
    for at, node in enumerate(graph.nodes):
        if by == "bytes":
            values[at] = sum(array.bytes for array in node.outputs)
        elif by == "saved" and node.saved:
            values[at] = sum(array.bytes for array in node.saved)
        elif by == "flops":
            parts = [part for part in (node.flops, node.backward_flops) if part is not None]
            values[at] = sum(parts) if parts else None
    if by == "slack":
        path = critical_path(graph)
        for at, slack in path.slack.items() if path is not None else ():
            values[at] = slack
    for step in graph.backward.steps if graph.backward else []:
        if by == "time":
            values[step.node] = step.t1 - step.t0
        elif by == "norm":
            values[step.node] = step.grad_norm
        elif by == "flops" and step.flops is not None:
            values[step.node] = (values[step.node] or 0) + step.flops
    return [value if value is not None and math.isfinite(value) else None for value in values]


def _together(values: Iterable[float | None], by: str) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return math.hypot(*known) if by == "norm" else sum(known)


_WORDS: dict[str, Callable[[float], str]] = {
    "time": lambda value: nanoseconds_text(round(value)),
    "bytes": lambda value: byte_text(round(value)),
    "saved": lambda value: f"saves {byte_text(round(value))}",
    "norm": lambda value: f"‖g‖ {number_text(value)}",
    "flops": lambda value: f"{count_of(value)}FLOP",
    "slack": lambda value: f"slack {nanoseconds_text(round(value))}" if value else "no slack",
}
_FROM_STEPS = ("time", "norm", "slack")
_WHY = {
    "norm": "no gradient of the recorded backward has a finite norm",
    "bytes": "the dump holds no nodes",
    "saved": "no node of the dump saves an array",
    "flops": "the dump tells no FLOPs",
}
