"""Graph dumps: the graph of a forward, in the `minigrad.graph` format, for the viewer.

    mg.dump_graph(loss, "graph.json")              before backward

With the backward's steps: recorder.py.
"""

import linecache
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TextIO

import numpy as np

from ..backends.device import device_of
from ..backends.sites import site_of
from ..engine.errors import describe
from ..engine.graph import Leaf, Port, raw, reachable
from ..tensor_api.tensor import Tensor
from . import formats
from .graph_work import flops_of
from .numbers import owner, small_values

_LONGEST_TEXT = 200  # of a parameter's repr


def named(owner: str, names: Mapping[str, Tensor] | None) -> Mapping[str, Tensor]:
    """The names, if they are names of tensors."""
    names = {} if names is None else names
    if not isinstance(names, Mapping) or not all(isinstance(x, Tensor) for x in names.values()):
        raise TypeError(
            f'{owner}: names says what to call which tensor, as {{"a": a, "b": b}}; got '
            f"{describe(names)}"
        )
    return names


class Known:
    """Facts that nodes lack: small results' numbers, names given by the user, shared memory."""

    def __init__(self, values: Mapping, names: Mapping[str, Tensor] | None):
        self.values = values  # node -> numbers
        self.names = {tensor.node: name for name, tensor in (names or {}).items()}
        self.work: dict = {}  # counts of elementwise ops that were made before
        self._buffers: dict[int, int] = {}

    def buffer(self, x: Any) -> int:
        """The number, in this dump, of the memory that an array shows."""
        return self._buffers.setdefault(id(owner(x)), len(self._buffers))


def graph_dict(
    tensors: Tensor | Sequence[Tensor], names: Mapping[str, Tensor] | None = None
) -> dict[str, Any]:
    """The graph behind one or several tensors, as the document that a dump holds.

    names: what to call some of its tensors, as in {"a": a, "b": b}.
    """
    return graph_for("graph_dict", tensors, names)


def graph_for(
    owner: str, tensors: Tensor | Sequence[Tensor], names: Mapping[str, Tensor] | None = None
) -> dict[str, Any]:
    """graph_dict, with errors that name the function that was called."""
    vertices, known, device = _asked(owner, tensors, names)
    return {**document_of(reachable(vertices), vertices, known), "device": device}


def _asked(
    owner: str, tensors: Tensor | Sequence[Tensor], names: Mapping[str, Tensor] | None = None
) -> tuple[list, Known, str]:
    """The vertices of these tensors, what is known beside the graph, and the first one's device."""
    roots = [tensors] if isinstance(tensors, Tensor) else tensors
    roots = list(roots) if isinstance(roots, Iterable) else [roots]
    for root in roots or [None]:
        if not isinstance(root, Tensor):
            given = describe(tensors if root is None else root)
            raise TypeError(f"{owner} takes a tensor or a list of tensors, got {given}")
        if root.node is None:
            raise ValueError(
                f"{owner}: there is no graph behind a value that requires no gradient; make "
                "the inputs with requires_grad=True, and call it before leaving the forward"
            )
    vertices = [root.node for root in roots]
    values = {root.node: small_values(root) for root in roots}
    return vertices, Known(values, named(owner, names)), roots[0].device


_PICTURES = (".svg", ".png", ".pdf", ".dot", ".mmd", ".html")


def no_graph_file(path: str) -> str:
    """The hint for a path that is named like a picture; "" for any other path."""
    stem, suffix = os.path.splitext(path)
    if suffix.lower() not in _PICTURES:
        return ""
    return (
        f"a graph is written as JSON, not as a picture: write it to {stem}.json, and draw that by "
        f"minigrad-viz {stem}.json -o {stem}{suffix}"
    )


def dump_graph(tensors: Tensor | Sequence[Tensor], path: str | os.PathLike) -> None:
    """Write the graph behind one or several tensors to a file, whole or not at all.

    It is JSON; ValueError for the name of a picture, which minigrad-viz draws of it. A node is
    written as soon as it is described: of a large graph the text alone is long.
    """
    if isinstance(path, Tensor):
        raise TypeError("dump_graph: the tensors come first, then the path")
    if said := no_graph_file(os.fspath(path)):
        raise ValueError(f"dump_graph: {said}")
    vertices, known, device = _asked("dump_graph", tensors)
    edges: list[tuple] = []
    with formats.written_whole(os.fspath(path)) as file:
        head = {**formats.header(formats.GRAPH), "device": device, "roots": _ids(vertices)}
        file.write(formats.json_text(head | {"backward": None})[:-1])
        _write_list(file, "nodes", _node_records(reachable(vertices), known, edges))
        _write_list(file, "edges", map(_edge_record, edges))
        file.write("}")


def _write_list(file: TextIO, name: str, records: Iterable) -> None:
    file.write(f',"{name}":[')
    for k, record in enumerate(records):
        file.write("," * (k > 0) + formats.json_text(record))
    file.write("]")


