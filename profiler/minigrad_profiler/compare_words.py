"""The conclusions of a comparison, in sentences: the best engine, and the limit of the gain."""

import statistics
from typing import Any

from minigrad.instrument.table import counted

_CLEAR = 1.05  # times as fast: less does not differ from noise
_WORTH = 0.1  # of the workers' time: a smaller cause limits nothing
_NOISY = 0.1  # of the serial engine's time without a processor: more makes the figures meaningless


def verdict(found: Any) -> str:
    """Which engine is best here, in a sentence or two."""
    kinds = [way for way in found.ways if "gated" not in way.name]  # gated is one of the others
    best = min(kinds, key=lambda way: way.median)
    gain, clear = _gain(found, best)
    if best.name == "serial" or not clear:
        return "Nothing is clearly faster than the serial engine with BLAS at one thread here."
    measured = f"{gain:.2f}× the serial engine with BLAS at one thread"
    if best.workers and gain > _CLEAR * (allowed := found.allowed(best.workers)):
        return (
            f"{best.name} measured {measured}, but the graph allows {allowed:.2f}×: the rest is "
            "the machine's noise, or caches."
        )
    return f"Fastest: {best.name}, {measured}. {_why(found, best)}"


def _gain(found: Any, way: Any) -> tuple[float, bool]:
    """The speedup over the serial engine, and whether it exceeds the noise.

    It does if three quarters of the turns and the fastest of all turns say so. An occasional
    disturbance by another program moves the medians, but hardly those.
    """
    serial = found.way("serial").seen
    gains = [before / after for before, after in zip(serial, way.seen, strict=True)]
    low = statistics.quantiles(gains, n=4, method="inclusive")[0] if len(gains) > 1 else gains[0]
    gain = statistics.median(gains)
    return gain, low > 1 and min(gain, min(serial) / min(way.seen)) >= _CLEAR


def _why(found: Any, best: Any) -> str:
    if best.name.startswith("serial, BLAS"):
        return "Leave the cores to BLAS: its threads gain more here than independent nodes do."
    if best.workers:
        names = [way for way in found.ways if way.name.startswith("serial, BLAS")]
        other = f"; BLAS with all its threads takes {names[0].median:.2f} ms" if names else ""
        return f"Independent nodes keep several workers busy{other}."
    return "The order is read from the tape, which saves walking the graph."


def disturbed(found: Any) -> str:
    """How far other programs disturbed the measurement; "" if they did not, or if nothing counts
    it."""
    serial = found.way("serial")
    share = sum(serial.queued) / sum(serial.seen)
    if share < _NOISY:
        return ""
    return (
        f"The serial engine was ready to run but had no processor for {share:.0%} of its time: "
        "other programs were running. Repeat this on a quiet machine."
    )


def limit(found: Any) -> str:
    """The limit of the gain from several workers: the largest cause, with its share.

    A cause counts as far as it takes more of the workers' time than of the serial engine's. A cause
    that slows both alike takes no gain away. All excesses add up to p Tp − T, where T is the serial
    engine's time.
    """
    serial, run = found.runs[0], max(found.runs[1:] or found.runs, key=lambda run: run.workers)
    if run.workers == 1:
        return "What limits the gain: one worker was tried, which can gain nothing."
    total = run.workers * run.length
    shares = {
        name: max(0.0, spent - serial.losses.get(name, 0.0)) / total
        for name, spent in run.losses.items()
        if name != "work"
    }
    shares["graph"] = shares.pop("dependency") + shares.pop("imbalance")
    causes = sorted(shares, key=lambda name: -shares[name])
    first, second = causes[:2]
    who = f"What limits the gain with {run.workers} workers"
    if shares[first] < _WORTH:
        return f"{who}: nothing much; they are {serial.length / run.length:.2f}× as fast as one."
    told = f"{who}: {_cause(found, run, first)} ({shares[first]:.0%} of their time)"
    if shares[second] >= max(_WORTH, shares[first] / 2):
        told += f", then {_cause(found, run, second)} ({shares[second]:.0%})"
    return f"{told}."


def _cause(found: Any, run: Any, name: str) -> str:
    """A cause in words, with the figure that shows it."""
    model, p = found.model, run.workers
    if name == "graph":
        if found.allowed(p) > 0.9 * p:
            return "workers without a ready node, though the graph has enough for all"
        return (
            f"the graph, whose longest path takes {model.span:.2f} of {model.work:.2f} ms and "
            f"which allows {found.allowed(p):.2f}×"
        )
    if name == "no processor" and p > found.cores:
        return f"the machine, which has {counted(found.cores, 'processor')} for them"
    if name == "scheduling":
        nodes = sum(op != "" for op in model.ops)
        return f"the engine's own time, for {nodes:,} nodes of {_each(model.work / nodes)} each"
    return {
        "no processor": "other programs, which had the processors",
        "slower": "nodes that slow each other down, in shared caches and memory",
        "lock": "the interpreter's lock, which rules of small nodes hold",
        "lock or processor": "waiting for the interpreter's lock or for a processor",
    }[name]


def _each(ms: float) -> str:
    return f"{ms * 1000:.0f} µs" if ms < 1 else f"{ms:.2f} ms"
