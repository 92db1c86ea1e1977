"""The last step of every loss: the mean, the sum, or the losses as they are."""

from typing import Any

from ...core.registry import op


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


def reduced(name: str, y: Any, reduction: str) -> Any:
    """The losses y, or their mean or sum."""
    check_reduction(name, reduction)
    check_real(name, y)
    return y if reduction == "none" else op.mean(y) if reduction == "mean" else op.sum(y)
