"""The faster forms of reductions.

NumPy starts its loop again for each row, and makes several Python calls before it sums a small
array. A look-up of variants would cost small sums a tenth: these forms replace the references.
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.image_layout import places, turned
from ...custom.rule_variants import vjp_variant
from ...custom.variants import ANY
from ...engine.registry import op
from ...ops.axes import accumulate, axes_of, count, widen
from ...ops.reduce import spread, sums
from ...ops.reduce.sums import keep_axes
from ..forms import Forms
from ..row_sums import (
    FEW,
    extremum_of_each_row,
    folds,
    left_of,
    rows_along,
    sum_of_each_row,
    sum_of_product,
    sum_of_rows,
)

form = Forms()


# -- sums and means --------------------------------------------------------------------------------


@form(op.sum, "rows", on=ANY)
def sum_of(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    if type(axis) is tuple and len(axis) > 1 and _of_channels(x, axis, dtype):
        y = _sum_of_channels(x, axis[1:])
        return y.reshape((1, -1, *(1,) * (x.ndim - 2))) if keepdims else y
    if dtype is None and x.dtype.itemsize != 2:
        y = _sum_of_rows(x, axis, keepdims) if x.size >= FEW else None
        # np.sum calls this after several checks
        return x.sum(axis, None, None, keepdims) if y is None else y
    return accumulate(np.sum, x, dtype, axis=axis, keepdims=keepdims)


def _sum_of_rows(x: Any, axis: Any, keepdims: bool) -> Any:
    """Σ x over all axes except the last, or over the last ones; None where NumPy is as fast."""
    if _of_leading(x, axis) and folds(x):
        y = sum_of_rows(x.reshape((-1, x.shape[-1])))
        return y.reshape((*(1,) * (x.ndim - 1), -1)) if keepdims else y
    rows = rows_along(x, axis)
    if rows is None:
        return None
    return sum_of_each_row(rows).reshape(left_of(x.shape, axis, keepdims))


def _of_leading(x: Any, axis: Any) -> bool:
    """Whether the sum is over all axes except the last."""
    return axis == 0 if x.ndim == 2 and type(axis) is int else axis == tuple(range(x.ndim - 1))


def _of_channels(x: Any, axis: tuple, dtype: Any) -> bool:
    """Whether the sum is over the images and pixels of each channel."""
    return axis == (0, *range(2, x.ndim)) and dtype is None and x.dtype.itemsize != 2


def _sum_of_channels(x: Any, axes: tuple) -> Any:
    """Σ of each channel of images x (N, C, *size) -> (C,): faster one axis after the other, first
    the axes that leave long runs.
    """
    if not turned(x):
        return x.sum(0, keepdims=True).sum(axes)[0]
    rows = places(x)
    if folds(rows):
        return sum_of_rows(rows.reshape((-1, rows.shape[-1])))
    return x.sum(axes, keepdims=True).sum(0).reshape(-1)


@form(op.mean, "rows", on=ANY)
def mean_of(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    if dtype is None and x.ndim and x.size and x.dtype.char in "fdFD":
        return op.sum.forward(x, axis, None, keepdims) / count(x.shape, axis)
    return accumulate(np.mean, x, dtype, axis=axis, keepdims=keepdims)


def _spread(g: Any, shape: tuple, axis: Any, keepdims: bool) -> Any:
    """The same as the table's; a small array is filled, in a fifth of the time of making a view."""
    if type(g) is np.ndarray and prod(shape) <= FEW:
        y = np.empty(shape, g.dtype)
        y[...] = keep_axes(g, shape, axis, keepdims)
        return y
    return sums.spread(g, shape, axis, keepdims)


@vjp_variant(op.sum, "x", name="filled", always=True)
def sum_dx(g, x_shape, axis, keepdims):
    return _spread(g, x_shape, axis, keepdims)


@vjp_variant(op.mean, "x", name="filled", always=True)
def mean_dx(g, x_shape, axis, keepdims):
    return _spread(widen(g) / (count(x_shape, axis) or 1), x_shape, axis, keepdims)


# -- extrema ---------------------------------------------------------------------------------------


