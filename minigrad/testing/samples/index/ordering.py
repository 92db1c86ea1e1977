"""Samples of diagonals, of sorting and searching."""

import numpy as np

from ...spec import ErrorSample, Point, register_op
from ..forms import COMPLEX, REAL, distinct, of_several, over, together
from ..ties import tied
from . import MASK, added, ints

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
    places = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return added(x, np.diagonal(places, offset, axis1, axis2), shape)


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
)


def _diag_embed(x, offset=0, axis1=-2, axis2=-1):
    n = x.shape[-1] + abs(offset)
    y = np.zeros((*x.shape[:-1], n, n), x.dtype)
    i = np.arange(x.shape[-1])
    y[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return np.moveaxis(y, (-2, -1), (axis1, axis2))


register_op(
    "diag_embed",
    over(
        [
            ((3,), {}), ((2, 3), {"offset": -1}), ((2,), {"offset": 1}),
            ((2, 3), {"offset": 1, "axis1": 0, "axis2": 2}), ((2, 3), {"axis1": -1, "axis2": 0}),
        ]
    ),
    reference=_diag_embed,
    dtypes=COMPLEX,
)  # fmt: skip
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
_DESCENDING = [((5,), {"descending": True}), ((3, 4), {"axis": 0, "descending": True})]
_TIED = np.array([2.0, 1.0, 2.0, np.nan, 1.0])


def _sort(x, axis=-1, descending=False):
    y = np.sort(x, axis)
    return np.flip(y, axis) if descending else y


def _argsort(x, axis=-1, descending=False):
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    unknown = np.isnan(x)  # above all numbers
    return np.lexsort((np.where(unknown, 0, -x), ~unknown), axis=axis)


register_op(
    "sort",
    over([*_SORTED, *_DESCENDING], distinct),
    reference=_sort,
    dtypes=REAL,
    points=[Point("ties and NaN", (_TIED,), np.sort(_TIED), (np.ones(5),))],
)
register_op(
    "argsort",
    together(
        over(_SORTED, distinct),
        over([((2, 300), {}), ((300, 2), {"axis": 0, "descending": True})], tied),
    ),
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
    keys = np.where(np.isnan(x), np.inf, x)  # NaN is the largest, as in np.sort
    places = np.argsort(-keys if largest else keys, axis=axis, kind="stable")
    places = np.take(places, np.arange(k), axis)
    return np.take_along_axis(x, places, axis), places


register_op(
    "topk",
    over(
        [
            ((5,), {"k": 2}),
            ((3, 4), {"k": 1, "axis": 0}),
            ((3, 4), {"k": 3, "largest": False}),
            *[((5,), {"k": 1, "sorted": False, "largest": largest}) for largest in (True, False)],
        ],
        distinct,
    ),
    reference=_topk,
    errors=[ErrorSample("k", (np.ones(3),), ValueError, "k must lie .* 3.*got 4", {"k": 4})],
)


def _argpartition(x, kth=0, axis=-1):
    return np.argpartition(x, kth, axis)


register_op(
    "argpartition",
    over([((5,), {"kth": 0}), ((3, 4), {"kth": 3})], distinct),
    reference=_argpartition,
    dtypes=("float64",),  # NumPy defines no order on either side of rank kth
    differentiable=False,
)


def _top_places(x, k, axis=-1, largest=True):
    rows = np.moveaxis(x, axis, -1)
    order = np.argsort(rows[..., ::-1] if largest else rows, kind="stable")
    order = (x.shape[axis] - 1 - order)[..., ::-1] if largest else order
    return np.moveaxis(order[..., :k], -1, axis)


register_op(
    "top_places",
    together(
        over(
            [
                ((5,), {"k": 2}),
                ((3, 4), {"k": 3, "largest": False}),
                ((3, 4), {"k": 0, "axis": 0}),
                ((30, 160), {"k": 7}),
                ((160, 30), {"k": 7, "axis": 0, "largest": False}),
            ],
            distinct,
        ),
        over([((30, 160), {"k": 30, "largest": largest}) for largest in (True, False)], tied),
    ),
    reference=_top_places,
    differentiable=False,
)
register_op(
    "searchsorted",
    of_several(
        [
            ((np.array([0.0, 1.0, 2.0]), (4,)), {}),
            ((np.array([0.0, 1.0]), ()), {"side": "right"}),
            ((np.array([1.0, 0.5, -0.5]), (4,)), {"sorter": np.array([2, 1, 0])}),
        ]
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
    )
_REPEATED = ints([3, 1, 3], [2, 1, 1])


def _unique_all(x, axis=None):
    if axis is None:
        return tuple(np.unique_all(x))
    return np.unique(x, True, True, True, axis)


register_op(
    "unique_all",
    of_several([((_REPEATED,), {}), (((4,),), {}), ((_REPEATED,), {"axis": 1})]),
    reference=_unique_all,
)
register_op(
    "unique_places",
    of_several([((_REPEATED,), {}), (((4,),), {}), ((_REPEATED,), {"axis": 1})]),
    reference=lambda x, axis=None: _unique_all(x, axis)[1:],
    differentiable=False,
)
register_op(
    "unique",
    of_several(
        [
            ((_REPEATED,), {}),
            ((_REPEATED,), {"return_counts": True}),
            (((4,),), {}),
            (((3, 2),), {"axis": 0}),
        ]
    ),
    reference=np.unique,
)
