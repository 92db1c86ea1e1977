"""The faster forms of running sums, products and recurrences."""

from math import isqrt
from math import prod as size_of
from typing import Any

import numpy as np

from ...custom.variants import ANY
from ...engine.registry import op
from ...ops.axes import axis_of
from ...ops.reduce.cumulative import along_first, as_before
from ..forms import Forms

form = Forms()


@form(op.cumsum, "steps", on=ANY)
def cumsum(x: Any, axis: Any = None, dtype: Any = None) -> Any:
    steps = dtype is None and _goes_by_steps(x, axis)
    return _in_steps(np.add, x, axis) if steps else op.cumsum.reference(x, axis, dtype)


@form(op.cumprod, "steps", on=ANY)
def cumprod(x: Any, axis: Any = None, dtype: Any = None) -> Any:
    steps = dtype is None and _goes_by_steps(x, axis)
    return _in_steps(np.multiply, x, axis) if steps else op.cumprod.reference(x, axis, dtype)


RUN = 256  # elements of a step from which it is worth its call


def _goes_by_steps(x: Any, axis: Any) -> bool:
    """Whether a step for all lines at once is faster than NumPy, which goes line by line.

    Not along rows, where copies to and from columns take as long as NumPy's way.
    """
    if type(x) is not np.ndarray or axis is None or x.dtype.char not in "fd":
        return False
    if not x.size or not x.ndim:
        return False
    axis = axis_of(axis, x.ndim)
    turned = np.flip(x, axis) if x.strides[axis] < 0 else x  # a gradient has this order
    return turned.flags.c_contiguous and size_of(x.shape[axis + 1 :]) >= RUN


def _in_steps(function: Any, x: Any, axis: Any) -> Any:
    """y_k = function(y_{k−1}, x_k) along `axis`, y_0 = x_0: NumPy's sums, in the same order."""
    y = np.empty_like(x)
    rows, results = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
    results[0] = rows[0]
    for last, row, result in zip(results, rows[1:], results[1:]):
        function(last, row, result)
    return y


@form(op.linear_recurrence, "pieces", on=ANY)
def linear_recurrence(a: Any, b: Any, axis: int = -1, reverse: bool = False) -> Any:
    """Step by step, each for all lines along `axis` at once. If there are few lines, each is cut
    into √n pieces that run side by side. On a GPU, where a step is two kernels, log n steps over
    the whole array (Hillis and Steele 1986).
    """
    dtype, a, b = along_first(a, b, axis, reverse)
    plain = type(a) is np.ndarray is type(b)
    return as_before(_by_steps(a, b) if plain else _by_doubling(a, b), dtype, axis, reverse)


def _by_doubling(a: Any, b: Any) -> Any:
    """At step d each entry holds the composition of the d maps that end there."""
    a, b, d = a.copy(), b.copy(), 1
    while d < len(b):
        b[d:] = b[d:] + a[d:] * b[:-d]
        a[d:] = a[d:] * a[:-d]
        d *= 2
    return b


LINES = 64  # fewer lines are cut: a step of so few takes only the time of NumPy's call


def _by_steps(a: Any, b: Any) -> Any:
    n, m = len(b), size_of(b.shape[1:])
    pieces = isqrt(n) if m < LINES < n else 1
    if pieces == 1:
        y = b.copy()
        _run(a.reshape((n, m)), y.reshape((n, m)))
        return y
    steps = -(-n // pieces)

    def side_by_side(x: Any) -> Any:
        """x (n, …) as (steps, pieces, m), with zeros after its end."""
        filled = np.zeros((pieces * steps, m), x.dtype)
        filled[:n] = x.reshape((n, m))
        return filled.reshape((pieces, steps, m)).swapaxes(0, 1).copy()

    maps, y = side_by_side(a), side_by_side(b)
    _run(maps, y, products=True)
    last = y[-1].copy()  # the value that each piece passes to the next
    _run(maps[-1], last)
    y[:, 1:] += maps[:, 1:] * last[:-1]
    return y.swapaxes(0, 1).reshape((pieces * steps, m))[:n].reshape(b.shape)


def _run(a: Any, y: Any, products: bool = False) -> None:
    """y[k] += a[k] y[k − 1], one after the other; and a[k] *= a[k − 1] with `products`."""
    if not len(y):
        return
    term = np.empty_like(y[0])
    before = zip(a, y)
    for (last_a, last), (own_a, own) in zip(before, zip(a[1:], y[1:])):
        np.multiply(own_a, last, term)
        np.add(own, term, own)
        if products:
            np.multiply(own_a, last_a, own_a)


form.install()