@form(op.max, "rows", on=ANY)
def max_of(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _extremum(np.maximum, np.max, x, axis, keepdims)


@form(op.min, "rows", on=ANY)
def min_of(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return _extremum(np.minimum, np.min, x, axis, keepdims)


def _extremum(function: np.ufunc, reduction: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    """The reduction, by `function` where x has many short rows."""
    rows = rows_along(x, axis)
    if rows is None:
        return reduction(x, axis=axis, keepdims=keepdims)
    return extremum_of_each_row(function, rows).reshape(left_of(x.shape, axis, keepdims))


# -- spread ----------------------------------------------------------------------------------------


@form(op.var, "rows", on=ANY)
def var_of(
    x: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False,
    correction: float | None = None,
) -> Any:  # fmt: skip
    lost = spread.degrees_lost("var", ddof, correction)
    y = _var_of_rows(x, axis, dtype, lost, keepdims)
    return op.var.reference(x, axis, dtype, ddof, keepdims, correction) if y is None else y


@form(op.std, "rows", on=ANY)
def std_of(
    x: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False,
    correction: float | None = None,
) -> Any:  # fmt: skip
    lost = spread.degrees_lost("std", ddof, correction)
    with np.errstate(over="ignore"):  # where it overflows, `settled` computes it again
        y = _var_of_rows(x, axis, dtype, lost, keepdims)
    if y is None:
        return op.std.reference(x, axis, dtype, ddof, keepdims, correction)
    return spread.settled(x, np.sqrt(y), None, {"axis": axis, "ddof": lost, "keepdims": keepdims})


def _var_of_rows(x: Any, axis: Any, dtype: Any, ddof: Any, keepdims: bool) -> Any:
    """np.var where `axis` makes many rows of x, with faster sums; else None."""
    rows = rows_along(x, axis) if dtype is None else None
    if rows is None or rows.shape[1] <= ddof:
        return None
    n = rows.shape[1]
    mean = sum_of_each_row(rows)
    mean /= n
    centred = rows - mean[:, None]
    centred *= centred
    y = sum_of_each_row(centred)
    y /= n - ddof
    return y.reshape(left_of(x.shape, axis, keepdims))


@form(op.p_norm, "product", on=ANY)
def norm_by_blas(x: Any, axis: Any = None, keepdims: bool = False, p: float = 2) -> Any:
    """Squares of many real numbers by BLAS's product of a vector with itself."""
    many = p == 2 and type(x) is np.ndarray and x.size >= FEW
    if not many or (wide := widen(x)).dtype.char not in "fd":
        return op.p_norm.reference(x, axis, keepdims, p)
    axes = axes_of(axis, x.ndim)
    with np.errstate(over="ignore"):  # computed again below
        total = sum_of_product(wide, wide, axes)
    if not keepdims:
        total = total.reshape([n for k, n in enumerate(x.shape) if k not in axes])
    y = np.sqrt(total).astype(x.dtype, copy=False)
    known = (total >= np.finfo(wide.dtype).tiny) & (total < np.inf)
    return y if known.all() else np.where(known, y, op.p_norm.reference(x, axis, keepdims, p))


@vjp_variant(op.p_norm, "x", name="quotients")
def p_norm_dx(g, x, y, axis, keepdims, p):
    """One division for each norm, not for each element, where the quotients are normal numbers."""
    if p == 2 and type(x) is np.ndarray and x.size > FEW:
        g_kept, y_kept = (keep_axes(c, x.shape, axis, keepdims) for c in (g, y))
        w = spread.divided(widen(g_kept), y_kept)
        if isinstance(w, np.ndarray) and _is_normal(w):
            return w * widen(x)
    return None


_TINY = {char: float(np.finfo(char).tiny) for char in "fdFD"}


def _is_normal(w: Any) -> bool:
    tiny = _TINY.get(w.dtype.char, np.inf)
    if w.size == 1:
        return bool(tiny <= abs(w.item()) < np.inf)
    size = np.abs(w)
    return bool(np.minimum.reduce(size, axis=None) >= tiny and size.max() < np.inf)


form.install()
