"""Reductions that ignore NaN. A NaN is selected away first, so its gradient is exactly 0."""

from typing import Any

import numpy as np

from ..backends.dtypes import is_differentiable, resolve_dtype
from ..engine.graph import raw
from ..engine.primitive import primitive
from ..engine.registry import chosen_table, op
from ..tensor_api.composite import composite, on_its_gpu
from ..tensor_api.numpy_protocol import mask_of
from .axes import array_like, constant_array, module_of, sortable
from .batching import full
from .elementwise.support import ordered
from .reduce.order import (
    BETWEEN,
    fractional_rank,
    quantile_dtype,
    rows_over,
    shares,
    stacked,
    weighted,
    weights_over,
    with_axes,
)  # fmt: skip
from .reduce.spread import degrees_lost

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin",
    "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum", "nanvar",
]  # fmt: skip


def _without_nan(x: Any, value: float) -> Any:
    """x with `value` for NaN."""
    x = array_like(x)
    return x if x.dtype.kind in "iub" else op.where(op.isnan(x), value, x)


def _kept(x: Any, where: Any) -> Any:
    """Which elements count: those that are not NaN and, of these, those where `where` holds."""
    kept = op.logical_not(op.isnan(x))
    return kept if where is True else op.logical_and(kept, mask_of("where", where, x.shape))


