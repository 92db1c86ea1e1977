"""Cost estimates of a backward, and the decision whether several threads would make it faster.

The cost of a node, in microseconds, is the smallest time of its rules in an earlier backward with
the same op and shapes. Before there is one, it is a guess from its shapes. The costs of all nodes
give the work T1 (their sum) and the span T∞ (the longest path). They also give a forecast of the
time with p threads. A graph seen before is judged by the measured times of both engines (`Trial`).
"""

from collections import deque
from collections.abc import Callable
from math import prod, sqrt
from typing import Any

from ..backends.caches import Cache
from ..engine import versions
from ..engine.backward import NodeVjp
from ..engine.graph import Node

MIN_WORK = 100.0  # µs: below this, handing a node to another thread costs more than it gains
_SETUP, _PER_VERTEX, _HAND_OVER = 60.0, 6.0, 25.0  # µs of the parallel engine itself
_LEAF, _OVERHEAD = 1.0, 3.0  # µs: handing a gradient over; calling one rule
_PER_FLOP, _PER_BYTE = 5e-5, 4e-4  # µs of a matrix product per operation, of the rest per byte
_KEPT = 1000  # vertices of the largest graph whose estimate is kept


class Cost:
    """Microseconds of a kind of node: with BLAS at one thread, and with as many as outside."""

    __slots__ = ("guessed", "uses_blas", "alone", "outside")

    def __init__(self, guessed: float, uses_blas: bool):
        self.guessed = guessed
        self.uses_blas = uses_blas
        self.alone: float | None = None
        self.outside: float | None = None

    def seen(self, spent: float, alone: bool) -> None:
        """Keep the smallest time seen: anything above it was waiting."""
        if alone:
            self.alone = spent if self.alone is None else min(self.alone, spent)
        else:
            self.outside = spent if self.outside is None else min(self.outside, spent)

    def with_one(self, threads: int) -> float:
        """The time with BLAS at one thread, where BLAS has `threads` outside."""
        limit = self._gain(threads) * self.outside if self.outside is not None else None
        if self.alone is None:
            return self.guessed if limit is None else limit
        return self.alone if limit is None else min(self.alone, limit)

    def with_all(self, threads: int) -> float:
        """The time as the serial engine has it."""
        if self.outside is not None:
            return self.outside
        return (self.guessed if self.alone is None else self.alone) / self._gain(threads)

    def _gain(self, threads: int) -> float:
        return float(threads) if self.uses_blas else 1.0


_costs = Cache("costs of nodes in a backward", max_entries=4096, size_of=lambda cost: 100)
_trials = Cache(
    "choices of the parallel engine", max_entries=256, size_of=lambda trial: 500 + 64 * _KEPT
)


def cost_of(node: Any, plan: Any) -> Cost:
    """The cost of nodes of this op and these shapes, for the rules that run (plan.reached)."""
    shapes = tuple([p.shape for p in node.parents])
    key = (node.op.name, node.shape, node.dtype, shapes, plan.reached)
    return _costs.get_or_make(key, lambda: _guess(node))


def _guess(node: Any) -> Cost:
    sizes = [prod(parent.shape) for parent in node.parents]
    if node.op.view:
        return Cost(_OVERHEAD, False)
    shape, dtype = (node.shape[0], node.dtype[0]) if node.op.outputs else (node.shape, node.dtype)
    if node.op.kind == "multilinear" and type(node.saved) is tuple:
        # an (m, k) by a (k, n) matrix: m·k·n is the root of the product of the three sizes
        arrays = [a.size for value in node.saved for a in versions.arrays_in(value)]
        largest = sorted([*arrays, *sizes], reverse=True)[:2]
        flops = 2 * len(sizes) * sqrt(prod(largest) * prod(shape))
        return Cost(_OVERHEAD + _PER_FLOP * flops * dtype.itemsize / 4, True)
    moved = (2 * sum(sizes) + prod(shape)) * dtype.itemsize
    return Cost(_OVERHEAD * len(sizes) + _PER_BYTE * moved, False)


