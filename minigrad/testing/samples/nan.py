"""Samples of reductions that ignore NaN: rows with none, some, and only NaN."""

import warnings
from dataclasses import replace

import numpy as np

from ..spec import ErrorSample, Point, Sample, register_op
from .forms import COMPLEX, REAL, distinct, near_one, normal
from .order import WEIGHTED

NAN = np.nan
_NOTHING_ELSE = "NaN is ignored, even if there is nothing else and the result is NaN"


def with_holes(forms, make=distinct):
    """Samples (x, mask, parameters): NaN where the mask is set, never in a whole row."""

    def samples(rng, dtype):
        for shape, params in forms:
            x = make(rng, dtype, shape)
            mask = np.zeros(shape, bool)
            mask.reshape(-1)[1::4] = True
            yield Sample(f"{shape} {params}", (x, mask), params)

    return samples


def _call(name):
    """The op of x with NaN where the mask is set: finite differences then see numbers."""

    def call(x, mask, **params):
        from ...engine.registry import op

        return getattr(op, name)(op.where(mask, NAN, x), **params)

    return call


def _reference(function):
    def reference(x, mask, **params):
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            y = np.asarray(function(np.where(mask, NAN, x.astype(_double(x.dtype))), **params))
        real = x.real.dtype if x.dtype.kind == "c" else x.dtype
        return y.astype({"c": x.dtype, "f": real}.get(y.dtype.kind, np.intp))

    return reference


def _share_reference(function):
    """A list of q has a dtype, float64, and so does an interpolated result."""

    def reference(x, mask, **params):
        dtype, q = x.dtype, params["q"]
        if isinstance(q, list) and "weights" not in params:
            dtype = np.result_type(dtype, np.asarray(q, np.float64))
        y = function(np.where(mask, NAN, x.astype(np.float64)), **params)
        return np.asarray(y).astype(dtype)

    return reference


def _double(dtype):
    return np.complex128 if dtype.kind == "c" else np.float64


AXES = [
    ((5,), {}),
    ((4, 3), {"axis": 0}),
    ((4, 3), {"axis": -1, "keepdims": True}),
    ((2, 3, 4), {"axis": (0, 2)}),
    ((3, 2), {}),
    ((), {}),
]
CHOSEN = ((4, 3), {"axis": 0, "where": np.array([[True], [False], [True], [True]])})
BEGUN = [*AXES, ((4, 3), {"axis": 0, "initial": 0.375})]
RUNNING = [((5,), {}), ((4, 3), {"axis": 0}), ((4, 3), {"axis": -1}), ((3, 2), {})]
_KNOWN = ((np.array([1.0, NAN, 3.0]),),)
EMPTY_ROW = (np.array([[NAN, NAN], [1.0, 3.0]]),)


def register(name, forms, make=distinct, **options):
    """The op under its own name on samples with holes, and on points with NaN."""
    points = options.pop("points", ())
    register_op(
        name,
        with_holes(forms, make),
        call=_call(name),
        points=[_masked(point) for point in points],
        nan_hidden=_NOTHING_ELSE,
        **{"dtypes": REAL, "reference": _reference(getattr(np, name)), **options},
    )


def _masked(point):
    """A point with NaN as a point with a mask."""
    x = np.asarray(point.args[0])
    return replace(point, args=(np.nan_to_num(x), np.isnan(x)))


