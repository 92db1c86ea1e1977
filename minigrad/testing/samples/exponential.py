"""Samples of minigrad/ops/elementwise/exponential.py."""

import math

import numpy as np

from ..spec import Point, register_op
from .elements import NUMBERS, REAL, beside, binary, both, from_mpmath, from_scipy, unary

register_op("exp", unary(), reference=np.exp, dtypes=NUMBERS, mp=from_mpmath("exp"))
register_op("exp2", unary(), reference=np.exp2, dtypes=REAL, mp=lambda x: 2**x)
register_op(
    "expm1",
    unary(),
    reference=np.expm1,
    dtypes=NUMBERS,
    mp=from_mpmath("expm1"),
    points=[Point("−50", (-50.0,), math.expm1(-50), (math.exp(-50),))],
)
register_op("log", unary(0.5, 2), reference=np.log, dtypes=NUMBERS, mp=from_mpmath("log"))
register_op(
    "log2", unary(0.5, 2), reference=np.log2, dtypes=REAL, mp=lambda x: from_mpmath("log")(x, 2)
)
register_op("log10", unary(0.5, 2), reference=np.log10, dtypes=NUMBERS, mp=from_mpmath("log10"))
register_op(
    "log1p",
    unary(-0.5, 2),
    reference=np.log1p,
    dtypes=NUMBERS,
    mp=from_mpmath("log1p"),
    points=[Point("1e−20", (1e-20,), 1e-20, (1.0,))],
)

masked = Point("both −∞", (np.array(-np.inf), np.array(-np.inf)), -np.inf, (0.0, 0.0))
one_masked = Point("one −∞", (np.array(-np.inf), np.array(1.0)), 1.0, (0.0, 1.0))
far = Point("far apart", (np.array(1000.0), np.array(0.0)), 1000.0, (1.0, 0.0))
for name, reference in {"logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2}.items():
    # the share e^-1000 underflows to 0; logaddexp2's share 2^-1000 does not
    points = [masked, one_masked] + ([far] if name == "logaddexp" else [])
    register_op(name, binary(), reference=reference, dtypes=REAL, points=points)

register_op(
    "xlogy",
    both(binary((0.3, 2), (0.5, 2)), beside((-2, -0.3), (0.1, 1))),
    reference=from_scipy("xlogy"),
    dtypes=(*REAL, "complex128"),
    points=[
        Point("0 log 0", (0.0, 0.0), 0.0, (0.0, 0.0)),
        Point("0 log 2", (0.0, 2.0), 0.0, (math.log(2), 0.0)),
    ],
)
register_op(
    "xlog1py",
    both(binary((0.3, 2), (-0.5, 2)), beside((-2, -0.3), (-0.9, 1))),
    reference=from_scipy("xlog1py"),
    dtypes=REAL,
    points=[
        Point("0 log(1 − 1)", (0.0, -1.0), 0.0, (0.0, 0.0)),
        Point("1 log(1 + 1e−20)", (1.0, 1e-20), 1e-20, (1e-20, 1.0)),
    ],
)
