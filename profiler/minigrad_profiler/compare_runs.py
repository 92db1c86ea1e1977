"""Recorded backwards: the time and thread of each node, and the use of the workers' time."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import minigrad as mg
from minigrad.backends import processors
from minigrad.backends.device import device_of
from minigrad.engine import events
from minigrad.engine.graph import Leaf
from minigrad.parallel import report

from .compare_model import Model


@dataclass(slots=True)
class Bar:
    """One node in a recorded run: its lane, its start and end (ms from the start of the run)."""

    lane: int
    op: str
    node: int
    start: float
    end: float
    critical: bool = False


@dataclass(slots=True)
class Spent:
    """Milliseconds of a run's threads together; parallel/report.py defines each of them.

    longest  lifetime of the longest-lived thread; before and after it one thread worked alone
    """

    alive: float
    longest: float
    cpu: float
    computed: float
    queued: float = 0.0
    waited: float = 0.0
    over: float = 0.0


@dataclass(slots=True)
class Run:
    """A recorded backward: its bars, its length, and the use of its workers' time.

    losses: milliseconds over all workers, which add up to workers × length:
    work          the nodes at their best times
    slower        nodes computed for longer than that (caches, memory)
    no processor  threads were ready to run, and other threads had the processors
    lock          waiting for the interpreter's lock, or for another
    dependency    no node was ready, but later one was
    imbalance     a worker had no more nodes, or one was at work before the others could be
    scheduling    everything else: adding up, choosing, waking (also a worker that began late)

    Linux counts the third. On a system that does not, "lock or processor" stands for both.

    work, span    T1 and T∞ of this run, with all losses except `dependency` and `imbalance`
    """

    name: str
    workers: int
    length: float
    bars: list[Bar]
    spent: Spent | None = None
    losses: dict[str, float] = field(default_factory=dict)
    work: float = 0.0
    span: float = 0.0


def on_gpu(arrays: list) -> bool:
    """Whether one of the arrays lies on a GPU."""
    return any(array is not None and device_of(array) != "cpu" for array in arrays)


def wait_for(gradients: list) -> None:
    """Wait until the device has finished; the host has no more work to wait for."""
    if on_gpu(gradients):
        mg.cuda.synchronize()


@contextmanager
def _heard(heard: list) -> Iterator[None]:
    def hear(event: tuple) -> None:
        if event[0] == "backward":
            heard.append((threading.get_ident(), event[1], event[4].number, event[2], event[3]))

    events.listen(hear)
    try:
        yield
    finally:
        events.unlisten(hear)


@contextmanager
def _heard_on_gpu(heard: list) -> Iterator[None]:
    with mg.DeviceTimes() as times:
        yield
    for span in times.spans:
        if span.kind == "backward":
            t0 = times.opened + 1000 * span.start
            heard.append((span.stream, span.op, span.seq, t0, t0 + 1000 * span.time))


def recorded_run(run: Any, order: list, name: str, workers: int, options: dict) -> Run:
    """One backward with every node's time and thread; on a GPU its time there, and the stream."""
    heard: list = []
    there = on_gpu(
        [leaf.data for p in order if p.__class__ is Leaf and (leaf := p.tensor()) is not None]
    )
    with _heard_on_gpu(heard) if there else _heard(heard), report.detailed():
        queued, started = processors.queued() or 0, perf_counter_ns()
        wait_for(run(**options))
        length = (perf_counter_ns() - started) / 1e6
        queued = (processors.queued() or 0) - queued
    lanes: dict[int, int] = {mg.cuda.current_stream().ptr if there else threading.get_ident(): 0}
    bars = [
        Bar(lanes.setdefault(thread, len(lanes)), op, node, (t0 - started) / 1e6,
            (t1 - started) / 1e6)
        for thread, op, node, t0, t1 in heard
    ]  # fmt: skip
    made = Run(name, workers, length, bars)
    if not there:  # the times of threads say nothing about streams
        found = report.last_report() if options else None
        made.spent = _of_lanes(found.lanes) if found else _of_one(bars, length, queued / 1e6)
    return made


def _of_lanes(lanes: list) -> Spent:
    names = ("alive", "cpu", "computed", "queued", "waited", "over")
    sums = {name: sum(getattr(lane, name) for lane in lanes) / 1e6 for name in names}
    return Spent(longest=max(lane.alive for lane in lanes) / 1e6, **sums)


def _of_one(bars: list[Bar], length: float, queued: float) -> Spent:
    """For the serial engine, whose one thread waits only for a processor."""
    queued = min(queued, length)
    rules = sum(bar.end - bar.start for bar in bars)
    return Spent(length, length, rules * (1 - queued / length), length - queued, queued)


def model_of(order: list, runs: Iterable[Run]) -> Model:
    """The graph with, for each node, its smallest time over the runs."""
    least: dict[int, float] = {}
    for recorded in runs:
        for bar in recorded.bars:
            spent = bar.end - bar.start
            least[bar.node] = min(least.get(bar.node, spent), spent)
    return Model.of(order, [least.get(place.number, 0.0) for place in order])


def split(run: Run, model: Model) -> dict[str, float]:
    """The parts of the time of a run's workers; see Run."""
    total, spent = run.workers * run.length, run.spent
    if spent is None:  # on a GPU
        rules = sum(bar.end - bar.start for bar in run.bars)
        wanted = {"work": model.work, "slower": rules - model.work, "lock": 0.0,
                  "dependency": 0.0, "imbalance": 0.0}  # fmt: skip
    else:
        alone = run.length - spent.longest
        blocked = spent.alive - spent.computed - spent.waited - spent.over
        queued = min(spent.queued, blocked)
        work = min(model.work, spent.cpu)
        counted = processors.queued() is not None
        wanted = {
            "work": work,
            "slower": spent.cpu - work,
            **({"no processor": queued} if counted else {}),
            "lock" if counted else "lock or processor": blocked - queued,
            "dependency": spent.waited,
            "imbalance": spent.over + (run.workers - 1) * alone,
        }
    parts, left = {}, total
    for name, part in wanted.items():  # clocks differ by some µs: no part may be negative
        parts[name] = min(max(0.0, part), left)
        left -= parts[name]
    return {**parts, "scheduling": left}


def as_it_was(run: Run, model: Model, numbers: list[int]) -> tuple[float, float]:
    """T1 and T∞ with the times of this run, including its scheduling and its waits for locks.

    All vertices share the time outside of nodes. The time of one thread before the others came and
    after they had gone lies on every path.
    """
    work = run.workers * run.length - run.losses["dependency"] - run.losses["imbalance"]
    alone = run.length - run.spent.longest if run.spent else 0.0
    took = {bar.node: bar.end - bar.start for bar in run.bars}
    more = max(0.0, work - alone - sum(took.values())) / len(numbers)
    costs = [took.get(number, 0.0) + more for number in numbers]
    return work, alone + Model(model.ops, costs, model.parents).span
