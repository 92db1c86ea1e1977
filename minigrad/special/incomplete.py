"""The incomplete gamma and beta integrals by SciPy's names, with derivatives in every argument.

In a shape parameter they have no closed form. Below the mean the integral is a power series with
positive terms or a continued fraction, above it the upper integral is; both are taken of power
series in s, at a + s, so that the coefficients of sⁿ are the derivatives divided by n!. On their
side of the mean the parts of the first derivative have one sign, so nothing cancels. The relative
error is that of xᵃ e⁻ˣ/Γ(a), some ε a log a. R. Boik and J. Robison-Cox (1998) differentiate the
beta function's fraction the same way.
"""

from collections.abc import Callable
from math import comb, factorial
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import common_dtype
from ..engine.primitive import primitive
from ..ops.axes import widen
from ..ops.elementwise.selection import zero_wins
from ..ops.elementwise.special import digamma, lgamma, polygamma_of
from ..ops.elementwise.support import at_least, of_beta, of_several, with_fractions
from . import power_series as series
from .probability import betaln, two_powers

__all__: list[str] = []  # see mg.special

_LARGEST = 1e6  # beyond it some √a steps would be too many
_EPS = float(np.finfo(np.float64).eps)
_BLOCK = 1 << 13  # elements: all that a step reads and writes stays in cache
_NOTHING = -800.0  # the logarithm of a factor that outweighs everything


def _derivative_of_exp(y: Any, slope: Callable, n: int, m: int = 0) -> Any:
    """∂ⁿ⁺ᵐy/∂aⁿ∂bᵐ of y = eˡ, where slope(i, j) = ∂ⁱ⁺ʲl/∂aⁱ∂bʲ: y′ = y l′, differentiated on."""
    if n == m == 0:
        return y
    if n == 0:  # the same in b alone
        return _derivative_of_exp(y, lambda i, j: slope(j, i), m)
    return sum(
        comb(n - 1, i) * comb(m, j)
        * _derivative_of_exp(y, slope, n - 1 - i, m - j) * slope(i + 1, j)
        for i in range(n) for j in range(m + 1)
    )  # fmt: skip


def _exp_series(log: Any, slope: Callable, degrees: tuple[int, int]) -> Any:
    """eˡ as a series in the steps of a and b."""
    p = series.constant(log, degrees)
    for i, j in series.orders(p):
        if i or j:
            p[i, j] = slope(i, j) / (factorial(i) * factorial(j))
    return series.exp(p)


def _where(fits: Any, usable: Any, xs: list, compute: Callable) -> Any:
    """compute(*xs) at the usable elements, 0 at others that fit, NaN elsewhere.

    On the host in blocks: the arrays of a step then stay in cache, and a block ends when its
    elements have converged.
    """
    y = np.where(fits, 0.0, np.nan)
    places = np.flatnonzero(usable)
    size = _BLOCK if type(y) is np.ndarray else max(places.size, 1)
    for start in range(0, places.size, size):
        block = places[start : start + size]
        with np.errstate(under="ignore"):
            y[block] = compute(*[x[block] for x in xs])
    return y


def _flat(*xs: Any) -> tuple[tuple, list]:
    """The common shape, and each as one axis of float64."""
    xp = next((array_module(x) for x in xs if hasattr(x, "dtype")), np)
    xs = np.broadcast_arrays(*[xp.asarray(x, dtype=np.float64) for x in xs])
    return xs[0].shape, [x.reshape(-1) for x in xs]


def _when_done(step: Callable[[int], tuple]) -> Any:
    """step(k) = (the value so far, where it goes on changing), k = 1, 2 …, until it does nowhere.

    Each element has the value of the step at which it was done (checked after every fourth): its
    bits do not depend on its neighbours.
    """
    k, y, going = 0, None, np.True_
    while going.any():
        for _ in range(4):
            k += 1
            value, changes = step(k)
        if y is None:
            y, going = value, changes()
        else:
            y = np.where(going, value, y)
            going = going & changes()
    return y


def _changes(change: Any, of: Any, limit: float) -> Any:
    """Where a step of a series or a product changes a digit of any coefficient."""
    return (np.abs(change) > limit * _EPS * of).any(axis=(0, 1))


