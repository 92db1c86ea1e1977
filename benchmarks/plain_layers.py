"""Layers for engines that have array functions but no layers: the same work as minigrad's nn.

`f` is an engine's namespace (see `engines.py`), `n` its NumPy. A layer keeps its parameters, in the
order of nn's. Engines that differentiate functions pass them in anew at each step:
`with_parameters` gives the layers as functions of them.

Everything stays in float32, which takes care: MyGrad makes float64 of a product with a Python
float, autograd of the derivative of a mean, of a power and of a maximum.
"""

from collections.abc import Iterable
from copy import copy
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np


def layers(f: Any) -> SimpleNamespace:
    """What the workloads need of torch.nn."""
    made = (Linear, Conv2d, TransformerEncoderLayer)
    return SimpleNamespace(**{layer.__name__: partial(layer, f) for layer in made})


def with_parameters(layers: list, parameters: Iterable[Any]) -> list:
    """The layers with these parameters in the place of theirs; modules of nn as they are."""
    values = iter(parameters)
    return [layer.on(values) if isinstance(layer, Layer) else layer for layer in layers]


# -- functions ------------------------------------------------------------------------------------


def linear(x: Any, w: Any, b: Any) -> Any:
    """y = x wᵀ + b ;  x (..., in), w (out, in), b (out,): one product, however many axes x has"""
    y = x.reshape((-1, x.shape[-1])) @ w.T + b
    return y.reshape((*x.shape[:-1], -1))


def layer_norm(n: Any, x: Any, w: Any, b: Any) -> Any:
    """(x - mean) / √(variance + 10⁻⁵) · w + b over the last axis"""

    def mean(x: Any) -> Any:
        return n.sum(x, axis=-1, keepdims=True) * np.float32(1 / x.shape[-1])

    x = x - mean(x)
    return x * n.reciprocal(n.sqrt(mean(n.square(x)) + np.float32(1e-5))) * w + b


def attention(f: Any, q: Any, k: Any, v: Any) -> Any:
    """softmax(q kᵀ/√d) v ;  q, k, v (..., length, d)"""
    q = q * np.float32(q.shape[-1] ** -0.5)
    return f.softmax(q @ f.numpy.swapaxes(k, -1, -2)) @ v


def conv2d(n: Any, x: Any, w: Any, b: Any, padding: int) -> Any:
    """One product with the shifted images: x (N, C, H, W), w (F, C, K, K), b (F,), stride 1.

    They are cut out by split, whose derivative joins: autograd's derivative of x[i:j] adds at
    indices, which takes twice as long in all, and its scipy.signal.convolve fifty times.
    """
    size = w.shape[-1]
    height, width = (x.shape[axis] + 2 * padding - size + 1 for axis in (2, 3))
    x = n.pad(x, [(0, 0)] * 2 + [(padding, padding)] * 2, mode="constant")
    rows = [n.split(x, [i, i + height], axis=2)[1] for i in range(size)]
    images = [n.split(row, [j, j + width], axis=3)[1] for row in rows for j in range(size)]
    columns = n.concatenate(images, axis=1)  # (N, K·K·C, H, W)
    w = n.transpose(w, (0, 2, 3, 1)).reshape((w.shape[0], -1))
    y = n.tensordot(w, columns, axes=([1], [1]))  # (F, N, H, W)
    return n.transpose(y, (1, 0, 2, 3)) + b.reshape((-1, 1, 1))


def max_pool2d(n: Any, x: Any, size: int) -> Any:
    """The largest of each window of 2×2, by halves: faster than a maximum over axes."""
    assert size == 2
    *front, height, width = x.shape
    x = x.reshape((*front, height // 2, 2, width // 2, 2))
    for axis in (-3, -1):
        x = n.maximum(*n.split(x, 2, axis=axis))
    return x.reshape((*front, height // 2, width // 2))


# -- layers ---------------------------------------------------------------------------------------


class Layer:
    """Parameters in order, leaves of the engine f, drawn from ±1/√(inputs of a result)."""

    def __init__(self, f: Any, *shapes: tuple[int, ...]):
        self.f = f
        draw = np.random.default_rng(0).uniform
        self.values = [
            f.leaf((draw(-1, 1, shape) / np.prod(shape[1:] or shape) ** 0.5).astype(np.float32))
            for shape in shapes
        ]

    def parameters(self) -> list:
        return self.values

    def on(self, values: Iterable[Any]) -> "Layer":
        """The same layer with the next of these values as its parameters."""
        twin = copy(self)
        twin.values = list(islice(values, len(self.values)))
        return twin


class Linear(Layer):
    def __init__(self, f: Any, inputs: int, outputs: int):
        super().__init__(f, (outputs, inputs), (outputs,))

    def __call__(self, x: Any) -> Any:
        return linear(x, *self.values)


class Conv2d(Layer):
    def __init__(self, f: Any, inputs: int, outputs: int, size: int, padding: int):
        super().__init__(f, (outputs, inputs, size, size), (outputs,))
        self.padding = padding

    def __call__(self, x: Any) -> Any:
        return self.f.conv2d(x, *self.values, self.padding)


class TransformerEncoderLayer(Layer):
    """norm(x + attention), then norm(x + feed-forward) ;  x (N, length, d)"""

    def __init__(
        self, f: Any, d: int, heads: int, feed: int,
        dropout: float, activation: str, batch_first: bool,
    ):  # fmt: skip
        assert dropout == 0 and batch_first
        super().__init__(
            f, (3 * d, d), (3 * d,), (d, d), (d,), (feed, d), (feed,), (d, feed), *[(d,)] * 5
        )
        self.heads, self.activation = heads, getattr(f, activation)

    def __call__(self, x: Any) -> Any:
        *attend, w1, b1, w2, b2, scale1, shift1, scale2, shift2 = self.values
        n = self.f.numpy
        x = layer_norm(n, x + self._attend(x, *attend), scale1, shift1)
        y = linear(self.activation(linear(x, w1, b1)), w2, b2)
        return layer_norm(n, x + y, scale2, shift2)

    def _attend(self, x: Any, w: Any, b: Any, w_out: Any, b_out: Any) -> Any:
        f, (batch, length, d) = self.f, x.shape
        y = linear(x, w, b).reshape((batch, length, 3, self.heads, d // self.heads))
        q, k, v = f.split(f.numpy.transpose(y, (2, 0, 3, 1, 4)), 3)  # (1, batch, heads, length, …)
        y = f.numpy.transpose(attention(f, q, k, v), (0, 1, 3, 2, 4))
        return linear(y.reshape((batch, length, d)), w_out, b_out)
