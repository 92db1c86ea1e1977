"""A model of how long a data-parallel step takes on 2 to 1,024 ranks.

A step is forward, backward, the rest of the communication, optimizer. Bucket i may start when
it is full and the one before it has been sent; the step goes on when the last has arrived:

    begin_i = max(ready_i, end_{i-1})      end_i = begin_i + T(bytes_i, p)
    step    = forward + max(backward, end_last) + rest

with the two usual costs of an all-reduce of n bytes over p ranks (Thakur, Rabenseifner and Gropp,
2005), latency α seconds a message, bandwidth B bytes a second:

    ring   2(p − 1) α + 2 (p − 1)/p · n/B        each rank sends 2(p − 1) pieces of n/p
    tree   2 ⌈log₂ p⌉ α + 2 ⌈log₂ p⌉ · n/B       up to the root and down again

The forward, backward and ready times are measured in one process (`measure_step`), α and B between
two ranks (`measure_link`). Where ranks share cores, computing takes ranks/cores as long.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from .data_parallel import DataParallel
from .ranks import world

RANKS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Step:
    """One step of one rank, alone; in seconds, from the begin of the backward.

    ready   when each bucket was full, in the order in which they are sent
    nbytes  what each weighs
    rest    optimizer and the rest of the step
    """

    forward: float
    backward: float
    rest: float
    ready: tuple[float, ...]
    nbytes: tuple[int, ...]

    @property
    def total(self) -> float:
        return self.forward + self.backward + self.rest


@dataclass(frozen=True)
class Link:
    """The connection of two ranks: α in seconds, B in bytes a second.

    cores   of a machine, for ranks that share them (None: each rank has its own)
    """

    latency: float
    bandwidth: float
    cores: int | None = None


@dataclass(frozen=True)
class Prediction:
    """A step on p ranks, in seconds; speedup: rows a second relative to one rank."""

    ranks: int
    algorithm: str
    step: float
    plain: float
    communication: float
    hidden: float
    speedup: float


def all_reduce_time(nbytes: float, ranks: int, link: Link, algorithm: str = "ring") -> float:
    """Seconds for the sum of nbytes over the ranks, by the formulas above."""
    if ranks == 1:
        return 0.0
    if algorithm == "ring":
        share = 2 * (ranks - 1) / ranks
        return 2 * (ranks - 1) * link.latency + share * nbytes / link.bandwidth
    if algorithm == "tree":
        rounds = 2 * math.ceil(math.log2(ranks))
        return rounds * (link.latency + nbytes / link.bandwidth)
    raise ValueError(f"all_reduce_time: algorithm is 'ring' or 'tree', got {algorithm!r}")


def predict(
    step: Step, link: Link, ranks: int, algorithm: str = "ring", slower: float | None = None
) -> Prediction:
    """The step on this many ranks: overlapped with backward, and plain (all of it afterwards).

    slower   how many times as long computing takes where ranks share a machine, as measured there
             (None: ranks/cores)
    """
    shared = max(1.0, ranks / link.cores) if link.cores else 1.0
    slower = shared if slower is None else slower
    end = total = 0.0
    for ready, nbytes in zip(step.ready, step.nbytes, strict=True):
        took = all_reduce_time(nbytes, ranks, link, algorithm) * shared
        end = max(ready * slower, end) + took
        total += took
    alone, backward = step.total * slower, step.backward * slower
    exposed = max(0.0, end - backward)
    overlapped = alone + exposed
    hidden = 1 - exposed / total if total else 0.0
    return Prediction(
        ranks, algorithm, overlapped, alone + total, total, hidden, ranks * step.total / overlapped
    )


def predictions(step: Step, link: Link, ranks: Sequence[int] = RANKS) -> list[Prediction]:
    """For each number of ranks, ring and tree."""
    return [predict(step, link, p, how) for p in ranks for how in ("ring", "tree")]


# -- measuring -------------------------------------------------------------------------------------


def measure_step(
    model: DataParallel,
    loss: Callable[[], Any],
    rest: Callable[[], Any] = lambda: None,
    repeats: int = 10,
) -> Step:
    """Median times of one rank's step without communication: loss() is the forward, rest() what
    follows the backward. Meant for a world of one rank; elsewhere it holds the others back.
    """
    if not isinstance(model, DataParallel):
        raise TypeError(
            f"measure_step: model is a {type(model).__name__}, which has no buckets; "
            "wrap it: model = mg.distributed.DataParallel(model)"
        )
    seen = []
    for _ in range(repeats + 2):
        model.zero_grad()
        t0 = perf_counter()
        y = loss()
        t1 = perf_counter()
        y.backward()
        t2 = perf_counter()
        rest()
        t3 = perf_counter()
        timeline = model.timeline
        if timeline is None:
            raise ValueError(
                "measure_step: loss() did not come from model(...), of which it is to be"
            )
        # the timeline counts from the first complete gradient; its end is the backward's
        first = (t2 - t1) - timeline.done / 1e9
        seen.append((t1 - t0, t2 - t1, t3 - t2, *(first + t / 1e9 for t in timeline.ready)))
    forward, backward, after, *ready = (median(column) for column in zip(*seen[2:], strict=True))
    sizes = tuple(bucket.nbytes for bucket in model.buckets)
    ready = [min(max(0.0, t), backward) for t in ready]
    return Step(forward, backward, after, tuple(ready), sizes)


def measure_link(small: int = 8, large: int = 8 << 20, repeats: int = 20) -> Link:
    """α and B from all-reduces of two sizes between the ranks there are; the same on each rank."""
    here = world()
    if here.size == 1:
        raise ValueError("measure_link: there must be two ranks or more")
    transport = here.transport("cpu")
    times = []
    for nbytes in (small, large):
        buffer, seen = np.zeros(nbytes // 4, np.float32), []
        for _ in range(repeats + 3):
            here.wait(transport.barrier(), "measure_link")
            t0 = perf_counter()
            here.wait(transport.all_reduce(buffer, "sum"), "measure_link")
            seen.append(perf_counter() - t0)
        times.append(median(seen[3:]))
    p = here.size
    latency = times[0] / (2 * (p - 1))
    bandwidth = 2 * (p - 1) / p * large / max(times[1] - times[0], 1e-9)
    agreed = np.array([latency, bandwidth])
    here.wait(transport.broadcast(agreed, 0), "measure_link")
    return Link(float(agreed[0]), float(agreed[1]))


# -- showing ---------------------------------------------------------------------------------------


def table(step: Step, link: Link, ranks: Sequence[int] = RANKS) -> str:
    """The predictions as text, in milliseconds."""
    lines = [
        f"one rank: {step.total * 1e3:.2f} ms a step (forward {step.forward * 1e3:.2f}, backward "
        f"{step.backward * 1e3:.2f}, rest {step.rest * 1e3:.2f}); {len(step.nbytes)} buckets, "
        f"{sum(step.nbytes) / 1e6:.1f} MB; latency {link.latency * 1e6:.1f} µs, bandwidth "
        f"{link.bandwidth / 1e9:.2f} GB/s"
        + (f"; {link.cores} cores for all" if link.cores else ""),
        f"{'ranks':>6}  {'algorithm':<10}{'step':>10}{'plain':>10}{'all-reduce':>12}"
        f"{'hidden':>8}{'speedup':>9}",
    ]
    for row in predictions(step, link, ranks):
        lines.append(
            f"{row.ranks:>6}  {row.algorithm:<10}{row.step * 1e3:>10.2f}{row.plain * 1e3:>10.2f}"
            f"{row.communication * 1e3:>12.2f}{row.hidden:>8.0%}{row.speedup:>9.1f}"
        )
    return "\n".join(lines)


def svg(step: Step, link: Link, measured: Sequence[tuple[int, float]] = (), title: str = "") -> str:
    """Step time over ranks as a picture: ring and tree, overlapped and plain, dots measured."""
    rows = predictions(step, link)
    width, height, left, top = 640, 360, 70, 40
    highest = max([row.plain for row in rows] + [t for _, t in measured]) * 1.05
    last = math.log2(RANKS[-1])

    def at(ranks: int, seconds: float) -> tuple[float, float]:
        x = left + (width - left - 20) * math.log2(ranks) / last
        return x, top + (height - top - 50) * (1 - seconds / highest)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="22" font-size="14">{escape(title or "step time over ranks")}</text>',
    ]
    for k in range(5):
        x, y = at(1, highest * k / 4)
        lines.append(f'<path d="M{x:.1f} {y:.1f}H{width - 20}" stroke="#ddd"/>')
        label = f"{highest * k / 4 * 1e3:.3g} ms"
        lines.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for ranks in (1, *RANKS):
        x, y = at(ranks, 0)
        lines.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{ranks}</text>')
    colors = {"ring": "#1f6fb4", "tree": "#c4570b"}
    for name, color in colors.items():
        for kind, dash in (("step", ""), ("plain", ' stroke-dasharray="5 4"')):
            points = [at(r.ranks, getattr(r, kind)) for r in rows if r.algorithm == name]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            lines.append(
                f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"{dash}/>'
            )
    for ranks, seconds in measured:
        x, y = at(ranks, seconds)
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
    legend = "ring blue, tree orange; dashed: communication after the backward; dots: measured"
    lines.append(f'<text x="{left}" y="{height - 8}">ranks; {legend}</text>')
    return "\n".join([*lines, "</svg>\n"])
