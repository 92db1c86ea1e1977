"""Work, span, slack and what-if of a graph whose nodes have known costs.

T1 is the sum of all costs, T∞ the longest path. A greedy schedule on p workers, one that never
leaves a worker idle while a node is ready, takes max(T1/p, T∞) ≤ Tp ≤ T1/p + T∞ (R. L. Graham,
Bounds on multiprocessing timing anomalies, 1969; R. P. Brent, 1974).
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Model:
    """A graph in backward order. Times are milliseconds.

    ops      the op of each vertex, "" for leaves and ports
    costs    the time of each
    parents  of each, the ranks of the vertices that wait for it
    """

    ops: list[str]
    costs: list[float]
    parents: list[list[int]]

    @classmethod
    def of(cls, order: Sequence[Any], costs: list[float]) -> "Model":
        rank = {place: i for i, place in enumerate(order)}
        parents = [list(dict.fromkeys(rank[p] for p in place.parents)) for place in order]
        ops = [place.op.name if hasattr(place, "op") else "" for place in order]
        return cls(ops, costs, parents)

    @property
    def work(self) -> float:
        """T1."""
        return sum(self.costs)

    @property
    def span(self) -> float:
        """T∞."""
        return max(self.below(), default=0.0)

    @property
    def parallelism(self) -> float:
        """T1/T∞: the number of workers that the graph keeps busy on average."""
        return self.work / self.span if self.span else 1.0

    def below(self) -> list[float]:
        """The longest path from each vertex to an end, including the vertex."""
        paths = [0.0] * len(self.costs)
        for i in range(len(paths) - 1, -1, -1):
            paths[i] = self.costs[i] + max([paths[j] for j in self.parents[i]], default=0.0)
        return paths

    def above(self) -> list[float]:
        """The longest path from a root to each vertex, without the vertex."""
        paths = [0.0] * len(self.costs)
        for i, parents in enumerate(self.parents):
            for j in parents:
                paths[j] = max(paths[j], paths[i] + self.costs[i])
        return paths

    def slack(self) -> list[float]:
        """How much longer each vertex could take without a longer span; 0: critical."""
        span = self.span
        pairs = zip(self.above(), self.below(), strict=True)
        return [max(0.0, span - a - b) for a, b in pairs]

    def bounds(self, workers: int) -> tuple[float, float]:
        """The bounds of a greedy schedule."""
        return max(self.work / workers, self.span), self.work / workers + self.span

    def scheduled(self, workers: int) -> float:
        """The time of the greedy schedule by longest path, without any cost of scheduling."""
        waiting = [0] * len(self.costs)
        for parents in self.parents:
            for j in parents:
                waiting[j] += 1
        below = self.below()
        ready = [(-below[i], i) for i, count in enumerate(waiting) if not count]
        heapq.heapify(ready)
        running: list[tuple[float, int]] = []
        now = 0.0
        while ready or running:
            while ready and len(running) < workers:
                i = heapq.heappop(ready)[1]
                heapq.heappush(running, (now + self.costs[i], i))
            now, i = heapq.heappop(running)
            for j in self.parents[i]:
                waiting[j] -= 1
                if not waiting[j]:
                    heapq.heappush(ready, (-below[j], j))
        return now

    def with_op(self, op: str, factor: float) -> "Model":
        """The same graph if every node of this op took `factor` of its time."""
        costs = [c * factor if o == op else c for o, c in zip(self.ops, self.costs, strict=True)]
        return Model(self.ops, costs, self.parents)

    def by_op(self) -> dict[str, float]:
        """Milliseconds of each op, the dearest first."""
        sums: dict[str, float] = {}
        for op, cost in zip(self.ops, self.costs, strict=True):
            if op:
                sums[op] = sums.get(op, 0.0) + cost
        return dict(sorted(sums.items(), key=lambda pair: -pair[1]))
