"""Ops and training steps on a GPU, beside PyTorch eager in one process.

    python benchmarks/gpu.py [--only TEXT] [--rounds 7] [--tf32] [--json out.json]

float32 without TF32 unless asked. Each figure is the time of one step, forward and backward, of a
run of steps that ends with a synchronisation: for large work the device's time, for small work the
host's. Runs alternate between the engines; quoted are medians, and the median of the pairwise
ratios. "moved" is the least that a kernel must read and write over its time, as a share of what a
copy of 1 GiB on the device reaches in the same run.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

try:
    import torch
except ImportError:
    sys.exit("PyTorch is not installed (pip install torch), and there is nothing to compare with")

try:
    import cupy
except ImportError:  # --help is answered all the same
    cupy: Any = None

import minigrad as mg
from minigrad import nn, optim

ROUNDS_S = 0.15  # how long one run of steps takes, about


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


class Minigrad:
    name = "minigrad"
    nn, tanh, gelu, softmax = (
        nn,
        staticmethod(mg.tanh),
        staticmethod(mg.gelu),
        staticmethod(mg.softmax),
    )
    relu, cross_entropy = staticmethod(mg.relu), staticmethod(mg.cross_entropy)
    matmul, exp = staticmethod(mg.matmul), staticmethod(mg.exp)

    @staticmethod
    def leaf(x: np.ndarray) -> Any:
        return mg.tensor(x, device="cuda", requires_grad=True)

    @staticmethod
    def constant(x: np.ndarray) -> Any:
        return mg.tensor(x, device="cuda")

    @staticmethod
    def module(module: Any) -> Any:
        return module.to(device="cuda")

    @staticmethod
    def layer_norm(x: Any, w: Any, b: Any) -> Any:
        return mg.layer_norm(x, (x.shape[-1],), w, b)

    @staticmethod
    def conv2d(x: Any, w: Any) -> Any:
        return mg.conv2d(x, w, padding=1)

    @staticmethod
    def max_pool2d(x: Any) -> Any:
        return mg.max_pool2d(x, 2)

    @staticmethod
    def synchronize() -> None:
        cupy.cuda.Device().synchronize()


class Torch:
    name = "PyTorch"
    nn, tanh, gelu = torch.nn, staticmethod(torch.tanh), staticmethod(torch.nn.functional.gelu)
    relu, cross_entropy = staticmethod(torch.relu), staticmethod(torch.nn.functional.cross_entropy)
    matmul, exp = staticmethod(torch.matmul), staticmethod(torch.exp)

    @staticmethod
    def softmax(x: Any) -> Any:
        return torch.softmax(x, -1)

    @staticmethod
    def leaf(x: np.ndarray) -> Any:
        return torch.tensor(x, device="cuda", requires_grad=True)

    @staticmethod
    def constant(x: np.ndarray) -> Any:
        return torch.tensor(x, device="cuda")

    @staticmethod
    def module(module: Any) -> Any:
        return module.cuda()

    @staticmethod
    def layer_norm(x: Any, w: Any, b: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b)

    @staticmethod
    def conv2d(x: Any, w: Any) -> Any:
        return torch.nn.functional.conv2d(x, w, padding=1)

    @staticmethod
    def max_pool2d(x: Any) -> Any:
        return torch.nn.functional.max_pool2d(x, 2)

    @staticmethod
    def synchronize() -> None:
        torch.cuda.synchronize()


def step(f: Any, function: Callable, shapes: list, cotangent: tuple | None) -> Callable:
    """Forward and backward of a function of leaves."""
    leaves = [f.leaf(values(*shape)) for shape in shapes]
    g = None if cotangent is None else f.constant(values(*cotangent))

    def run() -> None:
        for leaf in leaves:
            leaf.grad = None
        function(*leaves).backward(g)

    return run


def trained(f: Any, module: Any, loss: Callable) -> Callable:
    parameters = list(module.parameters())

    def run() -> None:
        for p in parameters:
            p.grad = None
        loss().backward()

    return run


def mlp(f: Any, batch: int, *widths: int) -> Callable:
    layers: list = []
    for a, b in zip(widths, widths[1:], strict=False):
        layers += [f.nn.Linear(a, b), f.nn.ReLU()]
    model = f.module(f.nn.Sequential(*layers[:-1]))
    x, target = f.constant(values(batch, widths[0])), f.constant(np.arange(batch) % widths[-1])
    return trained(f, model, lambda: f.cross_entropy(model(x), target))


def convnet_of(f: Any) -> Any:
    return f.module(f.nn.Sequential(
        f.nn.Conv2d(3, 64, 3, padding=1), f.nn.ReLU(), f.nn.MaxPool2d(2),
        f.nn.Conv2d(64, 128, 3, padding=1), f.nn.ReLU(), f.nn.MaxPool2d(2),
        f.nn.Flatten(), f.nn.Linear(128 * 64, 10),
    ))  # fmt: skip


def convnet(f: Any, batch: int) -> Callable:
    model = convnet_of(f)
    x, target = f.constant(values(batch, 3, 32, 32)), f.constant(np.arange(batch) % 10)
    return trained(f, model, lambda: f.cross_entropy(model(x), target))


def transformer(f: Any, batch: int, length: int, width: int, heads: int) -> Callable:
    block = f.module(f.nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True))  # fmt: skip
    x = f.constant(values(batch, length, width))
    return trained(f, block, lambda: block(x).sum())


def replayed(f: Any, model: Any, x: Any, target: Any) -> Callable:
    """A training step of cross entropy: minigrad's as a CUDA graph, PyTorch's eager."""
    parameters = list(model.parameters())
    if f is Torch:
        return trained(f, model, lambda: f.cross_entropy(model(x), target))
    with mg.Tape() as tape:
        loss = f.cross_entropy(model(x), target)
    step = mg.cuda.capture(tape.compile(loss, [x, target], wrt=parameters))
    return lambda: step(x, target)


def replayed_mlp(f: Any, batch: int, *widths: int) -> Callable:
    layers: list = []
    for a, b in zip(widths, widths[1:], strict=False):
        layers += [f.nn.Linear(a, b), f.nn.ReLU()]
    model = f.module(f.nn.Sequential(*layers[:-1]))
    x, target = f.constant(values(batch, widths[0])), f.constant(np.arange(batch) % widths[-1])
    return replayed(f, model, x, target)


def replayed_convnet(f: Any, batch: int) -> Callable:
    x, target = f.constant(values(batch, 3, 32, 32)), f.constant(np.arange(batch) % 10)
    return replayed(f, convnet_of(f), x, target)


def replayed_transformer(f: Any, batch: int, length: int, width: int, heads: int) -> Callable:
    block = f.nn.TransformerEncoderLayer(
        width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True)  # fmt: skip
    model = f.module(f.nn.Sequential(block, f.nn.Flatten(), f.nn.Linear(length * width, 10)))
    x, target = f.constant(values(batch, length, width)), f.constant(np.arange(batch) % 10)
    return replayed(f, model, x, target)


def fused(f: Any, shape: tuple) -> Callable:
    """gelu(x)·tanh(x) + x/2 with mg.fuse, beside PyTorch eager."""

    def chain(x: Any) -> Any:
        return f.gelu(x) * f.tanh(x) + x / 2

    return step(f, mg.fuse(chain) if f is Minigrad else chain, [shape], shape)


def optimizer_step(f: Any, name: str, count: int, shape: tuple) -> Callable:
    """A step of an optimizer over `count` parameters."""
    params = [f.leaf(values(*shape)) for _ in range(count)]
    for p in params:
        p.grad = f.constant(values(*shape))
    optimizer = getattr(optim if f is Minigrad else torch.optim, name)(params, lr=1e-3)
    return optimizer.step


def workloads(f: Any) -> dict[str, Callable]:
    """{name: a function that makes the step}."""
    big = (8192, 8192)
    return {
        "add 32×32 (host)": lambda: step(f, lambda a, b: a + b, [(32, 32)] * 2, (32, 32)),
        "matmul 32×32 (host)": lambda: step(f, f.matmul, [(32, 32)] * 2, (32, 32)),
        "tanh 64 M": lambda: step(f, f.tanh, [big], big),
        "gelu 64 M": lambda: step(f, f.gelu, [big], big),
        "gelu(x)·tanh(x) + x/2, 64 M": lambda: step(
            f, lambda x: f.gelu(x) * f.tanh(x) + x / 2, [big], big),
        "softmax 8192×8192": lambda: step(f, f.softmax, [big], big),
        "layer_norm 8192×8192": lambda: step(
            f, f.layer_norm, [big, (8192,), (8192,)], big),
        "matmul 8192³": lambda: step(f, f.matmul, [big, big], big),
        "conv 64×64×56×56, 3×3": lambda: step(
            f, f.conv2d, [(64, 64, 56, 56), (64, 64, 3, 3)], (64, 64, 56, 56)),
        "max_pool 64×64×56×56": lambda: step(
            f, f.max_pool2d, [(64, 64, 56, 56)], (64, 64, 28, 28)),
        "MLP 64×784-256-256-10": lambda: mlp(f, 64, 784, 256, 256, 10),
        "MLP 4096×4096-4096-10": lambda: mlp(f, 4096, 4096, 4096, 10),
        "convnet 256×3×32×32 → 64 → 128": lambda: convnet(f, 256),
        "fused gelu(x)·tanh(x) + x/2, 64 M": lambda: fused(f, big),
        "Adam, 64 M in 4 parameters": lambda: optimizer_step(f, "Adam", 4, (4096, 4096)),
        "Adam, 40 parameters of 256×256": lambda: optimizer_step(f, "Adam", 40, (256, 256)),
        "replayed MLP 64×784-256-256-10": lambda: replayed_mlp(f, 64, 784, 256, 256, 10),
        "replayed convnet 256×3×32×32 → 64 → 128": lambda: replayed_convnet(f, 256),
        "replayed transformer 8×64×128": lambda: replayed_transformer(f, 8, 64, 128, 4),
        "transformer 8×64×128, 4 heads": lambda: transformer(f, 8, 64, 128, 4),
        "transformer 16×512×768, 12 heads": lambda: transformer(f, 16, 512, 768, 12),
    }  # fmt: skip


def timed(run: Callable, f: Any, count: int) -> float:
    """Seconds a step, of `count` steps and one synchronisation."""
    f.synchronize()
    start = perf_counter()
    for _ in range(count):
        run()
    f.synchronize()
    return (perf_counter() - start) / count


def compare(make: tuple[Callable, Callable], rounds: int) -> dict[str, float]:
    runs = [(made(), f) for made, f in zip(make, (Minigrad, Torch), strict=True)]
    for run, f in runs:
        timed(run, f, 3)
    counts = [max(1, min(200, int(ROUNDS_S / timed(run, f, 2)))) for run, f in runs]
    times = [
        [timed(run, f, count) for (run, f), count in zip(runs, counts, strict=True)]
        for _ in range(rounds)
    ]
    ours, theirs = ([t[i] for t in times] for i in (0, 1))
    return {
        "minigrad_ms": 1e3 * statistics.median(ours),
        "pytorch_ms": 1e3 * statistics.median(theirs),
        "ratio": statistics.median(a / b for a, b in times),
    }


def bandwidth() -> dict[str, float]:
    """GB/s of a copy, and of fused kernels by the bytes they must move."""
    x = cupy.asarray(values(8192, 8192))
    t, g = (
        mg.tensor(x, device="cuda", requires_grad=True),
        mg.ones(8192, 8192, dtype=mg.float32, device="cuda"),
    )
    y = cupy.empty_like(x)

    @mg.fuse
    def chain(x: Any) -> Any:
        return mg.gelu(x) * mg.tanh(x) + x / 2

    def backward() -> None:
        mg.grad(fused, t, g, retain_graph=True)

    with mg.no_grad():
        cases: dict[str, tuple[Callable, int]] = {
            "copy": (lambda: cupy.copyto(y, x), 2),
            "tanh": (lambda: mg.tanh(t), 2),
            "a + b": (lambda: t + g, 3),
            "fused chain": (lambda: chain(t), 2),
            "softmax": (lambda: mg.softmax(t), 2),
            "layer_norm": (lambda: mg.layer_norm(t, 8192), 2),
        }
    fused = chain(t)
    cases["fused chain, backward"] = backward, 3
    rates = {}
    for name, (run, passes) in cases.items():
        with mg.no_grad():
            timed(run, Minigrad, 3)
            seconds = min(timed(run, Minigrad, 20) for _ in range(5))
        rates[name] = passes * x.nbytes / seconds / 1e9
    return rates


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="the steps whose name has this in it")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each engine")
    parser.add_argument(
        "--tf32", action="store_true", help="let products round their inputs to TF32"
    )
    parser.add_argument("--json", help="write the figures here as JSON too")
    options = parser.parse_args()
    if cupy is None:
        parser.error("this benchmark needs a GPU and CuPy, which is not installed")
    mg.cuda.allow_tf32(options.tf32)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.tf32
    print(f"{mg.cuda.get_device_name()}, CuPy {cupy.__version__}, PyTorch {torch.__version__}, "
          f"NumPy {np.__version__}, TF32 {'on' if options.tf32 else 'off'}")  # fmt: skip
    print(f"\n{'forward and backward':38} {'minigrad ms':>12} {'PyTorch ms':>11} {'ratio':>7}")
    found: dict[str, Any] = {}
    ours, theirs = workloads(Minigrad), workloads(Torch)
    for name in ours:
        if options.only in name:
            try:
                found[name] = r = compare((ours[name], theirs[name]), options.rounds)
                print(f"{name:38} {r['minigrad_ms']:12.3f} {r['pytorch_ms']:11.3f} "
                      f"{r['ratio']:7.2f}", flush=True)  # fmt: skip
            except Exception as error:
                print(f"{name:38} failed: {type(error).__name__}: {error}", flush=True)
            cupy.get_default_memory_pool().free_all_blocks()
            torch.cuda.empty_cache()
    rates = bandwidth()
    print("\nkernel on 8192×8192 float32            GB/s   of a copy")
    for name, rate in rates.items():
        print(f"{name:34} {rate:8.0f} {rate / rates['copy']:10.0%}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"steps": found, "GB/s": rates}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
