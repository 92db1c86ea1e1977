"""Functions of matrices: exponential, norms, condition number, rank."""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...engine.primitive import primitive
from ...engine.registry import op
from ...tensor_api.composite import composite
from ...tensor_api.tensor import Tensor
from ..axes import array_like
from .matrices import adjoint, finite, scipy_function, square_matrices, stack_batch


@primitive
def matrix_exp(x):
    """y = eˣ = Σ xᵏ/k! ;  gx = L(xᴴ, g), the derivative of the exponential at xᴴ along g

    exp [[a, e], [0, a]] = [[eᵃ, L(a, e)], [0, eᵃ]] (R. Mathias 1996; N. J. Higham, "Functions of
    Matrices", §3.2). So the derivative is an exponential too, of twice the size, with derivatives
    of every order. x (…, n, n); needs SciPy (the extra `full`).
    """
    return scipy_function("expm", x)(square_matrices(x))


@matrix_exp.vjp("x")
def matrix_exp_dx(g, x):
    n, a = x.shape[-1], adjoint(x)
    scale = _as_large(g, a)
    top = op.concatenate((a, g / scale), axis=-1)
    bottom = op.concatenate((np.zeros_like(a), a), axis=-1)
    return matrix_exp(op.concatenate((top, bottom), axis=-2))[..., :n, n:] * scale


def _as_large(g: Any, a: Any) -> Any:
    """A power of two for each matrix, a constant: g divided by it is about as large as a.

    The size of g would decide how often the exponential of both is squared, and that costs digits:
    two in float32 for 2^16, a usual loss scale.
    """
    if not g.shape[-1]:
        return 1.0
    values = (x.detach() if hasattr(x, "detach") else x for x in (g, a))
    of_g, of_a = (np.max(np.abs(x), axis=(-2, -1), keepdims=True) for x in values)
    ratio = of_g / np.where(of_a > 0, of_a, 1)
    ratio = np.where((ratio > 0) & (ratio < np.inf), ratio, 1)
    return np.exp2(np.round(np.log2(ratio)))


@composite(numpy=np.linalg.matrix_norm)
def matrix_norm(x: Any, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of each matrix of x (…, m, n).

    ord "fro": root of the sum of squares; "nuc": sum of singular values; 2, −2: the largest,
    smallest; 1, −1: largest, smallest column sum of |x|; inf, −inf: row sum. Gradients: equal
    candidates of an extremum share; 0 at the zero matrix.
    """
    x = array_like(x)
    if x.ndim < 2:
        raise ValueError(f"matrix_norm: x must be (…, m, n), got shape {x.shape}")
    if x.dtype.kind in "biu":
        x = x.astype(np.float64)
    if ord in ("fro", "f", None):
        return op.vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord == "nuc":
        y = op.sum(op.svdvals(x), axis=-1)
    elif ord in (2, -2):
        y = _extreme(op.svdvals(x), ord)
    elif ord in (1, -1, np.inf, -np.inf):
        y = _extreme(op.sum(op.abs(x), axis=-2 if abs(ord) == 1 else -1), ord)
    else:
        raise ValueError(
            f"matrix_norm: ord={ord!r}; choose 'fro', 'nuc', 2, -2, 1, -1, inf or -inf"
        )
    return y[..., None, None] if keepdims else y


def _extreme(x: Any, ord: float) -> Any:
    """The largest for a positive ord (0 if there is none), the smallest for a negative one."""
    if ord < 0:
        return op.min(x, axis=-1)
    return op.max(x, axis=-1) if x.shape[-1] else op.sum(x, axis=-1)


@composite(numpy=np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """|x| |x⁻¹| in the norm p of matrix_norm; None: the largest over the smallest singular value.

    inf for a singular matrix.
    """
    x = array_like(x)
    if 0 in x.shape[-2:]:
        raise np.linalg.LinAlgError("cond: it is not defined for empty matrices")
    if p in (None, 2, -2):
        s = op.svdvals(x)
        largest, smallest = (s[..., 0], s[..., -1]) if p != -2 else (s[..., -1], s[..., 0])
        with np.errstate(divide="ignore", invalid="ignore"):
            y = largest / smallest
    else:
        of_inverse = _norm_of_inverse(x, p)
        with np.errstate(invalid="ignore"):
            y = matrix_norm(x, ord=p) * of_inverse
    unknown = op.any(np.isnan(x), axis=(-2, -1))
    return np.where(np.isnan(y) & ~unknown, np.inf, y)  # as NumPy: 0/0 of the zero matrix


def _norm_of_inverse(x: Any, p: Any) -> Any:
    """|x⁻¹|, inf where x is singular: one such matrix in a stack leaves the others theirs."""
    try:
        return matrix_norm(op.inv(x), ord=p)
    except np.linalg.LinAlgError:
        if x.shape[-1] != x.shape[-2]:
            raise
    values = x.detach() if isinstance(x, Tensor) else x  # slogdet's derivative is by the inverse
    singular = op.slogdet(values)[0] == 0  # by the factors that inv has found a pivot of 0 in
    regular = op.where(singular[..., None, None], op.identity_like(x), x)
    return op.where(singular, np.inf, matrix_norm(op.inv(regular), ord=p))


@primitive(numpy=np.linalg.matrix_rank, differentiable=False)
def matrix_rank(x, tol=None, hermitian=False, rtol=None):
    """How many singular values exceed tol, or rtol (ε max(m, n)) times the largest. No gradient."""
    options = {} if rtol is None else {"rtol": rtol}
    if hermitian:
        options["hermitian"] = True
    rank = np.linalg.matrix_rank(finite(x), tol, **options)
    return rank if hasattr(rank, "dtype") else array_module(x).asarray(rank)  # int for a vector


for _op in (matrix_exp, matrix_rank):
    _op.batch(stack_batch)
