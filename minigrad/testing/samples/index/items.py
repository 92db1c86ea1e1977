"""Samples of reading and writing by x[index]."""

import numpy as np

from ...spec import ErrorSample, Point, register_op
from ..forms import COMPLEX, REAL, of_several, over
from . import MASK, TWICE, added, ints, one

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
    ((4, 3), (TWICE, slice(None, None, -1))),
    ((2, 4, 3), (slice(None), ints(1, 1), Ellipsis, ints(2, 0))),
    ((4, 3), (ints(1, 1), Ellipsis, 2)),
]


def _getitem(x, *, index):
    return x[index if not isinstance(index, list) else np.array(index, int)]


def _getitem_dx(x, *, index, shape):
    return added(x, np.arange(np.prod(shape, dtype=int)).reshape(shape)[index], shape)


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
    (((2, 3), (1, 1, 3)), 0),
    (((2, 3, 2), (2, 3)), (np.array([0, 1]), slice(None), np.array([1, 0]))),
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


_BYTES = np.ones(2, np.uint8)
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
    errors=[
        ErrorSample("beyond", (_BYTES, ints(0), 300), OverflowError, "bounds for uint8"),
        ErrorSample("no number", (_BYTES, ints(0), np.nan), ValueError, "NaN to integer"),
    ],
)
_FILL = Point("inf where filled", (np.array([np.inf, 1.0]), ints(1, 0) == 1, 0.0), [0.0, 1.0],
              ([0.0, 1.0], 1.0))  # fmt: skip
register_op(
    "masked_fill",
    of_several([(((2, 3), MASK, ()), {}), (((2, 3), MASK[0], ()), {}), (((2, 3), MASK, 7.0), {})]),
    reference=lambda x, mask, value: np.where(np.broadcast_to(mask, x.shape), one(value), x),
    dtypes=REAL,
    points=[_FILL],
    errors=[
        ErrorSample("mask", (np.ones(2), np.ones((3, 2), bool), 0), ValueError, "no larger"),
        ErrorSample("values", (np.ones(2), np.ones(2, bool), np.ones(2)), ValueError, "0-d tensor"),
        ErrorSample("beyond", (_BYTES, np.ones(2, bool), 300), OverflowError, "bounds for uint8"),
    ],
)
register_op(
    "masked_select",
    of_several([(((2, 3), MASK), {}), (((3,), MASK), {}), (((2, 3), MASK[0]), {})]),
    reference=lambda x, mask: np.broadcast_arrays(x, mask)[0][np.broadcast_arrays(x, mask)[1]],
    dtypes=COMPLEX,
)
