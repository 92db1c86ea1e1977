"""ψ⁽ⁿ⁾(z) for complex z and n ≥ 1, which SciPy has for real z alone: DLMF 5.5, 5.11 and 5.15."""

from math import factorial
from typing import Any

import numpy as np
from numpy.polynomial import polynomial

_BERNOULLI = 1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510
_HIGHEST = 100.0  # |Im z| from which 1/sin² πz is negligible against the value left of the axis


def complex_polygamma(z: Any, n: int) -> Any:
    """ψ⁽ⁿ⁾(z) in complex128; left of ½ it is (−1)ⁿ ψ⁽ⁿ⁾(1 − z) − π dⁿcot πz/dzⁿ, by reflection."""
    z = z.astype(np.complex128)
    left = z.real < 0.5
    right = _right_of_half(np.where(left, 1 - z, z), n)
    return np.where(left, (-1) ** n * right - _cotangent(np.where(left, z, 0.5), n), right)


def _right_of_half(z: Any, n: int) -> Any:
    """(−1)ⁿ⁺¹ n! Σₖ (z + k)⁻ⁿ⁻¹: some terms one by one, the others by their asymptotic series."""
    near = 16 + 2 * n
    total = sum((z + k) ** -(n + 1.0) for k in range(near))
    z = z + near
    rest = z**-n / n + 0.5 * z ** -(n + 1.0)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        weight = bernoulli * factorial(2 * k + n - 1) / factorial(2 * k) / factorial(n)
        rest = rest + weight * z ** -(n + 2.0 * k)
    return (-1) ** (n + 1) * factorial(n) * (total + rest)


def _cotangent(z: Any, n: int) -> Any:
    """π dⁿ/dzⁿ cot πz."""
    high = np.clip(z.imag, -_HIGHEST, _HIGHEST)
    turn = np.pi * (z.real - np.round(z.real) + 1j * high)
    sine = np.sin(turn)
    cot, q = np.cos(turn) / sine, cotangent_derivative(n)
    value = sum(factor * cot**k for k, factor in enumerate(q))
    return np.pi ** (n + 1) * value / sine**2


def cotangent_derivative(n: int) -> Any:
    """The polynomial q, lowest power first, of dⁿ cot z/dzⁿ = q(cot z)/sin² z, n ≥ 1

    Of c = cot z the derivative is −(1 + c²) = −1/sin² z, which makes the q follow from each other.
    """
    q = np.array([-1.0])
    for _ in range(n - 1):
        q = -polynomial.polyadd(
            polynomial.polymul([0, 2], q), polynomial.polymul([1, 0, 1], polynomial.polyder(q))
        )
    return q
