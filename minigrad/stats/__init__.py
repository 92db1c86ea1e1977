"""mg.stats: densities and distribution functions by scipy.stats' names and arguments.

    >>> import minigrad as mg
    >>> mg.stats.norm.logpdf(mg.tensor([0.0, 1.0]), loc=0.0, scale=2.0)
    tensor([-1.61208571, -1.73708571])

Each is made of ops, so it has derivatives of any order in every argument in which the formula is
differentiable. The inverses of cdf and sf, ppf and isf, are NaN beyond 0 to 1. Outside its support
a density is 0, its logarithm −∞, the gradient 0, and so is that of log 0. At an end of the support
the gradient is the limit from inside, ∞ where that is infinite. The same holds for shares: the
slope of cdf is pdf there. Where there is no such distribution, all is NaN, as in SciPy: a scale or
shape not above 0, a mean count below 0, a probability beyond 0 to 1. Shares that do not add up to 1
(dirichlet) are an error: nearly always they are logits, or lie in rows.
"""

import math
from typing import Any

import numpy as np

from .. import special
from ..engine.registry import op
from ..special.probability import normal_density, two_powers
from ..tensor_api.help import missing_names_of as _missing_names_of
from .base import (
    HALF_LOG_2PI,
    Continuous,
    from_zero,
    inside_of,
    quantile,
    standard,
    within_one,
)
from .counts import bernoulli, poisson
from .students import t
from .vectors import dirichlet, multivariate_normal

__all__ = [
    "bernoulli", "beta", "chi2", "dirichlet", "expon", "gamma", "laplace", "logistic",
    "multivariate_normal", "norm", "poisson", "t", "uniform",
]  # fmt: skip


