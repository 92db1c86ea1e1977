"""Samples of indexing, ordering and diagonals."""

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .forms import COMPLEX, REAL, distinct, of_several, over


def ints(*values):
    return np.array(values)


TWICE = ints(0, 2, 2, -1)
MASK = np.array([[True, False, True], [False, True, True]])

# -- x[index] --------------------------------------------------------------------------------

_KEYS = [
    ((5,), 2),
    ((5,), slice(1, None, 2)),
    ((5,), slice(None, None, -1)),
    ((2, 3), (Ellipsis, None, 1)),
    ((2, 3), (slice(None), np.newaxis, slice(0, 2))),
    ((4,), TWICE),
    ((4, 3), TWICE),
    ((4, 3), (slice(None), ints([0, 2], [2, 2]))),
    ((4, 3), (TWICE, ints(0, 1, 1, 2))),
    ((2, 4, 3), (0, slice(None), ints(1, 1))),
    ((2, 4, 3), (ints([1], [1]), slice(1, 3), ints(0, 2))),
    ((2, 4, 3), (Ellipsis, ints(1, 1), ints(0, 0))),
    ((4, 3), (TWICE, None, slice(0, 2))),
    ((2, 3), MASK),
    ((2, 3), (slice(None), MASK[0])),
    ((2, 3), (MASK[:, 0], ints(1, 2, 1)[:1])),
    ((5,), []),
    ((), ()),
    ((), (None, Ellipsis)),
    ((4, 0), TWICE),
]


def _getitem(x, *, index):
    return x[index if not isinstance(index, list) else np.array(index, int)]


def _getitem_dx(x, *, index, shape):
    y = np.zeros(shape, x.dtype)
    np.add.at(y, index, x)
    return y


register_op(
    "getitem",
    over([(shape, {"index": key}) for shape, key in _KEYS]),
    reference=_getitem,
    dtypes=COMPLEX,
    errors=[
        ErrorSample("beyond", (np.ones(3),), IndexError, "getitem.*out of bounds", {"index": 3}),
        ErrorSample("float", (np.ones(3),), IndexError, "only integers", {"index": 1.5}),
    ],
    points=[
        Point("read twice", (np.array([1.0, 2]),), [2.0, 2.0], ([0.0, 2.0],), {"index": ints(1, 1)})
    ],
)
register_op(
    "getitem_dx",
    over(
        [
            (np.zeros(shape)[key].shape, {"index": key, "shape": shape})
            for shape, key in _KEYS
            if not isinstance(key, list)
        ]
    ),
    reference=_getitem_dx,
    dtypes=COMPLEX,
    skips={"K17": "x fits the index in one size alone, or broadcasts as in an assignment"},
)


def _setitem(x, value, *, index):
    y = x.copy()
    y[index] = value
    return y


_WRITES = [
    (((5,), ()), 2),
    (((5,), (2,)), slice(1, None, 2)),
    (((2, 3), (3,)), (slice(None), slice(None))),
    (((2, 3), (1, 3)), 0),
    (((4,), (4,)), TWICE),
    (((4, 3), (3,)), TWICE),
    (((4, 3), (4, 1)), TWICE),
    (((2, 3), (4,)), MASK),
    (((2, 4, 3), (2, 2)), (0, ints(1, 1), slice(0, 2))),
]
register_op(
    "setitem",
    of_several([(args, {"index": key}) for args, key in _WRITES]),
    reference=_setitem,
    dtypes=COMPLEX,
    errors=[
        ErrorSample(
            "shape", (np.ones(3), np.ones(2)), ValueError, "broadcast", {"index": slice(None)}
        )
    ],
    points=[
        Point(
            "the last write wins",
            (np.zeros(2), np.array([5.0, 6.0])),
            [6.0, 0.0],
            ([0.0, 1.0], [0.0, 1.0]),
            {"index": ints(0, 0)},
        )
    ],
)


