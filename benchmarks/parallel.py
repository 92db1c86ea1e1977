"""The parallel backward beside the serial one: where it gains, and where it says it does not.

    python benchmarks/parallel.py [--repeats 30] [--workers 2] [--json out.json] [workload ...]

Workloads: an ensemble of MLPs (wide, nodes of 0.3 ms and more), a convolutional net with branches,
attention heads as separate branches, a deep chain (no gain is expected), and small graphs of
200 µs and more, which gating must leave as they are. For each, in turns: serial and parallel with
BLAS at one thread each (same bits, checked), and serial with BLAS on all cores, the other honest
baseline. Quoted are medians with quartiles; ratios are medians of the pairwise ratios.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np

import minigrad as mg
from minigrad.backends import blas

_leaves: list[mg.Tensor] = []  # of the workload built last: a graph knows its leaves only weakly


def leaf(rng, *shape):
    values = rng.standard_normal(shape, dtype=np.float32) / np.sqrt(shape[0])
    _leaves.append(mg.tensor(values, requires_grad=True))
    return _leaves[-1]


def ensemble(rng, members=8, width=384, depth=3, batch=256):
    """Members that share nothing but the input."""
    x, losses = mg.tensor(rng.standard_normal((batch, width), dtype=np.float32)), []
    for _ in range(members):
        h = x
        for _ in range(depth):
            h = mg.tanh(h @ leaf(rng, width, width))
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


WORKLOADS = {f.__name__: f for f in (ensemble, inception, heads, chain, small, bushy)}


def timed(step: Callable) -> float:
    started = perf_counter()
    step()
    return (perf_counter() - started) * 1e3


def measure(name: str, repeats: int, workers: int) -> dict:
    """Times in ms of the three ways, in turns, and the ratios of each pair."""
    _leaves.clear()
    loss = WORKLOADS[name](np.random.default_rng(0))
    leaves = list(_leaves)
    options = {"engine": "parallel", "workers": workers}

    def serial():
        return mg.grad(loss, leaves, retain_graph=True)

    def parallel():
        return mg.grad(loss, leaves, retain_graph=True, **options)

    with blas.one_thread():
        forced = mg.grad(loss, leaves, retain_graph=True, min_work=0, **options)
        same = all(a.data.tobytes() == b.data.tobytes() for a, b in zip(serial(), forced))
        for _ in range(10):  # the engine tries both ways before it settles
            parallel(), serial()
        pairs = [(timed(serial), timed(parallel)) for _ in range(repeats)]
        decision = str(mg.engine.last_report())
    timed(serial)
    return {
        "workload": name,
        "nodes": len(mg.core.graph.reachable([loss.node])),
        "same_bits": same,
        "serial": [a for a, _ in pairs],
        "parallel": [b for _, b in pairs],
        "serial_all_cores": [timed(serial) for _ in range(repeats)],
        "ratio": statistics.median(a / b for a, b in pairs),
        "decision": decision,
    }


def spread(times: list[float]) -> str:
    low, middle, high = statistics.quantiles(times, n=4)
    return f"{middle:8.3f} ({low:.3f}–{high:.3f})"


def show(row: dict) -> None:
    print(f"\n{row['workload']}: {row['nodes']} places, same bits: {row['same_bits']}")
    for name, title in (("serial", "serial, BLAS 1 thread"), ("parallel", "parallel, gated"),
                        ("serial_all_cores", "serial, BLAS all cores")):  # fmt: skip
        print(f"  {title:24} {spread(row[name])} ms")
    middle = {k: statistics.median(row[k]) for k in ("serial", "parallel", "serial_all_cores")}
    print(f"  parallel is {row['ratio']:.2f}× serial (median of pairs); {row['decision']}")
    if middle["serial_all_cores"] < middle["parallel"]:
        print("  BLAS with all cores is the better choice here.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("workloads", nargs="*", metavar="workload", help=", ".join(WORKLOADS))
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json")
    options = parser.parse_args()
    unknown = [name for name in options.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"no workload {unknown[0]!r}; there are {', '.join(WORKLOADS)}")
    if blas.threads() is None:
        print("threadpoolctl is missing: BLAS is not held to one thread", file=sys.stderr)
    print(f"numpy {np.__version__}, BLAS threads {blas.threads()}, cores {os.cpu_count()}")
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
