"""Single functions, forward and backward, beside PyTorch's of the same name: where to look next.

    python -m benchmarks ops [--only TEXT] [--seconds 0.15] [--compiled]

Processor time of one thread, the smallest of two turns, sorted by the ratio; float32, arrays of a
million entries or shapes as in models. Both engines are in one process, so read ratios of less than
1.3 as equal. --compiled: minigrad with compiled loops.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np
from small_ops import conditions
from workloads import values

import minigrad as mg

try:
    import torch
except ImportError:
    sys.exit("PyTorch is not installed (pip install torch), and there is nothing to compare with")

SIDE = 1000
ROWS = np.random.default_rng(0).integers(0, SIDE, SIDE // 2)
PLACES = np.random.default_rng(1).integers(0, SIDE, (SIDE, SIDE))

# -- the functions: name, a function of (library, its functional namespace, arrays …), shapes -----

UNARY = "exp log sin tanh sigmoid sqrt rsqrt abs square log1p expm1 erf atan floor sign"
ACTIVATIONS = (
    "relu gelu silu softplus mish hardswish hardsigmoid leaky_relu elu selu logsigmoid softsign "
    "relu6 hardtanh softshrink"
)
REDUCTIONS = "sum mean var std prod amax logsumexp"

square, row, image = (SIDE, SIDE), (SIDE,), (16, 32, 56, 56)
heads = (4, 8, 128, 64)


def functions() -> Iterator[tuple]:
    for name in UNARY.split():
        yield name, lambda m, f, x, name=name: getattr(m, name)(x.abs() + 0.1), square
    for name in ACTIVATIONS.split():
        yield name, lambda m, f, x, name=name: getattr(f, name)(x), square
    for name in REDUCTIONS.split():
        yield f"{name} of rows", lambda m, f, x, name=name: getattr(m, name)(x, -1), square
        yield f"{name} of columns", lambda m, f, x, name=name: getattr(m, name)(x, 0), square
    yield from ELEMENTWISE
    yield from ALONG
    yield from PRODUCTS
    yield from IMAGES
    yield from NETWORKS


ELEMENTWISE = [
    ("x + row", lambda m, f, x, b: x + b, square, row),
    ("x · column", lambda m, f, x, b: x * b, square, (SIDE, 1)),
    ("x / y", lambda m, f, x, y: x / y, square, square),
    ("x²", lambda m, f, x: x**2, square),
    ("maximum", lambda m, f, x, y: m.maximum(x, y), square, square),
    ("where", lambda m, f, x, y: m.where(x > 0, x, y), square, square),
    ("dropout", lambda m, f, x: f.dropout(x, 0.5), square),
    ("mse_loss", lambda m, f, x, y: f.mse_loss(x, y), square, square),
    ("l1_loss", lambda m, f, x, y: f.l1_loss(x, y), square, square),
    ("smooth_l1_loss", lambda m, f, x, y: f.smooth_l1_loss(x, y), square, square),
    ("binary_cross_entropy_with_logits",
     lambda m, f, x, y: f.binary_cross_entropy_with_logits(x, y), square, square),
]  # fmt: skip

ALONG = [
    ("softmax of rows", lambda m, f, x: f.softmax(x, -1), square),
    ("softmax of columns", lambda m, f, x: f.softmax(x, 0), square),
    ("log_softmax", lambda m, f, x: f.log_softmax(x, -1), square),
    ("cross_entropy", lambda m, f, x: f.cross_entropy(x, index(m, PLACES[0])), square),
    ("layer_norm", lambda m, f, x: f.layer_norm(x, row), square),
    ("norm", lambda m, f, x: m.linalg.norm(x), square),
    ("normalize", lambda m, f, x: f.normalize(x, dim=1), square),
    ("cosine_similarity", lambda m, f, x, y: f.cosine_similarity(x, y, dim=1), square, square),
    ("cumsum", lambda m, f, x: m.cumsum(x, -1), square),
    ("cumprod", lambda m, f, x: m.cumprod(x, -1), square),
    ("sort", lambda m, f, x: first(m.sort(x, -1)), square),
    ("topk of 10", lambda m, f, x: m.topk(x, 10)[0], square),
    ("gather", lambda m, f, x: m.gather(x, 1, index(m, PLACES)), square),
    ("scatter_add", lambda m, f, x, y: x.scatter_add(1, index(m, PLACES), y), square, square),
    ("index_select", lambda m, f, x: m.index_select(x, 1, index(m, ROWS)), square),
    ("x[rows]", lambda m, f, x: x[index(m, ROWS)], square),
    ("x[:, ::2]", lambda m, f, x: x[:, ::2] * 2, square),
    ("stack", lambda m, f, x, y: m.stack([x, y], 0), square, square),
    ("x.T · y", lambda m, f, x, y: x.T * y, square, square),
    ("permute", lambda m, f, x: x.permute(0, 2, 3, 1) * 1.5, image),
    ("tril", lambda m, f, x: m.tril(x), square),
    ("masked_fill", lambda m, f, x: x.masked_fill(x > 0, 0.0), square),
    ("roll", lambda m, f, x: m.roll(x, 3, 0), square),
    ("tile", lambda m, f, x: m.tile(x, (2, 2)), square),
]

PRODUCTS = [
    ("matmul 512", lambda m, f, x, y: x @ y, (512, 512), (512, 512)),
    ("matmul of 64 × 64", lambda m, f, x, y: m.matmul(x, y), (64, 64, 64), (64, 64, 64)),
    ("einsum bihd,bjhd→bhij", lambda m, f, x, y: m.einsum("bihd,bjhd->bhij", x, y),
     (8, 64, 4, 32), (8, 64, 4, 32)),
    ("outer", lambda m, f, x, y: m.outer(x, y), row, row),
    ("linear", lambda m, f, x, w, b: f.linear(x, w, b), (256, 512), (512, 512), (512,)),
    ("cdist", lambda m, f, x, y: m.cdist(x, y), (256, 64), (256, 64)),
    ("attention", lambda m, f, q, k, v: f.scaled_dot_product_attention(q, k, v), *[heads] * 3),
    ("svd", lambda m, f, x: m.linalg.svd(x, full_matrices=False)[1], (96, 64)),
    ("eigh", lambda m, f, x: m.linalg.eigh(x @ x.T)[0], (64, 64)),
    ("rfft", lambda m, f, x: m.fft.rfft(x).abs(), (256, 1024)),
]  # fmt: skip

IMAGES = [
    ("conv 3×3", lambda m, f, x, w: f.conv2d(x, w, None, 1, 1), image, (32, 32, 3, 3)),
    ("conv 1×1", lambda m, f, x, w: f.conv2d(x, w), image, (64, 32, 1, 1)),
    ("conv 5×5", lambda m, f, x, w: f.conv2d(x, w, None, 1, 2), image, (32, 32, 5, 5)),
    ("conv 3×3, stride 2", lambda m, f, x, w: f.conv2d(x, w, None, 2, 1), image, (64, 32, 3, 3)),
    ("conv depthwise", lambda m, f, x, w: f.conv2d(x, w, None, 1, 1, 1, 32), image, (32, 1, 3, 3)),
    ("conv 4 groups", lambda m, f, x, w: f.conv2d(x, w, None, 1, 1, 1, 4), image, (32, 8, 3, 3)),
    ("conv_transpose", lambda m, f, x, w: f.conv_transpose2d(x, w, None, 2, 1),
     (16, 32, 14, 14), (32, 32, 4, 4)),
    ("conv 1-d", lambda m, f, x, w: f.conv1d(x, w, None, 1, 1), (16, 64, 512), (64, 64, 3)),
    ("conv 3-d", lambda m, f, x, w: f.conv3d(x, w, None, 1, 1), (2, 8, 16, 16, 16),
     (16, 8, 3, 3, 3)),
    ("max_pool 2×2", lambda m, f, x: f.max_pool2d(x, 2), image),
    ("max_pool 3×3, stride 2", lambda m, f, x: f.max_pool2d(x, 3, 2, 1), image),
    ("avg_pool 2×2", lambda m, f, x: f.avg_pool2d(x, 2), image),
    ("adaptive_avg_pool to 7", lambda m, f, x: f.adaptive_avg_pool2d(x, 7), image),
    ("adaptive_avg_pool to 1", lambda m, f, x: f.adaptive_avg_pool2d(x, 1), image),
    ("batch_norm", lambda m, f, x: f.batch_norm(x, None, None, training=True), image),
    ("group_norm", lambda m, f, x: f.group_norm(x, 8), image),
    ("instance_norm", lambda m, f, x: f.instance_norm(x), image),
    ("pad", lambda m, f, x: f.pad(x, (1, 1, 1, 1)), image),
    ("pad, reflect", lambda m, f, x: f.pad(x, (1, 1, 1, 1), mode="reflect"), image),
    ("interpolate, nearest", lambda m, f, x: f.interpolate(x, scale_factor=2), (8, 16, 28, 28)),
    ("interpolate, bilinear", lambda m, f, x: f.interpolate(x, scale_factor=2, mode="bilinear"),
     (8, 16, 28, 28)),
    ("grid_sample", lambda m, f, x, g: f.grid_sample(x, g / 2, align_corners=False),
     (8, 16, 28, 28), (8, 28, 28, 2)),
    ("unfold", lambda m, f, x: f.unfold(x, 3, padding=1), (8, 16, 28, 28)),
    ("pixel_shuffle", lambda m, f, x: f.pixel_shuffle(x, 2), image),
]  # fmt: skip


def recurrent(kind: str) -> Callable:
    layers: dict[Any, Any] = {}

    def run(m: Any, f: Any, x: Any) -> Any:
        layer = layers.setdefault(m, None) or getattr(m.nn, kind)(64, 64, batch_first=True)
        layers[m] = layer
        return layer(x)[0]

    return run


NETWORKS = [(kind, recurrent(kind), (16, 50, 64)) for kind in ("RNN", "LSTM", "GRU")]


def index(m: Any, places: np.ndarray) -> Any:
    return torch.from_numpy(places) if m is torch else mg.tensor(places)


def first(found: Any) -> Any:
    """PyTorch's sort gives the places, too."""
    return found[0] if isinstance(found, tuple) else found


