"""Decompositions: Cholesky, QR, singular values.

A factor is determined only up to a choice. Examples are the sign or phase of a singular vector, and
the basis of a complement or of the space of equal singular values. Derivatives are right for
functions that do not depend on the signs, phases and complements, and finite always; at equal
values see `svd_factors`.
"""

from typing import Any, NamedTuple

import numpy as np

from ...engine.primitive import primitive
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like
from .matrices import (
    adjoint,
    diagonal_of,
    finite,
    hermitian_of_triangle,
    hermitian_part,
    lapack,
    reciprocal,
    reciprocal_gaps,
    rounding_of,
    stack_batch,
)


@primitive(numpy=np.linalg.cholesky)
def cholesky(x, *, upper=False):
    """x = y yᴴ, y lower triangular ;  gx = ½ y⁻ᴴ φ(yᴴ g) y⁻¹

    φ copies the lower triangle into the upper one, adjoint: I. Murray, "Differentiation of the
    Cholesky decomposition" (2016), arXiv:1602.07527, eq. 10. upper=True gives yᴴ: x = yᴴ y.

    x (…, n, n) Hermitian, of which only the lower (upper) triangle is read; the gradient is
    Hermitian nevertheless: that of a function of Hermitian matrices. LinAlgError unless x is
    positive definite.
    """
    lapack(x)
    return adjoint(np.linalg.cholesky(adjoint(x))) if upper else np.linalg.cholesky(x)


@cholesky.vjp("x")
def cholesky_dx(g, y, upper):
    if upper:
        g, y = adjoint(g), adjoint(y)
    yh = adjoint(y)
    c = yh @ g
    s = op.triangular_solve(yh, hermitian_of_triangle(c, lower=True) * 0.5)
    return hermitian_part(op.triangular_solve(yh, adjoint(s)))


# -- QR --------------------------------------------------------------------------------------


class QRResult(NamedTuple):
    """Q with orthonormal columns, R upper triangular."""

    Q: Any
    R: Any


@primitive(outputs=2)
def qr_factors(x, *, complete=False):
    """x = q r for x (…, m, n), m ≥ n ;  gx = (gq + q (N + Nᴴ)) r⁻ᴴ, N = triu(gr rᴴ − qᴴ gq)

    where the diagonal counts once, by its real part. M. Seeger et al., "Auto-differentiating linear
    algebra" (2017), arXiv:1710.08717, §4.3. q (…, m, n) and r (…, n, n); complete: q (…, m, m) and
    r (…, m, n), where the further columns of q get a gradient as `without_complement` says.
    The backward raises LinAlgError where the columns of x are linearly dependent.
    """
    if x.ndim > 1 and x.shape[-2] < x.shape[-1]:
        raise ValueError("x must have as many rows as columns, or more; use qr")
    return tuple(np.linalg.qr(lapack(x), "complete" if complete else "reduced"))


@qr_factors.vjp("x")
def qr_factors_dx(g, y, x_shape):
    (gq, gr), (q, r) = g, y
    n = x_shape[-1]
    gq = np.zeros_like(q) if gq is None else gq
    gq, q = without_complement(gq, q, n)
    r = r[..., :n, :]
    c = -(adjoint(q) @ gq)
    if gr is not None:
        c = gr[..., :n, :] @ adjoint(r) + c
    inner = hermitian_of_triangle(c, lower=False)
    return adjoint(op.triangular_solve(r, adjoint(gq + q @ inner)))


def without_complement(gq: Any, q: Any, n: int) -> tuple[Any, Any]:
    """(gq, q) of the first n columns, with the gradient of the further ones passed on to them.

    The further columns q₂ are any orthonormal basis of the complement of q₁. Of all ways to follow
    q₁ this takes the one without rotation in itself, dq₂ = −q₁ dq₁ᴴ q₂. It is right for any
    function of the complement that does not depend on its basis.
    """
    if n == q.shape[-1]:
        return gq, q
    first, second = q[..., :n], q[..., n:]
    return gq[..., :n] - second @ (adjoint(gq[..., n:]) @ first), first


