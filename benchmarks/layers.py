"""Layers and steps of training, forward and backward, beside PyTorch eager in one process.

    python benchmarks/layers.py [--only TEXT] [--repeats 20] [--threads 2] [--no-memory]
                                [--json out.json]

float32, all on the same number of threads. "compiled" is minigrad with compiled loops, where
numba is installed; its ratio is the last. --cpu: processor time of one thread, which other programs
disturb least. Runs alternate between the engines, so a drift of the
machine's speed meets both. Quoted are medians with quartiles; ratios are medians of the pairwise
ratios. Run it with OPENBLAS_CORETYPE unset, or NumPy's product may be held to half its speed.

Memory: what NumPy allocated at the peak of attention of 1×8×4096×64, forward and backward, seen by
tracemalloc, in the plain form and in blocks.
"""

import argparse
import json
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
from small_ops import conditions, spread
from workloads import convnet, mlp, step, transformer, values

import minigrad as mg
from minigrad import nn

LENGTH = 4096


# -- the work: (function of the leaves, their values, shape of the cotangent) ---------------------


def rows(f: Any) -> dict[str, tuple]:
    """Passes over 2,000×2,000: bound by memory and by the exponential."""
    x, row = values(2000, 2000), values(2000)
    return {
        "layer_norm 2000×2000": (lambda x, w, b: f.layer_norm(x, (2000,), w, b), [x, row, row], x),
        "batch_norm 2000×2000": (
            lambda x, w, b: f.batch_norm(x, None, None, w, b, training=True), [x, row, row], x),
        "softmax 2000×2000": (lambda x: f.softmax(x, -1), [x], x),
        "log_softmax 2000×2000": (lambda x: f.log_softmax(x, -1), [x], x),
        "gelu 2000×2000": (f.gelu, [x], x),
        "gelu(x)·tanh(x) + x/2, 2000×2000": (
            lambda x: f.gelu(x) * f.tanh(x) + x / 2, [x], x),
    }  # fmt: skip


def convolutions(f: Any) -> dict[str, tuple]:
    """name: x, w, stride, padding, groups, and the result's shape; all with a bias."""
    kinds = {
        "conv 32×3×32×32 → 32, 3×3": ((32, 3, 32, 32), (32, 3, 3, 3), 1, 0, 1, 30),
        "conv 32×32×16×16 → 64, 3×3": ((32, 32, 16, 16), (64, 32, 3, 3), 1, 0, 1, 14),
        "conv 32×32×32×32 → 64, 3×3, stride 2": ((32, 32, 32, 32), (64, 32, 3, 3), 2, 1, 1, 16),
        "conv 32×128×4×4 → 128, 3×3": ((32, 128, 4, 4), (128, 128, 3, 3), 1, 1, 1, 4),
        "conv 32×64×16×16 → 64, 3×3, depthwise": ((32, 64, 16, 16), (64, 1, 3, 3), 1, 1, 64, 16),
        "conv 32×64×16×16 → 128, 1×1": ((32, 64, 16, 16), (128, 64, 1, 1), 1, 0, 1, 16),
    }
    made = {}
    for name, (x, w, stride, padding, groups, out) in kinds.items():

        def conv(x: Any, w: Any, b: Any, how: tuple = (stride, padding, 1, groups)) -> Any:
            return f.conv2d(x, w, b, *how)

        made[name] = (conv, [values(*x), values(*w), values(w[0])], values(32, w[0], out, out))
    return made


def others(f: Any) -> dict[str, tuple]:
    x, target = values(4096, 1000), np.random.default_rng(0).integers(0, 1000, 4096)
    images = values(32, 32, 32, 32)
    heads = [values(8, 4, 64, 32)] * 3
    index = f.constant(target)
    return {
        "cross_entropy 4096×1000": (lambda x: f.cross_entropy(x, index), [x], None),
        "max_pool2d 32×32×32×32, 2": (
            lambda x: f.max_pool2d(x, 2), [images], values(32, 32, 16, 16)),
        "max_pool2d 32×32×32×32, 3, stride 2": (
            lambda x: f.max_pool2d(x, 3, 2, 1), [images], values(32, 32, 16, 16)),
        "avg_pool2d 32×32×32×32, 2": (
            lambda x: f.avg_pool2d(x, 2), [images], values(32, 32, 16, 16)),
        "attention 8×4×64×32": (f.attention, heads, heads[0]),
    }  # fmt: skip


def workloads(f: Any) -> dict[str, Callable]:
    """{name: step} with the layers in f, of minigrad or of PyTorch."""
    steps = {
        name: step(fn, [f.leaf(v) for v in leaves], None if g is None else f.constant(g))
        for name, (fn, leaves, g) in {**rows(f), **convolutions(f), **others(f)}.items()
    }
    trained = {
        "transformer 8×64×128, 4 heads, relu": transformer(f, "relu"),
        "transformer 8×64×128, 4 heads, gelu": transformer(f, "gelu"),
        "convnet 3→32→64, batch 32 of 32×32": convnet(f),
        "MLP 784-256-256-10, batch 64": mlp(f),
    }
    for name, (fn, leaves, g) in trained.items():
        steps[name] = step(fn, leaves, None if g is None else f.constant(g))
    return steps


