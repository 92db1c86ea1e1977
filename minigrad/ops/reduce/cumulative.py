"""Running sums and products, and the recurrence in which their derivatives are written."""

from typing import Any

import numpy as np

from ...backends.dtypes import accumulator, common_dtype
from ...engine.primitive import linear, primitive
from ...engine.registry import op
from ...tensor_api.composite import composite, on_its_gpu
from ..axes import accumulate, axis_of, module_of, widen
from ..batching import along, both_along

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "linear_recurrence"]


@linear(numpy=np.cumsum)
def cumsum(x, axis=None, dtype=None):
    """y_k = Σ_{j≤k} x_j along `axis` (None: of x flattened) ;  gx_k = Σ_{i≥k} g_i.

    16-bit floats are added up in float32.
    """
    return accumulate(np.cumsum, x, dtype, axis=axis)


@cumsum.vjp("x")
def cumsum_dx(g, axis, x_shape):
    along = 0 if axis is None else axis
    back = op.flip(op.cumsum(op.flip(g, axis=along), axis=along), axis=along)
    return back.reshape(x_shape)


@primitive
def linear_recurrence(a, b, axis=-1, reverse=False):
    """y_k = a_k y_{k−1} + b_k, y_{−1} = 0, along `axis`; from the end, y_{k+1}, with reverse.

    gb: the recurrence run the other way over g with the a of the next step, r ;
    ga_k = r_k y_{k−1}. Nothing is divided, so zeros in a are as good as any number.
    a and b have one shape.
    """
    dtype, a, b = along_first(a, b, axis, reverse)
    y = b.copy()
    for k in range(1, len(y)):
        y[k] += a[k] * y[k - 1]
    return as_before(y, dtype, axis, reverse)


def along_first(a: Any, b: Any, axis: int, reverse: bool) -> tuple:
    """(dtype of y, a, b), `axis` the first and run forwards, 16-bit floats in float32."""
    if a.shape != b.shape:
        raise ValueError(f"a {a.shape} and b {b.shape} need one shape")
    dtype = common_dtype(a.dtype, b.dtype)
    wide = accumulator(dtype) or dtype
    a, b = (np.moveaxis(x.astype(wide, copy=False), axis, 0) for x in (a, b))
    return (dtype, a[::-1], b[::-1]) if reverse else (dtype, a, b)


def as_before(y: Any, dtype: Any, axis: int, reverse: bool) -> Any:
    """y with `axis` in its place, in C order: arrays of two orders meet at a fifth of the speed."""
    y = np.moveaxis(y[::-1] if reverse else y, 0, axis)
    return y.astype(dtype, order="C", copy=False)


@linear_recurrence.vjp
def linear_recurrence_dx(g, a, y, axis, reverse, needs):
    step = 1 if reverse else -1
    # roll brings the next step's a into place; the one that comes round is never read
    r = op.linear_recurrence(op.roll(a, step, axis=axis).conj(), g, axis=axis, reverse=not reverse)
    before = _shifted(y, axis, reverse, np.zeros_like).conj() if needs[0] else None
    return (r * before if needs[0] else None), r


def _shifted(y: Any, axis: int, reverse: bool, fill_like: Any) -> Any:
    """y moved one place along, y_{k−1} in place k (y_{k+1} with reverse); the free end filled."""
    axis = axis_of(axis, y.ndim)
    n = y.shape[axis]
    kept = op.narrow(y, axis, 1 if reverse and n else 0, max(n - 1, 0))
    free = fill_like(op.narrow(y, axis, 0, min(n, 1)))
    return np.concatenate([kept, free] if reverse else [free, kept], axis=axis)


@primitive(numpy=np.cumprod)
def cumprod(x, axis=None, dtype=None):
    """y_k = Π_{j≤k} x_j along `axis` (None: of x flattened).

    gx_k = (Π_{j<k} x_j) s_k,  s_k = g_k + x_{k+1} s_{k+1}: no division, so zeros are exact.
    """
    return accumulate(np.cumprod, x, dtype, axis=axis)


@cumprod.vjp("x")
def cumprod_dx(g, x, y, axis):
    shape, x = x.shape, widen(x)
    if axis is None or not shape:  # a number is a vector of one element, for any axis
        x, axis = x.reshape(-1), 0
    later = op.linear_recurrence(
        op.roll(x, -1, axis=axis).conj(), widen(g), axis=axis, reverse=True
    )
    # y as it is rounded to 16 bits, or asked for in another dtype, would cost the gradient digits
    known = y.dtype == x.dtype and y.shape == x.shape
    before = _shifted(y, axis, False, np.ones_like) if known else product_before(x, axis)
    return (before.conj() * later).reshape(shape)


cumsum.batch(along)
cumprod.batch(along)
linear_recurrence.batch(both_along)


def product_before(x: Any, axis: int, reverse: bool = False) -> Any:
    """Π_{j<k} x_j in place k along `axis`; with reverse Π_{j>k} x_j."""
    if reverse:
        return op.flip(product_before(op.flip(x, axis=axis), axis), axis=axis)
    return _shifted(op.cumprod(x, axis=axis), axis, False, np.ones_like)


@composite(numpy=getattr(np, "cumulative_sum", ()))
@on_its_gpu
def cumulative_sum(
    x: Any, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """cumsum by the array API's name; include_initial puts a 0 in front."""
    return _with_initial(op.cumsum, np.zeros_like, x, axis, dtype, include_initial)


@composite(numpy=getattr(np, "cumulative_prod", ()))
@on_its_gpu
def cumulative_prod(
    x: Any, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """cumprod by the array API's name; include_initial puts a 1 in front."""
    return _with_initial(op.cumprod, np.ones_like, x, axis, dtype, include_initial)


def _with_initial(
    running: Any, fill_like: Any, x: Any, axis: int | None, dtype: Any, include_initial: bool
) -> Any:
    x = op.atleast_1d(x)
    if axis is None and x.ndim > 1:
        raise ValueError(f"{running.name}: axis is needed for an array of shape {x.shape}")
    axis = 0 if axis is None else axis
    y = running(x, axis=axis, dtype=dtype)
    if not include_initial:
        return y
    shape = [1 if i == axis_of(axis, x.ndim) else n for i, n in enumerate(y.shape)]
    first = module_of(x).empty(shape, dtype=y.dtype)
    return np.concatenate([fill_like(first), y], axis=axis)
