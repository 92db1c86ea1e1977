"""Samples of fractional max-pooling, with given random numbers for the positions of windows."""

import itertools

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .forms import REAL, distinct, over

_draws = np.random.default_rng(7)


def _starts(n, k, m, u):
    """Where the windows of one axis begin, one by one."""
    if m == 1:
        return [n - k]
    step = (n - k) / (m - 1)
    return [int((i + u) * step) - int(u * step) for i in range(m - 1)] + [n - k]


def _reference(dims):
    def pool(x, kernel_size, output_size, _random_samples):
        kernel, out = (np.broadcast_to(v, dims) for v in (kernel_size, output_size))
        lead, size = x.shape[: x.ndim - dims], x.shape[x.ndim - dims :]
        if _random_samples.shape != (*lead, dims) or any(
            m + k - 1 > n for n, k, m in zip(size, kernel, out, strict=True)
        ):
            raise ValueError("shapes")
        y = np.empty((*lead, *out), x.dtype)
        for plane in np.ndindex(*lead):
            u = _random_samples[plane][::-1] if dims == 2 else _random_samples[plane]
            starts = [_starts(*each) for each in zip(size, kernel, out, u, strict=True)]
            for place, first in zip(np.ndindex(*out), itertools.product(*starts), strict=True):
                window = tuple(slice(i, i + k) for i, k in zip(first, kernel, strict=True))
                y[(*plane, *place)] = x[plane][window].max()
        return y

    return pool


def _form(shape, dims, kernel, out):
    lead = shape[: len(shape) - dims]
    numbers = _draws.random((*lead, dims))
    return shape, {"kernel_size": kernel, "output_size": out, "_random_samples": numbers}


FORMS = {
    2: [
        _form((2, 5, 6), 2, 2, (3, 4)),
        _form((1, 2, 4, 5), 2, (2, 1), 3),
        _form((4, 3), 2, (3, 2), (1, 2)),
    ],
    3: [_form((1, 4, 3, 5), 3, 2, 2), _form((3, 4, 3), 3, (1, 2, 2), (2, 3, 1))],
}
_FIXED = {"_random_samples": np.zeros(2)}

for _dims in (2, 3):
    register_op(
        f"fractional_max_pool{_dims}d",
        over(FORMS[_dims], distinct),
        reference=_reference(_dims),
        dtypes=REAL,
        points=[
            Point("ties share", (np.zeros((1, 2, 2)),), np.zeros((1, 1, 1)),
                  (np.full((1, 2, 2), 0.25),), {"kernel_size": 2, "output_size": 1}, kink=True),
            Point("a share of the places along each axis", (np.arange(6.0).reshape(1, 2, 3),),
                  [[[4.0, 5.0]]], ([[[0, 0, 0], [0, 1, 1]]],),
                  {"kernel_size": 2, "output_ratio": (0.5, 0.7)}),
        ] if _dims == 2 else [],
        errors=[
            ErrorSample("no room", (np.ones((3, 3)),), ValueError, r"have no room in x \(3, 3\)",
                        {"kernel_size": 2, "output_size": 3}),
            ErrorSample("two sizes", (np.ones((3, 3)),), ValueError, "either output_size",
                        {"kernel_size": 2, "output_size": 2, "output_ratio": 0.5}),
            ErrorSample("no size", (np.ones((3, 3)),), ValueError, "either output_size",
                        {"kernel_size": 2}),
            ErrorSample("a ratio of 1", (np.ones((3, 3)),), ValueError, "between 0 and 1",
                        {"kernel_size": 2, "output_ratio": 1.0}),
            ErrorSample("nothing left", (np.ones((3, 3)),), ValueError, "leaves no window",
                        {"kernel_size": 2, "output_ratio": 0.1}),
            ErrorSample("a number for each axis only", (np.ones((2, 3, 3)),), ValueError,
                        r"_random_samples must hold .* \(2, 2\) for x \(2, 3, 3\)",
                        {"kernel_size": 2, "output_size": 2, **_FIXED}),
        ] if _dims == 2 else [],
    )  # fmt: skip
