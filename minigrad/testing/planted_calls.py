"""Wrong rules that one small call does not reveal: under transforms, between calls, at a size."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.primitive import Primitive
from .plant import Plant, numbers, pairs, plant, vectors
from .spec import Sample

_SINE = {"x": lambda g, x: g * np.cos(x)}
_OFF = 1 + 1e-3
_last: list = [None]  # the state of the plant "last call"
_first: dict[tuple, Any] = {}  # and of the plant "first call"


def _with_batch_rule(entry: Primitive) -> Primitive:
    """vmap runs it on the whole batch; the wrong one takes the examples in reverse."""
    wrong = "wrong" in entry.name
    entry.batch(lambda op, xs, batched, params: op(xs[0][::-1] if wrong else xs[0]))
    return entry


def _summed(x, axis=0):
    return np.moveaxis(x, axis, 0).sum(axis=0)


def _with_axis_batch(entry: Primitive) -> Primitive:
    """In a batch the axis has a number higher by one; the wrong rule also shifts one counted from
    the end."""

    def rule(op, xs, batched, params):
        axis = params["axis"]
        from_the_end = axis < 0 and "wrong" not in entry.name
        return op(xs[0], axis=axis if from_the_end else axis + 1)

    entry.batch(rule)
    return entry


def _along_its_first_axis(rng, dtype):
    yield Sample("axis 0", (numbers(rng, dtype, (3, 3)),), {"axis": 0})


def _times(a, b):
    if np.shape(a) != np.shape(b):
        raise ValueError("a and b must have the same shape")
    return a * b


def _with_product_batch(wrong_if: Callable) -> Callable:
    """vmap runs it on the whole batch, wrongly if wrong_if(batched)."""

    def adapt(entry: Primitive) -> Primitive:
        def rule(op, xs, batched, params):
            off = "wrong" in entry.name and wrong_if(batched)
            a, b = xs
            shape = (a if batched[0] else b).shape
            return op(a + np.zeros(shape), b + np.zeros(shape)) * (_OFF if off else 1.0)

        entry.batch(rule)
        return entry

    return adapt


def _with_product_jvp(wrong_if: Callable) -> Callable:
    """Forward mode by a rule, wrongly if wrong_if(a, a_t, b_t)."""

    def adapt(entry: Primitive) -> Primitive:
        def rule(a, b, a_t, b_t):
            off = "wrong" in entry.name and wrong_if(a, a_t, b_t)
            t = (0.0 if a_t is None else a_t * b) + (0.0 if b_t is None else a * b_t)
            return t * (_OFF if off else 1.0)

        entry.jvp(rule)
        return entry

    return adapt


def _with_counts_batch(entry: Primitive) -> Primitive:
    """vmap of integers; the wrong one uses those of the first example for all."""

    def rule(op, xs, batched, params):
        a, n = xs
        n = n[:1] if batched[1] and "wrong" in entry.name else n
        shape = (a if batched[0] else xs[1]).shape
        return op(a + np.zeros(shape), n + np.zeros(shape, int))

    entry.batch(rule)
    return entry


def _with_counts(rng, dtype):
    yield Sample("counts", (numbers(rng, dtype, 3), np.array([4, 1, 2])))


_PRODUCT = {"a": lambda g, b: g * b, "b": lambda g, a: g * a}

_cosine = Primitive(np.cos, "a cosine", ["x"])
_cosine.vjp("x")(lambda g, x: -g * np.sin(x))
_cosine.jvp(lambda x_t, x: -x_t * np.sin(x) * _OFF)


def _noting(x):
    _last[0] = x
    return np.sin(x)


def _of_last(g, x):
    return g * np.cos(x if hasattr(g, "node") else _last[0])


def _of_first(g, x):
    values = x.data if hasattr(x, "node") else x
    return g * _first.setdefault(x.shape, np.cos(values))


def _two_axes_hidden(x):
    hidden = 0
    while hasattr(x, "level"):
        hidden += getattr(x, "hides_axis", False)
        x = x._data
    return hidden > 1


def _with_detached_tangents(op):
    wrong = "wrong" in op.name
    op.jvp(lambda x_t, x: x_t * np.cos(x.detach() if wrong and hasattr(x, "node") else x))
    return op


def _sine_off(where):
    """The sine's rule, off by 0.1 % for cotangents selected by where(g)."""

    def rule(g, x):
        found = isinstance(g, np.ndarray) and g.size > 0 and where(np.abs(g))
        return g * np.cos(x) * (_OFF if found else 1)

    return {"x": rule}


def _shared(g, x):
    """A maximum's gradient, shared by tied elements."""
    largest = x == x.max()
    return g * largest / np.sum(largest)


