"""Samples of calculus on samples: differences, integrals, interpolation, convolution, cross."""

import numpy as np

from ..errors import DoesNotApply
from ..spec import ErrorSample, Point, Sample, register_op
from .forms import COMPLEX, normal, of_several, over

FLOATS = ("float64", "float32", "float16")
STEPS = np.array([0.0, 0.5, 2.0, 2.3])


def in_dtype(function):
    """The NumPy function, with its result in the common dtype of the arrays."""

    def reference(*arrays, **params):
        y = function(*arrays, **params)
        return np.asarray(y).astype(np.result_type(*arrays))

    return reference


# -- differences -----------------------------------------------------------------------------

register_op(
    "diff",
    over(
        [
            ((5,), {}),
            ((3, 4), {"axis": 0}),
            ((3, 4), {"n": 2}),
            ((3, 4), {"n": 0}),
            ((2, 6), {"n": 4}),
            ((3, 4), {"axis": 0, "prepend": 1.0}),
            ((2, 3), {"append": 2.0, "n": 2}),
        ]
    ),
    reference=in_dtype(np.diff),
    dtypes=COMPLEX,
    errors=[
        ErrorSample("a scalar", (np.ones(()),), ValueError, r"diff: needs n ≥ 0.*shape \(\)"),
        ErrorSample("n < 0", (np.ones(3),), ValueError, "got n=-1", {"n": -1}),
    ],
)


register_op(
    "ediff1d",
    of_several([(((5,),), {}), (((2, 3),), {}), (((3,), (2,), (1,)), {}), (((3,), (2,)), {})]),
    reference=in_dtype(np.ediff1d),
    dtypes=COMPLEX,
)


def _gradients(x, *spacing, **params):
    from ...engine.registry import op

    ys = op.gradient(x, *spacing, **params)
    assert not isinstance(ys, tuple) or len(ys) != 1  # along one axis it is an array
    return ys


def _gradients_reference(x, *spacing, **params):
    wide = np.result_type(x, np.float64)
    ys = np.gradient(x.astype(wide), *spacing, **params)
    return tuple(y.astype(x.dtype) for y in ys) if isinstance(ys, tuple) else ys.astype(x.dtype)


register_op(
    "gradient",
    of_several(
        [
            (((5,),), {}),
            (((3, 4),), {}),
            (((3, 4), 2.0), {}),
            (((3, 4), 0.5, STEPS), {}),
            (((3, 4), STEPS), {"axis": 1, "edge_order": 2}),
            (((2, 2),), {}),
            (((4,),), {"edge_order": 2}),
        ]
    ),
    call=_gradients,
    reference=_gradients_reference,
    constants=(1, 2),
    dtypes=("float64", "float32", "float16", "complex128"),
    errors=[
        ErrorSample(
            "one element",
            (np.ones((1, 3)),),
            ValueError,
            r"axis 0 of shape \(1, 3\) needs at least 2",
        ),
        ErrorSample(
            "too many spacings", (np.ones(3), 1.0, 2.0), ValueError, "got 2 spacings, edge_order=1"
        ),
    ],
)

# -- integrals and interpolation -------------------------------------------------------------

register_op(
    "trapezoid",
    of_several(
        [
            (((5,),), {}),
            (((3, 4),), {"axis": 0, "dx": 0.3}),
            (((3, 4), (4,)), {}),
            (((3, 4), (3,)), {"axis": 0}),
            (((3, 4), (3, 4)), {}),
            (((3, 4), (3, 4)), {"axis": 0}),
        ]
    ),
    reference=in_dtype(np.trapezoid),
    dtypes=COMPLEX,
)


def _interp_samples(rng, dtype):
    xp = np.array([0.0, 1.0, 2.5, 4.0]).astype(dtype)
    x = np.array([[-1.0, 0.3, 1.25], [2.625, 3.875, 5.5]]).astype(dtype)
    for params in ({}, {"left": -1.0, "right": 7.0}, {"period": 5.25}):
        yield Sample(f"{params}", (x, xp, normal(rng, dtype, (4,))), params)
    yield Sample("one query", (x[0, 1], xp, normal(rng, dtype, (4,))))
    many = np.arange(9.0).astype(dtype)
    yield Sample("many corners", (many[:-1] + many[4] / 16, many, normal(rng, dtype, (9,))))
    yield Sample("one corner", (x, xp[:1], normal(rng, dtype, (1,))))


def _interp_reference(x, xp, fp, **params):
    if not xp.size:  # without queries, NumPy raises before 2.5 only
        raise ValueError("no corners")
    if np.isnan(xp).any():  # NumPy 2.5 finds another segment than 2.4
        raise DoesNotApply("xp does not increase, and np.interp promises nothing")
    return in_dtype(np.interp)(x, xp, fp, **params)


