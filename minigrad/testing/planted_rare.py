"""Wrong rules that few calls reveal: in memory of another kind, in other axes, when not wanted."""

from threading import current_thread, main_thread

import numpy as np

from ..engine.backward import unbroadcast
from .plant import (
    OFF,
    PRODUCT,
    SINE,
    Plant,
    both_dx,
    numbers,
    pairs,
    plant,
    sine_off,
    times,
    vectors,
)
from .spec import Sample

_kept: list = []


def _with_graph(wrong):
    """The sine's rule, off by 0.1 % where wrong(x) is true of tensors."""
    return {
        "x": lambda g, x: g * np.cos(x) * (OFF if hasattr(x, "node") and wrong(x) else 1.0),
    }


def _in_wide_rows(a):
    scattered = not a.flags.c_contiguous and not a.flags.f_contiguous
    return a.ndim > 1 and scattered and a.strides[-1] == a.itemsize


def _is_permuted(a):
    return a.ndim == 3 and a.strides[0] < a.strides[1] > a.strides[2]


def _ascends(x):
    return isinstance(x, np.ndarray) and x.size > 4 and bool((np.diff(x.reshape(-1)) > 0).all())


def _squares(x, axis=0, keepdims=False):
    return np.square(x).sum(axis=axis, keepdims=keepdims)


def _squares_dx(g, x, axis, keepdims):
    if x.ndim and not keepdims and axis is not None:
        g = np.expand_dims(g, axis)
    return 2 * x * g if x.ndim else 2 * x * g.reshape(())


def _off_where(wrong):
    """The rule of the sum of squares, off by 0.1 % where wrong(axis, keepdims) is true."""

    def rule(g, x, axis, keepdims):
        return _squares_dx(g, x, axis, keepdims) * (OFF if wrong(axis, keepdims) else 1.0)

    return {"x": rule}


def _refusing(g, x, axis, keepdims):
    if axis is None:
        raise TypeError("axis must be an integer or a tuple")
    return _squares_dx(g, x, axis, keepdims)


def _first_axis(rng, dtype):
    yield Sample("axis 0", (numbers(rng, dtype, (3, 3)),), {"axis": 0})


def _squares_with_jvp(entry):
    def rule(x_t, x, axis, keepdims):
        off = "wrong" in entry.name and isinstance(axis, int) and axis < 0
        return (2 * x * x_t * (OFF if off else 1.0)).sum(axis=axis, keepdims=keepdims)

    entry.jvp(rule)
    return entry


def _sine_with_jvp(wrong):
    """Forward mode of the sine by a rule: cos x times wrong(x_t, x) of the tangent."""

    def adapt(entry):
        right = "right" in entry.name
        entry.jvp(lambda x_t, x: np.cos(x) * (x_t if right else wrong(x_t, x)))
        return entry

    return adapt


def _fails_if_empty(x_t, x):
    return x_t if x.size else x_t.reshape(-1)[np.array([0])]


def _widens(x_t, x):
    return x_t.astype(np.float64)


def _product_off(wrong):
    """The product's rules, off by 0.1 % in the first where wrong(a, b) is true."""

    def rule(g, a, b, a_shape):
        return unbroadcast(g * b, a_shape) * (OFF if wrong(a, b) else 1.0)

    return {**PRODUCT, "a": rule}


def _differ_in_the_middle(a, b):
    return a.ndim == b.ndim == 3 and a.shape[1] != b.shape[1]


def _with_tied_tangents(entry):
    def rule(a, b, a_t, b_t):
        off = "wrong" in entry.name and a is b
        t = (0.0 if a_t is None else a_t * b) + (0.0 if b_t is None else a * b_t)
        return t * (OFF if off else 1.0)

    entry.jvp(rule)
    return entry


def _three(x):
    return np.sin(x), np.cos(x), np.square(x)


def _three_dx(g, x):
    last = 0.0 if g[2] is None else 2 * g[2] * x
    return both_dx((g[0], g[1]), x) + last


