"""compare(loss): the backward of one graph by every engine, measured side by side.

    from minigrad_profiler import compare
    print(compare(loss))                  # the graph is kept: loss.backward() still works
    compare(loss).save("compare.html")

All engines run with BLAS at one thread, where their gradients must agree bit for bit. The serial
engine also runs with the caller's threads of BLAS, the other honest baseline. On a GPU a time ends
when the device has finished, and the bars show its streams, a lane for each.
"""

import statistics
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from random import Random
from time import perf_counter, sleep
from typing import Any

import minigrad as mg
from minigrad.backends import blas, pool, processors
from minigrad.backends.device import to_host
from minigrad.engine.graph import Leaf, Node, backward_order
from minigrad.parallel import report
from minigrad.tape.record import Entry

from . import compare_words
from .compare_model import Model
from .compare_runs import Run, as_it_was, model_of, recorded_run, split, wait_for

_SPINNING = 0.05  # s: threads of OpenBLAS spin for about half as long after a product


@dataclass(slots=True)
class Times:
    """The times of one way, over the repeats, in milliseconds.

    seen     the single times
    queued   of each, how long the calling thread had no processor, if the system counts that
    workers  of the parallel engine; 0: another engine
    """

    name: str
    seen: list[float]
    queued: list[float] = field(default_factory=list)
    workers: int = 0
    same_bits: bool | None = None
    largest_difference: float = 0.0
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.seen)

    @property
    def quartiles(self) -> tuple[float, float]:
        if len(self.seen) < 2:
            return self.median, self.median
        low, _, high = statistics.quantiles(self.seen, n=4, method="inclusive")
        return low, high


@dataclass(slots=True)
class Comparison:
    """The result of compare: `ways` in the order measured, `runs` the recorded ones."""

    ways: list[Times]
    runs: list[Run]
    model: Model
    numbers: list[int]
    blas_threads: int | None
    blas_outside: int | None
    cores: int
    missing: list[str]

    def way(self, name: str) -> Times:
        """The times of one way by its name."""
        return next(way for way in self.ways if way.name == name)

    def allowed(self, workers: int) -> float:
        """The speedup over one worker that the graph allows."""
        low = self.model.bounds(workers)[0]
        return self.model.work / low if low else 1.0

    def bounds(self, run: Run) -> tuple[float, float]:
        """Bounds of a recorded run. The lower is max(T1/p, T∞) of the nodes at their best, without
        any cost of the engine. The upper is T1/p + T∞ with the times of this run."""
        return self.model.bounds(run.workers)[0], run.work / run.workers + run.span

    def verdict(self) -> str:
        """Which engine is best here, in a sentence or two."""
        return compare_words.verdict(self)

    def limit(self) -> str:
        """The limit of the gain from several workers, in a sentence."""
        return compare_words.limit(self)

    def what_if(self, workers: int) -> list[dict[str, Any]]:
        """For the dearest ops: work, span and greedy time if the op took half its time, or none."""
        rows = []
        for op, cost in list(self.model.by_op().items())[:5]:
            row: dict[str, Any] = {"op": op, "ms": cost}
            for name, factor in (("half", 0.5), ("free", 0.0)):
                other = self.model.with_op(op, factor)
                row[name] = {"work": other.work, "span": other.span,
                             "greedy": other.scheduled(workers)}  # fmt: skip
            rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """The whole comparison as numbers and strings."""
        workers = max([run.workers for run in self.runs])
        slack = self.model.slack()
        places = zip(self.numbers, self.model.ops, self.model.costs, slack, strict=True)
        return {
            "blas_threads": self.blas_threads,
            "blas_threads_outside": self.blas_outside,
            "cores": self.cores,
            "missing": self.missing,
            "ways": [
                {**asdict(way), "median": way.median, "quartiles": list(way.quartiles)}
                for way in self.ways
            ],
            "work": self.model.work,
            "span": self.model.span,
            "parallelism": self.model.parallelism,
            "bounds": {str(run.workers): list(self.bounds(run)) for run in self.runs},
            "runs": [asdict(run) for run in self.runs],
            "nodes": [
                {"id": number, "op": op, "ms": cost, "slack": free}
                for number, op, cost, free in places
            ],
            "what_if": self.what_if(workers),
            "verdict": self.verdict(),
            "limit": self.limit(),
        }

    def __str__(self) -> str:
        from .compare_view import text

        return text(self)

    def save(self, path: str) -> None:
        """Write the figures and the Gantt chart as .html, the chart as .svg, or all as .json."""
        from .compare_view import save

        save(self, path)


