"""Samples of normalisation. The references are the formulas, in plain NumPy."""

import numpy as np

from ...backends.dtypes import accumulator
from ...engine.registry import op
from ...tensor_api.tensor import Tensor
from ..spec import ErrorSample, Point, Sample, register_op
from .forms import REAL, in_both_orders, normal, of_several


def _statistics(x, axis, eps, centre):
    mean = x.mean(axis, keepdims=True) if centre else 0
    return mean, 1 / np.sqrt(np.square(x - mean).mean(axis, keepdims=True) + eps)


def _require(x, axis, *others):
    """Operands must broadcast against x, and x must have the axes."""
    if max(axis) >= x.ndim or any(
        np.broadcast_shapes(x.shape, w.shape) != x.shape for w in others if w is not None
    ):
        raise ValueError("shapes")


def _standardize(x, weight=None, bias=None, *, axis, eps, centre=True):
    _require(x, axis, weight, bias)
    mean, rstd = _statistics(x, axis, eps, centre)
    y = (x - mean) * rstd
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).astype(x.dtype)


def _standardize_dx(a, x, weight=None, *, axis, eps, centre=True):
    _require(x, axis, weight)
    if a.shape != x.shape:
        raise ValueError("shapes")
    mean, rstd = _statistics(x, axis, eps, centre)
    xhat, u = (x - mean) * rstd, a if weight is None else a * weight
    level = u.mean(axis, keepdims=True) if centre else 0
    return (rstd * (u - level - xhat * (u * xhat).mean(axis, keepdims=True))).astype(x.dtype)


def _standardize_dw(a, x, *, shape, axis, eps, centre=True):
    _require(x, axis, np.empty(shape))
    if a.shape != x.shape:
        raise ValueError("shapes")
    mean, rstd = _statistics(x, axis, eps, centre)
    y = a * (x - mean) * rstd
    extra = y.ndim - len(shape)
    y = y.sum(tuple(range(extra)))
    over = tuple([k for k, n in enumerate(shape) if n == 1])
    return y.sum(over, keepdims=True).astype(x.dtype)


def _with_statistics(x, axis, eps, centre):
    """The keyword arguments mean and rstd of the derivatives of standardize, as its forward
    computes them.

    In double precision first: an error of a mean affects every element that it is subtracted from.
    """
    wide = op.astype(x, dtype=np.float64)
    mean = op.mean(wide, axis=axis, keepdims=True)
    mean = mean if centre else op.zeros_like(mean)
    square = op.mean(op.square(wide - mean), axis=axis, keepdims=True)
    kept = accumulator(x.dtype) or x.dtype
    rstd = 1 / np.sqrt(square + eps)
    return {"mean": op.astype(mean, dtype=kept), "rstd": op.astype(rstd, dtype=kept)}


def _call_dx(a, x, weight=None, *, axis, eps, centre=True):
    given = _with_statistics(x, axis, eps, centre)
    return op.standardize_dx(a, x, weight, **given, axis=axis, eps=eps, centre=centre)


def _call_dw(a, x, *, shape, axis, eps, centre=True):
    given = _with_statistics(x, axis, eps, centre)
    return op.standardize_dw(a, x, **given, shape=shape, axis=axis, eps=eps, centre=centre)


# (shape of x, of weight and bias, axis): rows, channels, groups, all axes
FORMS = [
    ((3, 4), (4,), (1,)),
    ((2, 3, 4), (3, 4), (1, 2)),
    ((4, 3), (3,), (0,)),
    ((3, 2, 4), (2, 1), (0, 2)),
    ((2, 2, 2, 3), (2, 2, 1), (2, 3)),
    ((5,), (5,), (0,)),
    ((0, 3), (3,), (1,)),
]
HOW = {"eps": 0.1}  # keeps 1/√(var + eps) near 1 for all drawn rows
BARE = [((shape,), {"axis": axis, **HOW}) for shape, _, axis in FORMS[:4]]
RMS = [((x, w), {"axis": axis, "centre": False, **HOW}) for x, w, axis in FORMS[:2]]

# Images of batch_norm in one block and in several, and rows of layer_norm in several.
CHANNELS = ((16, 32, 36, 37), (32, 1, 1), (0, 2, 3))
ROWS = ((700, 800), (800,), (1,))
LARGE = [((x, w, w), {"axis": axis, **HOW}) for x, w, axis in (CHANNELS, ROWS)] + [
    (((16, 16, 24, 25), (16, 1, 1), (16, 1, 1)), {"axis": (0, 2, 3), **HOW}),
    (((16, 16, 24, 25), (16, 1, 1)), {"axis": (0, 2, 3), "centre": False, **HOW}),
    # means over the axis along which the blocks are cut: their sums are added first
    (((14000, 40), (40,), (40,)), {"axis": (0,), **HOW}),
    # a weight for each position of a mean, a bias for each mean
    (((64, 50, 120), (50, 1), (64, 1, 1)), {"axis": (1,), **HOW}),
]


