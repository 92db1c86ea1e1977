"""Samples of losses of numbers and vectors: every reduction, kinks, and the safe ends."""

from dataclasses import replace

import numpy as np

from ..spec import ErrorSample, Point, Sample, register_op
from .activation import apart
from .elements import both
from .forms import REAL, normal, of_several
from .loss_classes import REDUCTIONS, reduced

# -- regression ------------------------------------------------------------------------------


def over_reductions(*shapes, make=normal, **params):
    return of_several([(shapes, {**params, **reduction}) for reduction in REDUCTIONS], make)


def between_kinks(**params):
    """x − target is at least 0.2 from 0 and every multiple of ½, where l1 and huber have kinks."""

    def samples(rng, dtype):
        for i, reduction in enumerate(REDUCTIONS):
            target, x = (rng.integers(-3, 3, (2, 3, 4)) + rng.uniform(-0.05, 0.05, (2, 3, 4))) / 2
            args = (x + 0.25).astype(dtype), target.astype(dtype)
            yield Sample(f"{i}: {reduction}", args, {**params, **reduction})

    return samples


def _with_weights(samples):
    """The samples; those with two arrays recur with positive weights as a third."""

    def weighted(rng, dtype):
        for sample in samples(rng, dtype):
            weight = rng.uniform(0.5, 2, sample.args[0].shape).astype(dtype)
            yield replace(sample, name=f"{sample.name}, weighted", args=(*sample.args, weight))

    return both(samples, weighted)


def _weight_last(name):
    """The loss with its weight as the third array: then it has a gradient too."""

    def call(x, target, weight=None, **params):
        import minigrad

        return getattr(minigrad, name)(x, target, weight=weight, **params)

    return call


def _same_shape(function, mean_by_weights=True):
    def reference(x, target, weight=None, reduction="mean", **params):
        _require_one_shape(x, target, *([] if weight is None else [weight]))
        y = function(x.astype(float), target.astype(float), **params)
        if weight is not None:
            y = y * weight
            if mean_by_weights and reduction == "mean":
                return np.asarray(y.sum() / weight.sum(dtype=float)).astype(x.dtype)
        return np.asarray(reduced(y, reduction)).astype(x.dtype)

    return reference


def _require_one_shape(*arrays):
    if len({x.shape for x in arrays}) > 1:
        raise ValueError("shapes differ")


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
    _with_weights(over_reductions((3, 4), (3, 4))),
    call=_weight_last("mse"),
    reference=_same_shape(lambda x, t: (x - t) ** 2),
    dtypes=REAL,
    errors=[_broadcast("mse")],
)
register_op(
    "l1",
    _with_weights(between_kinks()),
    call=_weight_last("l1"),
    reference=_same_shape(lambda x, t: np.abs(x - t)),
    dtypes=REAL,
    errors=[_broadcast("l1")],
    points=[Point("equal", (np.ones(2), np.ones(2)), 0.0, (np.zeros(2), np.zeros(2)), kink=True)],
)
register_op(
    "huber_terms",
    both(apart(-1, 1), apart(-2.5, 2.5, delta=2.5)),
    reference=lambda d, delta=1.0: _huber(d, np.zeros_like(d), delta),
    dtypes=REAL,
    mp=lambda d: d * d / 2 if abs(d) <= 1 else abs(d) - 0.5,
    points=[
        Point("at delta and beyond", (np.array([1.0, -3.0]),), [0.5, 2.5], (np.array([1.0, -1.0]),))
    ],
)
register_op(
    "huber",
    _with_weights(between_kinks(delta=0.5)),
    call=_weight_last("huber"),
    reference=_same_shape(_huber, mean_by_weights=False),
    dtypes=REAL,
    errors=[
        _broadcast("huber"),
        ErrorSample(
            "delta 0",
            (np.ones(2), np.ones(2)),
            ValueError,
            "delta must be positive, got 0",
            {"delta": 0},
        ),
    ],
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
    _require_one_shape(x, target)
    y = _bce_terms(x.astype(float), target.astype(float))
    return np.asarray(reduced(y if weight is None else y * weight, reduction)).astype(x.dtype)


def _bce_terms(p, t):
    x, target = p.astype(float), t.astype(float)
    return (-target * np.log(x) - (1 - target) * np.log1p(-x)).astype(p.dtype)


_ENDS = Point(
    "the ends are finite",
    (np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0, 0.0])),
    [0.0, 0.0, 100.0, 100.0],
    params={"reduction": "none"},
)
_CLAMPED = "NumPy's logarithm is infinite where the loss ends at 100"
_NEAR_ENDS = np.array([2.0**-30, 1 - 2.0**-30])
register_op(
    "bce_terms",
    of_several([(((3,), (3,)), {}), (((2, 3), (3,)), {})], _probabilities),
    reference=_bce_terms,
    nan_alone=_CLAMPED,
    points=[
        Point("beside the ends", (_NEAR_ENDS, np.full(2, 0.25)), None,
              ((_NEAR_ENDS - 0.25) / _NEAR_ENDS / (1 - _NEAR_ENDS),
               np.log1p(-_NEAR_ENDS) - np.log(_NEAR_ENDS))),
    ],
)  # fmt: skip
register_op(
    "bce",
    of_several(
        [
            *[(((3, 4), (3, 4)), params) for params in REDUCTIONS],
            (((3, 4), (3, 4), (4,)), {}),
        ],
        _probabilities,
    ),
    reference=_bce,
    constants=(2,),
    points=[_ENDS],
    errors=[
        _broadcast("bce"),
        *[
            ErrorSample(
                f"{x} is no probability",
                (np.array([0.5, x]), np.ones(2)),
                ValueError,
                f"must hold probabilities, from 0 to 1; got {min(x, 0.5)} to {max(x, 0.5)}",
            )
            for x in (-0.5, 1.5)
        ],
    ],
)