class _Norm(Continuous):
    """The normal distribution."""

    def logpdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−z²/2 − log(scale √2π), z = (x − loc)/scale"""
        z, scale = standard(x, loc, scale)
        return -0.5 * op.square(z) - HALF_LOG_2PI - op.log(scale)

    def pdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """φ(z)/scale"""
        z, scale = standard(x, loc, scale)
        return normal_density(z) / scale

    def cdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Φ(z)"""
        return special.ndtr(standard(x, loc, scale)[0])

    def logcdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """log Φ(z), accurate far below 0"""
        return special.log_ndtr(standard(x, loc, scale)[0])

    def sf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Φ(−z)"""
        return special.ndtr(-standard(x, loc, scale)[0])

    def logsf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """log Φ(−z)"""
        return special.log_ndtr(-standard(x, loc, scale)[0])

    def ppf(self, q: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Φ⁻¹(q) scale + loc"""
        return quantile(special.ndtri, q, loc, scale)

    def isf(self, q: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−Φ⁻¹(q) scale + loc"""
        return quantile(lambda q: -special.ndtri(q), q, loc, scale)


class _Gamma(Continuous):
    """The gamma distribution with shape a."""

    @staticmethod
    def _finite(z: Any) -> Any:
        """Where z is in the support and short of ∞, whose density is 0, no log ∞ − ∞."""
        return op.logical_not((z < 0) | (z == np.inf))

    def logpdf(self, x: Any, a: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """(a − 1) log z − z − log Γ(a) − log scale for z ≥ 0: ∞ at 0 for a < 1"""
        z, a, scale = standard(x, loc, scale, a)
        y = inside_of(
            self._finite(z), z, lambda z: special.xlogy(a - 1, z) - z - special.gammaln(a)
        )
        return y - op.log(scale)

    def pdf(self, x: Any, a: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """zᵃ⁻¹ e⁻ᶻ/(Γ(a) scale); the gradient at 0 is its limit"""
        z, a, scale = standard(x, loc, scale, a)
        inside = self._finite(z)
        safe = op.where(inside, z, 0.5)
        y = two_powers(safe, a - 1, 0.0, -safe - special.gammaln(a))
        return op.where(inside, y, 0.0) / scale

    def cdf(self, x: Any, a: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """By the incomplete gamma function."""
        z, a, _ = standard(x, loc, scale, a)
        return special.gammainc(a, from_zero(z))

    def sf(self, x: Any, a: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The upper incomplete gamma function."""
        z, a, _ = standard(x, loc, scale, a)
        return special.gammaincc(a, from_zero(z))

    def ppf(self, q: Any, a: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The inverse of the incomplete gamma function."""
        return quantile(lambda q, a: special.gammaincinv(a, q), q, loc, scale, a)

    def isf(self, q: Any, a: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The inverse of the upper one, accurate for small q."""
        return quantile(lambda q, a: special.gammainccinv(a, q), q, loc, scale, a)


class _Chi2(Continuous):
    """The χ² distribution with df degrees of freedom: gamma of shape df/2 and scale 2."""

    def logpdf(self, x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """gamma.logpdf(z, df/2, scale=2) − log scale"""
        z, df, scale = standard(x, loc, scale, df)
        return gamma.logpdf(z, df / 2, 0.0, 2.0) - op.log(scale)

    def pdf(self, x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """gamma.pdf(z, df/2, scale=2)/scale"""
        z, df, scale = standard(x, loc, scale, df)
        return gamma.pdf(z, df / 2, 0.0, 2.0) / scale

    def cdf(self, x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """gamma.cdf(z, df/2, scale=2)"""
        z, df, _ = standard(x, loc, scale, df)
        return gamma.cdf(z, df / 2, 0.0, 2.0)

    def sf(self, x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """gamma.sf(z, df/2, scale=2)"""
        z, df, _ = standard(x, loc, scale, df)
        return gamma.sf(z, df / 2, 0.0, 2.0)

    def ppf(self, q: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """2 gamma.ppf(q, df/2)"""
        return quantile(lambda q, df: gamma.ppf(q, df / 2, 0.0, 2.0), q, loc, scale, df)

    def isf(self, q: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """2 gamma.isf(q, df/2)"""
        return quantile(lambda q, df: gamma.isf(q, df / 2, 0.0, 2.0), q, loc, scale, df)


class _Beta(Continuous):
    """The beta distribution on (0, 1)."""

    def logpdf(self, x: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """(a − 1) log z + (b − 1) log(1 − z) − log B(a, b) − log scale"""
        z, a, b, scale = standard(x, loc, scale, a, b)

        def log_density(z: Any) -> Any:
            return special.xlogy(a - 1, z) + special.xlog1py(b - 1, -z) - special.betaln(a, b)

        return inside_of(op.logical_not((z < 0) | (z > 1)), z, log_density) - op.log(scale)

    def pdf(self, x: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """zᵃ⁻¹ (1 − z)ᵇ⁻¹/(B(a, b) scale); the gradient at 0 and 1 is its limit"""
        z, a, b, scale = standard(x, loc, scale, a, b)
        inside = op.logical_not((z < 0) | (z > 1))
        y = two_powers(op.where(inside, z, 0.5), a - 1, b - 1, -special.betaln(a, b))
        return op.where(inside, y, 0.0) / scale

    def cdf(self, x: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The incomplete beta function."""
        z, a, b, _ = standard(x, loc, scale, a, b)
        return special.betainc(a, b, within_one(z))

    def sf(self, x: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The upper incomplete beta function, accurate near 1"""
        z, a, b, _ = standard(x, loc, scale, a, b)
        return special.betaincc(a, b, within_one(z))

    def ppf(self, q: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The inverse of the incomplete beta function."""
        return quantile(lambda q, a, b: special.betaincinv(a, b, q), q, loc, scale, a, b)

    def isf(self, q: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The inverse of the upper one, accurate for small q."""
        return quantile(lambda q, a, b: special.betainccinv(a, b, q), q, loc, scale, a, b)


class _Expon(Continuous):
    """The exponential distribution."""

    def logpdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−z − log scale for z ≥ 0"""
        z, scale = standard(x, loc, scale)
        return inside_of(op.logical_not(z < 0), z, lambda z: -z) - op.log(scale)

    def cdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """1 − e⁻ᶻ"""
        return -op.expm1(-from_zero(standard(x, loc, scale)[0]))

    def sf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """e⁻ᶻ"""
        return op.exp(self.logsf(x, loc, scale))

    def logsf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−z for z ≥ 0, else 0"""
        return -from_zero(standard(x, loc, scale)[0])

    def ppf(self, q: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−log(1 − q)"""
        return quantile(lambda q: -op.log1p(-q), q, loc, scale)

    def isf(self, q: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−log q"""
        return quantile(lambda q: -op.log(q), q, loc, scale)


class _Laplace(Continuous):
    """The Laplace distribution."""

    def logpdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−|z| − log(2 scale)"""
        z, scale = standard(x, loc, scale)
        return -op.abs(z) - math.log(2) - op.log(scale)

    def cdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """e^z/2 below 0, 1 − e^−z/2 above"""
        z, scale = standard(x, loc, scale)
        half = 0.5 * op.exp(-op.where(z < 0, -z, z))  # not |z|: its gradient at 0 is 0, here 1/2
        return op.where(z < 0, half, 1 - half)

    def sf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """cdf(−z), accurate far above 0"""
        return self.cdf(-standard(x, loc, scale)[0])

    def logcdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """z − log 2 below 0, log(1 − e^−z/2) above"""
        z = standard(x, loc, scale)[0]
        half = 0.5 * op.exp(-op.where(z < 0, 0.0, z))
        return op.where(z < 0, z - math.log(2), op.log1p(-half))

    def logsf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """logcdf(−z)"""
        return self.logcdf(-standard(x, loc, scale)[0])

    def ppf(self, q: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """log 2q below ½, −log(2 − 2q) above"""
        return quantile(_laplace_quantile, q, loc, scale)

    def isf(self, q: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−ppf(q), accurate for small q"""
        return quantile(lambda q: -_laplace_quantile(q), q, loc, scale)


def _laplace_quantile(q: Any) -> Any:
    above = q > 0.5
    z = op.log(2 * op.where(above, 1 - q, q))
    return op.where(above, -z, z)


class _Logistic(Continuous):
    """The logistic distribution."""

    def logpdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−|z| − 2 log(1 + e^−|z|) − log scale, written without a kink"""
        z, scale = standard(x, loc, scale)
        return special.log_expit(z) + special.log_expit(-z) - op.log(scale)

    def cdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """σ(z)"""
        return special.expit(standard(x, loc, scale)[0])

    def logcdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """log σ(z), accurate far below 0"""
        return special.log_expit(standard(x, loc, scale)[0])

    def sf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """σ(−z)"""
        return special.expit(-standard(x, loc, scale)[0])

    def logsf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """log σ(−z)"""
        return special.log_expit(-standard(x, loc, scale)[0])

    def ppf(self, q: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """logit q"""
        return quantile(op.logit, q, loc, scale)

    def isf(self, q: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−logit q"""
        return quantile(lambda q: -op.logit(q), q, loc, scale)


class _Uniform(Continuous):
    """The uniform distribution from loc to loc + scale."""

    def logpdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−log scale inside"""
        z, scale = standard(x, loc, scale)
        return inside_of(op.logical_not((z < 0) | (z > 1)), z, lambda z: 0.0 * z) - op.log(scale)

    def cdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """z between 0 and 1"""
        return within_one(standard(x, loc, scale)[0])

    def ppf(self, q: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """q"""
        return quantile(lambda q: q, q, loc, scale)

    def isf(self, q: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """1 − q"""
        return quantile(lambda q: 1 - q, q, loc, scale)


norm, gamma, chi2, beta = _Norm(), _Gamma(), _Chi2(), _Beta()
expon, laplace, logistic, uniform = _Expon(), _Laplace(), _Logistic(), _Uniform()
__getattr__ = _missing_names_of(__name__)
