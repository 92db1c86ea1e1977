"""Samples of orthogonal.py and spherical.py of ops/elementwise. The references are SciPy's."""

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .elements import REAL, beside, both, from_scipy, unary
from .integrals import WIDE, called, leading

NO_ORDER = ErrorSample("no order", (np.ones(3),), ValueError, "order n", {"n": -1})

# -- polynomials -----------------------------------------------------------------------------

for _name, _theirs, _params in (
    ("chebyshev", "eval_chebyt", {}),
    ("gegenbauer", "eval_gegenbauer", {"alpha": 0.7}),
    ("jacobi", "eval_jacobi", {"alpha": 0.7, "beta": -0.4}),
    ("laguerre", "eval_genlaguerre", {"alpha": 0.7}),
    ("hermite", "eval_hermite", {}),
    ("hermite_e", "eval_hermitenorm", {}),
):
    register_op(
        _name,
        both(
            *[unary(-2, 2, degree=n, **_params) for n in (1, 0, 2, 5)],
            *[unary(-2, 2, degree=n, **dict.fromkeys(_params, 1.3)) for n in (3,) if _params],
        ),
        reference=leading(_theirs, "degree", *_params),
        dtypes=REAL,
    )

for _name, _params in (
    ("eval_chebyt", {}),
    ("eval_chebyu", {}),
    ("eval_gegenbauer", {"alpha": 1.5}),
    ("eval_jacobi", {"alpha": 0.7, "beta": -0.4}),
    ("eval_legendre", {}),
    ("eval_genlaguerre", {"alpha": 0.7}),
    ("eval_laguerre", {}),
    ("eval_hermite", {}),
    ("eval_hermitenorm", {}),
):
    _bad = {"n": -1, **_params}
    register_op(
        _name,
        both(*[unary(-1, 1, n=n, **_params) for n in (3, 0)]),
        call=called(_name, "n", *_params),
        reference=leading(_name, "n", *_params),
        dtypes=WIDE,
        errors=[ErrorSample("no degree", (np.ones(3),), ValueError, "degree n", _bad)],
    )

# -- spherical Bessel functions --------------------------------------------------------------

_ENDLESS = {"spherical_y", "spherical_k"}  # at 0
_TINY = "SciPy has 0 for i₀ of 1e-308; tests/ops/test_integrals.py has the limit 1"


def _of_order(name):
    def call(x, n, derivative=False):
        from ...engine.registry import op

        return getattr(op, name)(n, x, derivative)

    return call


# by DLMF 10.51.2 and 10.51.5, (2n + 1) fₙ′ = ± n fₙ₋₁ ± (n + 1) fₙ₊₁
SLOPES = {
    "spherical_jn": (1, -1), "spherical_yn": (1, -1), "spherical_in": (1, 1),
    "spherical_kn": (-1, -1),
}  # fmt: skip


def _scipys(name):
    def reference(x, n, derivative=False):
        of = from_scipy(name)
        if not derivative:
            return of(n, x).astype(x.dtype)
        # SciPy's own slope is fₙ₋₁ − (n + 1) fₙ/x, which mostly cancels near 0
        below, above = SLOPES[name]
        return ((below * n * of(n - 1, x) + above * (n + 1) * of(n + 1, x)) / (2 * n + 1)).astype(
            x.dtype
        )

    return reference


for _name in ("spherical_j", "spherical_y", "spherical_i", "spherical_k"):
    _ends = 0.5 if _name in _ENDLESS else -3
    _at_0 = [
        Point("0", (0.0,), 1.0, (0.0,)),
        Point("order 1 at 0", (0.0,), 0.0, (1 / 3,), {"order": 1}),
        Point("order 2 near 0", (6e-9,), 2.4e-18, (8e-10,), {"order": 2}),
    ]
    register_op(
        _name,
        both(*[unary(_ends, 3, order=n) for n in (0, 1, 2)], beside((8, 10), order=1)),
        reference=leading(f"{_name}n", "order"),
        dtypes=REAL,
        points=[] if _name in _ENDLESS else _at_0,
        nan_alone=_TINY if _name == "spherical_i" else "",
    )
    register_op(
        f"{_name}n",
        both(*[unary(0.5, 3, n=n) for n in (0, 2)], unary(0.5, 3, n=1, derivative=True)),
        call=_of_order(f"{_name}n"),
        reference=_scipys(f"{_name}n"),
        dtypes=WIDE,
        errors=[NO_ORDER],
    )

# -- Airy functions --------------------------------------------------------------------------

AT_INFINITY = "SciPy has NaN at ±∞, where tests/ops/test_integrals.py has the limits"
for _i, _name in enumerate(("airy_ai", "airy_ai_prime", "airy_bi", "airy_bi_prime")):
    register_op(
        _name,
        unary(-3, 2),
        reference=lambda x, _i=_i: from_scipy("airy")(x)[_i],
        dtypes=REAL,
        nan_alone=AT_INFINITY,
        points=[Point("−∞", (-np.inf,), 0.0 if _i % 2 == 0 else np.nan)],
    )
register_op("airy", unary(-3, 2), reference=from_scipy("airy"), dtypes=WIDE, nan_alone=AT_INFINITY)
