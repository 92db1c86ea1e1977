"""Samples of losses on classes by a linear map, whose logits are never all in memory."""

import numpy as np

from ...backends.dtypes import accumulator, common_dtype
from ...engine.registry import op
from ..spec import ErrorSample, Point, Sample, register_op
from .forms import REAL, normal
from .loss_classes import REDUCTIONS, _cross_entropy, _log_softmax

N, FEATURES, CLASSES = 4, 2, 3
_LIMITS = "a row with +∞ among its logits is its limit, where the formula has ∞ − ∞"
_SIZES = "a class index must fit the number of classes, which the size matrix changes"


def _logits(x, w, b):
    return x.astype(float) @ w.astype(float).T + (0 if b is None else b.astype(float))


def _maps(rng, dtype):
    """(name, x, w, index, b), with a bias and without."""
    x, w, b = (normal(rng, dtype, s) for s in ((N, FEATURES), (CLASSES, FEATURES), (CLASSES,)))
    index = rng.integers(0, CLASSES, N)
    yield "no bias", x, w, index, None
    yield "with a bias", x, w, index, b


# -- the primitives --------------------------------------------------------------------------


def _nll_samples(rng, dtype):
    for name, x, w, index, b in _maps(rng, dtype):
        yield Sample(name, (x, w, index, *(() if b is None else (b,))))


def _nll(x, w, index, b=None):
    z = _logits(x, w, b)
    top = z.max(axis=1, keepdims=True)
    lse = top + np.log(np.exp(z - np.where(top == -np.inf, 0, top)).sum(axis=1, keepdims=True))
    dtype = accumulator(x.dtype) or x.dtype
    return (lse - z)[np.arange(len(x)), index].astype(dtype), lse[:, 0].astype(dtype)


register_op(
    "linear_nll",
    _nll_samples,
    reference=_nll,
    dtypes=REAL,
    nan_alone=_LIMITS,
    skips={"K17": _SIZES},
)


def _gradient_samples(rng, dtype):
    for name, x, w, index, b in _maps(rng, dtype):
        a, d = normal(rng, dtype, (N,)), normal(rng, dtype, (N,))
        bias = () if b is None else (b,)
        yield Sample(name, (a, d, x, w, index, *bias), {"wanted": (True, True, b is not None)})
        yield Sample(
            f"{name}, x's alone", (a, d, x, w, index, *bias), {"wanted": (True, False, False)}
        )
        yield Sample(
            f"{name}, w's alone", (a, d, x, w, index, *bias), {"wanted": (False, True, False)}
        )


def _gradients(a, d, x, w, index, b=None, wanted=(True, True, True)):
    """linear_nll_grads with the lse of its arguments."""
    dtype = common_dtype(x.dtype, w.dtype)
    wide = accumulator(dtype) or dtype
    wx, ww, wb = (None if v is None else op.astype(v, dtype=wide) for v in (x, w, b))
    lse = op.logsumexp(op.linear(wx, ww, wb), axis=1)
    found = op.linear_nll_grads(a, d, x, w, index, lse, b, wanted=wanted)
    return tuple([y for y, wants in zip(found, wanted, strict=True) if wants])


def _gradients_reference(a, d, x, w, index, b=None, wanted=(True, True, True)):
    chosen = np.arange(len(w)) == index[:, None]
    p = np.exp(_log_softmax(_logits(x, w, b)))
    g = a[:, None] * p + d[:, None] * (p - chosen)
    found = (g @ w.astype(float), g.T @ x.astype(float), g.sum(0))
    return tuple([y.astype(x.dtype) for y, wants in zip(found, wanted, strict=True) if wants])


register_op(
    "linear_nll_grads",
    _gradient_samples,
    call=_gradients,
    reference=_gradients_reference,
    dtypes=("float64", "float32"),
    skips={
        "K17": _SIZES,
        "K12": "softmax of inf makes its whole row NaN, this op only its own position",
    },
)


