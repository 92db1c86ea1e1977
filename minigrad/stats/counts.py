"""Distributions of counts in mg.stats: poisson and bernoulli."""

from typing import Any

import numpy as np

from .. import special
from ..engine.registry import op
from ..ops.axes import floating_together
from ..special.probability import two_powers
from .base import Distribution


class _Poisson(Distribution):
    """Counts of expectation mu."""

    def logpmf(self, k: Any, mu: Any) -> Any:
        """k log mu − mu − log k! for whole k ≥ 0"""
        possible, k, mu = self._arrays(k, mu)
        y = special.xlogy(k, mu) - mu - special.gammaln(k + 1)
        return op.where(possible, y, -np.inf)

    def pmf(self, k: Any, mu: Any) -> Any:
        """mu^k e^−mu / k!"""
        possible, k, mu = self._arrays(k, mu)
        return op.where(possible, two_powers(mu, k, 0.0, -mu - special.gammaln(k + 1)), 0.0)

    def _arrays(self, k: Any, mu: Any) -> tuple:
        """(whether k can come up, k, mu), others where it cannot: no derivative is NaN there."""
        k, mu = self._given(k, mu)
        possible = op.logical_not((k < 0) | (k > op.floor(k))) | op.isnan(mu)
        return possible, op.where(possible, k, 0.0), op.where(possible, mu, 1.0)

    def cdf(self, k: Any, mu: Any) -> Any:
        """The probability of counts up to k; differentiable in mu."""
        k, mu = self._given(k, mu)
        k = op.floor(k)
        below = (k < 0) & op.logical_not(op.isnan(mu))
        return op.where(below, 0.0, special.gammaincc(op.relu(k) + 1, mu))

    def _given(self, k: Any, mu: Any) -> tuple:
        """(k, mu) as floats, mu NaN where it is below 0."""
        k, mu = floating_together(k, mu)
        return k, op.where(mu < 0, np.nan, mu)


class _Bernoulli(Distribution):
    """1 with probability p, else 0."""

    def logpmf(self, k: Any, p: Any) -> Any:
        """k log p + (1 − k) log(1 − p) for k = 0 and 1, −∞ for other k"""
        possible, k, p = self._arrays(k, p)
        return op.where(possible, special.xlogy(k, p) + special.xlog1py(1 - k, -p), -np.inf)

    def pmf(self, k: Any, p: Any) -> Any:
        """p for 1, 1 − p for 0"""
        possible, k, p = self._arrays(k, p)
        return op.where(possible, two_powers(p, k, 1 - k, 0.0), 0.0)

    def _arrays(self, k: Any, p: Any) -> tuple:
        """(whether k can come up, k, p), others where it cannot: no derivative is NaN there."""
        k, p = floating_together(k, p)
        p = op.where((p < 0) | (p > 1), np.nan, p)
        possible = (k == 0) | (k == 1) | op.isnan(k) | op.isnan(p)
        return possible, op.where(possible, k, 0.0), op.where(possible, p, 0.5)


poisson, bernoulli = _Poisson(), _Bernoulli()
