"""Graph dumps: what a forward left behind, in the `minigrad.graph` format, for the viewer.

    mg.dump_graph(loss, "graph.json")              before backward
    with mg.record_backward() as rec:              with the backward's steps
        loss.backward()
    rec.save("graph.json")

and MINIGRAD_GRAPH_OUT=graph.json for every backward of an unchanged program.
"""

import importlib
import linecache
import math
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..backends.device import device_of
from ..core import events
from ..core.graph import Leaf, Port, reachable
from ..core.tensor import Tensor, raw
from . import formats
from .graph_work import flops_of
from .notebook import viewer_forms
from .numbers import arrived, norm, owner, small_values

_LONGEST_TEXT = 200  # of a parameter's repr


class _Known:
    """What nodes do not tell: small results' numbers, names given by the user, shared memory."""

    def __init__(self, values: Mapping, names: Mapping[str, Tensor] | None):
        self.values = values  # node -> numbers
        self.names = {tensor.node: name for name, tensor in (names or {}).items()}
        self._buffers: dict[int, int] = {}

    def buffer(self, x: Any) -> int:
        """The number, in this dump, of the memory that an array shows."""
        return self._buffers.setdefault(owner(x), len(self._buffers))


def graph_dict(
    tensors: Tensor | Sequence[Tensor], names: Mapping[str, Tensor] | None = None
) -> dict[str, Any]:
    """The graph behind one or several tensors, as the document that a dump holds.

    names: what to call some of its tensors, as in {"a": a, "b": b}.
    """
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for root in roots:
        if not isinstance(root, Tensor) or root.node is None:
            raise ValueError(
                "graph_dict: there is no graph behind a value that requires no gradient; make "
                "the inputs with requires_grad=True, and call it before leaving the forward"
            )
    places = [root.node for root in roots]
    values = {root.node: small_values(root) for root in roots}
    document = _document(reachable(places), places, _Known(values, names))
    document["device"] = roots[0].device if roots else "cpu"
    return document


def dump_graph(tensors: Tensor | Sequence[Tensor], path: str | os.PathLike) -> None:
    """Write the graph behind one or several tensors to a file, whole or not at all."""
    formats.write_whole(os.fspath(path), formats.json_text(graph_dict(tensors)))


def _document(order: Iterable, roots: Iterable, known: _Known) -> dict[str, Any]:
    """The document for these nodes, leaves and ports; ports fold into (producer, output)."""
    nodes, edges = [], []
    for node in order:
        if node.__class__ is Leaf:
            nodes.append(_leaf_record(node, known))
        elif node.__class__ is not Port:
            slots = _slots(node)
            nodes.append(_node_record(node, slots, known))
            for slot, parent in zip(slots, node.parents, strict=True):
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


def _leaf_record(leaf: Leaf, known: _Known) -> dict[str, Any]:
    tensor = leaf.tensor()
    name = known.names.get(leaf) or getattr(tensor, "name", None)
    record = {
        "id": leaf.number,
        "kind": "parameter" if getattr(tensor, "is_parameter", False) else "leaf",
        "op": None,
        "seq": leaf.number,
        **_array_record(leaf.shape, leaf.dtype),
        "device": "cpu" if tensor is None else tensor.device,
        "scope": "",
        "site": None,
        "name": name if isinstance(name, str) and name else None,
        "saved": [],
        "params": {},
        "formula": "",
    }
    if tensor is not None:
        record["buffer"] = known.buffer(tensor)
        values = small_values(tensor)
        if values is not None:
            record["values"] = values
    return record


def _node_record(node: Any, slots: list[int], known: _Known) -> dict[str, Any]:
    several = isinstance(node.dtype, tuple)
    outputs = list(zip(node.shape, node.dtype)) if several else [(node.shape, node.dtype)]
    saved, params, device = _saved(node, known)
    record = {
        "id": node.number,
        "kind": "op",
        "op": node.op.name,
        "seq": node.number,
        **_array_record(*outputs[0]),
        "device": device,
        "scope": node.origin[2] if node.origin else "",
        "site": _site(node.origin),
        "name": known.names.get(node),
        "saved": saved,
        "params": params,
        "formula": (node.op.__doc__ or "").strip().partition("\n")[0],
    }
    if several:
        record["outputs"] = [_array_record(*output) for output in outputs]
    for key, flops in zip(("flops", "backward_flops"), flops_of(node, slots), strict=True):
        if flops is not None:
            record[key] = flops
    if known.values.get(node) is not None:
        record["values"] = known.values[node]
    return record


def _site(origin: tuple | None) -> dict[str, Any] | None:
    """The user's line that made a node, with its text where the file can still be read."""
    site = events.site_of(origin)
    if site is not None:
        text = linecache.getline(site["file"], site["line"]).strip()
        if text:
            site["text"] = text[:_LONGEST_TEXT]
    return site


