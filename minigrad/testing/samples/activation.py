"""Samples of minigrad/ops/activation.py. The references are the textbook formulas."""

import numpy as np

from ..spec import ErrorSample, Point, Sample, register_op
from .elements import NUMBERS, REAL, both, from_mpmath, from_scipy, unary, uniform

_expit, _ndtr = from_scipy("expit"), from_scipy("ndtr")
NARROW = ("float64", "float32", "float16")


def axes(*axis):
    """Arrays of several shapes with each axis."""

    def samples(rng, dtype):
        for a in axis:
            yield Sample(f"axis {a}", (uniform(rng, (3, 4), dtype, -2, 2),), {"axis": a})
        yield Sample("one axis", (uniform(rng, (4,), dtype, -2, 2),))
        yield Sample("three axes", (uniform(rng, (2, 4, 2), dtype, -2, 2),), {"axis": 1})

    return samples


def apart(*kinks, low=-6.0, high=6.0, **params):
    """Values between low and high that keep a distance of 0.05 from the kinks."""

    def samples(rng, dtype):
        for shape in ((2, 5), (3,), (), (0,)):
            x = rng.uniform(low, high, shape)
            for kink in kinks:
                x = np.where(np.abs(x - kink) < 0.05, kink + 0.1, x)
            yield Sample(f"{shape}", (np.asarray(x).astype(dtype),), params)

    return samples


# -- piecewise linear ----------------------------------------------------------------

register_op(
    "relu",
    apart(0),
    reference=lambda x: np.maximum(x, 0),
    dtypes=REAL,
    mp=lambda x: max(x, 0 * x),
    points=[Point("0", (0.0,), 0.0, (0.0,), kink=True)],
)
register_op(
    "relu6",
    apart(0, 6, high=9.0),
    reference=lambda x: np.minimum(np.maximum(x, 0), 6),
    points=[
        Point("0", (0.0,), 0.0, (0.0,), kink=True),
        Point("6", (6.0,), 6.0, (0.0,), kink=True),
    ],
)
register_op(
    "hardtanh",
    both(apart(-1, 1), apart(-2, 3, min_val=-2.0, max_val=3.0)),
    reference=lambda x, min_val=-1.0, max_val=1.0: np.minimum(np.maximum(x, min_val), max_val),
    points=[Point("1", (1.0,), 1.0, (0.0,), kink=True)],
)


def _mp_hardsigmoid(x):
    return min(max(x + 3, 0 * x), 6 + 0 * x) / 6


register_op(
    "hardsigmoid",
    apart(-3, 3),
    reference=lambda x: np.minimum(np.maximum(x / 6 + 0.5, 0), 1),
    dtypes=REAL,
    mp=_mp_hardsigmoid,
    points=[
        Point("3", (3.0,), 1.0, (0.0,), kink=True),
        Point("−3", (-3.0,), 0.0, (0.0,), kink=True),
    ],
)
register_op(
    "hardswish",
    apart(-3, 3),
    reference=lambda x: x * np.minimum(np.maximum(x / 6 + 0.5, 0), 1),
    dtypes=REAL,
    mp=lambda x: x * _mp_hardsigmoid(x),
    points=[
        Point("3", (3.0,), 3.0, (1.0,), kink=True),
        Point("−3", (-3.0,), 0.0, (0.0,), kink=True),
    ],
)


def _leaky(x, slope=0.01):
    return np.where(x > 0, x, slope * x)


def slopes(rng, dtype):
    x = np.array([[-1.5, 0.7, -0.4], [2.0, -0.8, 0.3]]) + rng.uniform(-0.1, 0.1, (2, 3))
    for shape in ((), (3,), (2, 1)):
        slope = np.asarray(rng.uniform(0.1, 0.5, shape)).astype(dtype)
        yield Sample(f"slope {shape}", (x.astype(dtype), slope))
    for name, values in ("a negative slope", [-0.5, 0.3, -2.0]), ("slopes above 1", [1.5, 2, 0.5]):
        yield Sample(name, (x.astype(dtype), np.array(values, dtype)))
    yield Sample("a number", (x.astype(dtype), 1.5))


def weights(rng, dtype):
    x = rng.uniform(0.2, 1, (2, 3, 2)) * np.where(rng.random((2, 3, 2)) < 0.5, -1, 1)
    yield Sample("one weight", (x.astype(dtype), np.array([0.25], dtype)))
    yield Sample("a weight a channel", (x.astype(dtype), np.array([0.25, 0.1, 0.4], dtype)))
    yield Sample("0-d weight", (x[0, 0].astype(dtype), np.array(0.25, dtype)))
    five = x.reshape((2, 3, 1, 2, 1)).astype(dtype)
    yield Sample("five axes", (five, np.array([0.25, 0.1, 0.4], dtype)))


def _prelu(x, weight):
    if weight.size != 1:
        if weight.shape != x.shape[1:2]:
            raise ValueError("a weight a channel")
        weight = weight.reshape(-1, *[1] * (x.ndim - 2))
    elif weight.ndim > x.ndim:
        weight = weight.reshape(())
    return np.where(x > 0, x, weight * x)


