"""Wrong rules to plant, one by one: each is a mistake that a naive check would pass."""

import numpy as np

from ..engine.backward import unbroadcast
from .plant import Plant, pairs, plant, vectors
from .spec import Point

_SINE = {"x": lambda g, x: g * np.cos(x)}
_SQUARE = {"x": lambda g, x: g * (2 * x)}
_TINY = 1e-7


def _off_at_700(g, x):
    return g * (2 * x) * np.where(np.arange(x.size) == 700, 1.5, 1.0)


def _max_rule(g, x, y):
    mask = (x == y) * 1.0
    return g * mask / mask.sum()


def _in_place(g, x):
    g *= np.cos(x)
    return g


def _noisy(g, x, _rng=np.random.default_rng(0)):
    return g * np.cos(x) * (1 + 1e-12 * _rng.standard_normal(x.shape))


def _detached(g, x):
    return g * np.cos(getattr(x, "data", x) if hasattr(x, "node") else x)


def _rows(x):
    return x.sum(axis=-1)


def _spread(g, x):
    return np.broadcast_to(g.reshape((*g.shape, 1)), x.shape) if x.ndim else g


def _add(a, b):
    return a + b


NAMED: list[Plant] = [
    plant(
        "one entry", "one entry of 1,024 off by 50 %", forward=np.square,
        wrong={"x": _off_at_700}, right=_SQUARE, samples=vectors(5, 1024),
    ),
    plant(
        "reversed", "the gradient of 10,000 entries in reverse order", forward=np.sin,
        wrong={"x": lambda g, x: (g * np.cos(x))[::-1]}, right=_SINE, samples=vectors(1, 10_000),
    ),
    plant(
        "ties", "every tied maximum is given the whole gradient", forward=np.max,
        wrong={"x": lambda g, x, y: g * ((x == y) * 1.0)}, right={"x": _max_rule},
        samples=vectors(5, 40), arrays=("x",),
        points=[Point("tie", (np.array([1.0, 2.0, 2.0]),), 2.0, ([0, 0.5, 0.5],), kink=True)],
    ),
    plant(
        "tiny", "f of scale 1e-7 with twice the gradient", forward=lambda x: _TINY * np.sin(x),
        wrong={"x": lambda g, x: g * (2 * _TINY * np.cos(x))},
        right={"x": lambda g, x: g * (_TINY * np.cos(x))}, samples=vectors(5, 100),
    ),
    plant(
        "bias", "1e-6 added to every partial", forward=np.sin,
        wrong={"x": lambda g, x: g * (np.cos(x) + 1e-6)}, right=_SINE, samples=vectors(5, 100),
    ),
    plant(
        "relative", "a relative error of 1e-4", forward=np.sin,
        wrong={"x": lambda g, x: g * np.cos(x) * (1 + 1e-4)}, right=_SINE, samples=vectors(5, 100),
    ),
    plant(
        "ignored", "the cotangent is ignored", forward=np.sin,
        wrong={"x": lambda x: np.cos(x)}, right=_SINE, samples=vectors(5, 100),
    ),
    plant(
        "absolute", "the absolute value of the cotangent", forward=np.sin,
        wrong={"x": lambda g, x: abs(g) * np.cos(x)}, right=_SINE, samples=vectors(5, 100),
    ),
    plant(
        "memory order", "the cotangent is read in memory order", forward=np.sin,
        wrong={"x": lambda g, x: g.ravel(order="K").reshape(x.shape) * np.cos(x)
               if isinstance(g, np.ndarray) else g * np.cos(x)},
        right=_SINE, samples=vectors((3, 4)),
    ),
    plant(
        "in place", "the cotangent is changed in place", forward=np.sin,
        wrong={"x": _in_place}, right=_SINE, samples=vectors(5, 100),
    ),
    plant(
        "broadcast", "the sum over a broadcast axis is missing", forward=_add,
        wrong={"a": lambda g, a: g[..., :1] if a.shape[-1:] == (1,) else unbroadcast(g, a.shape),
               "b": lambda g, b_shape: unbroadcast(g, b_shape)},
        right={"a": lambda g, a_shape: unbroadcast(g, a_shape),
               "b": lambda g, b_shape: unbroadcast(g, b_shape)},
        samples=pairs(((3, 1), (3, 4))),
    ),
    plant(
        "noise", "noise of 1e-12", forward=np.sin, wrong={"x": lambda g, x: _noisy(g, x)},
        right=_SINE, samples=vectors(5, 100),
    ),
    plant(
        "detached", "a saved value is detached: the second derivative is wrong",
        forward=np.sin, wrong={"x": _detached}, right=_SINE, samples=vectors(5, 100),
    ),
    plant(
        "shifted", "the gradient is shifted by one index", forward=np.sin,
        wrong={"x": lambda g, x: (g * np.cos(x))[np.arange(-1, x.size - 1)]}, right=_SINE,
        samples=vectors(5, 1000),
    ),
    plant(
        "transposed", "the gradient is transposed", forward=np.sin,
        wrong={"x": lambda g, x: (g * np.cos(x)).T}, right=_SINE, samples=vectors((3, 3), (30, 30)),
    ),
    plant(
        "factor", "a factor is missing", forward=np.square, wrong={"x": lambda g, x: g * x},
        right=_SQUARE, samples=vectors(5, 100),
    ),
    plant(
        "sign", "the sign is wrong", forward=np.cos, wrong={"x": lambda g, x: g * np.sin(x)},
        right={"x": lambda g, x: -g * np.sin(x)}, samples=vectors(5, 100),
    ),
    plant(
        "axis", "the axis is off by one", forward=_rows,
        wrong={"x": lambda g, x: np.broadcast_to(g, x.shape)}, right={"x": _spread},
        samples=vectors((3, 3), (30, 30)),
    ),
    plant(
        "keepdims", "a sum with keepdims=True is pulled back as one without",
        forward=lambda x: x.sum(axis=0, keepdims=True),
        wrong={"x": lambda g, x: np.broadcast_to(g.reshape((*g.shape[1:], 1)), x.shape)},
        right={"x": lambda g, x: np.broadcast_to(g, x.shape)}, samples=vectors((3, 3), (30, 30)),
    ),
]  # fmt: skip
