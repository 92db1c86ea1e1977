"""Products of matrices and vectors."""

from typing import Any

from ..core.registry import op

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def matmul(x1: Any, x2: Any, /) -> Any:
    """(..., n, k) and (..., k, m) give (..., n, m)."""
    return op.matmul(x1, x2)


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged."""
    return op.matrix_transpose(x)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Sums of products over the last `axes` axes of x1 and the first of x2, or over named pairs."""
    return op.tensordot(x1, x2, axes)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Σ conj(x1) x2 along `axis`."""
    return op.vecdot(x1, x2, axis=axis)
