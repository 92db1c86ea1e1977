"""Samples of LU decompositions and of equations solved by given factors."""

import numpy as np

from ....linalg import cholesky_solve as solve_by_cholesky
from ....linalg import lu_solve
from ...spec import ErrorSample, Point, Sample, register_op
from ..forms import normal, of_several, over
from .matrices import (
    DTYPES,
    HALF,
    SHAPES,
    SQUARE,
    adjoint,
    finite_only,
    triangular,
)


def _well_pivoted(rng, dtype, shape):
    """Rows of a triangular matrix in another order: no pivot is a near tie."""
    if len(shape) < 2 or not shape[-1]:
        return normal(rng, dtype, shape)
    x = 0.3 * normal(rng, dtype, shape)
    for i in range(min(shape[-2:])):
        x[..., i, i] += 2 + 0.5 * i
    return x[..., rng.permutation(shape[-2]), :].astype(dtype)


def _eliminated(x):
    """Textbook elimination with row pivots, one matrix after the other: (p, l, u)."""
    m, n = x.shape[-2:]
    k, lead = min(m, n), x.shape[:-2]
    wide = np.result_type(x.dtype, np.float64)
    p, l = np.zeros((*lead, m, m)), np.zeros((*lead, m, k), wide)
    u = np.zeros((*lead, k, n), wide)
    for i in np.ndindex(*lead):
        rest, order = x[i].astype(wide), np.arange(m)
        factors = np.zeros((m, k), wide)
        for j in range(k):
            top = j + np.argmax(abs(rest[j:, j]))
            for swapped in (rest, order, factors):
                swapped[[j, top]] = swapped[[top, j]]
            factors[j:, j] = rest[j:, j] / rest[j, j]
            rest[j + 1 :] -= factors[j + 1 :, j, None] * rest[j]
        l[i], u[i], p[i][order, np.arange(m)] = factors, rest[:k], 1
    return p.astype(x.real.dtype), l.astype(x.dtype), u.astype(x.dtype)


def _exchanges(p, steps=None):
    piv = np.zeros(p.shape[:-1], int)
    for i in np.ndindex(*p.shape[:-2]):
        order = list(range(p.shape[-1]))
        for j, row in enumerate(p[i].argmax(0) if order else ()):
            piv[i][j] = order.index(row)
            order[piv[i][j]], order[j] = order[j], row
    return piv[..., :steps]


def _factor(x):
    p, l, u = _eliminated(x)
    m, n = x.shape[-2:]
    packed = np.zeros(x.shape, x.dtype)
    packed[..., : min(m, n)] += np.tril(l, -1)
    packed[..., : min(m, n), :] += u
    return packed, _exchanges(p, min(m, n))


# No matrix of one row: l is then 1, u is x itself, and second derivatives are rounding alone.
_NAN = {"K12": "with inf or NaN LAPACK chooses the row, and with it the further result"}
register_op(
    "lu_factors", over([*SHAPES[:4], *SQUARE[2:4]], _well_pivoted),
    reference=finite_only(_eliminated), dtypes=DTYPES, errors=[HALF], skips=_NAN,
)  # fmt: skip
register_op(
    "lu", over(SHAPES[:4], _well_pivoted), reference=finite_only(_eliminated), dtypes=DTYPES,
    errors=[HALF], skips=_NAN,
    points=[Point("no columns", (np.zeros((2, 0)),),
                  (np.eye(2), np.zeros((2, 0)), np.zeros((0, 0))), (np.zeros((2, 0)),))],
)  # fmt: skip
register_op(
    "lu_factor", over([*SHAPES[:4], *SQUARE[2:4]], _well_pivoted), reference=finite_only(_factor),
    dtypes=DTYPES, errors=[HALF], skips=_NAN,
)  # fmt: skip


