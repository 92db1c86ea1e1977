"""Determinants, with derivatives of every order also where the matrix is singular.

det is a polynomial in the entries of x, so all its derivatives exist everywhere. Far from singular
matrices they follow from ∂det/∂x = det(x) x⁻ᵀ. At one that is 0 · ∞, and near one it cancels in
second derivatives; there another exact formula is used. With x = u diag(s) vᴴ let W = u₂ v₂ᴴ belong
to the q singular values that are too small. Then t ↦ det(x + t W) is a polynomial of degree q at
most, because W has rank q. So its value at 0 is its mean over the q + 1 roots of unity, times any
radius:

    det(x) = 1/(q + 1) Σ_k det(x + t_k W)        for every x, with W and the t_k held fixed

No matrix on the right is near a singular one. So the derivatives of the right, of every order,
follow from the first formula, and they are those of the left. For one small singular value the t_k
are ±r, and real.
"""

from math import pi
from typing import Any, NamedTuple

import numpy as np

from ...backends.device import array_module
from ...engine.primitive import primitive
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like
from .matrices import adjoint, lapack, stack_batch


@primitive(numpy=np.linalg.det)
def det(x):
    """y = det x ;  gx = g times the conjugate of the cofactors of x, exact for a singular x too

    x (…, n, n) -> y (…).
    """
    return np.linalg.det(lapack(x))


@det.vjp("x")
def det_dx(g, x, y):
    shifts = op.det_shifts(x)
    if not shifts.shape[-3]:
        return (g * y.conj())[..., None, None] * adjoint(op.inv(x))
    shifted = x[..., None, :, :] + shifts
    cofactors = op.det(shifted).conj()[..., None, None] * adjoint(op.inv(shifted))
    return g[..., None, None] * op.mean(cofactors, axis=-3)


@primitive(differentiable=False)
def det_shifts(x):
    """The t_k W of this file's head, (…, q + 1, n, n), where a matrix of x (…, n, n) needs them.

    (…, 0, n, n) if none does.
    """
    # By the plain formula second derivatives lose up to 1/limit in precision. First ones lose none
    # while x has an inverse: the errors of det(x) and x⁻¹ are the same, and cancel.
    limit = float(np.finfo(np.result_type(x.dtype, np.float32)).eps) ** 0.2
    none = np.zeros_like(x, shape=(*x.shape[:-2], 0, *x.shape[-2:]))
    if x.size == 0 or not np.isfinite(x).all() or _far_from_singular(x, limit):
        return none
    u, s, vh = np.linalg.svd(x)
    small = _too_small(s, limit)
    q = int(small.sum(axis=-1).max())
    if q == 0:
        return none
    w = (u * small[..., None, :]) @ vh
    # Twice the least of the others: |s_i + t_k| is then no smaller than that for the small s_i. A
    # larger radius would make the terms of the mean cancel.
    least = np.where(small, np.inf, s).min(axis=-1)
    radius = np.where(np.isfinite(least), 2 * least, 1)[..., None, None, None]
    k = array_module(x).arange(q + 1).reshape((-1, 1, 1))
    roots = 1 - 2 * k if q == 1 else np.exp(2j * pi / (q + 1) * k)
    shifts = radius * roots * w[..., None, :, :]
    return shifts.astype(np.result_type(x.dtype, np.complex64 if q > 1 else np.float32))


def _too_small(s, limit):
    """Singular values that are 0 to rounding; else the last, if it is far below the one before it.

    Not all that are small: where they fall gradually, the cofactors depend on the others.
    """
    n = s.shape[-1]
    zero = s <= n * float(np.finfo(s.dtype).eps) * s[..., :1]
    before = s[..., max(n - 2, 0), None]
    last = array_module(s).arange(n) == n - 1
    return zero | (last & (s < limit * before))


def _far_from_singular(x, limit):
    """Whether |x| |x⁻¹| < 1/limit for every matrix: cheaper than singular values, and enough."""
    try:
        inverse = np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.linalg.norm(x, axis=(-2, -1)) * np.linalg.norm(inverse, axis=(-2, -1))
    return bool((size * limit < 1).all())


class SlogdetResult(NamedTuple):
    """det = sign · exp(logabsdet)."""

    sign: Any
    logabsdet: Any


@primitive(outputs=2)
def slogdet_parts(x):
    """sign = det/|det|, l = log |det| ;  gx = (g_l − i Im(conj(g_sign) sign)) x⁻ᴴ

    The sign of a real matrix is locally constant. At a singular matrix l is −∞ and has no
    derivative: the backward raises LinAlgError.
    """
    return tuple(np.linalg.slogdet(lapack(x)))


slogdet_parts.called = "slogdet"


@slogdet_parts.vjp("x")
def slogdet_parts_dx(g, x, y):
    (g_sign, g_log), (sign, _) = g, y
    if g_sign is not None and sign.dtype.kind == "c":
        turn = (g_sign.conj() * sign).imag * -1j
        g_log = turn if g_log is None else g_log + turn
    if g_log is None:
        return None
    return g_log[..., None, None] * adjoint(op.inv(x))


@composite(numpy=np.linalg.slogdet)
def slogdet(x: Any) -> SlogdetResult:
    """(sign, logabsdet) of x (…, n, n): the determinant where its size would overflow."""
    return SlogdetResult(*slogdet_parts(array_like(x)))


for _op in (det, det_shifts, slogdet_parts):
    _op.batch(stack_batch)
