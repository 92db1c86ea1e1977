"""Samples of adaptive pooling and upsampling."""

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .forms import REAL, of_several, over


def _adaptive(dims):
    def reference(x, output_size):
        sizes = np.broadcast_to(output_size, dims)
        if x.ndim < dims or 0 in x.shape[-dims:]:
            raise ValueError("nothing to average")
        y = x.astype(float)
        for axis, new in zip(range(-dims, 0), sizes):
            n = y.shape[axis]
            parts = [
                y.take(range(i * n // new, -((-(i + 1) * n) // new)), axis).mean(axis)
                for i in range(new)
            ]
            y = np.stack(parts, axis)
        return y.astype(x.dtype)

    return reference


register_op(
    "adaptive_avg_pool1d",
    over([((2, 6), {"output_size": 3}), ((5,), {"output_size": 2}), ((3,), {"output_size": 4})]),
    reference=_adaptive(1),
    dtypes=REAL,
)
register_op(
    "adaptive_avg_pool2d",
    over(
        [
            ((2, 4, 6), {"output_size": (2, 3)}),
            ((1, 2, 5, 4), {"output_size": 3}),
            ((3, 3), {"output_size": 1}),
        ]
    ),
    reference=_adaptive(2),
    dtypes=REAL,
    errors=[
        ErrorSample(
            "a vector",
            (np.ones(3),),
            ValueError,
            r"adaptive_avg_pool2d: x must end in 2 non-empty axes, got shape \(3,\)",
            {"output_size": 2},
        )
    ],
)


def _read_one_by_one(x, weights):
    if weights.ndim != 2 or x.shape[-1:] != weights.shape[1:]:
        raise ValueError("shapes do not fit")
    y = np.zeros((*x.shape[:-1], len(weights)), np.result_type(x, weights))
    for i, k in zip(*np.nonzero(weights)):
        y[..., i] += weights[i, k] * x[..., k]
    return y


_WEIGHTS = np.array([[0.5, 0.5, 0, 0], [0, -1, 2, 0], [0, 0, 0, 0]])
register_op(
    "windowed_sums",
    of_several([(((2, 3, 4), _WEIGHTS), {}), (((4,), _WEIGHTS), {})]),
    reference=_read_one_by_one,
    dtypes=(*REAL, "complex128"),
    points=[
        Point(
            "an infinite entry shows in the sums that read it alone",
            (np.array([[1.0, -np.inf, 3.0, np.nan]]), _WEIGHTS),
            [[-np.inf, np.inf, 0.0]],
            ([[0.5, -0.5, 2.0, 0.0]],),
        )
    ],
    errors=[
        ErrorSample(
            "weights of more entries",
            (np.ones((2, 3)), _WEIGHTS),
            ValueError,
            r"needs x \(…, n\) and weights \(m, n\), got \(2, 3\) and \(3, 4\)",
        )
    ],
)


register_op(
    "upsample",
    over(
        [
            ((1, 2, 3), {"scale_factor": 2}),
            ((1, 1, 2, 3), {"size": (3, 5)}),
            ((1, 2, 2, 3), {"scale_factor": 2, "mode": "bilinear"}),
            ((1, 1, 3, 2), {"size": (5, 4), "mode": "bilinear", "align_corners": True}),
            ((1, 1, 3, 2), {"size": (5, 4), "mode": "bicubic"}),
            ((1, 1, 5, 2), {"size": (2, 3), "mode": "bilinear", "antialias": True}),
            ((1, 1, 7, 2), {"size": (3, 4), "mode": "bicubic", "antialias": True}),
            ((1, 2, 4), {"scale_factor": 1.6, "mode": "nearest-exact"}),
            ((1, 1, 4, 6), {"size": (3, 2), "mode": "area"}),
        ]
    ),
    dtypes=REAL,
    points=[
        Point(
            "between entry centres",
            (np.array([[[0.0, 4.0]]]),),
            [[[0.0, 1.0, 3.0, 4.0]]],
            ([[[2.0, 2.0]]],),
            {"scale_factor": 2, "mode": "linear"},
        ),
        Point(
            "half as many entries, none passed over",
            (np.array([[[0.0, 0.0, 8.0, 0.0]]]),),
            [[[1.0 + 1 / 7, 3.0 + 3 / 7]]],
            ([[[3 / 7, 3 / 7 + 1 / 7, 3 / 7 + 1 / 7, 3 / 7]]],),
            {"scale_factor": 0.5, "mode": "linear", "antialias": True},
        ),
    ],
    errors=[
        ErrorSample(
            "unknown mode",
            (np.ones((1, 1, 2)),),
            ValueError,
            "mode must be one of nearest, .* got 'cubic'",
            {"size": 4, "mode": "cubic"},
        ),
        ErrorSample(
            "antialias without a kernel",
            (np.ones((1, 1, 2)),),
            ValueError,
            "antialias is for the modes linear, .*, bicubic, got mode='nearest'",
            {"size": 4, "antialias": True},
        ),
        ErrorSample(
            "neither size nor scale",
            (np.ones((1, 1, 2)),),
            ValueError,
            "size or scale_factor given",
        ),
    ],
)
