"""Wrong rules and forwards whose squares overflow although the results do not."""

import numpy as np

from ..engine.registry import op
from ..ops.axes import widen
from .plant import Plant, plant, vectors


def _length(x):
    return op.vector_norm(x)


def _length_by_squares(x):
    return np.sqrt((x * x).sum())


def _direction(x):
    return x / _length(x)


def _across(length):
    """The rule of x/|x|: the part of g across y, over |x|."""

    def rule(g, x, y):
        return (g - y * (y * g).sum()) / length(x)

    return {"x": rule}


def _length_by_squares_of_halves(x):
    """16-bit numbers in float32, whose range ends where bfloat16's does."""
    return _length_by_squares(widen(x)).astype(x.dtype) if x.dtype.itemsize == 2 else _length(x)


_HYPOT = {"forward": lambda x: np.hypot(x, 1), "kind": "elementwise", "samples": vectors(5)}

SCALES: list[Plant] = [
    plant(
        "square overflows", "the derivative of √(1 + x²) as x y/y²", **_HYPOT,
        right={"x": lambda g, x, y: g * (x / y)}, wrong={"x": lambda g, x, y: g * x * y / (y * y)},
    ),
    plant(
        "length by squares", "the derivative of x/|x| with the root of a sum of squares",
        forward=_direction, samples=vectors(5, (2, 3)), arrays=("x",),
        right=_across(_length), wrong=_across(_length_by_squares),
    ),
    plant(
        "value by squares", "x/|x| itself with the root of a sum of squares",
        forward=_direction, wrong_forward=lambda x: x / _length_by_squares(x),
        samples=vectors(5, (2, 3)), arrays=("x",), right=_across(_length), wrong=_across(_length),
    ),
    plant(
        "squares of halves", "x/|x| in bfloat16 with the squares in float32, which ends there too",
        forward=_direction, wrong_forward=lambda x: x / _length_by_squares_of_halves(x),
        samples=vectors(5, (2, 3)), dtypes=("float64", "float32", "bfloat16"), arrays=("x",),
        right=_across(_length), wrong=_across(_length),
    ),
]  # fmt: skip