def _permutations(rng, dtype):
    eye = np.eye(4).astype(dtype)
    yield Sample("one", (eye[rng.permutation(4)],))
    yield Sample("two", (np.stack([eye[rng.permutation(4)] for _ in range(2)]),))
    yield Sample("of two columns", (eye[[2, 0, 1, 3]],), {"steps": 2})


def _orders(rng, dtype):
    yield Sample("two", (np.array([[2, 1, 3, 3], [0, 1, 2, 3]]),))


def _order(piv):
    y = np.zeros_like(piv)
    for i in np.ndindex(*piv.shape[:-1]):
        rows = list(range(piv.shape[-1]))
        for j, other in enumerate(piv[i]):
            rows[j], rows[other] = rows[other], rows[j]
        y[i] = rows
    return y


register_op(
    "lu_exchanges", _permutations, reference=_exchanges, dtypes=("float64",),
    differentiable=False, skips={"K17": "permutations are square"},
)  # fmt: skip
register_op(
    "lu_order", _orders, reference=_order, dtypes=("float64",), differentiable=False,
)  # fmt: skip


def _packed_solve(packed, b, piv):
    return lu_solve((packed, piv), b)


def _packed_reference(packed, b, piv):
    n = packed.shape[-1]
    l, u = np.tril(packed, -1) + np.eye(n), np.triu(packed)
    columns, order = b[:, None] if b.ndim == 1 else b, _order(piv)
    lead = np.broadcast_shapes(columns.shape[:-2], order.shape[:-1])
    columns = np.broadcast_to(columns, (*lead, *columns.shape[-2:]))
    rows = np.take_along_axis(columns, np.broadcast_to(order, (*lead, n))[..., None], -2)
    y = np.linalg.solve(u, np.linalg.solve(l, rows)).astype(np.result_type(packed, b))
    return y[:, 0] if b.ndim == 1 else y


PIV = np.array([1, 2, 2])
PIVS = np.array([[1, 2, 2], [2, 2, 2]])
register_op(
    "lu_solve",
    of_several(
        [(((3, 3), (3, 2), PIV), {}), (((3, 3), (3,), PIV), {}),
         (((2, 3, 3), (2, 3, 1), PIVS), {}), (((2, 1, 3, 3), (2, 3, 1), PIVS[:, None]), {})],
        triangular,
    ),
    call=_packed_solve,
    reference=_packed_reference,
    dtypes=DTYPES,
    skips={
        "K12": "the reference eliminates, which spreads NaN and inf; substitution does not",
        "K17": "exchanges must fit the matrix, which the size matrix changes",
    },
    errors=[ErrorSample("b does not fit", (np.eye(3), np.ones(2), PIV), ValueError,
                        r"lu_solve: b must be .* n = 3, got \(2,\)")],
)  # fmt: skip


def _cholesky_reference(b, factor, upper=False):
    if factor.ndim < 2 or factor.shape[-1] != factor.shape[-2]:
        raise np.linalg.LinAlgError("a factor is square")
    l = adjoint(np.triu(factor)) if upper else np.tril(factor)
    columns = b[:, None] if b.ndim == 1 else b
    y = np.linalg.solve(l @ adjoint(l), columns)
    return (y[..., 0] if b.ndim == 1 else y).astype(np.result_type(b, factor))


register_op(
    "cholesky_solve",
    of_several(
        [(((3, 2), (3, 3)), {}), (((3,), (3, 3)), {}), (((3, 2), (3, 3)), {"upper": True}),
         (((2, 2, 1), (2, 2, 2)), {}), (((3, 1), (2, 3, 3)), {"upper": True})],
        triangular,
    ),
    call=solve_by_cholesky,
    reference=_cholesky_reference,
    dtypes=DTYPES,
    skips={"K12": "the reference eliminates, which spreads NaN and inf; substitution does not"},
    errors=[ErrorSample("b does not fit", (np.ones(2), np.eye(3)), ValueError,
                        r"n = 3, got \(2,\)")],
)  # fmt: skip