def _bce_with_logits(x, target, weight=None, reduction="mean", pos_weight=None):
    _require_one_shape(x, target)
    x, t = x.astype(float), target.astype(float)
    positive = t if pos_weight is None else t * pos_weight
    y = positive * np.logaddexp(0, -x) + (1 - t) * np.logaddexp(0, x)
    y = y if weight is None else y * weight
    return np.asarray(reduced(y, reduction)).astype(target.dtype)


_FAR_LOGITS = Point(
    "far ends",
    (np.array([1000.0, -1000.0, 1000.0, -1000.0]), np.array([1.0, 0.0, 0.0, 1.0])),
    [0.0, 0.0, 1000.0, 1000.0],
    ([0.0, 0.0, 1.0, -1.0], [-1000.0, 1000.0, -1000.0, 1000.0]),
)


def _logit_terms(x, t):
    wide = x.astype(float)
    return (t * np.logaddexp(0, -wide) + (1 - t) * np.logaddexp(0, wide)).astype(
        np.result_type(x, t)
    )


register_op(
    "logit_terms",
    of_several([(((3,), (3,)), {}), (((2, 3), (3,)), {}), (((), ()), {})]),
    reference=_logit_terms,
    nan_alone="t log 2 and (1 − t) log 2 of the reference cancel for t of 1e308; ours is log 2",
    points=[_FAR_LOGITS],
)
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
    points=[replace(_FAR_LOGITS, params={"reduction": "none"})],
    errors=[_broadcast("bce_with_logits")],
)


def _kl_div(x, target, reduction="mean", log_target=False):
    _require_one_shape(x, target)
    x, t = x.astype(float), target.astype(float)
    y = np.exp(t) * (t - x) if log_target else t * (np.log(t) - x)
    y = y.sum() / len(x) if reduction == "batchmean" else reduced(y, reduction)
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
    points=[
        Point("0 log 0", (np.array([-1.0]), np.array([0.0])), 0.0),
        Point(
            "log 0 on both sides",
            (np.array([-np.inf, -1.0]), np.array([-np.inf, -1.0])),
            0.0,
            ([0.0, -np.exp(-1) / 2], [0.0, np.exp(-1) / 2]),
            {"log_target": True},
        ),
    ],
    errors=[_broadcast("kl_div")],
    nan_alone="NumPy gives NaN for 0 log 0; the op gives 0",
)

# -- margins ---------------------------------------------------------------------------------


def _hinge_samples(rng, dtype):
    for params in (*REDUCTIONS, {"margin": 0.5}):
        x = normal(rng, dtype, (3, 4))
        yield Sample(f"{params}", (x, rng.choice([-1, 1], (3, 4))), params)


def _hinge(x, target, margin=1.0, reduction="mean"):
    _require_one_shape(x, target)
    y = np.maximum(0, margin - target * x.astype(float))
    return np.asarray(reduced(y, reduction)).astype(x.dtype)