def balanced(rng, dtype, shape):
    """±1 in turn along each axis, and half of `normal`: the mean of any of them is near 0 compared
    with their spread. For nearly equal numbers, single precision has no digit of (x −
    mean)/spread."""
    sign = (-1.0) ** np.indices(shape).sum(0)
    return (sign + 0.5 * normal(rng, np.float64, shape)).astype(dtype)


def far_from_zero(rng, dtype, shape):
    """`normal`, but one channel's values lie around 10⁶, those of the others around 0. That is too
    far for finite differences. Values need the form that subtracts the mean first."""
    x = normal(rng, dtype, shape)
    if x.ndim == 4:
        x[:, 1] += 1e6
    return x


def _large(rng, dtype):
    yield from in_both_orders(LARGE)(rng, dtype)
    for sample in in_both_orders(LARGE[2:4], far_from_zero)(rng, dtype):
        yield Sample(f"far from 0, {sample.name}", sample.args, sample.params)


X = np.ones((2, 4))


def _refused(name, args, match, **params):
    return ErrorSample(name, args, ValueError, match, {"axis": (1,), **HOW, **params})


NO_AXIS = r"axis=\(0, 2\) names an axis that x \(2, 4\) does not have"
UNLIKE = r"weight \(3,\) must broadcast against x \(2, 4\)"
TWO_SHAPES = r"a \(2, 3\) and x \(2, 4\) must have the same shape"

register_op(
    "standardize",
    of_several(
        [((x, w, w), {"axis": axis, **HOW}) for x, w, axis in FORMS]
        + BARE
        + RMS
        + [
            (((4, 3), (4, 1), (3,)), {"axis": (0,), **HOW})
        ]  # a weight and a bias of different shapes
        + [(((4, 3), None, (4, 1)), {"axis": (0,), **HOW})]
    ),
    large=_large,
    reference=_standardize,
    dtypes=REAL,
    errors=[
        _refused("weight", (X, np.ones(3)), UNLIKE),
        _refused("axis", (X,), NO_AXIS, axis=(0, 2)),
    ],
    points=[
        Point(
            "a constant row is 0, and so is its gradient for cotangents all alike",
            (np.full((2, 3), 7.0),),
            np.zeros((2, 3)),
            (np.zeros((2, 3)),),
            {"axis": (1,), "eps": 1e-5},
        )
    ],
)
_LARGEST = "with an entry of 1e22 the others of its row are roundings of that one"
_STATISTICS = "the samples make mean and rstd without scaling; the check of standardize covers it"
register_op(
    "standardize_dx",
    of_several(
        [((x, x, w), {"axis": axis, **HOW}) for x, w, axis in FORMS]
        + [((x, x), {"axis": axis, **HOW}) for x, _, axis in FORMS[:4]]
        + [((x, x, w), {"axis": axis, "centre": False, **HOW}) for x, w, axis in FORMS[:2]]
    ),
    large=of_several([((x, x, w), {"axis": axis, **HOW}) for x, w, axis in (CHANNELS, ROWS)]),
    call=_call_dx,
    reference=_standardize_dx,
    skips={"K31": _STATISTICS, "K29": _LARGEST},
    dtypes=REAL,
    errors=[
        _refused("weight", (X, X, np.ones(3)), UNLIKE),
        _refused("two shapes", (np.ones((2, 3)), X), TWO_SHAPES),
    ],
)
register_op(
    "standardize_dw",
    of_several(
        [((x, x), {"axis": axis, "shape": w, **HOW}) for x, w, axis in FORMS]
        + [((x, x), {"axis": a, "shape": w, "centre": False, **HOW}) for x, w, a in FORMS[:2]]
    ),
    large=of_several(
        [((x, x), {"axis": axis, "shape": w, **HOW}) for x, w, axis in (CHANNELS, ROWS)]
    ),
    call=_call_dw,
    reference=_standardize_dw,
    skips={"K31": _STATISTICS},
    dtypes=REAL,
    errors=[
        _refused("shape", (X, X), UNLIKE.replace("weight", "shape"), shape=(3,)),
        _refused("two shapes", (np.ones((2, 3)), X), TWO_SHAPES, shape=(4,)),
    ],
)


