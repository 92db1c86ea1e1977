"""Reading a `minigrad.graph` file: all that drawing relies on is checked here, once.

A dump comes from anywhere: cut off by a full disk, edited by hand, made by a newer version, made to
harm. Each field in use has its type checked (fields.py); unknown fields are ignored. Relations
between fields are checked here: ids that exist, edges without a cycle, steps that end.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import IO, Any

from minigrad_viz.errors import ViewerError
from minigrad_viz.escape import shown
from minigrad_viz.fields import (
    array,
    arrays,
    check,
    count,
    described,
    field,
    gradient,
    histogram,
    is_count,
    is_whole,
    list_field,
    number,
    numbers,
    optional,
    site,
    text,
    texts,
    truth,
    whole,
    wrong,
)
from minigrad_viz.files import opened
from minigrad_viz.graph import (
    Backward,
    Contribution,
    Edge,
    Graph,
    Node,
    Step,
    topological_order,
)  # fmt: skip
from minigrad_viz.unreadable import not_a_graph, not_whole

FORMAT = "minigrad.graph"
MAJOR = 1
MAX_BYTES = 512 * 1024 * 1024
MAX_NESTING = 64  # scopes inside each other that are told apart
_HEADER = ("minigrad", "python", "numpy", "cupy", "device", "clock")


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
            with opened(path) as file:
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
    """The checked graph of a parsed JSON document; `consume` releases its records one by one."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ViewerError(f"not a graph dump: {not_a_graph(document, FORMAT)}")
    _check_version(document)
    header = {key: optional(document, key, text, "", "the header") for key in _HEADER}
    nodes = [_node(record, at) for at, record in _each(list_field(document, "nodes"), consume)]
    place = {node.id: at for at, node in enumerate(nodes)}
    if len(place) != len(nodes):
        raise ViewerError(f"two nodes share the id {_repeated([node.id for node in nodes])}")
    links = _each(list_field(document, "edges"), consume)
    edges = [_edge(record, at, nodes, place) for at, record in links]
    roots = [_placed(root, place, "roots") for root in list_field(document, "roots")]
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
    if not isinstance(version, list) or len(version) != 2 or not all(map(is_count, version)):
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
        raise wrong(where, "it", "an object", record)
    identity = field(record, "id", whole, where)
    where = f"node {identity}"
    kind = field(record, "kind", text, where)
    first = array(record, where)
    outputs = optional(record, "outputs", arrays, (), where) or (first,)
    return Node(
        id=identity,
        kind=kind if kind in ("leaf", "parameter") else "op",
        op=optional(record, "op", text, "", where),
        seq=optional(record, "seq", whole, identity, where),
        outputs=outputs,
        device=optional(record, "device", text, "", where),
        scope=_nested(optional(record, "scope", text, "", where)),
        site=optional(record, "site", site, None, where),
        name=optional(record, "name", text, "", where),
        saved=optional(record, "saved", arrays, (), where),
        params=optional(record, "params", texts, {}, where),
        formula=optional(record, "formula", text, "", where),
        values=optional(record, "values", numbers, None, where),
        buffer=optional(record, "buffer", count, None, where),
        grad=optional(record, "grad", gradient, None, where),
        before=optional(record, "grad_before", gradient, None, where),
        flops=optional(record, "flops", number, None, where),
        backward_flops=optional(record, "backward_flops", number, None, where),
        check=optional(record, "check", check, None, where),
        tracked=optional(record, "requires_grad", truth, True, where),
        source=optional(record, "source", text, "", where),
        histogram=optional(record, "histogram", histogram, None, where),
        nonfinite=optional(record, "nonfinite", text, None, where),
    )


def _nested(scope: str) -> str:
    """The scope, at most MAX_NESTING parts deep: deeper parts belong to the last of them.

    Drawing looks at every outer scope of a node, so deeper ones would take quadratic time.
    """
    parts = scope.split("/", MAX_NESTING)
    return "/".join(parts[:MAX_NESTING])


def _edge(record: Any, at: int, nodes: list[Node], place: dict[int, int]) -> Edge:
    where = f"edge {at}"
    if not isinstance(record, dict):
        raise wrong(where, "it", "an object", record)
    producer = _placed(record.get("producer"), place, where)
    output = optional(record, "output", count, 0, where)
    if output >= len(nodes[producer].outputs):
        raise ViewerError(f"{where}: node {nodes[producer].id} has no output {output}")
    consumer = _placed(record.get("consumer"), place, where)
    return Edge(producer, output, consumer, optional(record, "slot", count, 0, where))


def _placed(identity: Any, place: dict[int, int], where: str) -> int:
    if not is_whole(identity) or identity not in place:
        raise ViewerError(f"{where}: there is no node {described(identity)}")
    return place[identity]


def _backward(record: Any, place: dict[int, int], nodes: list[Node], consume: bool) -> Backward:
    if not isinstance(record, dict):
        raise wrong("backward", "it", "an object", record)
    steps = _each(list_field(record, "steps"), consume)
    return Backward(
        engine=optional(record, "engine", text, "", "backward"),
        workers=optional(record, "workers", count, 1, "backward"),
        steps=[_step(step, at, place, nodes) for at, step in steps],
        released=record.get("released") is not False,
    )


def _step(record: Any, at: int, place: dict[int, int], nodes: list[Node]) -> Step:
    where = f"backward step {at}"
    if not isinstance(record, dict):
        raise wrong(where, "it", "an object", record)
    step = Step(
        node=_placed(record.get("node"), place, where),
        order=optional(record, "order", count, at, where),
        worker=optional(record, "worker", count, 0, where),
        t0=field(record, "t0", whole, where),
        t1=field(record, "t1", whole, where),
        contributions=optional(record, "contributions", count, 0, where),
        grad_norm=optional(record, "grad_norm", number, None, where),
        nonfinite=optional(record, "nonfinite", text, None, where),
        values=optional(record, "values", numbers, None, where),
        looking=optional(record, "looking", count, 0, where),
        flops=optional(record, "flops", number, None, where),
    )
    sent = record.get("sent")
    if sent is not None:
        if not isinstance(sent, list):
            raise wrong(where, '"sent"', "a list", sent)
        step.sent = tuple([_contribution(item, place, nodes, where) for item in sent])
    if step.t1 < step.t0:
        raise ViewerError(f"{where}: it ends before it begins")
    return step


def _contribution(
    record: Any, place: dict[int, int], nodes: list[Node], where: str
) -> Contribution:
    if not isinstance(record, dict):
        raise wrong(where, "a contribution", "an object", record)
    producer = _placed(record.get("producer"), place, where)
    output = optional(record, "output", count, 0, where)
    if output >= len(nodes[producer].outputs):
        raise ViewerError(f"{where}: node {nodes[producer].id} has no output {output}")
    return Contribution(
        producer=producer,
        output=output,
        slot=optional(record, "slot", count, 0, where),
        bytes=optional(record, "bytes", count, 0, where),
        gradient=gradient(record),
    )


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
