"""Samples of losses on classes: every reduction, weights, ignored samples, smoothing."""

from dataclasses import replace

import numpy as np

from ..spec import ErrorSample, Point, Sample, register_op
from .activation import _log_softmax as log_softmax
from .forms import REAL, normal

REDUCTIONS = ({}, {"reduction": "sum"}, {"reduction": "none"})


def _log_softmax(x):
    return log_softmax(x, 1)


def reduced(y, reduction, count=None):
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
    return reduced(y, reduction, w.sum())


def _smooth(x, target, weight, ignore_index, reduction):
    """The mean over the classes of −weight x, divided like nll's mean."""
    kept = target != ignore_index
    w = np.ones(x.shape[1]) if weight is None else weight
    y = -1 * kept * np.tensordot(x, w / x.shape[1], (1, 0))
    return reduced(y, reduction, (kept * w[np.where(kept, target, 0)]).sum())


def _cross_entropy(
    x, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0
):
    if x.ndim == 1:
        y = _cross_entropy(x[None], target[None], weight, ignore_index, reduction, label_smoothing)
        return y.reshape(()) if reduction == "none" else y
    dtype, x = x.dtype, _log_softmax(x.astype(float))
    if target.dtype.kind in "iu":
        sharp = _nll(x, target, weight, ignore_index, reduction)
        y = (1 - label_smoothing) * sharp if label_smoothing != 1 else 0  # without 0 · ∞
        if label_smoothing:
            y = y + label_smoothing * _smooth(x, target, weight, ignore_index, reduction)
        return np.asarray(y).astype(dtype)
    if target.shape != x.shape:
        raise ValueError("probabilities of x's shape")
    q = (1 - label_smoothing) * target.astype(float) + label_smoothing / x.shape[1]
    if weight is not None:
        q = q * weight.reshape((-1, *(1,) * (x.ndim - 2)))
    y = -(q * x).sum(1)
    return np.asarray(reduced(y, reduction, x.size / x.shape[1])).astype(dtype)


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
        if len(shape) > 1:
            weight = rng.uniform(0.5, 1.5, shape[1]).astype(dtype)
            yield Sample(f"probabilities {shape} weighted", (x, q, weight))
    yield Sample("nothing but smoothing", (x, np.array(1)), {"label_smoothing": 1.0})
    yield Sample("probabilities all smoothed", (x, q), {"label_smoothing": 1})


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
            r"weight must have shape \(4,\), one entry for each class, got \(3,\)",
        ),
        ErrorSample(
            "unknown reduction",
            (x, np.array([0, 1, 2])),
            ValueError,
            f"{name}: reduction must be 'mean', 'sum' or 'none', got 'avg'",
            {"reduction": "avg"},
        ),
        *[
            ErrorSample(
                f"scores of {scores.dtype} {scores.shape}",
                (scores, np.array([0])),
                ValueError,
                rf"{name}: x must hold floats \(N, C, ...\), .* got {scores.dtype}",
            )
            for scores in (np.ones((1, 2), int), np.ones(()))
        ],
    ]


