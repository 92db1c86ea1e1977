"""Trees of the report's flame graph: by scope and op, by line, and by the callers if the log has
them."""

from collections.abc import Iterable
from typing import Any

from .report_log import Call, Measured, inert

MOST_NODES = 4_000
MOST_DEPTH = 60
_LEAST = 1 / 4000  # of the whole: narrower parts are merged


class _Node:
    __slots__ = ("forward", "backward", "calls", "parts")

    def __init__(self) -> None:
        self.forward = self.backward = self.calls = 0
        self.parts: dict[str, _Node] = {}

    @property
    def time(self) -> int:
        return self.forward + self.backward


def flames(measured: Measured) -> dict[str, Any]:
    """Nested lists [name, forward ns, backward ns, calls, parts], own times summed upwards."""
    found = {"scope": _tree(measured, _scopes), "line": _tree(measured, _lines)}
    if any(call.stack for call in measured.keys):
        found["stack"] = _tree(measured, _callers)
    return found


def _scopes(call: Call) -> list[str]:
    return [*filter(None, call.scope.split("/")), *_op(call)]


def _lines(call: Call) -> list[str]:
    return [f"{call.function}  {call.place}", *_op(call)]


def _callers(call: Call) -> list[str]:
    frames = call.stack or ((call.place, call.function),)
    return [*(f"{function}  {place}" for place, function in reversed(frames)), *_op(call)]


def _op(call: Call) -> list[str]:
    return ["(engine)"] if call.kind == "pass" else [call.op]


def _tree(measured: Measured, path_of: Any) -> list[Any]:
    root = _Node()
    for call, sums in measured.by_key():
        for node in _along(root, path_of(call)[-MOST_DEPTH:]):
            node.calls += sums.calls
            if call.kind == "forward":
                node.forward += sums.self_ns
            else:
                node.backward += sums.self_ns
    least = root.time * _LEAST
    while True:
        made = _listed("all", root, least, [0])
        if made is not None:
            return made
        least = 2 * least + 1


def _along(root: _Node, path: Iterable[str]) -> list[_Node]:
    nodes = [root]
    for name in path:
        nodes.append(nodes[-1].parts.setdefault(name, _Node()))
    return nodes


def _listed(name: str, node: _Node, least: float, count: list[int]) -> list[Any] | None:
    """The node as a list, with parts shorter than `least` merged; None: too many nodes."""
    count[0] += 1
    if count[0] > MOST_NODES:
        return None
    ordered = sorted(node.parts.items(), key=lambda part: -part[1].time)
    parts, small = [], _Node()
    for rank, (inner, part) in enumerate(ordered):
        if part.time < least or rank >= 500:
            small.forward += part.forward
            small.backward += part.backward
            small.calls += part.calls
            small.parts[inner] = part
            continue
        made = _listed(inner, part, least, count)
        if made is None:
            return None
        parts.append(made)
    if small.parts:
        more = f"({len(small.parts):,} narrower)"
        parts.append([more, small.forward, small.backward, small.calls, []])
    return [inert(name, 100), node.forward, node.backward, node.calls, parts]
