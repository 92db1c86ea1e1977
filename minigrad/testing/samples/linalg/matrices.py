"""Matrices for samples of linear algebra: well-conditioned ones and stacks of them."""

from typing import Any

import numpy as np

from ...spec import ErrorSample
from ..forms import normal

DTYPES = ("float64", "float32", "complex128", "complex64")  # LAPACK has no 16-bit routines
SQUARE = [((3, 3), {}), ((1, 1), {}), ((2, 2, 2), {}), ((2, 1, 3, 3), {}), ((0, 0), {})]
SHAPES = [((3, 3), {}), ((4, 2), {}), ((2, 4), {}), ((2, 3, 2), {}), ((1, 3), {})]

NOT_SQUARE = ErrorSample(
    "not square", (np.ones((2, 3)),), np.linalg.LinAlgError, r"float64 \(2, 3\).*square"
)
SINGULAR = ErrorSample(
    "singular", (np.ones((2, 2)),), np.linalg.LinAlgError, r"float64 \(2, 2\)\): Singular matrix"
)
INFINITE = ErrorSample("inf", (np.diag([1.0, np.inf]),), np.linalg.LinAlgError, "holds inf or NaN")
HALF = ErrorSample(
    "float16", (np.eye(2, dtype=np.float16),), TypeError, r"in float16.*x\.astype\(mg\.float32\)"
)


# -- values ----------------------------------------------------------------------------------


def unitary(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """Orthonormal columns, or rows if there are fewer of these."""
    tall = shape[-2] >= shape[-1]
    x = normal(rng, np.result_type(dtype, np.float64), shape)
    return np.linalg.qr(x)[0] if tall else np.linalg.qr(x.swapaxes(-1, -2))[0].swapaxes(-1, -2)


def spaced(n: int) -> np.ndarray:
    """Distinct numbers: 1, 2, 3 …"""
    return 1.0 + np.arange(n)


def regular(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """Matrices with singular values 1, 2 …; a vector is just normal."""
    if len(shape) < 2:
        return normal(rng, dtype, shape)
    k = min(shape[-2:])
    u = unitary(rng, dtype, (*shape[:-1], k))
    v = unitary(rng, dtype, (*shape[:-2], k, shape[-1]))
    return ((u * spaced(k)) @ v).astype(dtype)


def nearly_hermitian(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """A Hermitian matrix with eigenvalues 1, 2 …, plus a skew part."""
    v = unitary(rng, dtype, shape)
    skew = normal(rng, dtype, shape) * 0.1
    return ((v * spaced(shape[-1])) @ adjoint(v) + skew - adjoint(skew)).astype(dtype)


def indefinite(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """The same with eigenvalues 1, −2, 3 …"""
    v = unitary(rng, dtype, shape)
    skew = normal(rng, dtype, shape) * 0.1
    signs = (-1.0) ** np.arange(shape[-1])
    return ((v * (signs * spaced(shape[-1]))) @ adjoint(v) + skew - adjoint(skew)).astype(dtype)


def triangular(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """A diagonal near ±1, the rest of both triangles smaller; or a right-hand side."""
    x = normal(rng, dtype, shape)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        return x
    eye = np.eye(shape[-1])
    return (x * 0.5 * (1 - eye) + (2 + 0.2 * np.sign(x.real)) * eye).astype(dtype)


def diagonalisable(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """Eigenvalues 1, 2 … with eigenvectors near orthonormal ones: real for a real dtype."""
    v = unitary(rng, dtype, shape) + 0.1 * normal(rng, dtype, shape)
    return (v @ (spaced(shape[-1])[:, None] * np.linalg.inv(v))).astype(dtype)


def rotating(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """Real matrices of order 2 with a pair of complex eigenvalues."""
    v = unitary(rng, np.float64, shape) + 0.1 * rng.standard_normal(shape)
    return (v @ np.array([[1, -1], [1, 1]]) @ np.linalg.inv(v)).astype(dtype)


def independent_columns(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """As `regular`, also in the first columns of a wide matrix, which determine its Q."""
    m, n = shape[-2:]
    square = regular(rng, dtype, (*shape[:-1], min(m, n)))
    more = normal(rng, dtype, (*shape[:-1], max(n - m, 0)))
    return np.concatenate([square, more], axis=-1)


# -- shared by references ---------------------------------------------------------------------


def adjoint(x):
    return x.conj().swapaxes(-1, -2)


def one_triangle(x, lower=True):
    """A Hermitian x with 5 more at each position of its other triangle, which must not be read."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        return x  # the op must refuse it
    ones = np.ones_like(x)
    return x + 5 * (np.triu(ones, 1) if lower else np.tril(ones, -1))


def finite_only(function):
    """NumPy's function by an SVD, which never returns for some matrices with an inf."""

    def reference(*args, **params):
        if not all(np.isfinite(x).all() for x in args):
            raise np.linalg.LinAlgError("inf or NaN")
        return function(*args, **params)

    return reference
