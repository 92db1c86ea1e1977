"""Running extrema along an axis, and where they were met."""

from typing import Any, NamedTuple

import numpy as np

from ...engine.primitive import primitive
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like, axis_of, module_of
from ..batching import behind

__all__ = ["cummax", "cummin"]


class RunningExtremum(NamedTuple):
    """The extremum so far, and the place of the last element that equals it."""

    values: Any
    indices: Any


@primitive(differentiable=False)
def running_argmax(x, *, axis, smallest=False):
    """The place along `axis` of the largest (smallest) element so far; of equal ones the last.

    NaN is larger than any number.
    """
    if module_of(x) is not np:
        return _in_log_n_steps(x, axis, smallest)
    with np.errstate(invalid="ignore"):  # accumulate warns of a NaN in float16
        best = (np.minimum if smallest else np.maximum).accumulate(x, axis=axis)
    line = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
    places = np.arange(x.shape[axis]).reshape(line)
    met = (x == best) | (x != x)
    return np.maximum.accumulate(np.where(met, places, 0), axis=axis)


def _in_log_n_steps(x: Any, axis: int, smallest: bool) -> Any:
    """The same after Hillis and Steele (1986): CuPy has no accumulate for extrema."""
    xp = module_of(x)
    x = np.moveaxis(x, axis, 0)
    best, places = x.copy(), np.zeros_like(x, dtype=np.int64)
    places += xp.arange(len(x)).reshape((-1, *(1,) * (x.ndim - 1)))
    step = 1
    while step < len(x):
        before, now = best[:-step], best[step:]
        better = (before < now) if smallest else (before > now)
        better = better | ((before != before) & (now == now))
        better &= now == now
        best[step:], places[step:] = (
            np.where(better, before, now), np.where(better, places[:-step], places[step:])
        )  # fmt: skip
        step *= 2
    return np.moveaxis(places, 0, axis)


@running_argmax.batch
def running_argmax_batch(op_, xs, batched, params):
    (x,) = xs
    return op_(x, **{**params, "axis": behind(params["axis"], x.ndim - 1)})


def _running(name: str, x: Any, axis: int, smallest: bool) -> RunningExtremum:
    x = array_like(x)
    if x.ndim == 0:
        raise ValueError(f"{name}: x must have an axis to run along, got a number")
    axis = axis_of(axis, x.ndim)
    indices = running_argmax(x, axis=axis, smallest=smallest)
    return RunningExtremum(op.take_along_axis(x, indices, axis=axis), indices)


@composite
def cummax(x: Any, axis: int) -> RunningExtremum:
    """(y, places): y_k = max_{j≤k} x_j along `axis` ;  gx: g_k goes to the place of its maximum

    PyTorch's: the last one of equal elements is taken, and NaN once met stays.
    """
    return _running("cummax", x, axis, smallest=False)


@composite
def cummin(x: Any, axis: int) -> RunningExtremum:
    """(y, places): y_k = min_{j≤k} x_j along `axis`; as cummax."""
    return _running("cummin", x, axis, smallest=True)