def _saved(node: Any, known: _Known) -> tuple[list[dict], dict[str, str], str]:
    """The arrays that a node keeps for its rules, its static parameters, and where it lives."""
    saved, params, device = [], {}, "cpu"
    held = node.saved if type(node.saved) is tuple else ()  # what is packed away stays there
    for name, value in zip(node.plan.names, held, strict=False):
        several = isinstance(value, tuple | list) and any(map(_is_array, value))
        parts = enumerate(value) if several else [(None, value)]
        for index, part in parts:
            if _is_array(part):
                label = name if index is None else f"{name}[{index}]"
                record = _array_record(part.shape, part.dtype)
                saved.append({"name": label, **record, "buffer": known.buffer(part)})
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

    def __init__(self, order: list, roots: list, known: _Known, checks: Any = None):
        self.document = _document(order, roots, known)
        self.records = {record["id"]: record for record in self.document["nodes"]}
        self.inputs: dict[int, list[dict]] = {}  # the edges into a node, in the order of parents
        for edge in self.document["edges"]:
            self.inputs.setdefault(edge["consumer"], []).append(edge)
        for node in order if checks is not None else ():
            if node.__class__ is not Leaf and node.__class__ is not Port:
                self.records[node.number]["check"] = checks.badge(node)
        self.order = order
        self.leaves = [(leaf, _grad_of(leaf)) for leaf in order if leaf.__class__ is Leaf]
        self.thread = threading.get_ident()
        self.steps: list[dict[str, Any]] = []
        self.workers: dict[int, int] = {}

    def sent(self, node: Any, contributions: Sequence) -> list[dict[str, Any]]:
        """What the node gave to each input that received something."""
        found = []
        edges = self.inputs.get(node.number, ())
        for edge, parent, c in zip(edges, node.parents, contributions, strict=False):
            if c is None:
                continue
            c = arrived(c, parent.shape, parent.dtype)
            place = {key: edge[key] for key in ("producer", "output", "slot")}
            size = math.prod(c.shape) * c.dtype.itemsize
            found.append({**place, "shape": list(c.shape), "bytes": size, **_numbers(c)})
        return found

    def finished(self) -> dict[str, Any]:
        for leaf, before in self.leaves:
            after = _grad_of(leaf)
            if after is before or after is None:
                continue  # the pass gave this leaf nothing, or was one of mg.grad
            record = self.records[leaf.number]
            record["grad"] = _numbers(after)
            if before is not None:
                record["grad_before"] = _numbers(before)
        self.document["backward"] = {
            "engine": "serial" if len(self.workers) < 2 else "parallel",
            "workers": max(1, len(self.workers)),
            "steps": self.steps,
            "released": any(node.saved is None for node in self.order),
        }
        return self.document


def _grad_of(leaf: Leaf) -> Any:
    tensor = leaf.tensor()
    return None if tensor is None else tensor.grad


def _numbers(g: Any) -> dict[str, Any]:
    """{"grad_norm", "nonfinite"} of a gradient, and its "values" if they are few."""
    size, nonfinite = norm(g)
    values = small_values(g)
    told = {"grad_norm": size, "nonfinite": nonfinite}
    return told if values is None else {**told, "values": values}


class record_backward:
    """Record the graph and the steps of every backward while entered; `graph` is the latest.

    Reading the norms costs about a pass over each cotangent and contribution: this is for looking,
    not for timing. Each step tells the time it took to look at it. With the forward inside the
    block too, the dump also holds source lines, scopes and the values of small results. `names`
    says what to call some of the tensors; more may be added: rec.names["hidden"] = h.

    check=True compares each node's rule with finite differences, at the values and with the saved
    arrays of its call (minigrad/testing/check_graph.py); `minigrad-viz check` shows the badges.
    """

    def __init__(self, names: Mapping[str, Tensor] | None = None, check: bool = False) -> None:
        # by name, when asked for: the harness stands above the instruments and imports them
        harness = importlib.import_module("minigrad.testing.check_graph") if check else None
        self._checks = harness and harness.NodeChecks()
        self.graph: dict[str, Any] | None = None
        self.names = dict(names or {})
        self._passes: list[_Pass] = []
        self._values: WeakKeyDictionary[Any, list] = WeakKeyDictionary()
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

    def __repr__(self) -> str:
        if self.graph is None:
            return "<record_backward: no backward yet>"
        nodes, run = self.graph["nodes"], self.graph["backward"]
        return f"<record_backward: {len(nodes):,} nodes, {len(run['steps']):,} steps>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """In a notebook: the step-through, with values and gradients in the boxes of scalars."""
        forms = {} if self.graph is None else viewer_forms(self.graph, title="backward", step=True)
        return {**forms, "text/plain": repr(self)}

    def done(self, graph: dict[str, Any]) -> None:
        """A backward has ended; subclasses do more with it."""
        self.graph = graph

    def graph_ready(self, order: list, roots: list) -> None:
        started = _Pass(order, roots, _Known(self._values, self.names), self._checks)
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
        kind, _, t0, t1, node, inputs, outputs, params = event
        if kind == "backward":
            self._hear_step(t0, t1, node, inputs[0], outputs)
        elif node is not None and node.__class__ is not Port:
            if self._checks is not None:
                self._checks.heard(node, inputs, params)
            values = small_values(outputs[0])
            if values is not None:
                self._values[node] = values

    def _hear_step(self, t0: int, t1: int, node: Any, g: Any, contributions: tuple) -> None:
        began = perf_counter_ns()
        with self._lock:
            running = [p for p in self._passes if node.number in p.records]
        if not running:
            return
        size, nonfinite = norm(g)
        step = {
            "node": node.number,
            "t0": t0,
            "t1": t1,
            "contributions": sum(c is not None for c in contributions),
            "grad_norm": size,
            "nonfinite": nonfinite,
            "sent": running[-1].sent(node, contributions),
        }
        values = None if isinstance(g, tuple | list | dict) else small_values(g)
        if values is not None:
            step["values"] = values
        with self._lock:
            steps, workers = running[-1].steps, running[-1].workers
            step["order"] = len(steps)
            step["worker"] = workers.setdefault(threading.get_ident(), len(workers))
            step["looking"] = perf_counter_ns() - began
            steps.append(step)
