"""Samples of recurrent steps and scans. The references are loops over steps, in plain NumPy."""

import numpy as np

from ...backends.dtypes import accumulator
from ..spec import ErrorSample, Point, register_op
from .forms import REAL, normal, of_several, together


def _sigmoid(x):
    return np.where(x > 0, 1 / (1 + np.exp(-np.abs(x))), 1 - 1 / (1 + np.exp(-np.abs(x))))


def _wide(*arrays):
    return [None if x is None else x.astype(accumulator(x.dtype) or x.dtype) for x in arrays]


def _require(gates, a, w, live, *states):
    lead, size, middle = w.shape[:-2], w.shape[-1], a.shape[1:-1]
    shapes = w.shape[-2] == gates * size == a.shape[-1] and lead in ((), middle[:-1])
    if not shapes or any(h.shape != (*middle, size) for h in states):
        raise ValueError("shapes")


def _lstm_gates(z, c):
    if z.shape != (*c.shape[:-1], 4 * c.shape[-1]):
        raise ValueError("shapes")
    dtype = c.dtype
    z, c = _wide(z, c)
    i, f, g, o = np.split(z, 4, -1)
    i, f, g, o = _sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o)
    c = f * c + i * g
    t = np.tanh(c)
    return tuple([y.astype(dtype) for y in (o * t, c, np.stack([i, f, o, g, t]))])


def _gru_gates(a, r, h):
    if not a.shape == r.shape == (*h.shape[:-1], 3 * h.shape[-1]):
        raise ValueError("shapes")
    dtype = h.dtype
    a, r, h = _wide(a, r, h)
    (a1, a2, a3), (r1, r2, r3) = np.split(a, 3, -1), np.split(r, 3, -1)
    reset, z = _sigmoid(a1 + r1), _sigmoid(a2 + r2)
    n = np.tanh(a3 + reset * r3)
    return ((1 - z) * n + z * h).astype(dtype), np.stack([reset, z, n, r3]).astype(dtype)


def _scan(step, a, w, states, live, reverse):
    """The results of a step at each time, in the order of time; its first results are the
    states."""
    found = [None] * len(a)
    for t in range(len(a))[:: -1 if reverse else 1]:
        after, *others = step(a[t], states[0] @ w.swapaxes(-1, -2), states)
        if live is not None:
            after = [np.where(live[t], y, x) for x, y in zip(states, after, strict=True)]
        found[t], states = (*after, *others), after
    return [np.stack(ys) for ys in zip(*found, strict=True)]


def _rnn_scan(a, w, h, live=None, *, relu=False, reverse=False):
    _require(1, a, w, live, h)
    dtype = a.dtype
    a, w, h = _wide(a, w, h)

    def step(x, r, states):
        return [np.maximum(x + r, 0) if relu else np.tanh(x + r)], np.zeros(())

    return (_scan(step, a, w, [h], live, reverse)[0].astype(dtype),)


def _lstm_scan(a, w, h, c, live=None, *, reverse=False):
    _require(4, a, w, live, h, c)
    dtype = a.dtype
    a, w, h, c = _wide(a, w, h, c)

    def step(x, r, states):
        *after, gates = _lstm_gates(x + r, states[1])
        return after, gates

    return tuple([y.astype(dtype) for y in _scan(step, a, w, [h, c], live, reverse)])


def _gru_scan(a, w, h, b=None, live=None, *, reverse=False):
    _require(3, a, w, live, h)
    dtype = a.dtype
    a, w, h, b = _wide(a, w, h, b)
    bias = 0 if b is None else b[..., None, :] if b.ndim > 1 else b

    def step(x, r, states):
        after, gates = _gru_gates(x, r + bias, states[0])
        return [after], gates

    return tuple([y.astype(dtype) for y in _scan(step, a, w, [h], live, reverse)])


LIVE = np.array([[1, 1], [1, 0], [0, 0]], bool)[..., None]
BACK = {"reverse": True}
SATURATED = np.array([[-1000.0, 1000.0, 1000.0, -1000.0]])


def _forms(gates, states, bias=False):
    """(arguments, parameters): backwards, rows of several axes, separate weights, live rows."""
    n = gates * 2
    h, many, b = [(2, 2)] * states, [(2, 3, 2)] * states, [(n,)] * bias
    return [
        (((3, 2, n), (n, 2), *h), {}),
        (((3, 2, n), (n, 2), *h, *b), BACK),
        (((1, 2, 3, n), (n, 2), *many), {}),
        (((2, 2, 3, n), (2, n, 2), *many, *[(2, n)] * bias), BACK),
        (((2, n), (n, 2), *[(2,)] * states, *b), {}),
        (((3, 2, n), (n, 2), *h, *[None] * bias, LIVE), {}),
        (((3, 2, n), (n, 2), *h, *b, LIVE[::-1]), BACK),
        (((2, 1, gates), (gates, 1), *[(1, 1)] * states), {}),
        (((2, 0, n), (n, 2), *[(0, 2)] * states), {}),
    ]


def _long(gates, states):
    """Sequences with so many steps that a backward computes its factors in two runs."""
    n, h = gates * 32, [(33, 32)] * states
    live = np.arange(40)[:, None, None] < 20 + np.arange(33)[:, None]
    bias, lives = [None] * (gates == 3), [None] * (gates == 3) + [live]
    forms = [(((40, 33, n), (n, 32), *h, *bias), {}), (((40, 33, n), (n, 32), *h, *lives), BACK)]
    return of_several(forms, _moderate)


