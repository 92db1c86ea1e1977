"""Wrong rules at the ends of the number line: at infinity, at huge and at subnormal numbers."""

import numpy as np

from .plant import Plant, plant, vectors


def _bell(x):
    """e^−|x|: 0 at infinity."""
    return np.exp(-np.abs(x))


_BELL = {"forward": _bell, "kind": "elementwise", "samples": vectors(5)}
_SLOPE = {"x": lambda g, x, y: -g * y * np.sign(x)}
_TANH = {"x": lambda g, y: g * (1 - y * y)}


def _off_where(wrong, right):
    """The rule of x and y, and NaN (with 0 · ∞) where wrong(x) says so."""
    return {"x": lambda g, x, y: right(g, x, y) + np.where(wrong(x), np.nan, 0.0)}


def _tanh_dx(g, x, y):
    return g * (1 - y * y)


ENDS: list[Plant] = [
    plant(
        "0 · ∞", "the derivative of e^−|x| as a quotient by x, NaN at infinity", **_BELL,
        right=_SLOPE, wrong={"x": lambda g, x, y: -g * (y * np.abs(x)) / np.where(x == 0, 1, x)},
    ),
    plant(
        "subnormal", "NaN at the smallest number there is", forward=np.tanh, kind="elementwise",
        samples=vectors(5), right=_TANH,
        wrong=_off_where(lambda x: (x != 0) & (np.abs(x) < 1e-310), _tanh_dx),
    ),
    plant(
        "huge", "a derivative of ½ beyond 1e250, where tanh is flat",
        forward=np.tanh, kind="elementwise", samples=vectors(5), right=_TANH,
        wrong={"x": lambda g, x, y: g * np.where(np.abs(x) > 1e250, 0.5, 1 - y * y)},
    ),
]  # fmt: skip
