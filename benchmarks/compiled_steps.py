"""Training steps, plain and under mg.compile, beside PyTorch eager and JAX's jit.

    python benchmarks/compiled_steps.py [--only TEXT] [--cpu] [--tf32] [--rounds 5]

Each step is forward and backward (value and gradients), in float32, without TF32 unless asked.
Runs go by turns; quoted are medians, and the median of the pairwise ratios. JAX, where installed,
computes the same formulas from the same shapes, written with jax.numpy.
"""

import argparse
import json
import math
import os
import statistics
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np

try:
    import torch
except ImportError:
    sys.exit("PyTorch is not installed (pip install torch), and there is nothing to compare with")

import minigrad as mg
from minigrad import nn

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax: Any = None
    jnp: Any = None

SECONDS = 0.15  # how long one run of steps takes, about


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


class Minigrad:
    nn, cross_entropy = nn, staticmethod(mg.cross_entropy)
    gelu, tanh = staticmethod(mg.gelu), staticmethod(mg.tanh)

    def __init__(self, device: str, compiled: bool):
        self.device, self.name = device, "compiled" if compiled else "plain"
        self.step = mg.compile if compiled else lambda fn: fn

    def constant(self, x: np.ndarray) -> Any:
        return mg.tensor(x, device=self.device)

    def leaf(self, x: np.ndarray) -> Any:
        return mg.tensor(x, device=self.device, requires_grad=True)

    def module(self, module: Any) -> Any:
        return module.to(device=self.device)

    def wait(self) -> None:
        if self.device != "cpu":
            mg.cuda.synchronize()


class Torch:
    nn, cross_entropy = torch.nn, staticmethod(torch.nn.functional.cross_entropy)
    gelu, tanh = staticmethod(torch.nn.functional.gelu), staticmethod(torch.tanh)
    name, step = "PyTorch", staticmethod(lambda fn: fn)

    def __init__(self, device: str):
        self.device = device

    def constant(self, x: np.ndarray) -> Any:
        return torch.tensor(x, device=self.device)

    def leaf(self, x: np.ndarray) -> Any:
        return torch.tensor(x, device=self.device, requires_grad=True)

    def module(self, module: Any) -> Any:
        return module.to(self.device)

    def wait(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()


def trained(f: Any, parameters: list, loss: Callable) -> Callable:
    @f.step
    def run() -> Any:
        for p in parameters:
            p.grad = None
        y = loss()
        y.backward()
        return y

    return run


def mlp(f: Any, batch: int, *widths: int) -> Callable:
    layers: list = []
    for a, b in zip(widths, widths[1:], strict=False):
        layers += [f.nn.Linear(a, b), f.nn.ReLU()]
    model = f.module(f.nn.Sequential(*layers[:-1]))
    x, target = f.constant(values(batch, widths[0])), f.constant(np.arange(batch) % widths[-1])
    return trained(f, list(model.parameters()), lambda: f.cross_entropy(model(x), target))


def convnet(f: Any, batch: int) -> Callable:
    model = f.module(f.nn.Sequential(
        f.nn.Conv2d(3, 64, 3, padding=1), f.nn.ReLU(), f.nn.MaxPool2d(2),
        f.nn.Conv2d(64, 128, 3, padding=1), f.nn.ReLU(), f.nn.MaxPool2d(2),
        f.nn.Flatten(), f.nn.Linear(128 * 64, 10),
    ))  # fmt: skip
    x, target = f.constant(values(batch, 3, 32, 32)), f.constant(np.arange(batch) % 10)
    return trained(f, list(model.parameters()), lambda: f.cross_entropy(model(x), target))


def block(f: Any, batch: int, length: int, width: int, heads: int) -> Callable:
    model = f.module(f.nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True))  # fmt: skip
    x = f.constant(values(batch, length, width))
    return trained(f, list(model.parameters()), lambda: model(x).sum())


