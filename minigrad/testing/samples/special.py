"""Samples of minigrad/ops/elementwise/special.py. The references are SciPy's."""

import math

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .elements import NUMBERS, REAL, beside, both, from_mpmath, from_scipy, unary

_exp, _log = from_mpmath("exp"), from_mpmath("log")


def _sigmoid(x):
    return 1 / (1 + _exp(-x))


def _sigmoid_derivative(x):
    return _exp(-abs(x)) / (1 + _exp(-abs(x))) ** 2


def _lgamma(x):
    """Where SciPy is accurate to 4 ULP. Its gammaln near 1 and 2, where it is 0, is right only to
    some ULP of 1. Its digamma, our derivative, loses digits between the poles below 0."""
    if x < -0.5 or 0.75 < x < 2.5:
        raise ValueError("outside of the range with 4 ULP")
    return _log(abs(from_mpmath("gamma")(x)))


def _loggamma(x):
    if x < 0:
        raise ValueError("NaN below 0")
    return _lgamma(x)


def _erfc(x):
    if 0.5 < x < 1:  # SciPy takes 1 − erf x here, with rounding of 1
        raise ValueError("outside of the range with 4 ULP")
    return from_mpmath("erfc")(x)


def _logit(x):
    return _log(x / (1 - x))


register_op(
    "sigmoid",
    unary(-4, 4),
    reference=lambda x: 1 / (1 + np.exp(-x)) if x.dtype.kind == "c" else from_scipy("expit")(x),
    dtypes=NUMBERS,
    mp=_sigmoid,
    points=[
        Point("1000", (1000.0,), 1.0, (0.0,)),
        Point("−1000", (-1000.0,), 0.0, (0.0,)),
        Point("40", (40.0,), 1.0, (math.exp(-40),)),
        Point("−40", (-40.0,), math.exp(-40), (math.exp(-40),)),
    ],
)
register_op(
    "sigmoid_derivative",
    unary(-4, 4),
    reference=lambda x: from_scipy("expit")(x) * from_scipy("expit")(-x),
    dtypes=REAL,
    mp=_sigmoid_derivative,
)
register_op(
    "logit",
    unary(0.1, 0.9),
    reference=from_scipy("logit"),
    dtypes=REAL,
    mp=_logit,
    points=[
        Point("0, moved to ¼", (0.0,), -math.log(3), (0.0,), {"eps": 0.25}),
        Point("1, moved to ¾", (1.0,), math.log(3), (0.0,), {"eps": 0.25}),
        Point("¼, left where it is", (0.25,), -math.log(3), (16 / 3,), {"eps": 0.1}),
    ],
)
register_op("logit_slope", unary(0.1, 0.9), reference=lambda x: 1 / (x * (1 - x)), dtypes=REAL)

register_op("erf", unary(), reference=from_scipy("erf"), dtypes=REAL, mp=from_mpmath("erf"))
register_op(
    "erfc",
    unary(),
    reference=from_scipy("erfc"),
    dtypes=REAL,
    mp=_erfc,
    conditioned="SciPy rounds x² before it takes e^−x², which in the tail costs x² ULP",
)
register_op(
    "erfinv",
    unary(-0.9, 0.9),
    reference=from_scipy("erfinv"),
    dtypes=REAL,
    mp=from_mpmath("erfinv"),
)

register_op(
    "gamma",
    unary(0.6, 3),
    reference=from_scipy("gamma"),
    dtypes=REAL,
    mp=from_mpmath("gamma"),
    conditioned="near the poles the slope has digamma's π/tan(πx), where SciPy rounds πx",
)
register_op(
    "lgamma",
    unary(0.6, 3),
    reference=from_scipy("gammaln"),
    dtypes=REAL,
    mp=_lgamma,
    conditioned="zero at 1 and 2, and near them SciPy's value is some ULP off",
)
register_op(
    "loggamma",
    unary(0.6, 3),
    reference=from_scipy("loggamma"),
    dtypes=(*REAL, "complex128", "complex64"),
    mp=_loggamma,
    conditioned="zero at 1 and 2, and near them SciPy's value is some ULP off",
)
register_op(
    "rgamma",
    both(unary(0.6, 3), unary(-3.4, 0.4)),
    reference=from_scipy("rgamma"),
    dtypes=(*REAL, "complex128"),
    mp=from_mpmath("rgamma"),
    conditioned="the slope is zero between the poles, where its two terms cancel",
    points=[
        Point("0", (0.0,), 0.0, (1.0,)),
        Point("−1", (-1.0,), 0.0, (-1.0,)),
        Point("−2", (-2.0,), 0.0, (2.0,)),
        Point("−5", (-5.0,), 0.0, (-120.0,)),
        Point("∞", (np.inf,), 0.0, (0.0,)),
    ],
)
register_op(
    "gammasgn",
    both(unary(0.1, 3), unary(-1.9, -1.1), unary(-2.9, -2.1)),
    reference=from_scipy("gammasgn"),
    dtypes=REAL,
    zero_gradient=True,
    skips={"K31": "a large number below 0 is whole, and so a pole"},
)
register_op(
    "digamma",
    unary(0.6, 3),
    reference=from_scipy("digamma"),
    dtypes=(*REAL, "complex128"),
    mp=from_mpmath("digamma"),
    conditioned="zero between the poles, where SciPy takes π/tan(πx) from digamma(1 − x)",
)


def _polygamma_of(x, order):
    if x.dtype.kind == "c":
        psi = from_mpmath("psi")
        return np.vectorize(lambda z: complex(psi(order, z)), otypes=[x.dtype])(x)
    return from_scipy("polygamma")(order, x).astype(x.dtype)


def _reflected(span, order):
    """Left of ½, where complex arguments are reflected; between poles 16 bits do not reach far."""

    def samples(rng, dtype):
        if np.dtype(dtype).itemsize > 2:
            yield from beside(span, order=order)(rng, dtype)

    return samples


register_op(
    "polygamma_of",
    both(
        unary(0.6, 3, order=1),
        unary(0.6, 3, order=2),
        _reflected((-1.8, -1.2), order=2),
        _reflected((-0.7, -0.3), order=3),
    ),
    reference=_polygamma_of,
    dtypes=(*REAL, "complex128"),
    skips={
        "K16": "mpmath takes seconds for one value at 320 digits; K16 of digamma checks order 1"
    },
)
register_op(
    "polygamma",
    both(unary(0.6, 3, n=0), unary(0.6, 3, n=1)),
    call=lambda x, n: _polygamma(n, x),
    reference=lambda x, n: from_scipy("polygamma")(n, x),
    dtypes=REAL,
    errors=[ErrorSample("negative order", (np.ones(3),), ValueError, "0 or more", {"n": -1})],
)


def _polygamma(n, x):
    from ...engine.registry import op

    return op.polygamma(n, x)
