"""What the benchmarks run, written once for every engine that has PyTorch's names.

A workload is made by a function of `f`, the engine's names (see `engines.py`), and is itself a
function of no arguments: one step, forward and backward, in float32.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from plain_layers import with_parameters


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def step(function: Callable, leaves: list, g: Any = None) -> Callable:
    """Gradients cleared, forward, backward with cotangent g (None: the result is a scalar).

    The step returns the gradients, as every engine's does.
    """

    def run() -> list:
        for leaf in leaves:
            leaf.grad = None
        function(*leaves).backward(g)
        return [leaf.grad for leaf in leaves]

    return run


# -- steps of training: (a loss of the leaves, the leaves, a cotangent) ----------------------------


def transformer(f: Any, activation: str) -> tuple[Callable, list, Any]:
    """A block of 8 sequences of 64, 128 features, 4 heads, feed-forward 512, no dropout."""
    block = f.nn.TransformerEncoderLayer(
        128, 4, 512, dropout=0.0, activation=activation, batch_first=True
    )
    x = f.leaf(values(8, 64, 128))

    def loss(x: Any, *parameters: Any) -> Any:
        (layer,) = with_parameters([block], parameters)
        return layer(x)

    return loss, [x, *block.parameters()], values(8, 64, 128)


def convnet(f: Any, batch: int = 32) -> tuple[Callable, list, Any]:
    """conv 3 → 32, pool, conv 32 → 64, pool, linear: a batch of 32×32, cross entropy."""
    layers = [f.nn.Conv2d(3, 32, 3, padding=1), f.nn.Conv2d(32, 64, 3, padding=1)]
    layers.append(f.nn.Linear(64 * 8 * 8, 10))
    x, target = f.constant(values(batch, 3, 32, 32)), f.constant(np.arange(batch) % 10)

    def loss(*parameters: Any) -> Any:
        first, second, last = with_parameters(layers, parameters)
        h = f.max_pool2d(f.relu(first(x)), 2)
        h = f.max_pool2d(f.relu(second(h)), 2)
        return f.cross_entropy(last(h.reshape((batch, -1))), target)

    return loss, [p for layer in layers for p in layer.parameters()], None


def mlp(f: Any) -> tuple[Callable, list, Any]:
    layers = [f.nn.Linear(a, b) for a, b in ((784, 256), (256, 256), (256, 10))]
    x, target = f.constant(values(64, 784)), f.constant(np.arange(64) % 10)

    def loss(*parameters: Any) -> Any:
        first, second, last = with_parameters(layers, parameters)
        return f.cross_entropy(last(f.relu(second(f.relu(first(x))))), target)

    return loss, [p for layer in layers for p in layer.parameters()], None


# -- small ops ------------------------------------------------------------------------------------


def small_chain(f: Any) -> Callable:
    """100 multiplications of 32×32 by a second leaf, then the sum."""

    def loss(x: Any, b: Any) -> Any:
        y = x
        for _ in range(100):
            y = y * b
        return y.sum()

    return f.step(loss, [f.leaf(values(32, 32) / 8), f.leaf(values(32, 32) / 8)])


def matmul_tanh(f: Any) -> Callable:
    """Ten (matmul, tanh) of 32×32, then the sum."""

    def loss(x: Any, w: Any) -> Any:
        h = x
        for _ in range(10):
            h = f.tanh(h @ w)
        return h.sum()

    return f.step(loss, [f.leaf(values(32, 32) / 8), f.leaf(values(32, 32) / 8)])


def deep_chain(f: Any) -> Callable:
    """10,000 additions of a number to one element."""

    def loss(x: Any) -> Any:
        y = x
        for _ in range(10_000):
            y = y + 1.0
        return y.sum()

    return f.step(loss, [f.leaf(values(1))])


def wide_graph(f: Any) -> Callable:
    """1,000 products with one leaf, summed pairwise: every gradient meets in that leaf."""

    def loss(x: Any) -> Any:
        parts = [x * (i / 1000) for i in range(1000)]
        while len(parts) > 1:
            parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=False)] + (
                [parts[-1]] if len(parts) % 2 else []
            )
        return parts[0].sum()

    return f.step(loss, [f.leaf(values(32))])


def recurrent(f: Any) -> Callable:
    """An RNN of 200 steps, batch 16, 64 features: h ← tanh(x_t w + h u + b)."""
    xs = [f.constant(row) for row in values(200, 16, 64)]

    def loss(w: Any, u: Any, b: Any) -> Any:
        h = f.constant(np.zeros((16, 64), np.float32))
        for x in xs:
            h = f.tanh(x @ w + h @ u + b)
        return (h * h).sum()

    return f.step(loss, [f.leaf(v / 8) for v in (values(64, 64), values(64, 64), values(64))])


# -- large ops ------------------------------------------------------------------------------------


def elementwise(f: Any) -> Callable:
    """gelu(x)·tanh(x) + x/2 on 2,000×2,000."""
    x = values(2000, 2000)
    return f.step(lambda x: f.gelu(x) * f.tanh(x) + x / 2, [f.leaf(x)], f.constant(x))


def large_attention(f: Any) -> Callable:
    """Attention of 1×8×2048×64, without a mask."""
    q, k, v = (values(1, 8, 2048, 64) for _ in range(3))
    return f.step(f.attention, [f.leaf(q), f.leaf(k), f.leaf(v)], f.constant(q))


def embedding(f: Any) -> Callable:
    """8,192 rows of a table of 50,000×64, and the gradient into the table."""
    index = f.constant(np.random.default_rng(0).integers(0, 50_000, 8192))
    g = f.constant(values(8192, 64))
    return f.step(lambda table: table[index], [f.leaf(values(50_000, 64))], g)


# -- training -------------------------------------------------------------------------------------


def _trained(make: Callable, *options: Any) -> Callable:
    def workload(f: Any) -> Callable:
        loss, leaves, g = make(f, *options)
        return f.step(loss, leaves, None if g is None else f.constant(g))

    return workload


def hessian_product(f: Any) -> Callable:
    """∇²L·v of L = Σ tanh(x w)², w 256×256, by differentiating the gradient."""
    x, v = f.constant(values(64, 256)), f.constant(values(256, 256))
    w = f.leaf(values(256, 256) / 16)

    def run() -> None:
        h = f.tanh(x @ w)
        (g,) = f.grad([(h * h).sum()], [w], create_graph=True)
        f.grad([(g * v).sum()], [w])

    return run


def optimizer_step(f: Any) -> Callable:
    """Adam over 100 parameters of 64×64."""
    Adam = f.Adam  # first, so that an engine without it says so
    leaves = [f.leaf(values(64, 64)) for _ in range(100)]
    for leaf in leaves:
        leaf.grad = f.constant(values(64, 64))
    return Adam(leaves).step


def loader(f: Any) -> Callable:
    """One pass of a DataLoader, shuffled, over 10,000 rows of 784 in batches of 64."""
    data = f.TensorDataset(f.constant(values(10_000, 784)), f.constant(np.arange(10_000)))
    batches = f.DataLoader(data, batch_size=64, shuffle=True)

    def run() -> None:
        for _ in batches:
            pass

    return run


WORKLOADS: dict[str, Callable[[Any], Callable]] = {
    "100 × (32×32 multiply), sum": small_chain,
    "10 × (32×32 matmul, tanh), sum": matmul_tanh,
    "MLP 784-256-256-10, batch 64": _trained(mlp),
    "convnet 3→32→64, batch 32 of 32×32": _trained(convnet),
    "transformer 8×64×128, 4 heads": _trained(transformer, "relu"),
    "gelu(x)·tanh(x) + x/2, 2000×2000": elementwise,
    "deep chain of 10,000 adds": deep_chain,
    "wide graph of 1,000 branches": wide_graph,
    "RNN of 200 steps, 16×64": recurrent,
    "Hessian product, 256×256": hessian_product,
    "attention 1×8×2048×64": large_attention,
    "embedding 50,000×64, 8,192 rows": embedding,
    "Adam, 100 parameters of 64×64": optimizer_step,
    "DataLoader 10,000×784, batch 64": loader,
}
