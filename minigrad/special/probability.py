"""What probability takes from SciPy: the normal distribution and the beta family. The
names are those of scipy.special; mg.special has them.
"""

import math
from typing import Any

import numpy as np

from ..backends.dtypes import common_dtype, is_floating
from ..engine.graph import raw
from ..engine.primitive import elementwise, primitive
from ..ops.axes import widen
from ..ops.batching import full
from ..ops.elementwise.exponential import product_with_log
from ..ops.elementwise.selection import keep, zero_wins
from ..ops.elementwise.special import (
    TWO_OVER_SQRT_PI,
    digamma,
    gamma,
    lgamma,
    polygamma_of,
    rgamma,
    rgamma_slope,
)
from ..ops.elementwise.support import (
    at_least,
    in_float32,
    of_several,
    special_function,
    with_fractions,
)
from ..tensor_api.composite import composite

_MOST_DIMENSIONS = 100_000  # of multigammaln, a term each

__all__: list[str] = []  # `beta` and the like would be strange names for mg; see mg.special

SQRT_2PI = math.sqrt(2 * math.pi)

# -- the normal distribution -----------------------------------------------------------------


@primitive(kind="elementwise")
def standard_score(x, loc, scale):
    """y = (x − loc)/scale ;  ∂y/∂x = 1/scale, ∂y/∂loc = −1/scale, ∂y/∂scale = −y/scale

    Where x is infinite the gradient in scale is 0 if nothing behind it depends on y.
    """
    return (x - loc) / scale


@standard_score.vjp("x")
def standard_score_dx(g, scale):
    return g / scale


@standard_score.vjp("loc")
def standard_score_dloc(g, scale):
    return -g / scale


@standard_score.vjp("scale")
def standard_score_dscale(g, scale, y):
    return zero_wins(-g, y) / scale


normal_density = elementwise(
    in_float32(lambda x: np.exp(-0.5 * x * x) / SQRT_2PI),
    name="normal_density",
    dx=lambda x, y: -y * keep(x, y != 0),
    doc="y = φ(x) = e^−x²/2/√2π ;  dy/dx = −x φ(x), 0 at ±∞",
)
ndtr = elementwise(
    in_float32(special_function("ndtr")),
    dx=lambda x: normal_density(x),
    doc="y = Φ(x) = ∫₋∞ˣ e^−t²/2 dt/√2π ;  dy/dx = e^−x²/2/√2π",
)
ndtri = elementwise(
    in_float32(special_function("ndtri")),
    dx=lambda y: SQRT_2PI * np.exp(0.5 * y * y),
    doc="Φ(y) = x, 0 < x < 1 ;  dy/dx = √2π e^y²/2",
)


@primitive(kind="elementwise")
@in_float32
def erfc_ratio(x, order=1):
    """y = rₙ = iⁿerfc x/iⁿ⁻¹erfc x, n = order, x ≥ 1.5 ;  dy/dx = 2rₙ (n rₙ − (n + 1) rₙ₊₁)

    Of neighbours among the repeated integrals of erfc (DLMF 7.18), by the continued fraction that
    their recurrence makes, rₙ₋₁ = 1/(2x + 2n rₙ): no difference in it, so it keeps its digits
    where 1 − √π x erfcx x has none. 80 terms are enough for float64 from x = 1.5.
    """
    y = np.zeros_like(x)
    for n in range(80 + order, order, -1):
        y = 1 / (2 * (x + n * y))
    return y


@erfc_ratio.vjp("x")
def erfc_ratio_dx(g, x, y, order):
    return g * (2 * y * (order * y - (order + 1) * erfc_ratio(x, order=order + 1)))


def _erfcx_dx(x: Any, y: Any) -> Any:
    if x.dtype.kind == "c":
        return x * y * 2 - TWO_OVER_SQRT_PI
    x = widen(x)
    far = x > 1.5
    near = 2 * np.where(far, 0, x) * y - TWO_OVER_SQRT_PI
    return np.where(far, -2 * y * erfc_ratio(np.where(far, x, 1.5)), near)


erfcx = elementwise(
    in_float32(special_function("erfcx")),
    dx=_erfcx_dx,
    doc="y = e^x² erfc x, which does not underflow ;  dy/dx = 2xy − 2/√π",
)
_scipys_erfcx = special_function("erfcx")


def _log_ndtr_slope_dx(x: Any, y: Any) -> Any:
    """−y (x + y), the sum by a continued fraction where it cancels. Between there and 0 it loses a
    digit: of narrow floats both are taken in float64.
    """
    if x.dtype.itemsize < 8:
        x = x.astype(np.float64)
        return _log_ndtr_slope_dx(x, log_ndtr_slope(x)).astype(y.dtype)
    far = x < -2.125  # nearer to 0 the fraction converges slowly
    rise = math.sqrt(2) * erfc_ratio(np.where(far, x, -2.125) * -math.sqrt(0.5))
    near = keep(x, np.logical_not(far) & (y != 0)) + np.where(far, 0, y)  # at +∞ too
    limit = y == np.inf
    return np.where(far, -keep(y, np.logical_not(limit)) * rise - limit, -y * near)


