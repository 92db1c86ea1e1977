"""Reductions of chosen elements: NumPy's where=, initial= and, for a variance, mean=.

The ops do not take these: np.sum(x, where=mask) and x.sum(where=mask) find here what they mean.
An element that is not chosen is replaced by one that changes nothing, so its gradient is 0.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.dtypes import accumulator, is_differentiable, resolve_dtype
from ...engine.graph import raw, wrap
from ...engine.registry import chosen_table, op
from ...tensor_api.numpy_protocol import mask_of
from ...tensor_api.tensor import Tensor
from ..axes import as_floating, axes_of
from ..scaling import is_lost, overflow_ignored, power_of_two
from .spread import degrees_lost, root_of_variance

__all__: list[str] = []  # they are reached through NumPy's names


def _by_ufunc(ufunc: np.ufunc, name: str) -> Callable:
    """The reduction as the ufunc's own, which knows what changes nothing; or the op of this name,
    where nothing is chosen."""

    def run(
        x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None,
        where: Any = True,
    ) -> Any:  # fmt: skip
        options = {"axis": axis, "keepdims": keepdims} | ({} if dtype is None else {"dtype": dtype})
        if where is True and initial is None:
            return getattr(op, name)(x, **options)
        if isinstance(initial, Tensor) and isinstance(x, np.ndarray):
            x = wrap(x)  # next to an array NumPy would take the tensor as a number
        return ufunc.reduce(x, initial=initial, where=where, **options)

    return run


chosen_table |= {
    np.sum: _by_ufunc(np.add, "sum"), np.prod: _by_ufunc(np.multiply, "prod"),
    np.max: _by_ufunc(np.maximum, "max"), np.amax: _by_ufunc(np.maximum, "max"),
    np.min: _by_ufunc(np.minimum, "min"), np.amin: _by_ufunc(np.minimum, "min"),
    np.any: _by_ufunc(np.logical_or, "any"), np.all: _by_ufunc(np.logical_and, "all"),
}  # fmt: skip


def _chosen(function: Callable) -> Callable:
    """Decorator: the meaning of a NumPy function with where= or mean=."""

    def add(fn: Callable) -> Callable:
        chosen_table[function] = fn
        return fn

    return add


@_chosen(np.mean)
def _mean(
    x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, where: Any = True
) -> Any:
    """Σ x / n over the n chosen elements; NaN of none."""
    if where is True:
        return op.mean(x, axis=axis, dtype=dtype, keepdims=keepdims)
    kept = mask_of("mean", where, x.shape)
    dtype = _dtype_of(x, dtype)
    wide = accumulator(dtype) or dtype
    total = np.add.reduce(x, axis=axis, dtype=wide, keepdims=keepdims, where=kept)
    count = _count(kept, axis, keepdims, total.dtype)
    return op.astype(total / count, dtype=dtype, copy=False)


def _count(kept: Any, axis: Any, keepdims: bool, dtype: Any) -> Any:
    """How many elements of each slice are chosen, as numbers to go with values of this dtype."""
    return op.astype(op.count_nonzero(kept, axis=axis, keepdims=keepdims), dtype=_real(dtype))


def _dtype_of(x: Any, dtype: Any) -> Any:
    """The dtype in which a mean of x is taken: the given one, else x's, for integers float64."""
    return as_floating(np.empty(0, x.dtype)).dtype if dtype is None else resolve_dtype(dtype)


def _real(dtype: Any) -> Any:
    """The dtype of the parts of complex numbers of this one; any other as it is."""
    return np.empty(0, dtype).real.dtype


@_chosen(np.var)
def _var(
    x: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False,
    correction: float | None = None, where: Any = True, mean: Any = None,
) -> Any:  # fmt: skip
    """Σ |x − mean|² / (n − ddof) over the n chosen elements; ±∞ or NaN where n ≤ ddof, as in NumPy.

    mean: theirs, if it is known, with the reduced axes at length 1. It is an argument like x, and
    has its own gradient: without one where it is a constant, and through it where x made it.
    """
    ddof = degrees_lost("var", ddof, correction)
    if where is True and mean is None:
        return op.var(x, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)
    kept = mask_of("var", where, x.shape)
    own = _dtype_of(x, dtype)
    wide = op.astype(x, dtype=accumulator(own) or own, copy=False)
    if mean is None:
        mean = _mean(wide, axis=axis, keepdims=True, where=kept)
    centred = op.where(kept, wide - mean, 0)
    squares = op.real(centred * op.conj(centred)) if wide.dtype.kind == "c" else op.square(centred)
    total = op.sum(squares, axis=axis, keepdims=keepdims)
    degrees = op.maximum(_count(kept, axis, keepdims, total.dtype) - ddof, 0)
    return op.astype(total / degrees, dtype=_real(own) if dtype is None else own, copy=False)


@_chosen(np.std)
def _std(
    x: Any, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False,
    correction: float | None = None, where: Any = True, mean: Any = None,
) -> Any:  # fmt: skip
    """The root of the variance of the chosen elements, of gradient 0 where they are all equal."""
    ddof = degrees_lost("std", ddof, correction)
    if where is True and mean is None:
        return op.std(x, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)
    own = _dtype_of(x, dtype)
    options: dict[str, Any] = {"ddof": ddof, "where": where, "mean": mean}
    with overflow_ignored():
        variance = _var(x, axis=axis, dtype=accumulator(own) or own, keepdims=keepdims, **options)
    variance = op.real(variance)
    if is_lost(variance) and is_differentiable(own):
        kept = mask_of("std", where, x.shape)
        unit = power_of_two(op.where(kept, x, 0), axis=axis)
        if not (raw(unit) == 1).all():
            options["mean"] = None if mean is None else mean / unit
            y = _std(x / unit, axis=axis, dtype=dtype, keepdims=True, **options) * unit
            return y if keepdims else op.squeeze(y, axis=axes_of(axis, x.ndim))
    y = root_of_variance(variance)
    return op.astype(y, dtype=_real(own) if dtype is None else own, copy=False)