def _fraction(first: Any, step: Callable) -> Any:
    """b₀ + a₁/(b₁ + a₂/(b₂ + …)) for series, step(k) = (a_k, b_k): W. Lentz (1976)."""
    c, d, y = first, np.zeros_like(first), first
    one = series.constant(np.ones_like(first[0, 0]), _degrees(first))

    def longer(k: int) -> tuple:
        nonlocal c, d, y
        a, b = step(k)
        below = series.times(a, d) + b
        d = series.over(one, below)
        c = b + series.over(a, c)
        turn = series.times(c, d)
        y = series.times(y, turn)

        def changes() -> Any:
            # the coefficients of c d cancel to 0: their rounding is that of the parts
            parts = np.abs(c * d[0, 0]) + np.abs(c[0, 0] * d) + np.abs(y / y[0, 0])
            return _changes(series.plus(turn, -1), parts, 2)

        return y, changes

    return _when_done(longer)


def _degrees(p: Any) -> tuple[int, int]:
    return p.shape[0] - 1, p.shape[1] - 1


def _with_ends(y: Any, inside: Any, power: Any) -> Any:
    """y inside of the support; at its ends 0, where t^(power − 1) has that limit, else NaN."""
    return np.where(inside | (power > 1), np.where(inside, y, 0), np.nan)


# -- gamma -----------------------------------------------------------------------------------


@primitive(kind="elementwise")
def gammainc(a, x):
    """y = γ(a, x)/Γ(a) = ∫₀ˣ tᵃ⁻¹ e⁻ᵗ dt / Γ(a) ;  ∂y/∂x = xᵃ⁻¹ e⁻ˣ/Γ(a), ∂y/∂a by a series"""
    return of_several("gammainc", a, x)


@gammainc.vjp("a")
def gammainc_da(g, a, x):
    return g * gammainc_derivative(a, x, order=1)


@gammainc.vjp("x")
def gammainc_dx(g, a, x):
    far = x == np.inf  # 0 there: log ∞ − ∞ would be NaN
    # exponents in fewer digits, differences of large numbers, would leave none of the density
    a, x = at_least(np.float64, with_fractions(a)), np.where(far, 1, at_least(np.float64, x))
    density = two_powers(x, a - 1, 0.0, -x - lgamma(a)).astype(widen(g).dtype)
    return np.where(far, 0, zero_wins(g, density))


@primitive(kind="elementwise")
def gammaincc(a, x):
    """y = 1 − gammainc(a, x) = ∫ₓ^∞ tᵃ⁻¹ e⁻ᵗ dt / Γ(a), without the difference

    The derivatives are −gammainc's.
    """
    return of_several("gammaincc", a, x)


@gammaincc.vjp("a")
def gammaincc_da(g, a, x):
    return -gammainc_da(g, a, x)


@gammaincc.vjp("x")
def gammaincc_dx(g, a, x):
    return -gammainc_dx(g, a, x)


@primitive(kind="elementwise")
def gammainc_derivative(a, x, order=1):
    """y = ∂ⁿ/∂aⁿ gammainc(a, x), n = order ≥ 1 ;  the next order in a, the density's in x

    0 < a ≤ 10⁶ and x ≥ 0, NaN elsewhere. For n = 1 the relative error is about ε a log a.
    """
    dtype = common_dtype(a, x)
    shape, (a, x) = _flat(a, x)
    fits = (a > 0) & (a <= _LARGEST) & (x >= 0)
    with np.errstate(all="ignore"):
        inside = fits & (a * np.log(x) - x - lgamma(a + 1) > _NOTHING)
    low = x <= np.maximum(a + 0.5, 1.5)
    y = _where(fits, inside & low, [a, x], lambda a, x: _lower_gamma(a, x, order))
    y += _where(fits, inside & ~low, [a, x], lambda a, x: -_upper_gamma(a, x, order))
    return y.reshape(shape).astype(dtype)


def _gamma_slope(a: Any, x: Any) -> Callable:
    """Derivatives in a of log(xᵃ e⁻ˣ/Γ(a))."""
    return lambda n, _: np.log(x) - digamma(a) if n == 1 else -polygamma_of(a, order=n - 1)


def _gamma_factor(a: Any, x: Any, degrees: tuple[int, int]) -> Any:
    """xᵃ e⁻ˣ/Γ(a + 1): of Γ(a) a small a would have a pole in sight."""
    return _exp_series(a * np.log(x) - x - lgamma(a + 1), _gamma_slope(a + 1, x), degrees)


