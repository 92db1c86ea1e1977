"""Reading a `minigrad.graph` file: everything a writer relies on is checked here, once.

A dump comes from anywhere: cut off by a full disk, edited by hand, made by a newer version, made to
harm. Each field in use has its type checked; fields that are not known are passed over.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import IO, Any

from minigrad_viz.errors import ViewerError
from minigrad_viz.escape import shown
from minigrad_viz.graph import (
    Array,
    Backward,
    Check,
    Contribution,
    Edge,
    Gradient,
    Graph,
    Node,
    Numbers,
    Site,
    Step,
    topological_order,
)  # fmt: skip
from minigrad_viz.unreadable import not_a_graph, not_whole

FORMAT = "minigrad.graph"
MAJOR = 1
MAX_BYTES = 512 * 1024 * 1024
_HEADER = ("minigrad", "python", "numpy", "cupy", "device", "clock")
_LONGEST_TEXT = 4096  # of a text kept in memory; writers cut further
_LARGEST = 2**63 - 1
_MOST_NUMBERS = 16
_VERDICTS = ("right", "wrong", "unsure", "skipped")
_NOT_FINITE = ("nan", "inf", "-inf")


def read(path: str, max_bytes: int = MAX_BYTES) -> Graph:
    """The checked graph in the file `path` ("-" is standard input); ViewerError in one line."""
    label = "standard input" if path == "-" else shown(path, 200, "tail")
    data = _read_bytes(path, label, max_bytes)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ViewerError(f"{label}: not a whole JSON file ({not_whole(error, data)})") from None
    del data
    try:
        return graph_from(document, consume=True)
    except ViewerError as error:
        raise ViewerError(f"{label}: {error}") from None


def _read_bytes(path: str, label: str, max_bytes: int) -> bytearray:
    fits = True
    try:
        if path == "-":
            if sys.stdin is None:
                raise OSError(9, "it is closed")
            data = _bounded(sys.stdin.buffer, max_bytes)
        elif os.path.isdir(path):
            raise ViewerError(f"{label}: is a folder, not a graph file")
        else:
            with open(path, "rb") as file:
                fits = os.fstat(file.fileno()).st_size <= max_bytes
                data = _bounded(file, max_bytes) if fits else bytearray()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ViewerError(f"{label}: cannot be read ({reason})") from None
    if len(data) > max_bytes or not fits:
        raise ViewerError(f"{label}: larger than {max_bytes:,} bytes; raise --max-bytes to read it")
    return data


def _bounded(file: IO[bytes], limit: int) -> bytearray:
    data = bytearray()  # read(limit + 1) would take that memory first
    while part := file.read(min(1 << 20, limit + 1 - len(data))):
        data += part
    return data


def graph_from(document: Any, consume: bool = False) -> Graph:
    """The checked graph of a parsed JSON document; `consume` lets go of its records on the way."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ViewerError(f"not a graph dump: {not_a_graph(document, FORMAT)}")
    _check_version(document)
    header = {key: _optional(document, key, _text, "", "the header") for key in _HEADER}
    nodes = [_node(record, at) for at, record in _each(_list(document, "nodes"), consume)]
    place = {node.id: at for at, node in enumerate(nodes)}
    if len(place) != len(nodes):
        raise ViewerError(f"two nodes share the id {_repeated([node.id for node in nodes])}")
    links = _each(_list(document, "edges"), consume)
    edges = [_edge(record, at, nodes, place) for at, record in links]
    roots = [_placed(root, place, "roots") for root in _list(document, "roots")]
    _check_acyclic(nodes, edges)
    backward = document.get("backward")
    return Graph(
        header=header,
        nodes=nodes,
        edges=edges,
        roots=list(dict.fromkeys(roots)),
        backward=None if backward is None else _backward(backward, place, nodes, consume),
    )


def _each(records: list, consume: bool) -> Iterator[tuple[int, Any]]:
    """(position, record); a large dump is otherwise twice in memory, as JSON and as a graph."""
    for at, record in enumerate(records):
        if consume:
            records[at] = None
        yield at, record


def _check_version(document: dict) -> None:
    version = document.get("version")
    if not isinstance(version, list) or len(version) != 2 or not all(map(_is_count, version)):
        raise ViewerError('"version" should be two integers such as [1, 0]')
    major, minor = version
    if major > MAJOR:
        raise ViewerError(
            f"written by a newer minigrad (format {major}.{minor}); this viewer reads {MAJOR}.x: "
            "upgrade minigrad-engine to draw it"
        )
    if major < MAJOR:
        raise ViewerError(f"format {major}.{minor} is not known; this viewer reads {MAJOR}.x")


