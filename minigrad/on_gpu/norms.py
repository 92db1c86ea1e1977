"""Normalisation on a GPU: `standardize` and its derivatives in one or two passes over x.

Where the means are over the last axes (layer, rms, group and instance norm), a kernel takes a row
at a time. It reads x once for the mean, the variance and the result. Where they include the batch
(batch norm), one kernel sums each example's channels, and a second one sums over the batch.
"""

from functools import cache
from math import prod
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import accumulator, is_floating
from ..fusion import launch
from ..fusion.launch import shaped
from ..ops.axes import sum_to
from ..ops.norm.scaled import is_lost
from ..ops.norm.standardize import move_running
from .install import on_gpu
from .rows import columns_sum


def _mean(x: Any) -> Any:
    return x.mean(axis=-1, keepdims=True)


def _factors(dtype: Any, eps: float) -> list[float]:
    """Powers of two: the first scales down numbers whose squares overflow the dtype. Where eps is
    below its normal numbers, the second scales up numbers whose squares underflow."""
    far = int(np.finfo(dtype).maxexp) * 5 // 8
    return [2.0**-far, 2.0**far] if eps < np.finfo(dtype).tiny else [2.0**-far]


def _rstd(variances: list, factors: list[float], eps: float, tiny: float) -> Any:
    """1/√(var + eps), from var and from the variances of the numbers times each factor. The first
    factor serves where var is infinite, the second where it is below the normal numbers."""
    rstd = 1 / np.sqrt(variances[0] + eps)
    if len(factors) > 1:
        rstd = np.where(variances[0] < tiny, factors[1] / np.sqrt(variances[2]), rstd)
    return np.where(variances[0] < np.inf, rstd, factors[0] / np.sqrt(variances[1]))


@cache
def words(eps: float, centre: bool, weighted: bool, biased: bool, wide: Any, far: bool) -> Any:
    """(y, mean, rstd) of rows; `far`: also of rows whose squares overflow or underflow."""
    factors, tiny = _factors(wide, eps), float(np.finfo(wide).tiny)

    def forward(x: Any, *affine: Any) -> list:
        x = x.astype(wide)
        mean = _mean(x) if centre else None
        centred = x - mean if centre else x
        if far:
            scaled = [centred, *[centred * k for k in factors]]
            rstd = _rstd([_mean(z * z) for z in scaled], factors, eps, tiny)
        else:
            rstd = 1 / np.sqrt(_mean(centred * centred) + eps)
        y = centred * rstd
        if weighted:
            y = y * affine[0].astype(wide)
        if biased:
            y = y + affine[-1].astype(wide)
        return [y, mean, rstd]

    return forward


@cache
def words_dx(centre: bool, weighted: bool, wide: Any) -> Any:
    """The gradient in x of rows."""

    def dx(a: Any, x: Any, mean: Any, rstd: Any, *weight: Any) -> list:
        u = a.astype(wide)
        if weighted:
            u = u * weight[0].astype(wide)
        xhat = (x.astype(wide) - mean if centre else x.astype(wide)) * rstd
        y = u - xhat * _mean(u * xhat)
        return [(y - _mean(u) if centre else y) * rstd]

    return dx


def _rows_of(x: Any, axis: tuple) -> tuple | None:
    """The shape (…, row) of x where `axis` are its last axes."""
    kept = x.ndim - len(axis)
    if axis != tuple(range(kept, x.ndim)) or not x.size:
        return None
    return (*x.shape[:kept], prod(x.shape[kept:]))


def _along(w: Any, x: Any, axis: tuple) -> Any:
    """A weight as an array that broadcasts against rows; None for None, False where it cannot."""
    if w is None:
        return None
    shape = (*(1,) * (x.ndim - w.ndim), *w.shape)
    kept = x.ndim - len(axis)
    inner = shape[kept:]
    if inner == x.shape[kept:]:
        return w.reshape((*shape[:kept], prod(inner)))
    return w.reshape((*shape[:kept], 1)) if prod(inner) == 1 else False


def over_channels(x: Any, axis: tuple) -> bool:
    """Whether the means are over batch and space, one for each channel."""
    return axis == (0, *range(2, x.ndim)) and bool(x.size)


def _of_channels(w: Any, x: Any) -> bool:
    """Whether w has one entry for each channel, axis 1 of x; or is None."""
    if w is None:
        return True
    return (*(1,) * (x.ndim - w.ndim), *w.shape) == (1, x.shape[1], *(1,) * (x.ndim - 2))


