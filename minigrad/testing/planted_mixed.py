"""Wrong rules that arguments of one kind do not show: in mixed dtypes, in shared memory."""

import numpy as np

from .plant import Plant, numbers, plant
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
    """A factor is missing where a comes in half precision and g does not."""
    return g * a * (1.5 if _is_half(a) and not _is_half(g) else 1.0)


def _conjugate_by_the_first(g, a, b):
    return g * (np.conj(b) if a.dtype.kind == "c" else b)


_PRODUCT = {"a": lambda g, b: g * np.conj(b), "b": lambda g, a: g * np.conj(a)}
_QUOTIENT = {"a": lambda g, b: g / b, "b": lambda g, a, b: -g * a / (b * b)}

MIXED: list[Plant] = [
    plant(
        "half beside single", "wrong for float16 beside float32", forward=_alike(np.multiply),
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
]  # fmt: skip
