"""Wrong rules of other kinds: each targets a check that the first list does not reach."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ..engine import backward
from .plant import Plant, both, both_dx, pairs, plant, vectors
from .spec import ErrorSample, Point, Sample

_SINE = {"x": lambda g, x: g * np.cos(x)}
_PRODUCT = {"a": lambda g, b: g * b, "b": lambda g, a: g * a}
_kept: list = []


def _own_sum(x):
    return np.sum(x, axis=-1, dtype=np.float32 if x.itemsize == 2 else None).astype(x.dtype)


def _narrow_sum(x):
    return np.cumsum(x, axis=-1, dtype=x.dtype)[..., -1] if x.size and x.ndim else _own_sum(x)


def _spread(g, x):
    return np.broadcast_to(g.reshape((*g.shape, 1)), x.shape) if x.ndim else g


def _sorting(x):
    x.sort()
    return np.sum(np.square(x))


def _sinc(x):
    return np.where(x == 0, 1.0, np.sin(x) / np.where(x == 0, 1.0, x))


def _sinc_rule(g, x):
    """The series 1 − x²/6 near 0 has derivative −x/3."""
    safe = np.where(x == 0, 1.0, x)
    return g * np.where(x == 0, -x / 3, (np.cos(safe) - np.sin(safe) / safe) / safe)


def _sinc_nan(g, x):
    return g * ((np.cos(x) - np.sin(x) / x) / x)


def _sine_with_copy(x):
    return np.sin(x), np.cos(x)


def _leaking(x):
    y, c = _sine_with_copy(x)
    _kept.append(c)
    return y, c


def _aliasing(g, a, b):
    same = isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a is b
    return g * b * (2 if same else 1)


def _first_only(g, x):
    return g[0] * np.cos(x) if g[0] is not None else g[1] * 0.0


def _strict(x):
    if x.ndim == 0:
        raise ValueError("needs at least one axis; use x.reshape(1)")
    return np.sin(x)


def _vague(x):
    if x.ndim == 0:
        raise ValueError("bad input")
    return np.sin(x)


def _above_zero(rng, dtype):
    for sample in vectors(5, (2, 30_000))(rng, dtype):
        yield Sample(sample.name, (abs(sample.args[0]),))


def _mpmath(name):
    """A function of mpmath, or None if it is not installed (K16 then does not run)."""
    try:
        import mpmath
    except ImportError:
        return None
    return getattr(mpmath, name)


class _Alternating:
    """Right at first and at every other call, wrong between: a rule with a state."""

    calls = 0

    def __call__(self, g, x):
        self.calls += 1
        return g * np.cos(x) * (1.0 if self.calls % 7 else 1 + 1e-13)


@contextmanager
def _shared_gradients() -> Iterator[None]:
    """The engine hands out arrays unchanged, without checking for other owners."""
    private, backward.private = backward.private, lambda g: g
    try:
        yield
    finally:
        backward.private = private


@contextmanager
def _first_instead_of_sum() -> Iterator[None]:
    """The engine takes the first entry along a broadcast axis instead of the sum."""
    right = backward.unbroadcast
    backward.unbroadcast = lambda c, shape: right(c[(slice(0, 1),) * c.ndim], shape)
    try:
        yield
    finally:
        backward.unbroadcast = right


MORE: list[Plant] = [
    plant(
        "conjugate", "a complex cotangent times the partial instead of its conjugate",
        forward=np.square, wrong={"x": lambda g, x: g * (2 * x)},
        right={"x": lambda g, x: g * (2 * x.conj())}, samples=vectors(5),
        dtypes=("float64", "complex128"),
    ),
    plant(
        "nonlinear", "the cotangent enters squared, with its sign", forward=np.sin,
        wrong={"x": lambda g, x: g * abs(g) * np.cos(x)}, right=_SINE, samples=vectors(5),
    ),
    plant(
        "single precision", "the partial is rounded to float32", forward=np.sin,
        wrong={"x": lambda g, x: g * np.cos(x).astype(np.float32).astype(np.float64)}, right=_SINE,
        samples=vectors(5, 100),
    ),
    plant(
        "input order", "the saved input is read in memory order", forward=np.sin,
        wrong={"x": lambda g, x: g * np.cos(x.ravel(order="K").reshape(x.shape)
                                            if isinstance(x, np.ndarray) else x)},
        right=_SINE, samples=vectors((3, 4)),
    ),
    plant(
        "writes its input", "the forward sorts its argument in place",
        forward=lambda x: np.sum(np.square(x)), wrong_forward=_sorting,
        wrong={"x": lambda g, x: g * (2 * x)}, right={"x": lambda g, x: g * (2 * x)},
        samples=vectors(5, 40),
    ),
    plant(
        "shared memory", "the engine hands the user arrays that others hold",
        forward=lambda x: x + 1, wrong={"x": lambda g: g}, right={"x": lambda g: g},
        samples=vectors(5),
        while_wrong=_shared_gradients,
    ),
    plant(
        "unbroadcast",
        "the engine does not sum over broadcast axes",
        forward=np.multiply,
        kind="elementwise",
        wrong=_PRODUCT,
        right=_PRODUCT,
        samples=pairs(((5,), (5,)), ((3, 1), (4,))),
        while_wrong=_first_instead_of_sum,
    ),
    plant(
        "rounding",
        "a rule that adds 64 and takes it away again",
        forward=lambda x: x * x / 2,
        kind="elementwise",
        wrong={"x": lambda g, x: g * ((x + 64) - 64)},
        right={"x": lambda g, x: g * x},
        samples=vectors(5, 40),
        dtypes=("float64", "float16"),
    ),
    plant(
        "NaN", "0/0 in the derivative of sin(x)/x at 0", forward=_sinc, kind="elementwise",
        wrong={"x": lambda g, x: _sinc_nan(g, x)}, right={"x": lambda g, x: _sinc_rule(g, x)},
        samples=vectors(5), points=[Point("zero", (0.0,), 1.0, (0.0,))],
    ),
    plant(
        "half sums", "a float16 sum is accumulated in float16", forward=_own_sum,
        reference=lambda x: np.sum(x, axis=-1), wrong_forward=_narrow_sum,
        wrong={"x": _spread}, right={"x": _spread},
        samples=_above_zero, dtypes=("float64", "float16"),
    ),
    plant(
        "leak", "the op keeps its saved arrays in a list", forward=_sine_with_copy,
        reference=np.sin, wrong_forward=_leaking, residuals=("c",), arrays=("x",),
        wrong={"x": lambda g, x, c: g * np.cos(x)}, right={"x": lambda g, x, c: g * np.cos(x)},
        samples=vectors(5),
    ),
    plant(
        "aliases", "a rule that is wrong when both arguments are one array", forward=np.multiply,
        wrong={"a": _aliasing, "b": lambda g, a: g * a}, right=_PRODUCT, kind="elementwise",
        samples=pairs(((5,), (5,))), arrays=("a", "b"),
    ),
    plant(
        "outputs", "the second of two results is forgotten", forward=both, outputs=2,
        wrong={"x": _first_only}, right={"x": both_dx}, samples=vectors(5),
    ),
    plant(
        "subgradient", "the gradient 2 at the kink of max(x, 0), between 0 and 1",
        forward=lambda x: np.maximum(x, 0), kind="elementwise",
        wrong={"x": lambda g, x: g * (np.logical_not(x <= 0) * 1.0 + (x == 0) * 2.0)},
        right={"x": lambda g, x: g * (np.logical_not(x <= 0) * 1.0)}, samples=vectors(5),
        points=[Point("zero", (np.zeros(2),), kink=True)],
    ),
    plant(
        "forward", "the value is off by 1e-9, and the derivative fits it",
        forward=np.sin, wrong_forward=lambda x: np.sin(x) * (1 + 1e-9),
        wrong={"x": lambda g, x: g * (np.cos(x) * (1 + 1e-9))}, right=_SINE, samples=vectors(5),
    ),
    plant(
        "message", "an error without the words that help", forward=_strict, wrong_forward=_vague,
        wrong=_SINE, right=_SINE, samples=vectors(5),
        errors=(ErrorSample("0-d", (np.array(1.0),), ValueError, "at least one axis"),),
    ),
    plant(
        "state", "a rule that gives other bits now and then", forward=np.sin,
        wrong={"x": (lambda rule: lambda g, x: rule(g, x))(_Alternating())}, right=_SINE,
        samples=vectors(5),
    ),
    plant(
        "promotion", "a float32 rule that computes in float64", forward=np.sin,
        wrong={"x": lambda g, x: g * np.cos(x) * (np.float64(1.0) + 0 * x.astype(np.float64))},
        right=_SINE, samples=vectors(5), dtypes=("float64", "float32"),
    ),
    plant(
        "cancellation", "log(1 + x) as it is written", forward=np.log1p, kind="elementwise",
        wrong_forward=lambda x: np.log(1 + x), wrong={"x": lambda g, x: g / (1 + x)},
        right={"x": lambda g, x: g / (1 + x)}, samples=_above_zero, mp=_mpmath("log1p"),
    ),
    plant(
        "empty", "a rule that fails on arrays without elements", forward=np.sin,
        kind="elementwise",
        wrong={"x": lambda g, x: g * np.cos(x) + 0 * x.max()}, right=_SINE, samples=vectors(5),
    ),
]  # fmt: skip