CALLS: list[Plant] = [
    plant(
        "batch rule", "vmap gives one example the result of another", forward=np.sin,
        wrong=_SINE, right=_SINE, samples=vectors(5), call=_with_batch_rule,
    ),
    plant(
        "batched axis", "vmap is wrong where an axis is counted from the end, as in no sample",
        forward=_summed, arrays=("x",), defaults={"axis": 0}, samples=_along_its_first_axis,
        wrong={"x": lambda g, x_shape, axis: np.broadcast_to(np.expand_dims(g, axis), x_shape)},
        right={"x": lambda g, x_shape, axis: np.broadcast_to(np.expand_dims(g, axis), x_shape)},
        call=_with_axis_batch,
    ),
    plant(
        "batched beside", "vmap is wrong where one of two arguments is the same for all examples",
        forward=_times, arrays=("a", "b"), wrong=_PRODUCT, right=_PRODUCT,
        samples=pairs(((4,), (4,))), call=_with_product_batch(lambda batched: not all(batched)),
    ),
    plant(
        "batched index", "vmap takes the integers of the first example for all",
        forward=_times, arrays=("a", "n"), constants=("n",), wrong={"a": lambda g, n: g * n},
        right={"a": lambda g, n: g * n}, samples=_with_counts, call=_with_counts_batch,
    ),
    plant(
        "one tangent", "the jvp rule is wrong where only one of two arguments moves",
        forward=_times, arrays=("a", "b"), wrong=_PRODUCT, right=_PRODUCT,
        samples=pairs(((4,), (4,))),
        call=_with_product_jvp(lambda a, a_t, b_t: a_t is None or b_t is None),
    ),
    plant(
        "narrow tangent", "the jvp rule is wrong in float32 alone", forward=_times,
        arrays=("a", "b"), wrong=_PRODUCT, right=_PRODUCT, samples=pairs(((4,), (4,))),
        call=_with_product_jvp(lambda a, a_t, b_t: a.dtype == np.float32),
        dtypes=("float64", "float32"),
    ),
    plant(
        "forward over reverse", "a rule calls an op whose jvp rule is wrong, its vjp rule right",
        forward=np.sin, wrong={"x": lambda g, x: g * _cosine(x)}, right=_SINE, samples=vectors(5),
    ),
    plant(
        "last call", "the rule uses the argument of the last call, its own or another",
        forward=np.sin, wrong_forward=_noting, wrong={"x": _of_last}, right=_SINE,
        samples=vectors(5),
    ),
    plant(
        "first call", "the rule keeps the partial of the first call of each shape",
        forward=np.sin, wrong={"x": _of_first}, right=_SINE, samples=vectors(5),
    ),
    plant(
        "beyond a size", "wrong from 100,000 elements on, where blocks begin", forward=np.sin,
        kind="elementwise", right=_SINE, samples=vectors(5),
        wrong={"x": lambda g, x: g * np.cos(x) * (_OFF if x.size > 100_000 else 1.0)},
    ),
    plant(
        "long axis", "a sum of squares that is wrong from 65,536 elements on, as no sample has",
        forward=lambda x: np.sum(np.square(x)), right={"x": lambda g, x: g * (2 * x)},
        wrong={"x": lambda g, x: g * (2 * x) * (_OFF if x.size >= 65_536 else 1.0)},
        samples=vectors(5),
    ),
    plant(
        "many candidates", "a maximum that is wrong from 65,536 elements on, which lie near others",
        forward=np.max, right={"x": _shared},
        wrong={"x": lambda g, x: _shared(g, x) * (_OFF if x.size >= 65_536 else 1.0)},
        samples=vectors(5),
    ),
    plant(
        "nested batches", "wrong under a vmap inside a vmap", forward=np.sin, right=_SINE,
        wrong={"x": lambda g, x: g * np.cos(x) * (_OFF if _two_axes_hidden(x) else 1)},
        samples=vectors(5),
    ),
    plant(
        "reverse over forward", "the jvp rule is right, and has a wrong derivative",
        forward=np.sin, wrong=_SINE, right=_SINE, samples=vectors(5), call=_with_detached_tangents,
    ),
    plant(
        "cotangent of ones", "wrong for a cotangent of ones, as a sum brings", forward=np.sin,
        wrong=_sine_off(lambda g: (g == 1).all()), right=_SINE, samples=vectors(5, 100),
    ),
    plant(
        "large cotangent", "wrong for cotangents above 1,000", forward=np.sin,
        wrong=_sine_off(lambda g: g.max() > 1000), right=_SINE, samples=vectors(5, 100),
    ),
    plant(
        "small cotangent", "wrong for cotangents below 0.001", forward=np.sin,
        wrong=_sine_off(lambda g: g.max() < 1e-3), right=_SINE, samples=vectors(5, 100),
    ),
]  # fmt: skip
