"""Sigmoid and its inverse; by SciPy, the error function and the gamma family."""

import math
from collections.abc import Iterator
from functools import reduce
from operator import index
from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import is_differentiable
from ...engine.primitive import elementwise, primitive
from ...tensor_api.composite import composite
from .. import logistic, normal
from ..axes import module_of
from .complex_polygamma import complex_polygamma, cotangent_derivative
from .selection import choose, keep
from .support import exp_as_quotient, in_float32, number, special_function, zero

__all__ = [
    "digamma", "erf", "erfc", "erfinv", "gamma", "lgamma", "logit", "polygamma", "sigmoid",
]  # fmt: skip

TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)


# -- sigmoid ---------------------------------------------------------------------------------


@in_float32
def _sigmoid(x: Any) -> Any:
    if logistic.takes(x):
        return logistic.sigmoid(x)
    p, q = exp_as_quotient(x)
    q += p
    return p / q


@in_float32
def _sigmoid_derivative(x: Any) -> Any:
    if logistic.takes(x):
        return logistic.sigmoid_derivative(x)
    e = np.exp(np.minimum(x, -x))  # even in x: of ±x, the one whose exponential cannot overflow
    return e / np.square(1 + e)


# y(1 − y) has no correct digit left where y has rounded to 1; this is accurate in both tails.
sigmoid_derivative = elementwise(
    _sigmoid_derivative,
    name="sigmoid_derivative",
    dx=lambda x, y: -y * np.tanh(x * 0.5),
    doc="y = σ(x) σ(−x) = e^−|x| / (1 + e^−|x|)² ;  dy/dx = −y tanh(x/2)",
)
sigmoid = elementwise(
    _sigmoid,
    name="sigmoid",
    dx=lambda x: sigmoid_derivative(x),
    doc="y = 1/(1 + e⁻ˣ) ;  dy/dx = σ(x) σ(−x), accurate in both tails",
)


logit_slope = elementwise(  # a separate op: its derivative is infinite at 0 and 1, not ∞ − ∞
    in_float32(lambda x: 1 / (x * (1 - x))),
    name="logit_slope",
    dx=lambda x, y: keep((x - 0.5) * y * 2 * y, np.abs(x) != np.inf),
    doc="y = 1/(x(1 − x)) ;  dy/dx = (2x − 1) y²",
)


@primitive(kind="elementwise")
@in_float32
def logit(x, eps=None):
    """y = log(x/(1 − x)), the inverse of sigmoid ;  dy/dx = 1/(x(1 − x))

    eps: x is first moved into eps to 1 − eps; beyond them the gradient is 0.
    """
    x = x if eps is None else np.clip(x, eps, 1 - eps)
    middle = np.abs(x - 0.5) < 0.25  # near ½, where x/(1 − x) is near 1, as 2 artanh(2x − 1)
    s = np.clip(2 * x - 1, -0.5, 0.5)
    return choose(middle, 2 * np.arctanh(s), np.log(x / (1 - x)))


@logit.vjp("x")
def logit_dx(g, x, eps):
    if eps is None:
        return g * logit_slope(x)
    moved = np.logical_or(x < eps, x > 1 - eps)
    # there the slope at ½ is used: at x it may be infinite, and a product behind it 0 · ∞
    return keep(g * logit_slope(np.where(moved, 0.5, x)), np.logical_not(moved))


# -- the error function ----------------------------------------------------------------------

_scipys_erf = in_float32(special_function("erf"))


def _erf(x: Any) -> Any:
    return normal.erf(x) if normal.takes(x) else _scipys_erf(x)


erf = elementwise(
    _erf,
    name="erf",
    dx=lambda g, x: np.exp(-(x * x)) * TWO_OVER_SQRT_PI * g,
    doc="y = 2/√π ∫₀ˣ e^−t² dt ;  dy/dx = 2/√π e^−x²",
)
erfc = elementwise(
    in_float32(special_function("erfc")),
    dx=lambda g, x: np.exp(-(x * x)) * -TWO_OVER_SQRT_PI * g,
    doc="y = 1 − erf x ;  dy/dx = −2/√π e^−x²",
)
erfinv = elementwise(
    in_float32(special_function("erfinv")),
    dx=lambda y: np.exp(y * y) / TWO_OVER_SQRT_PI,
    doc="erf y = x ;  dy/dx = √π/2 e^y²",
)


# -- the gamma family ------------------------------------------------------------------------


_scipys_zeta = special_function("zeta")  # ψ⁽ⁿ⁾(x) = (−1)ⁿ⁺¹ n! ζ(n + 1, x)
_FAR_BELOW = -100  # from a q < 0 SciPy goes up in steps of 1: from −1e9 that took half a minute


