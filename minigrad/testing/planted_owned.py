"""Wrong ops whose memory others read: an argument returned, an array kept and written again."""

import numpy as np

from .plant import Plant, plant, vectors

_SINE = {"x": lambda g, x: g * np.cos(x)}
_kept: list[np.ndarray] = []
_TURNS = 3  # how many arrays a rule writes to in turn


def _twice(x):
    y = np.sin(x)
    return y, y


def _apart(x):
    return np.sin(x), np.sin(x)


def _twice_dx(g, x):
    return sum((t for t in (g[0], g[1]) if t is not None), 0.0) * np.cos(x)


def _in_turn(g, x):
    """The product in one of a few arrays: the third call from now overwrites it."""
    if not isinstance(x, np.ndarray):
        return g * np.cos(x)
    y = np.multiply(g, np.cos(x), out=_next_like(x))
    return y


def _next_like(x):
    alike = [i for i, y in enumerate(_kept) if y.shape == x.shape and y.dtype == x.dtype]
    y = _kept.pop(alike[0]) if len(alike) == _TURNS else np.empty_like(x)
    _kept.append(y)
    return y


def _sine_and_slope(x):
    return np.sin(x), np.cos(x)


def _for_a_while(g, slope, x):
    """−(−slope · g), with the saved slope negated in between."""
    if not isinstance(x, np.ndarray):
        return g * np.cos(x)
    np.negative(slope, out=slope)
    gx = -(slope * g)
    np.negative(slope, out=slope)
    return gx


def _slope_dx(g, slope, x):
    return g * (slope if isinstance(x, np.ndarray) else np.cos(x))


_last: dict[str, object] = {}


def _keeping(g, x):
    _last["g"] = g
    return g * np.cos(x)


_left: dict[str, np.ndarray] = {}


def _leaving(x):
    _left["slope"] = np.cos(x)
    return np.sin(x)


def _from_outside(g, x):
    """The right gradient, whose dependence on x is in no graph."""
    slope = _left.get("slope")
    return g * (slope if slope is not None and slope.shape == x.shape else np.cos(x))


def _into_cotangent(g, x):
    """g · cos x, in g's own memory if that is writable."""
    if not isinstance(g, np.ndarray) or not g.flags.writeable:
        return g * np.cos(x)
    g *= np.cos(x)
    return g


_ones: dict[tuple, np.ndarray] = {}


def _kept_ones(x):
    return _ones.setdefault((np.shape(x), np.asarray(x).dtype), np.ones_like(x))


def _no_gradient(g, x):
    return g * np.zeros_like(x)


OWNED: list[Plant] = [
    plant(
        "input handed on", "the op returns its argument itself", forward=np.copy,
        wrong_forward=lambda x: x, right={"x": lambda g: g}, wrong={"x": lambda g: g},
        samples=vectors(5),
    ),
    plant(
        "input if F-ordered", "the op returns its argument itself where it is in Fortran order",
        forward=lambda x: np.copy(x, order="F"), wrong_forward=np.asfortranarray,
        right={"x": lambda g: g}, wrong={"x": lambda g: g}, samples=vectors((3, 4)),
    ),
    plant(
        "one array, two results", "both results are one array", forward=_apart, outputs=2,
        wrong_forward=_twice, right={"x": _twice_dx}, wrong={"x": _twice_dx}, samples=vectors(5),
    ),
    plant(
        "result of each call", "the op returns the same array at each call", forward=np.ones_like,
        wrong_forward=_kept_ones, right={"x": _no_gradient}, wrong={"x": _no_gradient},
        samples=vectors(5), zero_gradient=True,
    ),
    plant(
        "written in turn", "a rule returns one of three arrays that it writes in turn",
        forward=np.sin, right=_SINE, wrong={"x": _in_turn}, samples=vectors(5),
    ),
    plant(
        "written for a while", "a rule writes into a saved array, and puts back what was there",
        forward=_sine_and_slope, residuals=("slope",), reference=np.sin,
        right={"x": _slope_dx}, wrong={"x": _for_a_while}, samples=vectors(5),
    ),
    plant(
        "kept cotangent", "a rule keeps the cotangent", forward=np.sin, right=_SINE,
        wrong={"x": _keeping}, samples=vectors(5),
    ),
    plant(
        "left outside", "a rule reads what the forward has left in a global", forward=_leaving,
        reference=np.sin, right=_SINE, wrong={"x": _from_outside}, samples=vectors(5),
    ),
    plant(
        "into the cotangent", "a rule writes into the cotangent", forward=np.sin, right=_SINE,
        wrong={"x": _into_cotangent}, samples=vectors(5),
    ),
]  # fmt: skip
