"""Truncated power series in one or two small numbers, which give derivatives of any order of the
functions applied to them. p[i, j] is the coefficient of sⁱ tʲ; further axes are elements.
"""

from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np


def orders(p: Any) -> Iterable[tuple[int, int]]:
    """All (i, j), each behind those that are no higher in i and in j."""
    return product(range(p.shape[0]), range(p.shape[1]))


def constant(x: Any, degrees: tuple[int, int]) -> Any:
    """x as a series: nothing but its first coefficient."""
    p = np.zeros_like(x, shape=(degrees[0] + 1, degrees[1] + 1, *x.shape))
    p[0, 0] = x
    return p


def variable(x: Any, degrees: tuple[int, int], along: int) -> Any:
    """x + s (along 0) or x + t (along 1)."""
    p = constant(x, degrees)
    if degrees[along]:
        p[(1, 0) if along == 0 else (0, 1)] = 1
    return p


def plus(p: Any, number: float) -> Any:
    """p + a number."""
    p = p.copy()
    p[0, 0] += number
    return p


def times(p: Any, q: Any) -> Any:
    """p q"""
    r = p[0, 0] * q
    n, m = p.shape[:2]
    for i, j in orders(p):
        if i or j:
            r[i:, j:] += p[i, j] * q[: n - i, : m - j]
    return r


def over(p: Any, q: Any) -> Any:
    """p / q, as in long division: r[i, j] is what is left of p[i, j], by q[0, 0]."""
    r = p.copy()
    n, m = p.shape[:2]
    for i, j in orders(p):
        c = r[i, j] = r[i, j] / q[0, 0]
        if i < n - 1:
            r[i + 1 :, j] -= c * q[1 : n - i, 0]
        if j < m - 1:
            r[i:, j + 1 :] -= c * q[: n - i, 1 : m - j]
    return r


def exp(p: Any) -> Any:
    """eᵖ = e^p[0, 0] Σ_k (p − p[0, 0])ᵏ/k!, a finite sum"""
    rest = p.copy()
    rest[0, 0] = 0
    y = power = constant(np.ones_like(p[0, 0]), (p.shape[0] - 1, p.shape[1] - 1))
    for k in range(1, sum(p.shape[:2]) - 1):
        power = times(power, rest) / k
        y = y + power
    return y * np.exp(p[0, 0])
