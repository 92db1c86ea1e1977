"""Wrong rules at the ends of the number line, and on the way there: in tails, at infinity, at huge
and at subnormal numbers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..backends.optional import optional
from ..engine.registry import op
from ..expressions import trace
from ..ops.elementwise.powers import power_da, power_db
from ..tensor_api.tensor import Tensor
from .function import as_array
from .plant import Plant, numbers, plant, vectors
from .spec import OpSpec, Sample


def _bell(x):
    """e^−|x|: 0 at infinity."""
    return np.exp(-np.abs(x))


_BELL = {"forward": _bell, "kind": "elementwise", "samples": vectors(5)}
_SLOPE = {"x": lambda g, x, y: -g * y * np.sign(x)}
_TANH = {"x": lambda g, y: g * (1 - y * y)}


def _off_where(wrong, right):
    """The rule of x and y, and NaN (with 0 · ∞) where wrong(x) is true."""
    return {"x": lambda g, x, y: right(g, x, y) + np.where(wrong(x), np.nan, 0.0)}


def _tanh_dx(g, x, y):
    return g * (1 - y * y)


def _largest_dx(g, x, y):
    hits = x == y
    return g * hits / np.maximum(hits.sum(), 1)


def _largest_or_nan_dx(g, x, y):
    hits = (x == y) | (x != x)
    return g * hits / hits.sum()


def _at_least_0(x):
    return np.maximum(x, 0)


def _limited(x):
    """x between −1 and 1, with the limits passed by name."""
    return np.clip(x, a_min=-1.0, a_max=1.0)


_LIMITED = {
    "forward": _limited, "kind": "elementwise", "samples": vectors(5),
    "right": {"x": lambda g, x: g * (1 - (np.abs(x) >= 1))},
    "wrong": {"x": lambda g, x: g * (1 - (np.abs(x) >= 1))},
}  # fmt: skip
_SOFT_SIGN = {"x": lambda g, x: g * np.where(x == 0, 1.0, 1 / np.square(1 + np.abs(x)))}


def _soft_sign(x):
    """x/(1 + |x|), which is the sign of x at infinity."""
    finite = np.abs(x) < np.inf
    return np.where(finite, np.where(finite, x, 0) / (1 + np.abs(x)), np.sign(x))


@contextmanager
def _recorded(function: Callable, instead: Callable) -> Iterator[None]:
    """Record a NumPy function in another way."""
    before = trace._FUNCTIONS[function]
    trace._FUNCTIONS[function] = instead
    try:
        yield
    finally:
        trace._FUNCTIONS[function] = before


@contextmanager
def _written(word: str, text: str) -> Iterator[None]:
    """Compiled loops compute a function by another text."""
    from ..expressions import loops as writer

    before = writer._WORDS[word]
    writer._WORDS[word] = text
    try:
        yield
    finally:
        writer._WORDS[word] = before


_COMPILED: list[Plant] = [
    plant(
        "quotient for sign", "compiled loops take x/|x| for the sign of x, NaN at infinity",
        forward=_soft_sign, kind="elementwise", samples=vectors(5), dtypes=("float64", "float32"),
        right=_SOFT_SIGN, wrong=_SOFT_SIGN,
        while_wrong=lambda: _written("sign", "{0} / abs({0})"),
    ),
]  # fmt: skip


def _sech_squared(g, x):
    e = np.exp(-np.abs(x))
    return g * np.square(2 * e / (1 + e * e))


def _bump(g, x):
    e = np.exp(-np.abs(x))
    return g * (e / np.square(1 + e))


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _shares(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _by_differences(g, y):
    """y (g − Σ g y), a difference of equals for y near 1."""
    return y * (g - (g * y).sum(axis=-1, keepdims=True))


def _by_the_others(g, y):
    """The same, with the largest share's g subtracted first: Σ y is 1."""
    top = y == y.max(axis=-1, keepdims=True)
    g = g - (g * top).sum(axis=-1, keepdims=True)
    return y * (g - (g * y).sum(axis=-1, keepdims=True))


_BOTH = ("float64", "float32")


