"""Activation functions. Some have a rule, for speed or for accurate tails; the piecewise linear
ones are in straight.py.

`in_float32` runs a chain of steps on 16-bit floats in float32, rounded once at the end.
"""

import math
from typing import Any

import numpy as np

from ..engine.primitive import elementwise, primitive
from ..engine.registry import op
from ..tensor_api.composite import composite
from . import logistic, normal
from .axes import array_like, axis_of, widen
from .elementwise.near_one import exp_minus_1_below_0, log_of_1_plus
from .elementwise.selection import choose, keep
from .elementwise.special import sigmoid, sigmoid_derivative
from .elementwise.support import (
    at_least_0,
    at_most_0,
    exp_as_quotient,
    in_float32,
    ordered,
    special_function,
    with_fractions,
)

__all__ = [
    "celu", "elu", "gelu", "glu", "logsigmoid", "mish", "relu", "selu", "silu", "softplus",
    "softsign", "swiglu", "swish", "tanhshrink",
]  # fmt: skip

relu = elementwise(
    lambda x: at_least_0(ordered(x)),
    name="relu",
    dx=lambda g, y: keep(g, y != 0),  # of a NaN, as in max
    doc="y = max(x, 0) ;  dy/dx = 1 for x > 0, else 0 (0 at 0)",
)


# -- exponential below 0 ---------------------------------------------------------------------


@primitive(kind="elementwise")
@in_float32
def elu(x, alpha=1.0):
    """y = x for x > 0, else alpha (eˣ − 1) ;  dy/dx = 1, else alpha eˣ; at 0 the smaller of both"""
    return at_least_0(ordered(x)) + alpha * exp_minus_1_below_0(at_most_0(x))


@elu.vjp("x")
def elu_dx(g, x, alpha):
    line = x >= 0 if alpha > 1 else x > 0  # where the derivative is 1
    return op.where(line, g, g * (alpha * np.exp(at_most_0(x))))


@composite
def selu(x: Any) -> Any:
    """y = λ elu(x, α), with the α and λ that keep mean 0 and variance 1 (Klambauer et al. 2017)

    At 0 the slope is λ, the smaller of both (PyTorch: λα).
    """
    return 1.0507009873554805 * elu(x, alpha=1.6732632423543772)


@composite
def celu(x: Any, alpha: float = 1.0) -> Any:
    """y = x for x > 0, else alpha (e^(x/alpha) − 1) ;  dy/dx = 1, else e^(x/alpha): smooth at 0"""
    if alpha == 0:
        raise ValueError("celu: alpha must not be 0, by which x is divided; relu is the limit")
    if alpha == 1:
        return elu(x)
    x = ordered(array_like(x))
    above = x > 0  # x itself there: alpha (x/alpha) is rounded, and may overflow on the way
    return op.where(above, x, alpha * np.expm1(op.where(above, 0, x) / alpha))


# -- smooth ----------------------------------------------------------------------------------


@primitive(kind="elementwise")
@in_float32
def softplus(x, beta=1.0):
    """y = log(1 + e^(βx))/β = max(x, 0) + log1p(e^−|βx|)/β, min for β < 0 ;  dy/dx = σ(βx)

    Exact at every x: no switch to a straight line beyond a threshold is needed.
    """
    line = at_most_0(x) if beta < 0 else at_least_0(x)
    x = _times(beta, x)
    return line + log_of_1_plus(np.exp(np.minimum(x, -x))) / beta


@softplus.partial("x")
def softplus_dx(x, beta):
    return sigmoid(_times(beta, x))


def _times(beta: float, x: Any) -> Any:
    """βx, which may be infinite: softplus is a straight line by then."""
    with np.errstate(over="ignore"):
        return beta * x


logsigmoid = elementwise(
    in_float32(lambda x: np.minimum(x, 0) - log_of_1_plus(np.exp(np.minimum(x, -x)))),
    name="logsigmoid",
    dx=lambda x: sigmoid(-x),
    doc="y = log σ(x) = −softplus(−x) ;  dy/dx = σ(−x)",
)


@in_float32
def _softsign(x: Any) -> Any:
    if x.dtype.kind == "c":  # |x| makes it a function without a complex derivative
        raise TypeError(f"x must be real, got {x.dtype}; x / (1 + abs(x)) takes complex numbers")
    return x / (1 + np.abs(x))


