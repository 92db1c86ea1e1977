"""The GRU's gates and sequences in place. A backward computes factors for many steps at once."""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...custom.rule_variants import vjp_variant
from ...custom.variants import Variant, add
from ...ops.axes import widen
from ...ops.recurrent.gru import (
    beside_rows,
    check,
    gradients_of_r,
    gru_gates,
    gru_scan,
    gru_scan_gradients,
)
from ...ops.recurrent.steps import by_gate, like, rounded, states_before, widened
from .steps import (
    StepsInPlace,
    as_rows,
    lives_of,
    plain,
    product_with,
    products_alone,
    steps_back_in_place,
)


def _parts(z: Any) -> tuple[Any, Any]:
    """The parts of z: of the first two gates, and of the last. Views; r's serve all steps."""
    parts = by_gate(z, 3)
    return parts[:2], parts[2]


def _step(a: tuple, r: tuple, h: Any, gates: Any, h_after: Any) -> None:
    """Fill gates (4, …, H) and h' from the parts of a and r, and h."""
    (a12, a3), (r12, r3) = a, r
    s, reset, z, n, product = gates[:2], *gates
    np.add(a12, r12, out=s)
    np.negative(s, out=s)
    np.exp(s, out=s)  # where this is ∞ the gate is 0
    s += 1
    np.divide(1, s, out=s)
    product[...] = r3
    np.multiply(reset, product, out=n)
    n += a3
    np.tanh(n, out=n)
    np.subtract(h, n, out=h_after)
    h_after *= z
    h_after += n


def _slopes(gates: Any, h: Any, out: Any) -> None:
    """Fill out (4, steps, …, H): the factors of gh in the parts of gr and in the last of ga.

    See _pull_step.
    """
    reset, z, n, product = gates
    np.multiply(n, n, out=out[3])
    np.subtract(1, out[3], out=out[3])
    np.subtract(1, z, out=out[2])
    out[3] *= out[2]
    out[1] = out[2]
    out[1] *= z
    np.subtract(h, n, out=out[0])
    out[1] *= out[0]
    np.multiply(out[3], reset, out=out[2])
    np.subtract(1, reset, out=out[0])
    out[0] *= product
    out[0] *= out[2]


def gates_in_place(a: Any, r: Any, h: Any) -> tuple | None:
    """gru_gates; None for shapes that it refuses."""
    if h.ndim < 1 or not a.shape == r.shape == (*h.shape[:-1], 3 * h.shape[-1]):
        return None
    dtype, a, r, h = widened(a, r, h)
    h_after = np.empty_like(h, order="C")
    gates = np.empty_like(h, order="C", shape=(4, *h.shape))
    with np.errstate(over="ignore"):
        _step(_parts(a), _parts(r), h, gates, h_after)
    return rounded((h_after, gates), dtype)


@vjp_variant(gru_gates)
def gates_gradients(g, y, h):
    gh, ggates = g
    if ggates is not None or not plain(gh, y[1], h):
        return None
    gh, gates = widen(gh), widen(y[1])
    (h,) = like(gates, h)
    factors = np.empty_like(gates)
    _slopes(gates, h, factors)
    factors *= gh
    gr = array_module(h).empty((*h.shape[:-1], 3 * h.shape[-1]), h.dtype)
    by_gate(gr, 3)[...] = factors[:3]
    ga = gr.copy()
    by_gate(ga, 3)[2] = factors[3]
    return ga, gr, gh * gates[1]


def scan_in_place(
    a: Any, w: Any, h: Any, b: Any = None, live: Any = None, *, reverse: bool = False
) -> tuple:
    """gru_scan"""
    check(a, w, h, b, live)
    dtype, a, w, h, b = widened(a, w, h, b)
    bias = None if b is None else array_module(b).ascontiguousarray(beside_rows(b))
    steps = StepsInPlace(a, w, (h,), live, reverse, gates=4)
    r = steps.r
    (a12, a3), parts = _parts(steps.a), _parts(r)
    a12 = a12.swapaxes(0, 1)
    with np.errstate(over="ignore"):
        for t, (h,), gates, (h_after,) in steps:
            if bias is not None:
                r += bias
            _step((a12[t], a3[t]), parts, h, gates, h_after)
    return rounded(steps.results(), dtype)


@vjp_variant(gru_scan)
def scan_gradients(g, y, w, h, b_shape, live, needs, reverse):
    with products_alone(h, w):
        if g[1] is not None or not plain(*g, *y, w, h, live):
            return gru_scan_gradients(g, y, w, h, b_shape, live, needs, reverse)
        hs, gates = (widen(x) for x in y)
        w, h = like(hs, w, h)
        before = states_before(h, hs, reverse)
        ga, gr, gh = _back_through_time(widen(g[0]), gates, before, w, live, reverse)
    return ga, *gradients_of_r(gr, before, w, gh, b_shape, needs), None


def _back_through_time(
    ghs: Any, gates: Any, before: Any, w: Any, live: Any, reverse: bool
) -> tuple:
    """(ga, gr, gh) of arrays: the factors of many steps are computed at once."""
    shape = before.shape
    gates, before, ghs, live = as_rows(w, (gates, 2), (before, 1), (ghs, 1), (live, 1))
    gr = array_module(w).empty((*before.shape[:-1], 3 * shape[-1]), w.dtype)
    ga, through = np.empty_like(gr), np.empty_like(before[0])
    of_r, of_a = (by_gate(x, 3).swapaxes(0, 1) for x in (gr, ga))
    of_a3, update, product = of_a[:, 2], gates[:, 1], product_with(w, through)

    def fill(span: slice, slopes: Any) -> None:
        _slopes(gates[span].swapaxes(0, 1), before[span], slopes)

    states, lives = [np.zeros_like(through)], lives_of(live, len(before))
    for t, slopes in steps_back_in_place(fill, 4, (ghs,), states, lives, reverse):
        (gh,) = states
        np.multiply(slopes[:3], gh, out=of_r[t])
        np.multiply(slopes[3], gh, out=of_a3[t])
        gh *= update[t]
        product(gr[t], through)
        gh += through
    of_a[:, :2] = of_r[:, :2]
    ga, gr = (x.reshape((*shape[:-1], x.shape[-1])) for x in (ga, gr))
    return ga, gr, states[0].reshape(shape[1:])


for _device in ("cpu", "cuda"):
    add(gru_gates, Variant(gates_in_place, _device, name="in place"))
    add(gru_scan, Variant(scan_in_place, _device, name="in place"))
