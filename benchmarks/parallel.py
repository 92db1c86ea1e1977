"""The parallel backward beside the serial one: where it gains, and where it says it does not.

    python benchmarks/parallel.py [--repeats 30] [--workers 2] [--json out.json] [workload ...]

Workloads: an ensemble of MLPs (wide, nodes of 0.3 ms and more), in float32 and float64, and one of
larger layers; a convolutional net with branches, attention heads as separate branches, a deep chain
(no gain is expected), and small graphs of 200 µs and more, which gating must leave as they are.

For each, in turns: serial and parallel with BLAS at one thread each (same bits, checked), and
serial with BLAS on all cores, the other honest baseline. For ensembles also what the machine gives:
as many threads as workers, each the serial backward of its share of the members, with no scheduler.
Quoted are medians with quartiles; ratios are medians of the pairwise ratios. Gradients are let go
after the clock has stopped.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from functools import partial
from inspect import signature
from time import perf_counter

import numpy as np

import minigrad as mg
from minigrad.backends import blas, heap, pool, processors
from minigrad.engine.graph import reachable
from minigrad.parallel.work import cost_of

_leaves: list[mg.Tensor] = []  # of the workload built last: a graph knows its leaves only weakly


def leaf(rng, *shape, dtype="float32"):
    values = rng.standard_normal(shape, dtype=dtype) * shape[0] ** -0.5
    _leaves.append(mg.tensor(values, requires_grad=True))
    return _leaves[-1]


def ensemble(rng, members=8, width=384, depth=3, batch=256, dtype="float32"):
    """Members that share nothing but the input."""
    x, losses = mg.tensor(rng.standard_normal((batch, width), dtype=dtype)), []
    for _ in range(members):
        h = x
        for _ in range(depth):
            h = mg.tanh(h @ leaf(rng, width, width, dtype=dtype))
        losses.append((h * h).mean())
    return sum(losses)


def inception(rng, blocks=2, batch=8, channels=24, size=28):
    """Blocks of three branches: 1×1, 3×3 and 5×5 convolutions, concatenated."""
    h = mg.tensor(rng.standard_normal((batch, channels, size, size), dtype=np.float32))
    for _ in range(blocks):
        parts = []
        for k in (1, 3, 5):
            w = leaf(rng, channels // 3, h.shape[1], k, k)
            parts.append(mg.relu(mg.conv2d(h, w, padding=k // 2)))
        h = mg.concatenate(parts, axis=1)
    return (h * h).mean()


def heads(rng, count=6, tokens=256, width=192):
    """Attention heads written as separate branches."""
    x = mg.tensor(rng.standard_normal((tokens, width), dtype=np.float32))
    outs = []
    for _ in range(count):
        q, k, v = (x @ leaf(rng, width, 64) for _ in range(3))
        outs.append(mg.softmax(q @ k.T * 0.125, axis=-1) @ v)
    y = mg.concatenate(outs, axis=1) @ leaf(rng, count * 64, width)
    return (y * y).mean()


def chain(rng, depth=40, batch=64, width=256):
    """Each node waits for the one before: nothing can run beside it but the weight's gradient."""
    h, w = mg.tensor(rng.standard_normal((batch, width), dtype=np.float32)), leaf(rng, width, width)
    h = h @ w
    for _ in range(depth):
        h = mg.tanh(h)
    return (h * h).mean()


def small(rng, count=100):
    """A chain of 100 multiplications of 32×32: many nodes, each of a few microseconds."""
    x, b = leaf(rng, 32, 32), leaf(rng, 32, 32)
    for _ in range(count):
        x = x * b
    return x.sum()


def bushy(rng, count=24):
    """24 short branches of small nodes."""
    x = leaf(rng, 16, 16)
    return sum((mg.tanh(x * float(i)) * x).sum() for i in range(count))


MEMBERS = 8
WORKLOADS: dict[str, Callable] = {
    "ensemble": ensemble,
    "ensemble64": partial(ensemble, dtype="float64"),
    "wide": partial(ensemble, width=512, batch=512),
    **{f.__name__: f for f in (inception, heads, chain, small, bushy)},
}


def built(name: str, **options) -> tuple[mg.Tensor, list[mg.Tensor]]:
    """The loss of a workload, and its leaves."""
    _leaves.clear()
    return WORKLOADS[name](np.random.default_rng(0), **options), list(_leaves)


def timed(step: Callable) -> float:
    """Milliseconds; the gradients are let go after the clock has stopped."""
    started = perf_counter()
    result = step()
    spent = perf_counter() - started
    del result
    return spent * 1e3


