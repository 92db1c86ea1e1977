"""Samples of losses of margins, several labels and distributions; the margins away from kinks."""

import numpy as np

from ..spec import ErrorSample, Point, Sample, register_op
from .forms import normal
from .loss_classes import REDUCTIONS, reduced

_EXACT = ("float64", "float32")
_SHAPES = {"K17": "the reference broadcasts where the loss refuses; error samples check shapes"}


def _samples(make, *forms):
    """make(rng) -> arrays, the floating ones cast; with each form's parameters and reduction."""

    def samples(rng, dtype):
        for i, params in enumerate(forms):
            for reduction in REDUCTIONS:
                args = [np.asarray(a) for a in make(rng)]
                args = tuple([a.astype(dtype) if a.dtype.kind == "f" else a for a in args])
                own = {k: v.astype(dtype) if k == "weight" else v for k, v in params.items()}
                yield Sample(f"{i}: {params} {reduction}", args, {**own, **reduction})

    return samples


def _reference(function):
    def reference(*args, reduction="mean", **params):
        y = function(
            *[np.asarray(a, dtype=float) if np.asarray(a).dtype.kind == "f" else a for a in args],
            **params,
        )
        return np.asarray(reduced(y, reduction)).astype(args[0].dtype)

    return reference


def _refuse_pairs(x, target):
    if np.broadcast_shapes(x.shape, target.shape) not in (x.shape, target.shape):
        raise ValueError(f"{x.shape} and {target.shape} make pairs")


def _spread(rng, shape):
    """Scores 0.3 from each other and not whole: no difference of two is a margin of 1 or 1.5."""
    n = int(np.prod(shape))
    return (0.37 * rng.permutation(n) - 0.2 * n).reshape(shape)


def _ranking(a, b, target, margin=0.0):
    return np.maximum(0, margin - target * (a - b))


register_op(
    "margin_ranking",
    _samples(
        lambda rng: (
            _spread(rng, (2, 3)),
            _spread(rng, (2, 3)) + 0.11,
            rng.choice([-1, 1], (2, 3)),
        ),
        {"margin": 0.5},
        {},
    ),
    reference=_reference(_ranking),
    dtypes=_EXACT,
    skips=_SHAPES,
    errors=[
        ErrorSample(
            "a target that makes pairs",
            (np.ones(3), np.ones(3), np.ones((3, 1))),
            ValueError,
            r"margin_ranking: the target \(3, 1\) does not broadcast to the inputs' shape \(3,\)",
        )
    ],
)
register_op(
    "soft_margin",
    _samples(lambda rng: (normal(rng, float, (2, 3)), rng.choice([-1, 1], (2, 3))), {}),
    reference=_reference(lambda x, target: np.log1p(np.exp(-target * x))),
    dtypes=_EXACT,
    skips=_SHAPES,
)


def _bce_rows(x, target, weight=1.0):
    y = target * np.log1p(np.exp(-x)) + (1 - target) * np.log1p(np.exp(x))
    return (y * weight).mean(-1)


register_op(
    "multilabel_soft_margin",
    _samples(
        lambda rng: (normal(rng, float, (2, 3)), rng.integers(0, 2, (2, 3)).astype(float)),
        {},
        {"weight": np.array([0.5, 2.0, 3.0])},
    ),
    reference=_reference(_bce_rows),
    dtypes=_EXACT,
    skips=_SHAPES,
)


def _multi(x, target, p=1, margin=1.0, weight=None):
    if x.ndim == 1:
        return _multi(x[None], np.reshape(target, 1), p, margin, weight)[0]
    y = np.maximum(0, margin - np.take_along_axis(x, target[:, None], 1) + x) ** p
    np.put_along_axis(y, target[:, None], 0, 1)
    y = y if weight is None else y * weight[target][:, None]
    return y.sum(1) / x.shape[1]


def _both(several, one, images=None):
    """Samples of several rows of scores, of one alone, and of scores with three axes."""

    def samples(rng, dtype):
        yield from several(rng, dtype)
        for name, others in (("one row", one), ("three axes", images)):
            for sample in others(rng, dtype) if others else ():
                yield Sample(f"{name}, {sample.name}", sample.args, sample.params)

    return samples