def chain(f: Any, *shape: int) -> Callable:
    x = f.leaf(values(*shape))
    return trained(f, [x], lambda: (f.gelu(x) * f.tanh(x) + x / 2).sum())


# -- the same in JAX -------------------------------------------------------------------------------


def jax_step(loss: Callable, parameters: Any, *data: Any) -> Callable:
    step, state = jax.jit(jax.value_and_grad(loss)), (parameters, *data)
    return lambda: step(*state)


def jax_linear(a: int, b: int) -> tuple:
    return jnp.asarray(values(b, a) / math.sqrt(a)), jnp.zeros(b)


def jax_nll(scores: Any, target: Any) -> Any:
    picked = jnp.take_along_axis(jax.nn.log_softmax(scores), target[:, None], 1)
    return -picked.mean()


def jax_mlp(batch: int, *widths: int) -> Callable:
    layers = [jax_linear(a, b) for a, b in zip(widths, widths[1:], strict=False)]

    def loss(layers: Any, x: Any, target: Any) -> Any:
        for w, b in layers[:-1]:
            x = jax.nn.relu(x @ w.T + b)
        w, b = layers[-1]
        return jax_nll(x @ w.T + b, target)

    x, target = jnp.asarray(values(batch, widths[0])), jnp.arange(batch) % widths[-1]
    return jax_step(loss, layers, x, target)


def jax_convnet(batch: int) -> Callable:
    layers = [
        (jnp.asarray(values(64, 3, 3, 3)), jnp.zeros((64, 1, 1))),
        (jnp.asarray(values(128, 64, 3, 3)), jnp.zeros((128, 1, 1))),
        jax_linear(128 * 64, 10),
    ]

    def loss(layers: Any, x: Any, target: Any) -> Any:
        for w, b in layers[:-1]:
            x = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME") + b
            window = (1, 1, 2, 2)
            x = jax.nn.relu(x)
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
        w, b = layers[-1]
        return jax_nll(x.reshape(len(x), -1) @ w.T + b, target)

    return jax_step(loss, layers, jnp.asarray(values(batch, 3, 32, 32)), jnp.arange(batch) % 10)


