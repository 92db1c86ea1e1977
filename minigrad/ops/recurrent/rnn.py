"""The plain recurrent network, with tanh or relu: a whole sequence as one op.

Elman, Finding structure in time, 1990.
"""

from typing import Any

import numpy as np

from ...engine.primitive import primitive
from ...engine.registry import op
from ..axes import plus, widen
from ..elementwise.selection import keep
from .steps import (
    check_scan,
    each,
    like,
    pushed_product,
    rounded,
    scan_batch,
    states_before,
    unbind,
    walk,
    walk_back,
    weight_gradient,
    widened,
)


@primitive(arrays="a w h live", constants=["live"], outputs=1)
def rnn_scan(a, w, h, live: Any = None, *, relu=False, reverse=False):
    """(h,) behind every step t of h' = tanh(a_t + h wᵀ), or of max(…, 0), from a first h

    a (T, …, N, H), w (H, H), or one for each of a's axes …, (…, H, H); h (…, N, H), real ->
    h (T, …, N, H). live (T, …, N, 1), boolean: where it is False a row keeps its h. reverse takes
    the last step first. With gz = gh' (1 − h'²), or gh' where h' is not 0, gh = gz w, and
    gw = Σ gzᵀ h over all steps.
    """
    check_scan(1, a, w, live, h=h)
    dtype, a, w, h = widened(a, w, h)
    across = w.swapaxes(-1, -2)

    def step(t: int, h: Any) -> tuple:
        z = a[t] + h @ across
        return (np.maximum(z, 0) if relu else np.tanh(z),)

    return rounded(walk(step, (h,), len(a), live, reverse), dtype)


@rnn_scan.vjp
def rnn_scan_gradients(g, y, w, h, live, needs, relu, reverse):
    ghs, hs = (widen(x) for x in (*g, *y))
    w, h = like(hs, w, h)
    length, each_h = hs.shape[0], unbind(hs, 0)

    def pull(t: int, gh: Any) -> tuple:
        h = each_h[t]
        gz = keep(gh, ~(h <= 0)) if relu else gh * (1 - h * h)
        return (gz,), (gz @ w,)

    (ga,), (gh,) = walk_back(pull, (ghs,), length, live, reverse)
    gw = weight_gradient(ga, states_before(h, hs, reverse), w.shape) if needs[1] else None
    return ga, gw, gh, None


@rnn_scan.jvp
def rnn_scan_tangents(w, h, live, y, a_t, w_t, h_t, relu, reverse):
    (hs,) = y
    length, across = hs.shape[0], op.swapaxes(w, axis1=-1, axis2=-2)
    moved, hs = each(plus(a_t, pushed_product(h, hs, w_t, reverse)), length), unbind(hs, 0)

    def step(t: int, h_t: Any) -> tuple:
        z_t = plus(moved[t], None if h_t is None else h_t @ across)
        return (keep(z_t, op.logical_not(hs[t] <= 0)) if relu else z_t * (1 - hs[t] * hs[t]),)

    return walk(step, (h_t,), length, live, reverse)


rnn_scan.batch(scan_batch)
