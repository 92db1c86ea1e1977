"""Samples of entries put in, taken out, chosen and combined by place."""

import numpy as np

from ...spec import ErrorSample, Point, register_op
from ..forms import COMPLEX, REAL, distinct, near_one, of_several, over

_MASK = np.array([True, False, True])
_KEPT = {"K17": "the places are for one shape"}


def _by_numpy(name, forms, *, reference=None, **options):
    reference = reference or getattr(np, name)
    register_op(name, of_several(forms), reference=reference, dtypes=COMPLEX, **options)


_by_numpy(
    "insert",
    [
        (((4,), 1, (2,)), {}),
        (((2, 3), np.array([0, 2]), (2, 2)), {"axis": 1}),
        (((2, 3), 1, (3,)), {"axis": 0}),
        (((2, 3), np.array([1, 1]), ()), {}),
        (((3, 2), slice(0, 3, 2), (2, 2)), {"axis": 0}),
        (((2, 3), 0, (2,)), {"axis": 1}),
    ],
    skips=_KEPT,
)
_by_numpy(
    "delete",
    [
        (((4,), 1), {}),
        (((2, 3), np.array([0, 2])), {"axis": 1}),
        (((3, 2), slice(1, None)), {"axis": 0}),
        (((2, 3), np.array([True, False, True])), {"axis": 1}),
        (((2, 3), np.array([0, 5])), {}),
    ],
)
_by_numpy(
    "compress",
    [((_MASK, (3, 2)), {"axis": 0}), ((_MASK[:2], (2, 3)), {"axis": 1}), ((_MASK, (2, 2)), {})],
    skips=_KEPT,
)
_by_numpy("extract", [((_MASK, (3,)), {}), ((np.array([_MASK, ~_MASK]), (2, 3)), {})])
register_op(
    "select",
    of_several([(((2, 3), (3,)), {}), (((3,), ()), {}), (((3,), (3,), ()), {})]),
    call=lambda a, b, default=0: _select_of(a, b, default, "minigrad"),
    reference=lambda a, b, default=0: _select_of(a, b, default, "numpy"),
    dtypes=REAL,
)


def _select_of(a, b, default, library):
    import minigrad

    select = {"minigrad": minigrad.select, "numpy": np.select}[library]
    return select([np.array([True, False, False]), np.arange(3) < 2], [a, b], default)


register_op(
    "choose",
    of_several(
        [
            (((2, 3), (3,)), {}),
            (((3,), (1,)), {"mode": "wrap"}),
            (((3,), (3,)), {"mode": "clip"}),
            (((3,), (3,)), {"places": _MASK}),
            (((3,), 1.5), {}),
        ]
    ),
    call=lambda a, b, **params: _choose_of(a, b, "minigrad", **params),
    reference=lambda a, b, **params: _choose_of(a, b, "numpy", **params),
    dtypes=REAL,
    errors=[
        ErrorSample(
            f"{place} of two",
            (np.ones(1), np.ones(1)),
            ValueError,
            "",
            {"places": np.array([0, place])},
        )
        for place in (-1, 2)
    ],
)


def _choose_of(a, b, library, mode="raise", places=None):
    import minigrad

    choose = {"minigrad": minigrad.choose, "numpy": np.choose}[library]
    if places is None:
        places = np.array([0, 1, 1] if mode == "raise" else [-2, 5, 4])
    return choose(places, [a, b], mode=mode)


register_op(
    "resize",
    over([((3,), {"new_shape": (2, 4)}), ((2, 2), {"new_shape": 3})]),
    reference=np.resize,
    dtypes=COMPLEX,
)
register_op(
    "partition",
    over([((5,), {"kth": 2}), ((2, 4), {"kth": (1, 2), "axis": 1})], distinct),
    reference=np.partition,
    dtypes=("float64",),  # the order beside rank kth is NumPy's choice, and differs by dtype
    skips={"K12": "the order beside rank kth is NumPy's choice"},
)
register_op(
    "piecewise",
    of_several([(((3,),), {}), (((3,),), {"pieces": 2})], distinct),
    call=lambda x, **params: _pieces_of(x, "minigrad", **params),
    reference=lambda x, **params: _pieces_of(x, "numpy", **params),
    dtypes=("float64", "float32"),
    skips=_KEPT,
)


