"""Samples of minigrad/ops/elementwise/trigonometric.py."""

import math

import numpy as np

from ..spec import Point, Sample, register_op
from .elements import NUMBERS, from_mpmath, unary, uniform

inside, above, anywhere = (-0.9, 0.9), (1.2, 3.0), (-1.4, 1.4)
for name, mp_name, limits in (
    ("sin", "sin", anywhere),
    ("cos", "cos", anywhere),
    ("tan", "tan", anywhere),
    ("arcsin", "asin", inside),
    ("arccos", "acos", inside),
    ("arctan", "atan", inside),
    ("sinh", "sinh", anywhere),
    ("cosh", "cosh", anywhere),
    ("tanh", "tanh", anywhere),
    ("arcsinh", "asinh", anywhere),
    ("arccosh", "acosh", above),
    ("arctanh", "atanh", inside),
):
    register_op(
        name,
        unary(*limits),
        reference=getattr(np, name),
        dtypes=NUMBERS,
        mp=from_mpmath(mp_name),
    )

for name, limits, slope in (
    ("arcsin_slope", inside, lambda x: 1 / np.sqrt(1 - x * x)),
    ("arcsinh_slope", anywhere, lambda x: 1 / np.hypot(1, x)),
    ("arccosh_slope", above, lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1))),
    ("arctanh_slope", inside, lambda x: 1 / (1 - x * x)),
    ("tanh_slope", anywhere, lambda x: 1 / np.square(np.cosh(x))),
):
    register_op(name, unary(*limits), reference=slope, dtypes=("float64", "float32", "float16"))


def around_zero(rng, dtype):
    """Small and large arguments: both branches of the derivative."""
    yield Sample("(3,)", (uniform(rng, (3,), dtype, -1.5, 1.5),))
    yield Sample("(2, 5)", (uniform(rng, (2, 5), dtype, -4, 4),))
    yield Sample("()", (uniform(rng, (), dtype, 0.1, 0.4),))


def order(n):
    def samples(rng, dtype):
        for sample in around_zero(rng, dtype):
            yield Sample(sample.name, sample.args, {"order": n})

    return samples


def _sinc_derivative(x, order):
    """By the recurrence in longdouble, from x away from 0."""
    z = np.asarray(x, np.longdouble) * np.longdouble(math.pi)
    f = np.sin(z) / z
    for n in range(1, order + 1):
        f = (np.sin(z + n * np.longdouble(math.pi) / 2) - n * f) / z
    return np.asarray(np.longdouble(math.pi) ** order * f, np.asarray(x).dtype)


def _sinc(x):
    """np.sinc by way of the remainder of x: np.sinc itself rounds πx, and has no digit for 1e16."""
    x = np.asarray(x, np.longdouble)
    r = np.fmod(x, 2)
    y = np.where(x == 0, 1, np.sinc(r) * (r / np.where(x == 0, 1, x)))
    return np.where(np.fmod(r, 1) == 0, x == 0, y).astype(np.float64)


register_op(
    "sinc",
    around_zero,
    reference=_sinc,
    dtypes=("float64", "float32", "float16"),
    mp=from_mpmath("sincpi"),
    points=[
        Point("0", (0.0,), 1.0, (0.0,)),
        Point("a large half", (1e6 + 0.5,), 1 / (math.pi * (1e6 + 0.5))),
        Point("a large even number", (2.0**60,), 0.0, (2.0**-60,)),
    ],
)
register_op(
    "sinc_derivative",
    order(1),
    reference=_sinc_derivative,
    dtypes=("float64",),
    mp=lambda x: (from_mpmath("cospi")(x) - from_mpmath("sincpi")(x)) / x,
    conditioned="zero near every k + ½, where x is known only to ½ ULP",
    points=[
        Point("first at 0", (0.0,), 0.0, (-(math.pi**2) / 3,), {"order": 1}),
        Point("second at 0", (0.0,), -(math.pi**2) / 3, (0.0,), {"order": 2}),
        Point("third at 0", (0.0,), 0.0, (math.pi**4 / 5,), {"order": 3}),
    ],
    skips={"K12": "the reference is a recurrence that excludes 0 and infinity"},
)