def _three_off(wrong):
    def rule(g, x):
        off = wrong(sum(t is None for t in (g[0], g[1], g[2])), hasattr(x, "node"))
        return _three_dx(g, x) * (OFF if off else 1.0)

    return {"x": rule}


def _volume(a, b, c):
    if not np.shape(a) == np.shape(b) == np.shape(c):
        raise ValueError("a, b and c must have the same shape")
    return a * b * c


def _volume_dx(g, a, b, c, needs):
    return [g * b * c, g * a * c, g * a * b]


def _volume_off(g, a, b, c, needs):
    return [x * (OFF if sum(needs) == 2 else 1.0) for x in _volume_dx(g, a, b, c, needs)]


def _volume_of_one(g, a, b, c, needs):
    return [x * (OFF if a is b and b is c else 1.0) for x in _volume_dx(g, a, b, c, needs)]


def _three_arguments(rng, dtype):
    yield Sample("three", tuple(numbers(rng, dtype, 4) for _ in range(3)))


def _kept_sine(x):
    y = np.sin(x)
    _kept.append(y)
    return y


def _cut(g, x):
    small = np.clip(g, -1e6, 1e6) if isinstance(g, np.ndarray) else g
    return small * np.cos(x)


def _mended(g, x):
    return (np.nan_to_num(g) if isinstance(g, np.ndarray) else g) * np.cos(x)


_AXES = {"forward": _squares, "arrays": ("x",), "defaults": {"axis": 0, "keepdims": False}}