# -- what users call -------------------------------------------------------------------------


def _call(x, w, target, b=None, weight=None, **params):
    return op.linear_cross_entropy(x, w, target, linear_bias=b, weight=weight, **params)


def _reference(x, w, target, b=None, weight=None, ignore_index=-100, **params):
    if x.ndim == 1:
        z = _logits(x[None], w, b)[0]
    else:
        z = np.tensordot(x.astype(float), w.astype(float), (1, -1))
        z = z if b is None else z + b.astype(float)
    z = np.where(np.isinf(z).any(-1, keepdims=True), np.nan, z)  # by blocks: ∞ − ∞
    return np.asarray(_cross_entropy(z, target, weight, ignore_index, **params)).astype(x.dtype)


def _public_samples(rng, dtype):
    for name, x, w, index, b in _maps(rng, dtype):
        for params in (*REDUCTIONS, {"label_smoothing": 0.1}):
            yield Sample(f"{name} {params}", (x, w, index, b), params)
    weight = rng.uniform(0.5, 1.5, CLASSES).astype(dtype)
    ignored = index.copy()
    ignored[:2] = -100, 2
    for params in ({}, {"label_smoothing": 0.2}, {"reduction": "none"}):
        yield Sample(f"weighted {params}", (x, w, index, b, weight), params)
        yield Sample(f"ignored {params}", (x, w, ignored, b, weight), params)
    yield Sample("another ignored", (x, w, index, b), {"ignore_index": int(index[0])})
    yield Sample("one sample", (x[0], w, index[0]))
    q = np.exp(_log_softmax(rng.standard_normal((N, CLASSES)))).astype(dtype)
    yield Sample("probabilities", (x, w, q, b))
    maps = normal(rng, dtype, (CLASSES, 2, FEATURES)), normal(rng, dtype, (CLASSES, 2))
    yield Sample("several maps", (x, maps[0], rng.integers(0, CLASSES, (N, 2)), maps[1]))


_X, _W, _T = np.ones((3, 2)), np.ones((4, 2)), np.array([0, 1, 2])
register_op(
    "linear_cross_entropy",
    _public_samples,
    call=_call,
    reference=_reference,
    dtypes=("float64", "float32"),
    constants=(4,),
    nan_alone=_LIMITS,
    tails_but={
        "gradient by argument 2": "the bias's is a sum over samples, p − 1 of one and p of another"
    },
    errors=[
        ErrorSample(
            "maps of other features",
            (_X, np.ones((4, 3)), _T),
            ValueError,
            r"linear_cross_entropy: x must be \(N, n\).*got \(3, 2\) and \(4, 3\)",
        ),
        ErrorSample(
            "an index out of range",
            (_X, _W, np.array([0, 4, 1])),
            ValueError,
            r"target has indices from 0 to 4, but the logits \(3, 4\) has 4 classes",
        ),
        ErrorSample(
            "a bias of another length",
            (_X, _W, _T, np.ones(3)),
            ValueError,
            r"linear_bias must have shape \(4,\), got \(3,\)",
        ),
        ErrorSample(
            "ignored probabilities",
            (_X, _W, np.full((3, 4), 0.25)),
            ValueError,
            "ignore_index=0 is for class indices",
            {"ignore_index": 0},
        ),
        ErrorSample(
            "smoothed by more than all",
            (_X, _W, _T),
            ValueError,
            "label_smoothing must be from 0 to 1",
            {"label_smoothing": 2.0},
        ),
        ErrorSample(
            "whole numbers",
            (np.ones((3, 2), int), _W, _T),
            ValueError,
            "x must hold real floats, got int64",
        ),
    ],
    points=[
        Point(
            "large logits",
            (np.array([[1000.0], [0.0]]), np.array([[1.0], [0.0]]), np.array([1, 0])),
            1000.0 + np.log(2),
            ([[1.0], [-0.5]], [[1000.0], [-1000.0]]),
            {"reduction": "sum"},
        ),
    ],
)
