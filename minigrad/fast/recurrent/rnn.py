"""The plain recurrent network's sequences in place."""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...custom.rule_variants import vjp_variant
from ...custom.variants import Variant, add
from ...ops.axes import widen
from ...ops.elementwise.selection import keep
from ...ops.recurrent.rnn import rnn_scan, rnn_scan_gradients
from ...ops.recurrent.steps import (
    check_scan,
    in_order,
    like,
    parted,
    rounded,
    states_before,
    weight_gradient,
    widened,
)
from .steps import as_rows, lives_of, plain, product_with, products_alone


def scan_in_place(
    a: Any, w: Any, h: Any, live: Any = None, *, relu: bool = False, reverse: bool = False
) -> tuple:
    """rnn_scan"""
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


@vjp_variant(rnn_scan)
def scan_gradients(g, y, w, h, live, needs, relu, reverse):
    with products_alone(h, w):
        if not plain(*g, *y, w, h, live):
            return rnn_scan_gradients(g, y, w, h, live, needs, relu, reverse)
        ghs, hs = (widen(x) for x in (*g, *y))
        w, h = like(hs, w, h)
        ga, gh = _back_through_time(ghs, hs, w, live, relu, reverse)
    gw = weight_gradient(ga, states_before(h, hs, reverse), w.shape) if needs[1] else None
    return ga, gw, gh, None


def _back_through_time(ghs: Any, hs: Any, w: Any, live: Any, relu: bool, reverse: bool) -> tuple:
    """(ga, gh) of arrays."""
    shape, length = hs.shape, len(hs)
    ga = (~(hs <= 0)).astype(w.dtype) if relu else np.subtract(1, hs * hs)
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


for _device in ("cpu", "cuda"):
    add(rnn_scan, Variant(scan_in_place, _device, name="in place"))
