"""Samples of losses: every reduction, weights, ignored samples, smoothing, and the safe ends."""

import numpy as np

from ..spec import ErrorSample, Point, Sample, register_op
from .forms import REAL, normal, of_several

REDUCTIONS = ({}, {"reduction": "sum"}, {"reduction": "none"})


def _log_softmax(x):
    z = x - x.max(1, keepdims=True)
    return z - np.log(np.exp(z).sum(1, keepdims=True))


def _reduced(y, reduction, count=None):
    if reduction == "none":
        return y
    return y.sum() / (1 if reduction == "sum" else y.size if count is None else count)


# -- class indices ---------------------------------------------------------------------------


def _nll(x, target, weight=None, ignore_index=-100, reduction="mean"):
    if x.ndim == 1:
        y = _nll(x[None], target[None], weight, ignore_index, reduction)
        return y.reshape(()) if reduction == "none" else y
    if target.shape != (*x.shape[:1], *x.shape[2:]):
        raise ValueError("one class index for each sample")
    kept = target != ignore_index
    index = np.where(kept, target, 0)
    w = kept * (1 if weight is None else weight[index])
    y = np.where(w == 0, 0, -w * np.take_along_axis(x, index[:, None], 1)[:, 0])
    return _reduced(y, reduction, w.sum())


def _smooth(x, target, weight, ignore_index, reduction):
    """The mean over the classes of −weight x, divided as nll's mean is."""
    kept = target != ignore_index
    w = np.ones(x.shape[1]) if weight is None else weight
    y = -1 * kept * np.tensordot(x, w / x.shape[1], (1, 0))
    return _reduced(y, reduction, (kept * w[np.where(kept, target, 0)]).sum())


def _cross_entropy(
    x, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0
):
    if x.ndim == 1:
        y = _cross_entropy(x[None], target[None], weight, ignore_index, reduction, label_smoothing)
        return y.reshape(()) if reduction == "none" else y
    dtype, x = x.dtype, _log_softmax(x.astype(float))
    if target.dtype.kind in "iu":
        sharp = _nll(x, target, weight, ignore_index, reduction)
        y = (1 - label_smoothing) * sharp
        if label_smoothing:
            y = y + label_smoothing * _smooth(x, target, weight, ignore_index, reduction)
        return np.asarray(y).astype(dtype)
    if target.shape != x.shape:
        raise ValueError("probabilities of x's shape")
    q = (1 - label_smoothing) * target.astype(float) + label_smoothing / x.shape[1]
    if weight is not None:
        q = q * weight.reshape((-1, *(1,) * (x.ndim - 2)))
    y = -(q * x).sum(1)
    return np.asarray(_reduced(y, reduction, x.size / x.shape[1])).astype(dtype)


def _with_indices(rng, dtype, smoothing):
    """Calls with class indices: (name, (x, target) or (x, target, weight), parameters)."""
    weight = rng.uniform(0.5, 1.5, 4).astype(dtype)
    for shape in ((5, 4), (2, 4, 3), (4,)):
        x = normal(rng, dtype, shape)
        target = np.asarray(rng.integers(0, 4, () if len(shape) == 1 else (shape[0], *shape[2:])))
        for params in REDUCTIONS:
            yield f"indices {shape} {params}", (x, target), params
        if target.ndim:
            target = target.copy()
            target.flat[:2] = 2, -100
            yield f"ignored {shape}", (x, target), {}
            yield f"ignored class 2 {shape}", (x, np.abs(target) % 4), {"ignore_index": 2}
            for params in REDUCTIONS:
                yield f"weighted {shape} {params}", (x, target, weight), params
                if smoothing:
                    smooth = {**params, "label_smoothing": 0.1}
                    yield f"smoothed {shape} {smooth}", (x, target), smooth
                    yield f"both {shape} {smooth}", (x, target, weight), smooth


def _cross_entropy_samples(rng, dtype):
    for name, args, params in _with_indices(rng, dtype, smoothing=True):
        yield Sample(name, args, params)
    for shape in ((3, 4), (2, 4, 2), (4,)):
        x = normal(rng, dtype, shape)
        q = np.exp(_log_softmax(rng.standard_normal((1, *shape) if len(shape) == 1 else shape)))
        q = q.reshape(shape).astype(dtype)
        for params in (*REDUCTIONS, {"label_smoothing": 0.2}):
            yield Sample(f"probabilities {shape} {params}", (x, q), params)


def _nll_samples(rng, dtype):
    for name, args, params in _with_indices(rng, dtype, smoothing=False):
        yield Sample(name, args, params)