NO_TARGET = Point(
    "no target that counts",
    (np.array([[1.0, 0.0], [np.nan, 2.0]]), np.array([-100, -100])),
    np.nan,
    (np.zeros((2, 2)),),
)
_INNER = "losses call it, and refuse class weights that require a gradient"
_SIZES = "a class index must fit the number of classes, which the size matrix changes"
register_op(
    "cross_entropy",
    _cross_entropy_samples,
    reference=_cross_entropy,
    dtypes=REAL,
    constants=(2,),
    errors=[
        *_target_errors("cross_entropy"),
        ErrorSample(
            "smoothed by more than all",
            (np.ones((1, 2)), np.array([0])),
            ValueError,
            "label_smoothing",
            {"label_smoothing": 1.5},
        ),
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
        NO_TARGET,
        replace(NO_TARGET, name="no target, smoothed", params={"label_smoothing": 0.1}),
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
    errors=_target_errors("nll"),
    points=[NO_TARGET],
)


def _prepared(rng, dtype, shapes=((4, 3), (2, 4, 3))):
    """(x, index, scale) with one ignored sample."""
    for shape in shapes:
        size = (shape[0], *shape[2:])
        scale = rng.uniform(0.5, 1.5, size).astype(dtype)
        scale.flat[1] = 0
        yield normal(rng, dtype, shape), rng.integers(0, shape[1], size)[:, None], scale


def _prepared_samples(rng, dtype):
    for x, index, scale in _prepared(rng, dtype):
        for total in (True, False):
            yield Sample(f"{x.shape} {total}", (x, index, scale), {"total": total})


def _prepared_rows(rng, dtype):
    """Rows long enough for a compiled form."""
    for x, index, scale in _prepared(rng, dtype, [(700, 65)]):
        yield Sample(f"{x.shape}", (x, index, scale))


def _scaled(function):
    def reference(x, index, scale, total=True):
        y = -scale * np.take_along_axis(function(x.astype(float)), index, 1)[:, 0]
        return np.asarray(y.sum() if total else y).astype(x.dtype)

    return reference


register_op(
    "cross_entropy_index",
    _prepared_samples,
    large=_prepared_rows,
    reference=_scaled(_log_softmax),
    constants=(2,),
    dtypes=("float64", "float32"),
    skips={"K17": _SIZES, "K18": _SIZES, "K33": _INNER},
)
register_op(
    "nll_index",
    _prepared_samples,
    reference=_scaled(np.asarray),
    constants=(2,),
    dtypes=("float64", "float32"),
    skips={"K17": _SIZES, "K33": _INNER},
)


def _dx_samples(rng, dtype):
    for shape in ((3, 4), (2, 3, 2), (2, 3, 1, 2)):
        index = rng.integers(0, shape[1], (shape[0], 1, *shape[2:]))
        a = normal(rng, dtype, (shape[0], *shape[2:]))
        yield Sample(f"{shape}", (a, normal(rng, dtype, shape), index))


def _cross_entropy_dx(a, x, index):
    """The op with the lse of this x, which the op takes as a constant."""
    from ...engine.registry import op

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
    skips={
        "K17": _SIZES,
        "K12": "softmax of inf makes its whole row NaN, this op only its own position",
    },
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


def _nll_pick(x, index):
    if index.shape != (len(x), 1, *x.shape[2:]):
        raise ValueError("an index for each sample")
    return -np.take_along_axis(x, index, 1)[:, 0]


register_op("nll_pick", _pick_samples, reference=_nll_pick, dtypes=REAL)
register_op(
    "nll_spread", _spread_samples, reference=_nll_spread, dtypes=REAL, skips={"K17": _SIZES}
)


def _class_samples(rng, dtype):
    target, weight = np.array([0, 2, -100]), rng.uniform(0.5, 1.5, 4).astype(dtype)
    for reduction in ("mean", "sum"):
        params = {"shape": (3, 4), "dtype": np.dtype(dtype), "reduction": reduction}
        yield Sample(reduction, (target, weight), {**params, "scores": "the logits"})
        yield Sample(f"{reduction}, 2 ignored", (target[:2], weight),
                     {**params, "shape": (2, 4), "ignore_index": 2})  # fmt: skip


def _class_targets(target, weight, shape, dtype, reduction, ignore_index=-100, scores="x"):
    kept = (target != ignore_index).astype(dtype)
    index = np.where(target == ignore_index, 0, target)
    scale = kept * weight[index]
    total = scale.sum() if reduction == "mean" else 1
    return index[:, None], (kept / total).astype(dtype), (scale / total).astype(dtype)


register_op(
    "class_targets",
    _class_samples,
    reference=_class_targets,
    dtypes=("float64", "float32"),
    differentiable=False,
    skips={"K17": _SIZES, "K33": _INNER},
)


def _smoothed_samples(rng, dtype):
    for _, index, scale in _prepared(rng, dtype):
        kept = (scale != 0).astype(dtype)
        args, params = (index, kept, scale), {"classes": 5, "smoothing": 0.2}
        yield Sample(f"{scale.shape}", args, params)
        for size in ((5,), (len(scale), 5)):
            weight = rng.uniform(0.5, 1.5, size).astype(dtype)
            yield Sample(f"{scale.shape} weights {size}", (*args, weight), params)


def _smoothed(index, kept, scale, weight=None, *, classes, smoothing):
    places = np.arange(classes).reshape((1, -1, *(1,) * (kept.ndim - 1)))
    weight = np.ones(classes) if weight is None else weight
    spread = kept[:, None] * weight.reshape((*weight.shape, *(1,) * (kept.ndim - 1)))
    q = (places == index) * (1 - smoothing) * scale[:, None] + smoothing / classes * spread
    return q.astype(scale.dtype)


register_op(
    "smoothed_targets",
    _smoothed_samples,
    reference=_smoothed,
    dtypes=("float64", "float32"),
    differentiable=False,
    skips={"K12": "weights are finite", "K17": _SIZES, "K33": _INNER},
)
