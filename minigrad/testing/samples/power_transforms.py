"""Samples of minigrad/special/power_transforms.py and incomplete_inverse.py, and of zeta.

The references are SciPy's.
"""

import math

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .elements import REAL, beside, binary, both, from_scipy, several, unary
from .integrals import WIDE

POSITIVE = "real for arguments above an end alone"

_SERIES = "derivatives by the parameter are differences of series"

# -- Box and Cox's transform and differences from 1 ------------------------------------------

for _name, _shift in (("boxcox", 0), ("boxcox1p", 1)):
    _at = [Point("log", (2.0 - _shift, 0.0), math.log(2), (0.5, math.log(2) ** 2 / 2))]
    register_op(
        _name,
        both(binary((0.3 - _shift, 3 - _shift), (-2, 2)), beside((0.5, 2.5), (-0.01, 0.01))),
        reference=from_scipy(_name),
        tails=_SERIES,
        dtypes=WIDE,
        points=[*_at, Point("an end", (0.0 - _shift, 2.0), -0.5, (0.0, 0.25))],
    )
for _name, _shift in (("inv_boxcox", 0), ("inv_boxcox1p", 1)):
    _e = math.e - _shift
    register_op(
        _name,
        both(binary((-0.4, 0.8), (-0.9, 2)), beside((0.5, 2.5), (-0.01, 0.01))),
        reference=from_scipy(_name),
        tails=_SERIES,
        dtypes=WIDE,
        nan_alone=POSITIVE,
        points=[Point("exp", (1.0, 0.0), _e, (math.e, -math.e / 2))],
    )
register_op("cosm1", unary(-4, 4), reference=from_scipy("cosm1"), dtypes=REAL)
register_op(
    "powm1",
    binary((0.3, 3), (-2, 2)),
    reference=from_scipy("powm1"),
    dtypes=WIDE,
    nan_alone=POSITIVE,
    points=[
        Point("1", (1.0, 2.0), 0.0, (2.0, 0.0)),
        Point("0", (0.0, 2.0), -1.0, (0.0, 0.0)),
        Point("0⁰ − 1", (0.0, 0.0), 0.0, (0.0, 0.0)),
        Point("0⁻¹ − 1", (0.0, -1.0), np.inf, (-np.inf, -np.inf)),
    ],
)
register_op("exp10", unary(), reference=from_scipy("exp10"), dtypes=REAL)

# -- quantiles -------------------------------------------------------------------------------

for _name in ("gammaincinv", "gammainccinv"):
    register_op(
        _name,
        binary((0.6, 3), (0.2, 0.8)),
        reference=from_scipy(_name),
        tails=_SERIES,
        dtypes=WIDE,
        nan_alone=POSITIVE,
        points=[
            Point(
                "the exponential distribution", (1.0, 0.5), math.log(2),
            )
        ],
    )  # fmt: skip
for _name in ("betaincinv", "betainccinv"):
    register_op(
        _name,
        several((0.6, 0.9), (0.6, 0.9), (0.2, 0.8)),
        reference=from_scipy(_name),
        tails=_SERIES,
        dtypes=WIDE,
        nan_alone=POSITIVE,
    )
register_op(
    "ndtri_exp",
    both(unary(-3, -0.3), beside((-90, -50))),
    reference=from_scipy("ndtri_exp"),
    dtypes=REAL,
)
register_op(
    "kl_terms",
    binary((0.2, 3), (0.2, 3)),
    reference=from_scipy("kl_div"),
    dtypes=WIDE,
    nan_alone=POSITIVE,
    points=[
        Point("equal", (2.0, 2.0), 0.0, (0.0, 0.0)),
        Point("a quotient that vanishes", (1e-300, 1e300), None, (-600 * math.log(10), 1.0)),
    ],
)

# -- zeta ------------------------------------------------------------------------------------


def _zeta(x, exponent=2.0):
    return from_scipy("zeta")(exponent, x).astype(x.dtype)


def _zeta_of(q, x):
    from ...engine.registry import op

    return op.zeta(x, q)


register_op(
    "hurwitz_zeta",
    both(*[unary(0.5, 3, exponent=s) for s in (2.0, 1.5, 5.0)]),
    reference=lambda q, exponent: _zeta(q, exponent),
    dtypes=REAL,
)
register_op(
    "zeta",
    unary(0.5, 3, x=3),
    call=_zeta_of,
    reference=lambda q, x: _zeta(q, x),
    dtypes=WIDE,
    errors=[
        ErrorSample(
            "an array of exponents", (np.ones(3),), TypeError, "exponent x", {"x": np.ones(3)}
        )
    ],
)