def _cotangent(part: Any) -> Any:
    """cot π part for −½ ≤ part ≤ ½, exactly 0 at the ends."""
    size = np.abs(part)
    y = np.where(size > 0.25, np.tan(np.pi * (0.5 - size)), 1 / np.tan(np.pi * size))
    return np.where(part < 0, -y, y)


def _zeta(s: float, q: Any) -> Any:
    """ζ(s, q); of q far below 0 and whole s by ψ⁽ⁿ⁾(1 − q) (−1)ⁿ − ψ⁽ⁿ⁾(q) = π dⁿ/dqⁿ cot πq."""
    far = (q < _FAR_BELOW) & (q > -np.inf)
    if s < 2 or not float(s).is_integer() or (module_of(q) is np and not far.any()):
        return _scipys_zeta(s, q)
    n, q = int(s) - 1, q.astype(np.float64)
    y = _scipys_zeta(s, np.where(far, 1 - q, q))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # at the poles; NaN is NaN
        cot = _cotangent(q - np.rint(q))
        turns = reduce(lambda p, a: p * cot + a, cotangent_derivative(n)[::-1]) * (1 + cot * cot)
        mirrored = y + np.pi**s / math.factorial(n) * turns
    return np.where(far, (-1) ** n * mirrored, y)


@primitive(kind="elementwise")
@in_float32
def hurwitz_zeta(q, exponent=2.0):
    """y = Σₖ 1/(k + q)ˢ, k ≥ 0, s = exponent > 1 ;  dy/dq = −s ζ(s + 1, q)"""
    y = _zeta(exponent, q)
    return y.astype(q.dtype) if is_differentiable(q.dtype) else y  # SciPy answers in float64


@hurwitz_zeta.vjp("q")
def hurwitz_zeta_dq(g, q, exponent):
    return g * (-exponent * hurwitz_zeta(q, exponent=exponent + 1))


@composite
def zeta(x: float, q: Any = None) -> Any:
    """y = ζ(x, q) = Σₖ 1/(k + q)ˣ, k = 0, 1 …, x > 1 a number ;  dy/dq = −x ζ(x + 1, q)

    Without q Riemann's function of any x. TypeError for an array x: there is no derivative in x.
    """
    exponent = number("zeta", "the exponent x", x, variable="q")
    return _scipys_zeta(exponent) if q is None else hurwitz_zeta(q, exponent=exponent)


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)  # B₂ … B₁₆
_STEPS = 8  # up from x > 0 to where these are enough
_FEW = 1 << 12  # elements; of fewer all steps up are one array
_SERIES = [np.array(b) for b in _BERNOULLI[::-1]]  # ufuncs take them in half of a float's time
_UP, _EIGHT, _HALF = np.arange(_STEPS - 1.0, 0, -1)[:, None], np.array(_STEPS * 1.0), np.array(0.5)


def _trigamma(x: Any) -> Any:
    """ψ′(x) in float64, above 0 as Σ 1/(x + k)² for k < 8 and, at z = x + 8, Stirling's series
    1/z + 1/(2z²) + Σ B₂ₖ/z²ᵏ⁺¹; elsewhere SciPy's.

    Smallest terms come first. It is within 4 units in the last place, where SciPy's sum, which
    takes five times as long, is up to 7 off.
    """
    shape, x = x.shape, x.reshape(-1)
    if x.size == 1:
        x = np.full(2, x)  # NumPy takes longer for one number than for two
    above = x.size == 0 or x.item(x.argmin()) > 0 or x > 0
    start = (x if above is True else np.where(above, x, 1)).astype(np.float64)
    z = np.add(start, _EIGHT)
    first, square = np.reciprocal(z), np.reciprocal(np.multiply(z, z, z))
    y = np.multiply(square, _SERIES[0])
    for coefficient in _SERIES[1:-1]:
        np.add(y, coefficient, y)
        np.multiply(y, square, y)
    np.add(y, _SERIES[-1], y)
    np.multiply(y, first, y)
    np.add(y, _HALF, y)
    np.multiply(y, square, y)
    np.add(y, first, y)
    for term in _steps_up(start):
        np.add(y, term, y)
    last = np.reciprocal(start)  # squared then: x² may be subnormal
    np.add(y, np.multiply(last, last, last), y)
    if above is not True:
        rest = ~above
        y[rest] = _zeta(2.0, x[rest])
    return y[: math.prod(shape)].reshape(shape)[()]


def _steps_up(start: Any) -> Iterator[Any]:
    """1/(x + k)² for k = 7, 6, … 1."""
    if start.size < _FEW:
        z = start + _UP
        yield from np.reciprocal(np.multiply(z, z, z), z)
        return
    z = np.empty_like(start)
    for k in range(_STEPS - 1, 0, -1):
        np.add(start, k, z)
        yield np.reciprocal(np.multiply(z, z, z), z)


