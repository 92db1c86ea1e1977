"""Samples of reading and writing by an array of indices along an axis."""

import numpy as np

from ...spec import ErrorSample, Point, register_op
from ..forms import COMPLEX, normal, of_several
from . import added, ints

# -- take ------------------------------------------------------------------------------------

_TAKES = [
    (((5,), ints(0, 3, 3)), {}),
    (((4, 3), ints([0, 3], [3, -1])), {"axis": 0}),
    (((4, 3), ints(2, 2)), {"axis": -1}),
    (((2, 3, 2), ints(2, 0)), {"axis": 1}),
    (((4, 3), ints(11, 0)), {}),
    (((4,), ints(-7, 2, 9)), {"mode": "wrap"}),
    (((4, 3), ints(-7, 2, 9)), {"mode": "clip", "axis": 1}),
]
register_op(
    "take",
    of_several(_TAKES),
    reference=np.take,
    dtypes=COMPLEX,
    errors=[
        ErrorSample("beyond", (np.ones(3), ints(3)), IndexError, "take.*out of bounds"),
        ErrorSample("mode", (np.ones(3), ints(1)), ValueError, "choose", {"mode": "bounce"}),
    ],
)


def _take_dx(x, indices, *, axis, mode="raise", shape):
    places = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return added(x, np.take(places, indices, axis=axis, mode=mode), shape)


register_op(
    "take_dx",
    of_several(
        [
            ((np.take(np.zeros(x), i, **p).shape, i), {"axis": None, **p, "shape": x})
            for (x, i), p in _TAKES
        ]
    ),
    large=of_several([(((2000, 3), np.arange(2000) % 7 % 5), {"axis": 0, "shape": (5, 3)})]),
    reference=_take_dx,
    dtypes=COMPLEX,
)
register_op(
    "index_select",
    of_several([(((4, 3), 1, ints(2, 0, 2)), {})]),
    reference=lambda x, axis, index: np.take(x, index, axis),
    dtypes=COMPLEX,
)


def _index_add(x, axis, index, source, alpha=1):
    if source.shape != np.take(x, index, axis).shape:
        raise ValueError("one slice for each index")
    y = np.moveaxis(x.copy(), axis, 0)
    np.add.at(y, index, alpha * np.moveaxis(source, axis, 0))
    return np.moveaxis(y, 0, axis)


register_op(
    "index_add",
    of_several(
        [
            (((4, 3), 0, ints(2, 0, 2), (3, 3)), {}),
            (((4, 3), 1, ints(2, 2), (4, 2)), {"alpha": -0.5}),
            (((4,), 0, ints(2, 2), (2,)), {"alpha": 2}),
        ]
    ),
    reference=_index_add,
    dtypes=COMPLEX,
)
register_op(
    "embedding",
    of_several([((ints([0, 2], [2, 2]), (4, 3)), {}), ((ints(1, 1, 3), (4, 2)), {})]),
    reference=lambda indices, weight: weight[indices],
    dtypes=COMPLEX,
    points=[
        Point(
            "a padding row",
            (ints(0, 1, 1), np.ones((2, 1))),
            None,
            ([[1.0], [0.0]],),
            {"padding_idx": 1},
        ),
        Point(
            "a padding row from the end",
            (ints(0, 1, 1), np.ones((2, 1))),
            None,
            ([[1.0], [0.0]],),
            {"padding_idx": -1},
        ),
    ],
    errors=[ErrorSample("beyond", (ints(4), np.ones((4, 2))), IndexError, "out of bounds")],
)

# -- along an axis ---------------------------------------------------------------------------

_ALONG = [
    (((4, 3), ints([0, 3, 3], [3, -1, 0])), {"axis": 0}),
    (((2, 3), ints([2, 2], [0, 0])), {"axis": -1}),
    (((4, 3), ints([1, 2, 0])), {"axis": 0}),
    (((2, 3), ints(5, 0, 0)), {"axis": None}),
    (((2, 3, 2), ints([[2, 0]], [[-1, 1]])), {"axis": 1}),
]
register_op(
    "take_along_axis",
    of_several(_ALONG),
    reference=np.take_along_axis,
    dtypes=COMPLEX,
    errors=[
        ErrorSample("axes", (np.ones((2, 3)), ints(0)), ValueError, "take_along_axis", {"axis": 0})
    ],
)


