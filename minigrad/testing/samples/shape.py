"""Samples of the shape ops."""

import numpy as np

from ...engine.registry import op
from ..spec import ErrorSample, register_op
from .forms import COMPLEX, of_several, over


def shaped(name, forms, reference, **options):
    """Samples of an op of one array."""
    options.setdefault("dtypes", COMPLEX)
    register_op(name, over(forms), reference=reference, **options)


def listed(name, forms, reference, **options):
    """Samples of an op that takes its arrays in a list."""
    register_op(
        name,
        of_several(forms),
        call=lambda *arrays, **params: getattr(op, name)(list(arrays), **params),
        reference=lambda *arrays, **params: reference(list(arrays), **params),
        dtypes=COMPLEX,
        **options,
    )


# -- views -----------------------------------------------------------------------------------

shaped(
    "reshape",
    [
        ((2, 3), {"shape": (3, 2)}),
        ((2, 3), {"shape": -1}),
        ((6,), {"shape": (2, -1), "order": "F"}),
        ((2, 1, 3, 2), {"shape": (3, 4), "order": "F"}),
        ((), {"shape": (1, 1)}),
        ((0, 3), {"shape": (3, 0)}),
    ],
    np.reshape,
    errors=[
        ErrorSample("size", (np.ones(6),), ValueError, "cannot reshape", {"shape": (4, 2)}),
        ErrorSample("order", (np.ones(6),), ValueError, "order='K'", {"shape": 6, "order": "K"}),
    ],
)
shaped("ravel", [((2, 3), {}), ((2, 3), {"order": "F"}), ((), {}), ((0, 2), {})], np.ravel)
shaped(
    "transpose",
    [
        ((2, 3), {}),
        ((2, 3, 4), {"axes": (1, 2, 0)}),
        ((2, 3, 4), {"axes": (-1, 0, 1)}),
        ((), {}),
        ((2, 1, 3, 2, 2), {"axes": (3, 0, 4, 1, 2)}),
    ],
    np.transpose,
    errors=[ErrorSample("axes", (np.ones((2, 3)),), ValueError, "axes", {"axes": (0,)})],
)
register_op(
    "permute",
    over([((2, 1, 3), {"axes": (2, 0, 1)}), ((2, 3, 4), {"axes": (1, 0, 2)})]),
    call=lambda x, axes: op.permute(x, *axes),
    reference=np.transpose,
    dtypes=COMPLEX,
)
shaped(
    "swapaxes",
    [
        ((2, 3, 4), {"axis1": 0, "axis2": -1}),
        ((2, 3), {"axis1": 0, "axis2": 0}),
        ((2, 3, 4), {"axis1": -1, "axis2": 1}),
    ],
    np.swapaxes,
)
shaped("matrix_transpose", [((2, 3), {}), ((4, 2, 3), {})], np.matrix_transpose)
shaped(
    "moveaxis",
    [
        ((2, 1, 3), {"source": -1, "destination": 0}),
        ((2, 3, 4), {"source": 0, "destination": -1}),
        ((2, 3, 4), {"source": (0, 1), "destination": (-1, 0)}),
    ],
    np.moveaxis,
)
shaped(
    "squeeze",
    [((1, 3, 1), {}), ((1, 3, 1), {"axis": 0}), ((1, 3, 1), {"axis": (0, -1)}), ((2,), {})],
    np.squeeze,
    errors=[ErrorSample("length", (np.ones((2, 3)),), ValueError, "squeeze", {"axis": 0})],
)
shaped(
    "expand_dims",
    [((3,), {"axis": 0}), ((2, 3), {"axis": (-1, 1)}), ((), {"axis": 0})],
    np.expand_dims,
)
for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    shaped(_name, [((), {}), ((3,), {}), ((2, 3), {}), ((2, 1, 3), {})], getattr(np, _name))

# -- joining ---------------------------------------------------------------------------------

