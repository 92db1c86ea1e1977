"""exp, log, tanh, the normal distribution … of one element, in plain arithmetic.

A call of the C library's exp prevents vector instructions: the compiler cannot look into it. These
functions are sums and products, with selections in place of branches. A loop that calls them runs
on as many elements at once as a register holds. Errors are a few units in the last place
(tests/compiled/test_functions.py measures them against mpmath).

The pattern is the textbook one (Muller, Elementary Functions, 3rd ed. 2016, chapters 9 and 11):
bring the argument into a small interval by an identity that costs no accuracy, and sum a power
series there. All series are Taylor's: only the coefficients of the normal distribution need a
source.
"""

import math
from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..expressions.passes import DENOMINATOR, NUMERATOR
from .jit import element

LN2 = Fraction("0.6931471805599453094172321214581765680755")

# (1 + 2z) e^z² erfc(z) for z ≥ 0 as a polynomial in t = (z − 15/4)/(z + 15/4), which runs from −1
# to 1: its Chebyshev interpolation of degree 24, written in powers of t, within 1e-16 (the change
# of variable is that of Shepherd and Laframboise, Math. Comp. 36, 1981).
ERFCX = (
    1.2375126308378275,
    -0.14024059858554697,
    0.003585415485463775,
    0.08227673849014516,
    -0.10880393014171785,
    0.09230432116037876,
    -0.058693398590212366,
    0.028362277418940665,
    -0.009746579552504244,
    0.0017556258530017257,
    0.0002937136342850081,
    -0.0002901540809795271,
    5.1649211390702855e-05,
    2.2384240314224437e-05,
    -1.1444412439171722e-05,
    -9.735619015182663e-07,
    1.752057970166318e-06,
    -5.721597255990987e-08,
    -2.591069687796658e-07,
    2.3261913276696566e-08,
    3.8965452548985966e-08,
    -3.743568033634583e-09,
    -5.28428697963142e-09,
    3.110310719839165e-10,
    4.434959070009628e-10,
)


@cache
def functions(dtype: Any) -> SimpleNamespace:
    """The functions for float32 or for float64, compiled at their use."""
    kind = np.dtype(dtype).type
    parts = _exponentials(kind) | _logarithms(kind)
    parts |= _of_exponentials(kind, SimpleNamespace(**parts))
    parts |= _normal(kind, SimpleNamespace(**parts))
    return SimpleNamespace(**parts)


@cache
def _bits(kind: Any) -> tuple:
    """The integer type that holds a float's bits, and functions from the float to it and back."""
    whole = np.int32 if kind is np.float32 else np.int64

    @element
    def bits_of(x):  # type: ignore[no-untyped-def]
        return kind(x).view(whole)

    @element
    def of_bits(n):  # type: ignore[no-untyped-def]
        return whole(n).view(kind)

    return whole, bits_of, of_bits


def _horner(kind: Any, coefficients: Any) -> Any:
    """c₀ + c₁ x + … + cₙ xⁿ, from the last coefficient to the first, as one function."""
    values = [kind(c) for c in coefficients]
    last, *others = reversed(values)
    words = ["def polynomial(x):", f" y = c{len(values) - 1}"]
    words += [f" y = y * x + c{i}" for i in reversed(range(len(values) - 1))]
    known = {f"c{i}": c for i, c in enumerate(values)}
    exec("\n".join([*words, " return y"]), known)
    return element(known["polynomial"])