def _index_put(x, indices, values, accumulate=False):
    y = x.copy()
    if accumulate:
        np.add.at(y, indices, values)
    else:
        y[indices] = values
    return y


register_op(
    "index_put",
    of_several(
        [
            (((4, 3), TWICE, (4, 3)), {}),
            (((4, 3), TWICE, (4, 3)), {"accumulate": True}),
            (((4,), TWICE, ()), {"accumulate": True}),
            (((2, 3), MASK, ()), {}),
        ]
    ),
    reference=_index_put,
    dtypes=COMPLEX,
    skips={"K17": "the indices are values of one size"},
)
_FILL = Point("inf where filled", (np.array([np.inf, 1.0]), ints(1, 0) == 1, 0.0), [0.0, 1.0],
              ([0.0, 1.0], 1.0))  # fmt: skip
register_op(
    "masked_fill",
    of_several([(((2, 3), MASK, ()), {}), (((2, 3), MASK[0], ()), {}), (((2, 3), MASK, 7.0), {})]),
    reference=lambda x, mask, value: np.where(np.broadcast_to(mask, x.shape), value, x),
    dtypes=REAL,
    points=[_FILL],
    errors=[ErrorSample("mask", (np.ones(2), np.ones((3, 2), bool), 0), ValueError, "no larger")],
    skips={"K17": "value is a number"},
)
register_op(
    "masked_select",
    of_several([(((2, 3), MASK), {}), (((3,), MASK), {}), (((2, 3), MASK[0]), {})]),
    reference=lambda x, mask: np.broadcast_arrays(x, mask)[0][np.broadcast_arrays(x, mask)[1]],
    dtypes=COMPLEX,
)

# -- take ------------------------------------------------------------------------------------

_TAKES = [
    (((5,), ints(0, 3, 3)), {}),
    (((4, 3), ints([0, 3], [3, -1])), {"axis": 0}),
    (((4, 3), ints(2, 2)), {"axis": -1}),
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
    skips={"K17": "a mode of the first sample decides which sizes are allowed"},
)


def _take_dx(x, indices, *, axis, mode="raise", shape):
    y = np.zeros(shape, x.dtype)
    places = np.take(np.arange(y.size).reshape(shape), indices, axis=axis, mode=mode)
    np.add.at(y.reshape(-1), places, x)
    return y


register_op(
    "take_dx",
    of_several(
        [
            ((np.take(np.zeros(x), i, **p).shape, i), {"axis": None, **p, "shape": x})
            for (x, i), p in _TAKES
        ]
    ),
    reference=_take_dx,
    dtypes=COMPLEX,
    skips={"K17": "x fits the static shape in one size alone"},
)
register_op(
    "index_select",
    of_several([(((4, 3), 1, ints(2, 0, 2)), {})]),
    reference=lambda x, axis, index: np.take(x, index, axis),
    dtypes=COMPLEX,
    skips={"K17": "the index is made for one size"},
)


def _index_add(x, axis, index, source):
    y = np.moveaxis(x.copy(), axis, 0)
    np.add.at(y, index, np.moveaxis(source, axis, 0))
    return np.moveaxis(y, 0, axis)


register_op(
    "index_add",
    of_several([(((4, 3), 0, ints(2, 0, 2), (3, 3)), {}), (((4, 3), 1, ints(2, 2), (4, 2)), {})]),
    reference=_index_add,
    dtypes=COMPLEX,
    skips={"K17": "the index is made for one size"},
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
        )
    ],
    errors=[ErrorSample("beyond", (ints(4), np.ones((4, 2))), IndexError, "out of bounds")],
    skips={"K17": "the indices are made for one size"},
)

# -- along an axis ---------------------------------------------------------------------------