ENDS: list[Plant] = [
    plant(
        "flat", "the slope of tanh as 1 − y², 0 once y has rounded to 1", forward=np.tanh,
        kind="elementwise", samples=vectors(5), dtypes=_BOTH,
        wrong=_TANH, right={"x": _sech_squared},
    ),
    plant(
        "flat above alone", "the slope of the sigmoid as y (1 − y), with no digits far above 0",
        forward=_sigmoid, kind="elementwise", samples=vectors(5), dtypes=_BOTH,
        wrong={"x": lambda g, y: g * y * (1 - y)},
        right={"x": _bump},
    ),
    plant(
        "nearly all", "the gradient of softmax by g − Σ g y, for a y that has rounded to 1",
        forward=_shares, samples=vectors(5, (3, 4)), dtypes=_BOTH,
        wrong={"x": _by_differences}, right={"x": _by_the_others},
    ),
    *(_COMPILED if optional("numba") is not None else ()),
    plant(
        "limits by name", "a fused function overlooks the limits of clip that are given by name",
        **_LIMITED, while_wrong=lambda: _recorded(np.clip, lambda x, *_, **__: x),
    ),
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
    plant(
        "a lost NaN", "a maximum that is NaN has no derivative by its NaN", forward=np.max,
        samples=vectors(5, 7), arrays=("x",),
        right={"x": _largest_or_nan_dx}, wrong={"x": _largest_dx},
    ),
    plant(
        "a hidden NaN", "the ramp of NaN is NaN with a derivative of 0", forward=_at_least_0,
        kind="elementwise", samples=vectors(5),
        right={"x": lambda g, y: g * (y != 0)}, wrong={"x": lambda g, y: g * (y > 0)},
    ),
]  # fmt: skip


def _plain_alone(g, right, wrong):
    """One rule for plain arrays, another for inputs that are differentiated again."""
    return right if isinstance(g, np.ndarray) else wrong


def _never_infinite(g, y, a, b):
    """aᵇ log a, without ever taking a logarithm of 0."""
    zero = a == 0
    return np.where(zero, 0.0, g * np.where(zero, 1.0, y) * np.log(np.where(zero, 1.0, a)))


def _powers(rng, dtype):
    yield Sample("positive", (rng.uniform(0.5, 2, 5).astype(dtype), numbers(rng, dtype, 5)))


_POWER = {
    "forward": np.power, "kind": "elementwise", "samples": _powers,
    "right": {"a": power_da, "b": power_db}, "nan_alone": "no logarithm of a negative base",
}  # fmt: skip


def _positive(rng, dtype):
    yield Sample("positive", (rng.uniform(0.5, 2, 5).astype(dtype),))


_ROOT = {"x": lambda g, y: g * 0.5 / y}
ENDS += [
    plant(
        "0 to the −1", "the derivative of 0ᵇ by b is 0 where its value is infinite", **_POWER,
        wrong={"a": power_da, "b": _never_infinite},
    ),
    plant(
        "0 to the −1, in forward mode", "the same, with create_graph and in forward mode alone",
        **_POWER,
        wrong={"a": power_da, "b": lambda g, y, a, b: _plain_alone(
            g, power_db(g, y, a, b), _never_infinite(g, y, a, b))},
    ),
    plant(
        "the root of 0", "the slope of √x is 0 at 0, where it is infinite", forward=np.sqrt,
        kind="elementwise", samples=_positive, right=_ROOT,
        wrong={"x": lambda g, y: np.where(y == 0, 0.0, g * 0.5 / np.where(y == 0, 1.0, y))},
    ),
    plant(
        "the other side", "at the pole of −log(1 − x), for x → 1 from below, the sign of the other",
        forward=lambda x: -np.log(1 - x), kind="elementwise", samples=vectors(5, scale=0.4),
        right={"x": lambda g, x: g / (1 - x)}, wrong={"x": lambda g, x: -g / (x - 1)},
    ),
]  # fmt: skip


def _silent(name: str, what: str, wrong: Callable, right: Callable, *args: Any) -> Plant:
    """A function that computes with plain arrays, or declares a constant, and its right twin."""

    def spec(kind: str, call: Callable, differentiable: bool | None) -> OpSpec:
        return OpSpec(
            f"{name} ({kind})", call, lambda *xs: as_array(right(*xs)),
            lambda rng, dtype: iter([Sample("one", tuple([x.astype(dtype) for x in args]))]),
            dtypes=("float64",), differentiable=differentiable,
        )  # fmt: skip

    return Plant(name, what, spec("wrong", wrong, False), spec("right", right, None))


_POINT, _SCALE = np.array([0.3, -0.7, 1.2]), np.array([2.0, 0.5, -1.5])
ENDS += [
    _silent(
        "no rule", "a sum of squares from the plain array, said to have no derivative",
        lambda x: Tensor(np.square(as_array(x)).sum()), lambda x: op.sum(op.square(x)), _POINT,
    ),
    _silent(
        "edges", "steps from the smallest to the largest, as constants",
        lambda x: Tensor(np.linspace(as_array(x).min(), as_array(x).max(), 4)),
        lambda x: op.min(x) + (op.max(x) - op.min(x)) * np.linspace(0, 1, 4), _POINT,
    ),
    _silent(
        "constant weight", "an argument taken for a constant",
        lambda x, w: Tensor(np.multiply(as_array(x), as_array(w))), lambda x, w: op.mul(x, w),
        _POINT, _SCALE,
    ),
]  # fmt: skip