RARE: list[Plant] = [
    plant(
        "wide rows", "wrong for a cotangent in rows of a wider array", forward=np.sin, right=SINE,
        wrong=sine_off(lambda g, x: _in_wide_rows(g)), samples=vectors((3, 4)),
    ),
    plant(
        "input in wide rows", "wrong for an argument in rows of a wider array", forward=np.sin,
        right=SINE, wrong=sine_off(lambda g, x: _in_wide_rows(x)), samples=vectors((3, 4)),
    ),
    plant(
        "permuted input", "wrong for an argument whose first two axes memory has the other way",
        forward=np.sin, right=SINE, wrong=sine_off(lambda g, x: _is_permuted(x)),
        samples=vectors((2, 3, 2)),
    ),
    plant(
        "repeated row", "wrong for a cotangent whose rows are one and the same", forward=np.sin,
        wrong=sine_off(lambda g, x: 0 in g.strides and any(g.strides)), right=SINE,
        samples=vectors((3, 4)),
    ),
    plant(
        "odd address", "wrong for a cotangent at an odd address", forward=np.sin, right=SINE,
        wrong=sine_off(lambda g, x: not g.flags.aligned), samples=vectors(5),
    ),
    plant(
        "NaN swallowed", "a cotangent of NaN becomes 0", forward=np.sin, right=SINE,
        wrong={"x": _mended}, samples=vectors(5),
    ),
    plant(
        "cut", "cotangents are cut at a million", forward=np.sin, right=SINE, wrong={"x": _cut},
        samples=vectors(5),
    ),
    plant(
        "other thread", "wrong in any thread but the main one", forward=np.sin, right=SINE,
        wrong=sine_off(lambda g, x: current_thread() is not main_thread()), samples=vectors(5),
    ),
    plant(
        "axis None", "wrong over all axes, as in no sample", **_AXES, right={"x": _squares_dx},
        wrong=_off_where(lambda axis, keepdims: axis is None), samples=_first_axis,
    ),
    plant(
        "axis refused", "raises over all axes, which op and reference take", forward=_squares,
        arrays=("x",), defaults={"axis": None, "keepdims": False}, right={"x": _squares_dx},
        wrong={"x": _refusing}, samples=_first_axis,
    ),
    plant(
        "several axes", "wrong over several axes, as in no sample", **_AXES,
        right={"x": _squares_dx}, samples=_first_axis,
        wrong=_off_where(lambda axis, keepdims: isinstance(axis, tuple) and len(axis) > 1),
    ),
    plant(
        "axes kept", "wrong with keepdims=True, as in no sample", **_AXES, samples=_first_axis,
        right={"x": _squares_dx}, wrong=_off_where(lambda axis, keepdims: keepdims),
    ),
    plant(
        "tangent's axis", "the jvp rule is wrong for a negative axis", **_AXES,
        right={"x": _squares_dx}, wrong={"x": _squares_dx}, samples=_first_axis,
        call=_squares_with_jvp,
    ),
    plant(
        "empty tangent", "the jvp rule fails on arrays without elements", forward=np.sin,
        right=SINE, wrong=SINE, samples=vectors(5), call=_sine_with_jvp(_fails_if_empty),
    ),
    plant(
        "tangent's dtype", "the jvp rule answers float32 in float64", forward=np.sin, right=SINE,
        wrong=SINE, samples=vectors(5), call=_sine_with_jvp(_widens),
        dtypes=("float64", "float32"),
    ),
    plant(
        "tangent cut", "the jvp rule cuts tangents at 1,000", forward=np.sin, right=SINE,
        wrong=SINE, samples=vectors(5),
        call=_sine_with_jvp(lambda x_t, x: np.minimum(np.maximum(x_t, -1e3), 1e3)),
    ),
    plant(
        "tied tangents", "the jvp rule is wrong where both arguments are one tensor",
        forward=times, right=PRODUCT, wrong=PRODUCT, samples=pairs(((4,), (4,))),
        call=_with_tied_tangents,
    ),
    plant(
        "three tied", "wrong where three arguments are one tensor", forward=_volume,
        arrays=("a", "b", "c"), samples=_three_arguments, right={"joint": _volume_dx},
        wrong={"joint": _volume_of_one},
    ),
    plant(
        "large tangent", "the jvp rule is wrong for an argument above 2.5, as in no sample",
        forward=np.sin, right=SINE, wrong=SINE, samples=vectors(8),
        call=_sine_with_jvp(lambda x_t, x: x_t * np.where(np.abs(x) > 2.5, OFF, 1.0)),
    ),
    plant(
        "in order", "wrong for elements in ascending order, as in no sample",
        forward=lambda x: np.sum(np.square(x)), right={"x": lambda g, x: g * (2 * x)},
        wrong={"x": lambda g, x: g * (2 * x) * (OFF if _ascends(x) else 1.0)},
        samples=vectors(8),
    ),
    plant(
        "middle of the broadcast", "wrong along a middle axis that an op of its own broadcasts",
        forward=times, right=PRODUCT, wrong=_product_off(_differ_in_the_middle),
        samples=pairs(((4,), (4,)), ((3, 1), (3, 4))),
    ),
    plant(
        "mixed dtypes", "wrong for float32 with float64", forward=times, right=PRODUCT,
        wrong=_product_off(lambda a, b: a.dtype != b.dtype), samples=pairs(((4,), (4,))),
        dtypes=("float64", "float32"),
    ),
    plant(
        "one of three unused", "wrong where one of three results is not used", forward=_three,
        outputs=3, samples=vectors(5), right={"x": _three_dx},
        wrong=_three_off(lambda unused, graph: unused == 1),
    ),
    plant(
        "unused beside a graph", "wrong with create_graph where a result is not used",
        forward=_three, outputs=3, samples=vectors(5), right={"x": _three_dx},
        wrong=_three_off(lambda unused, graph: unused and graph),
    ),
    plant(
        "two of three", "wrong when two of three arguments need a gradient", forward=_volume,
        arrays=("a", "b", "c"), samples=_three_arguments, right={"joint": _volume_dx},
        wrong={"joint": _volume_off},
    ),
    plant(
        "graph of three axes", "wrong with create_graph for three axes, as in no sample",
        forward=np.sin, right=SINE, samples=vectors(5),
        wrong=_with_graph(lambda x: x.ndim == 3),
    ),
    plant(
        "kept result", "the op keeps its results in a list", forward=np.sin,
        wrong_forward=_kept_sine, right=SINE, wrong=SINE, samples=vectors(5),
    ),
]  # fmt: skip
