"""Base of the distributions in mg.stats: of one number location, scale, support, logarithms."""

import math
import re
from collections.abc import Callable
from functools import wraps
from types import MethodType
from typing import Any

import numpy as np

from ..backends.dtypes import common_dtype
from ..engine.registry import op
from ..ops.axes import floating_together
from ..special.probability import standard_score
from ..tensor_api.help import of_call

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def standard(x: Any, loc: Any, scale: Any, *shapes: Any) -> tuple:
    """z = (x − loc)/scale, then the shape parameters and the scale, all floats; Python numbers are
    weak. Where a scale or shape is not above 0 there is no such distribution: z is NaN."""
    x, loc, scale, *floats = floating_together(x, loc, scale, *shapes)
    scale = _positive(scale)
    return (_where_positive(floats, standard_score(x, loc, scale)), *floats, scale)


def _positive(scale: Any) -> Any:
    """The scale, NaN where it is not above 0."""
    return op.where(scale > 0, scale, np.nan)


def _where_positive(shapes: list, x: Any) -> Any:
    """x, NaN where one of the shape parameters is not above 0."""
    for shape in shapes:
        x = op.where(shape > 0, x, np.nan)
    return x


def quantile(standard: Any, q: Any, loc: Any, scale: Any, *shapes: Any) -> Any:
    """standard(q, *shapes) · scale + loc, NaN for shares q beyond 0 to 1, and without such a
    distribution."""
    q, loc, scale, *floats = floating_together(q, loc, scale, *shapes)
    q = _where_positive(floats, op.where((q < 0) | (q > 1), np.nan, q))
    with np.errstate(divide="ignore"):  # the quantiles of 0 and 1 may be infinite
        return standard(q, *floats) * _positive(scale) + loc


def log_share(share: Any, rest: Any) -> Any:
    """log share, where rest = 1 − share: by the smaller of the two, which keeps all digits near 1
    too. Each is replaced where the other is used: no derivative there is NaN. So is a share of 0:
    its logarithm is −∞, with gradient 0, like that of a density outside."""
    near, nothing = share > 0.5, share == 0
    high = op.log1p(-op.where(near, rest, 0.0))
    low = op.log(op.where(near | nothing, 1.0, share))
    return op.where(nothing, -np.inf, op.where(near, high, low))


def _in_float64(function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """function(*args, **kwargs), its steps in float64 and its result rounded once. A share that is
    too small for float32 still has a logarithm and a slope there."""
    floats = floating_together(*args, *kwargs.values())
    dtype = common_dtype(*floats)
    if dtype.itemsize >= 8:
        return function(*args, **kwargs)
    wide = [x.astype(np.float64) for x in floats]
    named = dict(zip(kwargs, wide[len(args) :], strict=True))
    return function(*wide[: len(args)], **named).astype(dtype)


def inside_of(inside: Any, z: Any, log_density: Any) -> Any:
    """log_density of z where `inside`, else −∞. Values outside are replaced before it (log_density
    takes the safe z): neither its value nor its derivative can be NaN there. NaN is no number
    outside: it counts as inside, and so comes back."""
    return op.where(inside, log_density(op.where(inside, z, 0.5)), -np.inf)


def from_zero(z: Any) -> Any:
    """z, 0 below 0: at 0 itself its slope is 1, that from inside a support that begins there."""
    return op.where(z < 0, 0.0, z)


def within_one(z: Any) -> Any:
    """z cut to the support from 0 to 1, with the slope from inside at its ends."""
    return op.where(z > 1, 1.0, from_zero(z))


class Distribution:
    """Base of all distributions: how they show themselves, and what their errors say."""

    def __init_subclass__(cls) -> None:
        for name, fn in [*vars(cls).items()]:
            if name[0] != "_":
                setattr(cls, name, _teaching(fn))

    def __repr__(self) -> str:
        words = re.findall("[A-Z][a-z]*", type(self).__name__)
        return f"mg.stats.{'_'.join(words).lower()}"

    def __getattr__(self, name: str) -> Any:
        known = sorted(key for key in dir(type(self)) if key[0] != "_")
        draw = "; a draw is .ppf(mg.rand(n), ...)" if name == "rvs" and "ppf" in known else ""
        raise AttributeError(f"{self!r} has no {name!r}; it has {', '.join(known)}{draw}")


def _teaching(fn: Callable) -> Callable:
    """The method, whose errors show its call: see `with_call_context` of courtesy/explain.py."""

    @wraps(fn)
    def method(self: Distribution, *args: Any, **kwargs: Any) -> Any:
        try:
            return fn(self, *args, **kwargs)
        except Exception as error:
            called = f"{self!r}.{fn.__name__}".removeprefix("mg.stats.")
            raise of_call(error, MethodType(fn, self), args, kwargs, called)  # noqa: B904

    return method


class Continuous(Distribution):
    """Base: pdf is the exponential of logpdf, sf, logcdf and logsf follow from cdf."""

    def pdf(self, *args: Any, **kwargs: Any) -> Any:
        """The density at x."""
        return op.exp(self.logpdf(*args, **kwargs))

    def logcdf(self, *args: Any, **kwargs: Any) -> Any:
        """log cdf(x)"""
        return _in_float64(
            lambda *a, **k: log_share(self.cdf(*a, **k), self.sf(*a, **k)), args, kwargs
        )

    def sf(self, *args: Any, **kwargs: Any) -> Any:
        """1 − cdf(x)"""
        return 1 - self.cdf(*args, **kwargs)

    def logsf(self, *args: Any, **kwargs: Any) -> Any:
        """log sf(x)"""
        return _in_float64(
            lambda *a, **k: log_share(self.sf(*a, **k), self.cdf(*a, **k)), args, kwargs
        )

    def logpdf(self, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the density."""
        raise NotImplementedError

    def cdf(self, *args: Any, **kwargs: Any) -> Any:
        """The probability of values up to x."""
        raise NotImplementedError
