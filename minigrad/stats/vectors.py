"""Distributions of vectors in mg.stats: dirichlet and multivariate_normal."""

from typing import Any

import numpy as np

from .. import special
from ..backends.dtypes import finfo
from ..engine.graph import raw
from ..engine.registry import op
from ..ops.axes import array_like, as_floating, constant_like, floating_together, module_of, on_host
from ..special.probability import power_product
from .base import HALF_LOG_2PI, Distribution

_SINGULAR = {4: 1e3, 8: 1e6}  # by bytes of a float: eigenvalues up to so many ε are 0, as in SciPy


class _Dirichlet(Distribution):
    """The Dirichlet distribution on proportions x (d,) or (d, n), as columns, that add up to 1.

    ValueError, as in SciPy, where they do not (to the square root of the dtype's ε), or are
    negative. The derivative in x is the formula's, as if the proportions were free; make them by
    softmax to stay where they add up to 1. At a proportion of 0 it is the limit from inside, the
    others held: ±∞ for logpdf; for pdf 0 where α_i > 2, finite where α_i = 2, ±∞ below; 0 where
    α_i = 1. With two of these pdf is 0 if one has α_i > 1, and so is its gradient along the other.
    """

    def logpdf(self, x: Any, alpha: Any) -> Any:
        """Σ (α_i − 1) log x_i − Σ log Γ(α_i) + log Γ(Σ α_i)"""
        x, alpha = self._arrays(x, alpha)
        column = alpha if x.ndim == 1 else op.expand_dims(alpha, axis=-1)
        return self._constant(alpha) + op.sum(special.xlogy(column - 1, x), axis=0)

    def pdf(self, x: Any, alpha: Any) -> Any:
        """The density at x."""
        x, alpha = self._arrays(x, alpha)
        if (raw(x) > 0).all():
            return op.exp(self.logpdf(x, alpha))
        rows = op.transpose(x)  # where a share is 0 the gradient of exp(logpdf) would be 0 · ∞
        powers = op.broadcast_to(alpha - 1, shape=rows.shape)
        constant = op.broadcast_to(self._constant(alpha), shape=rows.shape[:-1])
        return power_product(rows, powers, constant)

    def _arrays(self, x: Any, alpha: Any) -> tuple:
        x, alpha = as_floating(array_like(x)), as_floating(array_like(alpha))
        _check_shares(x, alpha)
        return x, alpha

    def _constant(self, alpha: Any) -> Any:
        return special.gammaln(op.sum(alpha)) - op.sum(special.gammaln(alpha))


def _check_shares(x: Any, alpha: Any) -> None:
    if alpha.ndim != 1 or x.ndim not in (1, 2) or x.shape[0] != alpha.shape[0]:
        raise ValueError(
            f"dirichlet: alpha (d,) goes with x (d,), or (d, n) for n points as columns; got alpha "
            f"{alpha.shape}, x {x.shape}. For points in rows pass x.T"
        )
    if (raw(alpha) <= 0).any():
        raise ValueError(f"dirichlet: alpha must be above 0, the least is {raw(alpha).min()}")
    totals, values = raw(op.sum(x, axis=0)), raw(x)
    if (values < 0).any() or (abs(totals - 1) > float(finfo(x.dtype).eps) ** 0.5).any():
        raise ValueError(
            "dirichlet: the entries of x along axis 0 must be shares, 0 or more, that add up to 1; "
            f"the least is {values.min()}, sums go from {totals.min()} to {totals.max()}. "
            "mg.softmax(x, axis=0) makes shares of any numbers"
        )


