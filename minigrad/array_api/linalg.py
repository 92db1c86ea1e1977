"""The standard's extension for linear algebra, on stacks of matrices in the last two axes."""

from typing import Any

from ..engine.registry import op

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


# -- products --------------------------------------------------------------------------------


def matmul(x1: Any, x2: Any, /) -> Any:
    """(..., n, k) and (..., k, m) give (..., n, m)."""
    return op.matmul(x1, x2)


def matrix_power(x: Any, n: int, /) -> Any:
    """xⁿ for an int n; n < 0 takes the inverse."""
    return op.matrix_power(x, n)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Sums of products over the last `axes` axes of x1 and the first of x2, or over named pairs."""
    return op.tensordot(x1, x2, axes)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Σ conj(x1) x2 along `axis`."""
    return op.vecdot(x1, x2, axis=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    """y_ij = x1_i x2_j for vectors."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"outer: needs two vectors, got shapes {x1.shape} and {x2.shape}")
    return op.outer(x1, x2)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of three elements along `axis`."""
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(
            f"cross: needs three elements along axis {axis}, got shapes {x1.shape}, {x2.shape}"
        )
    return op.cross(x1, x2, axis=axis)


# -- parts and numbers of a matrix -----------------------------------------------------------


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged."""
    return op.matrix_transpose(x)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The elements with column − row = offset."""
    return op.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Σ of the diagonal."""
    return op.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


def det(x: Any, /) -> Any:
    """The determinant."""
    return op.det(x)


def slogdet(x: Any, /) -> Any:
    """(sign, logabsdet) of the determinant."""
    return op.slogdet(x)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """How many singular values exceed rtol (ε max(m, n)) times the largest."""
    return op.matrix_rank(x, rtol=rtol)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of each matrix: "fro", "nuc", 2, -2, 1, -1, inf or -inf."""
    return op.matrix_norm(x, keepdims=keepdims, ord=ord)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of vectors along `axis` (None: of x flattened)."""
    return op.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)


# -- inverses and decompositions -------------------------------------------------------------


def inv(x: Any, /) -> Any:
    """The inverse."""
    return op.inv(x)


def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """The Moore-Penrose inverse; singular values up to rtol (ε max(m, n)) of the largest are 0."""
    return op.pinv(x, rtol=rtol)


def solve(x1: Any, x2: Any, /) -> Any:
    """y with x1 y = x2; a 1-d x2 is one vector, for every matrix of x1."""
    return op.solve(x1, x2)


def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """Lower triangular L with x = L Lᴴ, or upper triangular U with x = Uᴴ U."""
    return op.cholesky(x, upper=upper)


def qr(x: Any, /, *, mode: str = "reduced") -> Any:
    """(Q, R) with x = Q R; mode "reduced" or "complete"."""
    return op.qr(x, mode=mode)


def eigh(x: Any, /) -> Any:
    """(eigenvalues, eigenvectors) of Hermitian matrices."""
    return op.eigh(x)


def eigvalsh(x: Any, /) -> Any:
    """The eigenvalues of Hermitian matrices."""
    return op.eigvalsh(x)


def svd(x: Any, /, *, full_matrices: bool = True) -> Any:
    """(U, S, Vh) with x = U diag(S) Vh."""
    return op.svd(x, full_matrices=full_matrices)


def svdvals(x: Any, /) -> Any:
    """The singular values in descending order."""
    return op.svdvals(x)
