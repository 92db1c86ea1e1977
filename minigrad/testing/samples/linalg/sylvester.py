"""Samples of Sylvester's equation and of matrix square roots."""

import numpy as np

from ...spec import ErrorSample, Point, Sample, register_op
from ..forms import normal, over
from .matrices import NOT_SQUARE

_DTYPES = ("float64", "complex128")
_FINITE = {"K12": "LAPACK refuses infinite entries"}


def _right_half(rng, dtype, shape):
    """Matrices with eigenvalues near 3."""
    return (0.4 * normal(rng, dtype, shape) + 3 * np.eye(shape[-1])).astype(dtype)


def _equations(rng, dtype):
    for lead, m, n in (((), 3, 2), ((2,), 2, 3), ((), 1, 1)):
        args = (_right_half(rng, dtype, (*lead, m, m)), _right_half(rng, dtype, (n, n)))
        yield Sample(f"{lead} {m} {n}", (*args, normal(rng, dtype, (*lead, m, n))))


def _by_kronecker(a, b, q):
    m, n = q.shape[-2:]
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], q.shape[:-2])
    y = np.empty((*lead, m, n), np.result_type(a, b, q))
    stacks = [np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b, q)]
    for i in np.ndindex(*lead):
        a, b, q = (x[i] for x in stacks)
        matrix = np.kron(a, np.eye(n)) + np.kron(np.eye(m), b.T)
        y[i] = np.linalg.solve(matrix, q.reshape(-1)).reshape(m, n)
    return y


register_op(
    "solve_sylvester",
    _equations,
    reference=_by_kronecker,
    dtypes=_DTYPES,
    skips=_FINITE,
    errors=[
        ErrorSample("q of another shape", (np.eye(2), np.eye(3), np.eye(2)), np.linalg.LinAlgError,
                    r"a must be \(…, m, m\), b \(…, n, n\), q \(…, m, n\)"),
    ],
)  # fmt: skip


def _root_of_each(a):
    from scipy.linalg import sqrtm

    if a.ndim < 2:
        raise ValueError("no matrices")
    y = np.empty(a.shape, complex)
    for i in np.ndindex(*a.shape[:-2]):
        y[i] = sqrtm(a[i])
    return y if a.dtype.kind == "c" or y.imag.any() else y.real


register_op(
    "sqrtm",
    over([((3, 3), {}), ((2, 2, 2), {})], _right_half),
    reference=_root_of_each,
    dtypes=_DTYPES,
    skips=_FINITE,
    errors=[NOT_SQUARE],
    points=[Point("diagonal", (np.diag([4.0, 9.0]),), np.diag([2.0, 3.0]),
                  (np.array([[1 / 4, 1 / 5], [1 / 5, 1 / 6]]),))],
)  # fmt: skip
