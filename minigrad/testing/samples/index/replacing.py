"""Samples of entries inserted, deleted, selected and combined by position."""

import numpy as np

from ...spec import ErrorSample, register_op
from ..forms import COMPLEX, REAL, distinct, of_several, over
from . import one

_MASK = np.array([True, False, True])
_KEPT = {"K17": "the positions fit one shape only"}


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
    dtypes=("float64",),  # NumPy chooses the order on both sides of rank kth, by dtype
    skips={"K12": "NumPy chooses the order on both sides of rank kth"},
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
_BYTES = np.ones(3, np.uint8)
_by_numpy(
    "index_copy",
    [(((3, 2), 0, _I, (2, 2)), {}), (((2, 3), -1, _I, (2, 2)), {})],
    reference=lambda x, axis, i, v: _assigned(x, (slice(None),) * (axis % 2) + (i,), v),
    errors=[
        ErrorSample("beyond", (_BYTES, 0, _I, [1, 300]), OverflowError, "bounds for uint8"),
    ],
)
_by_numpy(
    "index_fill",
    [(((3, 2), 0, _I, ()), {}), (((2, 3), 1, _I, ()), {})],
    reference=lambda x, axis, i, v: _assigned(x, (slice(None),) * axis + (i,), one(v)),
    errors=[
        ErrorSample("values", (np.ones(3), 0, _I, np.ones(2)), ValueError, "0-d tensor"),
    ],
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
        ),
        ErrorSample("beyond", (_BYTES, _MASK, [1, 300]), OverflowError, "bounds for uint8"),
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