_JOINED = [
    (((2, 3), (1, 3)), {"axis": 0}),
    (((2, 3), (2, 2), (2, 0)), {"axis": -1}),
    (((3,), (2,)), {}),
]
_STACKED = [(((2, 3), (2, 3)), {"axis": 1}), (((3,), (3,), (3,)), {"axis": -1}), (((), ()), {})]
listed(
    "concatenate",
    [*_JOINED, (((2, 3), (4,)), {"axis": None})],
    np.concatenate,
    errors=[ErrorSample("no arrays", (), ValueError, "at least one array")],
)
register_op(
    "concatenate_arrays",
    of_several(_JOINED),
    reference=lambda *arrays, axis=0: np.concatenate(arrays, axis),
    dtypes=COMPLEX,
    errors=[ErrorSample("lengths", (np.ones((2, 3)), np.ones((2, 2))), ValueError, "dimensions")],
)
listed("stack", _STACKED, np.stack)
register_op(
    "stack_arrays",
    of_several(_STACKED),
    reference=lambda *arrays, axis=0: np.stack(arrays, axis),
    dtypes=COMPLEX,
    errors=[ErrorSample("shapes", (np.ones(3), np.ones(2)), ValueError, "same shape")],
)
listed("vstack", [(((3,), (2, 3)), {}), (((), ()), {})], np.vstack)
listed("hstack", [(((3,), (2,)), {}), (((2, 3), (2, 1)), {})], np.hstack)
listed("dstack", [(((3,), (3,)), {}), (((2, 3), (2, 3)), {})], np.dstack)
listed("column_stack", [(((3,), (3, 2)), {}), (((3,), (3,)), {})], np.column_stack)
register_op(
    "append",
    of_several([(((2, 3), (2,)), {}), (((2, 3), (1, 3)), {"axis": 0})]),
    reference=np.append,
    dtypes=COMPLEX,
)

# -- splitting -------------------------------------------------------------------------------

shaped(
    "narrow",
    [((5, 3), {"axis": 0, "start": 1, "length": 3}), ((5,), {"axis": 0, "start": -2, "length": 1})],
    lambda x, axis, start, length: np.take(x, np.arange(start, start + length), axis),
    errors=[
        ErrorSample(
            "too long", (np.ones(4),), IndexError, "start=3, length=2",
            {"axis": 0, "start": 3, "length": 2},
        )
    ],
)  # fmt: skip
_SPLITS = [
    ((6, 2), {"indices_or_sections": 3}),
    ((5,), {"indices_or_sections": [1, 4]}),
    ((2, 4), {"indices_or_sections": 2, "axis": -1}),
]
shaped(
    "split",
    _SPLITS,
    np.split,
    errors=[
        ErrorSample("unequal", (np.ones(5),), ValueError, "array_split", {"indices_or_sections": 2})
    ],
)
shaped("array_split", [*_SPLITS, ((5, 2), {"indices_or_sections": 3})], np.array_split)