def ours(threads: int) -> dict[str, Callable]:
    mg.set_num_threads(threads)
    names = (
        "layer_norm batch_norm softmax log_softmax gelu tanh relu conv2d max_pool2d avg_pool2d "
        "cross_entropy"
    )
    f = SimpleNamespace(**{name: getattr(mg, name) for name in names.split()}, nn=nn)
    f.leaf = lambda v: mg.tensor(v, requires_grad=True)
    f.constant = mg.tensor
    f.attention = mg.scaled_dot_product_attention
    return workloads(f)


def theirs(threads: int) -> dict[str, Callable]:
    """PyTorch's, or nothing where it is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(threads)
    functional = torch.nn.functional
    names = (
        "layer_norm batch_norm softmax log_softmax gelu tanh relu conv2d max_pool2d avg_pool2d "
        "cross_entropy"
    )
    f = SimpleNamespace(**{name: getattr(functional, name) for name in names.split()}, nn=torch.nn)
    f.tanh = torch.tanh
    f.leaf = lambda v: torch.tensor(v, requires_grad=True)
    f.constant = torch.tensor
    f.attention = functional.scaled_dot_product_attention
    return workloads(f)


clock = time.perf_counter


def milliseconds(run: Callable) -> float:
    start = clock()
    run()
    return (clock() - start) * 1e3


def compiled_milliseconds(run: Callable) -> float:
    """The same with compiled loops; switching is not counted."""
    with mg.accelerate(process=False):
        return milliseconds(run)


def has_numba() -> bool:
    return find_spec("numba") is not None


def compare(repeats: int, threads: int, only: str) -> dict:
    """Print and return the times and ratios of every workload."""
    figures, peers, compiles = {}, theirs(threads), has_numba()
    engines = f"{'minigrad':>24}{'compiled':>24}{'PyTorch':>24}"
    print(f"\n{'milliseconds, median (quartiles)':42}{engines}  ratios to PyTorch")
    for name, mine in ours(threads).items():
        if only not in name:
            continue
        turns = {"minigrad": partial(milliseconds, mine)}
        if compiles:
            turns["compiled"] = partial(compiled_milliseconds, mine)
        if name in peers:
            turns["pytorch"] = partial(milliseconds, peers[name])
        for turn in [*turns.values()] * 2:
            turn()
        times = [{engine: turn() for engine, turn in turns.items()} for _ in range(repeats)]
        found: dict[str, Any] = {engine: [t[engine] for t in times] for engine in turns}
        cells = [
            spread(found[engine]) if engine in found else "not installed"
            for engine in ("minigrad", "compiled", "pytorch")
        ]
        found["ratios"] = {
            engine: statistics.median(t[engine] / t["pytorch"] for t in times)
            for engine in ("minigrad", "compiled")
            if engine in turns and "pytorch" in turns
        }
        ratios = "".join(f"{ratio:8.2f}" for ratio in found["ratios"].values())
        print(f"{name:42}{''.join(f'{cell:>24}' for cell in cells)}{ratios}", flush=True)
        figures[name] = found
    return figures


def attention_memory(block_size: int | None, blocks: bool) -> tuple[float, float]:
    """(MB at the peak beyond the arguments, seconds) of forward and backward."""
    q, k, v = (mg.tensor(values(1, 8, LENGTH, 64), requires_grad=True) for _ in range(3))
    g = values(1, 8, LENGTH, 64)
    tracemalloc.start()
    start = time.perf_counter()
    if blocks:
        y = mg.scaled_dot_product_attention(q, k, v, block_size=block_size)
    else:
        y = mg.softmax(q * 0.125 @ k.mT) @ v
    y.backward(g)
    seconds = time.perf_counter() - start
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6, seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=20, help="runs of each engine")
    parser.add_argument("--threads", type=int, default=2, help="of each engine")
    parser.add_argument("--only", default="", help="the workloads whose name has this in it")
    parser.add_argument("--no-memory", action="store_true", help="skip the memory of attention")
    parser.add_argument("--json", help="write the figures here as JSON too")
    parser.add_argument("--cpu", action="store_true", help="processor time of one thread")
    options = parser.parse_args()
    if options.cpu:
        global clock
        clock, options.threads = time.thread_time, 1
    print(conditions(), f"threads {options.threads}", f"load {os.getloadavg()[0]:.1f}", sep=", ")
    figures = compare(options.repeats, options.threads, options.only)
    if not options.no_memory:
        print(f"\nattention 1×8×{LENGTH}×64, forward and backward: peak memory, time")
        for name, blocks in (("in blocks", True), ("plain", False)):
            megabytes, seconds = attention_memory(None, blocks)
            print(f"{name:42}{megabytes:10.0f} MB{seconds:8.2f} s")
            figures[f"attention {name}"] = {"peak_mb": megabytes, "seconds": seconds}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