def side_by_side(name: str, workers: int) -> Callable:
    """The backward of an ensemble without a scheduler: each thread its share of the members."""
    shares = [built(name, members=MEMBERS // workers) for _ in range(workers)]

    def run() -> list:
        waiting, found = list(shares), []

        def loop() -> None:
            try:
                while True:
                    found.append(mg.grad(*waiting.pop(), retain_graph=True))
            except IndexError:
                return

        pool.together(loop, workers)
        return found

    return run


def sizes(loss: mg.Tensor) -> str:
    """How large its nodes are, in words; from what they took with BLAS at one thread."""
    nodes = [p for p in reachable([loss.node]) if hasattr(p, "op")]
    costs = [cost_of(node, node.plan).with_one(1) for node in nodes]
    large = [cost for cost in costs if cost >= 300]
    share = sum(large) / sum(costs)
    return f"{len(large)} of {len(nodes)} nodes take 0.3 ms and more, {share:.0%} of the work"


def measure(name: str, repeats: int, workers: int) -> dict:
    """Times in ms of the ways, in turns, and the ratios of each pair."""
    loss, leaves = built(name)
    options = {"engine": "parallel", "workers": workers}

    def serial():
        return mg.grad(loss, leaves, retain_graph=True)

    def parallel():
        return mg.grad(loss, leaves, retain_graph=True, **options)

    ways = {"serial": serial, "parallel": parallel}
    if "members" in signature(WORKLOADS[name]).parameters and MEMBERS % workers == 0:
        ways["side by side"] = side_by_side(name, workers)
    with blas.one_thread():
        forced = mg.grad(loss, leaves, retain_graph=True, min_work=0, **options)
        same = all(a.data.tobytes() == b.data.tobytes() for a, b in zip(serial(), forced))
        for _ in range(10):  # the engine tries both ways before it settles
            for way in ways.values():
                way()
        turns = [{k: timed(way) for k, way in ways.items()} for _ in range(repeats)]
        decision = str(mg.engine.last_report())
    timed(serial)
    row = {
        "workload": name,
        "nodes": len(reachable([loss.node])),
        "sizes": sizes(loss),
        "same_bits": same,
        **{way: [turn[way] for turn in turns] for way in ways},
        "serial_all_cores": [timed(serial) for _ in range(repeats)],
        "ratios": [turn["serial"] / turn["parallel"] for turn in turns],
        "decision": decision,
    }
    if "side by side" in ways:
        row["bound"] = [turn["serial"] / turn["side by side"] for turn in turns]
    return row


def spread(numbers: list[float], digits: int = 3) -> str:
    numbers = numbers * 2 if len(numbers) == 1 else numbers  # --repeats 1: quantiles asks for two
    low, middle, high = statistics.quantiles(numbers, n=4)
    return f"{middle:8.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def show(row: dict) -> None:
    print(f"\n{row['workload']}: {row['nodes']} places, same bits: {row['same_bits']}")
    print(f"  {row['sizes']}")
    titles = {"serial": "serial, BLAS 1 thread", "parallel": "parallel, gated",
              "side by side": "members side by side",
              "serial_all_cores": "serial, BLAS all cores"}  # fmt: skip
    for way in [way for way in titles if way in row]:
        print(f"  {titles[way]:24} {spread(row[way])} ms, least {min(row[way]):.3f}")
    print(f"  parallel is {spread(row['ratios'], 2).strip()} × serial; {row['decision']}")
    if "bound" in row:
        print(f"  side by side is {spread(row['bound'], 2).strip()} × serial: the machine's bound")
    if statistics.median(row["serial_all_cores"]) < statistics.median(row["parallel"]):
        print("  BLAS with all cores is the better choice here.")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", metavar="workload", help=", ".join(WORKLOADS))
    parser.add_argument("--repeats", type=int, default=30, help="runs of each engine")
    parser.add_argument("--workers", type=int, default=2, help="of the parallel backward")
    parser.add_argument("--json", help="write the figures here as JSON too")
    options = parser.parse_args()
    unknown = [name for name in options.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"no workload {unknown[0]!r}; there are {', '.join(WORKLOADS)}")
    if blas.threads() is None:
        print("threadpoolctl is missing: BLAS is not held to one thread", file=sys.stderr)
    print(f"numpy {np.__version__}, BLAS threads {blas.threads()}, cores {os.cpu_count()}")
    print(f"{heap.said()}, {processors.said()}")
    rows = []
    for name in options.workloads or WORKLOADS:
        rows.append(measure(name, options.repeats, options.workers))
        show(rows[-1])
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