def _exponentials(kind: Any) -> dict:
    """exp, expm1, and exp of a sum h + l whose rounding would cost accuracy.

    eˣ = 2ⁿ eʳ with n the integer nearest to x/ln 2, hence |r| ≤ ln 2/2. n ln 2 is subtracted in two
    parts; the first is short enough for an exact product with n. Taylor's remainder at degree 7 is
    6e-9 of the result, at degree 13 4e-18.
    """
    whole, bits_of, of_bits = _bits(kind)
    info = np.finfo(kind)
    single = kind is np.float32
    mantissa, bias = whole(info.nmant), whole(info.maxexp - 1)
    short = Fraction(math.floor(LN2 * 2 ** (12 if single else 32)), 2 ** (12 if single else 32))
    ln2, rest, per_ln2 = kind(short), kind(LN2 - short), kind(1 / LN2)
    tail = _horner(kind, [1 / Fraction(math.factorial(k)) for k in range(2, 8 if single else 14)])
    one = kind(1)
    # beyond these the result is infinite, or less than half of the smallest subnormal number
    top = kind(math.ceil(math.log(float(info.max))))
    bottom = kind(math.floor(math.log(float(info.tiny)) - (info.nmant + 2) * math.log(2)))

    @element
    def reduced(h, l):  # type: ignore[no-untyped-def]
        """(n, eʳ − 1) for h + l; any number for NaN, which callers replace."""
        held = h if h < top else top
        held = held if held > bottom else bottom
        n = np.rint(held * per_ln2)
        r = held - n * ln2
        r = r - n * rest + l
        return whole(n), r + r * r * tail(r)

    @element
    def power(n):  # type: ignore[no-untyped-def]
        """2ⁿ, from the bits of its exponent."""
        return of_bits((n + bias) << mantissa)

    @element
    def exp_of_sum(h, l):  # type: ignore[no-untyped-def]
        n, p = reduced(h, l)
        half = whole(n >> whole(1))  # 2ⁿ in two factors: it may exceed the range of exponents
        y = (one + p) * power(half) * power(n - half)
        return y if h == h else h

    @element
    def exp(x):  # type: ignore[no-untyped-def]
        return exp_of_sum(x, kind(0))

    @element
    def expm1(x):  # type: ignore[no-untyped-def]
        """eˣ − 1 = 2ⁿ ((eʳ − 1) + (1 − 2⁻ⁿ))"""
        n, p = reduced(x, kind(0))
        n = n if n > -many else -many  # beyond, it is −1 to the last digit
        less = one - power(-n if n < many else -many)
        half = whole(n >> whole(1))
        y = (p + less) * power(half) * power(n - half)
        return y if abs(x) > tiny else x  # keeps −0, and NaN

    many, tiny = whole(64), kind(info.tiny)
    return {
        "reduced": reduced, "power": power, "exp_of_sum": exp_of_sum, "exp": exp, "expm1": expm1,
    }  # fmt: skip


def _logarithms(kind: Any) -> dict:
    """log and log1p.

    x = 2ᵏ m with m in [√½, √2), and log m = 2 artanh s, s = (m − 1)/(m + 1), |s| ≤ 0.172; the terms
    of artanh's series beyond s⁸ (float64: s²⁰) are below 2e-9 (6e-19) of it. With f = m − 1 the sum
    is arranged around f, which is exact: 2 artanh s = f − (f²/2 − s (f²/2 + Σ …)).
    """
    whole, bits_of, of_bits = _bits(kind)
    info = np.finfo(kind)
    single = kind is np.float32
    mantissa = whole(info.nmant)
    short = Fraction(math.floor(LN2 * 2 ** (12 if single else 32)), 2 ** (12 if single else 32))
    ln2, rest = kind(short), kind(LN2 - short)
    series = _horner(kind, [Fraction(2, 2 * k + 1) for k in range(1, 5 if single else 11)])
    start = kind(math.sqrt(0.5)).view(whole)
    tiny, lift, places = kind(info.tiny), kind(2.0 ** (info.nmant + 2)), kind(info.nmant + 2)
    zero, one, two, half = kind(0), kind(1), kind(2), kind(0.5)
    infinity, nan = kind(np.inf), kind(np.nan)

    @element
    def log(x):  # type: ignore[no-untyped-def]
        small = x < tiny  # subnormal numbers are scaled up to have a normal exponent
        lifted = x * lift if small else x
        bits = bits_of(lifted)
        exponent = whole((bits - start) >> mantissa)
        f = of_bits(bits - (exponent << mantissa)) - one
        k = kind(exponent)
        k = k - places if small else k
        s = f / (two + f)
        z = s * s
        square = half * f * f
        y = k * ln2 - ((square - (s * (square + z * series(z)) + k * rest)) - f)
        y = y if x > zero else (-infinity if x == zero else nan)
        return y if x < infinity else x + x  # inf and NaN are their own logarithms

    @element
    def log1p(x):  # type: ignore[no-untyped-def]
        """log u + (x − (u − 1))/u with u = 1 + x rounded; the second term restores the rounding."""
        u = one + x
        y = log(u) + (x - (u - one)) / u
        y = y if abs(x) > tiny else x
        return y if (u > zero) & (u < infinity) else log(u)

    return {"log": log, "log1p": log1p}


