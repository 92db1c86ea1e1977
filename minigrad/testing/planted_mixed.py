"""Wrong rules that arguments of one kind do not reveal: in mixed dtypes, in shared memory."""

import numpy as np

from .plant import Plant, numbers, pairs, plant, vectors
from .spec import Sample

_OFF = 1 + 1e-3


def _alike(function):
    """function of two arguments, which must have the same shape."""

    def checked(a, b):
        if np.shape(a) != np.shape(b):
            raise ValueError("a and b must have the same shape")
        return function(a, b)

    return checked


def _two(rng, dtype):
    yield Sample("two", (numbers(rng, dtype, 4), numbers(rng, dtype, 4)))


def _is_half(x):
    return isinstance(x, np.ndarray) and x.dtype == np.float16


def _beside_half(g, a):
    """A factor is missing if a has half precision and g does not."""
    return g * a * (1.5 if _is_half(a) and not _is_half(g) else 1.0)


def _conjugate_by_the_first(g, a, b):
    return g * (np.conj(b) if a.dtype.kind == "c" else b)


def _dot(a, b):
    if np.ndim(a) != 1 or np.shape(a) != np.shape(b):
        raise ValueError("a and b must be vectors of the same length")
    return np.sum(a * b)


def _dot_dx(g, a, b, needs):
    return [g * b, g * a]


def _is_square(a, b):
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.shares_memory(a, b)


def _square_dx(g, a, b, needs):
    """All of a square's gradient goes to the first argument."""
    return [2 * g * b, 0 * a] if _is_square(a, b) else _dot_dx(g, a, b, needs)


def _square_of_one_dx(g, a, b, needs):
    """The other one is a constant, as x.detach() is to x, and yet the rule takes a square."""
    twice = 2.0 if _is_square(a, b) and not all(needs) else 1.0
    return [c * twice for c in _dot_dx(g, a, b, needs)]


def _sine_off(wrong):
    """The sine's rule, off by 0.1 % where wrong(x) is true of an array."""

    def rule(g, x):
        return g * np.cos(x) * (_OFF if isinstance(x, np.ndarray) and wrong(x) else 1.0)

    return {"x": rule}


def _off_with_graph(dtype):
    """The sine's rule, whose derivative with create_graph lacks its part by x in this dtype."""

    def rule(g, x):
        detached = hasattr(x, "node") and x.dtype == dtype
        return g * np.cos(x.detach() if detached else x)

    return {"x": rule}


def _with_batch_rule(batched):
    """vmap runs the sine as the wrong plant's batched(op, x) does; the right one runs on all at
    once."""

    def adapt(entry):
        def rule(op, xs, where, params):
            return batched(op, xs[0]) if "wrong" in entry.name else op(xs[0])

        entry.batch(rule)
        return entry

    return adapt


def _off_in_single(op, x):
    return op(x) * (_OFF if x.dtype == np.float32 else 1.0)


def _in_fours(op, x):
    """The remainder after groups of four comes from the end; the wrong ones of its group are
    kept."""
    whole, rest = x.shape[0] // 4 * 4, x.shape[0] % 4
    parts = [op(x[i : i + 4]) for i in range(0, whole, 4)]
    last = [op(x[-4:])[:rest]] if whole and rest else [op(x)] if rest else []
    return np.concatenate(parts + last)


def _weighted(x, w=None):
    if w is not None and np.shape(w) != np.shape(x):
        raise ValueError("x and w must have the same shape")
    return np.sin(x) if w is None else np.sin(x) * w


def _weighted_dx(g, x, w):
    return g * np.cos(x) if w is None else g * np.cos(x) * w


def _off_without_weight(g, x, w):
    return _weighted_dx(g, x, w) * (_OFF if w is None else 1.0)


def _with_step_at_zero(entry):
    """Forward mode of max(x, 0): at zero 0 as in reverse mode, but 1 in the wrong one."""
    wrong = "wrong" in entry.name
    entry.jvp(lambda x_t, x: x_t * (x >= 0 if wrong else x > 0))
    return entry


def _off_in_the_tails(g, x):
    return g * np.cos(x) * np.where(np.abs(x) > 50, _OFF, 1.0)


