"""compare(loss): the backward of one graph by every engine, measured side by side.

    from minigrad_profiler import compare
    print(compare(loss))                  # the graph is kept: loss.backward() still works
    compare(loss).save("compare.html")

All engines run with BLAS at one thread, where their gradients must agree bit for bit; the serial
engine runs once more with BLAS as it is outside, the other honest baseline. On a GPU each time ends
when the device is done, and the bars are what its streams did: a lane for each.
"""

import statistics
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import minigrad as mg
from minigrad.backends import blas, pool
from minigrad.backends.device import to_host
from minigrad.engine.graph import Leaf, backward_order
from minigrad.parallel import report

from .compare_model import Model
from .compare_runs import Run, model_of, recorded_run, split, wait_for


@dataclass(slots=True)
class Times:
    """How long one way took, over the repeats, in milliseconds; seen: the single times."""

    name: str
    seen: list[float]
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
    """What compare found. `ways` in the order measured, `runs` the recorded ones."""

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

    def verdict(self) -> str:
        """Which engine is best here, in a sentence."""
        serial = self.way("serial")
        kinds = [way for way in self.ways if "gated" not in way.name]  # gated is one of the others
        best = min(kinds, key=lambda way: way.median)
        gain = serial.median / best.median
        if best is serial or gain < 1.05 or best.quartiles[1] > serial.quartiles[0]:
            return "Nothing is clearly faster than the serial engine with BLAS at one thread here."
        text = f"Fastest: {best.name}, {gain:.2f}× the serial engine with BLAS at one thread."
        return f"{text} {self._why(best)}"

    def _why(self, best: Times) -> str:
        if best.name.startswith("serial, BLAS"):
            return "Leave the cores to BLAS: its threads gain more here than independent nodes do."
        if best.name.startswith("parallel"):
            names = [way for way in self.ways if way.name.startswith("serial, BLAS")]
            other = f"; BLAS with all its threads gets {names[0].median:.2f} ms" if names else ""
            return f"Independent nodes keep several workers busy{other}."
        return "The order and the buffers are known beforehand, which saves the engine's own time."

    def what_if(self, workers: int) -> list[dict[str, Any]]:
        """For the dearest ops: work, span and greedy time if the op took half as long, or none."""
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
        """Everything as numbers and strings."""
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
            "bounds": {str(run.workers): list(self.model.bounds(run.workers)) for run in self.runs},
            "runs": [asdict(run) for run in self.runs],
            "nodes": [
                {"id": number, "op": op, "ms": cost, "slack": free}
                for number, op, cost, free in places
            ],
            "what_if": self.what_if(workers),
            "verdict": self.verdict(),
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
    """The backward of loss (a tensor, or several) by every engine; `.grad` is not touched.

    gradient  the cotangents, as for backward
    workers   how many for the parallel engine (default: 1, 2, 4 … up to the cores, at least 2)
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

    why_no_tape = _refusal(run, engine="tape")
    ways = _ways(counts, outside, not why_no_tape)
    times, expected = _timed(run, ways, repeats)
    _judge(run, ways, times, expected)
    with blas.one_thread() as held:
        serial = [recorded_run(run, order, "serial", 1, {}) for _ in range(3)]
        model = model_of(order, serial)
        runs = [min(serial, key=lambda r: r.length)]
        for count in counts:
            options = {"engine": "parallel", "workers": count, "min_work": 0}
            found = [recorded_run(run, order, f"parallel, {workers_of(count)}", count, options)
                     for _ in range(3)]  # fmt: skip
            runs.append(min(found, key=lambda r: r.length))
    slack = dict(zip([place.number for place in order], model.slack(), strict=True))
    for recorded in runs:
        for bar in recorded.bars:
            bar.critical = slack[bar.node] < 1e-9
        recorded.losses = split(recorded, model)
    numbers = [place.number for place in order]
    return Comparison(times, runs, model, numbers, held, outside, pool.get_num_threads(),
                      [why_no_tape] if why_no_tape else [])  # fmt: skip


def workers_of(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _counts(cores: int) -> list[int]:
    counts = [1, 2]
    while counts[-1] * 2 <= cores:
        counts.append(counts[-1] * 2)
    return counts


def _refusal(run: Any, **options: Any) -> str:
    """Why an engine does not take this graph; "" if it does."""
    try:
        run(**options)
    except (mg.errors.MinigradError, ValueError) as error:
        return str(error)
    return ""


def _ways(counts: list[int], outside: int | None, tape: bool) -> list[tuple[str, dict, bool]]:
    """[(name, options of grad, BLAS at one thread)]."""
    ways: list[tuple[str, dict, bool]] = [("serial", {}, True)]
    for count in counts:
        options = {"engine": "parallel", "workers": count, "min_work": 0}
        ways.append((f"parallel, {workers_of(count)}", options, True))
    if max(counts) > 1:
        gated = {"engine": "parallel", "workers": max(counts)}
        ways.append((f"parallel, {workers_of(max(counts))}, gated", gated, True))
    if tape:
        ways.append(("tape", {"engine": "tape"}, True))
    if outside is not None and outside > 1:
        ways.append((f"serial, BLAS {outside} threads", {}, False))
    return ways


def _timed(run: Any, ways: list, repeats: int) -> tuple[list[Times], list]:
    """Each way timed in turns, after one run each to warm up; the serial gradients."""
    times = [Times(name, []) for name, _, _ in ways]
    expected: list = []
    for turn in range(-1, repeats):
        for time, (name, options, alone) in zip(times, ways, strict=True):
            with blas.one_thread() if alone else nullcontext():
                started = perf_counter()
                gradients = run(**options)
                wait_for(gradients)
                spent = (perf_counter() - started) * 1e3
            if turn >= 0:
                time.seen.append(spent)
            elif name == "serial":
                expected = gradients
    return times, expected


def _judge(run: Any, ways: list, times: list[Times], expected: list) -> None:
    """Whether each way gives the bits of the serial engine; how far it is off where not."""
    for time, (_, options, alone) in zip(times, ways, strict=True):
        with blas.one_thread() if alone else nullcontext():
            gradients = run(**options)
        if "gated" in time.name:
            found = report.last_report()
            time.note = str(found) if found is not None else ""
        pairs = list(zip(gradients, expected, strict=True))
        time.same_bits = all(_bits(a) == _bits(b) for a, b in pairs)
        if not time.same_bits:
            time.largest_difference = max(
                [float(abs(a - b).max()) for a, b in pairs if a is not None and a.size], default=0.0
            )


def _bits(array: Any) -> Any:
    return None if array is None else (array.shape, str(array.dtype), to_host(array).tobytes())
