"""Samples of grids and of images read at their places."""

import numpy as np

from ..spec import ErrorSample, Point, Sample, register_op
from .forms import of_several

_EXACT = ("float64", "float32")


def _affine(theta, size, align_corners=False):
    """Each place computed by itself."""
    d = len(size) - 2
    if theta.shape != (size[0], d, d + 1):
        raise ValueError("theta does not fit")
    y = np.empty((size[0], *size[2:], d))
    for index in np.ndindex(*y.shape[:-1]):
        place = []
        for i, n in reversed(list(zip(index[1:], size[2:]))):
            ends = i / max(n - 1, 1) if align_corners else (i + 0.5) / n
            place.append(2 * ends - 1 if n > 1 else 0)
        y[index] = theta[index[0]] @ np.array([*place, 1.0])
    return y.astype(theta.dtype)


register_op(
    "affine_grid",
    of_several(
        [
            (((2, 2, 3),), {"size": (2, 1, 3, 2)}),
            (((1, 2, 3),), {"size": (1, 3, 2, 4), "align_corners": True}),
            (((1, 3, 4),), {"size": (1, 1, 2, 1, 3)}),
        ]
    ),
    reference=_affine,
    dtypes=_EXACT,
    errors=[
        ErrorSample(
            "theta of volumes with the size of images",
            (np.ones((1, 3, 4)),),
            ValueError,
            r"affine_grid: theta \(N, 2, 3\) goes with size \(N, C, H, W\).* got theta \(1, 3, 4\)",
            {"size": (1, 1, 2, 2)},
        )
    ],
)


def _between_entries(*forms):
    """Places that keep away from entries and from the middles between them, where reads change."""

    def samples(rng, dtype):
        for i, (x_shape, out, params) in enumerate(forms):
            size = np.array(x_shape[:1:-1])
            shape = (x_shape[0], *out, len(size))
            steps = rng.integers(-1, size + 1, shape) + rng.uniform(0.1, 0.4, shape)
            last = size - 1 if params.get("align_corners") else size
            shift = 0 if params.get("align_corners") else 0.5
            grid = 2 * (steps + shift) / last - 1
            args = rng.standard_normal(x_shape).astype(dtype), grid.astype(dtype)
            yield Sample(f"{i}: {x_shape} {params}", args, params)

    return samples


register_op(
    "grid_sample",
    _between_entries(
        ((1, 2, 3, 4), (2, 2), {}),
        ((2, 1, 3, 2), (2, 1), {"padding_mode": "border", "align_corners": True}),
        ((1, 1, 4, 3), (2, 2), {"padding_mode": "reflection"}),
        ((1, 1, 3, 4), (1, 2), {"mode": "bicubic"}),
        ((1, 1, 3, 3), (1, 2), {"mode": "bicubic", "padding_mode": "reflection"}),
        ((1, 1, 2, 3, 2), (1, 2, 1), {}),
    ),
    dtypes=_EXACT,
    skips={"K15": "the share of an entry is a difference of places of size n: n roundings"},
    points=[
        Point(
            "the middle of four entries",
            (np.array([[[[1.0, 2.0], [3.0, 6.0]]]]), np.zeros((1, 1, 1, 2))),
            [[[[3.0]]]],
            ([[[[0.25, 0.25], [0.25, 0.25]]]], [[[[2.0, 3.0]]]]),
        ),
        Point(
            "outside, and an infinite entry there",
            (np.array([[[[1.0, np.inf]]]]), np.array([[[[-3.0, 0.0]]]])),
            [[[[0.0]]]],
            ([[[[0.0, 0.0]]]], [[[[0.0, 0.0]]]]),
        ),
    ],
    errors=[
        ErrorSample(
            "a grid of volumes",
            (np.ones((1, 1, 2, 2)), np.ones((1, 2, 2, 3))),
            ValueError,
            r"grid_sample: x \(N, C, H, W\) takes a grid \(N, h, w, 2\).*grid \(1, 2, 2, 3\)",
        ),
        ErrorSample(
            "unknown mode",
            (np.ones((1, 1, 2, 2)), np.ones((1, 2, 2, 2))),
            ValueError,
            "mode must be 'bilinear', 'nearest' or, for images, 'bicubic'; got 'cubic'",
            {"mode": "cubic"},
        ),
    ],
)
