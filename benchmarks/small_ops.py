"""Small ops, where the engine's own cost shows: minigrad beside PyTorch eager in one process.

    python benchmarks/small_ops.py [--repeats 60] [--json out.json]

Four workloads, float32: forward and backward of a chain of 100 multiplications of 32×32 by a second
leaf, and of ten (matmul, tanh) pairs; the chain without recording; and what recording one
multiplication adds to NumPy's own time.
Runs alternate between the engines, so a drift of the machine's speed meets both. Quoted are
medians; ratios are medians of the pairwise ratios. Run it with OPENBLAS_CORETYPE unset, or NumPy's
matrix product may be held to half its speed.
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
from minigrad.backends import heap, processors


def chain(x, b, clear: Callable) -> Callable:
    def step():
        clear()
        y = x
        for _ in range(100):
            y = y * b
        y.sum().backward()

    return step


def unrecorded(x, b, no_grad: Callable) -> Callable:
    def step():
        with no_grad():
            y = x
            for _ in range(100):
                y = y * b

    return step


def matmul_tanh(x, w, tanh: Callable, clear: Callable) -> Callable:
    def step():
        clear()
        h = x
        for _ in range(10):
            h = tanh(h @ w)
        h.sum().backward()

    return step


def workloads(
    values: list, leaf: Callable, tanh: Callable, no_grad: Callable
) -> dict[str, Callable]:
    a, b = (leaf(v) for v in values)

    def clear():
        a.grad = b.grad = None

    return {
        "100 × (32×32 multiply), sum, backward": chain(a, b, clear),
        "10 × (32×32 matmul, tanh), sum, backward": matmul_tanh(a, b, tanh, clear),
        "100 × (32×32 multiply) under no_grad": unrecorded(a, b, no_grad),
    }


def timed(step: Callable, count: int) -> float:
    """Microseconds for one step."""
    start = perf_counter()
    for _ in range(count):
        step()
    return (perf_counter() - start) / count * 1e6


def paired(first: Callable, second: Callable, repeats: int, count: int) -> tuple[list, list]:
    """Times of both, taken in turn."""
    timed(first, count), timed(second, count)
    pairs = [(timed(first, count), timed(second, count)) for _ in range(repeats)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def spread(times: list[float]) -> str:
    times = times * 2 if len(times) == 1 else times  # --repeats 1: quantiles asks for two
    low, middle, high = statistics.quantiles(times, n=4)
    return f"{middle:8.1f} ({low:.1f}–{high:.1f})"


def recording_cost(repeats: int) -> tuple[list, list]:
    """One recorded multiplication and NumPy's own."""
    values = np.random.default_rng(0).random((32, 32), dtype=np.float32)
    x, b = mg.tensor(values, requires_grad=True), mg.tensor(values, requires_grad=True)
    return paired(lambda: x * b, lambda: np.multiply(values, values), repeats, 1000)


def conditions() -> str:
    parts = [f"python {sys.version.split()[0]}", f"numpy {np.__version__}"]
    try:
        from threadpoolctl import threadpool_info

        np.ones((2, 2)) @ np.ones((2, 2))
        for pool in threadpool_info():
            parts.append(
                f"{pool['internal_api']} {pool.get('architecture', '')} ×{pool['num_threads']}"
            )
    except ImportError:
        parts.append("threadpoolctl not installed")
    parts.append(f"{heap.said()}, {processors.said()}")
    parts.append(f"OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', 'unset')}")
    return ", ".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=60, help="runs of each engine")
    parser.add_argument("--json", help="write the figures here as JSON too")
    options = parser.parse_args()
    values = [np.random.default_rng(i).random((32, 32), dtype=np.float32) / 8 for i in range(2)]
    ours = workloads(values, lambda v: mg.tensor(v, requires_grad=True), np.tanh, mg.no_grad)
    try:
        import torch

        theirs = workloads(
            values, lambda v: torch.tensor(v, requires_grad=True), torch.tanh, torch.no_grad
        )
    except ImportError:
        theirs = {}
    print(conditions())
    figures = {}
    print(f"\n{'microseconds, median (quartiles)':44}{'minigrad':>26}{'PyTorch':>26}   ratio")
    for name, step in ours.items():
        other = theirs.get(name)
        mine, peer = paired(step, other or (lambda: None), options.repeats, 10)
        if other is None:
            print(f"{name:44}{spread(mine):>26}{'not installed':>26}")
            continue
        ratio = statistics.median(a / b for a, b in zip(mine, peer, strict=True))
        print(f"{name:44}{spread(mine):>26}{spread(peer):>26}{ratio:8.2f}")
        figures[name] = {"minigrad": mine, "pytorch": peer, "ratio": ratio}
    recorded, bare = recording_cost(options.repeats)
    extra = statistics.median(a - b for a, b in zip(recorded, bare, strict=True))
    print(f"\nrecording x * y: {spread(recorded)} µs; np.multiply: {spread(bare)} µs")
    print(f"recording adds {extra:.2f} µs (median of pairs)")
    figures["recording"] = {"recorded": recorded, "numpy": bare, "extra": extra}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
