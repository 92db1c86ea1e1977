"""np.pad's borders that are worked out from x: statistics of its elements, and ramps."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...engine.registry import op
from ..axes import as_floating, constant_like

_STATISTICS = {"mean": "mean", "median": "median", "maximum": "max", "minimum": "min"}
OPTION = {**dict.fromkeys(_STATISTICS, "stat_length"), "linear_ramp": "end_values"}  # by mode


def bordered(x: Any, widths: tuple, mode: str, value: Any) -> Any:
    """x with such a border, one axis after the other: an axis sees what those before it have added.

    value: the stat_length or end_values, (before, after) for each axis.
    """
    values = np.empty((x.ndim, 2), object)
    values[...] = 0 if value is None and mode == "linear_ramp" else value
    side = _ramp if mode == "linear_ramp" else _statistic(getattr(op, _STATISTICS[mode]))
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, values, strict=True)):
        if before or after:
            if x.shape[axis] == 0:
                raise ValueError(
                    f"pad: mode={mode!r} has nothing to go by on the empty axis {axis} of {x.shape}"
                )
            turned = op.flip(x, axis=axis)
            left = side(x, axis, before, low)
            right = op.flip(side(turned, axis, after, high), axis=axis)
            x = op.concatenate([left, x, right], axis=axis)
    return x


def _statistic(reduction: Callable) -> Callable:
    def side(x: Any, axis: int, width: int, length: Any) -> Any:
        """The mean, say, of the first `length` elements along an axis, `width` times."""
        if length is not None and length < 1:
            raise ValueError(f"pad: stat_length must be 1 or more, got {length}")
        first = x[(slice(None),) * axis + (slice(length),)]
        y = reduction(first, axis=axis, keepdims=True)
        if x.dtype.kind in "biu" and y.dtype != x.dtype:
            y = op.astype(y if x.dtype.kind == "b" else op.round(y), dtype=x.dtype)
        shape = (*x.shape[:axis], width, *x.shape[axis + 1 :])
        return op.broadcast_to(y, shape=shape)

    return side


def _ramp(x: Any, axis: int, width: int, end: float) -> Any:
    """From `end` in equal steps to the first element along an axis, which is not repeated."""
    edge = as_floating(x[(slice(None),) * axis + (slice(1),)])
    counts = np.arange(width, dtype=edge.real.dtype).reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    y = constant_like(counts, x) * ((edge - end) / max(width, 1)) + end
    if x.dtype.kind in "iu":  # np.linspace, which NumPy uses here, rounds down to integers
        y = op.floor(y)
    return op.astype(y, dtype=x.dtype, copy=False)
