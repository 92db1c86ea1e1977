"""Samples of weighted means, covariances and histograms."""

import numpy as np

from ..spec import ErrorSample, Point, Sample, register_op
from .forms import COMPLEX, REAL, normal, of_several


def _in_dtype(function):
    """The NumPy function in the dtype of its first argument."""

    def reference(x, *rest, **params):
        wide = np.result_type(x, np.float64)
        y = function(x.astype(wide), *rest, **params)
        return np.asarray(y).astype(x.dtype)

    return reference


def _positive(rng, dtype, shape):
    return rng.uniform(0.5, 1.5, shape).astype(dtype)


def _average(x, weights=None, axis=None, keepdims=False):
    from ...engine.registry import op

    return op.average(x, axis=axis, weights=weights, keepdims=keepdims)


@_in_dtype
def _average_reference(x, weights=None, axis=None, keepdims=False):
    if weights is None:  # np.average raises ZeroDivisionError where the mean is NaN or empty
        return np.mean(x, axis=axis, keepdims=keepdims)
    return np.average(x, axis=axis, weights=weights, keepdims=keepdims)


register_op(
    "average",
    of_several(
        [
            (((3, 4),), {"axis": 0, "keepdims": True}),
            (((3, 4), (3, 4)), {}),
            (((3, 4), (3, 4)), {"axis": 1, "keepdims": True}),
            (((3, 4), (4,)), {"axis": 1}),
            (((2, 3, 2), (2, 3, 2)), {"axis": (0, 2)}),
        ],
        _positive,
    ),
    call=_average,
    reference=_average_reference,
    dtypes=REAL,
    errors=[
        ErrorSample(
            "weights that do not fit",
            (np.ones((3, 4)), np.ones(3)),
            ValueError,
            r"average: weights \(3,\) must have x's shape \(3, 4\)",
        )
    ],
)

_COV = [
    (((5,),), {}),
    (((3, 5),), {}),
    (((2, 5), (2, 5)), {}),
    (((4, 3),), {"rowvar": False}),
    (((3, 5),), {"bias": True}),
    (((3, 5),), {"ddof": 2}),
]
_WEIGHTS = {"fweights": np.array([1, 2, 1]), "aweights": np.array([0.5, 1.0, 2.0])}


_COUNTS = {"fweights": np.array([1, 1, 2])}
_SHARES = {"aweights": np.array([1.0, 1.0, 2.0])}


def covariances(rng, dtype):
    """Weights with real numbers alone: the imaginary part of a complex variance is 0 except for the
    rounding of fused multiply-adds. A finite difference of that rounding is no derivative."""
    real = np.dtype(dtype).kind != "c"
    weighted = [(((2, 3),), _WEIGHTS), (((2, 3),), {"fweights": np.array([1, 1, 0])})]
    yield from of_several([*_COV, *(weighted if real else [])])(rng, dtype)


register_op(
    "cov",
    covariances,
    reference=_in_dtype(np.cov),
    dtypes=COMPLEX,
    points=[  # the mean is (1 + i)/2
        Point("complex, counted", (np.array([[2j, 0, 1]]),), 4 / 3, params=_COUNTS),
        Point("complex, weighted", (np.array([[2j, 0, 1]]),), 8 / 5, params=_SHARES),
    ],
    errors=[
        ErrorSample("three axes", (np.ones((2, 2, 2)),), ValueError, r"two axes, got shape \(2, 2"),
        ErrorSample(
            "half an observation",
            (np.ones((2, 2)),),
            TypeError,
            "fweights",
            {"fweights": np.array([1.0, 0.5])},
        ),
    ],
)
register_op(
    "corrcoef",
    of_several([(((3, 5),), {}), (((2, 5), (1, 5)), {}), (((6, 2),), {"rowvar": False})]),
    reference=_in_dtype(np.corrcoef),
    dtypes=("float64", "float32", "complex128"),
)

# -- histograms ------------------------------------------------------------------------------

VALUES = np.random.default_rng(5).standard_normal(12)


def _histogram(weights, x, **params):
    from ...engine.registry import op

    return op.histogram(x, weights=weights, **params)[0]


def _histogram_reference(weights, x, **params):
    wide = np.result_type(weights, np.float64)
    return np.histogram(x, weights=weights.astype(wide), **params)[0].astype(weights.dtype)