class _MultivariateNormal(Distribution):
    """The normal distribution of vectors: mean (d,), cov (d, d), a vector of variances or one.

    allow_singular=True takes a cov of rank r < d as well, with the density on the r dimensions that
    it spans: C⁻¹ and det C are then those of these alone, and outside them the density is 0 with
    gradient 0. Derivatives are along the matrices of rank r; those out of them count as 0.
    """

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1.0, allow_singular: bool = False) -> Any:
        """−(d log 2π + log det C + (x − m)ᵀ C⁻¹ (x − m))/2 of x (…, d), by Cholesky's factor

        LinAlgError where cov is not positive definite, unless allow_singular; then ValueError for
        an eigenvalue below 0. x (n,) with a single mean: n numbers.
        """
        given = np.shape(x), np.shape(mean), np.shape(cov)
        x, mean, cov = self._arrays(x, mean, cov)
        d = x.shape[-1]
        if cov.shape != (d, d) or mean.ndim and mean.shape[-1] not in (1, d):
            raise ValueError(
                "multivariate_normal: x (…, d) goes with mean (d,) and cov (d, d), or with a "
                "number for either; got x {}, mean {}, cov {}".format(*given)
            )
        span = _span(cov) if allow_singular else None
        inner, rows = cov, _rows(x - mean)
        if span is not None:
            outside = op.sum(op.square(rows @ span.rest), axis=1) >= span.least**2
            inner, rows = span.inner(cov), rows @ span.basis
        l = _factor(inner)
        z = op.triangular_solve(l, op.swapaxes(rows, axis1=0, axis2=1), lower=True)
        log_det = 2 * op.sum(op.log(op.diagonal(l))) if span is None else span.log_det(cov, inner)
        y = -0.5 * (op.sum(op.square(z), axis=0) + log_det) - inner.shape[-1] * HALF_LOG_2PI
        y = y if span is None else op.where(outside, -np.inf, y)
        return op.reshape(y, shape=x.shape[:-1])

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1.0, allow_singular: bool = False) -> Any:
        """The density at x."""
        return op.exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(self, mean: Any = None, cov: Any = 1.0) -> Any:
        """(d + d log 2π + log det C)/2, with d and C of the dimensions that cov spans"""
        cov = self._arrays(0.0 if mean is None else mean, mean, cov)[2]
        span = _span(cov)
        inner = cov if span is None else span.inner(cov)
        log_det = op.slogdet(cov)[1] if span is None else span.log_det(cov, inner)
        return 0.5 * log_det + inner.shape[-1] * (0.5 + HALF_LOG_2PI)

    def _arrays(self, x: Any, mean: Any, cov: Any) -> tuple:
        """x (…, d), mean (d,) and cov (d, d)."""
        x, cov, *means = floating_together(x, cov, *[m for m in (mean,) if m is not None])
        d = max(cov.shape[-1] if cov.ndim else 1, np.shape(mean)[-1] if np.ndim(mean) else 1)
        d = x.shape[-1] if d == 1 and cov.ndim == 0 and mean is None and x.ndim else d
        mean = means[0] if means else op.zeros_like(x[..., :1]) if x.ndim else op.zeros_like(x)
        if cov.ndim < 2:
            cov = op.broadcast_to(cov, shape=(d,))
            cov = op.diag(cov)
        x = op.expand_dims(x, axis=-1) if x.ndim == 0 or (d == 1 and x.shape[-1] != 1) else x
        return x, mean, cov


def _factor(cov: Any) -> Any:
    """Cholesky's factor of a covariance; LinAlgError where SciPy, too, takes it for singular."""
    try:
        l = op.cholesky(cov)
        if module_of(l) is not np or not l.size:  # to look at numbers on a GPU is to wait for it
            return l
        pivots = np.diagonal(raw(l), axis1=-2, axis2=-1) ** 2
        least = _SINGULAR[pivots.dtype.itemsize] * np.finfo(pivots.dtype).eps
        if (pivots.min(-1) > least * pivots.max(-1)).all():
            return l
        why = f"its pivots go down to {pivots.min():.2g}"
    except np.linalg.LinAlgError as error:
        why = str(error)
    raise np.linalg.LinAlgError(
        f"multivariate_normal: cov {cov.shape} is not positive definite ({why}). "
        "allow_singular=True takes one of lower rank"
    )


class _Span:
    """The dimensions that a singular covariance C spans, as constants.

    basis (d, r) and rest (d, d − r) are eigenvectors of C; a vector is outside that has `least` or
    more of the rest. With a constant basis Q, C⁻¹ on its span is Q (Qᵀ C Q)⁻¹ Qᵀ for every C of
    this rank, wherever its span turns to, if vectors turn with it.
    """

    def __init__(self, basis: Any, rest: Any, least: float):
        self.basis, self.rest, self.least = basis, rest, least

    def inner(self, cov: Any) -> Any:
        """Qᵀ C Q, the covariance of the span's coordinates."""
        return op.matmul(self.basis.T, op.matmul(cov, self.basis))

    def log_det(self, cov: Any, inner: Any) -> Any:
        """log of the product of the eigenvalues above 0: det Qᵀ C² Q / det Qᵀ C Q, of every C of
        this rank, since the angles between Q and its span cancel."""
        turned = op.matmul(cov, self.basis)
        return op.slogdet(op.matmul(turned.T, turned))[1] - op.slogdet(inner)[1]


def _span(cov: Any) -> _Span | None:
    """The span of a covariance; None where that is the whole space. ValueError below 0."""
    values, vectors = np.linalg.eigh(on_host(cov))
    eps = _SINGULAR[values.dtype.itemsize] * np.finfo(values.dtype).eps
    least = eps * abs(values).max(-1, initial=0, keepdims=True)
    if (values < -least).any():
        raise ValueError(
            f"multivariate_normal: cov {cov.shape} has the eigenvalue {values.min():.2g}; a "
            "covariance has none below 0"
        )
    if (values > least).all():
        return None
    if values.ndim > 1:
        raise ValueError(
            f"multivariate_normal: under vmap every cov {cov.shape} must have full rank, since the "
            "rank is a shape"
        )
    kept = values > least
    basis, rest = (constant_like(vectors[:, chosen], cov) for chosen in (kept, ~kept))
    return _Span(basis, rest, 1e3 * float(least[0]))


def _rows(x: Any) -> Any:
    return op.reshape(x, shape=(-1, x.shape[-1]))


dirichlet, multivariate_normal = _Dirichlet(), _MultivariateNormal()