def _of_exponentials(kind: Any, made: SimpleNamespace) -> dict:
    """tanh and the logistic function."""
    reduced, power, exp = made.reduced, made.power, made.exp
    one, two, zero = kind(1), kind(2), kind(0)
    full = kind(22)  # tanh is 1 to the last digit from 9.1 on, in float64 from 19.1 on

    @element
    def tanh(x):  # type: ignore[no-untyped-def]
        """t/(t + 2) with t = e^2|x| − 1 = 2ⁿ (eʳ − 1) + (2ⁿ − 1), and the sign of x"""
        z = abs(x)
        n, p = reduced(two * (z if z < full else full), zero)
        t = p * power(n) + (power(n) - one)
        y = t / (t + two)
        y = y if x > zero else -y
        return y if z > zero else x  # keeps −0, and NaN

    @element
    def expit(x):  # type: ignore[no-untyped-def]
        """1/(1 + e⁻ˣ) = e/(1 + e) for x < 0, where e = e^−|x| cannot overflow"""
        e = exp(-abs(x))
        y = (one if x > zero else e) / (one + e)
        return y if x == x else x

    return {"tanh": tanh, "expit": expit}


def _normal(kind: Any, made: SimpleNamespace) -> dict:
    """The normal distribution Φ, erf and erfc, from e^z² erfc(z), which is never small.

    Φ(−z) = e^−z²/2 R(z) with R(z) = e^z²/2 Φ(−z). The square is split: with h the upper half of z's
    digits h² is exact, and z² = h² + (z − h)(z + h). Otherwise the error would grow with z².
    """
    single = kind is np.float32
    whole, bits_of, of_bits = _bits(kind)
    exp_of_sum = made.exp_of_sum
    upper = whole(-(1 << (12 if single else 27)))
    zero, one, two, half = kind(0), kind(1), kind(2), kind(0.5)
    far = kind(16 if single else 40)  # from here on e^−z²/2 is 0
    numerator = _horner(kind, NUMERATOR)
    denominator = _horner(kind, DENOMINATOR)
    fitted, centre, root = _horner(kind, ERFCX), kind(3.75), kind(math.sqrt(0.5))
    sqrt2 = kind(math.sqrt(2))
    near = [
        Fraction((-1) ** k, math.factorial(k) * (2 * k + 1)) for k in range(7 if single else 13)
    ]
    inside, slope = _horner(kind, near), kind(2 / math.sqrt(math.pi))

    if single:

        @element
        def ratio(z):  # type: ignore[no-untyped-def]
            """R(z) of z ≥ 0: the fitted quotient"""
            return numerator(z) / denominator(z)
    else:

        @element
        def ratio(z):  # type: ignore[no-untyped-def]
            """R(z) of z ≥ 0: half of e^u² erfc(u) with u = z/√2"""
            u = z * root
            return half * fitted((u - centre) / (u + centre)) / (one + two * u)

    @element
    def bell(z, scale):  # type: ignore[no-untyped-def]
        """e^(−scale z²) for scale a power of 2"""
        h = of_bits(bits_of(z) & upper)
        return exp_of_sum(-scale * (h * h), -scale * ((z - h) * (z + h)))

    @element
    def ndtr(x):  # type: ignore[no-untyped-def]
        """Φ(x): the share of the normal distribution below x"""
        z = abs(x)
        z = z if z < far else far
        y = bell(z, half) * ratio(z)
        y = one - y if x > zero else y
        return y if x == x else x

    @element
    def erfc(x):  # type: ignore[no-untyped-def]
        z = abs(x)
        z = z if z < far else far
        y = two * bell(z, one) * ratio(z * sqrt2)
        y = two - y if x < zero else y
        return y if x == x else x

    @element
    def erf(x):  # type: ignore[no-untyped-def]
        """1 − erfc x; for |x| < ½, where this cancels, Taylor's series"""
        z = abs(x)
        y = x * slope * inside(x * x)
        outside = one - erfc(z)
        outside = outside if x > zero else -outside
        y = y if z < half else outside
        return y if x == x else x

    @element
    def density(x):  # type: ignore[no-untyped-def]
        """φ(x) = e^−x²/2/√2π"""
        z = abs(x)
        y = bell(z if z < far else far, half) * height
        return y if x == x else x

    height = kind(1 / math.sqrt(2 * math.pi))
    return {"ndtr": ndtr, "density": density, "erf": erf, "erfc": erfc}
