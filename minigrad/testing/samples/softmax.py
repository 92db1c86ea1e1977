"""Samples of the derivatives in minigrad/ops/softmax.py; softmax itself is in activation.py."""

import numpy as np

from ...engine.registry import op
from ..spec import register_op
from .forms import COMPLEX, of_several

FORMS = [
    (((3, 4), (3, 4)), {"axis": 0}),
    (((3, 4), (3, 4)), {"axis": -1}),
    (((4,), (4,)), {}),
    (((2, 4, 2), (2, 4, 2)), {"axis": 1}),
    (((2, 3), (2, 3)), {"axis": (0, 1)}),
]


def _no_large_share(rng, dtype, shape):
    """Values in a circle of 0.8: near 1, a share is computed as 1 minus the others."""
    x = 0.8 * rng.uniform(-1, 1, shape)
    if np.dtype(dtype).kind == "c":
        x = x * np.exp(1j * rng.uniform(0, 6, shape))
    return np.asarray(x).astype(dtype)


def _alike(a, p):
    if a.shape != p.shape:
        raise ValueError("shapes")


def _softmax_dx(a, p, axis=-1):
    _alike(a, p)
    return p * (a - (a * p).sum(axis, keepdims=True))


def _log_softmax_dx(a, log_p, axis=-1):
    _alike(a, log_p)
    return a - np.exp(log_p) * a.sum(axis, keepdims=True)


def _call(a, log_p, axis=-1):
    """log_softmax_dx with no row masked."""
    masked = np.zeros_like(op.sum(log_p, axis=axis, keepdims=True), dtype=bool)
    return op.log_softmax_dx(a, log_p, masked, axis=axis)


register_op(
    "softmax_dx",
    of_several(FORMS, make=_no_large_share),
    reference=_softmax_dx,
    dtypes=COMPLEX,
)
register_op(
    "log_softmax_dx",
    of_several(FORMS),
    call=_call,
    reference=_log_softmax_dx,
    dtypes=COMPLEX,
)
