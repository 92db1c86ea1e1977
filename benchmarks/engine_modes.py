"""What the engine's modes cost on small ops: a chain of 100 multiplications, forward and backward.

    python benchmarks/engine_modes.py [--repeats 30]

32×32 float32, every step y = y * b. Each mode runs in turn with the plain chain; quoted is the
median of the pairwise ratios.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np

import minigrad as mg

values = np.random.default_rng(0).random((32, 32), dtype=np.float32)
x, b = mg.tensor(values, requires_grad=True), mg.tensor(values, requires_grad=True)


def chain(y):
    for _ in range(100):
        y = y * b
    return y


def plain() -> None:
    x.grad = b.grad = None
    chain(x).sum().backward()


def leaf_hooks() -> None:
    with x.register_hook(lambda g: None), b.register_leaf_ready_hook(lambda leaf: None):
        plain()


def hook_on_every_result() -> None:
    x.grad = b.grad = None
    y = x
    for _ in range(100):
        y = y * b
        y.register_hook(lambda g: None)
    y.sum().backward()


def anomaly() -> None:
    with mg.detect_anomaly():
        plain()


def written_before() -> None:
    """A write noted after the forward: every node is checked against it."""
    x.grad = b.grad = None
    y = chain(x).sum()
    other.zero_()
    y.backward()


other = mg.zeros(1)


def checkpointed() -> None:
    x.grad = b.grad = None
    mg.checkpoint(chain, x).sum().backward()


def saved_hooks() -> None:
    with mg.saved_tensors_hooks(lambda t: t, lambda t: t):
        plain()


MODES: dict[str, Callable] = {
    "two hooks on leaves": leaf_hooks,
    "a hook on every result": hook_on_every_result,
    "a noted write to look for": written_before,
    "detect_anomaly": anomaly,
    "checkpoint (forward twice)": checkpointed,
    "saved_tensors_hooks, identity": saved_hooks,
}


def timed(step: Callable) -> float:
    """Microseconds for one step."""
    start = perf_counter()
    for _ in range(5):
        step()
    return (perf_counter() - start) / 5 * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=30)
    repeats = parser.parse_args().repeats
    print(f"{'mode':32}{'µs':>10}{'plain':>10}{'ratio':>8}")
    for name, step in MODES.items():
        timed(step), timed(plain)
        pairs = [(timed(step), timed(plain)) for _ in range(repeats)]
        ratio = statistics.median(a / c for a, c in pairs)
        mine, base = (statistics.median(times) for times in zip(*pairs, strict=True))
        print(f"{name:32}{mine:10.1f}{base:10.1f}{ratio:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