_ALONG = [
    (((4, 3), ints([0, 3, 3], [3, -1, 0])), {"axis": 0}),
    (((2, 3), ints([2, 2], [0, 0])), {"axis": -1}),
    (((4, 3), ints([1, 2, 0])), {"axis": 0}),
    (((2, 3), ints(5, 0, 0)), {"axis": None}),
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
    y = np.zeros(shape, x.dtype)
    places = np.take_along_axis(np.arange(y.size).reshape(shape), indices, axis)
    np.add.at(y.reshape(-1), places, x)
    return y


register_op(
    "add_along_axis",
    of_several(
        [
            ((np.take_along_axis(np.zeros(x), i, **p).shape, i), {**p, "shape": x})
            for (x, i), p in _ALONG
        ]
    ),
    reference=_add_along_axis,
    dtypes=COMPLEX,
    skips={"K17": "x fits the static shape in one size alone"},
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
            (((5,), ints(1, 1), ()), {"axis": 0}),
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
    skips={"K17": "the indices are made for one size"},
)


def _places(x, axis, index):
    """The flat places in x of PyTorch's gather and scatter."""
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


_GATHER = ints([0, 1, 1], [3, 3, 0])
_ERROR = ErrorSample(
    "axes", (np.ones((2, 3)), 0, ints(0), np.ones(1)), ValueError, "same number of axes"
)
_ONE_SIZE = {"K17": "the index is made for one size"}
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
    skips=_ONE_SIZE,
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
    errors=[_ERROR],
    skips=_ONE_SIZE,
)
register_op(
    "scatter_add",
    of_several(_SCATTERS),
    reference=_scatter_add,
    dtypes=COMPLEX,
    errors=[_ERROR],
    skips=_ONE_SIZE,
)

# -- diagonals -------------------------------------------------------------------------------

for _name, _reference in (("tril", np.tril), ("triu", np.triu)):
    register_op(
        _name,
        over([((3, 3), {}), ((2, 3, 4), {"k": 1}), ((3, 2), {"k": -1}), ((3,), {})]),
        reference=_reference,
        dtypes=COMPLEX,
        points=[
            Point("inf is cut off", (np.full((2, 2), np.inf),), _reference(np.full((2, 2), np.inf)))
        ],
    )
_DIAGONALS = [
    ((3, 3), {}),
    ((3, 4), {"offset": 1}),
    ((4, 3), {"offset": -2}),
    ((2, 3, 4), {"axis1": 1, "axis2": -1}),
    ((3, 2, 4), {"axis1": 2, "axis2": 0, "offset": 1}),
    ((2, 2), {"offset": 2}),
]
register_op(
    "diagonal",
    over(_DIAGONALS),
    reference=np.diagonal,
    dtypes=COMPLEX,
    errors=[ErrorSample("vector", (np.ones(3),), ValueError, "diagonal")],
)
register_op("trace", over(_DIAGONALS), reference=np.trace, dtypes=COMPLEX)


def _diagonal_dx(x, *, offset=0, axis1=0, axis2=1, shape):
    y = np.zeros(shape, x.dtype)
    places = np.diagonal(np.arange(y.size).reshape(shape), offset, axis1, axis2)
    y.reshape(-1)[places] = x
    return y


register_op(
    "diagonal_dx",
    over(
        [
            (np.diagonal(np.zeros(shape), **params).shape, {**params, "shape": shape})
            for shape, params in _DIAGONALS
        ]
    ),
    reference=_diagonal_dx,
    dtypes=COMPLEX,
    skips={"K17": "x fits the static shape in one size alone"},
)


