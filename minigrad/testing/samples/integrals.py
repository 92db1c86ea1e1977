"""Samples of minigrad/special/integrals.py, hypergeometric.py and lambert.py.

The references are SciPy's; tests/ops/test_integrals.py compares with mpmath at awkward points.
"""

import math

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .elements import REAL, beside, binary, both, from_scipy, unary

WIDE = ("float64", "float32")


def _part(name, i):
    """One of the results of a SciPy function with several."""
    return lambda x: from_scipy(name)(x)[i].astype(x.dtype)


def leading(name, *keys):
    """SciPy's function whose keyword parameters come before x."""
    return lambda x, **params: from_scipy(name)(*[params[key] for key in keys], x).astype(x.dtype)


def called(name, *keys):
    """The op whose keyword parameters come before x."""

    def call(x, **params):
        from ...engine.registry import op

        return getattr(op, name)(*[params[key] for key in keys], x)

    return call


# -- exponential integrals -------------------------------------------------------------------

register_op(
    "exponential_integral",
    both(*[unary(0.3, 3, order=n) for n in (1, 2, 0)], beside((8, 10), order=3)),
    reference=leading("expn", "order"),
    dtypes=REAL,
)
register_op("exp1", unary(0.3, 3), reference=from_scipy("exp1"), dtypes=REAL)
register_op(
    "expn",
    both(*[unary(0.3, 3, n=n) for n in (0, 1, 4)]),
    call=called("expn", "n"),
    reference=leading("expn", "n"),
    dtypes=REAL,
    errors=[ErrorSample("no order", (np.ones(3),), ValueError, "order n", {"n": -1})],
)
register_op(
    "expi",
    both(unary(0.5, 3), beside((-3, -0.5))),
    reference=from_scipy("expi"),
    dtypes=REAL,
    points=[Point("∞", (np.inf,), np.inf, (np.inf,)), Point("−∞", (-np.inf,), 0.0, (0.0,))],
)

register_op(
    "exp_over",
    both(unary(0.5, 3), beside((-3, -0.5))),
    reference=lambda x: np.where(x == np.inf, x, np.exp(x) / x),
    dtypes=REAL,
    points=[Point("∞", (np.inf,), np.inf, (np.inf,)), Point("−∞", (-np.inf,), 0.0, (0.0,))],
)

# -- sine and cosine integrals, Fresnel's, Dawson's ------------------------------------------

for _name, _theirs, _i in (("sine_integral", "sici", 0), ("sinh_integral", "shichi", 0)):
    register_op(
        _name,
        unary(-3, 3),
        reference=_part(_theirs, _i),
        dtypes=REAL,
        points=[Point("0", (0.0,), 0.0, (1.0,))],
    )
for _name, _theirs in (("cosine_integral", "sici"), ("cosh_integral", "shichi")):
    register_op(_name, unary(0.3, 3), reference=_part(_theirs, 1), dtypes=REAL)
for _name, _i in (("fresnel_sine", 0), ("fresnel_cosine", 1)):
    register_op(
        _name,
        unary(),
        reference=_part("fresnel", _i),
        dtypes=REAL,
        points=[Point("0", (0.0,), 0.0, (float(_i),))],
    )
for _name in ("sici", "shichi"):
    register_op(_name, unary(0.3, 3), reference=from_scipy(_name), dtypes=WIDE)
register_op("fresnel", unary(), reference=from_scipy("fresnel"), dtypes=WIDE)
register_op(
    "dawsn",
    both(unary(), beside((6, 9))),
    reference=from_scipy("dawsn"),
    dtypes=REAL,
    points=[Point("0", (0.0,), 0.0, (1.0,)), Point("∞", (np.inf,), 0.0, (0.0,))],
)
register_op(
    "erfi",
    unary(),
    reference=from_scipy("erfi"),
    dtypes=REAL,
    points=[Point("0", (0.0,), 0.0, (2 / math.sqrt(math.pi),))],
)
register_op(
    "spence",
    both(unary(0.2, 3), beside((0.9, 1.1))),
    reference=from_scipy("spence"),
    dtypes=REAL,
    points=[Point("1", (1.0,), 0.0, (-1.0,)), Point("0", (0.0,), math.pi**2 / 6, (-np.inf,))],
)
register_op("owens_t", binary(), reference=from_scipy("owens_t"), dtypes=WIDE)

# -- hypergeometric functions and elliptic integrals -----------------------------------------


def _hyp1f1(x, a, b):
    """SciPy's loops forever for large x; its last finite value is far below e^1e6."""
    y = from_scipy("hyp1f1")(a, b, np.clip(x, -1e300, 1e6))
    return np.where(x == -np.inf, 0, y).astype(x.dtype)


