"""Graph dumps: what a forward left behind, in the `minigrad.graph` format, for the viewer.

    mg.dump_graph(loss, "graph.json")              before backward
    with mg.record_backward() as rec:              with the backward's steps
        loss.backward()
    rec.save("graph.json")

and MINIGRAD_GRAPH_OUT=graph.json for every backward of an unchanged program.
"""

import math
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..backends.device import array_module, device_of
from ..core import events
from ..core.graph import Leaf, Port, reachable
from ..core.tensor import Tensor, raw
from . import formats
from .formats import cotangents_of

_LONGEST_TEXT = 200  # of a parameter's repr


def graph_dict(tensors: Tensor | Sequence[Tensor]) -> dict[str, Any]:
    """The graph behind one or several tensors, as the document that a dump holds."""
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for root in roots:
        if not isinstance(root, Tensor) or root.node is None:
            raise ValueError(
                "graph_dict: there is no graph behind a value that requires no gradient; make "
                "the inputs with requires_grad=True, and call it before leaving the forward"
            )
    document = _document(reachable([root.node for root in roots]), [root.node for root in roots])
    document["device"] = roots[0].device if roots else "cpu"
    return document


def dump_graph(tensors: Tensor | Sequence[Tensor], path: str | os.PathLike) -> None:
    """Write the graph behind one or several tensors to a file, whole or not at all."""
    formats.write_whole(os.fspath(path), formats.json_text(graph_dict(tensors)))


def _document(order: Iterable, roots: Iterable) -> dict[str, Any]:
    """The document for these nodes, leaves and ports; ports fold into (producer, output)."""
    nodes, edges = [], []
    for node in order:
        if node.__class__ is Leaf:
            nodes.append(_leaf_record(node))
        elif node.__class__ is not Port:
            nodes.append(_node_record(node))
            for slot, parent in zip(_slots(node), node.parents, strict=True):
                producer, output = _source(parent)
                edges.append(
                    {"producer": producer, "output": output, "consumer": node.number, "slot": slot}
                )
    nodes.sort(key=lambda record: record["id"])
    return {
        **formats.header(formats.GRAPH),
        "nodes": nodes,
        "edges": edges,
        "roots": list(dict.fromkeys(_source(root)[0] for root in roots)),
        "backward": None,
    }


def _source(place: Any) -> tuple[int, int]:
    """(id of the producer, which of its outputs) of what an edge starts from."""
    if place.__class__ is Port:
        return place.parents[0].number, place.index
    return place.number, 0


def _slots(node: Any) -> list[int]:
    """Which argument each parent was; their order, where a backward has freed that knowledge."""
    if node.op.variadic and node.saved is None:
        return list(range(len(node.parents)))
    return node.plan.slots_of(node)


# -- one node --------------------------------------------------------------------------------------


def _array_record(shape: tuple, dtype: Any) -> dict[str, Any]:
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return {"shape": [int(n) for n in shape], "dtype": str(dtype), "bytes": size}


def _leaf_record(leaf: Leaf) -> dict[str, Any]:
    tensor = leaf.tensor()
    name = getattr(tensor, "name", None)
    return {
        "id": leaf.number,
        "kind": "parameter" if getattr(tensor, "is_parameter", False) else "leaf",
        "op": None,
        "seq": leaf.number,
        **_array_record(leaf.shape, leaf.dtype),
        "device": "cpu" if tensor is None else tensor.device,
        "scope": "",
        "site": None,
        "name": name if isinstance(name, str) else None,
        "saved": [],
        "params": {},
        "formula": "",
    }


def _node_record(node: Any) -> dict[str, Any]:
    several = isinstance(node.dtype, tuple)
    outputs = list(zip(node.shape, node.dtype)) if several else [(node.shape, node.dtype)]
    saved, params, device = _saved(node)
    record = {
        "id": node.number,
        "kind": "op",
        "op": node.op.name,
        "seq": node.number,
        **_array_record(*outputs[0]),
        "device": device,
        "scope": node.origin[2] if node.origin else "",
        "site": events.site_of(node.origin),
        "name": None,
        "saved": saved,
        "params": params,
        "formula": (node.op.__doc__ or "").strip().partition("\n")[0],
    }
    if several:
        record["outputs"] = [_array_record(*output) for output in outputs]
    return record