register_op(
    "histogram",
    of_several(
        [
            (((12,), VALUES), {}),
            (((12,), VALUES), {"bins": 5}),
            (((12,), VALUES), {"bins": [-1.0, 0.0, 0.5, 2.0]}),
            (((12,), VALUES), {"bins": 4, "range": (-1, 1)}),
            (((3, 4), VALUES.reshape(3, 4)), {"bins": 3}),
            (((12,), VALUES), {"bins": 4, "density": True}),
        ],
        lambda rng, dtype, shape: _positive(rng, dtype, shape),
    ),
    call=_histogram,
    reference=_histogram_reference,
    constants=(1,),
    dtypes=("float64", "float32", "float16", "bfloat16"),
    skips={"K12": "NumPy takes differences of running sums here, where inf gives NaN"},
    errors=[
        ErrorSample(
            "weights of another shape",
            (np.ones(3), VALUES),
            ValueError,
            r"histogram: weights \(3,\) must have the shape of x, \(12,\)",
        )
    ],
)

POINTS = np.random.default_rng(6).standard_normal((12, 2))


def _of_points(name):
    """(call, reference) of histogramdd's or histogram2d's counts of POINTS."""

    def arguments(points):
        return (points,) if name == "histogramdd" else tuple(points.T)

    def call(weights, points, **params):
        from ...engine.registry import op

        return getattr(op, name)(*arguments(points), weights=weights, **params)[0]

    def reference(weights, points, **params):
        wide = weights.astype(np.result_type(weights, np.float64))
        return getattr(np, name)(*arguments(points), weights=wide, **params)[0].astype(
            weights.dtype
        )

    return call, reference


for _name in ("histogramdd", "histogram2d"):
    _call, _reference = _of_points(_name)
    register_op(
        _name,
        of_several(
            [
                (((12,), POINTS), {"bins": 3}),
                (((12,), POINTS), {"bins": [[-1.0, 0.0, 0.5, 2.0], [-2.0, 0.1, 2.0]]}),
                (((12,), POINTS), {"bins": (2, 4), "range": ((-1, 1), (-2, 1)), "density": True}),
            ],
            lambda rng, dtype, shape: _positive(rng, dtype, shape),
        ),
        call=_call,
        reference=_reference,
        constants=(1,),
        dtypes=("float64", "float32", "float16", "bfloat16"),
        skips={"K17": "without points NumPy takes weights of any length"}
        if _name == "histogramdd"
        else {},
        errors=[
            ErrorSample(
                "weights of another shape",
                (np.ones(3), POINTS),
                ValueError,
                r"weights \(3,\) must have a number for each of the 12 points",
            )
        ],
    )


def _bin_samples(rng, dtype):
    yield Sample("five bins", (normal(rng, dtype, (7,)), rng.integers(0, 4, 7)), {"bins": 5})
    yield Sample("no weights", (normal(rng, dtype, (0,)), np.zeros(0, int)), {"bins": 2})


def _bin_sums(weights, index, bins):
    return (weights.astype(weights.dtype)[:, None] * (index[:, None] == np.arange(bins))).sum(0)


register_op(
    "bin_sums",
    _bin_samples,
    reference=_bin_sums,
    dtypes=("float64", "float32", "float16", "bfloat16", "complex128"),
    skips={
        "K12": "the reference multiplies by zeros, which turns inf into NaN",
        "K17": "there is an index for each weight",
    },
)


def _bincount_samples(rng, dtype):
    index = rng.integers(0, 5, 9)
    yield Sample("weights", (normal(rng, dtype, (9,)), index), {"minlength": 6})
    yield Sample("as many bins as it takes", (normal(rng, dtype, (3,)), np.array([2, 0, 1])))


def _bincount(weights, x, minlength=0):
    from ...engine.registry import op

    return op.bincount(x, weights, minlength)


register_op(
    "bincount",
    _bincount_samples,
    call=_bincount,
    reference=lambda weights, x, minlength=0: np.bincount(x, weights, minlength).astype(
        weights.dtype
    ),
    dtypes=("float64", "float32", "float16", "bfloat16"),
    skips={"K17": "NumPy takes weights of any length for no x"},
    errors=[
        ErrorSample(
            "weights of another shape",
            (np.ones(2), np.array([0, 1, 2])),
            ValueError,
            r"bincount: weights \(2,\) must have the shape of x \(3,\)",
        )
    ],
)
