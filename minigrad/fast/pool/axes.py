"""Pooling as a reduction, by windows that are the whole image or tile it in long rows.

Their positions are axes of a view. One NumPy call for each position would take much longer.
"""

from typing import Any

import numpy as np

from ...backends.dtypes import accumulator
from ...ops.windows import Windows


def _view(x: Any, how: Windows) -> tuple[Any, tuple]:
    """x (..., *size) with the positions of each window as separate axes; and these axes.

    If a window is the whole image, they are the image's axes.
    """
    at = x.ndim - len(how.kernel)
    lead, size = x.shape[:at], x.shape[at:]
    if how.kernel == size:
        return x, tuple(range(at, x.ndim))
    pairs = zip(size, how.kernel, strict=True)
    view = x.reshape((*lead, *[n for m, k in pairs for n in (m // k, k)]))
    return view, tuple(range(at + 1, view.ndim, 2))


def _beside(y: Any, view: Any, axes: tuple) -> Any:
    """y (..., *out) in a shape that broadcasts against the view."""
    return y if y.ndim == view.ndim else np.expand_dims(y, axes)


def reduced(reduction: Any, x: Any, how: Windows) -> Any:
    """reduction (op.max, op.mean) of each window."""
    view, axes = _view(x, how)
    return reduction.forward(view, axis=axes, keepdims=how.kernel == x.shape[-len(how.kernel) :])


def _maximal(view: Any, top: Any, axes: tuple, dtype: Any) -> tuple[Any, Any]:
    """Where the view has the maximum of its window; and the number of these positions, at least
    1."""
    hits = view == top
    ties = hits.sum(axis=axes, keepdims=True)
    if type(ties) is not np.ndarray or not ties.all():  # a window has a NaN; on a GPU it may have
        hits |= (view != view) & (top != top)
        ties = np.maximum(hits.sum(axis=axes, keepdims=True), 1)
    return hits, ties.astype(dtype)


def max_dx(a: Any, x: Any, y_max: Any, how: Windows) -> Any:
    """Every entry of a, in equal shares, at the positions of its window where x is y_max."""
    view, axes = _view(x, how)
    a = _beside(a.astype(accumulator(a.dtype) or a.dtype, copy=False), view, axes)
    hits, ties = _maximal(view, _beside(y_max, view, axes), axes, a.dtype)
    return np.where(hits, a / ties, 0).reshape(x.shape).astype(x.dtype, copy=False)


def max_pick(a: Any, x: Any, y_max: Any, how: Windows) -> Any:
    """The mean of a over the positions of each window where x is y_max."""
    view, axes = _view(x, how)
    a = _view(a.astype(accumulator(a.dtype) or a.dtype, copy=False), how)[0]
    hits, ties = _maximal(view, _beside(y_max, view, axes), axes, a.dtype)
    y = np.where(hits, a, 0).sum(axis=axes, keepdims=True) / ties
    return y.reshape(y_max.shape).astype(x.dtype, copy=False)


def mean_dx(a: Any, size: tuple, how: Windows, count: int) -> Any:
    """Every entry of a / count at all positions of its window."""
    lead = a.shape[: a.ndim - len(size)]
    share = a.astype(accumulator(a.dtype) or a.dtype, copy=False) / count
    if how.kernel != size:
        at = tuple(range(len(lead) + 1, len(lead) + 2 * len(size), 2))
        share = np.expand_dims(share, at)
        pairs = zip(size, how.kernel, strict=True)
        shape = (*lead, *[n for m, k in pairs for n in (m // k, k)])
    else:
        shape = (*lead, *size)
    return np.broadcast_to(share.astype(a.dtype, copy=False), shape).reshape((*lead, *size))
