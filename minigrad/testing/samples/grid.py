"""Samples of grids and of images read at their positions."""

from itertools import product

import numpy as np

from ..spec import ErrorSample, Point, Sample, register_op
from .forms import of_several

_EXACT = ("float64", "float32")


def _affine(theta, size, align_corners=False):
    """Each position computed by itself."""
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
    """Positions away from entries and from the middles between them, where reads change."""

    def samples(rng, dtype):
        for i, (x_shape, out, params) in enumerate(forms):
            size = np.array(x_shape[:1:-1])
            shape = (x_shape[0], *out, len(size))
            steps = rng.integers(-2, size + 2, shape) + rng.uniform(0.1, 0.4, shape)
            last = size - 1 if params.get("align_corners") else size
            shift = 0 if params.get("align_corners") else 0.5
            grid = 2 * (steps + shift) / last - 1
            args = rng.standard_normal(x_shape).astype(dtype), grid.astype(dtype)
            yield Sample(f"{i}: {x_shape} {params}", args, params)

    return samples


def keys_kernel(distance, a):
    """Cubic convolution as PyTorch's documentation names it: Keys, 1981"""
    d = abs(distance)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return a * (d - 1) * (d - 2) ** 2 if d < 2 else 0.0


def _reflected(place, low, high):
    """A position reflected at the two ends, as often as needed."""
    if low == high:
        return low
    if not abs(place) < 1e6:
        return np.nan
    while not low <= place <= high:
        place = 2 * low - place if place < low else 2 * high - place
    return place


def _inside(place, n, padding_mode, align_corners):
    """The fractional index that is read instead of one outside of n entries."""
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        place = _reflected(place, *((0, n - 1) if align_corners else (-0.5, n - 0.5)))
    return np.clip(place, 0, n - 1)


def _taps(place, n, mode, padding_mode, align_corners):
    """(entry, weight) along one axis of n entries; entries outside count as 0."""
    if mode == "bicubic":
        if not np.isfinite(place):
            return [(0, np.nan)] if padding_mode != "zeros" or np.isnan(place) else []
        around = [np.floor(place) + step for step in (-1, 0, 1, 2)]
        return [
            (_inside(k, n, padding_mode, align_corners), keys_kernel(place - k, -0.75))
            for k in around
        ]
    place = _inside(place, n, padding_mode, align_corners)
    if not np.isfinite(place):
        return [(0, np.nan)] if np.isnan(place) and mode == "bilinear" else []
    if mode == "nearest":
        return [(np.rint(place), 1.0)]
    low = np.floor(place)
    return [(low, low + 1 - place), (low + 1, place - low)]


def _grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    """Each result by itself, from the entries around its position."""
    size = x.shape[2:]
    if len(size) not in (2, 3) or 0 in size or grid.ndim != x.ndim:
        raise ValueError("neither images nor volumes")
    if len(grid) != len(x) or grid.shape[-1] != len(size):
        raise ValueError("the grid does not fit")
    y = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for n, *at in np.ndindex(*grid.shape[:-1]):
        along = []
        for g, length in zip(grid[(n, *at)][::-1].astype(float), size):
            place = (g + 1) / 2 * (length - 1) if align_corners else ((g + 1) * length - 1) / 2
            along.append(_taps(place, length, mode, padding_mode, align_corners))
        for taps in product(*along):
            entry = [int(k) for k, _ in taps]
            weight = np.prod([w for _, w in taps])
            if np.isnan(weight):  # for any position along the other axes
                y[(n, slice(None), *at)] = np.nan
            elif all(0 <= k < length for k, length in zip(entry, size)):
                y[(n, slice(None), *at)] += weight * x[(n, slice(None), *entry)]
    return y.astype(x.dtype)


_READ = "a NaN times an entry without weight, or outside of the image, as in PyTorch"

register_op(
    "grid_sample",
    _between_entries(
        ((1, 2, 3, 4), (2, 2), {}),
        ((2, 1, 3, 2), (2, 1), {"padding_mode": "border", "align_corners": True}),
        ((1, 1, 4, 3), (2, 2), {"padding_mode": "reflection"}),
        ((1, 1, 3, 4), (1, 2), {"mode": "bicubic"}),
        ((1, 1, 3, 3), (1, 2), {"mode": "bicubic", "padding_mode": "reflection"}),
        ((1, 1, 2, 3, 2), (1, 2, 1), {}),
        ((1, 2, 3, 3), (2, 3), {"mode": "nearest", "padding_mode": "border"}),
        ((1, 1, 3, 1), (2, 3), {"padding_mode": "reflection", "align_corners": True}),
        ((1, 1, 1, 3), (2, 3), {"mode": "bicubic", "padding_mode": "border"}),
        ((1, 1, 1, 4), (2, 2), {}),
        (
            (1, 1, 2, 4),
            (2, 3),
            {"mode": "bicubic", "padding_mode": "reflection", "align_corners": True},
        ),
    ),
    nan_hidden=_READ,
    reference=_grid_sample,
    dtypes=_EXACT,
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
        ErrorSample(
            "bicubic volumes",
            (np.ones((1, 1, 2, 2, 2)), np.ones((1, 2, 2, 2, 3))),
            ValueError,
            r"for images, 'bicubic'; got 'bicubic' for x \(1, 1, 2, 2, 2\)",
            {"mode": "bicubic"},
        ),
        ErrorSample(
            "unknown padding",
            (np.ones((1, 1, 2, 2)), np.ones((1, 2, 2, 2))),
            ValueError,
            "padding_mode must be 'zeros', 'border' or 'reflection', got 'reflect'",
            {"padding_mode": "reflect"},
        ),
    ],
)

