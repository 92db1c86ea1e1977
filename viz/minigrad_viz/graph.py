"""A dump in memory: plain records, edges by position in `nodes`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Array:
    """The outside of an array: no values."""

    shape: tuple[int, ...]
    dtype: str
    bytes: int
    name: str = ""
    buffer: int | None = None  # arrays with the same number show the same memory


Numbers = tuple[float | str, ...]  # of a small array, row by row; "nan", "inf", "-inf" as words


@dataclass(slots=True)
class Histogram:
    """How the finite numbers of an array are spread: `counts` of bins between two ends."""

    least: float
    most: float
    counts: tuple[int, ...]


@dataclass(slots=True)
class Gradient:
    """A gradient's record: its 2-norm, "nan" or "inf" if it holds one, a few numbers."""

    norm: float | None
    nonfinite: str | None
    values: Numbers | None = None
    histogram: Histogram | None = None


@dataclass(slots=True)
class Check:
    """A node's rule against finite differences: "right", "wrong", "unsure" or "skipped"."""

    verdict: str
    error: float | None = None  # as a share of the derivative's size
    tolerance: float | None = None
    why: str = ""


@dataclass(slots=True)
class Site:
    """The user's line that made a node."""

    file: str
    line: int
    function: str
    text: str = ""


@dataclass(slots=True)
class Node:
    """One node of the dump: an operation, a leaf or a parameter.

    `grad` is what stood in a leaf's .grad after the recorded backward, `before` what stood there
    before; `values` the numbers of a small result.
    """

    id: int
    kind: str
    op: str
    seq: int
    outputs: tuple[Array, ...]
    device: str = ""
    scope: str = ""
    site: Site | None = None
    name: str = ""
    saved: tuple[Array, ...] = ()
    params: dict[str, str] = field(default_factory=dict)
    formula: str = ""
    values: Numbers | None = None
    buffer: int | None = None
    grad: Gradient | None = None
    before: Gradient | None = None
    flops: float | None = None
    backward_flops: float | None = None
    check: Check | None = None
    tracked: bool = True  # False: an input that no gradient flows to
    source: str = ""  # the op outside of the graph that made such an input
    beyond: tuple[int, int] = (0, 0)  # inputs and users left out of a part of a graph
    histogram: Histogram | None = None  # of a leaf's values
    nonfinite: str | None = None  # "nan" or "inf" where they hold one
    rule: str = ""  # the computation of a node of the backward
    twin: int | None = None  # the node of the forward whose rule it is


@dataclass(slots=True)
class Edge:
    """Output `output` of `producer` is input `slot` of `consumer` (positions, not ids)."""

    producer: int
    output: int
    consumer: int
    slot: int
    mark: str = ""  # in a diff: appeared, gone


@dataclass(slots=True)
class Contribution:
    """A step's addition to the gradient of output `output` of `producer` (a position)."""

    producer: int
    output: int
    slot: int
    bytes: int
    gradient: Gradient


@dataclass(slots=True)
class Step:
    """One recorded step of backward: node `node` (a position) ran from t0 to t1 nanoseconds.

    `looking` is the time that recording took afterwards; `sent` is None where it was not recorded.
    """

    node: int
    order: int
    worker: int
    t0: int
    t1: int
    contributions: int
    grad_norm: float | None
    nonfinite: str | None
    values: Numbers | None = None
    looking: int = 0
    sent: tuple[Contribution, ...] | None = None
    flops: float | None = None


@dataclass(slots=True)
class Backward:
    """A recorded backward pass; `released`: saved arrays were freed as nodes had run."""

    engine: str
    workers: int
    steps: list[Step]
    released: bool = True


@dataclass(slots=True)
class Graph:
    """A dump that has been checked: every edge and root exists and there is no cycle."""

    header: dict[str, str]
    nodes: list[Node]
    edges: list[Edge]
    roots: list[int]
    backward: Backward | None = None


def topological_order(nodes: list[Node], edges: list[Edge]) -> list[int]:
    """Positions, producers before consumers; nodes on or after a cycle are left out."""
    waiting = [0] * len(nodes)
    consumers: list[list[int]] = [[] for _ in nodes]
    for edge in edges:
        waiting[edge.consumer] += 1
        consumers[edge.producer].append(edge.consumer)
    order = [at for at, count in enumerate(waiting) if count == 0]
    for at in order:  # grows while it is walked
        for consumer in consumers[at]:
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                order.append(consumer)
    return order