register_op(
    "hinge",
    _hinge_samples,
    reference=_hinge,
    errors=[_broadcast("hinge")],
    points=[
        Point("at the kink", (np.array([1.0]), np.array([1])), 0.0, ([0.0],), kink=True),
    ],
)


def _cosine_samples(rng, dtype):
    for params in REDUCTIONS:
        a, b = normal(rng, dtype, (4, 3)), normal(rng, dtype, (4, 3))
        yield Sample(f"{params}", (a, b, np.array([1, -1, 1, -1])), {"margin": -2.0, **params})
    a, b = normal(rng, dtype, (2, 1, 3, 4))
    yield Sample("three axes", (a, b, np.array([[1, 1, -1]])), {"margin": -2.0})
    yield Sample("other targets", (a[0], b[0], np.array([0, 1, 2])), {"margin": -2.0})
    a = rng.uniform(0.5, 1, (2, 3)).astype(dtype)
    b = (a[::-1] * np.array([[1], [-1]])).astype(dtype)  # cosines near 1 and −1
    yield Sample("beyond a margin and within", (a, b, np.array([-1, -1])), {"margin": 0.3})
    yield Sample("the margin left out", (a, b, np.array([-1, -1])))


def _cosine_embedding(a, b, target, margin=0.0, reduction="mean"):
    _require_one_shape(a, b)
    if not a.ndim or target.shape not in (a.shape[:-1], ()):
        raise ValueError("vectors along the last axis, a target for each")
    dtype, a, b = a.dtype, a.astype(float), b.astype(float)
    cosine = (a * b).sum(-1) / np.sqrt(((a * a).sum(-1) + 1e-12) * ((b * b).sum(-1) + 1e-12))
    y = np.select([target == 1, target == -1], [1 - cosine, np.maximum(0, cosine - margin)], 0)
    return np.asarray(reduced(y, reduction)).astype(dtype)


register_op(
    "cosine_embedding",
    _cosine_samples,
    reference=_cosine_embedding,
    dtypes=REAL,
    points=[
        Point(
            "a zero vector",
            (np.zeros((1, 2)), np.ones((1, 2)), np.array([1])),
            1.0,
        )
    ],
)


def _triplet(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction="mean"):
    if anchor.ndim == 0 or len({x.shape[-1:] for x in (anchor, positive, negative)}) > 1:
        raise ValueError("vectors along the last axis")

    def distance(a, b):
        return (np.abs(a.astype(float) - b.astype(float) + eps) ** p).sum(-1) ** (1 / p)

    far = distance(anchor, negative)
    far = np.minimum(far, distance(positive, negative)) if swap else far
    y = np.maximum(0, distance(anchor, positive) - far + margin)
    return np.asarray(reduced(y, reduction)).astype(anchor.dtype)


register_op(
    "triplet",
    of_several(
        [
            *[(((3, 4), (3, 4), (3, 4)), {"margin": 4.0, **params}) for params in REDUCTIONS],
            (((3, 4), (4,), (1, 4)), {"margin": 4.0, "p": 3.0}),
            (((6, 4), (6, 4), (6, 4)), {"margin": 4.0, "eps": 0.1, "swap": True}),
            (((8, 3), (8, 3), (8, 3)), {"margin": 0.3, "reduction": "none"}),  # some beyond it
            (((8, 3), (8, 3), (8, 3)), {}),
        ]
    ),
    reference=_triplet,
    dtypes=REAL,
    errors=[
        ErrorSample(
            "vectors of one number with longer ones",
            (np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 1))),
            ValueError,
            r"triplet: needs vectors of one length along the last axis, got shapes .*\(2, 1\)",
        )
    ],
)


def _times_log(q, l):
    with np.errstate(invalid="ignore"):
        return np.where(q == 0, 0, q * l).astype(np.result_type(q, l))


register_op(
    "times_log",
    of_several([(((2, 3), (2, 3)), {}), (((3,), (2, 1)), {}), (((), (2,)), {})]),
    reference=_times_log,
    dtypes=REAL,
    points=[
        Point("0 times −∞", (np.array([0.0, 2.0]), np.array([-np.inf, -1.0])), [0.0, -2.0],
              ([-np.inf, -1.0], [0.0, 2.0])),
    ],
)  # fmt: skip
