"""Samples of the reductions: every form of axis and keepdims, hard points, errors."""

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .forms import (
    COMPLEX,
    REAL,
    distinct,
    distinct_sizes,
    in_both_orders,
    near_one,
    of_several,
    over,
    together,
)
from .ties import ROWS, in_long_rows

INF = np.inf

AXES = [
    ((5,), {}),
    ((), {}),
    ((3, 4), {"axis": 0}),
    ((3, 4), {"axis": -1, "keepdims": True}),
    ((2, 3, 4), {"axis": (0, 2)}),
    ((2, 3, 2), {"axis": (-1, 0), "keepdims": True}),
    ((2, 1, 3), {"axis": None, "keepdims": True}),
    ((2, 1, 3), {"axis": 1}),
    ((0, 3), {"axis": 1}),
    ((3, 2), {"axis": ()}),
]
ONE_AXIS = [
    ((5,), {}),
    ((), {}),
    ((3, 4), {"axis": 0}),
    ((3, 4), {"axis": -1}),
    ((2, 3, 2), {"axis": 1}),
    ((3, 4), {"axis": None}),
    ((0, 3), {"axis": 1}),
]


def along(name, axis=0):
    """Error samples of any op with an axis."""
    return ErrorSample(
        f"axis {axis} of a vector",
        (np.ones(3),),
        np.exceptions.AxisError,
        f"{name}.*float64 \\(3,\\).*axis 5 is out of bounds",
        {"axis": 5},
    )


# -- sums ------------------------------------------------------------------------------------

CHANNELS = ((8, 24, 12, 13), (8, 200, 12, 13))  # images with few and many channels
register_op(
    "sum",
    over([*AXES, ((0,), {}), ((3, 2), {"axis": 0, "dtype": np.float64})]),
    reference=np.sum,
    dtypes=COMPLEX,
    errors=[along("sum")],
    large=together(
        over([((3000, 24), {"axis": 0, "keepdims": True}), ((9000, 8), {"axis": -1})]),
        in_both_orders([((shape,), {"axis": (0, 2, 3)}) for shape in CHANNELS]),
    ),
    points=[Point("empty", (np.zeros((0, 2)),), 0.0, (np.zeros((0, 2)),))],
)
register_op(
    "mean",
    over(AXES),
    reference=np.mean,
    dtypes=COMPLEX,
    errors=[along("mean")],
    large=over([((9000, 8), {"axis": -1, "keepdims": True})]),
)
for _name, _reference in (("any", np.any), ("all", np.all), ("count_nonzero", np.count_nonzero)):
    register_op(
        _name,
        over([form for form in AXES if form[1].get("axis") != ()]),
        reference=_reference,
        differentiable=False,
        points=[Point("zeros and NaN", (np.array([0.0, np.nan, -0.0]),), _reference([0, 1, 0]))],
    )

# -- spread ----------------------------------------------------------------------------------

_SPREAD = [
    ((5,), {}),
    ((3, 4), {"axis": 0}),
    ((3, 4), {"axis": -1, "keepdims": True, "ddof": 1}),
    ((2, 3, 4), {"axis": (0, 2)}),
    ((2, 3, 2), {"correction": 1}),
    ((3, 4), {"axis": 1, "ddof": 1.5}),
]
register_op(
    "var",
    over(_SPREAD),
    reference=np.var,
    dtypes=COMPLEX,
    errors=[along("var")],
    large=over([((9000, 8), {"axis": -1, "ddof": 2})]),
    points=[Point("constant", (np.full(3, 0.5),), 0.0, (np.zeros(3),))],
)
register_op(
    "std",
    over(_SPREAD),
    reference=np.std,
    dtypes=COMPLEX,
    errors=[along("std")],
    large=over([((9000, 8), {"axis": -1, "ddof": 2, "keepdims": True})]),
    points=[
        Point("squares vanish", (np.array([1e-200, 3e-200]),), 1e-200, ([-0.5, 0.5],)),
        Point("squares overflow", (np.array([1e200, 3e200]),), 1e200, ([-0.5, 0.5],)),
        Point("constant", (np.full(3, 0.1),), 0.0, (np.zeros(3),), kink=True),
        Point("one row constant", (np.array([[0.1] * 3, [1, 2, 3.0]]),), params={"axis": 1}),
    ],
)


def _p_norm(x, axis=None, keepdims=False, p=2):
    return np.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=p)