def document_of(order: Iterable, roots: Iterable, known: Known) -> dict[str, Any]:
    """The document for these nodes, leaves and ports; ports fold into (producer, output)."""
    edges: list[tuple] = []
    nodes = sorted(_node_records(order, known, edges), key=lambda record: record["id"])
    return {
        **formats.header(formats.GRAPH),
        "nodes": nodes,
        "edges": list(map(_edge_record, edges)),
        "roots": _ids(roots),
        "backward": None,
    }


def _node_records(order: Iterable, known: Known, edges: list[tuple]) -> Iterator[dict[str, Any]]:
    """The record of each node and leaf; their edges are added to `edges`."""
    for node in order:
        if node.__class__ is Leaf:
            yield _leaf_record(node, known)
        elif node.__class__ is not Port:
            slots = _slots(node)
            for slot, parent in zip(slots, node.parents, strict=True):
                edges.append((*_source(parent), node.number, slot))
            yield _node_record(node, slots, known)


def _edge_record(edge: tuple) -> dict[str, int]:
    return dict(zip(("producer", "output", "consumer", "slot"), edge, strict=True))


def _ids(vertices: Iterable) -> list[int]:
    """The nodes' numbers, each once."""
    return list(dict.fromkeys(_source(vertex)[0] for vertex in vertices))


def _source(vertex: Any) -> tuple[int, int]:
    """(id of the producer, which of its outputs) of what an edge starts from."""
    if vertex.__class__ is Port:
        return vertex.parents[0].number, vertex.index
    return vertex.number, 0


def _slots(node: Any) -> list[int]:
    """Which argument each parent was; their order, where a backward has freed that knowledge."""
    if node.op.variadic and node.saved is None:
        return list(range(len(node.parents)))
    return node.plan.slots_of(node)


# -- one node --------------------------------------------------------------------------------------


def array_record(shape: tuple, dtype: Any) -> dict[str, Any]:
    """The entry of an array in a dump."""
    name, itemsize = _name_and_size(dtype)
    size = math.prod(shape) * itemsize
    return {"shape": [int(n) for n in shape], "dtype": name, "bytes": size}


@cache
def _name_and_size(dtype: Any) -> tuple[str, int]:
    return str(dtype), np.dtype(dtype).itemsize


def _leaf_record(leaf: Leaf, known: Known) -> dict[str, Any]:
    tensor = leaf.tensor()
    name = known.names.get(leaf) or getattr(tensor, "name", None)
    record = {
        "id": leaf.number,
        "kind": "parameter" if getattr(tensor, "is_parameter", False) else "leaf",
        "op": None,
        "seq": leaf.number,
        **array_record(leaf.shape, leaf.dtype),
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


def _node_record(node: Any, slots: list[int], known: Known) -> dict[str, Any]:
    several = isinstance(node.dtype, tuple)
    outputs = list(zip(node.shape, node.dtype)) if several else [(node.shape, node.dtype)]
    saved, params, device = _saved(node, known)
    record = {
        "id": node.number,
        "kind": "op",
        "op": node.op.name,
        "seq": node.number,
        **array_record(*outputs[0]),
        "device": device,
        "scope": node.origin[2] if node.origin else "",
        "site": site_record(node.origin),
        "name": known.names.get(node),
        "saved": saved,
        "params": params,
        "formula": (node.op.__doc__ or "").strip().partition("\n")[0],
    }
    if several:
        record["outputs"] = [array_record(*output) for output in outputs]
    found = flops_of(node, slots, known.work)
    for key, flops in zip(("flops", "backward_flops"), found, strict=True):
        if flops is not None:
            record[key] = flops
    if known.values.get(node) is not None:
        record["values"] = known.values[node]
    return record


def site_record(origin: tuple | None) -> dict[str, Any] | None:
    """The user's line that made a node, with its text where the file can still be read."""
    site = site_of(origin)
    if site is not None:
        text = linecache.getline(site["file"], site["line"]).strip()
        if text:
            site["text"] = text[:_LONGEST_TEXT]
    return site


def _saved(node: Any, known: Known) -> tuple[list[dict], dict[str, str], str]:
    """The arrays that a node keeps for its rules, its static parameters, and where it lives."""
    saved, params, device = [], {}, "cpu"
    held = node.saved if type(node.saved) is tuple else ()  # packed arrays stay packed
    for name, value in zip(node.plan.names, held, strict=False):
        several = isinstance(value, tuple | list) and any(map(_is_array, value))
        parts = enumerate(value) if several else [(None, value)]
        for index, part in parts:
            if _is_array(part):
                label = name if index is None else f"{name}[{index}]"
                record = array_record(part.shape, part.dtype)
                saved.append({"name": label, **record, "buffer": known.buffer(part)})
                device = device_of(raw(part))
        if not several and name in node.op.defaults and not _is_array(value):
            params[name] = _text(value)
    return saved, params, device


def _is_array(value: Any) -> bool:
    """Array or tensor; the module numpy, which a rule may ask for as `xp`, has both names too."""
    return isinstance(getattr(value, "shape", None), tuple) and hasattr(value, "dtype")


def _text(value: Any) -> str:
    """repr, cut short; a value whose repr fails is named by its type."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
