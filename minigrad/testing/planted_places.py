"""Wrong rules where few tests look: half a plane, ties, zeros, far from 1."""

import numpy as np

from ..engine.registry import op
from ..modes.recording import set_grad_enabled
from .plant import Plant, make, numbers, pairs, plant, vectors
from .spec import Sample

_SINE = {"x": lambda g, x: g * np.cos(x)}
_OFF = 1 + 1e-3
_kept: dict = {}


def _sine_where(wrong):
    """The sine's partial, off by 0.1 % where wrong(x) is true of elements, for the table."""
    return {"x": lambda g, x: g * np.cos(x) * np.where(wrong(x), _OFF, 1.0)}


def _sine_of_shape(wrong):
    return {"x": lambda g, x: g * np.cos(x) * (_OFF if wrong(x.shape) else 1.0)}


def _product_where(wrong):
    return {
        "a": lambda g, a, b: g * b * np.where(wrong(a, b), _OFF, 1.0),
        "b": lambda g, a: g * a,
    }


_PRODUCT = {"a": lambda g, b: g * b, "b": lambda g, a: g * a}
_ROWS = {"forward": np.multiply, "arrays": ("a", "b"), "kind": "elementwise"}


def _largest_dx(ties):
    return {"x": lambda g, x, y: g * (x == y) / (np.sum(x == y) if ties else 1)}


def _length_dx(at_zero):
    return {"x": lambda g, x, y: g * (x / (np.where(y == 0, 1, y) if at_zero else y))}


def _root(x):
    return np.hypot(x, np.ones_like(x))


def _squares(x, axis=0):
    return np.square(x).sum(axis=axis)


def _squares_dx(wrong):
    def rule(g, x, axis):
        if x.ndim and axis is not None:
            g = np.expand_dims(g, axis)
        return (2 * x * g if x.ndim else (2 * x * g).reshape(())) * (_OFF if wrong(axis) else 1.0)

    return {"x": rule}


def _cosine_by_size(x):
    """cos x, from 3,000 elements on in steps with another rounding."""
    return np.cos(x) if np.size(x) < 3000 else 1 - 2 * np.square(np.sin(x * 0.5))


def _if_any(function):
    """The function, by an `if` on its values: both branches are right, but vmap cannot choose
    one."""
    return lambda x: function(x) if (x < 9).any() else function(x.copy())


_cosine = make(
    "cosine", np.cos, {"x": lambda g, x: -g * _if_any(np.sin)(x)}, {"kind": "elementwise"}
)


def _first_axis(rng, dtype):
    yield Sample("axis 0", (numbers(rng, dtype, (3, 3)),), {"axis": 0})


def _into_the_same(g, x):
    """The product in an array that the next call overwrites."""
    if not isinstance(x, np.ndarray):
        return g * np.cos(x)
    kept = _kept.setdefault((x.shape, x.dtype), np.empty_like(x))
    return np.multiply(g, np.cos(x), out=kept)


def _result_in_the_same(x):
    kept = _kept.setdefault(("result", np.shape(x)), np.empty(np.shape(x)))
    return np.sin(x, out=kept)


def _leaving_recording_off(g, x):
    if isinstance(x, np.ndarray):
        set_grad_enabled(False)
    return g * np.cos(x)


def _with_jvp(entry):
    """Tangents of NaN are 0 in the wrong one."""
    mend = np.nan_to_num if "wrong" in entry.name else np.positive
    entry.jvp(lambda x_t, x: np.cos(x) * mend(x_t))
    return entry


def _with_batch_rule(entry):
    """If there are as many examples as a row is long, the wrong one takes them for another row."""

    def rule(op, xs, batched, params):
        y = op(*xs, **params)
        square = y.ndim == 2 and y.shape[0] == y.shape[1] > 3
        return y * _OFF if "wrong" in entry.name and square else y

    entry.batch(rule)
    return entry


