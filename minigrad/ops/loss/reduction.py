"""The last step of every loss: the mean, the sum, or the losses as they are."""

from typing import Any

import numpy as np

from ...engine.registry import op


def check_reduction(name: str, reduction: str, *more: str) -> None:
    """ValueError, under the loss's name, for a reduction that is none of the three, nor of more."""
    known = ("mean", "sum", "none", *more)
    if reduction not in known:
        *others, last = map(repr, known)
        raise ValueError(
            f"{name}: reduction must be {', '.join(others)} or {last}, got {reduction!r}"
        )


def check_real(name: str, y: Any) -> None:
    """TypeError, under the loss's name, for losses that are complex numbers."""
    if y.dtype.kind == "c":
        raise TypeError(
            f"{name}: a loss is a real number, and of these inputs it is {y.dtype}; give real and "
            "imaginary parts (mg.view_as_real), or absolute values"
        )


def check_no_pairs(name: str, **arrays: Any) -> None:
    """ValueError where arrays broadcast to more elements than any of them has.

    Predictions (n, 1) with targets (n,) would make (n, n) losses, one for each pair.
    """
    shapes = [x.shape for x in arrays.values()]
    if np.broadcast_shapes(*shapes) not in shapes:
        given = " and ".join(f"{key} {x.shape}" for key, x in arrays.items())
        raise ValueError(
            f"{name}: {given} would broadcast to a loss of each pair; reshape one of them"
        )


def reduced(name: str, y: Any, reduction: str) -> Any:
    """The losses y, or their mean or sum."""
    check_reduction(name, reduction)
    check_real(name, y)
    return y if reduction == "none" else op.mean(y) if reduction == "mean" else op.sum(y)
