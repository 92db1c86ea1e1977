"""Samples of minigrad/special/bessel.py. The references are SciPy's, of the same order."""

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .elements import REAL, beside, both, from_scipy, unary

_PAIRS = {
    "bessel_j": "jv", "bessel_y": "yv", "bessel_i": "iv", "bessel_ie": "ive", "bessel_k": "kv",
    "bessel_ke": "kve",
}  # fmt: skip
_INFINITE_AT_0 = {"bessel_y", "bessel_k", "bessel_ke"}


def _reference(name):
    """SciPy's function of any order; its functions of orders 0 and 1 are more accurate."""

    def call(x, order=0):
        special = name.replace("v", str(order)) if order in (0, 1) else ""
        y = from_scipy(special)(x) if special else from_scipy(name)(order, x)
        if name in ("ive", "kve"):  # SciPy has NaN where the limit is 0
            ends = np.isinf(x) if name == "ive" and order % 1 == 0 else x == np.inf
            y = np.where(ends, 0, y)
        return y.astype(x.dtype)

    return call


for _name, _theirs in _PAIRS.items():
    _low = 0.5 if _name in _INFINITE_AT_0 else 0.2  # e^−|x| has a kink at 0
    register_op(
        _name,
        both(
            *[unary(_low, 3, order=n) for n in (0, 1, 2, 0.5)],
            *[beside((8, 10), order=n) for n in (0, 1, 2)],
            *[beside((-3, -0.5), order=n) for n in (0, 1, 2) if _name not in _INFINITE_AT_0],
        ),
        reference=_reference(_theirs),
        dtypes=REAL,
        points=[] if _name in _INFINITE_AT_0 else [Point("I₀(0), J₀(0)", (0.0,), 1.0)],
        skips={"K16": "mpmath takes seconds for one value at 320 digits"},
    )


def _of_order(name):
    def call(x, v):
        from ...engine.registry import op

        return getattr(op, name)(v, x)

    return call


for _name in ("jv", "yv", "iv", "ive", "kv", "kve"):
    register_op(
        _name,
        both(*[unary(0.5, 3, v=v) for v in (0, 1, 3, -0.5)]),
        call=_of_order(_name),
        reference=lambda x, v, _theirs=_name: _reference(_theirs)(x, v),
        dtypes=REAL,
        errors=[
            ErrorSample(
                "an array of orders", (np.ones(3),), TypeError, "order v", {"v": np.ones(3)}
            )
        ],
    )

for _name in ("j0", "j1", "i0", "i1"):
    register_op(
        _name,
        unary(-3, 3),
        reference=lambda x, _theirs=_name: from_scipy(_theirs)(x),
        dtypes=REAL,
        points=[Point("0", (0.0,), float("0" in _name), (0.0 if "0" in _name else 0.5,))],
    )
for _name in ("i0e", "i1e", "y0", "y1", "k0", "k1", "k0e", "k1e"):
    register_op(
        _name,
        both(unary(0.5, 3), beside((8, 10))),
        reference=lambda x, _theirs=_name: from_scipy(_theirs)(x),
        dtypes=REAL,
    )