def _node(record: Any, at: int) -> Node:
    where = f"node {at}"
    if not isinstance(record, dict):
        raise _wrong(where, "it", "an object", record)
    identity = _field(record, "id", _whole, where)
    where = f"node {identity}"
    kind = _field(record, "kind", _text, where)
    first = _array(record, where)
    outputs = _optional(record, "outputs", _arrays, (), where) or (first,)
    return Node(
        id=identity,
        kind=kind if kind in ("leaf", "parameter") else "op",
        op=_optional(record, "op", _text, "", where),
        seq=_optional(record, "seq", _whole, identity, where),
        outputs=outputs,
        device=_optional(record, "device", _text, "", where),
        scope=_optional(record, "scope", _text, "", where),
        site=_optional(record, "site", _site, None, where),
        name=_optional(record, "name", _text, "", where),
        saved=_optional(record, "saved", _arrays, (), where),
        params=_optional(record, "params", _texts, {}, where),
        formula=_optional(record, "formula", _text, "", where),
        values=_optional(record, "values", _numbers, None, where),
        buffer=_optional(record, "buffer", _count, None, where),
        grad=_optional(record, "grad", _gradient, None, where),
        before=_optional(record, "grad_before", _gradient, None, where),
        flops=_optional(record, "flops", _number, None, where),
        backward_flops=_optional(record, "backward_flops", _number, None, where),
        check=_optional(record, "check", _check, None, where),
    )


def _edge(record: Any, at: int, nodes: list[Node], place: dict[int, int]) -> Edge:
    where = f"edge {at}"
    if not isinstance(record, dict):
        raise _wrong(where, "it", "an object", record)
    producer = _placed(record.get("producer"), place, where)
    output = _optional(record, "output", _count, 0, where)
    if output >= len(nodes[producer].outputs):
        raise ViewerError(f"{where}: node {nodes[producer].id} has no output {output}")
    consumer = _placed(record.get("consumer"), place, where)
    return Edge(producer, output, consumer, _optional(record, "slot", _count, 0, where))


def _placed(identity: Any, place: dict[int, int], where: str) -> int:
    if not _is_whole(identity) or identity not in place:
        raise ViewerError(f"{where}: there is no node {_described(identity)}")
    return place[identity]


def _backward(record: Any, place: dict[int, int], nodes: list[Node], consume: bool) -> Backward:
    if not isinstance(record, dict):
        raise _wrong("backward", "it", "an object", record)
    steps = _each(_list(record, "steps"), consume)
    return Backward(
        engine=_optional(record, "engine", _text, "", "backward"),
        workers=_optional(record, "workers", _count, 1, "backward"),
        steps=[_step(step, at, place, nodes) for at, step in steps],
        released=record.get("released") is not False,
    )


def _step(record: Any, at: int, place: dict[int, int], nodes: list[Node]) -> Step:
    where = f"backward step {at}"
    if not isinstance(record, dict):
        raise _wrong(where, "it", "an object", record)
    step = Step(
        node=_placed(record.get("node"), place, where),
        order=_optional(record, "order", _count, at, where),
        worker=_optional(record, "worker", _count, 0, where),
        t0=_field(record, "t0", _whole, where),
        t1=_field(record, "t1", _whole, where),
        contributions=_optional(record, "contributions", _count, 0, where),
        grad_norm=_optional(record, "grad_norm", _number, None, where),
        nonfinite=_optional(record, "nonfinite", _text, None, where),
        values=_optional(record, "values", _numbers, None, where),
        looking=_optional(record, "looking", _count, 0, where),
        flops=_optional(record, "flops", _number, None, where),
    )
    sent = record.get("sent")
    if sent is not None:
        if not isinstance(sent, list):
            raise _wrong(where, '"sent"', "a list", sent)
        step.sent = tuple([_contribution(item, place, nodes, where) for item in sent])
    if step.t1 < step.t0:
        raise ViewerError(f"{where}: it ends before it begins")
    return step


def _contribution(
    record: Any, place: dict[int, int], nodes: list[Node], where: str
) -> Contribution:
    if not isinstance(record, dict):
        raise _wrong(where, "a contribution", "an object", record)
    producer = _placed(record.get("producer"), place, where)
    output = _optional(record, "output", _count, 0, where)
    if output >= len(nodes[producer].outputs):
        raise ViewerError(f"{where}: node {nodes[producer].id} has no output {output}")
    return Contribution(
        producer=producer,
        output=output,
        slot=_optional(record, "slot", _count, 0, where),
        bytes=_optional(record, "bytes", _count, 0, where),
        gradient=_gradient(record),
    )


# -- kinds of values: each takes a raw value and gives the checked one, or raises TypeError --------


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value >= 0


