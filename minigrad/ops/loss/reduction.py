"""The last step of every loss: the mean, the sum, or the losses as they are."""

from typing import Any

from ...core.registry import op


def check_reduction(name: str, reduction: str) -> None:
    """ValueError, under the loss's name, for an unknown reduction."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{name}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def reduced(name: str, y: Any, reduction: str) -> Any:
    """The losses y, or their mean or sum."""
    check_reduction(name, reduction)
    return y if reduction == "none" else op.mean(y) if reduction == "mean" else op.sum(y)


def require_real(name: str, x: Any, target: Any) -> None:
    """TypeError for complex numbers: a loss of them would be one."""
    if "c" in (x.dtype.kind, target.dtype.kind):
        raise TypeError(
            f"{name}: a loss is a real number, x is {x.dtype} and target {target.dtype}; give real "
            "and imaginary parts (mg.view_as_real), or take mg.abs(x - target)"
        )