def _saved(node: Any) -> tuple[list[dict], dict[str, str], str]:
    """The arrays that a node keeps for its rules, its static parameters, and where it lives."""
    saved, params, device = [], {}, "cpu"
    for name, value in zip(node.plan.names, node.saved or (), strict=False):
        several = isinstance(value, tuple | list) and any(map(_is_array, value))
        parts = enumerate(value) if several else [(None, value)]
        for index, part in parts:
            if _is_array(part):
                label = name if index is None else f"{name}[{index}]"
                saved.append({"name": label, **_array_record(part.shape, part.dtype)})
                device = device_of(raw(part))
        if not several and name in node.op.defaults and not _is_array(value):
            params[name] = _text(value)
    return saved, params, device


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _text(value: Any) -> str:
    """repr, cut short; a value whose repr fails is named by its type."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"


# -- a recorded backward ---------------------------------------------------------------------------


class _Pass:
    """One backward while it runs: its graph, and the steps so far."""

    def __init__(self, order: list, roots: list):
        self.document = _document(order, roots)
        self.numbers = {record["id"] for record in self.document["nodes"]}
        self.thread = threading.get_ident()
        self.steps: list[dict[str, Any]] = []
        self.workers: dict[int, int] = {}

    def finished(self) -> dict[str, Any]:
        self.document["backward"] = {
            "engine": "serial" if len(self.workers) < 2 else "parallel",
            "workers": max(1, len(self.workers)),
            "steps": self.steps,
        }
        return self.document


class record_backward:
    """Record the graph and the steps of every backward while entered; `graph` is the latest.

    Reading the cotangents' norms costs about a pass over each: this is for looking, not for timing.
    """

    def __init__(self) -> None:
        self.graph: dict[str, Any] | None = None
        self._passes: list[_Pass] = []
        self._lock = threading.Lock()

    def __enter__(self) -> "record_backward":
        events.listen(self, origin=True)
        return self

    def __exit__(self, *exc: object) -> None:
        events.unlisten(self)

    def save(self, path: str | os.PathLike) -> None:
        """Write the latest recorded backward to a file, whole or not at all."""
        if self.graph is None:
            raise RuntimeError(
                "record_backward: no backward ran inside the with block; call loss.backward() "
                "there, or use mg.dump_graph(loss, path) for the graph alone"
            )
        formats.write_whole(os.fspath(path), formats.json_text(self.graph))

    def done(self, graph: dict[str, Any]) -> None:
        """A backward has ended; subclasses do more with it."""
        self.graph = graph

    def graph_ready(self, order: list, roots: list) -> None:
        started = _Pass(order, roots)
        with self._lock:
            self._passes.append(started)

    def graph_done(self, error: BaseException | None) -> None:
        with self._lock:
            mine = [p for p in self._passes if p.thread == threading.get_ident()]
            if not mine:
                return
            self._passes.remove(mine[-1])
        self.done(mine[-1].finished())

    def hear(self, event: tuple) -> None:
        kind, _, t0, t1, node, inputs, outputs = event
        if kind != "backward":
            return
        norm, nonfinite = _norm(inputs[0])
        with self._lock:
            running = [p for p in self._passes if node.number in p.numbers]
            if not running:
                return
            steps, workers = running[-1].steps, running[-1].workers
            steps.append(
                {
                    "node": node.number,
                    "order": len(steps),
                    "worker": workers.setdefault(threading.get_ident(), len(workers)),
                    "t0": t0,
                    "t1": t1,
                    "contributions": sum(y is not None for y in outputs),
                    "grad_norm": norm,
                    "nonfinite": nonfinite,
                }
            )


def _norm(g: Any) -> tuple[float | None, str | None]:
    """(2-norm, None) of a cotangent, or (None, "nan" or "inf") if it is not finite."""
    square, found_inf = 0.0, False
    for part in cotangents_of(g):
        x = raw(part)
        xp = array_module(x)
        x = xp.asarray(x)
        wide = xp.abs(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)).ravel()
        if bool(xp.isnan(wide).any()):
            return None, "nan"
        found_inf = found_inf or bool(xp.isinf(wide).any())
        square += 0.0 if found_inf else float(xp.dot(wide, wide))
    if found_inf or math.isinf(square):
        return None, "inf" if found_inf else None
    return math.sqrt(square), None
