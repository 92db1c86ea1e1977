"""Padding: zeros or a constant around x, or x's own elements repeated beyond its edges."""

from typing import Any

import numpy as np

from ...core.primitive import composite, linear
from ...core.registry import op
from ..axes import array_like, module_of

__all__ = ["pad", "pad_zeros"]

_FROM_X = ("reflect", "symmetric", "edge", "wrap")


@linear
def pad_zeros(x, widths=()):
    """x with zeros around it, widths = ((before, after) for each axis) ;  gx = the middle of g."""
    if len(widths) != x.ndim:
        raise ValueError(f"widths={widths!r} must hold a pair for each of {x.ndim} axes")
    return np.pad(x, widths) if x.ndim else x.copy()


@pad_zeros.vjp("x")
def pad_zeros_dx(g, widths, x_shape):
    return g[tuple([slice(a, a + n) for (a, _), n in zip(widths, x_shape)])]


@pad_zeros.batch
def pad_zeros_batch(op, xs, batched, params):
    return op(*xs, widths=((0, 0), *params["widths"]))


@composite(numpy=np.pad)
def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: float = 0, **other) -> Any:
    """x with elements added around it: NumPy's pad.

    pad_width: an int, (before, after), one pair for each axis, or {axis: widths}. mode:
    "constant" (constant_values, one number), "edge" (the last element again), "reflect" (mirrored
    about the last element), "symmetric" (mirrored behind it), "wrap" (from the other end).
    An element that appears several times gets the sum of the gradients.
    """
    x = array_like(x)
    if other:
        raise TypeError(f"pad: {sorted(other)} are not supported; cut or scale the result instead")
    widths = _pairs(pad_width, x.ndim)
    if mode in _FROM_X:
        for axis, (before, after) in enumerate(widths):
            if before or after:
                places = np.pad(np.arange(x.shape[axis]), (before, after), mode)
                x = op.take(x, module_of(x).asarray(places), axis=axis)
        return x
    if mode != "constant":
        raise ValueError(f"pad: mode={mode!r}; choose 'constant' or one of {', '.join(_FROM_X)}")
    if np.ndim(constant_values) != 0:
        raise ValueError("pad: constant_values must be one number; pad axis by axis for several")
    y = op.pad_zeros(x, widths=widths)
    if isinstance(constant_values, int | float) and constant_values == 0:
        return y
    inside = op.pad_zeros(op.ones_like(x, dtype=bool), widths=widths)
    return op.where(inside, y, constant_values)


def _pairs(widths: Any, ndim: int) -> tuple[tuple[int, int], ...]:
    """(before, after) for each axis, as np.pad reads its pad_width."""
    if isinstance(widths, dict):
        given = {axis % ndim: np.broadcast_to(pair, (2,)).tolist() for axis, pair in widths.items()}
        pairs = [given.get(axis, [0, 0]) for axis in range(ndim)]
    else:
        pairs = np.broadcast_to(widths, (ndim, 2)).tolist()
    if any(not isinstance(n, int) for pair in pairs for n in pair):
        raise TypeError(f"pad: pad_width must hold integers, got {widths!r}")
    if any(n < 0 for pair in pairs for n in pair):
        raise ValueError(f"pad: pad_width must not be negative, got {widths!r}; slice x instead")
    return tuple([(before, after) for before, after in pairs])