_ZERO = Point("zero vector", (np.zeros(3),), 0.0, (np.zeros(3),), kink=True)
register_op(
    "p_norm",
    over(
        [
            *[form for form in AXES if form[0] in ((5,), (3, 4), (2, 3, 4))],
            ((3, 4), {"axis": 1, "p": 3}),
            ((4,), {"p": 1.5}),
            ((4,), {"p": -1}),
            ((2, 3), {"p": 4, "keepdims": True}),
        ],
        near_one,
    ),
    reference=_p_norm,
    dtypes=COMPLEX,
    points=[
        _ZERO,
        Point("a zero entry", (np.array([3.0, 0.0, 4.0]),), 5.0, ([0.6, 0.0, 0.8],)),
        Point("squares vanish", (np.array([3e-200, 4e-200]),), 5e-200, ([0.6, 0.8],)),
        Point("squares overflow", (np.array([3e200, 4e200]),), 5e200, ([0.6, 0.8],)),
        Point("p=3, a zero entry", (np.array([0.0, -2.0]),), 2.0, ([0.0, -1.0],), {"p": 3}),
    ],
)
register_op(
    "vector_norm",
    over(
        [
            ((5,), {}),
            ((3, 4), {"axis": 0, "ord": 1}),
            ((3, 4), {"axis": 1, "ord": INF, "keepdims": True}),
            ((3, 4), {"axis": 1, "ord": -INF, "keepdims": True}),
            ((2, 3, 4), {"axis": (0, 2), "ord": 3, "keepdims": True}),
            ((3, 4), {}),
        ],
        distinct_sizes,
    ),
    reference=np.linalg.vector_norm,
    points=[
        _ZERO,
        Point("inf, ties", (np.array([2.0, -2.0, 1.0]),), 2.0, ([0.5, -0.5, 0.0],), {"ord": INF}),
        Point("ord 1 at 0", (np.array([0.0, -3.0]),), 3.0, ([0.0, -1.0],), {"ord": 1}, kink=True),
        Point("ord 0", (np.array([0.0, -3.0]),), 1.0, ([0.0, 0.0],), {"ord": 0}),
    ],
)
register_op(
    "norm",
    over(
        [
            ((5,), {}),
            ((3, 4), {}),
            ((3, 4), {"ord": "fro"}),
            ((2, 3, 4), {"axis": (1, 2), "keepdims": True}),
            ((3, 4), {"axis": 0, "ord": 1}),
            ((3, 4), {"axis": -1, "ord": INF, "keepdims": True}),
            ((2, 3, 4), {"axis": (2, 0), "ord": 1, "keepdims": True}),
            ((2, 3, 4), {}),
        ],
        distinct_sizes,
    ),
    reference=np.linalg.norm,
    points=[_ZERO],
    errors=[
        ErrorSample("three axes", (np.ones((2, 2, 2)),), ValueError, "3 axes", {"ord": 2}),
        ErrorSample("fro of a vector", (np.ones(3),), ValueError, "two axes", {"ord": "fro"}),
    ],
)

# -- extrema ---------------------------------------------------------------------------------

_NO_ELEMENTS = ErrorSample("no elements", (np.zeros((0, 3)),), ValueError, "zero-size", {"axis": 0})
_EXTREMUM_AXES = [form for form in AXES if form[1].get("axis") != ()]


def _ties(value):
    x = np.array([[2.0, value, value], [1.0, 0.5, 0.7]])
    return Point("ties in a row", (x,), None, ([[0, 0.5, 0.5], [0, 0, 0]],), {"axis": None})


def _nearly_equal(sign):
    """Many numbers that differ by 1e-9 and do not tie: the first is the extremum alone."""
    x = sign * (1 - 1e-9 * np.arange(600))
    return Point("nearly equal numbers", (x,), sign, (np.arange(600) == 0,))


for _name, _reference in (("max", np.max), ("amax", np.amax)):
    register_op(
        _name,
        over(_EXTREMUM_AXES, distinct),
        reference=_reference,
        dtypes=REAL,
        errors=[_NO_ELEMENTS, along("max")],
        points=[
            _ties(3.0),
            _nearly_equal(1.0),
            in_long_rows(ROWS.max(-1), axis=-1),
            Point("all tied", (np.ones(4),), 1.0, (np.full(4, 0.25),), kink=True),
            Point("NaN", (np.array([1.0, np.nan, 2.0]),), np.nan, ([0.0, 1.0, 0.0],)),
            Point("all −inf", (np.full(2, -INF),), -INF, ([0.5, 0.5],)),
        ],
    )
