"""Integrals without a closed form, whose derivatives have one: by SciPy's names."""

import math
from typing import Any

import numpy as np

from ..engine.primitive import elementwise, primitive
from ..ops.axes import widen
from ..ops.elementwise.selection import keep
from ..ops.elementwise.special import TWO_OVER_SQRT_PI, erf
from ..ops.elementwise.support import (
    in_dtype_of,
    in_float32,
    of_several,
    special_function,
    whole_number,
)
from ..tensor_api.composite import composite
from .hypergeometric import hypergeometric
from .spherical import spherical_i, spherical_j, spherical_y

__all__: list[str] = []  # the names are those of mg.special


# -- exponential integrals -------------------------------------------------------------------

_exp1, _expn = special_function("exp1"), special_function("expn")


@primitive(kind="elementwise")
@in_float32
def exponential_integral(x, order=1):
    """y = Eₙ(x) = ∫₁^∞ e^−xt/tⁿ dt, n = order, x ≥ 0 ;  dy/dx = −Eₙ₋₁(x)"""
    if order == 1:
        return _exp1(x)
    if x.dtype.kind == "c":  # SciPy has the order 1 alone, and this is what derives from it
        if order > 1:
            raise TypeError(
                f"expn: of complex x there are n = 0 and n = 1 alone, got n={order}; "
                "Eₙ₊₁(x) = (e⁻ˣ − x Eₙ(x))/n leads on from mg.special.exp1(x)"
            )
        y = np.exp(-x) / x
    else:
        y = in_dtype_of(x, _expn(max(order, 0), x))
    for n in range(-1, order - 1, -1):  # SciPy has none of these: x Eₙ = e⁻ˣ − n Eₙ₊₁
        y = (np.exp(-x) - n * y) / x
    return y


@exponential_integral.vjp("x")
def exponential_integral_dx(g, x, order):
    return -g * exponential_integral(widen(x), order=order - 1)


@composite
def exp1(x: Any) -> Any:
    """y = E₁(x) = ∫ₓ^∞ e⁻ᵗ/t dt, x > 0 ;  dy/dx = −e⁻ˣ/x"""
    return exponential_integral(x, order=1)


@composite
def expn(n: int, x: Any) -> Any:
    """y = Eₙ(x) = ∫₁^∞ e^−xt/tⁿ dt, n = 0, 1, 2 …, x ≥ 0 ;  dy/dx = −Eₙ₋₁(x)"""
    return exponential_integral(x, order=whole_number("expn", "order n", n))


def _exp_over(x: Any) -> Any:
    half = np.exp(0.5 * x)  # eˣ is beyond the numbers before eˣ/x is
    return np.where(half == np.inf, half, half * (half / x))


exp_over = elementwise(  # a separate op: behind an infinite factor gradients would be ∞ · 0
    in_float32(_exp_over),
    name="exp_over",
    dx=lambda x, y: y * (1 - 1 / widen(x)),
    doc="y = eˣ/x ;  dy/dx = y (1 − 1/x)",
)
expi = elementwise(
    in_float32(special_function("expi")),
    dx=lambda x: exp_over(x),
    doc="y = Ei(x) = ⨍₋∞ˣ eᵗ/t dt, the principal value for x > 0 ;  dy/dx = eˣ/x",
)

# -- sine and cosine integrals, also hyperbolic ones -----------------------------------------

_sici, _shichi = special_function("sici"), special_function("shichi")

sine_integral = elementwise(
    in_float32(lambda x: _sici(x)[0]),
    name="sine_integral",
    dx=lambda x: spherical_j(x, order=0),
    doc="y = Si(x) = ∫₀ˣ sin t/t dt ;  dy/dx = sin x/x, 1 at 0",
)
cosine_integral = elementwise(
    in_float32(lambda x: _sici(x)[1]),
    name="cosine_integral",
    dx=lambda x: -spherical_y(x, order=0),
    doc="y = Ci(x) = γ + log x + ∫₀ˣ (cos t − 1)/t dt, x > 0 ;  dy/dx = cos x/x",
)
sinh_integral = elementwise(
    in_float32(lambda x: _shichi(x)[0]),
    name="sinh_integral",
    dx=lambda x: spherical_i(x, order=0),
    doc="y = Shi(x) = ∫₀ˣ sinh t/t dt ;  dy/dx = sinh x/x, 1 at 0",
)
cosh_integral = elementwise(
    in_float32(lambda x: _shichi(x)[1]),
    name="cosh_integral",
    dx=lambda x: 0.5 * exp_over(widen(x)) - 0.5 * exp_over(-widen(x)),  # 2 cosh x/x may overflow
    doc="y = Chi(x) = γ + log x + ∫₀ˣ (cosh t − 1)/t dt, x > 0 ;  dy/dx = cosh x/x",
)


