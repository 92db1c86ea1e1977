"""Samples of minigrad/ops/reduce/order.py: median, quantile, percentile."""

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .forms import distinct, over
from .ties import ROWS, in_long_rows, shares


def _order_statistics(x, ranks=(0,)):
    chosen = np.moveaxis(np.sort(x, axis=-1)[..., list(ranks)], -1, 0)
    return np.where(np.isnan(x).any(axis=-1), np.nan, chosen).astype(x.dtype)


register_op(
    "order_statistics",
    over([((5,), {}), ((3, 4), {"ranks": (2, 0)}), ((2, 3, 4), {"ranks": (3,)})], distinct),
    reference=_order_statistics,
    dtypes=("float64", "float32", "float16"),
    points=[
        Point("ties", (np.array([1.0, 1, 2]),), [1.0], ([0.5, 0.5, 0],), kink=True),
        Point(
            "ties in long rows",
            (ROWS,),
            np.sort(ROWS)[None, :, 700],
            (shares(np.sort(ROWS)[:, 700]),),
            {"ranks": (700,)},
        ),
    ],
    errors=[ErrorSample("no elements", (np.zeros((2, 0)),), ValueError, "no elements")],
)
register_op(
    "median",
    over(
        [
            ((5,), {}),
            ((4,), {}),
            ((3, 4), {"axis": 0}),
            ((2, 3, 4), {"axis": (0, 2), "keepdims": True}),
        ],
        distinct,
    ),
    reference=np.median,
    points=[
        Point("even count", (np.array([4.0, 1.0, 3.0, 2.0]),), 2.5, ([0, 0, 0.5, 0.5],)),
        Point("odd count", (np.array([4.0, 1.0, 3.0]),), 3.0, ([0.0, 0.0, 1.0],)),
        Point("ties share", (np.array([1.0, 1.0, 2.0]),), 1.0, ([0.5, 0.5, 0.0],)),
        in_long_rows(np.median(ROWS, -1), axis=-1),
        Point("NaN", (np.array([1.0, np.nan, 2.0]),), np.nan, ([0.0, 1.0, 0.0],)),
    ],
)
# sorted values have cumulative weights of 1, 1.5, …: no sum equals the requested share, so no kink
WEIGHTED = {"weights": np.array([1.0, 0.5, 2.0, 0.75, 1.25]), "method": "inverted_cdf"}
_QUANTILES = [
    ((5,), {"q": 0.3}),
    ((4, 3), {"q": [0.1, 0.5, 0.99], "axis": 0}),
    ((2, 3, 4), {"q": [[0.2], [0.7]], "axis": (0, 2), "keepdims": True}),
    *[((7,), {"q": 0.37, "method": m}) for m in ("lower", "higher", "nearest", "midpoint")],
    *[((7,), {"q": 0.37, "method": m}) for m in ("hazen", "weibull", "median_unbiased")],
    *[((7,), {"q": 0.37, "method": m}) for m in ("normal_unbiased", "interpolated_inverted_cdf")],
    *[((7,), {"q": 0.37, "method": m}) for m in ("averaged_inverted_cdf", "closest_observation")],
    ((8,), {"q": 0.375, "method": "averaged_inverted_cdf"}),
    ((5,), {"q": 0.5, "method": "closest_observation"}),
    ((6,), {"q": [0.0, 0.3, 1.0]}),
    ((5,), {"q": [0.21, 0.63], **WEIGHTED}),
]


def _of_q(method, slope):
    """The gradient to a q of rank 1.5: the difference of the elements 2 and 4, times the rank's."""
    args = np.array([8.0, 2.0, 1.0, 4.0]), np.array([0.5])
    grads = [0.0, 0.5, 0.0, 0.5], [2.0 * slope]
    return Point(f"between two, {method}", args, [3.0], grads, {"method": method})


def _nan_among(share, q, **options):
    """A NaN at any position makes every quantile NaN, also those below its position."""
    return Point(
        f"NaN, {options.get('method', 'linear')}",
        (np.array([1.0, np.nan, 2.0]),),
        np.nan,
        ([0.0, share, 0.0],),
        {"q": q, **options},
    )


_UNEQUAL = {"weights": np.array([1.0, 0.5, 2.0]), "method": "inverted_cdf"}
_NEXT_TO_INF = "next to an infinity NumPy's interpolation gives NaN (inf − inf), ours infinity"
register_op(
    "quantile",
    over(_QUANTILES, distinct),
    reference=np.quantile,
    points=[
        _of_q("linear", 3),
        _of_q("weibull", 5),
        _nan_among(1.0, 0.2),
        _nan_among(1.0, 0.2, method="lower"),
        _nan_among(0.0, 0.2, **_UNEQUAL),
    ],
    skips={"K12": _NEXT_TO_INF},
    errors=[
        ErrorSample("q > 1", (np.ones(3), 1.5), ValueError, "between 0 and 1, got 1.5"),
        ErrorSample("one q < 0", (np.ones(3), [0.5, -1.0]), ValueError, "between 0 and 1, got"),
        ErrorSample("method", (np.ones(3), 0.5), ValueError, "not one of", {"method": "best"}),
    ],
)
register_op(
    "percentile",
    over(
        [
            ((5,), {"q": 30}),
            ((4, 3), {"q": [10, 50], "axis": 0}),
            ((4, 3), {"q": 40, "axis": -1, "keepdims": True, "method": "midpoint"}),
            ((5,), {"q": [21, 63], **WEIGHTED}),
        ],
        distinct,
    ),
    reference=np.percentile,
    points=[_nan_among(1.0, 20), _nan_among(0.0, 20, **_UNEQUAL)],
    skips={"K12": _NEXT_TO_INF},
)
