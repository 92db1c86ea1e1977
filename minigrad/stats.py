"""mg.stats: densities and distribution functions by scipy.stats' names and arguments.

    >>> import minigrad as mg
    >>> mg.stats.norm.logpdf(mg.tensor([0.0, 1.0]), loc=0.0, scale=2.0)
    tensor([-1.61208571, -1.73708571])

Each is made of ops, so it has derivatives of any order in every argument that the formula is
differentiable in: not the shape parameters of cdfs that have no rule for them (gamma, beta, t,
chi2), which raise. Outside its support a density is 0, its logarithm −∞, the gradient 0; at an end
of the support the gradient is the limit from inside, ∞ where that is infinite. Shares that do not
add up to 1 (dirichlet) are an error: nearly always they are logits, or lie in rows.
"""

import math
from typing import Any

import numpy as np

from . import special
from .backends.dtypes import finfo
from .core.registry import op
from .ops.axes import floating_together
from .ops.elementwise.probability import two_powers
from .stats_of_vectors import HALF_LOG_2PI, dirichlet, multivariate_normal

__all__ = [
    "bernoulli", "beta", "chi2", "dirichlet", "expon", "gamma", "laplace", "logistic",
    "multivariate_normal", "norm", "poisson", "t", "uniform",
]  # fmt: skip


def _standard(x: Any, loc: Any, scale: Any, *shapes: Any) -> tuple:
    """z = (x − loc)/scale, then the shape parameters and the scale, all floats; Python numbers are
    weak."""
    x, loc, scale, *floats = floating_together(x, loc, scale, *shapes)
    return ((x - loc) / scale, *floats, scale)


def _log(share: Any, rest: Any) -> Any:
    """log share, where rest = 1 − share: by the smaller of the two, so that near 1, too, it has all
    its digits. Each is replaced where the other is used, so that no derivative there is NaN."""
    near = share > 0.5
    safe = op.where(near, 1.0, share)
    with np.errstate(divide="ignore"):  # log 0 = −∞ is what lies outside the support
        return op.where(near, op.log1p(-op.where(near, rest, 0.0)), op.log(safe))


def _inside(inside: Any, z: Any, log_density: Any) -> Any:
    """log_density of z where `inside`, else −∞; what lies outside is replaced before it, so that
    neither its value nor its derivative can be NaN there (log_density takes the safe z). NaN is no
    number outside: it counts as inside, and so comes back."""
    return op.where(inside, log_density(op.where(inside, z, 0.5)), -np.inf)


