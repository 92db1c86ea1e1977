"""Samples of values that go to the same position and are combined there."""

import numpy as np

from ...spec import ErrorSample, Point, register_op
from ..forms import distinct, near_one, of_several

_KEPT = {"K17": "the positions fit one shape only"}
_NOT_MOVED = _KEPT | {"K26": "the positions fit one shape only"}
_I = np.array([2, 0])
_WHERE = np.array([[0, 2, 0], [2, 1, 2]])


def _scattered(x, axis, index, src, reduce, include_self=True):
    lists = {place: [x[place]] if include_self else [] for place in np.ndindex(*x.shape)}
    for place in np.ndindex(*index.shape):
        goal = tuple(index[place] if i == axis % x.ndim else n for i, n in enumerate(place))
        lists[goal].append(src[place])
    function = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "amax": np.max, "amin": np.min}
    y = x.copy()
    for place, values in lists.items():
        y[place] = function[reduce](np.array(values, float)) if values else x[place]
    return y


register_op(
    "scatter_reduce",
    of_several(
        [
            (((3, 3), 0, _WHERE, (2, 3)), {"reduce": name, "include_self": own})
            for name in ("sum", "mean", "prod", "amax", "amin")
            for own in (True, False)
        ]
        + [(((2, 4), -1, _WHERE, (2, 5), "amax"), {})],
        distinct,
    ),
    reference=_scattered,
    dtypes=("float64", "float32"),
    skips=_KEPT,
    points=[
        Point(
            "a tie",
            (np.zeros(1), 0, np.array([0, 0]), np.array([2.0, 2.0]), "amax"),
            [2.0],
            ([0.0], None, None, [0.5, 0.5], None),
        ),
        Point(
            "nothing but −∞",
            (np.full(1, -np.inf), 0, np.array([0, 0]), np.full(2, -np.inf), "amax"),
            [-np.inf],
            ([1 / 3], None, None, [1 / 3, 1 / 3], None),
        ),
        *[
            Point(
                f"{name} of {x.dtype}",
                (x, 0, np.array([0, 0, 1]), x[[0, 1, 0]], name),
                x[[first, 0]],
                params={"include_self": False},
            )
            for name, x, first in (
                ("amax", np.array([-7, -5]), 1),
                ("amin", np.array([5, 7]), 0),
                ("amax", np.array([-7e300, -5e300]), 1),
                ("amin", np.array([5e300, 7e300]), 0),
                ("amax", np.array([False, False]), 0),
                ("amin", np.array([True, True]), 0),
            )
        ],
    ],
    errors=[
        ErrorSample(
            "unknown",
            (np.ones(2), 0, np.array([0]), np.ones(1), "max"),
            ValueError,
            "reduce is one of sum, mean, prod, amax, amin, got 'max'",
        ),
        ErrorSample(
            "index longer than src along one axis",
            (np.ones((2, 3)), 0, np.zeros((1, 3), int), np.ones((1, 2)), "sum"),
            ValueError,
            r"index \(1, 3\) and src \(1, 2\) need .* Make src as large as index",
        ),
        ErrorSample(
            "index longer than x",
            (np.ones((2, 2)), 0, np.zeros((1, 3), int), np.ones((1, 3)), "sum"),
            ValueError,
            r"x \(2, 2\), index \(1, 3\) .* index no larger than x except along axis 0",
        ),
    ],
)


def _places_of(index, axis, shape):
    """Each entry's position in x.ravel(), looked up one by one."""
    numbers = np.arange(np.prod(shape)).reshape(shape)
    places = []
    for place in np.ndindex(*index.shape):
        own = list(place)
        own[axis] = index[place]
        places.append(numbers[tuple(own)])
    return np.array(places)


register_op(
    "scatter_places",
    of_several(
        [
            ((_WHERE,), {"axis": 0, "shape": (3, 3)}),
            ((_WHERE,), {"axis": 1, "shape": (2, 4)}),
            ((_I,), {"axis": 0, "shape": (4,)}),
        ]
    ),
    reference=_places_of,
    dtypes=("float64",),
    differentiable=False,
    skips=_NOT_MOVED,
    errors=[
        ErrorSample(
            "beyond x",
            (_WHERE,),
            ValueError,
            r"index has numbers from 0 to 2, but x \(2, 3\) has places 0..1 along axis 0",
            {"axis": 0, "shape": (2, 3)},
        ),
        ErrorSample(
            "a negative place",
            (_WHERE - 1,),
            ValueError,
            "index has numbers from -1 to 1",
            {"axis": 0, "shape": (2, 3)},
        ),
    ],
)


def _extremum_of(values, index, counts, size, largest=True):
    best = max if largest else min
    return np.array([best(values[(index == k) & counts]) for k in range(size)])


_AT = np.array([0, 1, 0, 2, 2, 0])
_COUNTS = np.array([True, True, True, False, True, True])

register_op(
    "extremum_at",
    of_several(
        [
            (((6,), _AT, _COUNTS), {"size": 3}),
            (((6,), _AT, _COUNTS), {"size": 3, "largest": False}),
        ],
        distinct,
    ),
    reference=_extremum_of,
    dtypes=("float64", "float32"),
    skips=_KEPT,
    points=[
        Point(
            "what does not count gets nothing",
            (np.array([1.0, 2.0, 2.0, 2.0]), np.zeros(4, int), np.array([True, True, True, False])),
            [2.0],
            ([0.0, 0.5, 0.5, 0.0], None, None),
            params={"size": 1},
        ),
        Point(
            "a NaN",
            (np.array([1.0, np.nan, 3.0]), np.array([0, 0, 1]), np.ones(3, bool)),
            [np.nan, 3.0],
            ([0.0, 1.0, 1.0], None, None),
            params={"size": 2},
        ),
    ],
)


def _rows_of(places):
    """For each target position, the sources in their order, by dictionary."""
    goals: dict[int, list] = {}
    for source, place in enumerate(places):
        goals.setdefault(int(place), []).append(source)
    most = max(map(len, goals.values()))
    rows = sorted(goals)
    reads = [goals[place] + [0] * (most - len(goals[place])) for place in rows]
    there = [[i < len(goals[place]) for i in range(most)] for place in rows]
    return np.array(rows), np.array(reads), np.array(there)


register_op(
    "scatter_rows",
    of_several([((_AT,), {}), ((_I,), {})]),
    reference=_rows_of,
    dtypes=("float64",),
    differentiable=False,
    skips=_KEPT,
)


def _reduced_slices(x, axis, index, source, reduce, include_self=True):
    shape = np.ones(x.ndim, int)
    shape[axis] = -1
    places = np.broadcast_to(index.reshape(shape), source.shape)
    return _scattered(x, axis, places, source, reduce, include_self)


register_op(
    "index_reduce",
    of_several(
        [
            (((2, 3), -1, np.array([2, 0, 2]), (2, 3), "mean"), {"include_self": False}),
            (((3, 2), 0, np.array([2, 0, 2]), (3, 2), "prod"), {}),
            (((2, 3, 2), -2, np.array([2, 0, 2]), (2, 3, 2), "amin"), {}),
            (((2, 2, 3), -1, np.array([2, 0, 2]), (2, 2, 3), "sum"), {}),
        ],
        near_one,
    ),
    reference=_reduced_slices,
    dtypes=("float64", "float32"),
    skips=_KEPT,
)