def jax_block(batch: int, length: int, width: int, heads: int) -> Callable:
    parameters = {
        "in": jax_linear(width, 3 * width), "out": jax_linear(width, width),
        "up": jax_linear(width, 4 * width), "down": jax_linear(4 * width, width),
        "norm1": (jnp.ones(width), jnp.zeros(width)), "norm2": (jnp.ones(width), jnp.zeros(width)),
    }  # fmt: skip

    def norm(x: Any, w: Any, b: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w + b

    def loss(p: Any, x: Any) -> Any:
        def linear(name: str, x: Any) -> Any:
            return x @ p[name][0].T + p[name][1]

        q, k, v = jnp.split(linear("in", x), 3, -1)
        q, k, v = (y.reshape(batch, length, heads, -1) for y in (q, k, v))
        y = jax.nn.dot_product_attention(q, k, v).reshape(batch, length, width)
        x = norm(x + linear("out", y), *p["norm1"])
        y = linear("down", jax.nn.gelu(linear("up", x), approximate=False))
        return norm(x + y, *p["norm2"]).sum()

    return jax_step(loss, parameters, jnp.asarray(values(batch, length, width)))


def jax_chain(*shape: int) -> Callable:
    def loss(x: Any) -> Any:
        return (jax.nn.gelu(x, approximate=False) * jnp.tanh(x) + x / 2).sum()

    return jax_step(loss, jnp.asarray(values(*shape)))


# -- by turns --------------------------------------------------------------------------------------

STEPS: dict[str, tuple] = {
    "MLP 64×784-256-256-10": (mlp, jax_mlp, 64, 784, 256, 256, 10),
    "MLP 4096×4096-4096-10": (mlp, jax_mlp, 4096, 4096, 4096, 10),
    "convnet 256×3×32×32": (convnet, jax_convnet, 256),
    "block 8×64×128, 4 heads": (block, jax_block, 8, 64, 128, 4),
    "block 16×512×768, 12 heads": (block, jax_block, 16, 512, 768, 12),
    "gelu(x)·tanh(x) + x/2": (chain, jax_chain, 8192, 8192),
}
ON_CPU: dict[str, tuple] = STEPS | {
    "MLP 4096×4096-4096-10": (mlp, jax_mlp, 256, 1024, 1024, 10),
    "convnet 256×3×32×32": (convnet, jax_convnet, 16),
    "block 16×512×768, 12 heads": (block, jax_block, 4, 128, 256, 8),
    "gelu(x)·tanh(x) + x/2": (chain, jax_chain, 2048, 2048),
    "gelu(x)·tanh(x) + x/2, 32×32": (chain, jax_chain, 32, 32),
}


def timed(run: Callable, wait: Callable, count: int) -> float:
    wait()
    start = perf_counter()
    for _ in range(count):
        run()
    wait()
    return (perf_counter() - start) / count


class Jax:
    """Waits for the result of the last step."""

    name, last = "JAX jit", None

    def __init__(self, step: Callable):
        self.step = step

    def __call__(self) -> None:
        self.last = self.step()

    def wait(self) -> None:
        jax.block_until_ready(self.last)


def compare(make: tuple, device: str, rounds: int) -> dict[str, float]:
    ours, theirs, *sizes = make
    engines = [Minigrad(device, False), Minigrad(device, True), Torch(device)]
    runs = [(f.name, ours(f, *sizes), f.wait) for f in engines]
    if jax is not None:
        step = Jax(theirs(*sizes))
        runs.append((step.name, step, step.wait))
    for _, run, wait in runs:
        timed(run, wait, 5)
    counts = [max(1, min(300, int(SECONDS / timed(run, wait, 3)))) for _, run, wait in runs]
    turns = [
        [timed(run, wait, count) for (_, run, wait), count in zip(runs, counts, strict=True)]
        for _ in range(rounds)
    ]
    found = {name: 1e3 * statistics.median(t[i] for t in turns)
             for i, (name, _, _) in enumerate(runs)}  # fmt: skip
    found["plain/PyTorch"] = statistics.median(t[0] / t[2] for t in turns)
    if jax is not None:
        found["compiled/JAX"] = statistics.median(t[1] / t[3] for t in turns)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="the steps whose name has this in it")
    parser.add_argument("--cpu", action="store_true", help="smaller steps, on the host")
    parser.add_argument("--accelerate", action="store_true", help="with mg.accelerate()")
    parser.add_argument("--tf32", action="store_true", help="products round their inputs to TF32")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each engine")
    parser.add_argument("--json", help="write the figures here as JSON too")
    options = parser.parse_args()
    device = "cpu" if options.cpu else "cuda"
    if options.accelerate:
        mg.accelerate()
    if device == "cuda":
        mg.cuda.allow_tf32(options.tf32)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.tf32
    if jax is not None:
        precision = "tensorfloat32" if options.tf32 else "highest"
        jax.config.update("jax_default_matmul_precision", precision)
    found = {}
    print(f"{'ms a step':28} {'plain':>9} {'compiled':>9} {'PyTorch':>9} {'JAX jit':>9} "
          f"{'plain/PyTorch':>14} {'compiled/JAX':>13}")  # fmt: skip
    for name, make in (ON_CPU if options.cpu else STEPS).items():
        if options.only not in name:
            continue
        found[name] = r = compare(make, device, options.rounds)
        print(f"{name:28} {r['plain']:9.3f} {r['compiled']:9.3f} {r['PyTorch']:9.3f} "
              f"{r.get('JAX jit', math.nan):9.3f} {r['plain/PyTorch']:14.2f} "
              f"{r.get('compiled/JAX', math.nan):13.2f}", flush=True)  # fmt: skip
        if device == "cuda":
            mg.cuda.empty_cache()
            torch.cuda.empty_cache()
    if options.json:
        with open(options.json, "w") as file:
            json.dump(found, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