for _name, _reference in (("min", np.min), ("amin", np.amin)):
    register_op(
        _name,
        over(_EXTREMUM_AXES, distinct),
        reference=_reference,
        dtypes=REAL,
        errors=[_NO_ELEMENTS, along("min")],
        points=[
            _ties(-3.0),
            _nearly_equal(-1.0),
            in_long_rows(ROWS.min(-1), axis=-1),
            Point("all tied", (np.ones(4),), 1.0, (np.full(4, 0.25),), kink=True),
            Point("NaN", (np.array([1.0, np.nan, 2.0]),), np.nan, ([0.0, 1.0, 0.0],)),
        ],
    )
register_op(
    "ptp",
    over([((5,), {}), ((3, 4), {"axis": 0}), ((3, 4), {"axis": -1, "keepdims": True})], distinct),
    reference=np.ptp,
    nan_hidden="the NaN is the maximum and the minimum, whose derivatives cancel",
)
for _name, _reference in (("argmax", np.argmax), ("argmin", np.argmin)):
    register_op(
        _name,
        over(
            [((5,), {}), ((3, 4), {"axis": 0}), ((3, 4), {"axis": -1, "keepdims": True})], distinct
        ),
        reference=_reference,
        differentiable=False,
        dtypes=REAL,
        points=[Point("first of ties", (np.array([1.0, 1.0]),), 0)],
        errors=[ErrorSample("no elements", (np.zeros(0),), ValueError, "empty sequence")],
    )

# -- products and running forms --------------------------------------------------------------

_ONE_ZERO, _TWO_ZEROS = np.array([2.0, 0.0, 3.0]), np.array([0.0, 2.0, 0.0])
_VANISHING = np.array([1e-200, 3e-121])  # their product has two digits
register_op(
    "prod",
    over(AXES, near_one),
    reference=np.prod,
    dtypes=COMPLEX,
    errors=[along("prod")],
    points=[
        Point("one zero", (_ONE_ZERO,), 0.0, ([0.0, 6.0, 0.0],)),
        Point("two zeros", (_TWO_ZEROS,), 0.0, ([0.0, 0.0, 0.0],)),
        Point("subnormal", (_VANISHING,), np.prod(_VANISHING), (_VANISHING[::-1],)),
        Point("empty", (np.zeros(0),), 1.0, (np.zeros(0),)),
    ],
    large=over([((5000,), {}), ((9000, 8), {"axis": -1}), ((8, 9000), {"axis": 0})], near_one),
)
register_op("cumsum", over(ONE_AXIS), reference=np.cumsum, dtypes=COMPLEX, errors=[along("cumsum")])
register_op(
    "cumprod",
    over(ONE_AXIS, near_one),
    reference=np.cumprod,
    dtypes=COMPLEX,
    errors=[along("cumprod")],
    points=[
        Point("one zero", (_ONE_ZERO,), [2.0, 0.0, 0.0], ([1.0, 2 + 6.0, 0.0],)),
        Point("two zeros", (_TWO_ZEROS,), [0.0, 0.0, 0.0], ([1 + 2.0, 0.0, 0.0],)),
    ],
)
_RUNNING = [((5,), {}), ((3, 4), {"axis": 0}), ((3, 4), {"axis": 1, "include_initial": True})]
register_op("cumulative_sum", over(_RUNNING), reference=getattr(np, "cumulative_sum", None))
register_op(
    "cumulative_prod", over(_RUNNING, near_one), reference=getattr(np, "cumulative_prod", None)
)


def _recurrence(a, b, axis=-1, reverse=False):
    if a.shape != b.shape:
        raise ValueError("shapes differ")
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    y, last = np.empty_like(b), 0
    for k in range(len(b))[:: -1 if reverse else 1]:
        y[k] = last = a[k] * last + b[k]
    return np.moveaxis(y, 0, axis)


register_op(
    "linear_recurrence",
    of_several(
        [
            (((5,), (5,)), {}),
            (((7, 2), (7, 2)), {"axis": 0}),
            (((2, 3), (2, 3)), {"reverse": True}),
            (((1,), (1,)), {}),
            (((0,), (0,)), {}),
        ],
        near_one,
    ),
    reference=_recurrence,
    dtypes=("float64", "float32", "float16", "complex128"),
    errors=[ErrorSample("shapes", (np.ones(2), np.ones(3)), ValueError, "need one shape")],
)