def _add_along_axis(x, indices, *, axis, shape):
    places = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return added(x, np.take_along_axis(places, indices, axis), shape)


def _near_one(rng, dtype, shape):
    return (1 + 0.1 * normal(rng, dtype, shape)).astype(dtype)


# more in each sum than float16 can count; read in blocks
_IN_THREES = np.arange(18_000).reshape(2, 9000) % 7 % 3
register_op(
    "add_along_axis",
    of_several(
        [
            ((np.take_along_axis(np.zeros(x), i, **p).shape, i), {**p, "shape": x})
            for (x, i), p in _ALONG
        ]
    ),
    large=of_several([(((2, 9000), _IN_THREES), {"axis": 1, "shape": (2, 3)})], _near_one),
    reference=_add_along_axis,
    dtypes=COMPLEX,
)


def _put_along_axis(x, indices, values, *, axis):
    y = x.copy()
    np.put_along_axis(y, indices, values, axis)
    return y


register_op(
    "put_along_axis",
    of_several(
        [
            (((4, 3), ints([0, 3, 3], [3, -1, 0]), (2, 3)), {"axis": 0}),
            (((2, 3), ints([2, 2], [0, 1]), (2, 1)), {"axis": 1}),
            (((2, 3, 2), ints([[2, 0]], [[-1, 1]]), (2, 1, 2)), {"axis": 1}),
            (((5,), ints(1, 1), ()), {"axis": 0}),
            (((2, 3), ints(4, 0, 4), (3,)), {"axis": None}),
        ]
    ),
    reference=_put_along_axis,
    dtypes=COMPLEX,
    points=[
        Point(
            "the last write wins",
            (np.zeros(2), ints(0, 0), np.array([5.0, 6.0])),
            [6.0, 0.0],
            ([0.0, 1.0], [0.0, 1.0]),
            {"axis": 0},
        )
    ],
)


def _places(x, axis, index):
    """The flat positions in x of PyTorch's gather and scatter."""
    grid = list(np.indices(index.shape))
    grid[axis] = index
    return np.ravel_multi_index(grid, x.shape)


def _scatter(x, axis, index, src):
    y = x.copy()
    y.reshape(-1)[_places(x, axis, index)] = _cut(src, index)
    return y


def _scatter_add(x, axis, index, src):
    y = x.copy()
    np.add.at(y.reshape(-1), _places(x, axis, index), _cut(src, index))
    return y


def _cut(src, index):
    return src[tuple([slice(n) for n in index.shape])] if np.ndim(src) else src


_SHORT = ErrorSample(
    "values for too few places",
    (np.ones((4, 3)), 0, ints([0, 1, 1], [3, 3, 0]), np.ones((1, 2))),
    ValueError,
    r"src \(1, 2\) must have as many axes as index \(2, 3\) and be at least as long in each",
)
_GATHER = ints([0, 1, 1], [3, 3, 0])
_ERROR = ErrorSample(
    "axes", (np.ones((2, 3)), 0, ints(0), np.ones(1)), ValueError, "same number of axes"
)
_LARGE = ErrorSample(
    "a number beyond the dtype",
    (np.ones(3, np.uint8), 0, ints(0), 300),
    OverflowError,
    "300 is out of bounds for uint8",
)
register_op(
    "gather",
    of_several(
        [(((4, 3), 0, _GATHER), {}), (((4, 5), 1, _GATHER), {}), (((4, 4), 0, _GATHER), {})]
    ),
    reference=lambda x, axis, index: x.reshape(-1)[_places(x, axis, index)],
    dtypes=COMPLEX,
    errors=[
        ErrorSample("axes", (np.ones((2, 3)), 0, ints(0)), ValueError, "same number of axes"),
        ErrorSample("too long", (np.ones((4, 2)), 0, _GATHER), ValueError, "longer than x"),
    ],
)
_SCATTERS = [
    (((4, 3), 0, _GATHER, (2, 3)), {}),
    (((4, 5), 1, _GATHER, (2, 4)), {}),
    (((4, 3), 0, _GATHER, 2.0), {}),
]
register_op(
    "scatter",
    of_several(_SCATTERS),
    reference=_scatter,
    dtypes=COMPLEX,
    errors=[_ERROR, _SHORT, _LARGE],
)
register_op(
    "scatter_add",
    of_several(_SCATTERS),
    reference=_scatter_add,
    dtypes=COMPLEX,
    errors=[_ERROR, _SHORT, _LARGE],
)