softsign = elementwise(
    _softsign,
    name="softsign",
    dx=lambda x: np.square(1 / (1 + np.abs(x))),
    doc="y = x/(1 + |x|) ;  dy/dx = 1/(1 + |x|)²",
)


@in_float32
def _tanhshrink(x: Any) -> Any:
    """x − tanh x, whose difference has few digits where |x| < 1. There by Lambert's fraction,
    tanh x = x/(1 + c) with c = x²/(3 + x²/(5 + x²/(7 + …))), that is x c/(1 + c).
    """
    x = with_fractions(x)
    near = np.abs(x) < 1
    u = choose(near, x, 0)
    square, c = u * u, np.zeros_like(u)
    for odd in range(_LAMBERT.get(x.dtype.char, 17), 1, -2):
        c += odd
        np.divide(square, c, out=c)
    return choose(near, u * c / (1 + c), x - np.tanh(x))


_LAMBERT = {"f": 11, "F": 11}  # the last denominator that counts at |x| = 1; 17 in float64

tanhshrink = elementwise(
    _tanhshrink,
    name="tanhshrink",
    dx=lambda x: np.square(np.tanh(widen(x))),
    doc="y = x − tanh x, with all its digits near 0 too ;  dy/dx = tanh² x",
)


@in_float32
def _silu(x: Any) -> Any:
    if logistic.takes(x):
        return logistic.silu(x)
    p, q = exp_as_quotient(x)
    q += p
    p *= x
    return p / q


@in_float32
def _silu_derivative(x: Any) -> Any:
    if logistic.takes(x):
        return logistic.silu_derivative(x)
    p, q = exp_as_quotient(x)
    total = p + q
    return p * (total + x * q) / (total * total)


silu_derivative = elementwise(
    _silu_derivative,
    name="silu_derivative",
    dx=lambda x: sigmoid_derivative(x) * (2 - x * np.tanh(x * 0.5)),
    doc="y = σ(x) (1 + x σ(−x)) ;  dy/dx = σ(x) σ(−x) (2 − x tanh(x/2))",
)
silu = elementwise(
    _silu,
    name="silu",
    dx=lambda x: silu_derivative(x),
    doc="y = x σ(x), also called swish ;  dy/dx = σ(x) (1 + x σ(−x))",
)
swish = silu


@in_float32
def _mish(x: Any) -> Any:
    p, q = exp_as_quotient(x)
    n = p * (p + 2 * q)
    return x * n / (n + 2 * q * q)


@in_float32
def _mish_derivative(x: Any) -> Any:
    p, q = exp_as_quotient(x)
    n, m = p * (p + 2 * q), 2 * q * q
    total = n + m
    return n / total + (x * p / (p + q)) * (m * (2 * n + m) / (total * total))


def _mish_second(x: Any) -> Any:
    """With t = tanh(softplus x) and s = σ(x): (1 − t²) s (2 + x (1 − s − 2 t s))

    With r = 1 − s = σ(−x), t is s (1 + r)/(1 + r²) and 1 − t² is 4r²/(1 + r²)². Neither contains a
    difference, and r has all its digits where t is near 1.
    """
    x = widen(x)
    r, s = sigmoid(-x), sigmoid(x)
    total = 1 + r * r
    # 2 (1 + x (r/2 − …)) for 2 + x (r − 2 …): 2x may be infinite
    return 8 * np.square(r / total) * s * (1 + x * (0.5 * r - s * s * (1 + r) / total))


# With eˣ = p/q, n = p² + 2pq and m = 2q²: t = n/(n + m) and 1 − t² = m(2n + m)/(n + m)².
mish_derivative = elementwise(
    _mish_derivative,
    name="mish_derivative",
    dx=_mish_second,
    doc="y = t + x (1 − t²) s, t = tanh(softplus x), s = σ(x)",
)
mish = elementwise(
    _mish,
    name="mish",
    dx=lambda x: mish_derivative(x),
    doc="y = x t, t = tanh(softplus x) ;  dy/dx = t + x (1 − t²) σ(x)",
)


# -- gelu ------------------------------------------------------------------------------------

INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
TANH_SCALE, TANH_CUBIC = math.sqrt(2 / math.pi), 0.044715
_ndtr = special_function("ndtr")


def _bounded(x: Any) -> Any:
    """x held to ±40, beyond which e^−x²/2 is 0 in every dtype; keeps x² from overflowing."""
    return np.clip(x, -40, 40)


def _density(x: Any) -> Any:
    return INV_SQRT_2PI * np.exp(-0.5 * x * x)


def _by_tanh(approximate: str) -> bool:
    """Whether the tanh form is asked for; ValueError for what is not a form."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return approximate == "tanh"


@primitive(kind="elementwise", residuals=["slope"])
@in_float32
def gelu(x, approximate="none"):
    """y = x Φ(x), Φ the normal distribution ;  dy/dx = Φ(x) + x φ(x)

    approximate="tanh" puts (1 + tanh u)/2 for Φ, u = √(2/π) (x + 0.044715 x³). The derivative is
    computed with the value, from the same exponential, and kept for the backward.
    """
    return _gelu(x, approximate)


def _gelu(x: Any, approximate: str) -> tuple:
    """(gelu x, its derivative)."""
    if _by_tanh(approximate):
        return _gelu_tanh(x)
    return normal.gelu(x) if normal.takes(x) else _gelu_ndtr(x)


def _gelu_ndtr(x: Any) -> tuple:
    phi = _ndtr(x)
    near = _bounded(x)
    return x * phi, phi + near * _density(near)


def _gelu_tanh(x: Any) -> tuple:
    """x σ(u) and σ(u) + x σ(u) σ(−u) u′; (1 + tanh(u/2))/2 is σ(u)."""
    near = _bounded(x)
    square = near * near
    p, q = exp_as_quotient(2 * TANH_SCALE * near * (1 + TANH_CUBIC * square))
    slope = 2 * TANH_SCALE * (1 + 3 * TANH_CUBIC * square)
    total = p + q
    return x * p / total, p * (total + near * slope * q) / (total * total)


@gelu.partial("x")
def gelu_dx(x, slope, approximate):
    return gelu_derivative(x, slope, approximate=approximate)


@primitive(kind="elementwise", arrays="x slope", constants=["slope"])
@in_float32
def gelu_derivative(x, slope: Any = None, approximate="none"):
    """y = Φ(x) + x φ(x), the derivative of gelu ;  dy/dx = φ(x) (2 − x²)

    approximate="tanh": y = s + x s′ u′ and dy/dx = s′ (2 u′ + x u″) + x s″ u′², where s = σ(u) and
    u is twice the one of gelu. slope: y where it is known; to the rule y is a function of x all
    the same.
    """
    return _gelu(x, approximate)[1] if slope is None else slope


@gelu_derivative.vjp("x")
def gelu_derivative_dx(g, x, approximate):
    """By s″ = −s′ tanh(u/2), the tanh form is s′ (2 u′ + x u″ − x tanh(u/2) u′²)."""
    x = _bounded(widen(x))
    if approximate == "none":
        return g * (_density(x) * (2 - x * x))
    u = 2 * TANH_SCALE * x * (1 + TANH_CUBIC * x * x)
    du = 2 * TANH_SCALE * (1 + 3 * TANH_CUBIC * x * x)
    x_ddu = 12 * TANH_SCALE * TANH_CUBIC * x * x
    return g * (sigmoid_derivative(u) * (2 * du + x_ddu - x * np.tanh(u * 0.5) * du * du))


# -- gated -----------------------------------------------------------------------------------


def _halves(name: str, x: Any, axis: int) -> list:
    x = array_like(x)
    if x.shape[axis_of(axis, x.ndim)] % 2:
        raise ValueError(
            f"{name} halves axis {axis} of x, whose size must be even; x has shape {x.shape}"
        )
    return op.split(x, 2, axis)


@composite
def glu(x: Any, axis: int = -1) -> Any:
    """y = a σ(b), where a and b are the halves of x along `axis`"""
    a, b = _halves("glu", x, axis)
    return a * sigmoid(b)


@composite
def swiglu(x: Any, axis: int = -1) -> Any:
    """y = silu(a) b, where a and b are the halves of x along `axis` (Shazeer 2020)"""
    a, b = _halves("swiglu", x, axis)
    return silu(a) * b
