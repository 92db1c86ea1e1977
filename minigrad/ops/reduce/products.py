"""Products. A factor's gradient is the product of the others, without a division near zeros."""

from math import prod as size_of
from typing import Any

import numpy as np

from ...engine.graph import raw
from ...engine.primitive import primitive
from ...engine.registry import op
from ..axes import accumulate, axes_of, widen
from ..batching import reduction
from .cumulative import product_before
from .sums import keep_axes

__all__ = ["prod"]


@primitive(numpy=np.prod)
def prod(x, axis=None, dtype=None, keepdims=False):
    """y = Π x over `axis` ;  gx_k = g Π_{j≠k} x_j, exact also where factors are 0.

    The others' product is what stands before k times what stands after it. 16-bit floats are
    multiplied in float32.
    """
    return accumulate(np.prod, x, dtype, axis=axis, keepdims=keepdims)


@prod.vjp("x")
def prod_dx(g, x, y, axis, keepdims):
    normal = _normal(y) if type(x) is np.ndarray is type(y) else None
    x = widen(x)
    g, y = (keep_axes(widen(a), x.shape, axis, keepdims) for a in (g, y))
    if normal is not None and normal.all():
        return g * (y / x).conj()
    others = _others(x, axis)
    if not np.isfinite(raw(others)).all():  # ∞ before k and next to 0 behind it: y may have a value
        lost = ~np.isfinite(others) & np.isfinite(y) & (x != 0)
        others = op.where(lost, y / op.where(lost, x, 1), others)
    if normal is not None and normal.any():
        normal = keep_axes(normal, x.shape, axis, keepdims)
        others = np.where(normal, y / np.where(normal, x, 1), others)
    return g * others.conj()


def _normal(y: Any) -> Any:
    """Which products are not 0, subnormal or infinite. There the others' product is y/x, which is
    faster, and right also where the product before k or behind it is beyond the dtype. Of arrays
    alone: as a function of x, y/x has no derivative where a factor is 0.
    """
    if y.dtype.char not in "fdFD":
        return np.zeros(y.shape, bool)
    size = np.abs(y)
    return (size >= np.finfo(size.dtype).tiny) & (size < np.inf)


prod.batch(reduction)


def _others(x: Any, axis: Any) -> Any:
    """In each place, the product of all the other elements of its slice over `axis`."""
    axes = axes_of(axis, x.ndim)
    if len(axes) == 1:
        return product_before(x, axes[0]) * product_before(x, axes[0], reverse=True)
    # several axes: as one, at the end
    kept = tuple([i for i in range(x.ndim) if i not in axes])
    order = (*kept, *axes)
    moved = op.transpose(x, axes=order)
    flat = moved.reshape((*moved.shape[: len(kept)], size_of(moved.shape[len(kept) :])))
    others = product_before(flat, -1) * product_before(flat, -1, reverse=True)
    back = tuple(np.argsort(order).tolist()) if order else ()
    return op.transpose(others.reshape(moved.shape), axes=back)