def _moderate(rng, dtype, shape):
    """Small enough that a sequence of many steps does not magnify roundings."""
    return (0.15 * normal(rng, dtype, shape)).astype(dtype)


def _errors(gates, states):
    n = gates * 2
    ones = [np.ones((2, 2))] * states
    a, w = np.ones((3, 2, n)), np.ones((n, 2))
    return [
        ErrorSample("a of other gates", (a[..., 1:], w, *ones), ValueError, "a must be"),
        ErrorSample("w of other states", (a, np.ones((n, 3)), *ones), ValueError, "a must be"),
        ErrorSample("another batch", (a, w, *[x[:1] for x in ones]), ValueError, "h must have"),
        ErrorSample("no step", (a[:0], w, *ones), ValueError, "at least one step"),
        ErrorSample("complex", (a + 0j, w, *ones), TypeError, "real functions"),
    ]


_PRODUCTS = "products of weights and states of both signs are infinite"
_GATES = (
    "the slopes of gates are 1 − y² and y (1 − y) of the saved y, right in units of 1. More "
    "digits would need an array of the size of all gates for each step"
)
register_op(
    "lstm_gates",
    of_several(
        [
            (((2, 12), (2, 3)), {}),
            (((8,), (2,)), {}),
            (((2, 1, 8), (2, 1, 2)), {}),
            (((0, 4), (0, 1)), {}),
        ]
    ),
    skips={"K32": _GATES},
    reference=_lstm_gates,
    dtypes=REAL,
    errors=[
        ErrorSample("not 4H", (np.ones((2, 6)), np.ones((2, 2))), ValueError, "z must be"),
        ErrorSample("complex", (np.ones(4) + 0j, np.ones(1)), TypeError, "real functions"),
    ],
    points=[
        Point(
            "closed and open gates: c' is c, h' is 0, and no gradient but that of c",
            (SATURATED, np.array([[0.5]])),
            (
                np.array([[0.0]]),
                np.array([[0.5]]),
                np.array([0.0, 1, 0, 1, np.tanh(0.5)]).reshape(5, 1, 1),
            ),
            (np.zeros((1, 4)), np.array([[2 - np.tanh(0.5) ** 2]])),
        )
    ],
)
register_op(
    "gru_gates",
    together(
        of_several(
            [
                (((2, 9), (2, 9), (2, 3)), {}),
                (((6,), (6,), (2,)), {}),
                (((2, 1, 3), (2, 1, 3), (2, 1, 1)), {}),
                (((0, 3), (0, 3), (0, 1)), {}),
            ]
        ),
        of_several(
            [(((4, 6), (4, 6), (4, 2)), {})],
            lambda rng, dtype, shape: (3 * rng.standard_normal(shape)).astype(dtype),
        ),
    ),
    skips={"K32": _GATES},
    reference=_gru_gates,
    dtypes=REAL,
    errors=[
        ErrorSample(
            "not 3H", (np.ones((2, 6)), np.ones((2, 4)), np.ones((2, 2))), ValueError, "must be"
        ),
        ErrorSample(
            "complex", (np.ones(3) + 0j, np.ones(3), np.ones(1)), TypeError, "real functions"
        ),
    ],
    points=[
        Point(
            "an update gate that is wide open: h' is h, and so is its gradient",
            (np.array([[0.0, 1000.0, 1.0]]), np.zeros((1, 3)), np.array([[0.5]])),
            (np.array([[0.5]]), np.array([0.5, 1, np.tanh(1.0), 0]).reshape(4, 1, 1)),
        )
    ],
)


def _rnn_samples(rng, dtype):
    yield from of_several(_forms(1, 1))(rng, dtype)
    for given, how in _forms(1, 1):
        draw = of_several([(given, {**how, "relu": True})])
        drawn = (sample for _ in range(1000) for sample in draw(rng, dtype))
        yield next(s for s in drawn if nearest_kink(*s.args, **how) > 0.05)


def nearest_kink(a, w, h, live=None, *, reverse=False):
    """The distance from 0, where relu has its kink, of the nearest sum of a step that counts."""
    sums = []

    def step(x, r, states):
        sums.append(np.min(np.abs(x + r), initial=np.inf))
        return [np.maximum(x + r, 0)], np.zeros(())

    _scan(step, a, w, [h], live, reverse)
    return min(sums)


register_op(
    "rnn_scan",
    _rnn_samples,
    large=_long(1, 1),
    steps=True,
    skips={
        "K31": _PRODUCTS,
        "K32": _GATES,
    },
    reference=_rnn_scan,
    dtypes=REAL,
    errors=_errors(1, 1),
)
register_op(
    "lstm_scan",
    of_several(_forms(4, 2)),
    large=_long(4, 2),
    steps=True,
    skips={"K31": _PRODUCTS, "K32": _GATES},
    reference=_lstm_scan,
    dtypes=REAL,
    errors=_errors(4, 2),
)
register_op(
    "gru_scan",
    of_several(_forms(3, 1, bias=True)),
    large=_long(3, 1),
    steps=True,
    skips={"K32": _GATES},
    reference=_gru_scan,
    dtypes=REAL,
    errors=[
        *_errors(3, 1),
        ErrorSample(
            "b of another length",
            (np.ones((3, 2, 6)), np.ones((6, 2)), np.ones((2, 2)), np.ones(3)),
            ValueError,
            "b must have shape",
        ),
    ],
)