def _whole(value: Any) -> int:
    if not _is_whole(value):
        raise TypeError("an integer")
    return value


def _count(value: Any) -> int:
    if not _is_count(value):
        raise TypeError("an integer from 0 on")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number")
    return float(min(max(value, -_LARGEST), _LARGEST)) if isinstance(value, int) else value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text")
    return value if len(value) <= _LONGEST_TEXT else value[: _LONGEST_TEXT - 1] + "…"


def _numbers(value: Any) -> Numbers:
    if not isinstance(value, list) or len(value) > _MOST_NUMBERS:
        raise TypeError(f"a list of at most {_MOST_NUMBERS} numbers")
    return tuple([item if item in _NOT_FINITE else _finite_or_word(item) for item in value])


def _finite_or_word(value: Any) -> float | str:
    number = _number(value)
    return number if math.isfinite(number) else str(number)


def _gradient(value: Any) -> Gradient:
    if not isinstance(value, dict):
        raise TypeError("an object with grad_norm and nonfinite")
    return Gradient(
        norm=_optional(value, "grad_norm", _number, None, "a gradient"),
        nonfinite=_optional(value, "nonfinite", _text, None, "a gradient"),
        values=_optional(value, "values", _numbers, None, "a gradient"),
    )


def _check(value: Any) -> Check:
    if not isinstance(value, dict) or value.get("verdict") not in _VERDICTS:
        raise TypeError(f"an object with a verdict, one of {', '.join(_VERDICTS)}")
    return Check(
        verdict=value["verdict"],
        error=_optional(value, "error", _number, None, "a check"),
        tolerance=_optional(value, "tolerance", _number, None, "a check"),
        why=_optional(value, "why", _text, "", "a check"),
    )


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise TypeError("an object of texts")
    return {_text(key): _text(text) for key, text in value.items()}


def _site(value: Any) -> Site:
    if not isinstance(value, dict):
        raise TypeError("an object with file, line and function")
    return Site(
        file=_field(value, "file", _text, "a site"),
        line=_field(value, "line", _count, "a site"),
        function=_optional(value, "function", _text, "", "a site"),
        text=_optional(value, "text", _text, "", "a site"),
    )


def _arrays(value: Any) -> tuple[Array, ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise TypeError("a list of objects")
    return tuple(_array(item, "an array") for item in value)


def _array(record: dict, where: str) -> Array:
    shape = record.get("shape")
    if not isinstance(shape, list) or len(shape) > 64 or not all(map(_is_count, shape)):
        raise _wrong(where, '"shape"', "a list of integers", shape)
    return Array(
        shape=tuple(shape),
        dtype=_field(record, "dtype", _text, where),
        bytes=_optional(record, "bytes", _count, 0, where),
        name=_optional(record, "name", _text, "", where),
        buffer=_optional(record, "buffer", _count, None, where),
    )


def _field(record: dict, key: str, kind: Callable[[Any], Any], where: str) -> Any:
    if key not in record:
        raise ViewerError(f'{where}: "{key}" is missing')
    try:
        return kind(record[key])
    except TypeError as expected:
        raise _wrong(where, f'"{key}"', str(expected), record[key]) from None


def _optional(record: dict, key: str, kind: Callable[[Any], Any], default: Any, where: str) -> Any:
    return default if record.get(key) is None else _field(record, key, kind, where)


def _list(document: dict, key: str) -> list:
    value = document.get(key)
    if not isinstance(value, list):
        raise _wrong("the dump", f'"{key}"', "a list", value)
    return value


def _wrong(where: str, what: str, expected: str, found: Any) -> ViewerError:
    return ViewerError(f"{where}: {what} should be {expected}, found {_described(found)}")


def _described(found: Any) -> str:
    """A short word for a wrong value; a container is named, never printed: it may be huge."""
    if isinstance(found, list | dict):
        return "a list" if isinstance(found, list) else "an object"
    return "nothing" if found is None else shown(repr(found)[:400], 40)


# -- the whole graph -------------------------------------------------------------------------------


def _repeated(identities: list[int]) -> int:
    return Counter(identities).most_common(1)[0][0]


def _check_acyclic(nodes: list[Node], edges: list[Edge]) -> None:
    # Numbers that rise along every edge are themselves the proof; only odd dumps need the walk.
    if all(nodes[edge.producer].seq < nodes[edge.consumer].seq for edge in edges):
        return
    order = topological_order(nodes, edges)
    if len(order) != len(nodes):
        stuck = min(set(range(len(nodes))).difference(order))
        raise ViewerError(f"the edges form a cycle; node {nodes[stuck].id} is on it or after it")
