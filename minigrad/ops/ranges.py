"""Evenly spaced numbers between tensors: np.linspace, np.logspace and np.geomspace of them."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.dtypes import common_dtype, is_differentiable, require_fit, resolve_dtype
from ..engine.graph import raw
from ..engine.registry import numpy_table, op
from .axes import array_like, constant_like, on_host

__all__: list[str] = []  # they are reached through NumPy's names


def _linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, axis: int = 0,
) -> Any:  # fmt: skip
    """start (1 − s) + stop s for even shares s, differentiable in start and stop."""
    start, stop, floating = _ends(start, stop)
    share = _even_shares(num, endpoint, start, floating)
    y = _of_dtype(op.moveaxis(_between(start, stop, share), 0, axis), dtype, op.floor)
    if not retstep:
        return y
    start, stop = (op.astype(x, dtype=floating, copy=False) for x in (start, stop))
    return y, (stop - start) / ((num - 1 if endpoint else num) or np.nan)


def _even_shares(num: int, endpoint: bool, beside: Any, dtype: Any) -> Any:
    """From 0 to 1 in equal steps along a new first axis, on the device of an array."""
    if operator.index(num) < 0:
        raise ValueError(f"num is how many samples, 0 or more, got {num}")
    share = np.arange(num) / max(num - 1 if endpoint else num, 1)
    return constant_like(share.reshape(-1, *(1,) * beside.ndim).astype(dtype), beside)


def _between(start: Any, stop: Any, share: Any) -> Any:
    return start * (1 - share) + stop * share


def _ends(*ends: Any) -> tuple:
    """The ends as arrays of one shape, and the dtype between them: numbers of Python are weak."""
    arrays = [array_like(x) for x in ends if type(x) not in (int, float, complex)]
    dtype = common_dtype(*[x.dtype for x in arrays])
    dtype = dtype if is_differentiable(dtype) else np.dtype(np.float64)
    if any(type(x) is complex for x in ends):
        dtype = np.result_type(dtype, np.complex64)
    beside = arrays[0]
    ends = tuple([x if type(x) not in (int, float, complex) else
                  constant_like(np.asarray(x, dtype), beside) for x in ends])  # fmt: skip
    return *op.broadcast_arrays(*ends), dtype


def _of_dtype(y: Any, dtype: Any, whole: Callable | None = None) -> Any:
    """y in the dtype that was asked for, if any; `whole`: how it is rounded for integers."""
    if dtype is None:
        return y
    dtype = resolve_dtype(dtype)
    if dtype.kind in "iu":
        y = whole(y) if whole is not None else y
        require_fit(on_host(y), dtype)
    return op.astype(y, dtype=dtype)


def _logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0,
    dtype: Any = None, axis: int = 0,
) -> Any:  # fmt: skip
    """base^x for x from start to stop in equal steps; base broadcasts with the ends."""
    start, stop, base, floating = _ends(start, stop, base)
    y = base ** _between(start, stop, _even_shares(num, endpoint, start, floating))
    return _of_dtype(op.moveaxis(y, 0, axis), dtype)


def _geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """start^(1 − s) stop^s, at the ends exactly these; NaN where the signs differ, as in NumPy."""
    start, stop, floating = _ends(start, stop)
    if (raw(start) == 0).any() or (raw(stop) == 0).any():
        raise ValueError("np.geomspace: start and stop must not be 0; np.linspace takes any number")
    sign, share = op.sign(start), _even_shares(num, endpoint, start, floating)
    y = sign * 10.0 ** _between(op.log10(start / sign), op.log10(stop / sign), share)
    y = op.where(share == 0, start, op.where(share == 1, stop, y))
    return _of_dtype(op.moveaxis(y, 0, axis), dtype)


numpy_table |= {np.linspace: _linspace, np.logspace: _logspace, np.geomspace: _geomspace}