@composite(numpy=np.linalg.qr)
def qr(x: Any, mode: str = "reduced") -> Any:
    """x = Q R for x (…, m, n), k = min(m, n): QRResult of Q (…, m, k) and R (…, k, n).

    mode "complete": Q (…, m, m), R (…, m, n); "r": R alone. With m < n, Q is that of the first m
    columns. The signs (phases) on R's diagonal are LAPACK's, and locally constant.
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(
            f"qr: mode={mode!r} has no derivative; choose 'reduced', 'complete' or 'r', or "
            "decompose x.detach().numpy()"
        )
    x = array_like(x)
    if x.ndim < 2:
        raise np.linalg.LinAlgError(f"qr: x must be (…, m, n), got shape {x.shape}")
    m, n = x.shape[-2:]
    q, r = qr_factors(x[..., :m] if m < n else x, complete=mode == "complete")
    if m < n:
        r = op.concatenate((r, adjoint(q) @ x[..., m:]), axis=-1)
    return r if mode == "r" else QRResult(q, r)


# -- singular values -------------------------------------------------------------------------


class SVDResult(NamedTuple):
    """U and Vh with singular vectors in columns and rows, S singular values in descending order."""

    U: Any
    S: Any
    Vh: Any


@primitive(outputs=3)
def svd_factors(x, *, full_matrices=False):
    """x = u diag(s) vᴴ ;  gx = u [(F∘(c − cᴴ)) s + s (F∘(h − hᴴ)) + diag(gs)] vᴴ + …

    with c = uᴴ gu, h = vᴴ gv, F_ij = 1/(s_j² − s_i²); further terms for the parts of gu and gv
    outside the space of u and v, and for complex x the phases of the pairs (u_i, v_i): Z.-Q. Wan
    and S.-X. Zhang (2019), arXiv:1909.02659; Seeger et al. (2017), arXiv:1710.08717, §4.4.

    Where singular values are equal (to rounding) F is 0, and 1/s where s is 0. That is right for
    functions symmetric in equal values, and for those of the vectors through the projector on their
    common space. A function that mixes both, such as u f(s) vᴴ, has a derivative there that no rule
    of factors can give. The part that couples equal values is left out. Singular values that are 0
    have a kink there, and gradient 0. full_matrices: see `without_complement`.
    """
    return tuple(np.linalg.svd(finite(x), full_matrices=full_matrices))


svd_factors.called = "svd"


@svd_factors.vjp("x")
def svd_factors_dx(g, y):
    (gu, gs, gvh), (u, s, vh) = g, y
    k = s.shape[-1]
    if gu is None and gvh is None:
        return _from_values(gs, u[..., :k], s, vh[..., :k, :])
    gu = np.zeros_like(u) if gu is None else gu
    gvh = np.zeros_like(vh) if gvh is None else gvh
    gu, u = without_complement(gu, u, k)
    gv, v = without_complement(adjoint(gvh), adjoint(vh), k)
    c, h = adjoint(u) @ gu, adjoint(v) @ gv
    columns, rows = s[..., None, :], s[..., :, None]
    # F_ij = 1/(s_j − s_i) · 1/(s_j + s_i) by its factors, as F may overflow. The first is 0 where i
    # = j; the second is multiplied by s_j or s_i at once
    gaps, total = reciprocal_gaps(s), reciprocal(columns + rows, columns + rows == 0)
    inner = (gaps * (c - adjoint(c))) * (columns * total)
    inner = inner + (rows * total) * (gaps * (h - adjoint(h)))
    inverse = reciprocal(s, s <= rounding_of(s))
    if u.dtype.kind == "c":
        turn = (diagonal_of(c).imag - diagonal_of(h).imag) * inverse * 0.5
        inner = inner + op.diag_embed(turn * 1j)
    beyond_u = (gu - u @ c) * inverse[..., None, :]  # zero for a square x, to rounding
    beyond_v = (gv - v @ h) * inverse[..., None, :]
    gx = (u @ inner + beyond_u) @ adjoint(v) + u @ adjoint(beyond_v)
    return gx if gs is None else gx + _from_values(gs, u, s, adjoint(v))


def _from_values(gs, u, s, vh):
    """u diag(gs) vᴴ, leaving out singular values that are 0."""
    return (u * np.where(s <= rounding_of(s), 0, gs)[..., None, :]) @ vh


@primitive(numpy=np.linalg.svdvals)
def svdvals(x):
    """s, the singular values of x (…, m, n) in descending order ;  gx = u diag(g) vᴴ, 0 for s = 0

    The backward computes u and v. Repeated values: right for functions symmetric in them.
    """
    return np.linalg.svd(finite(x), compute_uv=False)


@svdvals.vjp("x")
def svdvals_dx(g, x):
    u, s, vh = op.svd_factors(x)
    return _from_values(g, u, s, vh)


@composite(numpy=np.linalg.svd)
def svd(
    x: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """x = U diag(S) Vh for x (…, m, n), k = min(m, n): SVDResult; S alone without compute_uv.

    U (…, m, m) and Vh (…, n, n), or with full_matrices=False (…, m, k) and (…, k, n). Derivatives
    at equal or zero singular values: see `svd_factors`. hermitian=True goes through eigh.
    """
    x = array_like(x)
    if hermitian:
        return _svd_hermitian(x, compute_uv)
    if not compute_uv:
        return svdvals(x)
    return SVDResult(*svd_factors(x, full_matrices=full_matrices))


def _svd_hermitian(x: Any, compute_uv: bool) -> Any:
    """|w| in descending order, and v, of the eigenpairs (w, v) of a Hermitian matrix."""
    if not compute_uv:
        return op.flip(op.sort(op.abs(op.eigvalsh(x)), axis=-1), axis=-1)
    w, v = op.eigh(x)
    order = op.flip(op.argsort(op.abs(w), axis=-1), axis=-1)
    w = op.take_along_axis(w, order, axis=-1)
    v = op.take_along_axis(v, order[..., None, :], axis=-1)
    turned = op.where(w < 0, -1, op.ones_like(w))  # at 0 a vector of length 1, too
    return SVDResult(v, op.abs(w), adjoint(v * turned[..., None, :]))


for _op in (cholesky, qr_factors, svd_factors, svdvals):
    _op.batch(stack_batch)