def _target_errors(name):
    x = np.zeros((3, 4))
    return [
        ErrorSample(
            "index out of range",
            (x, np.array([0, 4, 1])),
            ValueError,
            r"target has indices from 0 to 4, but x \(3, 4\) has 4 classes.*0\.\.3",
        ),
        ErrorSample(
            "negative index",
            (x, np.array([0, -1, 1])),
            ValueError,
            r"target has indices from -1 to 1.*ignore_index=-100",
        ),
        ErrorSample(
            "one target too few",
            (x, np.array([0, 1])),
            ValueError,
            r"target must have shape \(3,\).*got \(2,\)",
        ),
        ErrorSample(
            "weight of another length",
            (x, np.array([0, 1, 2]), np.ones(3)),
            ValueError,
            r"weight must have shape \(4,\), got \(3,\)",
        ),
        ErrorSample(
            "unknown reduction",
            (x, np.array([0, 1, 2])),
            ValueError,
            f"{name}: reduction must be 'mean', 'sum' or 'none', got 'avg'",
            {"reduction": "avg"},
        ),
    ]


_SIZES = "a class index must fit the number of classes, which the size matrix changes"
register_op(
    "cross_entropy",
    _cross_entropy_samples,
    reference=_cross_entropy,
    dtypes=REAL,
    constants=(2,),
    skips={"K17": _SIZES},
    errors=[
        *_target_errors("cross_entropy"),
        ErrorSample(
            "probabilities of another shape",
            (np.zeros((3, 4)), np.zeros((3, 5))),
            ValueError,
            r"probabilities of x's shape \(3, 4\); got float64 \(3, 5\)",
        ),
    ],
    points=[
        Point(
            "large logits",
            (np.array([[1000.0, 0.0], [0.0, 1000.0]]), np.array([0, 0])),
            1000.0,
            ([[0.0, 0.0], [-1.0, 1.0]],),
            {"reduction": "sum"},
        ),
        Point(
            "an ignored row that holds NaN",
            (np.array([[np.nan, 0.0], [0.0, 0.0]]), np.array([-100, 0])),
            np.log(2),
            ([[0.0, 0.0], [-0.5, 0.5]],),
        ),
        Point(
            "a class that is masked out",
            (np.array([[-np.inf, 0.0, 0.0]]), np.array([1])),
            np.log(2),
            ([[0.0, -0.5, 0.5]],),
        ),
    ],
)
register_op(
    "nll",
    _nll_samples,
    reference=_nll,
    constants=(2,),
    skips={"K17": _SIZES},
    errors=_target_errors("nll"),
)


def _primitive_samples(rng, dtype):
    for name, args, params in _with_indices(rng, dtype, smoothing=False):
        if args[0].ndim > 1:
            yield Sample(name, args, params)


register_op(
    "cross_entropy_index",
    _primitive_samples,
    reference=_cross_entropy,
    dtypes=REAL,
    skips={"K17": _SIZES},
)
register_op("nll_index", _primitive_samples, reference=_nll, skips={"K17": _SIZES})


def _dx_samples(rng, dtype):
    for shape in ((3, 4), (2, 3, 2)):
        index = rng.integers(0, shape[1], (shape[0], 1, *shape[2:]))
        a = normal(rng, dtype, (shape[0], *shape[2:]))
        yield Sample(f"{shape}", (a, normal(rng, dtype, shape), index))


def _cross_entropy_dx(a, x, index):
    """The op with the lse of this x, which the op takes as a constant that is at hand."""
    from ...core.registry import op

    lse = op.logsumexp(x, axis=1, keepdims=True)
    return op.cross_entropy_dx(a, x, lse, index)


def _cross_entropy_dx_reference(a, x, index):
    p = np.exp(_log_softmax(x.astype(float)))
    places = np.arange(x.shape[1]).reshape((1, -1, *(1,) * (x.ndim - 2)))
    return ((p - (places == index)) * a.astype(float)[:, None]).astype(x.dtype)


register_op(
    "cross_entropy_dx",
    _dx_samples,
    call=_cross_entropy_dx,
    reference=_cross_entropy_dx_reference,
    skips={"K17": _SIZES, "K12": "softmax of inf is NaN in all its row, here in its own place"},
)


def _pick_samples(rng, dtype):
    for shape in ((3, 4), (2, 3, 2)):
        index = rng.integers(0, shape[1], (shape[0], 1, *shape[2:]))
        yield Sample(f"{shape}", (normal(rng, dtype, shape), index))


