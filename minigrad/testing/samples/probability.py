"""Samples of minigrad/special/probability.py. The references are SciPy's."""

import math

import numpy as np

from ..spec import ErrorSample, Point, Sample, register_op
from .elements import REAL, beside, binary, both, from_mpmath, from_scipy, several, unary, uniform

_exp, _erfc = from_mpmath("exp"), from_mpmath("erfc")
WIDE = ("float64", "float32")
POSITIVE = (
    "a, b > 0 alone. SciPy's values below 0 have no gradient at whole numbers. Those at "
    "the ends (a = 0, b = 0) depend on the approach"
)

register_op(
    "ndtr",
    unary(),
    reference=from_scipy("ndtr"),
    dtypes=REAL,
    points=[Point("far to the left", (-60.0,), 0.0, (0.0,)), Point("0", (0.0,), 0.5)],
)
register_op(
    "normal_density",
    unary(),
    reference=lambda x: np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi),
    dtypes=REAL,
    points=[
        Point("0", (0.0,), 1 / math.sqrt(2 * math.pi), (0.0,)),
        Point("∞", (np.inf,), 0.0, (0.0,)),
    ],
)
register_op(
    "standard_score",
    several((-2, 2), (-2, 2), (0.5, 2)),
    reference=lambda x, loc, scale: (x - loc) / scale,
    dtypes=REAL,
    points=[Point("at loc", (3.0, 3.0, 2.0), 0.0, (0.5, -0.5, 0.0))],
)
register_op("ndtri", unary(0.1, 0.9), reference=from_scipy("ndtri"), dtypes=REAL)
register_op("erfcinv", unary(0.2, 1.8), reference=from_scipy("erfcinv"), dtypes=REAL)
register_op(
    "erfcx",
    both(unary(-1, 2), unary(3, 30)),
    reference=from_scipy("erfcx"),
    dtypes=REAL,
    points=[Point("∞", (np.inf,), 0.0, (0.0,))],
)


def _erfc_ratio(x):
    """∫ s e^−s²−2xs ds / ∫ e^−s²−2xs ds from 0 on: sums of positive terms, nothing cancels.

    By the trapezoidal rule over log s, which is accurate for integrands that decay so fast.
    """
    s = np.exp(np.arange(-40, 3.5, 1 / 16))
    terms = s * np.exp(-s * (s + 2 * np.asarray(x, np.float64)[..., None]))
    with np.errstate(invalid="ignore"):
        return ((s * terms).sum(-1) / terms.sum(-1)).astype(x.dtype)


register_op(
    "erfc_ratio",
    unary(1.6, 4),
    reference=_erfc_ratio,
    dtypes=REAL,
    points=[Point("∞", (np.inf,), 0.0, (0.0,))],
    nan_alone="for x ≥ 1.5 alone",
    skips={"K27": "for x ≥ 1.5 alone"},
)
register_op(
    "log_ndtr",
    unary(),
    reference=from_scipy("log_ndtr"),
    dtypes=REAL,
    points=[
        Point("40", (40.0,), 0.0, (0.0,)),
        Point("0", (0.0,), -math.log(2), (math.sqrt(2 / math.pi),)),
    ],
)
register_op(
    "log_ndtr_slope",
    unary(),
    reference=lambda x: math.sqrt(2 / math.pi) / from_scipy("erfcx")(-x / math.sqrt(2)),
    dtypes=REAL,
    points=[
        Point("∞", (np.inf,), 0.0, (0.0,)),
        Point("40", (40.0,), 0.0, (0.0,)),
        Point("−20", (-20.0,), None, (-0.9975367383849478,)),
    ],
)
register_op(
    "entr",
    unary(0.1, 3),
    reference=from_scipy("entr"),
    dtypes=REAL,
    points=[Point("0", (0.0,), 0.0, (np.inf,)), Point("1", (1.0,), 0.0, (-1.0,))],
)
register_op(
    "betaln",
    binary((0.6, 3), (0.6, 3)),
    reference=from_scipy("betaln"),
    dtypes=WIDE,
    nan_alone=POSITIVE,
)
register_op(
    "beta",
    binary((0.3, 3), (0.3, 3)),
    tails="differences of digammas and trigammas, near a pole",
    reference=from_scipy("beta"),
    dtypes=WIDE,
    nan_alone=POSITIVE,
)
register_op(
    "rel_entr",
    binary((0.2, 3), (0.2, 3)),
    reference=from_scipy("rel_entr"),
    dtypes=WIDE,
    nan_alone=POSITIVE,
    points=[
        Point("a quotient that vanishes", (1e-300, 1e300), None, (1 - 600 * math.log(10), 0.0)),
    ],
)

