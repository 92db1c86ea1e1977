"""Samples of running extrema."""

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .forms import REAL, distinct, over


def _places(x, axis, smallest=False):
    """Element by element along the axis."""
    if x.ndim == 0:
        raise ValueError("no axis")
    x = np.moveaxis(x, axis, 0)
    places = np.zeros(x.shape, np.int64)
    for k in range(1, len(x)):
        before = np.take_along_axis(x, places[k - 1 : k], 0)[0]
        kept = (before < x[k]) if smallest else (before > x[k])
        kept = (kept | np.isnan(before)) & ~np.isnan(x[k])
        places[k] = np.where(kept, places[k - 1], k)
    return np.moveaxis(places, 0, axis)


def _running(smallest):
    def reference(x, axis):
        places = _places(x, axis, smallest)
        return np.take_along_axis(x, places, axis), places

    return reference


FORMS = [((5,), {"axis": 0}), ((2, 3), {"axis": 1}), ((3, 2, 2), {"axis": -3}), ((1,), {"axis": 0})]
NUMBER = ErrorSample("a number", (np.float64(1),), ValueError, "must have an axis", {"axis": 0})
TIED = np.array([1.0, 3.0, 3.0, 2.0, np.nan, 5.0])

register_op(
    "cummax",
    over(FORMS, distinct),
    reference=_running(False),
    dtypes=REAL,
    errors=[NUMBER],
    points=[
        Point("the last of equals; NaN stays", (TIED,),
              (np.array([1.0, 3.0, 3.0, 3.0, np.nan, np.nan]), np.array([0, 1, 2, 2, 4, 4])),
              (np.array([1.0, 1.0, 2.0, 0.0, 2.0, 0.0]),), {"axis": 0}),
    ],
)  # fmt: skip
register_op("cummin", over(FORMS, distinct), reference=_running(True), dtypes=REAL, errors=[NUMBER])
register_op(
    "running_argmax",
    over([*FORMS, *[(shape, {**axis, "smallest": True}) for shape, axis in FORMS]], distinct),
    reference=_places,
    dtypes=REAL,
    differentiable=False,
)