# -- the comparison -------------------------------------------------------------------------------


def step(m: Any, function: Callable, shapes: tuple) -> Callable:
    leaves = [m.tensor(values(*shape), requires_grad=True) for shape in shapes]
    f = m.nn.functional
    g = m.ones_like(function(m, f, *leaves).detach())

    def run() -> None:
        for leaf in leaves:
            leaf.grad = None
        function(m, f, *leaves).backward(g)

    return run


def smallest(run: Callable, seconds: float) -> float:
    """Milliseconds of processor time."""
    run()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.thread_time()
        run()
        best = min(best, time.thread_time() - start)
    return best * 1e3


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="the functions whose name has this in it")
    parser.add_argument("--seconds", type=float, default=0.15, help="of each turn")
    parser.add_argument("--compiled", action="store_true", help="with compiled loops")
    options = parser.parse_args()
    torch.set_num_threads(1)
    mg.set_num_threads(1)
    print(conditions())
    found = []
    with mg.accelerate(process=False) if options.compiled else nullcontext():
        for name, function, *shapes in functions():
            if options.only not in name:
                continue
            runs = [step(m, function, tuple(shapes)) for m in (mg, torch)]
            turns = [[smallest(run, options.seconds) for run in runs] for _ in range(2)]
            ours, theirs = (min(turn) for turn in zip(*turns, strict=True))
            found.append((ours / theirs, name, ours, theirs))
    print(f"\n{'ms, forward and backward':34}{'minigrad':>10}{'PyTorch':>10}{'ratio':>8}")
    for ratio, name, ours, theirs in sorted(found, reverse=True):
        print(f"{name:34}{ours:10.3f}{theirs:10.3f}{ratio:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
