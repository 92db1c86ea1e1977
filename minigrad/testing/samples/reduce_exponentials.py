"""Samples of minigrad/ops/reduce/exponentials.py."""

from itertools import product

import numpy as np

from ..spec import ErrorSample, Point, Sample, register_op
from .forms import COMPLEX, REAL, over
from .reduce import AXES, INF, ONE_AXIS, along


def _logsumexp(x, axis=None, keepdims=False):
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


def _logsumexp_samples(rng, dtype):
    """For one complex element e/e is 1 except for rounding, and so its second derivative is not
    0."""
    one = ((), {}), ((2, 1, 3), {"axis": 1}), ((3, 2), {"axis": ()})
    return over([form for form in AXES if dtype.kind != "c" or form not in one])(rng, dtype)


_MASKED = np.full(3, -INF)
register_op(
    "logsumexp",
    _logsumexp_samples,
    reference=_logsumexp,
    dtypes=COMPLEX,
    errors=[along("logsumexp")],
    points=[
        Point("all −inf", (_MASKED,), -INF, (np.zeros(3),)),
        Point("huge", (np.array([1000.0, 1000.0]),), 1000 + np.log(2), ([0.5, 0.5],)),
        Point("a masked entry", (np.array([0.0, -INF]),), 0.0, ([1.0, 0.0],)),
    ],
)


def _weighted_sum(a, b, axis, keepdims):
    wide = np.result_type(a, np.float64)
    return np.sum(b * np.exp(a.astype(wide)), axis=axis, keepdims=keepdims)


def _weighted(a, b, axis=None, keepdims=False, signed=False):
    if a.shape != b.shape:
        raise ValueError("shapes")
    total = _weighted_sum(a, b, axis, keepdims)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.abs(total) if signed else total)).astype(a.dtype)


def _weighted_sign(a, b, axis=None, keepdims=False):
    return np.asarray(np.sign(_weighted_sum(a, b, axis, keepdims))).astype(a.dtype)


def _weighted_samples(*signed):
    """Positive weights; or, of each three, two large below 0 and a small one above.

    The logarithm of the sum has a pole where the sum is 0, so no sum is nearer to it than 0.2. With
    e^±0.2 the small terms lie between 0.2 and 0.4, the others beyond 0.8.
    """

    def samples(rng, dtype):
        for (shape, params), below in product(AXES, (False, True)):
            a, b = rng.uniform(-1, 1, shape), rng.uniform(0.5, 2, shape)
            if below:
                small = np.arange(b.size).reshape(shape) % 3 == 1
                a, b = 0.2 * a, np.where(small, 0.25 + 0.04 * b, -0.75 - 0.5 * b)
            how = dict.fromkeys(signed, below)
            args = np.asarray(a).astype(dtype), np.asarray(b).astype(dtype)
            yield Sample(f"{shape} {params} {below}", args, {**params, **how})

    return samples


register_op(
    "weighted_logsumexp",
    _weighted_samples("signed"),
    reference=_weighted,
    tails="the second derivative p − p² is a difference where one share is nearly all",
    dtypes=REAL,
    errors=[
        ErrorSample("shapes", (np.ones(2), np.ones(3)), ValueError, "must have one shape"),
        ErrorSample(
            "axis 5 of a vector", (np.ones(3), np.ones(3)), np.exceptions.AxisError,
            "weighted_logsumexp.*axis 5 is out of bounds", {"axis": 5},
        ),
    ],
    points=[
        Point("all −inf", (_MASKED, np.ones(3)), -INF, (np.zeros(3), np.zeros(3))),
        Point("no weights", (np.zeros(2), np.zeros(2)), -INF, (np.zeros(2), np.full(2, INF))),
        Point("a huge one left out", (np.array([1e4, 0.0]), np.array([0.0, 2.0])), np.log(2)),
        Point("a weight of 0", (np.array([1.0, 0.0]), np.array([0.0, 2.0])), np.log(2),
              (np.array([0.0, 1.0]), np.array([np.e / 2, 0.5]))),
    ],
)  # fmt: skip
register_op(
    "weighted_sign",
    _weighted_samples(),
    reference=_weighted_sign,
    dtypes=REAL,
    differentiable=False,
)


def _logcumsumexp(x, axis=-1):
    if axis is None:
        x, axis = x.reshape(-1), 0
    with np.errstate(divide="ignore"):
        return np.log(np.cumsum(np.exp(x), axis=axis))


register_op(
    "logcumsumexp",
    over([form for form in ONE_AXIS if form[0] != ()]),
    tails="a recurrence with both signs sums the change of running shares",
    reference=_logcumsumexp,
    dtypes=COMPLEX,
    points=[
        Point("all −inf", (_MASKED,), _MASKED, (np.zeros(3),)),
        Point("masked first", (np.array([-INF, 0.0]),), [-INF, 0.0], ([0.0, 1.0],)),
    ],
)
