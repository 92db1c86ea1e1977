"""σ, x σ(x) and their derivatives in place: the steps of ops/logistic.py, on blocks of large x."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.blocks import BLOCK, over_blocks, scratch
from ...custom.variants import ANY, Variant, add
from ...ops.activation import silu, silu_derivative
from ...ops.elementwise.special import sigmoid, sigmoid_derivative
from ...ops.elementwise.support import in_float32
from ...ops.logistic import FAR, takes

FEW = 1 << 12  # elements; expressions compute fewer: the same steps in fewer calls


def fills(op: Any, far: Callable | None = None) -> Callable:
    """Decorator: fill(x, y) computes the op for many numbers, far(x) for those where x < FAR."""

    def append(fill: Callable) -> Callable:
        def work(x: Any, y: Any) -> None:
            if far is None or np.minimum.reduce(x, axis=None) >= FAR[x.dtype.char]:
                fill(x, y)
                return
            with np.errstate(over="ignore", invalid="ignore"):
                fill(x, y)
            below = x < FAR[x.dtype.char]
            y[below] = far(x[below])

        @in_float32
        def in_place(x: Any) -> Any:
            if not takes(x):
                return reference(x)
            if x.size >= 2 * BLOCK:
                return over_blocks(work, x, 1)[0]
            y = np.empty_like(x)
            work(x, y)
            return y

        def form(x: Any) -> Any:
            return reference(x) if x.size < FEW else in_place(x)

        reference = op.reference
        add(op, Variant(form, ANY, name="in place"))
        return fill

    return append


def _one_and_exp(x: Any, y: Any) -> None:
    """y = 1 + e⁻ˣ"""
    np.negative(x, out=y)
    np.exp(y, out=y)
    y += 1


@fills(sigmoid, np.exp)
def fill_sigmoid(x: Any, y: Any) -> None:
    _one_and_exp(x, y)
    np.reciprocal(y, out=y)


@fills(sigmoid_derivative)
def fill_sigmoid_derivative(x: Any, y: Any) -> None:
    below = scratch.empty("block 0", x.shape, x)
    np.abs(x, out=y)
    np.negative(y, out=y)
    np.exp(y, out=y)
    np.add(y, 1, out=below)
    below *= below
    y /= below


@fills(silu, lambda x: x * np.exp(x))
def fill_silu(x: Any, y: Any) -> None:
    _one_and_exp(x, y)
    np.divide(x, y, out=y)


@fills(silu_derivative, lambda x: (1 + x) * np.exp(x))
def fill_silu_derivative(x: Any, y: Any) -> None:
    s = scratch.empty("block 0", x.shape, x)
    np.negative(x, out=y)
    np.exp(y, out=y)
    np.add(y, 1, out=s)
    np.reciprocal(s, out=s)
    y *= s
    y *= x
    y += 1
    y *= s