# two examples of three results, each of two entries out of 0 … 3; 4 reads nothing
_PLACES = np.array([[[0, 3, 3], [2, 4, 3]], [[1, 1, 4], [0, 2, 4]]])


def _entries(x, places):
    """x (…, C, S) at each of the places (…, K, P): (…, C, K, P), 0 behind the last entry."""
    _fit(places, x)
    if places.size and places.max() > x.shape[-1]:
        raise IndexError("beyond the last entry")
    padded = np.concatenate([x, np.zeros((*x.shape[:-1], 1), x.dtype)], -1)
    y = np.empty((*x.shape[:-1], *places.shape[-2:]), x.dtype)
    for *lead, c, k, p in np.ndindex(*y.shape):
        y[(*lead, c, k, p)] = padded[(*lead, c, places[(*lead, k, p)])]
    return y


def _fit(places, *images, weights=None, u=None):
    fit = all(places.ndim == x.ndim > 1 and places.shape[:-2] == x.shape[:-2] for x in images)
    fit = fit and len({x.shape[-2] for x in images}) == 1
    fit = fit and (weights is None or weights.shape == places.shape)
    if not fit or (u is not None and u.shape[-1] != places.shape[-1]):
        raise ValueError("shapes do not fit")


_MANY_PLACES = np.random.default_rng(0).integers(0, 301, (2, 2, 200))  # 300 reads nothing


def _summed_reads(x, weights, places):
    _fit(places, x, weights=weights)
    return (_entries(x, places) * weights[..., None, :, :]).sum(-2)


def _summed_back(u, weights, places, count):
    _fit(places, u, weights=weights, u=u)
    y = np.zeros((*u.shape[:-1], count + 1), np.result_type(u, weights))
    for *lead, k, p in np.ndindex(*places.shape):
        values = weights[(*lead, k, p)] * u[(*lead, slice(None), p)]
        y[(*lead, slice(None), places[(*lead, k, p)])] += values
    return y[..., :count]


def _summed_channels(u, x, places):
    _fit(places, u, x, u=u)
    return (_entries(x, places) * u[..., None, :]).sum(-3)


register_op(
    "weighted_reads",
    of_several([(((2, 3, 4), (2, 2, 3), _PLACES), {}), (((2, 4), (2, 3), _PLACES[0]), {})]),
    large=of_several([(((2, 3, 300), (2, 2, 200), _MANY_PLACES), {})]),
    nan_hidden=_READ,
    reference=_summed_reads,
    dtypes=(*_EXACT, "complex128"),
    points=[
        Point(
            "nothing is read of an infinite entry that is not named",
            (np.array([[np.inf, 2.0]]), np.ones((1, 2)), np.array([[1, 2]])),
            [[2.0, 0.0]],
            ([[0.0, 1.0]], [[2.0, 0.0]]),
        )
    ],
    errors=[
        ErrorSample(
            "a place behind the one that reads nothing",
            (np.ones((1, 4)), np.ones((1, 1)), np.array([[5]])),
            IndexError,
            r"places run from 5 to 5; there are 0\.\.4, the last a 0",
        ),
        ErrorSample(
            "weights of fewer places",
            (np.ones((1, 4)), np.ones((1, 1)), np.array([[1, 2]])),
            ValueError,
            r"weights and places \(…, K, P\).* got \(1, 4\), weights \(1, 1\), places \(1, 2\)",
        ),
    ],
)
register_op(
    "weighted_reads_dx",
    of_several(
        [
            (((2, 3, 3), (2, 2, 3), _PLACES), {"count": 4}),
            (((2, 3), (2, 3), _PLACES[0]), {"count": 4}),
        ]
    ),
    large=of_several([(((2, 3, 200), (2, 2, 200), _MANY_PLACES), {"count": 300})]),
    reference=_summed_back,
    dtypes=(*_EXACT, "complex128"),
)
register_op(
    "weighted_reads_dw",
    of_several([(((2, 3, 3), (2, 3, 4), _PLACES), {}), (((2, 3), (2, 4), _PLACES[0]), {})]),
    large=of_several([(((2, 3, 200), (2, 3, 300), _MANY_PLACES), {})]),
    nan_hidden=_READ,
    reference=_summed_channels,
    dtypes=(*_EXACT, "complex128"),
)


def _around(low, size, steps, padding_mode="zeros", align_corners=False):
    """Each position by itself; those outside read nothing."""
    if low.ndim < 2 or low.shape[-2] != len(size):
        raise ValueError("not one place for each axis")
    taps = list(product(steps, repeat=len(size)))
    y = np.full((*low.shape[:-2], len(taps), low.shape[-1]), np.prod(size))
    for *lead, k, p in np.ndindex(*y.shape):
        at = [low[(*lead, i, p)] + step for i, step in enumerate(taps[k])]
        if all(0 <= i < n for i, n in zip(at, size)):
            y[(*lead, k, p)] = np.ravel_multi_index([int(i) for i in at], size)
    return y


register_op(
    "grid_places",
    of_several(
        [
            ((np.array([[[-1.0, 0, 2], [1, 1, 3]]]),), {"size": (3, 4), "steps": (0, 1)}),
            ((np.array([[0.0, 2], [1, 0], [-2, 1]]),), {"size": (2, 2, 2), "steps": (0,)}),
        ]
    ),
    reference=_around,
    differentiable=False,
    dtypes=("float64",),
)
