"""Blocks of well-known networks, a step of forward and backward each, beside PyTorch eager.

    python -m benchmarks networks [--only TEXT] [--seconds 3] [--threads 2]

float32, the same classes for both libraries. Each engine runs each network in a process of its own,
in a loop without pauses, so threads that still spin from the step before count as they do in
training. Milliseconds: median (smallest); the ratio is that of the medians. The engines do not take
turns: run it twice where the machine's speed drifts.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
from small_ops import conditions

ENGINES = ("minigrad", "PyTorch")


def library(engine: str) -> SimpleNamespace:
    """What a network needs of an engine: nn, its functional F, and a tensor of an array."""
    if engine == "PyTorch":
        import torch

        return SimpleNamespace(nn=torch.nn, F=torch.nn.functional, tensor=torch.tensor)
    import minigrad as mg

    return SimpleNamespace(nn=mg.nn, F=mg.nn.functional, tensor=mg.tensor)


# -- the networks: name -> (the module, the shape of its input) ------------------------------------


def networks(lib: SimpleNamespace) -> dict[str, tuple[Callable[[], Any], tuple]]:
    nn, F = lib.nn, lib.F

    class Residual(nn.Module):
        """x + body(x), and what comes behind the sum."""

        def __init__(self, *body: Any, last: Any = None):
            super().__init__()
            self.body, self.last = nn.Sequential(*body), last or nn.Identity()

        def forward(self, x: Any) -> Any:
            return self.last(self.body(x) + x)

    class ConvNeXt(nn.Module):
        def __init__(self, channels: int):
            super().__init__()
            self.places = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
            self.mixed = nn.Sequential(
                nn.LayerNorm(channels), nn.Linear(channels, 4 * channels), nn.GELU(),
                nn.Linear(4 * channels, channels),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            return x + self.mixed(self.places(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU())
            self.below = nn.Sequential(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU())
            self.up = nn.ConvTranspose2d(64, 32, 2, stride=2)
            self.last = nn.Sequential(
                nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 3, 1)
            )

        def forward(self, x: Any) -> Any:
            wide = self.first(x)
            return self.last(self.up(self.below(F.max_pool2d(wide, 2))) + wide)

    class Recurrent(nn.Module):
        def __init__(self, layer: Any):
            super().__init__()
            self.layer, self.last = layer(64, 128, batch_first=True), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.last(self.layer(x)[0])

    def conv(a: int, b: int, kernel: int, groups: int = 1, act: Any = nn.ReLU) -> list:
        """Convolution, batch norm, activation."""
        layer = nn.Conv2d(a, b, kernel, padding=kernel // 2, groups=groups, bias=False)
        return [layer, nn.BatchNorm2d(b), *([] if act is None else [act()])]

    def residual(channels: int) -> Any:
        body = conv(channels, channels, 3) + conv(channels, channels, 3, act=None)
        return Residual(*body, last=nn.ReLU())

    def bottleneck(groups: int) -> Any:
        body = conv(128, 64, 1) + conv(64, 64, 3, groups) + conv(64, 128, 1, act=None)
        return Residual(*body, last=nn.ReLU())

    def mobile(channels: int, kernel: int) -> Any:
        wide, act = 4 * channels, nn.ReLU6
        body = conv(channels, wide, 1, act=act) + conv(wide, wide, kernel, wide, act)
        return Residual(*body, *conv(wide, channels, 1, act=None))

    def chain(*layers: Any, last: Any = None) -> Any:
        """The layers with relu between them."""
        between = [part for layer in layers for part in (layer, nn.ReLU())][:-1]
        return nn.Sequential(*between, *([] if last is None else [last]))

    def lenet() -> Any:
        return nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
        )  # fmt: skip

    def generator() -> Any:
        sizes = (64, 64, 32, 3)
        layers = [nn.ConvTranspose2d(a, b, 4, 2, 1) for a, b in zip(sizes, sizes[1:], strict=False)]
        return chain(*layers, last=nn.Tanh())

    def enlarging() -> Any:
        return chain(
            nn.Conv2d(3, 64, 9, padding=4), nn.Conv2d(64, 32, 5, padding=2),
            nn.Conv2d(32, 3, 5, padding=2),
        )  # fmt: skip

    def wave() -> Any:
        return chain(
            nn.Conv1d(32, 64, 9, padding=4), nn.Conv1d(64, 64, 9, padding=16, dilation=4),
            nn.Conv1d(64, 8, 9, padding=4),
        )  # fmt: skip

    def autoencoder() -> Any:
        sizes = (784, 512, 64, 512, 784)
        layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False)]
        return chain(*layers, last=nn.Sigmoid())

    def encoder() -> Any:
        return nn.TransformerEncoderLayer(
            128, 4, 512, dropout=0.0, activation="gelu", batch_first=True
        )

    return {
        "ResNet block 16×64×28²": (lambda: residual(64), (16, 64, 28, 28)),
        "ResNet block 32×16×32²": (lambda: residual(16), (32, 16, 32, 32)),
        "bottleneck 16×128×14²": (lambda: bottleneck(1), (16, 128, 14, 14)),
        "bottleneck, 8 groups": (lambda: bottleneck(8), (16, 128, 14, 14)),
        "MobileNet block 16×32×28²": (lambda: mobile(32, 3), (16, 32, 28, 28)),
        "MobileNet block, 5×5 16×64×14²": (lambda: mobile(64, 5), (16, 64, 14, 14)),
        "ConvNeXt block 8×96×14²": (lambda: ConvNeXt(96), (8, 96, 14, 14)),
        "LeNet 64×28²": (lenet, (64, 1, 28, 28)),
        "U-Net 8×3×64²": (UNet, (8, 3, 64, 64)),
        "DCGAN's generator 16×64×8²": (generator, (16, 64, 8, 8)),
        "SRCNN 4×3×48²": (enlarging, (4, 3, 48, 48)),
        "three 1-d layers of 9, 8×32×1000": (wave, (8, 32, 1000)),
        "LSTM 16×50×64 → 128": (lambda: Recurrent(nn.LSTM), (16, 50, 64)),
        "GRU 16×50×64 → 128": (lambda: Recurrent(nn.GRU), (16, 50, 64)),
        "autoencoder 784-512-64, 128 rows": (autoencoder, (128, 784)),
        "encoder layer 8×64×128, gelu": (encoder, (8, 64, 128)),
    }


# -- one network in one engine ---------------------------------------------------------------------


def stepped(lib: SimpleNamespace, name: str, double: bool = False) -> tuple[Any, Callable[[], Any]]:
    """(the network, a step of it: the mean square of its result, and backward)."""
    make, shape = networks(lib)[name]
    network = make().double() if double else make()
    dtype: Any = np.float64 if double else np.float32
    x = lib.tensor(np.random.default_rng(0).standard_normal(shape, dtype=dtype))
    parameters = list(network.parameters())

    def step() -> Any:
        for parameter in parameters:
            parameter.grad = None
        y = network(x)
        loss = (y * y).mean()
        loss.backward()
        return loss

    return network, step


def measure(engine: str, name: str, threads: int, seconds: float) -> list[float]:
    """Milliseconds of the steps."""
    if engine == "PyTorch":
        import torch

        torch.set_num_threads(threads)
    _, step = stepped(library(engine), name)
    for _ in range(5):
        step()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end and len(times) < 300:
        start = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def apart(engine: str, name: str, threads: int, seconds: float) -> list[float]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--only", name, "--engine", engine]
    command += ["--threads", str(threads), "--seconds", str(seconds)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="the networks whose name has this in it")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each loop")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of each engine")
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        found = measure(options.engine, options.only, options.threads, options.seconds)
        print(json.dumps(found))
        return 0
    if find_spec("torch") is None:
        print("PyTorch is not installed (pip install torch), and there is nothing to compare with")
        return 1
    print(f"{conditions()}; {options.threads} threads")
    print(f"{'ms, median (smallest)':34}{ENGINES[0]:>17}{ENGINES[1]:>17}   ratio")
    for name in networks(library("minigrad")):
        if options.only not in name:
            continue
        times = [apart(engine, name, options.threads, options.seconds) for engine in ENGINES]
        medians = [statistics.median(of_one) for of_one in times]
        cells = [
            f"{middle:8.2f} ({min(of_one):.2f})"
            for middle, of_one in zip(medians, times, strict=True)
        ]
        print(f"{name:34}{cells[0]:>17}{cells[1]:>17}{medians[0] / medians[1]:8.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
