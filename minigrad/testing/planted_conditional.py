"""Wrong rules that are right most of the time: wrong for one parameter, shape, dtype or order."""

import numpy as np

from ..engine.primitive import Primitive
from ..tensor_api.tensor import Tensor
from .plant import Plant, both, both_dx, numbers, pairs, plant, vectors
from .spec import Sample

_SINE = {"x": lambda g, x: g * np.cos(x)}
_OFF = 1 + 1e-3


def _along_axes(**params):
    """A square matrix for the op, along its axes 0 and −1; further parameters with the second."""

    def samples(rng, dtype):
        for axis, more in ((0, {}), (-1, params)):
            yield Sample(f"axis {axis}", (numbers(rng, dtype, (3, 3)),), {"axis": axis, **more})

    return samples


def _positive(rng, dtype):
    yield Sample("positive", (np.abs(numbers(rng, dtype, 9)) + 0.5,))


def _sum(x, axis=0):
    return np.moveaxis(x, axis, 0).sum(axis=0)


def _sum_dx(g, x_shape, axis):
    return np.broadcast_to(np.expand_dims(g, axis), x_shape)


def _off_along_a_middle_axis(g, x_shape, axis):
    c = _sum_dx(g, x_shape, axis)
    return c * _OFF if 0 < axis % len(x_shape) < len(x_shape) - 1 else c


def _mean(x, axis=0, keepdims=False):
    return x.mean(axis=axis, keepdims=keepdims)


def _mean_dx(g, x_shape, axis, keepdims):
    g = g if keepdims else np.expand_dims(g, axis)
    return np.broadcast_to(g, x_shape) / x_shape[axis]


def _mean_dx_of_all(g, x_shape, axis, keepdims):
    c = _mean_dx(g, x_shape, axis, keepdims)
    return c / x_shape[0] if keepdims else c


def _contiguous_alone(g, x):
    scattered = isinstance(g, np.ndarray) and not g.flags.c_contiguous
    return g * np.cos(x) * (_OFF if scattered else 1.0)


def _times(a, b):
    if np.shape(a) != np.shape(b):
        raise ValueError("a and b must have the same shape")
    return a * b


def _product(g, a, b, needs):
    return [g * b if needs[0] else None, g * a if needs[1] else None]


def _product_for_both(g, a, b, needs):
    return _product(g, a, b, needs) if all(needs) else [g * _OFF * b, g * _OFF * a]


def _product_for_one(g, a, b, needs):
    return [g * b * _OFF, g * a] if all(needs) else _product(g, a, b, needs)


def _when(wrong):
    """The sine's rule, off by 0.1 % where wrong(g, x) is true."""
    return {"x": lambda g, x: g * np.cos(x) * (_OFF if wrong(g, x) else 1.0)}


def _value_alone(g, x):
    """The right value with a wrong derivative: the added term is zero."""
    zero = x - Tensor(x.data) if isinstance(x, Tensor) else 0.0
    return g * (np.cos(x) + 0.1 * zero)


def _writing(g, x):
    c = g * np.cos(x)
    if isinstance(x, np.ndarray):
        np.negative(x, out=x)
    return c


def _flattened_when_empty(g, x):
    c = g * np.cos(x)
    return c if x.size else c.reshape(-1)


def _both_when_used(g, x):
    return both_dx(g, x) * (_OFF if g[0] is None or g[1] is None else 1.0)


def _with_jvp(entry: Primitive) -> Primitive:
    factor = _OFF if "wrong" in entry.name else 1.0
    entry.jvp(lambda x_t, x: x_t * np.cos(x) * factor)
    return entry