@on_gpu("standardize")
def standardize(
    x: Any, weight: Any = None, bias: Any = None, *, axis: Any, eps: float, centre: bool = True,
    running: Any = None,
) -> Any:  # fmt: skip
    if not is_floating(x.dtype) or not _broadcasts(x, weight, bias):
        return None
    wide = np.dtype(accumulator(x.dtype) or x.dtype)
    shape = _rows_of(x, axis)
    kept, var = tuple([1 if k in axis else n for k, n in enumerate(x.shape)]), None
    if shape is not None:
        ys = _by_rows(x, shape, weight, bias, axis, eps, centre, wide)
    elif over_channels(x, axis) and _of_channels(weight, x) and _of_channels(bias, x):
        ys, var = _by_channels(x, weight, bias, eps, centre, wide)
    else:
        return None
    if ys is None:
        return None
    y, mean, rstd = ys
    if is_lost(rstd, eps):
        return None  # arrays of the host only: the op's own forward handles such rows
    mean = rstd * 0 if mean is None else mean
    y, mean, rstd = shaped(y, x.shape), shaped(mean, kept), shaped(rstd, kept)
    if running is not None:
        if var is None:
            var = np.maximum(1 / (rstd * rstd) - eps, 0)  # no −ε eps for equal values
        move_running(running, mean, shaped(var, kept), x)
    return y, mean, rstd


def _broadcasts(x: Any, *others: Any) -> bool:
    """Whether the shapes match; the op's own forward raises the error if not."""
    return all(
        w is None
        or w.ndim <= x.ndim
        and all(n in (1, m) for n, m in zip(w.shape[::-1], x.shape[::-1], strict=False))
        for w in others
    )


def _by_rows(
    x: Any, shape: tuple, weight: Any, bias: Any, axis: tuple, eps: float, centre: bool, wide: Any
) -> Any:
    own = [_along(w, x, axis) for w in (weight, bias)]
    given = [w for w in own if w is not None]
    apart = any(w is False for w in own)  # group norm's: neither by row nor by element
    given = [] if apart else given
    flags = (weight is not None and not apart, bias is not None and not apart)
    far = array_module(x) is not np
    fn = words(eps, centre, *flags, wide, far)
    narrow = x.dtype

    def stored(*values: Any) -> list:
        y, *others = fn(*values)
        return [y.astype(wide if apart else narrow), *others]

    key = ("standardize", eps, centre, *flags, apart, far)
    ys = launch.run(key, stored, [x.reshape(shape), *given])
    if ys is None or not apart:
        return ys
    return (_affine(shaped(ys[0], x.shape), weight, bias, narrow), *ys[1:])


def _affine(y: Any, weight: Any, bias: Any, dtype: Any) -> Any:
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).astype(dtype, copy=False)


def _channel_sums(key: Any, fn: Any, arrays: list, x: Any, wide: Any) -> list | None:
    """Σ fn over batch and space for each channel, each (C,)."""
    n, c = x.shape[:2]
    space = prod(x.shape[2:])
    if space == 1:
        arrays = [a.reshape((n, c)) if a.size == x.size else a.reshape((1, c)) for a in arrays]
        return columns_sum((key, "batch"), fn, arrays, n, (c,))
    arrays = [
        a.reshape((n, c, space)) if a.size == x.size else a.reshape((1, c, 1)) for a in arrays
    ]

    def sums(*values: Any) -> list:
        ys = fn(*[v.astype(wide) for v in values])
        return [y.sum(axis=-1, keepdims=True) for y in ys]

    parts = launch.run((key, "channels", wide), sums, arrays)
    if parts is None:
        return None
    return launch.run_columns("total", _each, [p.reshape((n, c)) for p in parts])


def _each(*sums: Any) -> list:
    return list(sums)


def _by_channels(x: Any, weight: Any, bias: Any, eps: float, centre: bool, wide: Any) -> tuple:
    """((y, mean, rstd), var), or (None, None)."""
    c = x.shape[1]
    count = x.size // c
    mean = None
    if centre:
        sums = _channel_sums("sum", lambda v: [v], [x], x, wide)
        if sums is None:
            return None, None
        mean = sums[0].astype(wide, copy=False) / count
    far = array_module(x) is not np
    factors = _factors(wide, eps) if far else []

    def squares_of(v: Any, *m: Any) -> list:
        centred = v - m[0] if m else v
        return [z * z for z in (centred, *[centred * k for k in factors])]

    given = [x, mean] if centre else [x]
    squares = _channel_sums(("squares", centre, *factors), squares_of, given, x, wide)
    if squares is None:
        return None, None
    variances = [square.astype(wide, copy=False) / count for square in squares]
    var = variances[0]
    if far:
        rstd = _rstd(variances, factors, eps, float(np.finfo(wide).tiny))
    else:
        rstd = 1 / np.sqrt(var + eps)
    column = (1, c, *(1,) * (x.ndim - 2))
    given = [w for w in (mean, rstd, weight, bias) if w is not None]
    flags = centre, weight is not None, bias is not None
    dtype = x.dtype

    def scaled(v: Any, *others: Any) -> list:
        rest = [w.astype(wide) for w in others]
        v = v.astype(wide)
        v = v - rest.pop(0) if flags[0] else v
        v = v * rest.pop(0)
        v = v * rest.pop(0) if flags[1] else v
        return [(v + rest.pop(0) if flags[2] else v).astype(dtype)]

    ys = launch.run(
        ("standardized", flags, dtype), scaled, [x, *[w.reshape(column) for w in given]]
    )
    return (None, None) if ys is None else ((ys[0], mean, rstd), var)