@composite(numpy=np.nansum)
def nansum(
    x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Any:  # fmt: skip
    """y = initial (0) + Σ x over the elements that are not NaN and where `where` holds."""
    return chosen_table[np.sum](_without_nan(x, 0), axis, dtype, keepdims, initial, where)


@composite(numpy=np.nanprod)
def nanprod(
    x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Any:  # fmt: skip
    """y = initial (1) · Π x over the elements that are not NaN and where `where` holds."""
    return chosen_table[np.prod](_without_nan(x, 1), axis, dtype, keepdims, initial, where)


@composite(numpy=np.nancumsum)
def nancumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """cumsum with 0 for NaN."""
    return op.cumsum(_without_nan(x, 0), axis=axis, dtype=dtype)


@composite(numpy=np.nancumprod)
def nancumprod(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """cumprod with 1 for NaN."""
    return op.cumprod(_without_nan(x, 1), axis=axis, dtype=dtype)


@composite(numpy=np.nanmean)
def nanmean(
    x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, where: Any = True
) -> Any:
    """y = the mean of the elements that are not NaN (and where `where` holds); NaN of none."""
    x = array_like(x)
    _check_dtype("nanmean", x, dtype)
    if is_differentiable(x.dtype):  # others are without NaN
        where = _kept(x, where)
    return chosen_table[np.mean](x, axis, dtype, keepdims, where)


def _check_dtype(name: str, x: Any, dtype: Any) -> None:
    wanted = resolve_dtype(dtype)
    if wanted is not None and is_differentiable(x.dtype) and not is_differentiable(wanted):
        raise TypeError(f"{name}: dtype={wanted} would cut off the fractions of {x.dtype} before "
                        f"they are added; take {name} first, then y.astype")  # fmt: skip


@composite(numpy=np.nanvar)
def nanvar(
    x: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False,
    correction: float | None = None, where: Any = True, mean: Any = None,
) -> Any:  # fmt: skip
    """y = Σ |x − mean|² / (n − ddof) over the n elements that are not NaN; NaN if n ≤ ddof.

    where: only elements where it holds count. mean: their nanmean, if it is known, with the reduced
    axes at length 1. `correction` is another name for ddof.
    """
    ddof = degrees_lost("nanvar", ddof, correction)
    return _nan_spread("nanvar", np.var, x, axis, dtype, ddof, keepdims, where, mean)


@composite(numpy=np.nanstd)
def nanstd(
    x: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False,
    correction: float | None = None, where: Any = True, mean: Any = None,
) -> Any:  # fmt: skip
    """y = √nanvar, of gradient 0 where all elements are equal."""
    ddof = degrees_lost("nanstd", ddof, correction)
    return _nan_spread("nanstd", np.std, x, axis, dtype, ddof, keepdims, where, mean)


def _nan_spread(
    name: str, spread: Any, x: Any, axis: Any, dtype: Any, ddof: float, keepdims: bool, where: Any,
    mean: Any,
) -> Any:  # fmt: skip
    """The spread of chosen elements (reduce/chosen.py), NaN where they are too few."""
    x = array_like(x)
    _check_dtype(name, x, dtype)
    kept = _kept(x, where)
    y = chosen_table[spread](
        x, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims, where=kept, mean=mean
    )
    enough = op.count_nonzero(kept, axis=axis, keepdims=keepdims) > ddof
    return op.where(enough, y, np.nan)


@composite(numpy=np.nanmax)
def nanmax(
    x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Any:
    """y = the largest element that is not NaN, ties share the gradient; NaN if there is none.

    initial: a number that is compared, too; with where=, which may leave no element, it is needed.
    """
    return _nan_extremum(np.max, -np.inf, x, axis, keepdims, initial, where)


@composite(numpy=np.nanmin)
def nanmin(
    x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Any:
    """y = the smallest element that is not NaN, ties share the gradient; NaN if there is none.

    initial, where: as for nanmax.
    """
    return _nan_extremum(np.min, np.inf, x, axis, keepdims, initial, where)


def _nan_extremum(
    extremum: Any, filler: float, x: Any, axis: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    x = array_like(x)
    y = chosen_table[extremum](_without_nan(x, filler), axis, None, keepdims, initial, where)
    if x.dtype.kind in "iub" or initial is not None:
        return y
    return op.where(op.all(op.isnan(x), axis=axis, keepdims=keepdims), np.nan, y)


@composite(numpy=np.nanargmax)
def nanargmax(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Where the largest element that is not NaN stands. No gradient.

    Of NaN and −∞ alone the first, NaN or not, as in NumPy.
    ValueError where all are NaN; on a GPU, where it would wait for the numbers, the first of them.
    """
    _refuse_nan_alone("nanargmax", x, axis)
    return op.argmax(_without_nan(x, -np.inf), axis=axis, keepdims=keepdims)


@composite(numpy=np.nanargmin)
def nanargmin(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Where the smallest element that is not NaN stands. No gradient; errors as for nanargmax."""
    _refuse_nan_alone("nanargmin", x, axis)
    return op.argmin(_without_nan(x, np.inf), axis=axis, keepdims=keepdims)


def _refuse_nan_alone(name: str, x: Any, axis: Any) -> None:
    x = array_like(x)
    if x.dtype.kind not in "iub" and x.size and module_of(x) is np:
        alone = raw(op.all(op.isnan(x), axis=axis))
        if alone.any():
            raise ValueError(
                f"{name}: All-NaN slice encountered, {np.count_nonzero(alone)} of {alone.size}: "
                "there is no element to name; select those with a number first"
            )


# -- order statistics ------------------------------------------------------------------------


@primitive(constants=["ranks"])
def ranked(x, ranks):
    """y = the element of rank ranks[...] of each row of x (..., n), NaN ranking last.

    gx = g in equal shares to the elements equal to y.
    """
    y = np.take_along_axis(np.sort(sortable(x), axis=-1), ranks[..., None], -1)[..., 0]
    return y.astype(x.dtype)


@ranked.vjp("x")
def ranked_dx(g, x, y):
    ties = x == y.reshape((*y.shape, 1))
    number = np.maximum(np.sum(ties, axis=-1, keepdims=True), 1).astype(g.dtype)
    return np.where(ties, g.reshape((*g.shape, 1)) / number, 0)


@ranked.batch
def ranked_batch(op_, xs, batched, params):
    return ranked(*full(xs, batched))


@composite(numpy=np.nanquantile)
@on_its_gpu
def nanquantile(
    x: Any, q: Any, axis: Any = None, keepdims: bool = False, method: str = "linear",
    *, weights: Any = None,
) -> Any:  # fmt: skip
    """The q-th quantile of the elements that are not NaN, interpolated between two of them.

    q: a number or an array, constants; its axes come first in the result. method, weights: as in
    quantile.
    The gradient goes to the two neighbours by their weights. NaN where all are NaN.
    """
    return _nanquantile(ordered(array_like(x), "nanquantile"), q, axis, keepdims, method, weights)


def _nanquantile(x: Any, q: Any, axis: Any, keepdims: bool, method: str, weights: Any) -> Any:
    q = constant_array(q, "q")
    dtype = quantile_dtype(x, q, method)
    q = np.asarray(q, dtype=np.float64)
    if not ((q >= 0) & (q <= 1)).all():
        raise ValueError(f"nanquantile: q must lie between 0 and 1, got {q.tolist()!r}")
    if weights is not None:
        w, rows = weights_over(x, weights, axis, method, "nanquantile"), rows_over(x, axis)
        y = weighted(rows, q, op.where(op.isnan(rows), 0, w))
        return with_axes(y, x.shape, axis, keepdims, q.shape)
    rows, present = _rows_present(op.astype(x, dtype=dtype, copy=False), axis)
    results = [_between(rows, present, share_below, method) for share_below in q.ravel()]
    y = results[0] if q.ndim == 0 else stacked(results, rows)
    return with_axes(y, x.shape, axis, keepdims, q.shape)


def _rows_present(x: Any, axis: Any) -> tuple[Any, Any]:
    """The rows over the axes, and how many elements of each are not NaN."""
    rows = rows_over(x, axis)
    if rows.shape[-1] == 0:
        rows = op.sum(rows, axis=-1, keepdims=True) + np.nan  # no element: as if all were NaN
    return rows, op.count_nonzero(op.logical_not(op.isnan(rows)), axis=-1)


def _between(rows: Any, present: Any, q: float, method: str) -> Any:
    """The element of each row whose fractional rank the share q is, among those present."""
    last = op.maximum(present - 1, 0)
    rank = fractional_rank(float(q), last + 1, method)
    low = op.astype(op.floor(rank), dtype=np.intp)
    below = ranked(rows, low)
    if method not in BETWEEN:
        return below
    above = ranked(rows, op.minimum(low + 1, last))
    weight = op.astype(rank - low, dtype=rows.dtype)
    # weight 0 selects: 0 times an infinite difference would be NaN
    return op.where(weight > 0, below + (above - below) * weight, below)


@composite(numpy=np.nanpercentile)
@on_its_gpu
def nanpercentile(
    x: Any, q: Any, axis: Any = None, keepdims: bool = False, method: str = "linear",
    *, weights: Any = None,
) -> Any:  # fmt: skip
    """nanquantile with q in percent."""
    q = shares(constant_array(q, "q"), "nanpercentile")
    return nanquantile(x, q, axis=axis, keepdims=keepdims, method=method, weights=weights)


@composite(numpy=np.nanmedian)
def nanmedian(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The median of the elements that are not NaN; half the gradient each for an even count."""
    x = array_like(x)
    rows, present = _rows_present(x, axis)
    last = op.maximum(present - 1, 0)
    # the mean of the two: from one a share of the way to the other, −∞ and 1 would be NaN
    below, above = ranked(rows, last // 2), ranked(rows, (last + 1) // 2)
    return with_axes(below * 0.5 + above * 0.5, x.shape, axis, keepdims)