kink = Point("0", (0.0, np.array(0.25)), 0.0, (0.25, 0.0), kink=True)
register_op("leaky", slopes, reference=_leaky, dtypes=REAL, points=[kink])
register_op(
    "leaky_relu",
    both(apart(0), apart(0, negative_slope=0.2), apart(0, negative_slope=1.5)),
    reference=lambda x, negative_slope=0.01: _leaky(x, negative_slope),
    points=[Point("0", (0.0,), 0.0, (0.01,), kink=True)],
)
register_op(
    "prelu",
    weights,
    reference=_prelu,
    points=[kink],
    errors=[
        ErrorSample("channels", (np.ones((2, 3)), np.ones(2)), ValueError, "3 channels"),
    ],
)


register_op(
    "hardshrink",
    both(apart(-0.5, 0.5), apart(-2, 2, lambd=2.0)),
    reference=lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, 0, x),  # NaN stays NaN
    dtypes=REAL,
    mp=lambda x: x if abs(x) > 0.5 else 0 * x,
    points=[Point("at the jumps", (np.array([-0.5, 0.5]),), [0.0, 0.0], (np.zeros(2),))],
)
register_op(
    "softshrink",
    both(apart(-0.5, 0.5), apart(-2, 2, lambd=2.0)),
    reference=lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, 0, x - lambd * np.sign(x)),
    dtypes=REAL,
    mp=lambda x: x - min(max(x, -0.5 + 0 * x), 0.5 + 0 * x),
    points=[
        Point("½", (0.5,), 0.0, (0.0,), kink=True),
        Point("−½", (-0.5,), 0.0, (0.0,), kink=True),
        Point("beyond", (np.array([-1.0, 1.0]),), [-0.5, 0.5], (np.ones(2),)),
    ],
)


# -- exponential below 0 ---------------------------------------------------------------------


def _elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


register_op(
    "elu",
    both(apart(0), apart(0, alpha=1.7)),
    reference=_elu,
    dtypes=REAL,
    mp=lambda x: x if x > 0 else from_mpmath("expm1")(x),
    points=[
        Point("0", (0.0,), 0.0, (1.0,)),
        Point("0, alpha 2", (0.0,), 0.0, (1.0,), {"alpha": 2.0}, kink=True),
        Point("0, alpha ½", (0.0,), 0.0, (0.5,), {"alpha": 0.5}, kink=True),
    ],
)
register_op(
    "selu",
    apart(0),
    reference=lambda x: 1.0507009873554805 * _elu(x, 1.6732632423543772),
    points=[Point("0", (0.0,), 0.0, (1.0507009873554805,), kink=True)],
)
register_op(
    "celu",
    both(apart(0), apart(0, alpha=1.7), apart(0, high=2, low=-2, alpha=-1.5)),
    reference=lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)),
    points=[Point("0", (0.0,), 0.0, (1.0,))],
)

# -- smooth ----------------------------------------------------------------------------------


_exp, _log1p, _tanh = from_mpmath("exp"), from_mpmath("log1p"), from_mpmath("tanh")
_erfc, _sqrt = from_mpmath("erfc"), from_mpmath("sqrt")


def _log_sum(x):
    """log(1 + eˣ); NumPy's logaddexp takes real numbers alone."""
    return np.log(1 + np.exp(x)) if x.dtype.kind == "c" else np.logaddexp(x, 0)


def _mp_softplus(x):
    return _log1p(_exp(x))


def _mp_mish(x):
    return x * _tanh(_log1p(_exp(x)))


def _mp_mish_derivative(x):
    if -3 < x < -0.5:  # near its zero −1.19 each of the two terms has its own rounding
        raise ValueError("outside of the range with 4 ULP")
    t = _tanh(_log1p(_exp(x)))
    return t + x * (1 - t * t) / (1 + _exp(-x))


def _mp_gelu_derivative(x):
    if -1 < x < -0.5:  # near its zero each of the two terms has its own rounding
        raise ValueError("outside of the range with 4 ULP")
    return _erfc(-x / _sqrt(2)) / 2 + x * _exp(-x * x / 2) / _sqrt(2 * from_mpmath("pi")())


def _mp_gelu(x):
    if x < -1.5:  # the rounding of x/√2 alone costs erfc x² ULP
        raise ValueError("outside of the range with 4 ULP")
    return x * _erfc(-x / _sqrt(2)) / 2


register_op(
    "softplus",
    both(unary(-4, 4), unary(-4, 4, beta=2.0), unary(-4, 4, beta=-0.75)),
    reference=lambda x, beta=1.0: _log_sum(beta * x) / beta,
    dtypes=(*NARROW, "complex128"),
    mp=_mp_softplus,
    points=[
        Point("1000", (1000.0,), 1000.0, (1.0,)),
        Point("−1000", (-1000.0,), 0.0, (0.0,)),
    ],
)
register_op(
    "logsigmoid",
    unary(-4, 4),
    reference=lambda x: 0 - _log_sum(-x),
    dtypes=(*NARROW, "complex128"),
    mp=lambda x: -_mp_softplus(-x),
    points=[
        Point("1000", (1000.0,), 0.0, (0.0,)),
        Point("−1000", (-1000.0,), -1000.0, (1.0,)),
    ],
)
register_op(
    "softsign",
    apart(0),
    reference=lambda x: x / (1 + np.abs(x)),
    dtypes=REAL,
    mp=lambda x: x / (1 + abs(x)),
)