def _pieces_of(x, library, pieces=3):
    """With two pieces the middle one of three entries is in none, and 0."""
    import minigrad

    piecewise = {"minigrad": minigrad.piecewise, "numpy": np.piecewise}[library]
    pieces_of_three = [lambda x: x * x, 2.0, lambda x: -x]
    return piecewise(x, [_MASK, ~_MASK & (np.arange(3) > 1)], pieces_of_three[:pieces])


# -- PyTorch's --------------------------------------------------------------------------------


def _assigned(x, key, value):
    y = x.copy()
    y[key] = value
    return y


_I = np.array([2, 0])
_by_numpy(
    "index_copy",
    [(((3, 2), 0, _I, (2, 2)), {}), (((2, 3), -1, _I, (2, 2)), {})],
    reference=lambda x, axis, i, v: _assigned(x, (slice(None),) * (axis % 2) + (i,), v),
)
_by_numpy(
    "index_fill",
    [(((3, 2), 0, _I, ()), {}), (((2, 3), 1, _I, ()), {})],
    reference=lambda x, axis, i, v: _assigned(x, (slice(None),) * axis + (i,), v),
)


def _masked(x, mask, source):
    mask = np.broadcast_to(mask, x.shape)
    return _assigned(x, mask, source.ravel()[: mask.sum()])


_by_numpy(
    "masked_scatter",
    [(((2, 3), _MASK, (5,)), {}), (((3,), _MASK, (2, 1)), {})],
    reference=_masked,
    skips=_KEPT,
    errors=[
        ErrorSample(
            "too few",
            (np.ones(3), _MASK, np.ones(1)),
            ValueError,
            "the mask has 2 places, source 1",
        )
    ],
)
_by_numpy(
    "select_scatter",
    [(((2, 3), (3,), 0, 1), {}), (((2, 3), (2,), 1, -1), {})],
    reference=lambda x, v, axis, i: _assigned(x, (slice(None),) * axis + (i,), v),
)
_by_numpy(
    "slice_scatter",
    [
        (((4, 2), (2, 2)), {"start": 1, "end": 4, "step": 2}),
        (((2, 3), (2, 2)), {"axis": 1, "end": 2}),
    ],
    reference=lambda x, v, axis=0, start=None, end=None, step=1: _assigned(
        x, (slice(None),) * (axis % x.ndim) + (slice(start, end, step),), v
    ),
)


def _on_diagonal(x, v, offset=0, axis1=0, axis2=1):
    y = x.copy()
    np.moveaxis(y, (axis1, axis2), (-2, -1))[
        ..., np.arange(v.shape[-1]) + max(-offset, 0), np.arange(v.shape[-1]) + max(offset, 0)
    ] = v
    return y


_by_numpy(
    "diagonal_scatter",
    [
        (((3, 3), (3,)), {}),
        (((2, 4), (2,)), {"offset": 1}),
        (((3, 2, 3), (2, 2)), {"offset": -1, "axis1": 0, "axis2": 2}),
        (((3, 2, 4), (3, 2)), {"axis1": 1, "axis2": -1}),
    ],
    reference=_on_diagonal,
    skips=_KEPT,
)

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
            r"index \(1, 3\) and src \(1, 2\) need .* src must be as large as index",
        ),
        ErrorSample(
            "index longer than x",
            (np.ones((2, 2)), 0, np.zeros((1, 3), int), np.ones((1, 3)), "sum"),
            ValueError,
            r"x \(2, 2\), index \(1, 3\) .* index no larger than x but along axis 0",
        ),
    ],
)


def _rows_of(index, axis, shape):
    """For each place that is a goal, the sources in their order, by dictionary."""
    goals: dict[int, list] = {}
    for source, place in enumerate(np.ndindex(*index.shape)):
        goal = tuple(index[place] if i == axis % len(place) else n for i, n in enumerate(place))
        goals.setdefault(int(np.ravel_multi_index(goal, shape)), []).append(source)
    most = max(map(len, goals.values()))
    places = sorted(goals)
    reads = [goals[place] + [0] * (most - len(goals[place])) for place in places]
    there = [[i < len(goals[place]) for i in range(most)] for place in places]
    return np.array(places), np.array(reads), np.array(there)


register_op(
    "scatter_rows",
    of_several([((_WHERE,), {"axis": 0, "shape": (3, 3)}), ((_I,), {"axis": 0, "shape": (4,)})]),
    reference=_rows_of,
    dtypes=("float64",),
    differentiable=False,
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