log_ndtr_slope = elementwise(  # without the quotient of two numbers that underflow
    in_float32(lambda x: math.sqrt(2 / math.pi) / _scipys_erfcx(x * -math.sqrt(0.5))),
    name="log_ndtr_slope",
    dx=_log_ndtr_slope_dx,
    doc="y = φ(x)/Φ(x) = √(2/π)/erfcx(−x/√2) ;  dy/dx = −y (x + y)",
)
log_ndtr = elementwise(
    in_float32(special_function("log_ndtr")),
    dx=lambda x: log_ndtr_slope(x),
    doc="y = log Φ(x), also far to the left ;  dy/dx = √(2/π)/erfcx(−x/√2)",
)
ndtri_exp = elementwise(
    in_float32(special_function("ndtri_exp")),
    dx=lambda y: 1 / log_ndtr_slope(widen(y)),
    doc="log Φ(y) = x, x ≤ 0 ;  dy/dx = Φ(y)/φ(y)",
)
erfcinv = elementwise(
    in_float32(special_function("erfcinv")),
    dx=lambda y: -np.exp(y * y) / TWO_OVER_SQRT_PI,
    doc="erfc y = x, 0 < x < 2 ;  dy/dx = −√π/2 e^y²",
)

# -- the beta and gamma families -------------------------------------------------------------


# Σ |b/a|ⁿ beyond _TERMS of them is below the rounding of a float64
_TERMS, _CLOSE = 6, 3e-3
_LARGE = 1e8  # from there on powers of b may be infinite, and 1/(12z²) is nothing beside log z


def _log_slope(a: Any, b: Any) -> Any:
    """∂/∂a of log B(a, b), digamma(a) − digamma(a + b), which for a small b share all digits.

    Near 0 first what the two poles differ by, as digamma(z) = digamma(z + 1) − 1/z; then, where b
    is small beside the distance to the next pole, Taylor's series of the rest.
    """
    a = widen(a)
    first = a > -0.5
    c = np.where(first, a + 1, a)
    rest = digamma(c) - digamma(c + b)
    distance = np.where(first, c, np.abs(a - np.round(a)))
    near = (_CLOSE * distance > np.abs(b)) & (c < _LARGE)  # b may be a number, CuPy's array first
    if raw(near).any():
        u, t = np.where(near, c, 1), np.where(near, b, 0)
        series = sum(
            polygamma_of(u, order=n) * (-(t**n) / math.factorial(n)) for n in range(1, _TERMS + 1)
        )
        rest = np.where(near, series, rest)
    far = (c >= _LARGE) & (b > -0.5 * c) & (b < np.inf)
    if raw(far).any():  # by ψ(z) = log z − 1/(2z) − …
        u, t = np.where(far, c, 1), np.where(far, b, 0)
        rest = np.where(far, -np.log1p(t / u) - 0.5 / u * (t / (u + t)), rest)
    d = np.where(first, a, 1)
    return rest - np.where(first, 1 / (d + d * (d / b)), 0)


betaln = elementwise(
    lambda a, b: of_several("betaln", a, b),
    name="betaln",
    da=lambda a, b: _log_slope(a, b),
    db=lambda a, b: _log_slope(b, a),
    doc="y = log B(a, b) ;  ∂y/∂a = digamma(a) − digamma(a + b), likewise b",
)


def _beta_slope(a: Any, b: Any, y: Any) -> Any:
    """∂/∂a of B(a, b). At a pole of Γ(a + b) y is 0 and digamma(a + b) infinite: there it is that
    of the product Γ(a) Γ(b) (1/Γ(a + b))."""
    pole = (a + b <= 0) & (a + b == np.round(a + b))
    slope = y * _log_slope(np.where(pole, 1, a), np.where(pole, 1, b))
    if not raw(pole).any():
        return slope
    a, b = np.where(pole, a, 1), np.where(pole, b, 1)
    by_factors = digamma(a) * rgamma(a + b) + rgamma_slope(a + b)
    return np.where(pole, gamma(a) * gamma(b) * by_factors, slope)


beta = elementwise(
    lambda a, b: of_several("beta", a, b),
    name="beta",
    da=lambda a, b, y: _beta_slope(a, b, y),
    db=lambda a, b, y: _beta_slope(b, a, y),
    doc="""y = B(a, b) = Γ(a) Γ(b)/Γ(a + b) ;  ∂y/∂a = y (digamma(a) − digamma(a + b)), likewise b

    Where a + b is 0, −1, −2 … and neither a nor b is, y is 0 and the gradient the limit.
    """,
)


def _two_powers(x: Any, p: Any, q: Any, c: Any) -> Any:
    """By logarithms: of a density's factors each alone may be beyond the numbers that there are."""
    dtype = common_dtype(x, p, q, c)
    x, p, q, c = (with_fractions(at_least(np.float32, z)) for z in (x, p, q, c))
    with np.errstate(divide="ignore"):  # log 0 is what an end of the support has
        logs = product_with_log(p, x, np.log, 1) + product_with_log(q, -x, np.log1p, 0)
    y = np.exp(logs + c)
    return y.astype(dtype) if dtype.itemsize == 2 and is_floating(dtype) else y