CONDITIONAL: list[Plant] = [
    plant(
        "negative axis", "axis=-1 is taken for axis 0", forward=_sum, arrays=("x",),
        defaults={"axis": 0}, samples=_along_axes(), right={"x": _sum_dx},
        wrong={"x": lambda g, x_shape, axis: _sum_dx(g, x_shape, max(axis, 0))},
    ),
    plant(
        "middle axis", "wrong along an axis that is neither the first nor the last", forward=_sum,
        arrays=("x",), defaults={"axis": 0}, samples=_along_axes(), right={"x": _sum_dx},
        wrong={"x": _off_along_a_middle_axis},
    ),
    plant(
        "keepdims alone", "a mean divides by the size of all axes where keepdims=True",
        forward=_mean, arrays=("x",), defaults={"axis": 0, "keepdims": False},
        samples=_along_axes(keepdims=True), right={"x": _mean_dx}, wrong={"x": _mean_dx_of_all},
    ),
    plant(
        "scattered", "wrong for a cotangent that is not contiguous", forward=np.sin,
        wrong={"x": _contiguous_alone}, right=_SINE, samples=vectors((3, 4)),
    ),
    plant(
        "both", "wrong when both arguments need a gradient", forward=_times,
        arrays=("a", "b"), wrong={"joint": _product_for_one}, right={"joint": _product},
        samples=pairs(((5,), (5,))),
    ),
    plant(
        "one alone", "wrong when only one of two arguments needs a gradient", forward=_times,
        arrays=("a", "b"), wrong={"joint": _product_for_both}, right={"joint": _product},
        samples=pairs(((5,), (5,))),
    ),
    plant(
        "float32", "wrong in float32 alone", forward=np.sin, right=_SINE,
        wrong=_when(lambda g, x: x.dtype == np.float32), samples=vectors(5),
        dtypes=("float64", "float32"),
    ),
    plant(
        "half precision", "off by 10 % in float16 alone, in less than the rounding of a long sum",
        forward=np.sin, right=_SINE, samples=vectors(5, 1000), dtypes=("float64", "float16"),
        wrong={"x": lambda g, x: g * np.cos(x) * (1.1 if x.dtype == np.float16 else 1.0)},
    ),
    plant(
        "large", "wrong for an argument above 4, of which there is no sample", forward=np.multiply,
        kind="elementwise", arrays=("a", "b"), samples=pairs(((5,), (5,))),
        right={"a": lambda g, b: g * b, "b": lambda g, a: g * a},
        wrong={"a": lambda g, b: g * b * np.where(b > 4, _OFF, 1.0), "b": lambda g, a: g * a},
    ),
    plant(
        "at zero", "wrong at zero alone, which is no kink and in no sample", forward=np.sin,
        kind="elementwise", samples=vectors(5), right=_SINE,
        wrong={"x": lambda g, x: g * np.cos(x) * np.where(x == 0, _OFF, 1.0)},
    ),
    plant(
        "equal elements", "wrong where two elements are equal, which is no kink",
        forward=lambda x: np.sum(np.square(x)), right={"x": lambda g, x: g * (2 * x)},
        wrong={"x": lambda g, x: g * (2 * x) * (_OFF if np.unique(x).size < x.size else 1.0)},
        samples=vectors(5),
    ),
    plant(
        "negative sum", "wrong where the elements sum to less than −5, as no sample does",
        forward=lambda x: np.sum(np.square(x)), right={"x": lambda g, x: g * (2 * x)},
        wrong={"x": lambda g, x: g * (2 * x) * (_OFF if x.sum() < -5 else 1.0)},
        samples=_positive,
    ),
    plant(
        "0-d", "wrong for an argument without axes, of which there is no sample", forward=np.sin,
        kind="elementwise", wrong=_when(lambda g, x: x.ndim == 0), right=_SINE,
        samples=vectors(5),
    ),
    plant(
        "no axis", "a sum of squares that is wrong for a number, of which there is no sample",
        forward=lambda x: np.sum(np.square(x)), right={"x": lambda g, x: g * (2 * x)},
        wrong={"x": lambda g, x: g * (2 * x) * (_OFF if x.ndim == 0 else 1.0)},
        samples=vectors(5),
    ),
    plant(
        "empty shape", "the gradient of an array without elements loses its axes", forward=np.sin,
        wrong={"x": _flattened_when_empty}, right=_SINE, samples=vectors(5),
    ),
    plant(
        "negative cotangent", "a rule that is wrong for negative cotangents", forward=np.sin,
        wrong={"x": lambda g, x: np.where(g < 0, g * _OFF, g) * np.cos(x)}, right=_SINE,
        samples=vectors(5, 100),
    ),
    plant(
        "divides", "a rule that divides by the cotangent", forward=np.sin,
        wrong={"x": lambda g, x: np.square(g) * np.cos(x) / g}, right=_SINE, samples=vectors(5),
    ),
    plant(
        "second order", "the right gradient, which has a wrong derivative", forward=np.sin,
        wrong={"x": _value_alone}, right=_SINE, samples=vectors(5),
    ),
    plant(
        "forward mode", "the jvp rule is wrong, the vjp rule right", forward=np.sin, wrong=_SINE,
        right=_SINE, samples=vectors(5), call=_with_jvp,
    ),
    plant(
        "writes what it saved", "a rule negates its saved input in place", forward=np.sin,
        wrong={"x": _writing}, right=_SINE, samples=vectors(5),
    ),
    plant(
        "permuted", "right but for two axes of the same size that change places", forward=np.sin,
        wrong={"x": lambda g, x: (g * np.cos(x)).transpose(1, 0, 2)}, right=_SINE,
        samples=vectors((3, 3, 2)),
    ),
    plant(
        "unused result", "wrong where one of two results is not used", forward=both, outputs=2,
        wrong={"x": _both_when_used}, right={"x": both_dx}, samples=vectors(5),
    ),
]  # fmt: skip
