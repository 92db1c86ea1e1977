"""LU decomposition with row pivots, and equations solved by a factor that is known."""

from typing import Any, NamedTuple

import numpy as np

from ...backends.device import array_module
from ...engine.primitive import primitive
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like
from ..batching import one_more_axis
from .matrices import (
    adjoint,
    as_columns,
    check_right_side,
    lapack,
    scipy_function,
    stack_batch,
    triangle,
)


class LUResult(NamedTuple):
    """P a permutation, L lower trapezoidal with ones on its diagonal, U upper trapezoidal."""

    P: Any
    L: Any
    U: Any


class LUFactor(NamedTuple):
    """L and U in one matrix (the ones of L left out), and LAPACK's row exchanges, from 0."""

    lu: Any
    piv: Any


@primitive(outputs=3)
def lu_factors(x):
    """x = p l u for x (…, m, n), k = min(m, n): p (…, m, m), l (…, m, k), u (…, k, n)

    With g₁ that of the first k rows of l and columns of u, g₂ that of the others (l₂ = x₂ u₁⁻¹,
    u₂ = l₁⁻¹ x₂):  gx₁ = p l₁⁻ᴴ [tril₋₁(l₁ᴴ gl₁ − gu₂ u₂ᴴ) + triu(gu₁ u₁ᴴ − l₂ᴴ gl₂)] u₁⁻ᴴ.
    F. de Hoog, R. Anderssen, M. Lukas, "Differentiation of matrix functionals using triangular
    factorization" (2011). p is locally constant. The backward raises LinAlgError where u₁ is
    singular.
    """
    if x.ndim < 2:
        raise np.linalg.LinAlgError(f"x must be (…, m, n), got shape {x.shape}")
    if x.size == 0:
        return _of_nothing(lapack(x))
    if not getattr(x.flags, "aligned", True):  # of a file that was mapped: SciPy 1.18 refuses it
        x = x.copy()
    p, l, u = scipy_function("lu", x)(lapack(x), check_finite=False)
    return p.real, l, u  # SciPy gives a complex p for order 1


lu_factors.called = "lu"


def _of_nothing(x):
    """SciPy takes no empty matrices: l is the identity's columns, u is empty or zero."""
    m, n = x.shape[-2:]
    k = min(m, n)
    eye = np.zeros_like(x, shape=(*x.shape[:-2], m, m)) + array_module(x).eye(m, dtype=x.dtype)
    return eye.real, eye[..., :k], np.zeros_like(x, shape=(*x.shape[:-2], k, n))


@lu_factors.vjp("x")
def lu_factors_dx(g, y, x_shape):
    (_, gl, gu), (p, l, u) = g, y
    if gl is None and gu is None:
        return None
    gl = np.zeros_like(l) if gl is None else gl
    gu = np.zeros_like(u) if gu is None else gu
    k = min(x_shape[-2:])
    l1, l2, u1, u2 = l[..., :k, :], l[..., k:, :], u[..., :k], u[..., k:]
    gl1, gl2, gu1, gu2 = gl[..., :k, :], gl[..., k:, :], gu[..., :k], gu[..., k:]
    inner = triangle(adjoint(l1) @ gl1 - gu2 @ adjoint(u2), True, 1)
    inner = inner + triangle(gu1 @ adjoint(u1) - adjoint(l2) @ gl2, False)
    right = adjoint(op.triangular_solve(u1, adjoint(inner)))
    top = op.triangular_solve(adjoint(l1), right, unit_diagonal=True)
    if gu2.shape[-1]:  # more columns than rows
        beside = op.triangular_solve(adjoint(l1), gu2, unit_diagonal=True)
        top = op.concatenate((top, beside), axis=-1)
    if gl2.shape[-2]:  # more rows than columns
        below = adjoint(op.triangular_solve(u1, adjoint(gl2)))
        top = op.concatenate((top, below), axis=-2)
    return p @ top