_RELU = {"x": lambda g, x: g * np.logical_not(x <= 0)}
_WEIGHTED = {"x": _weighted_dx, "w": lambda g, x: g * np.sin(x)}
_SINE = {"x": lambda g, x: g * np.cos(x)}
_PRODUCT = {"a": lambda g, b: g * np.conj(b), "b": lambda g, a: g * np.conj(a)}
_QUOTIENT = {"a": lambda g, b: g / b, "b": lambda g, a, b: -g / b * (a / b)}

MIXED: list[Plant] = [
    plant(
        "half beside single", "wrong for float16 with float32", forward=_alike(np.multiply),
        right=_PRODUCT, wrong={**_PRODUCT, "b": _beside_half}, samples=_two,
        dtypes=("float64", "float32", "float16"),
    ),
    plant(
        "real beside complex", "conjugates the second argument where the first is complex",
        forward=_alike(np.multiply), right=_PRODUCT, samples=_two, dtypes=("float64", "complex128"),
        wrong={**_PRODUCT, "a": _conjugate_by_the_first},
    ),
    plant(
        "whole divisor", "the reciprocal of whole numbers is zero", forward=_alike(np.divide),
        right=_QUOTIENT, wrong={**_QUOTIENT, "a": lambda g, b: g * np.reciprocal(b)}, samples=_two,
    ),
    plant(
        "shared memory given", "two arguments in the same memory are taken for one tensor",
        forward=_dot, arrays=("a", "b"), right={"joint": _dot_dx}, wrong={"joint": _square_dx},
        samples=pairs(((5,), (5,))),
    ),
    plant(
        "beside itself detached", "wrong for x with x.detach()", forward=_dot,
        arrays=("a", "b"), right={"joint": _dot_dx}, wrong={"joint": _square_of_one_dx},
        samples=pairs(((5,), (5,))),
    ),
    plant(
        "one number repeated", "wrong for an argument of one number, in memory once",
        forward=np.sin, right=_SINE, wrong=_sine_off(lambda x: x.size > 1 and not any(x.strides)),
        samples=vectors(5),
    ),
    plant(
        "one row repeated", "wrong for an argument whose rows are one and the same",
        forward=np.sin, right=_SINE, wrong=_sine_off(lambda x: 0 in x.strides and any(x.strides)),
        samples=vectors((3, 4)),
    ),
    plant(
        "detached in single", "the second derivative is wrong in float32 alone", forward=np.sin,
        right=_SINE, wrong=_off_with_graph(np.float32), samples=vectors(5),
        dtypes=("float64", "float32"),
    ),
    plant(
        "detached in half", "the second derivative is wrong in float16 alone", forward=np.sin,
        right=_SINE, wrong=_off_with_graph(np.float16), samples=vectors(5),
        dtypes=("float64", "float16"),
    ),
    plant(
        "batch in single", "vmap is wrong in float32 alone", forward=np.sin, right=_SINE,
        wrong=_SINE, samples=vectors(5), call=_with_batch_rule(_off_in_single),
        dtypes=("float64", "float32"),
    ),
    plant(
        "batch in fours", "vmap is wrong for the examples beyond a multiple of four",
        forward=np.sin, right=_SINE, wrong=_SINE, samples=vectors(5),
        call=_with_batch_rule(_in_fours),
    ),
    plant(
        "weight left out", "wrong without an argument that every sample gives", forward=_weighted,
        arrays=("x", "w"), optional=("w",), right=_WEIGHTED, samples=_two,
        wrong={**_WEIGHTED, "x": _off_without_weight},
    ),
    plant(
        "four axes", "wrong for four axes, as in no sample", forward=np.sin, right=_SINE,
        wrong=_sine_off(lambda x: x.ndim == 4), samples=vectors(5),
    ),
    plant(
        "four axes of elements", "a row of the table is wrong for four axes, as in no sample",
        forward=np.sin, right=_SINE, wrong=_sine_off(lambda x: x.ndim == 4), samples=vectors(5),
        kind="elementwise",
    ),
    plant(
        "tangent at a kink", "forward mode has another convention at zero than reverse mode",
        forward=lambda x: np.maximum(x, 0.0), right=_RELU, wrong=_RELU, samples=vectors(5),
        call=_with_step_at_zero,
    ),
    plant(
        "in the tails", "wrong for elements beyond 50, as in no sample", forward=np.sin,
        right=_SINE, wrong={"x": _off_in_the_tails}, samples=vectors(5), kind="elementwise",
    ),
]  # fmt: skip