def _two_powers_dx(x: Any, p: Any, q: Any, c: Any) -> Any:
    """Where a power is constant (p = 0) the other factors' singular points do not count; where one
    is infinite, its own slope alone does, which outweighs the other's."""
    p, q = with_fractions(p), with_fractions(q)
    rise, fall = np.where((x == 1) & (q < 0), 0, p), np.where((x == 0) & (p < 0), 0, q)
    left = (rise == 0) & ((x == 0) | ((x == 1) & (q < 0)))
    right = (fall == 0) & ((x >= 1) | ((x == 0) & (p < 0)))
    return rise * two_powers(np.where(left, 0.5, x), p - 1, q, c) - fall * two_powers(
        np.where(right, 0.5, x), p, q - 1, c
    )


two_powers = elementwise(
    _two_powers,
    name="two_powers",
    dx=_two_powers_dx,
    # y log x is 0 at x = 0 for p > 0, as its limit is; at p = 0 too, as in xlogy
    dp=lambda x, p, y: y * np.log(np.where((p >= 0) & (x <= 0), 1, with_fractions(x))),
    dq=lambda x, q, y: y * np.log1p(np.where((q >= 0) & (x >= 1), 0, -with_fractions(x))),
    dc=lambda y: y,
    doc="""y = xᵖ (1 − x)^q eᶜ ;  ∂y/∂x = p xᵖ⁻¹ (1 − x)^q eᶜ − q xᵖ (1 − x)^(q−1) eᶜ, ∂y/∂c = y

    The density of the beta distribution and, with q = 0, of the gamma distribution. At the ends its
    derivatives are the one-sided limits, where exp(p log x + …) would have 0 · ∞.
    """,
)


@primitive
def power_product(x, p, c):
    """y = eᶜ Π_i x_i^p_i along the last axis ;  gp_i = g y log x_i, gc = g y

    gx_i = g p_i (y with one power of x_i less). x and p (…, d), c (…): Dirichlet's density. A
    factor 0 makes y 0, for any others. Where an x_i is 0 the derivative in it is the limit from
    above with the others held, in the order of differentiation: 0 for p_i > 1, ±∞ for p_i < 1 where
    no other factor is 0; and x_i⁰ is constant. Its price is d numbers more for each x_i: exp(c + Σ
    p_i log x_i) is the same function, and cheaper, where all x_i > 0.
    """
    if not x.ndim or p.shape != x.shape or c.shape != x.shape[:-1]:
        shapes = f"{x.shape}, {p.shape}, {c.shape}"
        raise ValueError(f"x (…, d) goes with p (…, d) and c (…), got {shapes}")
    dtype = common_dtype(x, p, c)
    x, p, c = (at_least(np.float32, z) for z in (x, p, c))
    zero = ((x == 0) & (p > 0)).any(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):  # log 0 is what a share of 0 has
        logs = product_with_log(p, np.where(zero, 1, x), np.log, 1)
    y = np.exp(logs.sum(axis=-1) + np.where(zero[..., 0], -np.inf, c))
    return y.astype(dtype, copy=False)


@power_product.vjp("x")
def power_product_dx(g, x, p, c, xp):
    """Where x_i⁰ is constant the singular points, its own and the others', do not count."""
    endless = np.any((x == 0) & (p < 0), axis=-1, keepdims=True)
    constant = (p == 0) & ((x == 0) | endless)
    others = np.where(constant[..., None], 0.5, x[..., None, :])
    less = p[..., None, :] - xp.eye(x.shape[-1], dtype=p.dtype)
    y = power_product(others, less, np.broadcast_to(c[..., None], x.shape))
    return g[..., None] * p * y


@power_product.vjp("p")
def power_product_dp(g, x, p, y):
    # y log x is 0 at x = 0 for p ≥ 0, as in two_powers
    return (g * y)[..., None] * np.log(np.where((p >= 0) & (x <= 0), 1, with_fractions(x)))


@power_product.vjp("c")
def power_product_dc(g, y):
    return g * y


@power_product.batch
def power_product_batch(op, xs, batched, params):
    return op(*full(xs, batched))


@composite
def multigammaln(a: Any, d: int) -> Any:
    """y = log Γ_d(a) = d(d − 1)/4 log π + Σⱼ₌₁ᵈ log Γ(a + (1 − j)/2);  d = 1, 2 ..."""
    if not isinstance(d, int | np.integer) or d < 1:
        raise ValueError(f"multigammaln: the dimension d must be 1, 2 ..., got {d!r}")
    if d > _MOST_DIMENSIONS:
        raise ValueError(f"multigammaln: the dimension d is at most {_MOST_DIMENSIONS:,}, got {d}")
    d = int(d)  # of int8, d (d − 1) wraps round
    y = lgamma(a) + d * (d - 1) / 4 * math.log(math.pi)
    for j in range(2, d + 1):
        y = y + lgamma(a + (1 - j) / 2)
    return y