@primitive(kind="elementwise")
@in_float32
def polygamma_of(x, order=1):
    """y = dⁿ⁺¹/dxⁿ⁺¹ log Γ(x), n = order ≥ 1: the derivatives of digamma."""
    if x.dtype.kind == "c":
        return complex_polygamma(x, order).astype(x.dtype)
    if order == 1 and isinstance(x, np.ndarray | np.generic):
        with np.errstate(over="ignore"):
            y = _trigamma(x)
            return y.astype(x.dtype, copy=False) if is_differentiable(x.dtype) else y
    if order > 170:
        raise ValueError(f"order={order}: its factorial, a factor, is beyond float64 from 171 on")
    y = (-1) ** (order + 1) * math.factorial(order) * _zeta(float(order + 1), x)
    return y.astype(x.dtype) if is_differentiable(x.dtype) else y  # SciPy answers in float64


@polygamma_of.partial("x")
def polygamma_of_dx(x, order):
    return polygamma_of(x, order=order + 1)


@composite
def polygamma(n: int, x: Any) -> Any:
    """y = dⁿ/dxⁿ digamma(x), n = 0, 1, 2 ... ;  dy/dx = polygamma(n + 1, x)"""
    try:
        n = index(n)
    except TypeError:
        raise TypeError(f"polygamma: the order n must be one integer, got {n!r}") from None
    if n < 0:
        raise ValueError(f"polygamma: the order n must be 0 or more, got {n}")
    return polygamma_of(x, order=n) if n else digamma(x)


_scipys_digamma = special_function("digamma")


def _digamma(x: Any) -> Any:
    """ψ(x) of SciPy; where that takes a series about the zero at −0.504, whose ends are 10 units in
    the last place off, ψ(x + 1) − 1/x.
    """
    y = _scipys_digamma(x)
    if array_module(y) is not np or y.dtype.kind == "c":
        return y
    x, y = np.asarray(x), np.asarray(y)
    from_zero = np.abs(x + 0.504)
    at_an_end = (from_zero > 0.05) & (from_zero < 0.31)
    if at_an_end.any():
        x = x[at_an_end]
        y[at_an_end] = _scipys_digamma(x + 1) - 1 / x
    return y if y.ndim else y[()]  # a number of a number, as SciPy's


digamma = elementwise(
    in_float32(_digamma),
    name="digamma",
    dx=lambda x: polygamma_of(x, order=1),
    doc="y = d/dx log Γ(x) ;  dy/dx = polygamma(1, x)",
)
lgamma = elementwise(
    in_float32(special_function("gammaln")),
    name="lgamma",
    dx=lambda x: digamma(x),
    doc="y = log |Γ(x)| ;  dy/dx = digamma(x)",
)
loggamma = elementwise(
    in_float32(special_function("loggamma")),
    dx=lambda x: digamma(x),
    doc="""y = log Γ(x), NaN for real x < 0 ;  dy/dx = digamma(x)

    Of complex x the branch that is real above 0, with one cut along the negative axis.
    """,
)
gamma = elementwise(
    in_float32(special_function("gamma")),
    dx=lambda x, y: y * digamma(x),
    doc="y = Γ(x) ;  dy/dx = Γ(x) digamma(x)",
)


def rgamma_slope(x: Any) -> Any:
    """−ψ(x)/Γ(x), in three forms of which each is accurate, and differentiable, where it is used.

    By Γ(x + 1) = x Γ(x) near 0, by Γ(x) Γ(−x) = −π/(x sin πx) below: −ψ(x)/Γ(x) is ∞ · 0 at a pole,
    where that of a complex x is NaN, and at ∞, where it is 0.
    """
    if x.dtype.kind == "c":
        return -digamma(x) * rgamma(x)
    right, left, finite = x >= 0.5, x <= -0.5, x != np.inf
    a = np.where(right & finite, x, 1)
    b = np.where(right | left, 0, x)
    c = np.where(left, x, -1)
    n = np.round(c)
    turn, sign = math.pi * (c - n), 1 - 2 * (n % 2)
    sine, cosine = sign * np.sin(turn), sign * np.cos(turn)
    below = gamma(-c) * c * ((digamma(-c) - 1 / c) * sine / math.pi - cosine)
    near = rgamma(1 + b) * (1 - b * digamma(1 + b))
    above = -digamma(a) * keep(rgamma(a), finite)
    return np.where(right, above, np.where(left, below, near))


rgamma = elementwise(
    in_float32(special_function("rgamma")),
    dx=rgamma_slope,
    doc="y = 1/Γ(x), 0 at 0, −1, −2 … ;  dy/dx = −digamma(x)/Γ(x), (−1)ⁿ n! at −n",
)
gammasgn = elementwise(
    in_float32(special_function("gammasgn")),
    dx=zero,
    doc="y = the sign of Γ(x), so that Γ(x) = gammasgn(x) e^lgamma(x) ;  dy/dx = 0",
)