def _diag_embed(x, offset=0):
    n = x.shape[-1] + abs(offset)
    y = np.zeros((*x.shape[:-1], n, n), x.dtype)
    i = np.arange(x.shape[-1])
    y[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return y


register_op(
    "diag_embed",
    over([((3,), {}), ((2, 3), {"offset": -1}), ((2,), {"offset": 1})]),
    reference=_diag_embed,
    dtypes=COMPLEX,
)
register_op(
    "diag",
    over([((3,), {}), ((3,), {"k": -1}), ((3, 4), {"k": 1})]),
    reference=np.diag,
    dtypes=COMPLEX,
    errors=[ErrorSample("3-d", (np.ones((2, 2, 2)),), ValueError, "a vector or a matrix")],
)
register_op(
    "diagflat", over([((2, 2), {}), ((3,), {"k": 1})]), reference=np.diagflat, dtypes=COMPLEX
)

# -- ordering --------------------------------------------------------------------------------

_SORTED = [((5,), {}), ((3, 4), {"axis": 0}), ((3, 4), {"axis": None}), ((2, 0), {})]
_TIED = np.array([2.0, 1.0, 2.0, np.nan, 1.0])


def _argsort(x, axis=-1):
    return np.argsort(x, axis=axis, kind="stable")


register_op(
    "sort",
    over(_SORTED, distinct),
    reference=np.sort,
    dtypes=REAL,
    points=[Point("ties and NaN", (_TIED,), np.sort(_TIED), (np.ones(5),))],
)
register_op(
    "argsort",
    over(_SORTED, distinct),
    reference=_argsort,
    dtypes=REAL,
    differentiable=False,
    points=[
        Point("stable", (_TIED,), [1, 4, 0, 2, 3]),
        Point("descending", (_TIED,), [3, 0, 2, 1, 4], params={"descending": True}),
    ],
    errors=[ErrorSample("fields", (np.ones(2),), TypeError, "structured", {"order": "f0"})],
)


def _topk(x, k, axis=-1, largest=True, sorted=True):
    places = np.argsort(-x if largest else x, axis=axis, kind="stable")
    places = np.take(places, np.arange(k), axis)
    return np.take_along_axis(x, places, axis), places


register_op(
    "topk",
    over(
        [((5,), {"k": 2}), ((3, 4), {"k": 1, "axis": 0}), ((3, 4), {"k": 3, "largest": False})],
        distinct,
    ),
    reference=_topk,
    errors=[ErrorSample("k", (np.ones(3),), ValueError, "k=4 of 3 elements", {"k": 4})],
    skips={"K12": "NaN counts as the largest here, as in np.sort; the reference negates it"},
)


def _argpartition(x, kth=0, axis=-1):
    return np.argpartition(x, kth, axis)


register_op(
    "argpartition",
    over([((5,), {"kth": 0}), ((3, 4), {"kth": 3})], distinct),
    reference=_argpartition,
    dtypes=("float64",),  # NumPy states no order on either side of rank kth
    differentiable=False,
    skips={"K17": "kth of the first sample decides which sizes are allowed"},
)
register_op(
    "searchsorted",
    of_several(
        [((np.array([0.0, 1.0, 2.0]), (4,)), {}), ((np.array([0.0, 1.0]), ()), {"side": "right"})]
    ),
    reference=np.searchsorted,
    differentiable=False,
)
for _name, _reference in (
    ("argwhere", np.argwhere), ("nonzero", np.nonzero), ("flatnonzero", np.flatnonzero)
):  # fmt: skip
    register_op(
        _name,
        of_several([((MASK,), {}), ((np.array([0.0, 2.0, np.nan]),), {}), (((3,),), {})]),
        reference=_reference,
        differentiable=False,
        skips={"K17": "np.nonzero refuses 0-d arrays"} if _name == "nonzero" else {},
    )
_REPEATED = ints([3, 1, 3], [2, 1, 1])


def _unique_all(x):
    return tuple(np.unique_all(x))


register_op(
    "unique_all",
    of_several([((_REPEATED,), {}), (((4,),), {})]),
    reference=_unique_all,
    differentiable=False,
)
register_op(
    "unique",
    of_several([((_REPEATED,), {}), ((_REPEATED,), {"return_counts": True}), (((4,),), {})]),
    reference=np.unique,
    differentiable=False,
)
