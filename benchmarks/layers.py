"""Layers, forward and backward, beside PyTorch eager in one process; memory of attention in blocks.

    python benchmarks/layers.py [--repeats 20] [--threads 2] [--no-memory] [--json out.json]

float32, both on the same number of threads. Runs alternate between the engines, so a drift of the
machine's speed meets both. Quoted are medians with quartiles; ratios are medians of the pairwise
ratios. Run it with OPENBLAS_CORETYPE unset, or NumPy's product may be held to half its speed.

Memory: what NumPy allocated at the peak of attention of 1×8×4096×64, forward and backward, seen by
tracemalloc, in the plain form and in blocks.
"""

import argparse
import json
import statistics
import sys
import tracemalloc
from collections.abc import Callable
from time import perf_counter

import numpy as np
from small_ops import conditions, spread

import minigrad as mg
from minigrad import nn

LENGTH = 4096


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def step(function: Callable, leaves: list, g) -> Callable:
    """Forward, backward with cotangent g, gradients cleared."""

    def run():
        for leaf in leaves:
            leaf.grad = None
        function(*leaves).backward(g)

    return run


def transformer(layer: Callable, activation: str, x, leaf: Callable) -> tuple[Callable, list]:
    """A block of 8 sequences of 64, 128 features, 4 heads, feed-forward 512, no dropout."""
    block = layer(128, 4, 512, dropout=0.0, activation=activation, batch_first=True)
    return lambda x, *parameters: block(x), [leaf(x), *block.parameters()]


def workloads(leaf: Callable, constant: Callable, f: dict[str, Callable]) -> dict[str, Callable]:
    """{name: step} with the layers in f, of minigrad or of PyTorch."""
    rows, row = values(2000, 2000), values(2000)
    small, large = values(32, 3, 32, 32), values(32, 32, 16, 16)
    made = {
        "layer_norm 2000×2000": (f["layer_norm"], [rows, row, row], rows),
        "softmax 2000×2000": (f["softmax"], [rows], rows),
        "conv2d 32×3×32×32 → 32, 3×3": (
            f["conv2d"], [small, values(32, 3, 3, 3), values(32)], values(32, 32, 30, 30)),
        "conv2d 32×32×16×16 → 64, 3×3": (
            f["conv2d"], [large, values(64, 32, 3, 3), values(64)], values(32, 64, 14, 14)),
        "attention 8×4×64×32": (f["attention"], [values(8, 4, 64, 32)] * 3, values(8, 4, 64, 32)),
    }  # fmt: skip
    steps = {
        name: step(fn, [leaf(v) for v in leaves], constant(g))
        for name, (fn, leaves, g) in made.items()
    }
    for activation in ("relu", "gelu"):
        block, leaves = transformer(f["transformer"], activation, values(8, 64, 128), leaf)
        name = f"transformer 8×64×128, 4 heads, {activation}"
        steps[name] = step(block, leaves, constant(values(8, 64, 128)))
    return steps


def ours() -> dict[str, Callable]:
    return workloads(
        lambda v: mg.tensor(v, requires_grad=True),
        mg.tensor,
        {
            "layer_norm": lambda x, w, b: mg.layer_norm(x, 2000, w, b),
            "softmax": mg.softmax,
            "conv2d": mg.conv2d,
            "attention": mg.scaled_dot_product_attention,
            "transformer": nn.TransformerEncoderLayer,
        },
    )


def theirs(threads: int) -> dict[str, Callable]:
    """PyTorch's, or nothing where it is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(threads)
    functional = torch.nn.functional
    return workloads(
        lambda v: torch.tensor(v, requires_grad=True),
        torch.tensor,
        {
            "layer_norm": lambda x, w, b: functional.layer_norm(x, (2000,), w, b),
            "softmax": lambda x: torch.softmax(x, -1),
            "conv2d": functional.conv2d,
            "attention": functional.scaled_dot_product_attention,
            "transformer": torch.nn.TransformerEncoderLayer,
        },
    )


def milliseconds(run: Callable) -> float:
    start = perf_counter()
    run()
    return (perf_counter() - start) * 1e3


def compare(repeats: int, threads: int) -> dict:
    """Print and return the times and ratios of every workload."""
    figures, peers = {}, theirs(threads)
    print(f"\n{'milliseconds, median (quartiles)':38}{'minigrad':>24}{'PyTorch':>24}   ratio")
    for name, mine in ours().items():
        peer = peers.get(name)
        for run in (mine, peer) * 2:
            if run:
                run()
        times = [(milliseconds(mine), milliseconds(peer) if peer else 0) for _ in range(repeats)]
        a, b = [list(t) for t in zip(*times, strict=True)]
        if not peer:
            print(f"{name:38}{spread(a):>24}{'not installed':>24}")
            continue
        ratio = statistics.median(x / y for x, y in times)
        print(f"{name:38}{spread(a):>24}{spread(b):>24}{ratio:8.2f}")
        figures[name] = {"minigrad": a, "pytorch": b, "ratio": ratio}
    return figures


def attention_memory(block_size: int | None, blocks: bool) -> tuple[float, float]:
    """(MB at the peak beyond the arguments, seconds) of forward and backward."""
    q, k, v = (mg.tensor(values(1, 8, LENGTH, 64), requires_grad=True) for _ in range(3))
    g = values(1, 8, LENGTH, 64)
    tracemalloc.start()
    start = perf_counter()
    if blocks:
        y = mg.scaled_dot_product_attention(q, k, v, block_size=block_size)
    else:
        y = mg.softmax(q * 0.125 @ k.mT) @ v
    y.backward(g)
    seconds = perf_counter() - start
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-memory", action="store_true", help="skip the memory of attention")
    parser.add_argument("--json", help="write the figures here as JSON too")
    options = parser.parse_args()
    print(conditions())
    figures = compare(options.repeats, options.threads)
    if not options.no_memory:
        print(f"\nattention 1×8×{LENGTH}×64, forward and backward: peak memory, time")
        for name, blocks in (("in blocks", True), ("plain", False)):
            megabytes, seconds = attention_memory(None, blocks)
            print(f"{name:38}{megabytes:10.0f} MB{seconds:8.2f} s")
            figures[f"attention {name}"] = {"peak_mb": megabytes, "seconds": seconds}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