# -- what users call -----------------------------------------------------------------------------


def _last(x, normalized_shape, *operands):
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
    if any(
        np.shape(w) != shape for w in (*operands, np.empty(x.shape[-len(shape) :])) if w is not None
    ):
        raise ValueError("shapes")
    return tuple(range(x.ndim - len(shape), x.ndim))


def _layer_norm(x, weight=None, bias=None, *, normalized_shape, eps=1e-5):
    return _standardize(x, weight, bias, axis=_last(x, normalized_shape, weight, bias), eps=eps)


def _rms_norm(x, weight=None, *, normalized_shape, eps=1e-5):
    axis = _last(x, normalized_shape, weight)
    return _standardize(x, weight, None, axis=axis, eps=eps, centre=False)


STATISTICS = (np.array([0.25, -0.5, 1.0]), np.array([0.5, 1.5, 2.0]))


def _by_channel(w, x):
    if x.ndim < 2 or w is not None and w.shape != (x.shape[1],):
        raise ValueError("shapes")
    return None if w is None else w.reshape((-1, *(1,) * (x.ndim - 2)))


def _batch_norm(x, weight=None, bias=None, *, eps=1e-5, statistics=None):
    w, b = _by_channel(weight, x), _by_channel(bias, x)
    if statistics is None:
        if x.size == x.shape[1]:
            raise ValueError("one value a channel")
        return _standardize(x, w, b, axis=(0, *range(2, x.ndim)), eps=eps)
    mean, var = (_by_channel(s, x) for s in statistics)
    y = (x - mean) / np.sqrt(var + eps)
    return ((y if w is None else y * w) + (0 if b is None else b)).astype(x.dtype)


def _instance_norm(x, weight=None, bias=None, *, eps=1e-5, statistics=None):
    if statistics is not None:
        return _batch_norm(x, weight, bias, eps=eps, statistics=statistics)
    w, b = _by_channel(weight, x), _by_channel(bias, x)
    if np.prod(x.shape[2:]) == 1:
        raise ValueError("one place")
    return _standardize(x, w, b, axis=tuple(range(2, x.ndim)), eps=eps)


def _group_norm(x, weight=None, bias=None, *, num_groups, eps=1e-5):
    weight, bias = _by_channel(weight, x), _by_channel(bias, x)
    if x.shape[1] % num_groups:
        raise ValueError("groups")
    size = x.size // max(x.shape[0] * num_groups, 1)
    parts = x.reshape((x.shape[0], num_groups, size))
    y = _standardize(parts, axis=(2,), eps=eps).reshape(x.shape)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).astype(x.dtype)


def _call_instance_norm(x, weight=None, bias=None, *, eps=1e-5, statistics=None, moving=None):
    mean, var = statistics or (None, None)
    own = statistics is None
    if moving is not None:
        return _moved(op.instance_norm, x, weight, bias, moving, use_input_stats=True, eps=eps)
    return op.instance_norm(x, mean, var, weight, bias, use_input_stats=own, eps=eps)


def _call_batch_norm(x, weight=None, bias=None, *, eps=1e-5, statistics=None, moving=None):
    mean, var = statistics or (None, None)
    if moving is not None:
        return _moved(op.batch_norm, x, weight, bias, moving, training=True, eps=eps)
    return op.batch_norm(x, mean, var, weight, bias, training=statistics is None, eps=eps)


def _moved(function, x, weight, bias, moving, **options):
    """The running statistics after a call in training, which no gradient shows."""
    mean, var = (Tensor(statistic.copy()) for statistic in STATISTICS)
    function(x, mean, var, weight, bias, momentum=moving, **options)
    return mean, var


def _moving(shape, momentum, axes, places_first=False):
    """A point: STATISTICS moved towards those of x, averaged over the batch if the axes omit it."""
    x = np.random.default_rng(0).uniform(-2, 2, shape)
    if places_first:
        order = (*range(2, x.ndim), 0, 1)
        x = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    mean, var = x.mean(axes), x.var(axes, ddof=1)
    if 0 not in axes:
        mean, var = mean.mean(0), var.mean(0)
    pairs = zip(STATISTICS, (mean, var), strict=True)
    moved = tuple([(1 - momentum) * old + momentum * new for old, new in pairs])
    name = f"statistics of {shape}, momentum {momentum}, places first: {places_first}"
    return Point(name, (x,), moved,
                 params={"moving": momentum})  # fmt: skip


