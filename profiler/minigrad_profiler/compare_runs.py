"""Recorded backwards: when each node ran and on which thread, and where the workers' time went."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import minigrad as mg
from minigrad.backends.device import device_of
from minigrad.engine import events
from minigrad.engine.graph import Leaf
from minigrad.parallel import report

from .compare_model import Model


@dataclass(slots=True)
class Bar:
    """One node in a recorded run: where it ran, from when to when (ms from the start)."""

    lane: int
    op: str
    node: int
    start: float
    end: float
    critical: bool = False


@dataclass(slots=True)
class Run:
    """A recorded backward: its bars, its length, and where the time of its workers went.

    losses: milliseconds over all workers, which add up to workers × length:
    work        what the nodes take in the serial engine
    slower      the nodes took longer than that (caches, memory)
    lock, GIL   waiting for the interpreter's or the scheduler's lock, or for a processor
    dependency  no node was ready, but later one was
    imbalance   a worker began late, or had nothing more to do
    scheduling  everything else: adding up, choosing, waking
    """

    name: str
    workers: int
    length: float
    bars: list[Bar]
    losses: dict[str, float] = field(default_factory=dict)


def on_gpu(arrays: list) -> bool:
    """Whether one of the arrays lies on a GPU."""
    return any(array is not None and device_of(array) != "cpu" for array in arrays)


def wait_for(gradients: list) -> None:
    """Wait until the device is done; the host has no more to wait for."""
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
        started = perf_counter_ns()
        wait_for(run(**options))
        length = (perf_counter_ns() - started) / 1e6
    lanes: dict[int, int] = {mg.cuda.current_stream().ptr if there else threading.get_ident(): 0}
    bars = [
        Bar(lanes.setdefault(thread, len(lanes)), op, node, (t0 - started) / 1e6,
            (t1 - started) / 1e6)
        for thread, op, node, t0, t1 in heard
    ]  # fmt: skip
    made = Run(name, workers, length, bars)
    found = report.last_report() if options else None
    if found is not None and not there:  # what its threads did says nothing of its streams
        made.losses = _sums(found.lanes)
    return made


def _sums(lanes: list) -> dict[str, float]:
    names = ("rules", "cpu", "waited", "over", "locked", "alive")
    return {name: sum(getattr(lane, name) for lane in lanes) / 1e6 for name in names}


def model_of(order: list, serial: list[Run]) -> Model:
    """The graph with, for each node, the smallest time that the serial engine took for it."""
    least: dict[int, float] = {}
    for recorded in serial:
        for bar in recorded.bars:
            spent = bar.end - bar.start
            least[bar.node] = min(least.get(bar.node, spent), spent)
    return Model.of(order, [least.get(place.number, 0.0) for place in order])


def split(run: Run, model: Model) -> dict[str, float]:
    """Where the time of a run's workers went; see Run."""
    total, sums = run.workers * run.length, run.losses
    if not sums:
        rules = sum(bar.end - bar.start for bar in run.bars)
        return {"work": model.work, "slower": rules - model.work, "lock, GIL": 0.0,
                "dependency": 0.0, "imbalance": 0.0, "scheduling": total - rules}  # fmt: skip
    rules = sums["rules"]  # the serial engine's own time may hold waits for a processor too, so
    work = min(model.work, rules)  # what the processor gave may be less than that
    slower = max(0.0, min(sums["cpu"], rules) - work)
    parts = {
        "work": work,
        "slower": slower,
        "lock, GIL": rules - work - slower + sums["locked"],
        "dependency": sums["waited"],
        "imbalance": sums["over"] + max(0.0, total - sums["alive"]),
    }
    return {**parts, "scheduling": total - sum(parts.values())}