register_op(
    "huber_function",
    both(binary((1.1, 2), (-1, 1)), binary((0.2, 0.8), (-3, -1)), binary((0.2, 0.8), (1, 3))),
    reference=from_scipy("huber"),
    dtypes=WIDE,
    points=[
        Point("at δ", (1.0, 1.0), 0.5, (0.0, 1.0)),
        Point("far out", (2.0, -1e300), 2e300, (1e300, -2.0)),
        Point("no bound", (np.inf, 3.0), 4.5, (0.0, 3.0)),
    ],
)
register_op(
    "pseudo_huber",
    binary((0.3, 2), (-3, 3)),
    reference=from_scipy("pseudo_huber"),
    dtypes=WIDE,
    points=[
        Point("3, 4, 5", (3.0, 4.0), 6.0, (0.8, 2.4)),
        Point("r = 0", (2.0, 0.0), 0.0, (0.0, 0.0)),
        Point("both 0", (0.0, 0.0), 0.0, (0.0, 0.0)),
        Point("δ = 0", (0.0, -3.0), 0.0, (3.0, 0.0)),
    ],
)


def _pseudo_huber_slope(a, b):
    h = np.where((a == 0) & (b == 0), 1, np.hypot(a, b))
    return np.where(np.abs(b) > a, a * (b / h), b * (a / h))


register_op(
    "pseudo_huber_slope",
    binary((0.3, 2), (-3, 3)),
    reference=_pseudo_huber_slope,
    dtypes=WIDE,
    points=[Point("both 0", (0.0, 0.0), 0.0, (0.0, 0.0))],
)

_UNIT = "densities: 0 ≤ x ≤ 1 alone, beyond it the logarithms are NaN"
register_op(
    "two_powers",
    several((0.2, 0.8), (-0.5, 2), (-0.5, 2), (-1, 1)),
    reference=lambda x, p, q, c: x**p * (1 - x) ** q * np.exp(c),
    dtypes=WIDE,
    nan_alone=_UNIT,
    points=[
        Point("a slope at 0", (0.0, 1.0, 2.0, 0.0), 0.0, (1.0, 0.0, 0.0, 0.0)),
        Point("a slope at 1", (1.0, 2.0, 1.0, 0.0), 0.0, (-1.0, 0.0, 0.0, 0.0)),
        Point("flat at 0", (0.0, 2.0, 0.0, 0.0), 0.0, (0.0, 0.0, 0.0, 0.0)),
        Point("steep at 0", (0.0, 0.5, 1.0, 0.0), 0.0, (np.inf, 0.0, 0.0, 0.0)),
        Point("no powers", (0.0, 0.0, 0.0, 0.0), 1.0, (0.0, 0.0, 0.0, 1.0)),
    ],
)


def _shares(rng, dtype):
    """x inside (0, 1), powers of both signs, and a constant."""
    for shape in ((3,), (2, 3), (2, 1, 2), (0, 3), (1,)):
        ranges = ((shape, 0.2, 0.8), (shape, -0.5, 2), (shape[:-1], -1, 1))
        args = [uniform(rng, size, dtype, *ends) for size, *ends in ranges]
        yield Sample(f"{shape}", tuple(args))


def _product_of_powers(x, p, c):
    if not x.ndim or x.shape != p.shape or x.shape[:-1] != c.shape:
        raise ValueError("shapes")
    return np.prod(x**p, axis=-1) * np.exp(c)