def compare(
    loss: Any,
    gradient: Any = None,
    workers: Sequence[int] | None = None,
    repeats: int = 7,
) -> Comparison:
    """The backward of loss (a tensor, or several) by every engine; `.grad` stays unchanged.

    gradient  the cotangents, as for backward
    workers   numbers of workers for the parallel engine (default: 1, 2, 4 … up to the cores, at
              least 2)
    repeats   how often each way is timed, in turns
    """
    roots = [loss] if isinstance(loss, mg.Tensor) else list(loss)
    order = backward_order([root.node for root in roots if root.node is not None])
    leaves = [t for p in order if p.__class__ is Leaf and (t := p.tensor()) is not None]
    if not leaves:
        raise ValueError("compare: the loss depends on no tensor that requires a gradient")
    if repeats < 1:
        raise ValueError(f"compare: repeats is at least 1, got {repeats}")
    counts = list(workers) if workers is not None else _counts(pool.get_num_threads())
    outside = blas.threads()

    def run(**options: Any) -> list:
        gs = mg.grad(roots, leaves, gradient, retain_graph=True, allow_unused=True, **options)
        return [None if g is None else g.data for g in gs]

    options, why_no_tape = _tape(run, order)
    ways = _ways(counts, outside, options)
    times, expected = _timed(run, ways, repeats)
    _judge(run, ways, expected)
    with blas.one_thread() as held:
        seen = _recorded(run, order, counts, max(3, repeats))
    model = model_of(order, [recorded for turn in seen for recorded in turn])
    runs = [min(found, key=lambda r: r.length) for found in zip(*seen, strict=True)]
    numbers = [place.number for place in order]
    slack = dict(zip(numbers, model.slack(), strict=True))
    for recorded in runs:
        for bar in recorded.bars:
            bar.critical = slack[bar.node] < 1e-9
        recorded.losses = split(recorded, model)
        recorded.work, recorded.span = as_it_was(recorded, model, numbers)
    return Comparison(times, runs, model, numbers, held, outside, pool.get_num_threads(),
                      [why_no_tape] if why_no_tape else [])  # fmt: skip


def workers_of(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _counts(cores: int) -> list[int]:
    counts = [1, 2]
    while counts[-1] * 2 <= cores:
        counts.append(counts[-1] * 2)
    return counts


def _tape(run: Any, order: list) -> tuple[dict, str]:
    """(options of grad, "") with a tape: one that recorded this graph, else a new GraphTape.

    If neither takes the graph: ({}, the reason).
    """
    reason = ""
    for engine in ("tape", GraphTape(order)):
        try:
            run(engine=engine)
        except (mg.errors.MinigradError, ValueError) as error:
            reason = str(error)
        else:
            return {"engine": engine}, ""
    return {}, reason


class GraphTape(mg.Tape):
    """A tape of a graph that no tape recorded: its nodes, in the order of their creation.

    Such a tape serves a backward alone. It holds nothing else of the program, so a script runs as
    it does without it.
    """

    def __init__(self, order: list) -> None:
        super().__init__()
        nodes = [vertex for vertex in order if vertex.__class__ is Node]
        for node in sorted(nodes, key=lambda node: node.number):
            entry = Entry()
            entry.op, entry.node = node.op, node
            self._entries.append(entry)


def _ways(counts: list[int], outside: int | None, tape: dict) -> list[tuple[Times, dict, bool]]:
    """[(the times to fill, options of grad, BLAS at one thread)]."""
    ways: list[tuple[Times, dict, bool]] = [(Times("serial", []), {}, True)]
    for count in counts:
        times = Times(f"parallel, {workers_of(count)}", [], workers=count)
        ways.append((times, _parallel(count), True))
    if (most := max(counts)) > 1:
        times = Times(f"parallel, {workers_of(most)}, gated", [], workers=most)
        ways.append((times, {"engine": "parallel", "workers": most}, True))
    if tape:
        ways.append((Times("tape", []), tape, True))
    if outside is not None and outside > 1:
        ways.append((Times(f"serial, BLAS {outside} threads", []), {}, False))
    return ways


def _parallel(count: int) -> dict:
    return {"engine": "parallel", "workers": count, "min_work": 0}


def _recorded(run: Any, order: list, counts: list[int], repeats: int) -> list[list[Run]]:
    """The runs of each turn: in every turn the serial engine and each number of workers run
    once."""
    kinds = [("serial", 1, {}),
             *[(f"parallel, {workers_of(p)}", p, _parallel(p)) for p in counts]]  # fmt: skip
    return [[recorded_run(run, order, *kind) for kind in kinds] for _ in range(repeats)]


def _timed(run: Any, ways: list, repeats: int) -> tuple[list[Times], list]:
    """Each way timed in turns, after one run each to warm up; the serial gradients.

    Each turn shuffles the order: no way always runs after the same other one.
    """
    expected: list = []
    draw = Random(0)
    for turn in range(-1, repeats):
        for times, options, alone in ways if turn < 0 else draw.sample(ways, len(ways)):
            with blas.one_thread() if alone else nullcontext():
                queued, started = processors.queued(), perf_counter()
                gradients = run(**options)
                wait_for(gradients)
                spent = (perf_counter() - started) * 1e3
            if turn < 0:
                expected = expected or gradients
            else:
                times.seen.append(spent)
                if queued is not None:
                    times.queued.append(((processors.queued() or 0) - queued) / 1e6)
            if not alone:
                sleep(_SPINNING)
    return [times for times, _, _ in ways], expected


def _judge(run: Any, ways: list, expected: list) -> None:
    """Whether each way gives the bits of the serial engine; if not, the largest difference."""
    for times, options, alone in ways:
        with blas.one_thread() if alone else nullcontext():
            gradients = run(**options)
        if "gated" in times.name:
            found = report.last_report()
            times.note = str(found) if found is not None else ""
        pairs = list(zip(gradients, expected, strict=True))
        times.same_bits = all(_bits(a) == _bits(b) for a, b in pairs)
        if not times.same_bits:
            times.largest_difference = max(
                [float(abs(a - b).max()) for a, b in pairs if a is not None and a.size], default=0.0
            )


def _bits(array: Any) -> Any:
    return None if array is None else (array.shape, str(array.dtype), to_host(array).tobytes())
