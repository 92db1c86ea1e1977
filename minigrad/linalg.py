"""mg.linalg: linear algebra by NumPy's names (see ops/linalg/).

Stacks of matrices hold them in their last two axes. Real and complex, float32 and float64; 16-bit
floats raise a TypeError, as in NumPy.
"""

from typing import Any

import numpy as np

from .engine.registry import numpy_table, op
from .ops.calculus import cross
from .ops.einsum import multi_dot
from .ops.linalg import (
    cholesky,
    cholesky_solve,
    cond,
    det,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    lstsq,
    lu,
    lu_factor,
    lu_solve,
    matrix_exp,
    matrix_norm,
    matrix_power,
    matrix_rank,
    pinv,
    qr,
    slogdet,
    solve,
    solve_banded,
    solve_sylvester,
    sqrtm,
    svd,
    svdvals,
    tensorinv,
    tensorsolve,
    triangular_solve,
)
from .ops.matmul import matmul, outer, tensordot, vecdot
from .ops.matvec import matvec, vecmat
from .ops.reduce import norm, vector_norm
from .ops.shape import matrix_transpose
from .tensor_api.help import missing_names_of as _missing_names_of
from .tensor_api.help import with_call_context

__all__ = [
    "LinAlgError", "cholesky", "cholesky_solve", "cond", "cross", "det", "diagonal", "eig",
    "eigh", "eigvals", "eigvalsh", "expm", "inv", "lstsq", "lu", "lu_factor", "lu_solve",
    "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose",
    "matvec", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve",
    "solve_banded", "solve_sylvester", "solve_triangular", "sqrtm", "svd", "svdvals",
    "tensordot", "tensorinv", "tensorsolve", "trace", "triangular_solve", "vecdot", "vecmat",
    "vector_norm",
]  # fmt: skip


LinAlgError = np.linalg.LinAlgError
expm = matrix_exp  # SciPy's name


@with_call_context
def diagonal(x: Any, *, offset: int = 0) -> Any:
    """The diagonal of each matrix of x (…, m, n)."""
    return op.diagonal(x, offset=offset, axis1=-2, axis2=-1)


@with_call_context
def trace(x: Any, *, offset: int = 0, dtype: Any = None) -> Any:
    """The trace of each matrix of x (…, m, n)."""
    return op.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


@with_call_context
def solve_triangular(
    a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """triangular_solve with SciPy's arguments: trans 0 or "N" solves a y = b, 1 or "T" aᵀ y = b,
    2 or "C" aᴴ y = b; lower says which triangle of a is read.
    """
    ways = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in ways:
        raise ValueError(f"solve_triangular: trans is 0, 1, 2, 'N', 'T' or 'C', got {trans!r}")
    if ways[trans]:
        a, lower = op.swapaxes(a, axis1=-1, axis2=-2), not lower
        a = op.conj(a) if ways[trans] == 2 else a
    return triangular_solve(a, b, lower=lower, unit_diagonal=unit_diagonal)


def _outer(a: Any, b: Any) -> Any:
    """np.linalg.outer, which takes vectors alone; np.outer takes any arrays, flattened."""
    if np.ndim(a) != 1 or np.ndim(b) != 1:
        raise ValueError(
            f"np.linalg.outer: needs two vectors, got shapes {np.shape(a)} and {np.shape(b)}; "
            "np.outer flattens its arguments"
        )
    return op.outer(a, b)


# NumPy's namespace has functions of its own for these, which differ from its top-level ones.
numpy_table |= {
    np.linalg.diagonal: diagonal, np.linalg.trace: trace, np.linalg.matmul: matmul,
    np.linalg.outer: _outer, np.linalg.tensordot: op.tensordot, np.linalg.vecdot: op.vecdot,
}  # fmt: skip

__getattr__ = _missing_names_of(__name__)
