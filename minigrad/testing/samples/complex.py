"""Samples of minigrad/ops/elementwise/complex.py."""

import numpy as np

from ..spec import Point, register_op
from .elements import NUMBERS, REAL, both, unary

origin = Point("0", (0.0,), 0.0, (0.0,), kink=True)
complex_origin = Point("0 + 0i", (0j,), 0.0, (0j,), kink=True)

register_op("abs", unary(), reference=np.abs, dtypes=NUMBERS, points=[origin, complex_origin])
register_op("fabs", unary(), reference=np.fabs, dtypes=REAL, points=[origin])
register_op("real", unary(), reference=np.real, dtypes=NUMBERS)
register_op("imag", unary(), reference=np.imag, dtypes=NUMBERS)
register_op("conj", unary(), reference=np.conj, dtypes=NUMBERS)
register_op(
    "angle",
    both(unary(0.3, 2), unary(0.3, 2, deg=True)),
    reference=np.angle,
    dtypes=NUMBERS,
    points=[Point("0 + 0i", (0j,), 0.0, (0j,))],
)
