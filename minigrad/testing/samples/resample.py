"""Samples of adaptive pooling and upsampling."""

from itertools import product

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .forms import REAL, of_several, over
from .grid import keys_kernel


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
    skips={"K33": "resampling computes the weights from sizes"},
    constants=(1,),
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


def _along(i, old, new, step, mode, align_corners, antialias):
    """(entry, weight) along one axis for entry i of `new`, each `step` of the old ones long."""
    linear = mode.endswith("linear")
    a = -0.5 if antialias else -0.75

    def cubic(distance):
        return keys_kernel(distance, a)

    if mode == "area":
        entries = range(i * old // new, -(-(i + 1) * old // new))
        return [(k, 1 / len(entries)) for k in entries]
    if mode.startswith("nearest"):
        return [(min(int((i + (0.5 if mode == "nearest-exact" else 0)) * step), old - 1), 1.0)]
    if new == old and (linear or antialias):
        return [(i, 1.0)]
    if align_corners:
        step = (old - 1) / (new - 1) if new > 1 else 0.0
    if antialias:
        kernel, reach = (_triangle, 1) if linear else (cubic, 2)
        centre, wide = step * (i + 0.5), max(step, 1)
        first = max(int(centre - reach * wide + 0.5), 0)
        entries = range(first, min(int(centre + reach * wide + 0.5), old))
        weights = [kernel((k + 0.5 - centre) / wide) for k in entries]
        return [(k, weight / sum(weights)) for k, weight in zip(entries, weights) if weight]
    place = i * step if align_corners else (i + 0.5) * step - 0.5
    if linear:
        place = min(max(place, 0), old - 1)
        entries, kernel = (int(place), int(place) + 1), _triangle
    else:
        entries, kernel = range(int(np.floor(place)) - 1, int(np.floor(place)) + 3), cubic
    return [(min(max(k, 0), old - 1), kernel(k - place)) for k in entries]


def _triangle(distance):
    return max(1 - abs(distance), 0)


def _upsample(
    x, size=None, scale_factor=None, mode="nearest", align_corners=None,
    recompute_scale_factor=None, antialias=False,
):  # fmt: skip
    """Each entry by itself: PyTorch's interpolate."""
    old = x.shape[2:]
    if not old or 0 in old:
        raise ValueError("no places")
    if size is None:
        scales = np.broadcast_to(scale_factor, len(old))
        new = [int(n * scale) for n, scale in zip(old, scales)]
    else:
        new = list(np.broadcast_to(size, len(old)))
    steps = [n / m for n, m in zip(old, new)]
    if size is None and not recompute_scale_factor:
        in_the_plane = (
            mode == "nearest" and len(old) == 2
        )  # there PyTorch uses the sizes for some lengths
        steps = [
            step if in_the_plane and step in (1, 0.5) else 1 / scale
            for step, scale in zip(steps, scales)
        ]
    y = np.zeros((*x.shape[:2], *new))
    for at in np.ndindex(*new):
        along = [
            _along(i, n, m, step, mode, align_corners, antialias)
            for i, n, m, step in zip(at, old, new, steps)
        ]
        for taps in product(*along):
            entry = (..., *[k for k, _ in taps])
            y[(..., *at)] += np.prod([weight for _, weight in taps]) * x[entry]
    return y.astype(x.dtype)


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
            ((1, 1, 4, 3), {"scale_factor": (1.4, 2.2), "recompute_scale_factor": True}),
            ((1, 1, 5, 4), {"scale_factor": (2.15, 1.2)}),
            ((1, 1, 4), {"size": 1, "mode": "linear", "align_corners": True}),
            ((1, 1, 1, 5), {"size": (3, 4), "mode": "bicubic", "align_corners": True}),
            (
                (1, 1, 5, 4),
                {"size": (3, 1), "mode": "bicubic", "align_corners": True, "antialias": True},
            ),
        ]
    ),
    nan_hidden="an entry read with a weight of 0 shows its NaN, as in PyTorch",
    reference=_upsample,
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
            "next to an infinite entry",
            (np.array([[[np.inf, 1.0]]]),),
            [[[np.inf, np.inf, np.inf, 1.0]]],
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
            "antialias is for the modes linear, .*, bicubic, and mode is 'nearest'",
            {"size": 4, "antialias": True},
        ),
        ErrorSample(
            "a scale for each of three axes, of which there are two",
            (np.ones((1, 1, 2, 2)),),
            ValueError,
            r"scale_factor must be a positive number, or 2 of them for x .*; got \(2, 2, 2\)",
            {"scale_factor": (2, 2, 2)},
        ),
        ErrorSample(
            "a scale of 0 among others",
            (np.ones((1, 1, 2, 2)),),
            ValueError,
            r"scale_factor must be a positive number, .* got \(2, 0\)",
            {"scale_factor": (2, 0)},
        ),
        ErrorSample(
            "neither size nor scale",
            (np.ones((1, 1, 2)),),
            ValueError,
            "size or scale_factor given",
        ),
    ],
)