_SCORES = ErrorSample(
    "scores of three axes",
    (np.ones((1, 2, 3)), np.zeros((1, 2, 3), int)),
    ValueError,
    r"x must be scores \(n, c\) or \(c,\), got shape \(1, 2, 3\)",
)
register_op(
    "multi_margin",
    _both(
        _samples(
            lambda rng: (_spread(rng, (3, 4)), rng.integers(0, 4, 3)),
            {},
            {"p": 2, "margin": 1.5},
            {"weight": np.array([0.5, 2.0, 3.0, 1.5])},
            {"weight": np.array([0.5, 2.0, 3.0, 1.5]), "p": 2},
        ),
        _samples(lambda rng: (_spread(rng, (4,)), rng.integers(0, 4, ())), {}),
    ),
    reference=_reference(_multi),
    dtypes=_EXACT,
    skips=_SHAPES,
    errors=[
        _SCORES,
        ErrorSample(
            "a class too few",
            (np.ones((2, 3)), np.array([1])),
            ValueError,
            r"multi_margin: target must be 2 class indices for x \(2, 3\), got int64 \(1,\)",
        ),
        ErrorSample(
            "a class from the end",
            (np.ones((2, 3)), np.array([1, -1])),
            ValueError,
            "multi_margin: target must be class indices from 0 to 2, got -1",
        ),
        ErrorSample(
            "a third power",
            (np.ones((1, 3)), np.array([1])),
            ValueError,
            "multi_margin: p must be 1 or 2, got 3",
            {"p": 3},
        ),
    ],
)


def _labels(x, target):
    if x.ndim == 1:
        return _labels(x[None], target[None])[0]
    losses = []
    for scores, numbers in zip(x, target):
        named = list(numbers[: [*numbers, -1].index(-1)])
        others = [j for j in range(len(scores)) if j not in named]
        losses.append(sum(max(0.0, 1 - scores[t] + scores[j]) for t in named for j in others))
    return np.array(losses) / x.shape[1]


register_op(
    "multilabel_margin",
    _both(
        _samples(
            lambda rng: (
                _spread(rng, (3, 4)),
                np.array([[1, -1, 0, 0], [3, 0, 2, -1], [2, 1, -1, -1]]),
            ),
            {},
        ),
        _samples(lambda rng: (_spread(rng, (4,)), np.array([3, 0, -1, 1])), {}),
    ),
    reference=_reference(_labels),
    dtypes=_EXACT,
    skips=_SHAPES | {"K12": "Python's max of the reference drops NaN"},
    errors=[
        _SCORES,
        ErrorSample(
            "numbers for one sample",
            (np.ones((2, 3)), np.array([1, -1, -1])),
            ValueError,
            r"multilabel_margin: target must be class indices of x's shape \(2, 3\)",
        ),
        ErrorSample(
            "a class from the end",
            (np.ones((1, 3)), np.array([[1, -2, -1]])),
            ValueError,
            "multilabel_margin: target must be class indices from 0 to 2, then -1; got -2",
        ),
    ],
)


def _gaussian(x, target, var, full=False):
    _refuse_pairs(x, target)
    var = var[..., None] if var.ndim > 0 and var.shape == x.shape[:-1] else var
    v = np.maximum(var, 1e-6)
    return (np.log(v) + (x - target) ** 2 / v) / 2 + full * np.log(2 * np.pi) / 2


register_op(
    "gaussian_nll",
    _both(
        _samples(
            lambda rng: (*rng.standard_normal((2, 2, 3)), rng.uniform(0.5, 2, (2, 3))),
            {},
            {"full": True},
        ),
        _samples(lambda rng: (*rng.standard_normal((2, 2, 3)), rng.uniform(0.5, 2, 2)), {}),
        _samples(lambda rng: (*rng.standard_normal((2, 2, 3, 2)), rng.uniform(0.5, 2, (2, 3))), {}),
    ),
    reference=_reference(_gaussian),
    dtypes=_EXACT,
    nan_alone="a variance of -inf is refused",
    skips={"K19": "a value is no variance"},
    errors=[
        ErrorSample(
            "a negative variance",
            (np.ones(2), np.ones(2), np.array([1.0, -1.0])),
            ValueError,
            "gaussian_nll: var holds negative numbers",
        )
    ],
    points=[
        Point(
            "a variance below eps counts as eps",
            (np.array([0.5]), np.zeros(1), np.array([0.01])),
            (np.log(0.25) + 1) / 2,
            ([2.0], [-2.0], [0.0]),
            {"eps": 0.25},
        ),
        Point(
            "and its gradient is that at eps",
            (np.array([0.25]), np.zeros(1), np.array([0.01])),
            (np.log(0.25) + 0.25) / 2,
            ([1.0], [-1.0], [1.5]),
            {"eps": 0.25},
        ),
    ],
)


def _poisson(x, target, log_input=True, full=False, eps=1e-8):
    _refuse_pairs(x, target)
    y = np.exp(x) - target * x if log_input else x - target * np.log(x + eps)
    t = np.maximum(target, 1)
    return y + full * (target > 1) * (t * np.log(t) - t + np.log(2 * np.pi * t) / 2)


register_op(
    "poisson_nll",
    _samples(
        lambda rng: (
            rng.uniform(0.5, 2, (2, 3)),
            np.array([[0, 1, 2]]) + 0.4 + rng.random((2, 3)) / 2,
        ),
        {},
        {"full": True},
        {"log_input": False},
        {"log_input": False, "eps": 0.1},
    ),
    reference=_reference(_poisson),
    dtypes=_EXACT,
    nan_alone="the order of the sum decides whether inf - inf is NaN",
)