def _at_shares(name, x, p, value, dx):
    """A point with eᶜ = 1 and the gradients in x; other samples check those in p and c."""
    x, p = np.array(x), np.array(p)
    dp = value * np.log(np.where(x == 0, 1.0, x))
    return Point(name, (x, p, np.array(0.0)), value, (np.array(dx), dp, np.array(value)))


register_op(
    "power_product",
    _shares,
    reference=_product_of_powers,
    dtypes=WIDE,
    nan_alone="densities: x ≥ 0 alone, below it the logarithms are NaN",
    points=[
        _at_shares("a slope at 0", [0.0, 0.5], [1.0, 2.0], 0.0, [0.25, 0.0]),
        _at_shares("flat at 0", [0.0, 0.5], [2.0, 2.0], 0.0, [0.0, 0.0]),
        _at_shares("steep at 0", [0.0, 0.5], [0.5, 2.0], 0.0, [np.inf, 0.0]),
        _at_shares("no power at 0", [0.0, 0.5], [0.0, 2.0], 0.25, [0.0, 1.0]),
        _at_shares("two zeros", [0.0, 0.0], [0.5, 1.0], 0.0, [0.0, 0.0]),
    ],
    errors=[
        ErrorSample(
            "powers of another shape", (np.ones(3), np.ones(2), np.ones(())), ValueError,
            r"x \(…, d\) goes with p",
        )
    ],
)  # fmt: skip


def _higher_order(rng, dtype):
    """Its derivative by x has orders 2 and 2, with the terms between them. In float32 these cost
    more digits than others."""
    if np.dtype(dtype) != np.float64:
        return
    for sample in beside((0.6, 0.9), (0.6, 0.9), (0.2, 0.8), order=(2, 2))(rng, dtype):
        yield Sample(sample.name, tuple([x[:2] for x in sample.args]), sample.params)


def _with_order(order):
    def samples(rng, dtype):
        for sample in several((0.6, 0.9), (0.6, 0.9), (0.2, 0.8))(rng, dtype):
            yield Sample(sample.name, sample.args, {"order": order})

    return samples


for _name in ("gammainc", "gammaincc"):
    register_op(
        _name,
        binary((0.6, 3), (0.2, 3)),
        reference=from_scipy(_name),
        dtypes=WIDE,
        nan_alone=POSITIVE,
    )
for _name in ("betainc", "betaincc"):
    register_op(
        _name,
        several((0.6, 0.9), (0.6, 0.9), (0.2, 0.8)),
        reference=from_scipy(_name),
        dtypes=WIDE,
        nan_alone=POSITIVE,
    )
_ENDS = "where the density is infinite (x at an end, a ≤ 1), and for a whose reciprocal is infinite"
# no reference: SciPy has none; tests/ops/test_incomplete.py has mpmath's
register_op(
    "gammainc_derivative",
    binary((0.6, 3), (0.2, 5)),
    dtypes=WIDE,
    skips={"K12": _ENDS},
    points=[Point("x = 0", (2.0, 0.0), 0.0, (0.0, 0.0))],
)
register_op(
    "betainc_derivative",
    both(*[_with_order(n) for n in ((1, 0), (0, 1))], _higher_order),
    dtypes=WIDE,
    skips={"K12": _ENDS},
    points=[
        Point("x = 0", (2.0, 3.0, 0.0), 0.0, (0.0, 0.0, 0.0)),
        Point("x = 1", (2.0, 3.0, 1.0), 0.0, (0.0, 0.0, 0.0)),
    ],
)
register_op(
    "multigammaln",
    both(*[unary(2, 4, d=d) for d in (1, 2, 3)]),
    reference=lambda x, d: np.vectorize(
        lambda a: from_scipy("multigammaln")(a, d), otypes=[x.dtype]
    )(x),
    dtypes=WIDE,
    nan_alone="SciPy's refuses any a ≤ (d − 1)/2; the op returns lgamma's values there",
    errors=[ErrorSample("no dimension", (np.ones(3),), ValueError, "1, 2", {"d": 0})],
)