def _spread_samples(rng, dtype):
    for shape in ((3, 4), (2, 3, 2)):
        index = rng.integers(0, shape[1], (shape[0], 1, *shape[2:]))
        a = normal(rng, dtype, (shape[0], *shape[2:]))
        yield Sample(f"{shape}", (a, index), {"classes": shape[1]})


def _nll_spread(a, index, classes):
    places = np.arange(classes).reshape((1, -1, *(1,) * (a.ndim - 1)))
    return np.where(places == index, -a[:, None], 0).astype(a.dtype)


register_op(
    "nll_pick",
    _pick_samples,
    reference=lambda x, index: -np.take_along_axis(x, index, 1)[:, 0],
    dtypes=REAL,
    skips={"K17": _SIZES},
)
register_op(
    "nll_spread", _spread_samples, reference=_nll_spread, dtypes=REAL, skips={"K17": _SIZES}
)


def _smoothed_samples(rng, dtype):
    target = np.array([0, 2, 1])
    params = {"shape": (3, 4), "dtype": np.dtype(dtype), "smoothing": 0.2}
    yield Sample("targets", (target,), params)


register_op(
    "smoothed_targets",
    _smoothed_samples,
    reference=lambda target, shape, dtype, smoothing: (
        (np.eye(4)[target] * (1 - smoothing) + smoothing / 4) / 3
    ).astype(dtype),
    dtypes=("float64", "float32"),
    differentiable=False,
    skips={"K17": _SIZES},
)

# -- regression ------------------------------------------------------------------------------


def over_reductions(*shapes, make=normal, **params):
    return of_several([(shapes, {**params, **reduction}) for reduction in REDUCTIONS], make)


def _same_shape(function):
    def reference(x, target, reduction="mean", **params):
        if x.shape != target.shape:
            raise ValueError("shapes differ")
        y = function(x.astype(float), target.astype(float), **params)
        return np.asarray(_reduced(y, reduction)).astype(x.dtype)

    return reference


def _broadcast(name):
    return ErrorSample(
        "shapes that would broadcast",
        (np.ones((3, 1)), np.ones(3)),
        ValueError,
        rf"{name}: x \(3, 1\) and target \(3,\) must have the same shape",
    )


def _huber(x, target, delta=1.0):
    d = np.abs(x - target)
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2))


register_op(
    "mse",
    over_reductions((3, 4), (3, 4)),
    reference=_same_shape(lambda x, t: (x - t) ** 2),
    dtypes=REAL,
    errors=[_broadcast("mse")],
)
register_op(
    "l1",
    over_reductions((3, 4), (3, 4)),
    reference=_same_shape(lambda x, t: np.abs(x - t)),
    dtypes=REAL,
    errors=[_broadcast("l1")],
    points=[Point("equal", (np.ones(2), np.ones(2)), 0.0, (np.zeros(2), np.zeros(2)), kink=True)],
)
register_op(
    "huber",
    over_reductions((3, 4), (3, 4), delta=0.7),
    reference=_same_shape(_huber),
    dtypes=REAL,
    errors=[_broadcast("huber")],
    points=[
        Point(
            "at delta and beyond",
            (np.array([1.0, 3.0]), np.zeros(2)),
            [0.5, 2.5],
            ([1.0, 1.0], [-1.0, -1.0]),
            {"reduction": "none"},
        )
    ],
)

# -- probabilities ---------------------------------------------------------------------------


def _probabilities(rng, dtype, shape):
    return rng.uniform(0.1, 0.9, shape).astype(dtype)


def _bce(x, target, weight=None, reduction="mean"):
    y = -target * np.log(x) - (1 - target) * np.log1p(-x)
    return np.asarray(_reduced(y if weight is None else y * weight, reduction)).astype(x.dtype)


def _bce_terms(p, t):
    return _bce(p.astype(float), t.astype(float), reduction="none").astype(p.dtype)


_ENDS = Point(
    "the ends are finite",
    (np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0, 0.0])),
    [0.0, 0.0, 100.0, 100.0],
    params={"reduction": "none"},
)
_CLAMPED = "NumPy's logarithm is infinite where the loss ends at 100"
register_op(
    "bce_terms",
    of_several([(((3,), (3,)), {}), (((2, 3), (3,)), {})], _probabilities),
    reference=_bce_terms,
    skips={"K12": _CLAMPED, "K17": "the size matrix draws values outside 0..1"},
)
register_op(
    "bce",
    over_reductions((3, 4), (3, 4), make=_probabilities),
    reference=_bce,
    points=[_ENDS],
    skips={"K12": _CLAMPED, "K17": "the size matrix draws values outside 0..1"},
)