_SERIES = "its derivative is another such function, which is 0 in SciPy at arguments of 1e160"
for _name, _params in (
    ("hyp0f1", {"v": 1.5}),
    ("hyp1f1", {"a": 0.5, "b": 1.5}),
    ("hyp2f1", {"a": 0.5, "b": 1.0, "c": 1.5}),
):
    register_op(
        _name,
        unary(-2, 0.8, **_params),
        call=called(_name, *_params),
        reference=_hyp1f1 if _name == "hyp1f1" else leading(_name, *_params),
        dtypes=REAL,
        skips={"K31": _SERIES} if _name == "hyp1f1" else {},
        errors=[
            ErrorSample(
                "a divisor 0", (np.ones(3),), ValueError, "must not be 0",
                {**_params, list(_params)[-1]: 0},
            )
        ],
    )  # fmt: skip


def _hypergeometric(x, above=(), below=()):
    if len(above) == 1 and above[0] > 0:
        return _hyp1f1(x, *above, *below)
    return from_scipy(f"hyp{len(above)}f1")(*above, *below, x).astype(x.dtype)


register_op(
    "hypergeometric",
    both(
        unary(-2, 0.8, above=(0.5,), below=(1.5,)),
        unary(-2, 0.8, above=(), below=(0.5,)),
        unary(-2, 0.8, above=(0.5, 2.0), below=(1.5,)),
        unary(-2, 2, above=(-2.0,), below=(1.5,)),
        beside((3, 9), above=(1.0,), below=(2.0,)),
        beside((-2, 2), above=(2.5,), below=(1.5,)),  # eˣ times a polynomial
    ),
    reference=_hypergeometric,
    skips={"K31": _SERIES},
    dtypes=REAL,
)
register_op(
    "exprel",
    both(unary(), beside((-9, -6)), beside((4, 8))),
    reference=from_scipy("exprel"),
    dtypes=REAL,
    points=[Point("0", (0.0,), 1.0, (0.5,)), Point("−∞", (-np.inf,), 0.0, (0.0,))],
)
for _name, _value, _slope in (("ellipk", np.inf, np.inf), ("ellipe", 1.0, -np.inf)):
    register_op(
        _name,
        both(unary(-2, 0.9), beside((-0.1, 0.1))),
        reference=from_scipy(_name),
        dtypes=REAL,
        points=[
            Point("0", (0.0,), math.pi / 2, (math.copysign(math.pi / 8, _slope),)),
            Point("1", (1.0,), _value, (_slope,)),
            Point("−∞", (-np.inf,), 0.0 if _slope > 0 else np.inf, (0.0,)),
        ],
    )
register_op(
    "ellipkm1",
    both(unary(0.1, 2), beside((0.09, 0.12))),  # at 0.05 the stencil of K10 is off by 1e-5, as x⁻⁴
    reference=from_scipy("ellipkm1"),
    dtypes=REAL,
    points=[Point("1", (1.0,), math.pi / 2, (-math.pi / 8,))],
)
register_op(
    "ellipem1",
    unary(0.1, 0.9),
    reference=lambda x: from_scipy("ellipe")(1 - x),
    dtypes=REAL,
    nan_alone="real for x ≤ 1 alone",
)

# -- Lambert's W and Wright's omega ----------------------------------------------------------


def _lambertw(x, k=0, tol=1e-8):
    y = from_scipy("lambertw")(x, k)
    return y.astype(np.complex64 if x.dtype.itemsize <= 4 else np.complex128)


register_op(
    "wrightomega",
    both(unary(), beside((-9, -6)), beside((6, 9))),
    reference=from_scipy("wrightomega"),
    dtypes=(*WIDE, "complex128"),
    points=[Point("1", (1.0,), 1.0, (0.5,)), Point("−∞", (-np.inf,), 0.0, (0.0,))],
)
register_op(
    "lambert_w",
    both(unary(0.2, 2, branch=0), unary(0.2, 2, branch=1)),
    reference=lambda x, branch: from_scipy("lambertw")(x, branch),
    dtypes=("complex128",),
    skips={"K27": "for complex x alone; lambertw converts a real one"},
)
register_op(
    "lambertw",
    both(unary(0.2, 2), unary(0.2, 2, k=-1), unary(0.2, 2, tol=1e-9)),
    reference=_lambertw,
    dtypes=("float64", "complex128"),
    errors=[ErrorSample("no branch", (np.ones(3),), TypeError, "branch k", {"k": 0.5})],
)
