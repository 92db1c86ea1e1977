"""Eigenvalues and eigenvectors. Seeger et al. (2017), arXiv:1710.08717, §4.2; Giles (2008), §3.1.

An eigenvector is determined up to a factor, those of equal eigenvalues up to a basis of their
space. Derivatives are right for functions that do not depend on the factors; at equal eigenvalues
see `eigh_pairs`.
"""

from typing import Any, NamedTuple

import numpy as np

from ...engine.errors import describe
from ...engine.primitive import primitive
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like
from .matrices import adjoint, diagonal_of, hermitian_part, lapack, reciprocal_gaps, stack_batch


class EighResult(NamedTuple):
    """eigenvalues in ascending order; eigenvectors in columns."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """eigenvalues in LAPACK's order; eigenvectors, of length 1, in columns."""

    eigenvalues: Any
    eigenvectors: Any


@primitive(outputs=2)
def eigh_pairs(x, *, UPLO: Any = "L"):
    """x v = v diag(w) ;  gx = Hermitian part of v [diag(gw) + F∘(vᴴ gv)] vᴴ, F_ij = 1/(w_j − w_i)

    Where eigenvalues are equal (to rounding) F is 0: the result is finite. It is right for
    functions symmetric in equal values, and for those of the vectors through the projector on their
    common space. A function that mixes both, such as v f(w) vᴴ, has a derivative there that no rule
    of factors can give. The part that couples equal values is left out. (The rules of matrix_exp,
    matrix_power and inv hold everywhere.)
    """
    return tuple(np.linalg.eigh(lapack(x), _triangle(UPLO)))


def _triangle(name: Any) -> Any:
    """ "L" or "U". ValueError for anything else: SciPy's eigh has a second matrix in this place."""
    if not isinstance(name, str) or name.upper() not in ("L", "U"):
        raise ValueError(
            f"UPLO must be 'L' or 'U', the triangle of x that is read, got {describe(name)}"
        )
    return name.upper()


eigh_pairs.called = "eigh"


@eigh_pairs.vjp("x")
def eigh_pairs_dx(g, y):
    (gw, gv), (w, v) = g, y
    left = 0 if gw is None else v * gw[..., None, :]
    if gv is not None:
        left = v @ (reciprocal_gaps(w) * (adjoint(v) @ gv)) + left
    return hermitian_part(left @ adjoint(v))


@composite(numpy=np.linalg.eigh)
def eigh(x: Any, UPLO: str = "L") -> EighResult:
    """Ascending eigenvalues (…, n) and orthonormal eigenvectors (…, n, n) of a Hermitian x.

    Only the triangle UPLO of x is read; the gradient is Hermitian nevertheless: that of a function
    of Hermitian matrices. Derivatives at repeated eigenvalues: see `eigh_pairs`.
    """
    return EighResult(*eigh_pairs(array_like(x), UPLO=UPLO))


@primitive(numpy=np.linalg.eigvalsh)
def eigvalsh(x, UPLO: Any = "L"):
    """w, the ascending eigenvalues of a Hermitian x (…, n, n) ;  gx = v diag(g) vᴴ

    The backward computes v. At equal values the gradient is right for functions symmetric in them;
    their second derivative lacks the part that couples equal values (see `eigh_pairs`).
    """
    return np.linalg.eigvalsh(lapack(x), _triangle(UPLO))


@eigvalsh.vjp("x")
def eigvalsh_dx(g, x, UPLO):
    _, v = op.eigh_pairs(x, UPLO=UPLO)
    return hermitian_part((v * g[..., None, :]) @ adjoint(v))


@primitive(outputs=2)
def eig_pairs(x):
    """x v = v diag(w) ;  gx = v⁻ᴴ [diag(gw) + F̄∘(c − vᴴ v diag(c))] vᴴ, c = vᴴ gv

    F as in `eigh_pairs`; C. Boeddeker et al. (2017), arXiv:1701.00392, §4. Columns of v have length
    1, and their phase is taken not to turn: vᴴ dv = 0 for each. The backward raises LinAlgError for
    a matrix that has no basis of eigenvectors.
    """
    return tuple(np.linalg.eig(lapack(x)))


eig_pairs.called = "eig"


@eig_pairs.vjp("x")
def eig_pairs_dx(g, y):
    (gw, gv), (w, v) = g, y
    vh = adjoint(v)
    right = 0 if gw is None else gw[..., :, None] * vh
    if gv is not None:
        c = vh @ gv
        c = c - (vh @ v) * diagonal_of(c)[..., None, :]
        right = (reciprocal_gaps(w).conj() * c) @ vh + right
    return op.solve(vh, right)


@composite(numpy=np.linalg.eig)
def eig(x: Any) -> EigResult:
    """Eigenvalues (…, n) and eigenvectors (…, n, n) of any square x.

    As NumPy's: complex; before NumPy 2.5 real for a real x whose eigenvalues are all real.
    """
    return EigResult(*eig_pairs(array_like(x)))


@composite(numpy=np.linalg.eigvals)
def eigvals(x: Any) -> Any:
    """The eigenvalues of any square x (…, n, n), in the order of eig."""
    return eig(x).eigenvalues


for _op in (eigh_pairs, eigvalsh, eig_pairs):
    _op.batch(stack_batch)