def _tanhshrink(x):
    """By the series of tanh, whose next term is 10⁻¹² of the sum, where x − tanh x has no digits"""
    x = np.asarray(x, np.result_type(x, np.float64))
    square = x * x
    series = 1 / 3 - square * (2 / 15 - square * (17 / 315 - square * 62 / 2835))
    return np.where(np.abs(x) < 0.05, x * square * series, x - np.tanh(x))


register_op(
    "tanhshrink",
    unary(-4, 4),
    reference=_tanhshrink,
    dtypes=(*REAL, "complex128", "complex64"),
    mp=lambda x: x - from_mpmath("tanh")(x),
)

register_op(
    "silu",
    unary(-4, 4),
    reference=lambda x: x * _expit(x),
    dtypes=REAL,
    mp=lambda x: x / (1 + _exp(-x)),
)
register_op(
    "silu_derivative",
    unary(-4, 4),
    dtypes=REAL,
    mp=lambda x: (1 + x / (1 + _exp(x))) / (1 + _exp(-x)),
    conditioned="zero near −1.28",
)
register_op(
    "mish",
    unary(-4, 4),
    reference=lambda x: x * np.tanh(np.logaddexp(x, 0)),
    dtypes=NARROW,
    mp=_mp_mish,
)
register_op(
    "mish_derivative",
    unary(-4, 4),
    dtypes=REAL,
    mp=_mp_mish_derivative,
)


def _gelu(x, approximate="none"):
    if approximate == "none":
        return x * _ndtr(x)
    with np.errstate(over="ignore"):
        return x * _expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x))


forms = both(unary(-4, 4), unary(-4, 4, approximate="tanh"))
register_op(
    "gelu",
    forms,
    reference=_gelu,
    dtypes=NARROW,
    mp=_mp_gelu,
    conditioned="below 0 it is as sensitive to rounding of x/√2 as the tail of Φ",
    errors=[
        ErrorSample(
            "form", (np.ones(3),), ValueError, "'none' or 'tanh'", {"approximate": "sigmoid"}
        )
    ],
    points=[Point("0", (0.0,), 0.0, (0.5,)), Point("1000", (1000.0,), 1000.0, (1.0,))],
)
register_op(
    "gelu_derivative",
    forms,
    mp=_mp_gelu_derivative,
    conditioned="SciPy's erfc and our e^−x²/2 round x² first, which in the tail costs x² ULP",
)

# -- over an axis ----------------------------------------------------------------------------

INF = np.inf


def _log_softmax(x, axis=-1):
    """A row with +∞ gives the limit: 0 at its position, −∞ elsewhere, as they are relative to each
    other."""
    top = x.max(axis, keepdims=True, initial=-1e30)
    limit = np.where(x == INF, 0, -INF)
    x = np.where(top == INF, limit, x - np.where(top == INF, 0, top))
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def _softmax(x, axis=-1):
    return np.exp(_log_softmax(x, axis))


row = np.full((2, 3), -INF)
row[1] = [0.0, 0.0, -INF]
register_op(
    "softmax",
    axes(0, -1, 1, (0, 1)),
    reference=_softmax,
    dtypes=NUMBERS,
    points=[
        Point("a row all −∞", (row,), [[0, 0, 0], [0.5, 0.5, 0]], (np.zeros((2, 3)),)),
        Point("[1000, 0]", (np.array([1000.0, 0.0]),), [1.0, 0.0], (np.zeros(2),)),
    ],
)
half = -np.log(2)
register_op(
    "log_softmax",
    axes(0, -1, 1, (0, 1)),
    reference=_log_softmax,
    dtypes=NUMBERS,
    points=[
        Point("a row all −∞", (row[:1],), row[:1], (np.zeros((1, 3)),)),
        Point("[1000, 0]", (np.array([1000.0, 0.0]),), [0.0, -1000.0], (np.array([-1.0, 1.0]),)),
    ],
)

# -- gated -----------------------------------------------------------------------------------


def _halves(x, axis):
    return np.split(x, 2, axis)


def _glu(x, axis=-1):
    a, b = _halves(x, axis)
    return a / (1 + np.exp(-b))


def _swiglu(x, axis=-1):
    a, b = _halves(x, axis)
    return a * b / (1 + np.exp(-a))


odd = ErrorSample("odd size", (np.ones((2, 3)),), ValueError, r"must be even.*\(2, 3\)")
register_op("glu", axes(-1, 1), reference=_glu, errors=[odd])
register_op("swiglu", axes(-1, 1), reference=_swiglu, errors=[odd])