class _Continuous:
    """Base: pdf is the exponential of logpdf, sf, logcdf and logsf follow from cdf."""

    def pdf(self, *args: Any, **kwargs: Any) -> Any:
        """The density at x."""
        return op.exp(self.logpdf(*args, **kwargs))

    def logcdf(self, *args: Any, **kwargs: Any) -> Any:
        """log cdf(x)"""
        return _log(self.cdf(*args, **kwargs), self.sf(*args, **kwargs))

    def sf(self, *args: Any, **kwargs: Any) -> Any:
        """1 − cdf(x)"""
        return 1 - self.cdf(*args, **kwargs)

    def logsf(self, *args: Any, **kwargs: Any) -> Any:
        """log sf(x)"""
        return _log(self.sf(*args, **kwargs), self.cdf(*args, **kwargs))

    def logpdf(self, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the density."""
        raise NotImplementedError

    def cdf(self, *args: Any, **kwargs: Any) -> Any:
        """The probability of values up to x."""
        raise NotImplementedError


class _Norm(_Continuous):
    """The normal distribution."""

    def logpdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−z²/2 − log(scale √2π), z = (x − loc)/scale"""
        z, scale = _standard(x, loc, scale)
        return -0.5 * op.square(z) - HALF_LOG_2PI - op.log(scale)

    def cdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Φ(z)"""
        return special.ndtr(_standard(x, loc, scale)[0])

    def logcdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """log Φ(z), accurate far below 0"""
        return special.log_ndtr(_standard(x, loc, scale)[0])

    def sf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Φ(−z)"""
        return special.ndtr(-_standard(x, loc, scale)[0])

    def logsf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """log Φ(−z)"""
        return special.log_ndtr(-_standard(x, loc, scale)[0])

    def ppf(self, q: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The value that a share q of the probability lies below."""
        q, loc, scale = floating_together(q, loc, scale)
        return special.ndtri(q) * scale + loc


class _T(_Continuous):
    """Student's t distribution with df degrees of freedom."""

    def logpdf(self, x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """log Γ((ν+1)/2) − log Γ(ν/2) − log(νπ)/2 − (ν+1)/2 log(1 + z²/ν) − log scale"""
        z, df, scale = _standard(x, loc, scale, df)
        return (
            special.gammaln((df + 1) / 2) - special.gammaln(df / 2) - 0.5 * op.log(df * math.pi)
            - (df + 1) / 2 * op.log1p(op.square(z) / df) - op.log(scale)
        )  # fmt: skip

    def cdf(self, x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """By the incomplete beta function."""
        z, df, scale = _standard(x, loc, scale, df)
        # the squares of what is beyond this would overflow
        most = float(np.sqrt(finfo(z.dtype).max)) / 16
        infinite, z = op.isinf(z), op.clip(z, -most, most)
        far = op.square(z) > df
        tail_z, middle_z = op.where(far, z, 1.0), op.where(far, 0.0, z)
        # w = z/√(ν + z²) has the symmetric beta distribution on (−1, 1): smooth through z = 0, but
        # with no digit of a small probability; in the tails ν/(ν + z²) has the beta distribution
        w = middle_z / op.sqrt(df + op.square(middle_z))
        middle = special.betainc(df / 2, df / 2, (w + 1) / 2)
        tail = 0.5 * special.betainc(df / 2, 0.5, df / (df + op.square(tail_z)))
        tail = op.where(infinite, 0.0, tail)
        return op.where(far, op.where(z < 0, tail, 1 - tail), middle)

    def sf(self, x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """cdf(−z), accurate far above 0"""
        z, df, _ = _standard(x, loc, scale, df)
        return self.cdf(-z, df)


class _Gamma(_Continuous):
    """The gamma distribution with shape a."""

    @staticmethod
    def _finite(z: Any) -> Any:
        """Where z is in the support and short of ∞, whose density is 0, no log ∞ − ∞."""
        return op.logical_not((z < 0) | (z == np.inf))

    def logpdf(self, x: Any, a: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """(a − 1) log z − z − log Γ(a) − log scale for z ≥ 0: ∞ at 0 for a < 1"""
        z, a, scale = _standard(x, loc, scale, a)
        y = _inside(self._finite(z), z, lambda z: special.xlogy(a - 1, z) - z - special.gammaln(a))
        return y - op.log(scale)

    def pdf(self, x: Any, a: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """zᵃ⁻¹ e⁻ᶻ/(Γ(a) scale); the gradient at 0 is its limit"""
        z, a, scale = _standard(x, loc, scale, a)
        inside = self._finite(z)
        safe = op.where(inside, z, 0.5)
        y = two_powers(safe, a - 1, 0.0, -safe - special.gammaln(a))
        return op.where(inside, y, 0.0) / scale

    def cdf(self, x: Any, a: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """By the incomplete gamma function."""
        z, a, _ = _standard(x, loc, scale, a)
        return special.gammainc(a, op.relu(z))

    def sf(self, x: Any, a: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The upper incomplete gamma function."""
        z, a, _ = _standard(x, loc, scale, a)
        return special.gammaincc(a, op.relu(z))


class _Chi2(_Continuous):
    """The χ² distribution with df degrees of freedom: gamma of shape df/2 and scale 2."""

    def logpdf(self, x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """gamma.logpdf(z, df/2, scale=2) − log scale"""
        z, df, scale = _standard(x, loc, scale, df)
        return gamma.logpdf(z, df / 2, 0.0, 2.0) - op.log(scale)

    def pdf(self, x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """gamma.pdf(z, df/2, scale=2)/scale"""
        z, df, scale = _standard(x, loc, scale, df)
        return gamma.pdf(z, df / 2, 0.0, 2.0) / scale

    def cdf(self, x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """gamma.cdf(z, df/2, scale=2)"""
        z, df, _ = _standard(x, loc, scale, df)
        return gamma.cdf(z, df / 2, 0.0, 2.0)

    def sf(self, x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """gamma.sf(z, df/2, scale=2)"""
        z, df, _ = _standard(x, loc, scale, df)
        return gamma.sf(z, df / 2, 0.0, 2.0)


class _Beta(_Continuous):
    """The beta distribution on (0, 1)."""

    def logpdf(self, x: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """(a − 1) log z + (b − 1) log(1 − z) − log B(a, b) − log scale"""
        z, a, b, scale = _standard(x, loc, scale, a, b)

        def log_density(z: Any) -> Any:
            return special.xlogy(a - 1, z) + special.xlog1py(b - 1, -z) - special.betaln(a, b)

        return _inside(op.logical_not((z < 0) | (z > 1)), z, log_density) - op.log(scale)

    def pdf(self, x: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """zᵃ⁻¹ (1 − z)ᵇ⁻¹/(B(a, b) scale); the gradient at 0 and 1 is its limit"""
        z, a, b, scale = _standard(x, loc, scale, a, b)
        inside = op.logical_not((z < 0) | (z > 1))
        y = two_powers(op.where(inside, z, 0.5), a - 1, b - 1, -special.betaln(a, b))
        return op.where(inside, y, 0.0) / scale

    def cdf(self, x: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The incomplete beta function."""
        z, a, b, _ = _standard(x, loc, scale, a, b)
        return special.betainc(a, b, op.clip(z, 0.0, 1.0))

    def sf(self, x: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The cdf of 1 − z with a and b exchanged, accurate near 1"""
        z, a, b, _ = _standard(x, loc, scale, a, b)
        return special.betainc(b, a, 1 - op.clip(z, 0.0, 1.0))


class _Expon(_Continuous):
    """The exponential distribution."""

    def logpdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−z − log scale for z ≥ 0"""
        z, scale = _standard(x, loc, scale)
        return _inside(op.logical_not(z < 0), z, lambda z: -z) - op.log(scale)

    def cdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """1 − e⁻ᶻ"""
        return -op.expm1(-op.relu(_standard(x, loc, scale)[0]))

    def sf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """e⁻ᶻ"""
        return op.exp(self.logsf(x, loc, scale))

    def logsf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−z for z ≥ 0, else 0"""
        return -op.relu(_standard(x, loc, scale)[0])


class _Laplace(_Continuous):
    """The Laplace distribution."""

    def logpdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−|z| − log(2 scale)"""
        z, scale = _standard(x, loc, scale)
        return -op.abs(z) - math.log(2) - op.log(scale)

    def cdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """e^z/2 below 0, 1 − e^−z/2 above"""
        z, scale = _standard(x, loc, scale)
        half = 0.5 * op.exp(-op.where(z < 0, -z, z))  # not |z|: its gradient at 0 is 0, here 1/2
        return op.where(z < 0, half, 1 - half)

    def sf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """cdf(−z), accurate far above 0"""
        return self.cdf(-_standard(x, loc, scale)[0])

    def logcdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """z − log 2 below 0, log(1 − e^−z/2) above"""
        z = _standard(x, loc, scale)[0]
        half = 0.5 * op.exp(-op.where(z < 0, 0.0, z))
        return op.where(z < 0, z - math.log(2), op.log1p(-half))

    def logsf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """logcdf(−z)"""
        return self.logcdf(-_standard(x, loc, scale)[0])


class _Logistic(_Continuous):
    """The logistic distribution."""

    def logpdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−|z| − 2 log(1 + e^−|z|) − log scale, written without a kink"""
        z, scale = _standard(x, loc, scale)
        return special.log_expit(z) + special.log_expit(-z) - op.log(scale)

    def cdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """σ(z)"""
        return special.expit(_standard(x, loc, scale)[0])

    def logcdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """log σ(z), accurate far below 0"""
        return special.log_expit(_standard(x, loc, scale)[0])

    def sf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """σ(−z)"""
        return special.expit(-_standard(x, loc, scale)[0])

    def logsf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """log σ(−z)"""
        return special.log_expit(-_standard(x, loc, scale)[0])


class _Uniform(_Continuous):
    """The uniform distribution from loc to loc + scale."""

    def logpdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """−log scale inside"""
        z, scale = _standard(x, loc, scale)
        return _inside(op.logical_not((z < 0) | (z > 1)), z, lambda z: 0.0 * z) - op.log(scale)

    def cdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """z between 0 and 1"""
        return op.clip(_standard(x, loc, scale)[0], 0.0, 1.0)


class _Poisson:
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
        k, mu = floating_together(k, mu)
        possible = op.logical_not((k < 0) | (k > op.floor(k)))
        return possible, op.where(possible, k, 0.0), op.where(possible, mu, 1.0)

    def cdf(self, k: Any, mu: Any) -> Any:
        """The probability of counts up to k; differentiable in mu."""
        k, mu = floating_together(k, mu)
        k = op.floor(k)
        return op.where(k < 0, 0.0, special.gammaincc(op.relu(k) + 1, mu))


class _Bernoulli:
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
        possible = (k == 0) | (k == 1) | op.isnan(k)
        return possible, op.where(possible, k, 0.0), op.where(possible, p, 0.5)


norm, t, gamma, chi2, beta = _Norm(), _T(), _Gamma(), _Chi2(), _Beta()
expon, laplace, logistic, uniform = _Expon(), _Laplace(), _Logistic(), _Uniform()
poisson, bernoulli = _Poisson(), _Bernoulli()
