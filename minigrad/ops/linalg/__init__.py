"""Linear algebra. Its public names are those of the namespace mg.linalg."""

from .banded import solve_banded
from .decompose import cholesky, qr, svd, svdvals
from .det import det, slogdet
from .eigen import eig, eigh, eigvals, eigvalsh
from .functions import cond, matrix_exp, matrix_norm, matrix_rank
from .lu import cholesky_solve, lu, lu_factor, lu_solve
from .solve import (
    inv,
    lstsq,
    matrix_power,
    pinv,
    solve,
    tensorinv,
    tensorsolve,
    triangular_solve,
)
from .sylvester import solve_sylvester, sqrtm

__all__: list[str] = []  # not names of mg itself