register_op(
    "interp",
    _interp_samples,
    reference=_interp_reference,
    dtypes=FLOATS,
    nan_alone="with an infinity xp does not increase, and np.interp promises nothing",
    errors=[
        ErrorSample(
            "xp and fp of different length",
            (np.ones(2), np.arange(3.0), np.ones(4)),
            ValueError,
            r"interp: xp \(3,\) and fp \(4,\) must be equally long",
        )
    ],
    points=[
        Point(
            "before an infinite corner",
            (np.array([0.5, 1.5]), np.array([0.0, 1.0, 4.0]), np.array([1.0, -np.inf, 2.0])),
            [-np.inf, -np.inf],
        ),
        Point(
            "corners next to an infinite one",
            (np.array([0.0, 4.0]), np.array([0.0, 1.0, 4.0]), np.array([1.0, -np.inf, 2.0])),
            [1.0, 2.0],
        ),
        Point(
            "a corner has the slope to its right",
            (np.array([1.0]), np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 5.0])),
            [1.0],
            ([4.0], [0.0, -4.0, 0.0], [0.0, 1.0, 0.0]),
            kink=True,
        ),
    ],
)


def _jumping(rng, dtype, shape):
    """Steps near multiples of 2π along each axis, away from odd multiples of π and of 1."""
    x = rng.uniform(-0.1, 0.1, shape)
    for axis, n in enumerate(shape):
        steps = 2 * np.pi * rng.integers(-1, 2, n) + rng.uniform(-0.2, 0.2, n)
        x = x + np.cumsum(steps).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return x.astype(dtype)


register_op(
    "unwrap",
    over(
        [((6,), {}), ((4, 3), {"axis": 0}), ((4, 3), {"period": 2.0}), ((6,), {"discont": 4.0})],
        _jumping,
    ),
    reference=in_dtype(np.unwrap),
    dtypes=("float64", "float32"),
)

# -- polynomials and vectors -----------------------------------------------------------------

register_op(
    "polyval",
    of_several([(((4,), (2, 3)), {}), (((2,), (3,)), {}), (((1,), (3,)), {}), (((3,), ()), {})]),
    reference=in_dtype(np.polyval),
    dtypes=("float64", "float32", "complex128"),
    skips={"K17": "np.polyval takes coefficients of any number of axes"},
    errors=[
        ErrorSample(
            "a matrix of coefficients",
            (np.ones((2, 2)), np.ones(3)),
            ValueError,
            r"p must be a vector, got shape \(2, 2\)",
        )
    ],
)

VECTORS = [(((5,), (3,)), {"mode": mode}) for mode in ("full", "same", "valid")] + [
    (((2,), (5,)), {"mode": mode}) for mode in ("full", "same", "valid")
]

for _name in ("convolve", "correlate"):
    register_op(
        _name,
        of_several([*VECTORS, (((1,), (1,)), {})]),
        reference=in_dtype(getattr(np, _name)),
        dtypes=COMPLEX,
        errors=[
            ErrorSample(
                "an empty vector", (np.ones(0), np.ones(2)), ValueError, "non-empty vectors"
            ),
            ErrorSample(
                "unknown mode", (np.ones(3), np.ones(2)), ValueError, "got 'all'", {"mode": "all"}
            ),
        ],
    )
register_op(
    "convolve_full",
    of_several([(((5,), (3,)), {}), (((2,), (4,)), {})]),
    reference=in_dtype(np.convolve),
    dtypes=COMPLEX,
    skips={"K17": "convolve turns numbers into vectors first, and refuses empty ones"},
)
register_op(
    "slide",
    of_several([(((5,), (3,)), {}), (((4,), (4,)), {})]),
    reference=in_dtype(lambda x, v: np.convolve(x, v[::-1], "valid")),
    dtypes=COMPLEX,
    skips={"K17": "v may not be longer than x; convolve ensures that"},
)

register_op(
    "cross",
    of_several(
        [
            (((3,), (3,)), {}),
            (((2, 3), (4, 1, 3)), {}),
            (((3, 2), (3, 2)), {"axis": 0}),
            (((3, 2), (2, 3)), {"axisa": 0, "axisc": 0}),
            (((2, 3), (3, 2)), {"axisb": 0}),
        ]
    ),
    reference=np.cross,
    dtypes=COMPLEX,
    skips={"K26": "other axes have vectors of length 2, which NumPy still takes"},
    errors=[
        ErrorSample(
            "vectors of length 2",
            (np.ones((4, 2)), np.ones((4, 2))),
            ValueError,
            r"cross: needs vectors of length 3, got shapes \(4, 2\)",
        )
    ],
)
register_op(
    "cross_last",
    of_several([(((3,), (3,)), {}), (((2, 3), (4, 1, 3)), {})]),
    reference=np.cross,
    dtypes=COMPLEX,
)
