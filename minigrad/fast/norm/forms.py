"""The forms of a normalisation that are faster than a sequence of NumPy calls.

They are variants of standardize and of its two derivatives. A call asks them in this order.

rows      layer_norm and rms_norm: a matrix of rows, whose sums BLAS computes
images    batch_norm and similar ones: sums over all pixels, in both memory orders
blocks    everything else: blocks that stay in the cache, on all threads

The three gradients of a normalisation come from one walk over its blocks (joint.py).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.dtypes import common_dtype
from ...custom.rule_variants import vjp_variant
from ...ops.norm import scaled
from ...ops.norm.standardize import (
    check,
    from_front,
    move_running,
    require_same_shape,
    standardize,
    standardize_dw,
    standardize_dx,
)
from ..forms import Forms
from . import blocked, images, rows
from .joint import gradients

form = Forms()


# -- y, mean, rstd = standardize(x, weight, bias) --------------------------------------------------


@form(standardize, "rows")
def by_rows(
    x: Any, weight: Any = None, bias: Any = None, *, axis: Any, eps: float, centre: bool = True,
    running: Any = None,
) -> Any:  # fmt: skip
    axis = from_front(axis, x)
    given = [a.shape for a in (weight, bias) if a is not None]
    if running is not None or not rows.suits(x, axis, *given):
        return None
    args = x, weight, bias, axis, eps, centre
    return _in_range(lambda: rows.standardized(*args), args)


@form(standardize, "images")
def of_images(
    x: Any, weight: Any = None, bias: Any = None, *, axis: Any, eps: float, centre: bool = True,
    running: Any = None,
) -> Any:  # fmt: skip
    if x.size < images.LEAST and x.flags.c_contiguous:
        return None
    axis = from_front(axis, x)
    check(x, axis, weight=np.shape(weight), bias=np.shape(bias))
    of = images.images(x, axis, np.shape(weight), np.shape(bias))
    if of is None:
        return None
    args = x, weight, bias, axis, eps, centre
    return _in_range(lambda: images.standardized(of, weight, bias, eps, centre), args, running)


@form(standardize, "blocks")
def by_blocks(
    x: Any, weight: Any = None, bias: Any = None, *, axis: Any, eps: float, centre: bool = True,
    running: Any = None,
) -> Any:  # fmt: skip
    axis = from_front(axis, x)
    check(x, axis, weight=np.shape(weight), bias=np.shape(bias))
    args = x, weight, bias, axis, eps, centre
    return _in_range(lambda: blocked.standardized(*args), args, running) if x.size else None


def _in_range(compute: Callable[[], tuple], args: tuple, running: Any = None) -> tuple:
    """(y, mean, rstd) by compute(); the reference's where squares were out of range."""
    x, weight, bias, axis, eps, centre = args
    if _is_ordinary(x, eps):
        y, mean, var, rstd = compute()
    else:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            y, mean, var, rstd = compute()
            if scaled.is_lost(rstd, eps):
                lost, how = scaled.lost(rstd), {"axis": axis, "eps": eps, "centre": centre}
                again = standardize.reference(x, weight, bias, **how, running=running)
                return tuple(np.where(lost, *pair) for pair in zip(again, (y, mean, rstd)))
    if running is not None:
        move_running(running, mean, var, x)
    return y, mean, rstd


FEW = 1 << 12  # numbers whose sum of squares takes less time than an errstate context


def _is_ordinary(x: Any, eps: float) -> bool:
    """Whether the sum of squares is finite in the dtype: then no square is lost. False for many
    numbers.
    """
    if x.size > FEW or type(x) is not np.ndarray or x.dtype.char not in "fd":
        return False
    return eps >= scaled.least_normal(x.dtype) and np.vdot(x, x) < np.inf  # pyright: ignore[reportReturnType] (np.bool_)


# -- the derivatives -----------------------------------------------------------------------------


@form(standardize_dx, "blocks")
def dx_by_blocks(
    a: Any, x: Any, weight: Any = None, mean: Any = None, rstd: Any = None, *, axis: Any,
    eps: float, centre: bool = True,
) -> Any:  # fmt: skip
    axis = from_front(axis, x)
    check(x, axis, weight=np.shape(weight), mean=mean.shape, rstd=rstd.shape)
    require_same_shape(a, x)
    if not x.size:
        return None
    if (scale := scaled.scale_of(rstd, eps)) is None:
        return blocked.dx(a, x, weight, mean, rstd, axis, centre)
    near_1, mean, rstd = scaled.rescaled(scale, x, mean, rstd)
    y = blocked.dx(a, near_1, weight, mean, rstd, axis, centre)
    return (y / scale).astype(x.dtype, copy=False)


@form(standardize_dw, "blocks")
def dw_by_blocks(
    a: Any, x: Any, mean: Any = None, rstd: Any = None, *, shape: Any, axis: Any, eps: float,
    centre: bool = True,
) -> Any:  # fmt: skip
    check(x, axis, mean=mean.shape, rstd=rstd.shape, shape=shape)
    require_same_shape(a, x)
    if not x.size:
        return None
    if (scale := scaled.scale_of(rstd, eps)) is None:
        return blocked.dw(a, x, mean, rstd, shape, centre)
    near_1, mean, rstd = scaled.rescaled(scale, x, mean, rstd)
    y = blocked.dw(a, near_1, mean, rstd, shape, centre)
    return y.astype(common_dtype(a, x), copy=False)


@vjp_variant(standardize, name="rules in one walk", on=("cpu",))
def standardize_gradients(
    g, x, weight, mean, rstd, weight_shape, bias_shape, needs, axis, eps, centre
):
    """All three in one walk, for plain arrays."""
    axis, shapes = from_front(axis, x), (weight_shape, bias_shape)
    return gradients(g, x, weight, mean, rstd, shapes, needs, axis, eps, centre)


form.install()