PLACES: list[Plant] = [
    plant(
        "lower half plane", "wrong for complex numbers below the real axis, as in no sample",
        forward=np.sin, kind="elementwise", samples=vectors(5), dtypes=("complex128",),
        wrong=_sine_where(lambda x: np.imag(x) < 0), right=_sine_where(lambda x: x != x),
    ),
    plant(
        "from 3 to 4", "wrong between 3 and 4, as in no sample", forward=np.sin, samples=vectors(5),
        kind="elementwise", wrong=_sine_where(lambda x: (x > 3) & (x < 4)), right=_SINE,
    ),
    plant(
        "beyond 100,000", "wrong for elements beyond 100,000, as in no sample", forward=np.sin,
        kind="elementwise", wrong=_sine_where(lambda x: x < -1e5), right=_SINE, samples=vectors(5),
    ),
    plant(
        "one half", "wrong where the second argument is ½", **_ROWS, right=_PRODUCT,
        wrong=_product_where(lambda a, b: b == 0.5), samples=pairs(((5,), (5,))),
    ),
    plant(
        "minus one", "wrong where the second argument is −1", **_ROWS, right=_PRODUCT,
        wrong=_product_where(lambda a, b: b == -1), samples=pairs(((5,), (5,))),
    ),
    plant(
        "range of single", "√(1 + x²) in the rule is infinite in float32 for an x of 10³⁰",
        forward=_root, kind="elementwise", samples=vectors(5), dtypes=("float64", "float32"),
        wrong={"x": lambda g, x: g * x / np.sqrt(1 + x * x)},
        right={"x": lambda g, x: g * op.hypot_slope(x, 1.0)},
    ),
    plant(
        "a single element", "wrong for one element with an axis", forward=np.sin, right=_SINE,
        kind="elementwise", wrong=_sine_of_shape(lambda shape: shape == (1,)), samples=vectors(5),
    ),
    plant(
        "column", "wrong for a column, as in no sample", forward=np.sin, kind="elementwise",
        wrong=_sine_of_shape(lambda s: len(s) == 2 and s[1] == 1 < s[0]), right=_SINE,
        samples=vectors(5),
    ),
    plant(
        "tied maxima", "each of several tied maxima is given all of it, and no point is stated",
        forward=np.max, wrong=_largest_dx(False), right=_largest_dx(True), samples=vectors(6),
    ),
    plant(
        "length of zero", "0/0 in the gradient of √Σx² at 0, and no point is stated",
        forward=lambda x: op.vector_norm(x), reference=np.linalg.norm, wrong=_length_dx(False),
        right=_length_dx(True), samples=vectors(5),
    ),
    plant(
        "no axes at all", "wrong for axis=(), as in no sample", forward=_squares, arrays=("x",),
        defaults={"axis": 0}, samples=_first_axis, right=_squares_dx(lambda axis: False),
        wrong=_squares_dx(lambda axis: axis == ()),
    ),
    plant(
        "written again", "a rule returns an array that its next call writes again", forward=np.sin,
        wrong={"x": _into_the_same}, right=_SINE, samples=vectors(5),
    ),
    plant(
        "result written again", "the op returns an array that its next call writes again",
        forward=np.sin, wrong_forward=_result_in_the_same, wrong=_SINE, right=_SINE,
        samples=vectors(5),
    ),
    plant(
        "recording off", "a rule turns recording off, and leaves it so", forward=np.sin,
        wrong={"x": _leaving_recording_off}, right=_SINE, samples=vectors(5),
    ),
    plant(
        "tangent of NaN", "forward mode turns a tangent of NaN into 0", forward=np.sin, right=_SINE,
        wrong=_SINE, samples=vectors(5), call=_with_jvp,
    ),
    plant(
        "square batch", "vmap is wrong for as many examples as an example is long", forward=np.sin,
        right=_SINE, wrong=_SINE, samples=vectors(4), call=_with_batch_rule,
    ),
    plant(
        "if on values", "a rule with an `if` on its values, which vmap refuses", forward=np.sin,
        kind="elementwise", right=_SINE, wrong={"x": lambda g, x: g * _if_any(np.cos)(x)},
        samples=vectors(5),
    ),
    plant(
        "if in the second", "vmap refuses the second derivative alone", forward=np.sin,
        kind="elementwise", right=_SINE, wrong={"x": lambda g, x: g * _cosine(x)},
        samples=vectors(5),
    ),
    plant(
        "steps by size", "a rule that computes many elements in other steps than few, both right",
        forward=np.sin, kind="elementwise", right=_SINE, samples=vectors(5),
        wrong={"x": lambda g, x: g * _cosine_by_size(x)},
    ),
    plant(
        "column of three axes", "wrong where the last of three axes has length 1",
        forward=np.sin, right=_SINE, samples=vectors(3, (2, 3)),
        wrong=_sine_of_shape(lambda shape: len(shape) == 3 and shape[-1] == 1),
    ),
    plant(
        "seven elements", "wrong for five elements and for seven, fewer than a block of eight",
        forward=np.sin, right=_SINE, samples=vectors(3, 40),
        wrong=_sine_of_shape(lambda shape: np.prod(shape) in (5, 7)),
    ),
    plant(
        "whole cache lines", "wrong for a multiple of 64 elements", forward=np.sin,
        right=_SINE, samples=vectors(3, 40),
        wrong=_sine_of_shape(lambda shape: 0 not in shape and np.prod(shape) % 64 == 0),
    ),
    plant(
        "130 columns", "wrong for a matrix of more than 128 columns", forward=np.sin,
        right=_SINE, samples=vectors(3, (2, 3)),
        wrong=_sine_of_shape(lambda shape: len(shape) == 2 and shape[1] > 128),
    ),
]  # fmt: skip