def _chunk(x, chunks, axis=0):
    size = -(-x.shape[axis] // chunks)
    if not size:
        return [x] * chunks
    return np.split(x, range(size, x.shape[axis], size), axis)


shaped(
    "chunk",
    [((5, 2), {"chunks": 2}), ((3, 4), {"chunks": 2, "axis": 1})],
    _chunk,
    errors=[ErrorSample("none", (np.ones(5),), ValueError, "at least 1", {"chunks": 0})],
)
shaped(
    "unstack",
    [((3, 2), {}), ((2, 3), {"axis": -1})],
    lambda x, axis=0: tuple(np.moveaxis(x, axis, 0)),
)
shaped("vsplit", [((4, 2), {"indices_or_sections": 2})], np.vsplit)
shaped(
    "hsplit",
    [((4,), {"indices_or_sections": 2}), ((3, 4), {"indices_or_sections": [1]})],
    np.hsplit,
)
shaped("dsplit", [((2, 2, 4), {"indices_or_sections": 2})], np.dsplit)

# -- rearranging -----------------------------------------------------------------------------

shaped(
    "flip",
    [((4,), {}), ((2, 3), {"axis": 0}), ((2, 3, 2), {"axis": (0, -1)}), ((2, 3), {}), ((), {})],
    np.flip,
)
shaped("flipud", [((3, 2), {})], np.flipud)
shaped("fliplr", [((2, 3), {})], np.fliplr)
shaped(
    "roll",
    [
        ((5,), {"shift": 2}),
        ((2, 3), {"shift": -1, "axis": 1}),
        ((2, 3), {"shift": (1, 2), "axis": (0, 1)}),
        ((2, 3), {"shift": 7}),
    ],
    np.roll,
)
# -- padding ---------------------------------------------------------------------------------


def _pad_zeros(x, widths=()):
    if len(widths) != x.ndim:
        raise ValueError("a pair for each axis")
    return np.pad(x, widths)


shaped(
    "pad_zeros",
    [((3,), {"widths": ((1, 2),)}), ((2, 3), {"widths": ((0, 1), (2, 0))})],
    _pad_zeros,
)
shaped(
    "pad",
    [
        ((3,), {"pad_width": 2}),
        ((2, 3), {"pad_width": ((1, 0), (0, 2)), "constant_values": 1.5}),
        ((2, 3), {"pad_width": (1, 2), "mode": "edge"}),
        ((2, 3), {"pad_width": 0, "mode": "edge"}),
        ((4, 3), {"pad_width": ((0, 0), (2, 1)), "mode": "reflect"}),
        ((3,), {"pad_width": 5, "mode": "reflect"}),
        ((3,), {"pad_width": 2, "mode": "symmetric"}),
        ((3,), {"pad_width": (4, 7), "mode": "wrap"}),
        ((2, 3), {"pad_width": ((1, 0), (2, 1)), "constant_values": ((1.5, 2), (-1, 0.5))}),
        ((3,), {"pad_width": (2, 1), "mode": "mean"}),
        ((4, 3), {"pad_width": ((1, 2), (0, 2)), "mode": "maximum", "stat_length": 2}),
        ((4,), {"pad_width": 2, "mode": "median", "stat_length": (3, 2)}),
        ((3, 2), {"pad_width": 1, "mode": "minimum"}),
        ((3, 2), {"pad_width": ((2, 1), (1, 3)), "mode": "linear_ramp", "end_values": (1, -2)}),
        ((4, 3), {"pad_width": ((2, 1), (0, 3)), "mode": "reflect", "reflect_type": "odd"}),
        ((3,), {"pad_width": 2, "mode": "symmetric", "reflect_type": "odd"}),
    ],
    np.pad,
    dtypes=(*COMPLEX[:4],),
    errors=[
        ErrorSample("negative", (np.ones(3),), ValueError, "negative", {"pad_width": -1}),
        ErrorSample(
            "mode", (np.ones(3),), ValueError, "choose 'constant'", {"pad_width": 1, "mode": "x"}
        ),
    ],
)


def _pad_repeated_dx(x, *, widths, mode, shape):
    y = np.zeros(shape, x.dtype)
    places = np.pad(np.arange(y.size).reshape(shape), widths, mode)
    if x.shape != places.shape:
        raise ValueError("one place for each element")
    np.add.at(y.reshape(-1), places, x)
    return y


shaped(
    "pad_repeated",
    [
        ((2, 3), {"widths": ((1, 0), (2, 5)), "mode": "edge"}),
        ((3,), {"widths": ((4, 9),), "mode": "reflect"}),
        ((2, 1, 3), {"widths": ((1, 1), (0, 2), (5, 4)), "mode": "symmetric"}),
        ((3, 2), {"widths": ((7, 4), (0, 3)), "mode": "wrap"}),
    ],
    lambda x, *, widths, mode: np.pad(x, widths, mode),
)
shaped(
    "pad_repeated_dx",
    [
        ((3, 5), {"widths": ((1, 0), (1, 2)), "mode": "edge", "shape": (2, 2)}),
        ((16,), {"widths": ((4, 9),), "mode": "reflect", "shape": (3,)}),
        ((3, 8), {"widths": ((1, 1), (4, 2)), "mode": "symmetric", "shape": (1, 2)}),
        ((13,), {"widths": ((6, 4),), "mode": "wrap", "shape": (3,)}),
    ],
    _pad_repeated_dx,
)

# -- windows ---------------------------------------------------------------------------------


def _unfold(x, axis, size, step=1):
    axis = range(x.ndim)[axis]  # the windows come after x's axes
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis)
    return np.moveaxis(np.moveaxis(windows, axis, 0)[::step], 0, axis)


def _unfold_dx(x, *, axis, size, step, shape):
    y = np.zeros(shape, x.dtype)
    places = _unfold(np.arange(y.size).reshape(shape), axis, size, step)
    if x.shape != places.shape:
        raise ValueError("one place for each element")
    np.add.at(y.reshape(-1), places, x)
    return y


shaped(
    "unfold",
    [
        ((6,), {"axis": 0, "size": 3}),
        ((2, 7), {"axis": 1, "size": 3, "step": 2}),
        ((5, 2), {"axis": 0, "size": 4}),
        ((2, 9), {"axis": 1, "size": 4, "step": 5}),
    ],
    _unfold,
    errors=[ErrorSample("size", (np.ones(3),), ValueError, "does not fit", {"axis": 0, "size": 4})],
)
shaped(
    "unfold_dx",
    [
        ((4, 3), {"axis": 0, "size": 3, "step": 1, "shape": (6,)}),
        ((2, 3, 3), {"axis": 1, "size": 3, "step": 2, "shape": (2, 7)}),
        ((2, 2, 4), {"axis": 0, "size": 4, "step": 1, "shape": (5, 2)}),
        ((2, 2, 4), {"axis": 1, "size": 4, "step": 5, "shape": (2, 9)}),
    ],
    _unfold_dx,
)
shaped(
    "sliding_window_view",
    [((5,), {"window_shape": 2}), ((4, 5), {"window_shape": (2, 3)}),
     ((4, 5), {"window_shape": 3, "axis": 1})],
    np.lib.stride_tricks.sliding_window_view,
)  # fmt: skip