register(
    "nansum",
    [*BEGUN, CHOSEN],
    points=[Point("a row of NaN", EMPTY_ROW, [0.0, 4.0], ([[0, 0], [1, 1]],), {"axis": 1})],
)
register("nanprod", [*BEGUN, CHOSEN], near_one)
register("nancumsum", RUNNING)
register("nancumprod", RUNNING, near_one)
register(
    "nanmean",
    [*AXES, CHOSEN],
    points=[Point("a row of NaN", EMPTY_ROW, [NAN, 2.0], params={"axis": 1})],
)
register(
    "nanvar",
    [*AXES[:-1], ((4, 3), {"axis": 0, "ddof": 1}), ((5,), {"correction": 1}), CHOSEN],
    normal,
    dtypes=COMPLEX,
    points=[Point("a mean that is known", *_KNOWN, 1.25, ([-0.5, 0, 1.5],), {"mean": [1.5]})],
)
register(
    "nanstd",
    [*AXES[:-1], ((4, 3), {"axis": 0, "ddof": 1}), ((5,), {"correction": 1}), CHOSEN],
    points=[
        Point("equal elements", (np.array([0.5, NAN, 0.5]),), 0.0, (np.zeros(3),), kink=True),
        Point(
            "a mean that is known",
            *_KNOWN,
            1.25**0.5,
            (np.array([-0.25, 0, 0.75]) / 1.25**0.5,),
            {"mean": [1.5]},
        ),
    ],
)
register(
    "nanmax",
    BEGUN,
    points=[
        Point("a row of NaN", EMPTY_ROW, [NAN, 3.0], ([[0, 0], [0, 1]],), {"axis": 1}),
        Point("ties", (np.array([2.0, NAN, 2.0]),), 2.0, ([0.5, 0.0, 0.5],), kink=True),
    ],
)
register(
    "nanmin",
    BEGUN,
    points=[Point("ties", (np.array([2.0, NAN, 2.0]),), 2.0, ([0.5, 0.0, 0.5],), kink=True)],
)
register(
    "nanmedian",
    AXES,
    points=[
        Point("an even count", (np.array([4.0, NAN, 1.0]),), 2.5, ([0.5, 0.0, 0.5],)),
        Point("a row of NaN", EMPTY_ROW, [NAN, 2.0], params={"axis": 1}),
    ],
)
for _name in ("nanargmax", "nanargmin"):
    register(
        _name,
        [((5,), {}), ((4, 3), {"axis": 0}), ((4, 3), {"axis": -1, "keepdims": True})],
        differentiable=False,
        errors=[
            ErrorSample(
                "one row of NaN",
                (np.ones((2, 2)), np.array([[True, True], [False, True]])),
                ValueError,
                f"{_name}: All-NaN slice encountered, 1 of 2",
                {"axis": 1},
            )
        ],
    )


def _shares(scale):
    return [
        ((6,), {"q": 0.3 * scale}),
        ((4, 3), {"q": [0.1 * scale, 0.75 * scale], "axis": 0}),
        ((3, 4), {"q": 0.5 * scale, "axis": -1, "keepdims": True}),
        ((6,), {"q": [0.3 * scale, scale], "method": "hazen"}),
        ((5,), {"q": [0.21 * scale, 0.63 * scale], **WEIGHTED}),
    ]


_LERP = "NumPy multiplies an infinite difference by 0, which gives NaN"
_BEYOND = ErrorSample(
    "one q above 1",
    (np.ones(2), np.zeros(2, bool)),
    ValueError,
    "q must lie between 0 and 1",
    {"q": [0.5, 1.5]},
)
register(
    "nanquantile",
    _shares(1),
    reference=_share_reference(np.nanquantile),
    nan_alone=_LERP,
    errors=[_BEYOND],
    points=[
        Point("no elements", (np.zeros((3, 0)),), np.full(3, NAN), (np.zeros((3, 0)),),
              {"q": 0.3, "axis": 1}),
    ],
)  # fmt: skip
register(
    "nanpercentile", _shares(100), reference=_share_reference(np.nanpercentile), nan_alone=_LERP
)


def _ranked_samples(rng, dtype):
    yield Sample("rows", (distinct(rng, dtype, (3, 4)), np.array([0, 3, 2])))


register_op(
    "ranked",
    _ranked_samples,
    reference=lambda x, ranks: np.take_along_axis(np.sort(x, -1), ranks[..., None], -1)[..., 0],
    dtypes=REAL,
    nan_hidden="the op ignores NaN and gives it no gradient, for any value",
    points=[
        Point(
            "NaN ranks last", (np.array([[NAN, 2.0, 1.0]]), np.array([1])), [2.0], ([[0, 1, 0]],)
        ),
        Point(
            "ties",
            (np.array([[1.0, 2.0, 1.0]]), np.array([1])),
            [1.0],
            ([[0.5, 0, 0.5]],),
            kink=True,
        ),
    ],
)