def _lower_gamma(a, x, order):
    """γ(a, x)/Γ(a) = xᵃ e⁻ˣ/Γ(a + 1) Σ_k xᵏ/((a + 1) … (a + k))"""
    degrees = order, 0
    term = total = series.constant(np.ones_like(a), degrees)

    def longer(k):
        nonlocal term, total
        term = series.over(term * x, series.variable(a + k, degrees, 0))
        total = total + term
        return total, lambda: _changes(term, np.abs(total), 0.25)

    total = _when_done(longer)
    return series.times(_gamma_factor(a, x, degrees), total)[order, 0] * factorial(order)


def _upper_gamma(a, x, order):
    """Γ(a, x)/Γ(a) = a xᵃ e⁻ˣ/Γ(a + 1) / (x + 1 − a − 1 (1 − a)/(x + 3 − a − 2 (2 − a)/(…)))"""
    degrees = order, 0
    shape = series.variable(a, degrees, 0)

    def step(k):
        return k * series.plus(shape, -k), series.plus(-shape, x + 2 * k + 1)

    below = _fraction(series.plus(-shape, x + 1), step)
    above = series.times(shape, _gamma_factor(a, x, degrees))
    return series.over(above, below)[order, 0] * factorial(order)


@gammainc_derivative.vjp("a")
def gammainc_derivative_da(g, a, x, order):
    return g * gammainc_derivative(a, x, order=order + 1)


@gammainc_derivative.vjp("x")
def gammainc_derivative_dx(g, a, x, order):
    a, safe = with_fractions(widen(a)), np.where(x > 0, widen(x), 1)
    density = _derivative_of_exp(gammainc_dx(g, a, safe), _gamma_slope(a, safe), order)
    return _with_ends(density, x > 0, a)


# -- beta ------------------------------------------------------------------------------------


@primitive(kind="elementwise")
def betainc(a, b, x):
    """y = ∫₀ˣ tᵃ⁻¹ (1 − t)ᵇ⁻¹ dt / B(a, b) ;  ∂y/∂x = xᵃ⁻¹ (1 − x)ᵇ⁻¹/B(a, b)

    ∂y/∂a and ∂y/∂b by a continued fraction.
    """
    return of_beta("betainc", a, b, x)


@betainc.vjp("a")
def betainc_da(g, a, b, x):
    return g * betainc_derivative(a, b, x, order=(1, 0))


@betainc.vjp("b")
def betainc_db(g, a, b, x):
    return g * betainc_derivative(a, b, x, order=(0, 1))


@betainc.vjp("x")
def betainc_dx(g, a, b, x):
    a, b, x = widen(a), widen(b), widen(x)
    density = two_powers(x, a - 1, b - 1, -betaln(a, b))
    return zero_wins(g, density)  # the density may be ∞ at an end


@primitive(kind="elementwise")
def betaincc(a, b, x):
    """y = 1 − betainc(a, b, x) = ∫ₓ¹ tᵃ⁻¹ (1 − t)ᵇ⁻¹ dt / B(a, b), without the difference

    The derivatives are −betainc's.
    """
    if array_module(x) is np:
        return of_beta("betaincc", a, b, x)
    return of_beta("betainc", b, a, 1 - x)  # CuPy has no other: an x below ε is lost


@betaincc.vjp("a")
def betaincc_da(g, a, b, x):
    return -betainc_da(g, a, b, x)


@betaincc.vjp("b")
def betaincc_db(g, a, b, x):
    return -betainc_db(g, a, b, x)


@betaincc.vjp("x")
def betaincc_dx(g, a, b, x):
    return -betainc_dx(g, a, b, x)


@primitive(kind="elementwise")
def betainc_derivative(a, b, x, order=(1, 0)):
    """y = ∂ⁿ⁺ᵐ/∂aⁿ∂bᵐ betainc(a, b, x), (n, m) = order ;  the next orders, the density's in x

    0 < a, b ≤ 10⁶ and 0 ≤ x ≤ 1, NaN elsewhere. For n + m = 1 the relative error is some
    ε (a + b) log(a + b).
    """
    dtype = common_dtype(a, b, x)
    shape, (a, b, x) = _flat(a, b, x)
    fits = (a > 0) & (b > 0) & (np.maximum(a, b) <= _LARGEST) & (x >= 0) & (x <= 1)
    with np.errstate(all="ignore"):
        inside = fits & (a * np.log(x) + b * np.log1p(-x) - betaln(a + 1, b + 1) > _NOTHING)
    y = _where(fits, inside, [a, b, x], lambda a, b, x: _beta(a, b, x, order))
    return y.reshape(shape).astype(dtype)


