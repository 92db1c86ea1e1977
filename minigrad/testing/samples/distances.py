"""Samples of distances of vectors."""

import numpy as np

from ..spec import ErrorSample, Point, Sample, register_op
from .forms import REAL, distinct, over

_EXACT = ("float64", "float32")


def _of_differences(a, b, p=2.0):
    if a.shape[-1] != b.shape[-1]:
        raise ValueError("rows of two lengths")
    return np.linalg.vector_norm(a[..., :, None, :] - b[..., None, :, :], axis=-1, ord=p)


def _apart(*forms):
    """Two arrays whose entries differ from each other by at least 0.12.

    At equal entries |a − b|ᵖ has a kink, in its third derivative if p is 3.
    """

    def samples(rng, dtype):
        for i, (shapes, params) in enumerate(forms):
            args = []
            for shape, fraction in zip(shapes, (0.2, 0.65), strict=True):
                n = int(np.prod(shape))
                steps = rng.permutation(n) - n // 2 + rng.uniform(fraction, fraction + 0.15, n)
                args.append((0.4 * steps.reshape(shape)).astype(dtype))
            yield Sample(f"{i}: {shapes} {params}", tuple(args), params)

    return samples


def _between_rows(a, b, p=2.0):
    """Each pair of rows by itself; p = 0 counts the entries that differ."""
    if min(a.ndim, b.ndim) < 2 or a.shape[-1] != b.shape[-1]:
        raise ValueError("not rows of one length")
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
    y = np.zeros((*lead, a.shape[-2], b.shape[-2]), np.result_type(a, b).type(0).real.dtype)
    for *i, j, k in np.ndindex(*y.shape):
        y[(*i, j, k)] = np.linalg.norm(a[(*i, j)] - b[(*i, k)], p) if a.shape[-1] else 0
    return y


def _pairs_of_rows(x, p=2.0):
    if x.ndim != 2:
        raise ValueError("not rows")
    y = _between_rows(x, x, p)
    return np.array([y[i, j] for i in range(len(x)) for j in range(i + 1, len(x))], y.dtype)


register_op(
    "dist",
    _apart((((2, 3), (2, 3)), {}), (((3,), (2, 3)), {"p": 3.0})),
    reference=lambda a, b, p=2.0: (np.abs(a - b) ** p).sum() ** (1 / p),
    dtypes=_EXACT,
    points=[Point("equal", (np.ones(2), np.ones(2)), 0.0, ([0.0, 0.0], [0.0, 0.0]))],
)
register_op(
    "cdist",
    _apart((((2, 3), (4, 3)), {}), (((2, 2, 3), (1, 3)), {"p": 3.0})),
    reference=_between_rows,
    dtypes=_EXACT,
    skips={"K19": "each row's distance from itself is 0, a kink"},
    points=[Point("equal", (np.ones((1, 2)), np.ones((1, 2))), [[0.0]], ([[0.0, 0.0]],) * 2)],
    errors=[
        ErrorSample(
            "rows of two lengths",
            (np.ones((2, 3)), np.ones((2, 4))),
            ValueError,
            r"cdist: a .* and b .* need rows of one length, got \(2, 3\), \(2, 4\)",
        )
    ],
)
register_op(
    "pdist",
    over([((4, 3), {}), ((3, 2), {"p": 3.0})], distinct),
    reference=_pairs_of_rows,
    dtypes=_EXACT,
    errors=[ErrorSample("a vector", (np.ones(3),), ValueError, r"pdist: x must be rows \(n, d\)")],
)


def _some_near(rng, dtype):
    """Many rows with a few near pairs: products leave no digit of their distances."""
    a, b = (rng.standard_normal((48, 9)) for _ in range(2))
    b[:3] = a[5:8] + 1e-7 * rng.standard_normal((3, 9))
    yield Sample("a few pairs near", (a.astype(dtype), b.astype(dtype)))


register_op(
    "row_distances",
    _apart(
        (((2, 3), (4, 3)), {}),
        (((2, 2, 9), (3, 1, 3, 9)), {}),
        (((2, 3), (3, 3)), {"p": 1}),
        (((2, 1, 3), (2, 4, 3)), {"p": 3.0}),
        (((2, 3), (3, 3)), {"p": 1.5}),
    ),
    reference=_of_differences,
    dtypes=REAL,
    large=_some_near,
    skips={"K19": "each row's distance from itself is 0, a kink"},
    points=[
        Point("equal", (np.ones((1, 2)), np.ones((1, 2))), [[0.0]], ([[0.0, 0.0]],) * 2, kink=True),
        Point(
            "nearly equal",
            (np.array([[1e8 + 4, 1e8]]), np.array([[1e8, 1e8]])),
            [[4.0]],
            ([[1.0, 0.0]], [[-1.0, 0.0]]),
        ),
    ],
)
