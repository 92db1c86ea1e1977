"""Linear interpolation between samples, as np.interp."""

from typing import Any

import numpy as np

from ..backends.dtypes import common_dtype
from ..engine.registry import op
from ..tensor_api.composite import composite
from .axes import array_beside, array_like, widen
from .elementwise.support import with_fractions

__all__ = ["interp"]


@composite(numpy=np.interp)
def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None
) -> Any:
    """Linear interpolation of (xp, fp), xp increasing, at x; fp's ends (or left, right) outside.

    Differentiable in x, xp and fp. At a corner, x takes the slope of the segment to its right. With
    a period x and xp count modulo |period|, in any order, and left and right have no effect.
    """
    xp, fp = with_fractions(array_like(xp)), with_fractions(array_like(fp))
    x = with_fractions(array_beside(x, xp))
    if x.dtype.kind == "c" or xp.dtype.kind == "c":
        raise TypeError(f"interp: x {x.dtype} and xp {xp.dtype} must be real; fp may be complex")
    if fp.dtype.kind == "c":  # part by part: an infinite one times a real number is NaN in both
        ends = [[None if v is None else f(array_like(v)) for v in (left, right)]
                for f in (op.real, op.imag)]  # fmt: skip
        parts = [interp(x, xp, f(fp), *end, period=period)
                 for f, end in zip((op.real, op.imag), ends, strict=True)]  # fmt: skip
        return op.view_as_complex(op.stack(parts, axis=-1))
    # One width before anything is computed: a step of float16 is rounded, next to float64 too.
    fp = op.astype(fp, common_dtype(x.dtype, xp.dtype, fp.dtype), copy=False)
    dtype, fp = fp.dtype, widen(fp)
    real = np.empty(0, fp.dtype).real.dtype
    x, xp = op.astype(x, real, copy=False), op.astype(xp, real, copy=False)
    if xp.ndim != 1 or xp.shape != fp.shape or xp.shape[0] == 0:
        raise ValueError(f"interp: xp {xp.shape} and fp {fp.shape} must be equally long vectors")
    if period is not None:
        if period == 0:
            raise ValueError("interp: period is a length that is not 0, or None; got 0")
        period = abs(period)
        x, xp = op.remainder(x, period), op.remainder(xp, period)
        order = op.argsort(xp)
        xp, fp = op.take(xp, order), op.take(fp, order)
        xp = op.concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = op.concatenate([fp[-1:], fp, fp[:1]])
        left = right = None
    last = xp.shape[0] - 1
    below = op.searchsorted(xp, x, side="right") - 1
    low = op.clip(below, 0, max(last - 1, 0))
    high = op.minimum(low + 1, last)
    x0, f0 = op.take(xp, low), op.take(fp, low)
    x1, f1 = op.take(xp, high), op.take(fp, high)
    width = op.where(x1 == x0, 1, x1 - x0)
    at = op.where((x < xp[0]) | (x >= xp[last]), x0, x)  # far outside its derivative may overflow
    y = f0 + (at - x0) / width * (f1 - f0)
    # as in NumPy: next to an infinite fp the other one counts as far as it goes
    back = f1 + (at - x1) / width * (f1 - f0)
    y = op.where(op.isnan(y), op.where((x == x0) | (f0 == f1), f0, back), y)
    y = op.where(x < xp[0], fp[0] if left is None else left, y)
    y = op.where(
        x >= xp[last], op.where(x > xp[last], fp[last] if right is None else right, fp[last]), y
    )
    return op.astype(y, dtype if y.dtype == fp.dtype else y.dtype, copy=False)