@composite
def lu(x: Any) -> LUResult:
    """x = P L U for x (…, m, n), with row pivots, as scipy.linalg.lu; k = min(m, n).

    P (…, m, m), L (…, m, k), U (…, k, n). P is locally constant and has no gradient. The backward
    needs the first k columns of x to be independent, else LinAlgError. Needs SciPy.
    """
    p, l, u = lu_factors(array_like(x))
    return LUResult(p.detach() if hasattr(p, "detach") else p, l, u)


@primitive(differentiable=False)
def lu_exchanges(p, *, steps=None):
    """LAPACK's exchanges (…, steps) for a permutation (…, m, m): row i with row piv_i, in turn.

    steps: how many to give; those of m rows if None.
    """
    xp = array_module(p)
    rows = xp.arange(p.shape[-1])
    steps = len(rows) if steps is None else steps
    order = np.zeros_like(p, shape=p.shape[:-1], dtype=rows.dtype) + rows
    # the row of x in each place; argmax takes no axis of length 0
    wanted = xp.argmax(p, axis=-2) if steps else order
    piv = np.zeros_like(wanted[..., :steps])
    for i in range(steps):
        place = xp.argmax(order == wanted[..., i, None], axis=-1)[..., None]
        piv[..., i] = place[..., 0]
        moved = order[..., i, None].copy()
        np.put_along_axis(order, place, moved, -1)
        order[..., i] = wanted[..., i]
    return piv


@composite
def lu_factor(x: Any) -> LUFactor:
    """L and U of x (…, m, n) in one matrix (…, m, n), and the min(m, n) exchanges of its rows.

    For lu_solve, where x is square.
    """
    x = array_like(x)
    p, l, u = lu(x)
    m, n = x.shape[-2:]
    k = min(m, n)
    packed = triangle(l[..., :k, :], True, 1) + u[..., :k]
    if n > k:
        packed = op.concatenate((packed, u[..., k:]), axis=-1)
    if m > k:
        packed = op.concatenate((packed, l[..., k:, :]), axis=-2)
    return LUFactor(packed, lu_exchanges(p, steps=k))


@primitive(differentiable=False)
def lu_order(piv):
    """The order (…, n) that row exchanges (…, n) lead to: row order_i of x comes to place i."""
    order = np.zeros_like(piv) + array_module(piv).arange(piv.shape[-1])
    for i in range(piv.shape[-1]):
        place = piv[..., i, None]
        moved = np.take_along_axis(order, place, -1)
        np.put_along_axis(order, place, order[..., i, None], -1)
        order[..., i] = moved[..., 0]
    return order


@composite
def lu_solve(lu_and_piv: Any, b: Any) -> Any:
    """The solution y of x y = b for lu_factor(x); b (n,) or (…, n, k). LinAlgError if singular."""
    packed, piv = (array_like(part) for part in lu_and_piv)
    b = array_like(b)
    n = packed.shape[-1]
    if packed.shape[-2] != n:
        raise ValueError(f"lu_solve: lu must be (…, n, n), got {packed.shape}; lstsq solves others")
    check_right_side(b, n, "lu_solve: ")
    columns = as_columns(b, b.shape)
    lead = np.broadcast_shapes(packed.shape[:-2], columns.shape[:-2])
    columns = op.broadcast_to(columns, shape=(*lead, *columns.shape[-2:]))
    order = op.broadcast_to(lu_order(piv), shape=(*lead, n))
    rows = op.take_along_axis(columns, order[..., None], axis=-2)
    y = op.triangular_solve(packed, rows, lower=True, unit_diagonal=True)
    y = op.triangular_solve(packed, y)
    return y[..., 0] if b.ndim == 1 else y


@composite
def cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    """The solution y of x y = b for a factor of x = factor factorᴴ (upper: factorᴴ factor).

    b (n,) or (…, n, k); factor = cholesky(x), of which one triangle is read. PyTorch's arguments.
    """
    b, factor = array_like(b), array_like(factor)
    l = adjoint(factor) if upper else factor
    y = op.triangular_solve(l, b, lower=True)
    return op.triangular_solve(adjoint(l), y)


for _op in (lu_factors, lu_exchanges):
    _op.batch(stack_batch)
lu_order.batch(one_more_axis)
