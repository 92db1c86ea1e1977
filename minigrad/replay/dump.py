"""The programs of a compiled function as a `minigrad.graph` document, for the viewer.

A node is one step of a program, with the user's line that recorded it. The scope of a step that a
fused kernel computes is the kernel, and the viewer draws scopes as frames.
"""

from collections.abc import Iterator
from typing import Any

from ..backends.device import device_of
from ..instrument import formats
from ..instrument.graph_dump import array_record, site_record
from ..tape.trace import Step
from .heard import parts, title


def document(programs: list) -> dict[str, Any]:
    """The programs as one document; with several, each has a scope of its own."""
    device = next((device_of(x.array) for program in programs for x in program.outsides), "cpu")
    graph = Graph(device)
    for number, program in enumerate(programs, 1):
        graph.add(program, f"program {number}" if len(programs) > 1 else "")
    return {
        **formats.header(formats.GRAPH),
        "device": device,
        "nodes": graph.nodes,
        "edges": graph.edges,
        "roots": graph.roots,
        "backward": None,
    }


class Graph:
    """The nodes and edges so far."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.nodes: list[dict] = []
        self.edges: list[dict] = []
        self.roots: list[int] = []
        self.untracked = 0

    def add(self, program: Any, scope: str) -> None:
        """Add the steps of a program, the arrays that it reads, and what it hands out."""
        made: dict[int, tuple[dict, int]] = {}  # value -> (its node, which output)
        for step, frame in _framed(program.runner):
            outputs = [y for y in step.outputs if y is not None]
            if not outputs:
                continue
            for value in step.reads():
                if value not in made:
                    made[value] = self.read(program, value, scope), 0
            inner = "/".join(filter(None, (scope, frame)))
            node = self.node("op", inner, [program.runner.trace.forms[y] for y in outputs])
            node |= _of_step(step)
            for slot, value in enumerate(step.reads()):
                producer, output = made[value][0]["id"], made[value][1]
                ends = {"producer": producer, "output": output, "consumer": node["id"]}
                self.edges.append(ends | {"slot": slot})
            made |= {y: (node, k) for k, y in enumerate(outputs)}
        for name, value in _handed_out(program):
            if value in made:
                node = made[value][0]
                if name:
                    node["formula"] = f"{node['formula']}; gives {name}".removeprefix("; ")
                if node["id"] not in self.roots:
                    self.roots.append(node["id"])

    def read(self, program: Any, value: int, scope: str) -> dict:
        """The node of an array that no step makes: a leaf, an argument or a constant."""
        k = program.sources.get(value)
        outside = None if k is None else program.outsides[k]
        tensor = outside.tensor if outside is not None and outside.is_tensor else None
        tracked = outside is not None and outside.needs
        kind = "parameter" if tracked and getattr(tensor, "is_parameter", False) else "leaf"
        node = self.node(kind, scope, [program.runner.trace.forms[value]], tracked)
        name = getattr(tensor, "name", None)
        if isinstance(name, str) and name:
            node["name"] = name
        return node

    def node(self, kind: str, scope: str, forms: list[tuple], tracked: bool = True) -> dict:
        """Add a node. The id of an array without a gradient is below 0."""
        self.untracked += not tracked
        at = len(self.nodes) if tracked else -self.untracked
        arrays = [array_record(*form) for form in forms]
        record: dict[str, Any] = {
            "id": at, "kind": kind, "op": None, "seq": len(self.nodes), **arrays[0],
            "device": self.device, "scope": scope, "site": None, "name": None, "saved": [],
            "params": {}, "formula": "",
        }  # fmt: skip
        if not tracked:
            record["requires_grad"] = False
        if len(arrays) > 1:
            record["outputs"] = arrays
        self.nodes.append(record)
        return record


def _framed(runner: Any) -> Iterator[tuple[Step, str]]:
    """Each single step, with the name of the frame around it."""
    blocks = {id(step): steps for steps in runner.made_of for step in steps if steps[1:]}
    names: dict[int, str] = {}  # by id of the steps of a frame
    for step in runner.steps:
        together = step.fused or blocks.get(id(step), ())
        if together and id(together) not in names:
            names[id(together)] = f"{'kernel' if step.fused else 'blocks'} {len(names) + 1}"
        for part in parts(step):
            yield part, names.get(id(together), "") if together else ""


def _of_step(step: Step) -> dict[str, Any]:
    """What a node tells of its step: which call of an op it belongs to, and where that was."""
    source = step.source
    if source is None:
        return {"op": title(step), "formula": "a sum of gradients"}
    part = "forward" if source.part == "forward" else "backward"
    return {
        "op": title(step),
        "formula": f"{part} of {source.op}",
        "site": site_record(source.origin),
    }


def _handed_out(program: Any) -> Iterator[tuple[str, int]]:
    """(name, value) of each result: `weight.grad` of a gradient, "" of others."""
    names = {
        spec.index: f"{getattr(program.outsides[k].tensor, 'name', None) or 'leaf'}.grad"
        for call in program.calls
        for (k, _), spec in zip(call.leaves or [], call.outputs, strict=False)
    }
    ends = iter(program.runner.ends)
    for number, there in zip(program.order, program.runner.form, strict=True):
        if there:
            yield names.get(number, ""), next(ends)
