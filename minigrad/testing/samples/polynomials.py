"""Samples of polynomials by their coefficients."""

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .forms import COMPLEX, distinct, near_one, of_several, over

_EXACT = ("float64", "float32")


def _vectors_only(name):
    return ErrorSample(
        "a matrix",
        (np.ones((2, 2)), np.ones(2)),
        ValueError,
        f"{name}: the coefficients must be a vector, got shape",
    )


def _of_vectors(function):
    """The NumPy function for vectors and numbers; NumPy also takes matrices, and some functions
    refuse numbers."""

    def reference(*ps, **params):
        if max(p.ndim for p in ps) > 1:
            raise ValueError("not vectors")
        return np.asarray(function(*map(np.atleast_1d, ps), **params))

    return reference


for _name in ("polyadd", "polysub"):
    register_op(
        _name,
        of_several([(((3,), (3,)), {}), (((2,), (4,)), {}), (((4,), (1,)), {})]),
        reference=_of_vectors(getattr(np, _name)),
        dtypes=COMPLEX,
        errors=[_vectors_only(_name)],
    )
register_op(
    "polymul",
    of_several([(((3,), (2,)), {}), (((1,), (4,)), {})]),
    reference=lambda a, b: np.convolve(a, b),
    dtypes=_EXACT,
    errors=[_vectors_only("polymul")],
)


def _divided(u, v):
    """np.polydiv with the leading zeros of its remainder restored."""
    if max(np.ndim(u), np.ndim(v)) > 1:
        raise ValueError("not vectors")
    u, v = np.atleast_1d(u, v)
    q, r = np.polydiv(u, v)
    n = len(v) - 1 if len(v) <= len(u) else len(u)
    r = np.concatenate([np.zeros(max(n - len(r), 0)), r[-n:]]) if n else np.zeros(1)
    return q.astype(u.dtype), r.astype(u.dtype)


register_op(
    "polydiv",
    of_several(
        [(shapes, {}) for shapes in (((4,), (2,)), ((3,), (3,)), ((2,), (3,)), ((8,), (3,)))],
        near_one,
    ),
    reference=_divided,
    dtypes=_EXACT,
    points=[
        Point("x² − 1 by x − 1", (np.array([1.0, 0, -1]), np.array([1.0, -1])), ([1.0, 1], [0.0])),
    ],
)
register_op(
    "polyder",
    over([((4,), {}), ((4,), {"m": 2}), ((2,), {"m": 0})]),
    reference=_of_vectors(np.polyder),
    dtypes=_EXACT,
    errors=[ErrorSample("order −1", (np.ones(2),), ValueError, "must be 0 or more", {"m": -1})],
)
register_op(
    "polyint",
    over([((3,), {}), ((3,), {"m": 2, "k": (1.0, 2.0)}), ((2,), {"k": 3.0}), ((2,), {"m": 0})]),
    reference=_of_vectors(np.polyint),
    dtypes=_EXACT,
    errors=[ErrorSample("order −1", (np.ones(2),), ValueError, "must be 0 or more", {"m": -1})],
)


def _from_roots(r):
    if not r.ndim:
        raise ValueError("a number")
    return np.atleast_1d(np.poly(r)).astype(r.dtype)  # np.poly gives 1.0 without roots


register_op(
    "poly",
    over([((3,), {}), ((1,), {}), ((3, 3), {})], distinct),
    reference=_from_roots,
    dtypes=_EXACT,
)
register_op(
    "roots",
    over([((3,), {}), ((2,), {})], near_one),
    reference=lambda p: np.roots(np.atleast_1d(p)).astype(complex),  # NumPy's may be real
    dtypes=("float64",),
    points=[Point("x² − 3x + 2", (np.array([1.0, -3, 2]),), np.array([2.0 + 0j, 1.0]))],
    errors=[
        ErrorSample(
            "a leading zero",
            (np.array([0.0, 1, 2]),),
            np.linalg.LinAlgError,
            "the first coefficient is 0",
        ),
    ],
)


def _fit(x, y, deg, w=None, cov=False):
    return np.polyfit(x, y, deg, w=w, cov=cov)


register_op(
    "polyfit",
    of_several(
        [
            (((6,), (6,)), {"deg": 2}),
            (((5,), (5,)), {"deg": 0}),
            (((5,), (5, 2)), {"deg": 1, "w": np.array([1.0, 1.25, 1, 0.75, 1])}),
            (((6,), (6,)), {"deg": 1, "cov": True}),
            (((6,), (6, 2)), {"deg": 1, "cov": "unscaled"}),
        ],
        distinct,
    ),
    reference=_fit,
    dtypes=("float64",),
    skips={"K12": "LAPACK refuses infinite entries"},
    errors=[
        ErrorSample(
            "a point too few",
            (np.ones(3), np.ones(2)),
            ValueError,
            r"polyfit: needs deg ≥ 0, .* got deg=1, x \(3,\), y \(2,\)",
            {"deg": 1},
        ),
    ],
)
