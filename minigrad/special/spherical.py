"""Spherical Bessel functions and Airy functions, by SciPy's names.

Each derivative is made of neighbours of the same family (DLMF 10.51.2 and 10.51.5, 9.2.1), which
holds at 0, too.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.primitive import elementwise, primitive
from ..ops.axes import widen
from ..ops.elementwise.selection import keep
from ..ops.elementwise.support import (
    in_dtype_of,
    in_float32,
    of_parameters,
    special_function,
    whole_number,
)
from ..tensor_api.composite import composite

__all__: list[str] = []  # the names are those of mg.special


def _from_0(general: Callable) -> Callable:
    """jₙ or iₙ with xⁿ/(2n + 1)!! near 0, the first term of both; SciPy's vanish there."""

    def forward(x: Any, order: int) -> Any:
        near = np.abs(x) < 1e-8
        odd = math.prod(range(1, 2 * min(order, 50) + 2, 2))  # 1e-8⁵⁰ is 0 in any dtype
        first = np.where(near, x, 0) ** order / odd
        return in_dtype_of(x, np.where(near, first, general(np.where(near, 1, x), order)))

    return in_float32(forward)


_j, _y, _i, _k = (of_parameters(f"spherical_{family}n") for family in "jyik")
_j, _i = _from_0(_j), _from_0(_i)


def _slope(family: Callable, x: Any, n: int) -> Any:
    """dy/dx of the family: n yₙ₋₁/(2n + 1) and (n + 1) yₙ₊₁/(2n + 1) with its signs."""
    x = widen(x)
    above = family(x, order=n + 1) * ((n + 1) / (2 * n + 1))
    below = family(x, order=n - 1) * (n / (2 * n + 1)) if n else np.zeros_like(above)
    if family in (spherical_j, spherical_y):
        return below - above
    return below + above if family is spherical_i else -(below + above)


@primitive(kind="elementwise")
def spherical_j(x, order=0):
    """y = jₙ(x), n = order, j₀ = sin x/x ;  dy/dx = (n jₙ₋₁ − (n + 1) jₙ₊₁)/(2n + 1)"""
    return _j(x, order)


@spherical_j.vjp("x")
def spherical_j_dx(g, x, order):
    return g * _slope(spherical_j, x, order)


@primitive(kind="elementwise")
def spherical_y(x, order=0):
    """y = yₙ(x), n = order, y₀ = −cos x/x ;  dy/dx = (n yₙ₋₁ − (n + 1) yₙ₊₁)/(2n + 1)"""
    return _y(x, order)


@spherical_y.vjp("x")
def spherical_y_dx(g, x, order):
    return g * _slope(spherical_y, x, order)


@primitive(kind="elementwise")
def spherical_i(x, order=0):
    """y = iₙ(x), n = order, i₀ = sinh x/x ;  dy/dx = (n iₙ₋₁ + (n + 1) iₙ₊₁)/(2n + 1)"""
    return _i(x, order)


@spherical_i.vjp("x")
def spherical_i_dx(g, x, order):
    return g * _slope(spherical_i, x, order)


@primitive(kind="elementwise")
def spherical_k(x, order=0):
    """y = kₙ(x), n = order, k₀ = π/2 e⁻ˣ/x ;  dy/dx = −(n kₙ₋₁ + (n + 1) kₙ₊₁)/(2n + 1)"""
    return _k(x, order)


@spherical_k.vjp("x")
def spherical_k_dx(g, x, order):
    return g * _slope(spherical_k, x, order)


def _of_order(family: Callable, op: str, n: Any, z: Any, derivative: bool) -> Any:
    n = whole_number(op, "order n", n)
    return _slope(family, z, n) if derivative else family(z, order=n)


@composite
def spherical_jn(n: int, z: Any, derivative: bool = False) -> Any:
    """y = jₙ(z) = √(π/2z) Jₙ₊½(z), n = 0, 1, 2 … ; with derivative=True dy/dz"""
    return _of_order(spherical_j, "spherical_jn", n, z, derivative)


@composite
def spherical_yn(n: int, z: Any, derivative: bool = False) -> Any:
    """y = yₙ(z) = √(π/2z) Yₙ₊½(z), n = 0, 1, 2 … ; with derivative=True dy/dz"""
    return _of_order(spherical_y, "spherical_yn", n, z, derivative)


@composite
def spherical_in(n: int, z: Any, derivative: bool = False) -> Any:
    """y = iₙ(z) = √(π/2z) Iₙ₊½(z), n = 0, 1, 2 … ; with derivative=True dy/dz"""
    return _of_order(spherical_i, "spherical_in", n, z, derivative)


@composite
def spherical_kn(n: int, z: Any, derivative: bool = False) -> Any:
    """y = kₙ(z) = √(π/2z) Kₙ₊½(z), n = 0, 1, 2 … ; with derivative=True dy/dz"""
    return _of_order(spherical_k, "spherical_kn", n, z, derivative)


# -- Airy functions: y″ = x y ----------------------------------------------------------------

_all_four = special_function("airy")
# SciPy's are NaN at −∞ and ∞; the derivatives swing ever wider to the left, without a limit
_LIMITS = ((0, 0), (np.nan, 0), (0, np.inf), (np.nan, np.inf))


def _airy(which: int) -> Callable:
    left, right = _LIMITS[which]

    def forward(x: Any) -> Any:
        y = np.where(x == np.inf, right, np.where(x == -np.inf, left, _all_four(x)[which]))
        return in_dtype_of(x, y)

    return in_float32(forward)


def _times(x: Any, y: Any) -> Any:
    """x y, 0 where y has rounded to 0: Ai falls faster than any power."""
    return keep(widen(x), y != 0) * y


airy_ai = elementwise(
    _airy(0),
    name="airy_ai",
    dx=lambda x: airy_ai_prime(x),
    doc="y = Ai(x), which falls to the right ;  dy/dx = Ai′(x)",
)
airy_ai_prime = elementwise(
    _airy(1),
    name="airy_ai_prime",
    dx=lambda x: _times(x, airy_ai(x)),
    doc="y = Ai′(x) ;  dy/dx = x Ai(x)",
)
airy_bi = elementwise(
    _airy(2),
    name="airy_bi",
    dx=lambda x: airy_bi_prime(x),
    doc="y = Bi(x), which grows to the right ;  dy/dx = Bi′(x)",
)
airy_bi_prime = elementwise(
    _airy(3),
    name="airy_bi_prime",
    dx=lambda x: _times(x, airy_bi(x)),
    doc="y = Bi′(x) ;  dy/dx = x Bi(x)",
)


@composite
def airy(z: Any) -> tuple:
    """(Ai(z), Ai′(z), Bi(z), Bi′(z)): the two solutions of y″ = z y and their derivatives."""
    return airy_ai(z), airy_ai_prime(z), airy_bi(z), airy_bi_prime(z)
