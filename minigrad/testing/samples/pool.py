"""Samples of pooling: windows that touch, overlap, leave gaps, reach into the padding."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ...ops.windows import Windows, windows
from ..spec import ErrorSample, Point, register_op
from .forms import REAL, distinct, in_both_orders, normal, of_several, over

nan = np.nan


def _views(x, how, fill):
    """All windows of x (..., *size) as (..., *out, window)."""
    dims = len(how.kernel)
    x = np.pad(x.astype(float), (*((0, 0),) * (x.ndim - dims), *how.padding), constant_values=fill)
    spans = [d * (k - 1) + 1 for k, d in zip(how.kernel, how.dilation)]
    v = sliding_window_view(x, spans, tuple(range(x.ndim - dims, x.ndim)))
    v = v[(..., *(slice(None, None, s) for s in how.stride), *(slice(None),) * dims)]
    v = v[(..., *(slice(None, None, d) for d in how.dilation))]
    return v.reshape((*v.shape[:-dims], int(np.prod(how.kernel))))


def _how(dims, kernel_size, stride, padding, dilation=1):
    kernel = (kernel_size,) * dims if np.ndim(kernel_size) == 0 else tuple(kernel_size)
    return windows("reference", kernel, kernel if stride is None else stride, padding, dilation)


def _partial(x, how, ceil_mode):
    """x, and its windows: with ceil_mode also those that begin inside and end outside.

    The padding includes the cells that they reach into, after all other padding.
    """
    more = []
    for n, (k, s, p, d) in zip(x.shape[-len(how.kernel) :], how.axes(), strict=True):
        begins = range(0, n + p[0], s) if ceil_mode else ()
        more.append(max([b + d * (k - 1) + 1 - (n + sum(p)) for b in begins] + [0]))
    return how._replace(padding=tuple((a, b + m) for (a, b), m in zip(how.padding, more)))


def _max(dims):
    def reference(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        how = _partial(x, _how(dims, kernel_size, stride, padding, dilation), ceil_mode)
        return _views(x, how, -np.inf).max(-1).astype(x.dtype)

    return reference


def _mean(dims):
    def reference(
        x,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        how = _how(dims, kernel_size, stride, padding)
        wide = _partial(x, how, ceil_mode)
        places = np.pad(
            np.ones(x.shape),
            (*((0, 0),) * (x.ndim - dims), *how.padding),
            constant_values=1 if count_include_pad else 0,
        )
        behind = [(0, w[1] - p[1]) for w, p in zip(wide.padding, how.padding)]
        counted = _views(places, how._replace(padding=tuple(behind)), 0).sum(-1)
        return (_views(x, wide, 0).sum(-1) / (divisor_override or counted)).astype(x.dtype)

    return reference


TWO = [
    ((2, 2, 4, 6), {"kernel_size": 2}),
    ((1, 2, 5, 5), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((1, 1, 5, 4), {"kernel_size": (2, 3), "stride": 1}),
    ((3, 5, 4), {"kernel_size": 2, "stride": (3, 2)}),
    ((4, 4), {"kernel_size": (2, 1)}),
    ((0, 1, 4, 4), {"kernel_size": 2}),
]
# a window as large as the image, and tiles of many positions
ALL = [((2, 3, 4), {"kernel_size": (3, 4)}), ((2, 20, 18), {"kernel_size": (10, 18)})]
# images in several blocks, in tiles; tiles with and without a rest; windows that overlap; tiles
# with long rows
LARGE = [
    (((16, 16, 10, 12),), {"kernel_size": 2}),
    (((16, 16, 9, 10),), {"kernel_size": 2}),
    (((16, 16, 9, 11),), {"kernel_size": 3, "stride": 2, "padding": 1}),
    (((16, 32, 36, 38),), {"kernel_size": 2}),
    (((16, 32, 36, 38),), {"kernel_size": (3, 2), "stride": (1, 2)}),
    (((4, 8, 4, 256),), {"kernel_size": (2, 128)}),
]
DILATED = ((1, 2, 6, 5), {"kernel_size": 2, "dilation": 2, "stride": 1})


def _too_large(name, *shape):
    return ErrorSample(
        "window larger than x",
        (np.ones(shape),),
        ValueError,
        rf"{name}: the kernel .*larger than the padded input",
        {"kernel_size": 5},
    )


register_op(
    "max_pool2d",
    over(
        [*TWO, *ALL, DILATED, ((1, 4, 4), {"kernel_size": 3, "stride": 2, "ceil_mode": True})],
        distinct,
    ),
    large=in_both_orders(LARGE),
    reference=_max(2),
    dtypes=REAL,
    errors=[
        _too_large("max_pool2d", 1, 3, 3),
        ErrorSample(
            "too much padding",
            (np.ones((1, 4, 4)),),
            ValueError,
            r"max_pool2d: padding \(\(2, 2\), \(2, 2\)\) may be at most half of the kernel",
            {"kernel_size": 2, "padding": 2},
        ),
        ErrorSample(
            "too few axes",
            (np.ones(4),),
            ValueError,
            r"max_pool2d: x must have at least 2 axes, got \(4,\)",
            {"kernel_size": 2},
        ),
    ],
    points=[
        Point(
            "ties share equally",
            (np.array([[1.0, 1.0, 0.0, 3.0], [1.0, 0.0, 3.0, 2.0]]),),
            [[1.0, 3.0]],
            ([[1 / 3, 1 / 3, 0, 0.5], [1 / 3, 0, 0.5, 0]],),
            {"kernel_size": 2},
            kink=True,
        ),
        Point(
            "ties of 256 places",
            (np.ones((17, 16)),),
            np.ones((2, 1)),
            (np.array([[1], *[[2]] * 15, [1]]) * np.ones(16) / 256,),
            {"kernel_size": 16, "stride": 1},
            kink=True,
        ),
        Point(
            "padding never wins",
            (-np.ones((2, 2)),),
            -np.ones((2, 2)),
            (np.ones((2, 2)),),
            {"kernel_size": 2, "padding": 1},
        ),
        Point(
            "ceil_mode adds a partial window",
            (np.arange(3.0).reshape(1, 3),),
            [[1.0, 2.0]],
            ([[0.0, 1.0, 1.0]],),
            {"kernel_size": (1, 2), "ceil_mode": True},
        ),
    ],
)
register_op(
    "max_pool1d",
    over(
        [
            ((2, 3, 6), {"kernel_size": 2}),
            ((7,), {"kernel_size": 3, "stride": 2}),
            ((6,), {"kernel_size": 2, "padding": 1, "dilation": 2, "ceil_mode": True}),
            ((9,), {"kernel_size": 3, "dilation": 3, "stride": 2}),
        ],
        distinct,
    ),
    reference=_max(1),
    dtypes=REAL,
    errors=[_too_large("max_pool1d", 3)],
)
register_op(
    "max_pool3d",
    over(
        [
            ((2, 2, 4, 4), {"kernel_size": 2}),
            ((3, 3, 3), {"kernel_size": 2, "stride": 1}),
            ((3, 2, 2), {"kernel_size": 2, "padding": (0, 1, 1), "dilation": (1, 1, 2)}),
            ((3, 2, 2), {"kernel_size": 2, "ceil_mode": True}),
        ],
        distinct,
    ),
    reference=_max(3),
    dtypes=REAL,
    errors=[_too_large("max_pool3d", 3, 3, 3)],
)
register_op(
    "avg_pool2d",
    over(
        [
            *TWO,
            *ALL,
            ((1, 5, 5), {"kernel_size": 3, "padding": 1, "count_include_pad": False}),
            ((3, 4), {"kernel_size": 2, "padding": 1, "divisor_override": 3, "ceil_mode": True}),
        ]
    ),
    large=in_both_orders(LARGE),
    reference=_mean(2),
    dtypes=REAL,
    errors=[_too_large("avg_pool2d", 3, 3)],
    points=[
        Point(
            "a partial window of ceil_mode counts what is there",
            (np.array([[1.0, 3.0, 5.0]]),),
            [[2.0, 5.0]],
            ([[0.5, 0.5, 1.0]],),
            {"kernel_size": (1, 2), "ceil_mode": True},
        )
    ],
)
register_op(
    "avg_pool1d",
    over(
        [
            ((2, 3, 6), {"kernel_size": 2}),
            ((7,), {"kernel_size": 3, "stride": 2, "padding": 1}),
            ((5,), {"kernel_size": 2, "padding": 1, "count_include_pad": False}),
            ((6,), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
        ]
    ),
    reference=_mean(1),
    dtypes=REAL,
)
register_op(
    "avg_pool3d",
    over(
        [
            ((2, 2, 4, 4), {"kernel_size": 2}),
            ((3, 3, 3), {"kernel_size": 2, "stride": 1}),
            ((2, 2, 2), {"kernel_size": 2, "padding": 1, "count_include_pad": False}),
            ((3, 2, 2), {"kernel_size": 2, "ceil_mode": True, "divisor_override": 3}),
        ]
    ),
    reference=_mean(3),
    dtypes=REAL,
)

# -- the primitives --------------------------------------------------------------------------

WINDOWS = [
    Windows((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    Windows((3, 2), (1, 2), ((1, 1), (0, 1)), (1, 1)),
]
_BAD_SIZES = "max_pool2d and similar functions, which users call, check the shapes of a primitive"


WIDE_WINDOWS = Windows((7,), (1,), ((3, 3),), (1,))
FAR_BELOW = -1e300 * np.arange(1.0, 41).reshape((2, 4, 5))


def _pooled(rng, dtype, how):
    """(x, its maxima) for sizes (4, 5)."""
    x = distinct(rng, dtype, (2, 4, 5))
    return x, _views(x, how, -np.inf).max(-1).astype(dtype)


register_op(
    "max_pool",
    over(
        [
            *[((2, 4, 5), {"how": how}) for how in WINDOWS],
            ((2, 9), {"how": Windows((3,), (2,), ((0, 0),), (3,))}),
            ((2, 9), {"how": WIDE_WINDOWS}),
        ],
        distinct,
    ),
    reference=lambda x, how: _views(x, how, -np.inf).max(-1).astype(x.dtype),
    dtypes=REAL,
    points=[
        Point("more ties than 8 bits count", (np.ones((1, 17, 17)),), np.ones((1, 1, 1)),
              (np.full((1, 17, 17), 1 / 289),), {"how": windows("", (17, 17), (1, 1), 0, 1)}),
        Point("a NaN is the maximum of its windows",
              (np.array([1.0, nan, 2, 3, 5, 4, nan, nan]),), np.array([nan, nan, 5, nan]),
              (np.array([0.0, 2, 0, 0, 1, 0, 0.5, 0.5]),),
              {"how": windows("", (3,), (2,), 1, 1)}),
        Point("padding lies below all numbers", (FAR_BELOW,),
              _views(FAR_BELOW, WINDOWS[-1], -np.inf).max(-1), params={"how": WINDOWS[-1]}),
    ],
)  # fmt: skip


def _spread_samples(rng, dtype):
    from ..spec import Sample

    for i, how in enumerate(WINDOWS):
        x, y_max = _pooled(rng, dtype, how)
        yield Sample(f"windows {i}", (normal(rng, dtype, y_max.shape), x, y_max), {"how": how})


def _pick_samples(rng, dtype):
    from ..spec import Sample

    for i, how in enumerate(WINDOWS):
        x, y_max = _pooled(rng, dtype, how)
        yield Sample(f"windows {i}", (normal(rng, dtype, x.shape), x, y_max), {"how": how})


def _hits(x, y_max, how):
    """Which positions of each window hold its maximum: NaNs, if there are some."""
    top = y_max[..., None]
    return (_views(x, how, np.nan) == top) | (np.isnan(_views(x, how, 0)) & np.isnan(top))


def _pick(a, x, y_max, how):
    hits = _hits(x, y_max, how)
    return (np.where(hits, _views(a, how, 0), 0).sum(-1) / np.maximum(hits.sum(-1), 1)).astype(
        a.dtype
    )


def _put_back(parts, size, how):
    """Numbers (…, *out, window) added at the positions that the windows read them from."""
    dims = len(how.kernel)
    places = _views(np.arange(np.prod(size)).reshape(size), how, -1).astype(int)  # -1: padding
    y = np.zeros((*parts.shape[: -dims - 1], np.prod(size) + 1))
    for i in np.ndindex(*places.shape):
        y[..., places[i]] += parts[(..., *i)]
    return y[..., :-1].reshape(*y.shape[:-1], *size)


def _shared_by_hits(a, x, y_max, how):
    hits = _hits(x, y_max, how)
    shares = np.where(hits, a[..., None], 0) / np.maximum(hits.sum(-1, keepdims=True), 1)
    return _put_back(shares, x.shape[-len(how.kernel) :], how).astype(a.dtype)


register_op(
    "max_pool_dx",
    _spread_samples,
    reference=_shared_by_hits,
    dtypes=REAL,
    skips={"K17": _BAD_SIZES},
)
register_op("max_pool_pick", _pick_samples, reference=_pick, dtypes=REAL, skips={"K17": _BAD_SIZES})
DILATED_WINDOWS = WINDOWS[1]._replace(dilation=(2, 1))
COUNTED = ((0, 1), (0, 0))  # the part of the padding of WINDOWS[1] that counts in means


def _divisors(size, how, divisor):
    if divisor is not COUNTED:
        return divisor
    places = np.pad(np.zeros(size), how.padding, constant_values=-1)
    places[how.padding[0][0] :, how.padding[1][0] :][: size[0] + 1, : size[1]] = 1
    bare = how._replace(padding=((0, 0), (0, 0)))
    return (_views(places, bare, 0) == 1).sum(-1)


def _sums(x, how, divisor=1):
    y = _views(x, how, 0).sum(-1) / _divisors(x.shape[-2:], how, divisor)
    return y.astype(x.dtype)


def _spread_sums(a, size, how, divisor=1):
    parts = (a / _divisors(size, how, divisor))[..., None]
    parts = np.broadcast_to(parts, (*a.shape, np.prod(how.kernel)))
    return _put_back(parts, size, how).astype(a.dtype)


register_op(
    "sum_pool",
    over(
        [((2, 4, 5), {"how": how}) for how in WINDOWS]
        + [((2, 9), {"how": WIDE_WINDOWS})]
        + [((2, 4, 5), {"how": how, "divisor": COUNTED}) for how in (WINDOWS[1], DILATED_WINDOWS)]
    ),
    reference=_sums,
    dtypes=REAL,
    points=[
        Point("a sum beyond float16, its mean not", (np.full((1, 4), 6e4, np.float16),),
              np.full((1, 2), 6e4), params={"how": windows("", (2,), (2,), 0, 1), "divisor": 2}),
    ],
)  # fmt: skip
register_op(
    "sum_pool_dx",
    of_several(
        [
            (((2, 2, 2),), {"size": (4, 5), "how": WINDOWS[0]}),
            (((2, 4, 3),), {"size": (4, 5), "how": WINDOWS[1]}),
            (((2, 4, 3),), {"size": (4, 5), "how": WINDOWS[1], "divisor": COUNTED}),
        ]
    ),
    large=in_both_orders([(((16, 16, 5, 6),), {"size": (9, 11), "how": _how(2, 3, 2, 1)})]),
    reference=_spread_sums,
    dtypes=REAL,
    skips={"K17": _BAD_SIZES},
)