def _wrong(name, x, match, error=ValueError, more=(), **params):
    return ErrorSample(name, (np.ones(x), *more), error, match, params)


register_op(
    "layer_norm",
    of_several(
        [((x, w, w), {"normalized_shape": w}) for x, w, _ in FORMS[:2]]
        + [(((2, 3, 4),), {"normalized_shape": 4}), (((2, 3),), {"normalized_shape": (2, 3)})]
        + [(((2, 4),), {"normalized_shape": 4, "eps": 0.1})],
        balanced,
    ),
    call=lambda x, w=None, b=None, *, normalized_shape, eps=1e-5: op.layer_norm(
        x, normalized_shape, w, b, eps
    ),
    reference=_layer_norm,
    dtypes=REAL,
    errors=[
        _wrong("shape", (2, 3), r"normalized_shape=\(4,\) must be the last.*\(2, 3\)",
               normalized_shape=4),
        _wrong("weight", (2, 3), r"weight must have shape normalized_shape=\(3,\), got \(2,\)",
               more=(np.ones(2),), normalized_shape=3),
        ErrorSample("integers", (np.ones((2, 3), int),), TypeError, "must be a real floating",
                    {"normalized_shape": 3}),
    ],
)  # fmt: skip
register_op(
    "rms_norm",
    of_several(
        [((x, w), {"normalized_shape": w, "eps": 1e-3}) for x, w, _ in FORMS[:2]]
        + [(((2, 3, 4),), {"normalized_shape": 4, "eps": 1e-5})],
        balanced,
    ),
    call=lambda x, w=None, *, normalized_shape, eps=None: op.rms_norm(x, normalized_shape, w, eps),
    reference=_rms_norm,
    dtypes=REAL,
    errors=[_wrong("shape", (2, 3), "must be the last axes", normalized_shape=(3, 2))],
)
register_op(
    "batch_norm",
    of_several(
        [((x, (3,), (3,)), {}) for x in ((4, 3), (2, 3, 4), (2, 3, 2, 2))]
        + [(((4, 3, 2),), {}), (((4, 3), (3,)), {"eps": 1e-2})]
        + [((x, (3,), (3,)), {"statistics": STATISTICS}) for x in ((4, 3), (2, 3, 2), (1, 3))]
        + [(((4, 3),), {"statistics": STATISTICS})],
        balanced,
    ),
    call=_call_batch_norm,
    reference=_batch_norm,
    dtypes=REAL,
    errors=[
        _wrong("one value", (1, 3), r"more than one value for each channel.*\(1, 3\)"),
        _wrong("weight", (2, 3), r"weight must have shape \(3,\).*got \(2,\)", more=(np.ones(2),)),
        _wrong("no channels", (3,), r"\(batch, channels, ...\), got shape \(3,\)"),
        _wrong("statistics", (2, 3), "give both", statistics=(np.ones(3), None)),
    ],
    points=[
        _moving((4, 3), 0.1, (0,)),
        _moving((2, 3, 2, 3), 0.7, (0, 2, 3)),
        *[_moving((16, 3, 24, 25), 0.05, (0, 2, 3), first) for first in (False, True)],
    ],
)
register_op(
    "instance_norm",
    of_several(
        [((x, (3,), (3,)), {}) for x in ((2, 3, 4), (1, 3, 5), (2, 3, 2, 2))]
        + [(((2, 3, 4),), {}), (((2, 3, 4), (3,)), {"eps": 0.1})]
        + [(((2, 3, 4), (3,), (3,)), {"statistics": STATISTICS})],
        balanced,
    ),
    call=_call_instance_norm,
    reference=_instance_norm,
    dtypes=REAL,
    errors=[_wrong("one place", (2, 3, 1), r"more than one place.*\(2, 3, 1\)")],
    points=[_moving((2, 3, 4), 0.1, (2,)), _moving((3, 3, 2, 3), 0.7, (2, 3))],
)
register_op(
    "group_norm",
    of_several(
        [((x, (4,), (4,)), {"num_groups": 2}) for x in ((1, 4, 4), (2, 4, 3), (2, 4, 2, 2))]
        + [(((2, 4, 3),), {"num_groups": n}) for n in (1, 4)]
        + [(((2, 4, 3),), {"num_groups": 2, "eps": 0.1})],
        balanced,
    ),
    call=lambda x, w=None, b=None, *, num_groups, eps=1e-5: op.group_norm(x, num_groups, w, b, eps),
    reference=_group_norm,
    dtypes=REAL,
    errors=[_wrong("groups", (2, 4), "must be an int that divides the 4 channels", num_groups=3)],
)