def _beta_slope(a: Any, b: Any, log: Any, log_rest: Any, rise: Callable) -> Callable:
    """Derivatives in a and b of a log x + b log(1 − x) − log B(a, b)."""

    def slope(n: int, m: int) -> Any:
        if n + m == 1:
            return log + rise(a, b) if n else log_rest + rise(b, a)
        own = 0 if n and m else polygamma_of(a if n else b, order=n + m - 1)
        return polygamma_of(a + b, order=n + m - 1) - own

    return slope


def _beta(a, b, x, order):
    """xᵃ (1 − x)ᵇ/(a B(a, b)) / (1 + d₁/(1 + d₂/(1 + …))), DLMF 8.17.22, its derivative (n, m)

    Above the mean it is 1 minus that of b, a and 1 − x. 1/(a B(a, b)) is b/((a + b) (a + b + 1)
    B(a + 1, b + 1)), which has no poles in sight.
    """
    low = x <= (a + 1) / (a + b + 2)
    in_a, in_b = (series.variable(p, order, along) for along, p in enumerate((a, b)))
    first, second = np.where(low, in_a, in_b), np.where(low, in_b, in_a)
    one, both, z = series.constant(np.ones_like(a), order), in_a + in_b, np.where(low, x, 1 - x)
    squared, product = series.times(first, first), series.times(first, both)

    def step(k):
        m = k // 2
        if k == 1:
            return series.over(-z * both, series.plus(first, 1)), one
        if k % 2:  # −z (first + m) (both + m)
            above = -z * series.plus(product + m * (first + both), m**2)
        else:
            above = m * z * series.plus(second, -m)
        # (first + k − 1) (first + k)
        below = series.plus(squared + (2 * k - 1) * first, (k - 1) * k)
        return series.over(above, below), one

    log, log_rest = np.log(x), np.log1p(-x)
    slope = _beta_slope(a + 1, b + 1, log, log_rest, _rise)
    above = _exp_series(a * log + b * log_rest - betaln(a + 1, b + 1), slope, order)
    below = series.times(series.times(both, series.plus(both, 1)), _fraction(one, step))
    y = series.over(series.times(second, above), below)[order]
    return np.where(low, y, -y) * factorial(order[0]) * factorial(order[1])


_BERNOULLI = 1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730


def _rise(x: Any, h: Any) -> Any:
    """digamma(x + h) − digamma(x) for h > 0, accurate also where it is far smaller than these.

    ψ(x + 1) = ψ(x) + 1/x up to 16, from where the asymptotic series is exact.
    """
    total = sum(h / ((x + k) * (x + h + k)) for k in range(16))
    x = x + 16
    log = np.log1p(h / x)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total = total - bernoulli / (2 * k) * x ** (-2 * k) * np.expm1(-2 * k * log)
    return total + log + 0.5 * h / (x * (x + h))


@betainc_derivative.vjp("a")
def betainc_derivative_da(g, a, b, x, order):
    return g * betainc_derivative(a, b, x, order=(order[0] + 1, order[1]))


@betainc_derivative.vjp("b")
def betainc_derivative_db(g, a, b, x, order):
    return g * betainc_derivative(a, b, x, order=(order[0], order[1] + 1))


@betainc_derivative.vjp("x")
def betainc_derivative_dx(g, a, b, x, order):
    inside = (x > 0) & (x < 1)
    a, b = (with_fractions(widen(c)) for c in (a, b))
    safe = np.where(inside, widen(x), 0.5)
    slope = _beta_slope(
        a, b, np.log(safe), np.log1p(-safe), lambda x, h: digamma(x + h) - digamma(x)
    )
    density = _derivative_of_exp(betainc_dx(g, a, b, safe), slope, *order)
    return _with_ends(density, inside, np.where(x <= 0, a, b))
