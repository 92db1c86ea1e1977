"""Recorded backwards: the graph of each, with what each of its steps did, for the step-through.

    with mg.record_backward() as rec:
        loss.backward()
    rec.save("graph.json")

and MINIGRAD_GRAPH_OUT=graph.json for every backward of an unchanged program.
"""

import importlib
import math
import os
from collections.abc import Mapping, Sequence
from time import perf_counter_ns
from typing import Any
from weakref import WeakKeyDictionary

from ..backends.leaving import left_always
from ..backends.locks import Lock
from ..backends.threads import identity
from ..engine import events
from ..engine.graph import Leaf, Port
from ..modes.recording import CalledFirst
from ..tensor_api.tensor import Tensor
from . import formats
from .graph_dump import Known, document_of, named
from .notebook import viewer_forms
from .numbers import arrived, norm, small_values, spread
from .untracked import UntrackedInputs


class _Pass:
    """One backward while it runs: its graph, and the steps so far."""

    def __init__(self, order: list, roots: list, known: Known, checks: Any = None):
        self.document = document_of(order, roots, known)
        self.records = {record["id"]: record for record in self.document["nodes"]}
        self.inputs: dict[int, list[dict]] = {}  # the edges into a node, in the order of parents
        for edge in self.document["edges"]:
            self.inputs.setdefault(edge["consumer"], []).append(edge)
        if checks is not None:
            for node in order:
                if node.__class__ is not Leaf and node.__class__ is not Port:
                    self.records[node.number]["check"] = checks.badge(node)
        self.order = order
        self.leaves = [(leaf, _grad_of(leaf)) for leaf in order if leaf.__class__ is Leaf]
        for leaf, _ in self.leaves:
            self.records[leaf.number] |= spread(leaf.tensor())
        self.thread = identity()
        self.steps: list[dict[str, Any]] = []
        self.workers: dict[int, int] = {}

    def add_inputs(self, records: list[dict], edges: list[dict]) -> None:
        """Inputs that need no gradient: nothing is sent to them."""
        self.document["nodes"][:0] = records
        self.document["edges"] += edges

    def sent(self, node: Any, contributions: Sequence) -> list[dict[str, Any]]:
        """The node's contribution to each input that received one."""
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
            record["grad"] = {**_numbers(after), **spread(after)}
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


class record_backward(metaclass=CalledFirst):
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
        self.names = dict(named("record_backward", names))
        self._passes: list[_Pass] = []
        self._values: WeakKeyDictionary[Any, list] = WeakKeyDictionary()
        self._untracked = UntrackedInputs()
        self._lock = Lock()

    def __enter__(self) -> "record_backward":
        events.listen(self, origin=True)
        return self

    @left_always(lambda block: events.listeners.count(block))
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
        """A backward begins: describe its graph while saved arrays are still there."""
        started = _Pass(order, roots, Known(self._values, self.names), self._checks)
        nodes = [node for node in order if node.__class__ not in (Leaf, Port)]
        with self._lock:
            started.add_inputs(*self._untracked.of(nodes, self.names))
            self._passes.append(started)

    def graph_done(self, error: BaseException | None) -> None:
        """This thread's innermost backward has ended."""
        mine = [p for p in self._running() if p.thread == identity()]
        if not mine:
            return
        with self._lock:
            self._passes.remove(mine[-1])
        self.done(mine[-1].finished())

    def _running(self) -> list[_Pass]:
        """The backwards that have not ended, of all threads."""
        with self._lock:
            return list(self._passes)

    def hear(self, event: tuple) -> None:
        """Keep what one event says: see engine/events.py."""
        kind, _, t0, t1, node, inputs, outputs, params = event
        if kind == "backward":
            self._hear_step(t0, t1, node, inputs[0], outputs)
            return
        with self._lock:
            self._untracked.heard(event[1], node, inputs, outputs)
        if node is not None and node.__class__ is not Port:
            if self._checks is not None:
                self._checks.heard(node, inputs, params)
            values = small_values(outputs[0])
            if values is not None:
                self._values[node] = values

    def _hear_step(self, t0: int, t1: int, node: Any, g: Any, contributions: tuple) -> None:
        began = perf_counter_ns()
        running = [p for p in self._running() if node.number in p.records]
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
            step["worker"] = workers.setdefault(identity(), len(workers))
            step["looking"] = perf_counter_ns() - began
            steps.append(step)