@composite
def sici(x: Any) -> tuple:
    """(Si(x), Ci(x)), the sine and the cosine integral ;  slopes sin x/x and cos x/x"""
    return sine_integral(x), cosine_integral(x)


@composite
def shichi(x: Any) -> tuple:
    """(Shi(x), Chi(x)), the hyperbolic ones ;  slopes sinh x/x and cosh x/x"""
    return sinh_integral(x), cosh_integral(x)


# -- of squares: Fresnel's, Dawson's, the imaginary error function ---------------------------

_fresnel = special_function("fresnel")


def _quarter_turns(x: Any) -> Any:
    """πx²/2 less full turns: with x = 2k + r, k whole, it is 2πkr + πr²/2, and k r is exact."""
    x = keep(widen(x), np.abs(x) != np.inf)
    if x.dtype.kind == "c":
        return 0.5 * math.pi * np.square(x)
    k = np.round(0.5 * x)
    r = x - 2 * k
    turns = k * r
    return 2 * math.pi * (turns - np.round(turns)) + 0.5 * math.pi * np.square(r)


fresnel_sine = elementwise(
    in_float32(lambda x: _fresnel(x)[0]),
    name="fresnel_sine",
    dx=lambda x: np.sin(_quarter_turns(x)),
    doc="y = S(x) = ∫₀ˣ sin(πt²/2) dt ;  dy/dx = sin(πx²/2)",
)
fresnel_cosine = elementwise(
    in_float32(lambda x: _fresnel(x)[1]),
    name="fresnel_cosine",
    dx=lambda x: np.cos(_quarter_turns(x)),
    doc="y = C(x) = ∫₀ˣ cos(πt²/2) dt ;  dy/dx = cos(πx²/2)",
)


@composite
def fresnel(z: Any) -> tuple:
    """(S(z), C(z)), Fresnel's integrals ;  slopes sin(πz²/2) and cos(πz²/2)"""
    return fresnel_sine(z), fresnel_cosine(z)


dawsn = elementwise(
    in_float32(special_function("dawsn")),
    # 1 − 2xy, without its cancellation for large x
    dx=lambda x: hypergeometric(-widen(x) * x, above=(1.0,), below=(0.5,)),
    doc="y = D(x) = e^−x² ∫₀ˣ e^t² dt, Dawson's integral ;  dy/dx = 1 − 2xy",
)
erfi = elementwise(
    in_float32(special_function("erfi")),
    dx=lambda x: TWO_OVER_SQRT_PI * np.exp(widen(x) * x),
    doc="y = erfi x = 2/√π ∫₀ˣ e^t² dt ;  dy/dx = 2/√π e^x²",
)


def _spence_dx(x: Any) -> Any:
    x = widen(x)
    near = np.abs(x - 1) < 0.5  # where the quotient's derivative cancels
    far = np.where(near, 2, x)
    series = hypergeometric(1 - np.where(near, x, 1), above=(1.0, 1.0), below=(2.0,))
    return np.where(near, -series, np.log(far) / (1 - far))


spence = elementwise(
    in_float32(special_function("spence")),
    dx=_spence_dx,
    doc="y = ∫₁ˣ log t/(1 − t) dt = Li₂(1 − x), x ≥ 0 ;  dy/dx = log x/(1 − x), −1 at 1",
)

# -- Owen's T --------------------------------------------------------------------------------


def _height(h: Any, a: Any) -> Any:
    """h a, 0 where one is 0 and the other infinite."""
    none = ((h == 0) & np.isinf(a)) | ((a == 0) & np.isinf(h))  # else it moves with the other
    return np.where(none, 0, widen(h)) * np.where(none, 0, widen(a))


def _owens_t_dh(h: Any, a: Any) -> Any:
    h = widen(h)
    return -erf(_height(h, a) * math.sqrt(0.5)) * np.exp(-0.5 * h * h) / math.sqrt(8 * math.pi)


def _owens_t_da(h: Any, a: Any) -> Any:
    """Of the point (h, h a) on the plane: at distance r it has e^−r²/2/(2π (1 + a²))."""
    h, a, height = widen(h), widen(a), _height(h, a)
    return np.exp(-0.5 * (h * h + height * height)) / (2 * math.pi * (1 + a * a))


owens_t = elementwise(
    lambda h, a: of_several("owens_t", h, a),
    name="owens_t",
    dh=_owens_t_dh,
    da=_owens_t_da,
    doc="""y = T(h, a) = 1/2π ∫₀ᵃ e^−h²(1 + t²)/2/(1 + t²) dt ;  ∂y/∂a = the integrand at a/2π

    ∂y/∂h = −e^−h²/2 erf(ah/√2)/√8π. With it the skew normal distribution is Φ(x) − 2T(x, α).
    """,
)
