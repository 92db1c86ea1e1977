"""Samples of dropout: each call has a new generator, so it repeats."""

import numpy as np

from ...engine.registry import op
from ..spec import ErrorSample, Point, Sample, register_op
from .forms import REAL, normal


def _repeating(function):
    """The op with a generator that starts anew at every call."""

    def call(x, *, seed=0, **params):
        return function(x, generator=np.random.default_rng(seed), **params)

    return call


def _mask(x, seed, p, shape=None):
    return np.random.default_rng(seed).random(shape or x.shape, dtype=np.float32) >= p


def _dropout(x, *, seed=0, p=0.5, training=True, shared=()):
    if not training or p == 0:
        return x
    shape = [1 if k in shared else n for k, n in enumerate(x.shape)]
    return np.where(_mask(x, seed, p, shape), x * (1 / (1 - p) if p < 1 else 0), 0).astype(x.dtype)


def _over_space(dims):
    def reference(x, *, seed=0, p=0.5, training=True):
        if x.ndim not in (dims + 1, dims + 2):
            raise ValueError("axes")
        shared = tuple(range(x.ndim - dims, x.ndim))
        return _dropout(x, seed=seed, p=p, training=training, shared=shared)

    return reference


def _alpha_dropout(x, *, seed=0, p=0.5, training=True, shape=None):
    if not training or p == 0:
        return x
    low = -1.6732632423543772 * 1.0507009873554805
    a = 1 / np.sqrt((1 - p) * (1 + p * low**2))
    return (a * np.where(_mask(x, seed, p, shape), x, low) - a * p * low).astype(x.dtype)


def _feature_alpha_dropout(x, **params):
    if x.ndim < 2:
        raise ValueError("axes")
    return _alpha_dropout(x, shape=(*x.shape[:2], *(1,) * (x.ndim - 2)), **params)


def _drops(*shapes):
    def samples(rng, dtype):
        for i, (shape, p) in enumerate([(s, p) for s in shapes for p in (0.3, 0.5, 0.9)]):
            yield Sample(f"{i}: {shape} p={p}", (normal(rng, dtype, shape),), {"p": p})
        x = normal(rng, dtype, shapes[0])
        yield Sample("evaluation", (x,), {"training": False})

    return samples


OUTSIDE = [
    ErrorSample(f"p={p}", (np.ones((2, 3, 4)),), ValueError, f"from 0 to 1; got p={p}", {"p": p})
    for p in (-0.1, 1.5)
]
NOTHING_LEFT = Point("p = 1 drops everything, infinities too", (np.array([1.0, np.inf]),),
                     np.zeros(2), (np.zeros(2),), {"p": 1.0})  # fmt: skip


def _drop_forms(rng, dtype):
    for i, params in enumerate(({"p": 0.3}, {"p": 0.5, "shared": (1,)}, {"p": 0.95})):
        yield Sample(f"{i}: {params}", (normal(rng, dtype, (5, 4)),), params)


register_op("drop", _drop_forms, call=_repeating(op.drop), reference=_dropout, dtypes=REAL)


def _drop_dx_forms(rng, dtype):
    for i, (p, shape) in enumerate([(0.3, (5, 4)), (0.5, (5, 1)), (0.95, (5, 4)), (1.0, (1, 4))]):
        mask = rng.random(shape) >= 0.5
        yield Sample(f"{i}: mask {shape} p={p}", (normal(rng, dtype, (5, 4)), mask), {"p": p})


register_op(
    "drop_dx", _drop_dx_forms,
    reference=lambda a, mask, p: np.where(mask, a / (1 - p if p < 1 else 1), 0).astype(a.dtype),
    dtypes=REAL,
    skips={"K17": "drop makes the mask in x's shape"},
)  # fmt: skip
register_op(
    "dropout", _drops((4, 6), (9,)), call=_repeating(op.dropout), reference=_dropout,
    dtypes=REAL, errors=OUTSIDE, points=[NOTHING_LEFT],
)  # fmt: skip
for _name, _dims, _shapes in (
    ("dropout1d", 1, ((3, 8, 2), (6, 3))),
    ("dropout2d", 2, ((2, 6, 2, 2), (4, 2, 2))),
):
    _axes = rf"must have {_dims + 1} or {_dims + 2} axes"
    register_op(
        _name, _drops(*_shapes), call=_repeating(getattr(op, _name)),
        reference=_over_space(_dims), dtypes=REAL,
        errors=[*OUTSIDE, ErrorSample("axes", (np.ones(4),), ValueError, _axes)],
    )  # fmt: skip


def _training(function):
    """The op in training, which is not its default."""
    return lambda x, *, training=True, **params: _repeating(function)(
        x, training=training, **params
    )


register_op(
    "alpha_dropout", _drops((4, 6), (9,)), reference=_alpha_dropout,
    call=_training(op.alpha_dropout), dtypes=REAL, errors=OUTSIDE,
)  # fmt: skip
register_op(
    "feature_alpha_dropout", _drops((4, 4), (2, 6, 3), (2, 3, 2, 2)),
    reference=_feature_alpha_dropout, call=_training(op.feature_alpha_dropout), dtypes=REAL,
    errors=[*OUTSIDE, ErrorSample("axes", (np.ones(4),), ValueError, r"must be \(N, C")],
)  # fmt: skip
