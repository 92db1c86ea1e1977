"""The plain recurrent network, with tanh or relu: a whole sequence as one op.

Elman, Finding structure in time, 1990.
"""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...engine.primitive import primitive
from ...engine.registry import op
from ..axes import plus, widen
from ..elementwise.selection import keep
from .in_place import as_rows, lives_of, plain, product_with, products_alone
from .steps import (
    check_scan,
    each,
    in_order,
    like,
    parted,
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
    the last step first. With gz = gh' (1 − h'²), or gh' where h' > 0, gh = gz w, and gw = Σ gzᵀ h
    over all steps.
    """
    check_scan(1, a, w, live, h=h)
    dtype, a, w, h = widened(a, w, h)
    shape, length = h.shape, a.shape[0]
    a, h, live = as_rows(w, (a, 1), (h, 0), (live, 1))
    hs = array_module(a).empty((length, *h.shape), h.dtype)
    across, lives = w.swapaxes(-1, -2).copy(), lives_of(live, length)
    with products_alone(h, w):
        product = product_with(across, h)
        for t in in_order(length, reverse):
            z = hs[t]
            product(h, z)
            z += a[t]
            if relu:
                np.maximum(z, 0, out=z)
            else:
                np.tanh(z, out=z)
            if lives[t] is not None:
                np.copyto(z, h, where=~lives[t])
            h = z
    return rounded([hs.reshape((length, *shape))], dtype)


@rnn_scan.vjp
def rnn_scan_gradients(g, y, w, h, live, needs, relu, reverse):
    ghs, hs = (widen(x) for x in (*g, *y))
    w, h = like(hs, w, h)
    before = states_before(h, hs, reverse)
    with products_alone(h, w):
        if plain(ghs, hs, w, live):
            ga, gh = _back_through_time(ghs, hs, w, live, relu, reverse)
        else:
            ga, gh = _back_by_ops(ghs, hs, w, live, relu, reverse)
    gw = weight_gradient(ga, before, w.shape) if needs[1] else None
    return ga, gw, gh, None


def _back_through_time(ghs: Any, hs: Any, w: Any, live: Any, relu: bool, reverse: bool) -> tuple:
    """(ga, gh) of arrays."""
    shape, length = hs.shape, len(hs)
    ga = np.greater(hs, 0).astype(w.dtype) if relu else np.subtract(1, hs * hs)
    ghs, rows, live = as_rows(w, (ghs, 1), (ga, 1), (live, 1))
    gh, lives = np.zeros_like(rows[0]), lives_of(live, length)
    product = product_with(w, gh)
    for t in in_order(length, not reverse):
        gh += ghs[t]
        gh, kept = parted(gh, lives[t])
        if relu:
            rows[t] = keep(gh, rows[t] > 0)
        else:
            rows[t] *= gh
        product(rows[t], gh)
        if kept is not None:
            gh += kept
    return ga, gh.reshape(shape[1:])


def _back_by_ops(ghs: Any, hs: Any, w: Any, live: Any, relu: bool, reverse: bool) -> tuple:
    """The same of tensors, recorded."""
    length, hs = hs.shape[0], unbind(hs, 0)

    def pull(t: int, gh: Any) -> tuple:
        gz = keep(gh, hs[t] > 0) if relu else gh * (1 - hs[t] * hs[t])
        return (gz,), (gz @ w,)

    (ga,), (gh,) = walk_back(pull, (ghs,), length, live, reverse)
    return ga, gh


@rnn_scan.jvp
def rnn_scan_tangents(w, h, live, y, a_t, w_t, h_t, relu, reverse):
    (hs,) = y
    length, across = hs.shape[0], op.swapaxes(w, axis1=-1, axis2=-2)
    moved, hs = each(plus(a_t, pushed_product(h, hs, w_t, reverse)), length), unbind(hs, 0)

    def step(t: int, h_t: Any) -> tuple:
        z_t = plus(moved[t], None if h_t is None else h_t @ across)
        return (keep(z_t, hs[t] > 0) if relu else z_t * (1 - hs[t] * hs[t]),)

    return walk(step, (h_t,), length, live, reverse)


rnn_scan.batch(scan_batch)
