"""What the engine's modes cost on small ops: a chain of 100 multiplications, forward and backward.

    python benchmarks/engine_modes.py [--repeats 30]

32×32 float32, every step y = y * b. Each mode runs in turn with the plain chain; quoted is the
median of the pairwise ratios. Then what a compiled tape gains: the chain, and ten layers of matmul
and tanh, eager and replayed, beside JAX's jit of the same function where JAX is installed.
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


def taped() -> None:
    """Recorded on a tape, and the backward read from it."""
    x.grad = b.grad = None
    with mg.Tape() as tape:
        y = chain(x).sum()
    tape.backward(y)


def taped_forward() -> None:
    x.grad = b.grad = None
    with mg.Tape():
        y = chain(x).sum()
    y.backward()


def on_the_tape() -> None:
    """The backward alone: from a tape that is there, the graph kept."""
    kept_tape.backward(kept, retain_graph=True)


def on_the_graph() -> None:
    kept.backward(retain_graph=True)


with mg.Tape() as kept_tape:
    kept = chain(x).sum()


def layers(y, w):
    for _ in range(10):
        y = np.tanh(y @ w)
    return y.sum()


def product_chain(y, w):
    for _ in range(100):
        y = y * w
    return y.sum()


def replay_steps(fn: Callable) -> tuple[Callable, Callable]:
    """(eager step, replayed step) of fn and its gradients for both arguments."""
    with mg.Tape() as tape:
        y = fn(x, b)
    program = tape.compile(y, [x, b], wrt=[x, b])
    return lambda: mg.grad(fn(x, b), [x, b]), lambda: program(values, values)


def jax_step(fn: Callable) -> Callable | None:
    """The same under jax.jit, waiting for the result; None without JAX."""
    try:
        import jax
    except ImportError:
        return None
    named = {"layers": lambda y, w: _jax_layers(jax.numpy, y, w), "product_chain": product_chain}
    step = jax.jit(jax.value_and_grad(named[fn.__name__], (0, 1)))
    given = jax.numpy.asarray(values)
    return lambda: jax.block_until_ready(step(given, given))


def _jax_layers(jnp, y, w):
    for _ in range(10):
        y = jnp.tanh(y @ w)
    return y.sum()


def compare(name: str, step: Callable, base: Callable, repeats: int) -> None:
    """One line: the step beside the base, run in turn."""
    timed(step), timed(base)
    pairs = [(timed(step), timed(base)) for _ in range(repeats)]
    ratio = statistics.median(a / c for a, c in pairs)
    mine, plain_time = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"{name:36}{mine:10.1f}{plain_time:10.1f}{ratio:8.2f}")


MODES: dict[str, Callable] = {
    "two hooks on leaves": leaf_hooks,
    "a hook on every result": hook_on_every_result,
    "a noted write to look for": written_before,
    "detect_anomaly": anomaly,
    "checkpoint (forward twice)": checkpointed,
    "saved_tensors_hooks, identity": saved_hooks,
    "recorded on a tape, plain backward": taped_forward,
    "recorded on a tape, tape.backward": taped,
}


def timed(step: Callable) -> float:
    """Microseconds for one step."""
    start = perf_counter()
    for _ in range(5):
        step()
    return (perf_counter() - start) / 5 * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=30, help="turns of each mode")
    repeats = parser.parse_args().repeats
    print(f"{'mode':36}{'µs':>10}{'plain':>10}{'ratio':>8}")
    for name, step in MODES.items():
        compare(name, step, plain, repeats)
    compare("backward alone, tape beside graph", on_the_tape, on_the_graph, repeats)
    print(f"\n{'value and gradients':36}{'µs':>10}{'eager':>10}{'ratio':>8}")
    for title, fn in {"100 products": product_chain, "10 (matmul, tanh)": layers}.items():
        eager, replay = replay_steps(fn)
        compare(f"{title}, replayed", replay, eager, repeats)
        jitted = jax_step(fn)
        if jitted is not None:
            compare(f"{title}, jax.jit", jitted, eager, repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