@on_gpu("standardize_dx")
def standardize_dx(
    a: Any, x: Any, weight: Any = None, mean: Any = None, rstd: Any = None, *, axis: Any,
    eps: float, centre: bool = True,
) -> Any:  # fmt: skip
    if not is_floating(x.dtype) or a.shape != x.shape or not _broadcasts(x, weight, mean, rstd):
        return None
    wide, dtype = np.dtype(accumulator(x.dtype) or x.dtype), x.dtype
    shape = _rows_of(x, axis)
    if shape is None:
        return _dx_by_channels(a, x, weight, mean, rstd, centre) if over_channels(x, axis) else None
    w = _along(weight, x, axis)
    if w is False:
        a, w = a * weight, None
    fn = words_dx(centre, w is not None, wide)
    line = (*shape[:-1], 1)
    arrays = [a.reshape(shape), x.reshape(shape), mean.reshape(line), rstd.reshape(line)]
    key = ("standardize_dx", centre, w is not None, dtype)
    ys = launch.run(
        key, lambda *v: [fn(*v)[0].astype(dtype)], arrays if w is None else [*arrays, w]
    )
    return None if ys is None else shaped(ys[0], x.shape)


def _dx_by_channels(a: Any, x: Any, weight: Any, mean: Any, rstd: Any, centre: bool) -> Any:
    if not _of_channels(weight, x):
        return None
    sums = gradient_sums(a, x, mean, rstd, centre)
    return None if sums is None else dx_from_sums(a, x, weight, mean, rstd, centre, sums)


def gradient_sums(a: Any, x: Any, mean: Any, rstd: Any, centre: bool) -> list | None:
    """(Σ a, Σ a x̂) over batch and space for each channel: the gradients of bias and weight."""
    wide = np.dtype(accumulator(x.dtype) or x.dtype)
    return _channel_sums(
        ("dx", centre), lambda u, v, m, r: [u, u * ((v - m) * r)], [a, x, mean, rstd], x, wide
    )


def dx_from_sums(
    a: Any, x: Any, weight: Any, mean: Any, rstd: Any, centre: bool, sums: list
) -> Any:
    """The gradient in x from those sums: (u − mean u − x̂ mean(u x̂)) r weight, with u = a."""
    wide, dtype = np.dtype(accumulator(x.dtype) or x.dtype), x.dtype
    c = x.shape[1]
    count = x.size // c
    column = (1, c, *(1,) * (x.ndim - 2))
    means = [(s.astype(wide, copy=False) / count).reshape(column) for s in sums]
    scale = rstd if weight is None else rstd * weight.astype(wide, copy=False).reshape(column)

    def dx(u: Any, v: Any, m: Any, r: Any, mean_u: Any, mean_ux: Any, s: Any) -> list:
        u = u.astype(wide) - (v.astype(wide) - m) * r * mean_ux
        return [((u - mean_u if centre else u) * s).astype(dtype)]

    given = [a, x, mean.reshape(column), rstd.reshape(column), *means, scale.reshape(column)]
    ys = launch.run(("standardize_dx of channels", centre, dtype), dx, given)
    return None if ys is None else ys[0]


@on_gpu("standardize_dw")
def standardize_dw(
    a: Any, x: Any, mean: Any = None, rstd: Any = None, *, shape: Any, axis: Any, eps: float,
    centre: bool = True,
) -> Any:  # fmt: skip
    if not is_floating(x.dtype) or a.shape != x.shape or not _broadcasts(x, mean, rstd):
        return None
    if a.dtype != x.dtype:
        return None

    def product(u: Any, v: Any, m: Any, r: Any) -> list:
        return [u * ((v - m if centre else v) * r)]

    wide = np.dtype(accumulator(x.dtype) or x.dtype)
    full = (*(1,) * (x.ndim - len(shape)), *shape)
    rows_shape = _rows_of(x, axis)
    if rows_shape is not None and full == (*(1,) * (x.ndim - len(axis)), *x.shape[-len(axis) :]):
        rows = prod(rows_shape[:-1])
        line = (rows, 1)
        arrays = [a, x, mean.reshape(line), rstd.reshape(line)]
        ys = columns_sum(("dw", centre), product, arrays, rows, rows_shape[-1:])
    elif over_channels(x, axis) and full == tuple(
        [1 if k in axis else n for k, n in enumerate(x.shape)]
    ):
        ys = _channel_sums(("dw", centre), product, [a, x, mean, rstd], x, wide)
    elif rows_shape is not None:  # group norm: its weights are neither by row nor by element
        line = (*rows_shape[:-1], 1)
        arrays = [a.reshape(rows_shape), x.reshape(rows_shape), mean.reshape(line)]
        key = ("dw of groups", centre, wide)
        ys = launch.run(
            key, lambda *v: product(*[s.astype(wide) for s in v]), [*arrays, rstd.reshape(line)]
        )
        ys = ys and [sum_to(shaped(ys[0], x.shape), full)]
    else:
        return None
    return None if ys is None else shaped(ys[0], shape).astype(x.dtype, copy=False)