def _bce_with_logits(x, target, weight=None, reduction="mean", pos_weight=None):
    x, t = x.astype(float), target.astype(float)
    positive = t if pos_weight is None else t * pos_weight
    y = positive * np.logaddexp(0, -x) + (1 - t) * np.logaddexp(0, x)
    y = y if weight is None else y * weight
    return np.asarray(_reduced(y, reduction)).astype(target.dtype)


register_op(
    "bce_with_logits",
    of_several(
        [
            *[(((3, 4), (3, 4)), params) for params in REDUCTIONS],
            (((3, 4), (3, 4), (4,)), {}),
            (((3, 4), (3, 4)), {"pos_weight": 2.0}),
        ]
    ),
    reference=_bce_with_logits,
    points=[
        Point(
            "far ends",
            (np.array([1000.0, -1000.0, 1000.0, -1000.0]), np.array([1.0, 0.0, 0.0, 1.0])),
            [0.0, 0.0, 1000.0, 1000.0],
            ([0.0, 0.0, 1.0, -1.0], [-1000.0, 1000.0, -1000.0, 1000.0]),
            {"reduction": "none"},
        )
    ],
)


def _kl_div(x, target, reduction="mean", log_target=False):
    x, t = x.astype(float), target.astype(float)
    y = np.exp(t) * (t - x) if log_target else t * (np.log(t) - x)
    y = y.sum() / len(x) if reduction == "batchmean" else _reduced(y, reduction)
    return np.asarray(y).astype(target.dtype)


register_op(
    "kl_div",
    of_several(
        [
            (((3, 4), (3, 4)), params)
            for params in (*REDUCTIONS, {"reduction": "batchmean"}, {"log_target": True})
        ],
        _probabilities,
    ),
    reference=_kl_div,
    points=[Point("0 log 0", (np.array([-1.0]), np.array([0.0])), 0.0)],
    skips={
        "K12": "NumPy gives NaN for the 0 log 0 that is 0 here",
        "K17": "the size matrix draws negative targets, whose logarithm is NaN",
    },
)

# -- margins ---------------------------------------------------------------------------------


def _hinge_samples(rng, dtype):
    for params in (*REDUCTIONS, {"margin": 0.5}):
        x = normal(rng, dtype, (3, 4))
        yield Sample(f"{params}", (x, rng.choice([-1, 1], (3, 4))), params)


register_op(
    "hinge",
    _hinge_samples,
    reference=lambda x, target, margin=1.0, reduction="mean": np.asarray(
        _reduced(np.maximum(0, margin - target * x.astype(float)), reduction)
    ).astype(x.dtype),
    points=[
        Point("at the kink", (np.array([1.0]), np.array([1])), 0.0, ([0.0],), kink=True),
    ],
)


def _cosine_samples(rng, dtype):
    for params in REDUCTIONS:
        a, b = normal(rng, dtype, (4, 3)), normal(rng, dtype, (4, 3))
        yield Sample(f"{params}", (a, b, np.array([1, -1, 1, -1])), {"margin": -2.0, **params})


def _cosine_embedding(a, b, target, margin=0.0, reduction="mean"):
    if not (a.ndim and b.ndim):
        raise ValueError("vectors along the last axis")
    dtype, a, b = a.dtype, a.astype(float), b.astype(float)
    cosine = (a * b).sum(-1) / np.sqrt(((a * a).sum(-1) + 1e-12) * ((b * b).sum(-1) + 1e-12))
    y = np.where(target == 1, 1 - cosine, np.maximum(0, cosine - margin))
    return np.asarray(_reduced(y, reduction)).astype(dtype)


register_op(
    "cosine_embedding",
    _cosine_samples,
    reference=_cosine_embedding,
    skips={"K19": "the cosine of a vector with itself is 1: its gradient is rounding alone"},
    points=[
        Point(
            "a zero vector",
            (np.zeros((1, 2)), np.ones((1, 2)), np.array([1])),
            1.0,
        )
    ],
)


def _triplet(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, reduction="mean"):
    if anchor.ndim == 0:
        raise ValueError("vectors along the last axis")

    def distance(a, b):
        return (np.abs(a.astype(float) - b.astype(float) + eps) ** p).sum(-1) ** (1 / p)

    y = np.maximum(0, distance(anchor, positive) - distance(anchor, negative) + margin)
    return np.asarray(_reduced(y, reduction)).astype(anchor.dtype)


register_op(
    "triplet",
    of_several(
        [
            *[(((3, 4), (3, 4), (3, 4)), {"margin": 4.0, **params}) for params in REDUCTIONS],
            (((3, 4), (3, 4), (3, 4)), {"margin": 4.0, "p": 3.0}),
        ]
    ),
    reference=_triplet,
)