class Estimate:
    """The costs of one backward, in its order.

    costs      of each vertex, with BLAS at one thread
    priority   of each vertex: the longest path from it to an end, itself included
    work       T1, the sum of the costs; span: T∞, the longest path; serial: T1 of the serial engine
    """

    def __init__(self, order: list, needed: dict | None, threads: int):
        self.costs = costs = []
        self.serial = 0.0
        for vertex in order:
            if vertex.__class__ is not Node or (needed is not None and vertex not in needed):
                costs.append(_LEAF)
                self.serial += _LEAF
            else:
                cost = cost_of(vertex, vertex.plan if needed is None else needed[vertex])
                costs.append(cost.with_one(threads))
                self.serial += cost.with_all(threads)
        self.priority = priorities(order, costs)
        self.work = sum(costs)
        self.span = max(self.priority, default=0.0)

    def forecast(self, workers: int, min_work: float) -> float:
        """Microseconds with this many threads; small nodes hold the interpreter lock throughout."""
        heavy = [cost for cost in self.costs if cost >= min_work]
        vertices = len(self.costs)
        held = self.work - sum(heavy) + _PER_VERTEX * vertices
        best = max((self.work + _PER_VERTEX * vertices) / workers, self.span, held)
        return _SETUP + best + _HAND_OVER * len(heavy) / workers


def priorities(order: list, costs: list) -> list:
    """For each vertex the cost of the longest path from it to a leaf, itself included."""
    rank = {vertex: i for i, vertex in enumerate(order)}
    paths = [0.0] * len(order)
    for i in range(len(order) - 1, -1, -1):  # parents come later in the order
        behind = max([paths[rank[p]] for p in order[i].parents if p in rank], default=0.0)
        paths[i] = costs[i] + behind
    return paths


def learning(vjp: NodeVjp, clock: Callable[[], int], alone: bool) -> Callable:
    """The same vjp, which also records the time that each node took."""

    def timed(node: Any, g: Any, plan: Any) -> Any:
        started = clock()
        contributions = vjp(node, g, plan)
        cost_of(node, plan).seen((clock() - started) / 1000, alone)
        return contributions

    return timed


class Trial:
    """Which engine to run a kind of graph with: by a forecast first, then by measurement.

    If the forecast is favourable, the first eight backwards alternate between the engines; then the
    faster one is taken, and the other every 32nd time.
    """

    def __init__(self) -> None:
        self.runs = 0
        self.estimate: Estimate | None = None  # the last one, while parallel runs are worth it
        self.forecast = 0.0
        self.serial = 0.0
        self.worth = False
        self.report: Any = None  # of the last serial run
        self.times: dict[bool, deque] = {True: deque(maxlen=5), False: deque(maxlen=5)}

    @property
    def learns(self) -> bool:
        """Whether this run also times each node."""
        return self.runs < 4 or self.runs % 32 == 0

    @property
    def stale(self) -> bool:
        """Whether the costs known may have changed since the forecast."""
        return self.runs < 5 or self.runs % 32 == 1

    @property
    def settled(self) -> bool:
        """Whether this run has nothing to gain from threads, and nothing to measure."""
        return self.report is not None and not (self.worth or self.stale or self.learns)

    def consider(self, estimate: Estimate, workers: int, min_work: float) -> None:
        """Forecast from the costs known now."""
        self.serial = estimate.serial
        self.forecast = estimate.forecast(workers, min_work)
        self.worth = self.forecast < 0.9 * self.serial
        self.estimate = estimate if self.worth and len(estimate.costs) <= _KEPT else None

    def choose(self) -> bool:
        """Whether this run is to be a parallel one."""
        if not self.worth:
            return False
        parallel, serial = self.times[True], self.times[False]
        if len(parallel) < 4 or len(serial) < 4:
            return len(parallel) <= len(serial)
        faster = min(parallel) < 0.97 * min(serial)
        return faster != (self.runs % 32 == 0)

    def reason(self) -> str:
        """The reason for the choice, as text for the report."""
        if not self.worth:
            return (
                f"forecast {_time(self.forecast)} in parallel against {_time(self.serial)} serial"
            )
        if self.times[True] and self.times[False]:
            best = min(self.times[True]), min(self.times[False])
            return f"measured {_time(best[0])} in parallel against {_time(best[1])} serial"
        return f"a trial: forecast {_time(self.forecast)}, {_time(self.serial)} serial"

    def note(self, parallel: bool, spent: float) -> None:
        """Record a run that took `spent` microseconds."""
        self.runs += 1
        self.times[parallel].append(spent)


def _time(us: float) -> str:
    """Microseconds as people read them: 850 µs, 8.17 ms, 381.2 ms."""
    if us < 1000:
        return f"{us:.0f} µs"
    return f"{us / 1000:.2f} ms" if us < 10_000 else f"{us / 1000:.1f} ms"


def trial_of(order: list, workers: int, min_work: float, kind: type[Trial] = Trial) -> Any:
    """The trial of graphs that look like this one: their length, and three vertices of it."""
    count = len(order)
    root, middle, last = order[0], order[count // 2], order[-1]
    op = getattr(root, "op", None)
    key = (count, workers, min_work, op, root.shape, middle.shape, last.shape, kind)
    return _trials.get(key) or _trials.get_or_make(key, kind)
