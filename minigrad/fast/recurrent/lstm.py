"""The LSTM's gates and sequences in place. A backward computes factors for many steps at once."""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...custom.rule_variants import vjp_variant
from ...custom.variants import Variant, add
from ...ops.axes import widen
from ...ops.recurrent.lstm import lstm_gates, lstm_scan, lstm_scan_gradients
from ...ops.recurrent.steps import (
    by_gate,
    check_scan,
    like,
    rounded,
    states_before,
    weight_gradient,
    widened,
)
from .steps import (
    StepsInPlace,
    as_rows,
    lives_of,
    plain,
    product_with,
    products_alone,
    steps_back_in_place,
)


def _parts(z: Any) -> tuple[Any, Any, Any]:
    """The parts of z: of i and f, of g, and of o. Views, which serve all steps."""
    parts = by_gate(z, 4)
    return parts[:2], parts[2], parts[3]


def _step(parts: tuple, c: Any, gates: Any, c_after: Any, h_after: Any) -> None:
    """Fill gates (5, …, H), c' and h' from the parts of z, and c."""
    zif, zg, zo = parts
    s, i, f, o, g, t = gates[:3], *gates
    np.negative(zif, out=s[:2])
    np.negative(zo, out=o)
    np.exp(s, out=s)  # where this is ∞ the gate is 0
    s += 1
    np.divide(1, s, out=s)
    np.tanh(zg, out=g)
    np.multiply(f, c, out=c_after)
    np.multiply(i, g, out=t)
    c_after += t
    np.tanh(c_after, out=t)
    np.multiply(o, t, out=h_after)


def _slopes(gates: Any, c: Any, out: Any) -> None:
    """Fill out (5, steps, …, H) with the factors of the steps' cotangents.

    gz is the first four times m, m, m and gh; m is the last times gh, plus gc. See _pull_step.
    """
    i, f, o, g, t = gates
    for slope, s, factor in ((out[0], i, g), (out[1], f, c), (out[3], o, t)):
        np.subtract(1, s, out=slope)
        slope *= s
        slope *= factor
    for slope, s, factor in ((out[2], g, i), (out[4], t, o)):
        np.multiply(s, s, out=slope)
        np.subtract(1, slope, out=slope)
        slope *= factor


def _pull(slopes: Any, f: Any, gh: Any, gc: Any, gz: Any) -> None:
    """Fill gz (4, …, H), and gc with the cotangent of the step before."""
    m = gh * slopes[4]
    m += gc
    np.multiply(slopes[:3], m, out=gz[:3])
    np.multiply(slopes[3], gh, out=gz[3])
    np.multiply(m, f, out=gc)


def gates_in_place(z: Any, c: Any) -> tuple | None:
    """lstm_gates; None for shapes that it refuses."""
    if z.ndim < 1 or z.shape != (*c.shape[:-1], 4 * (c.shape[-1:] or (0,))[0]):
        return None
    dtype, z, c = widened(z, c)
    h_after, c_after = (np.empty_like(c, order="C") for _ in range(2))
    gates = np.empty_like(c, order="C", shape=(5, *c.shape))
    with np.errstate(over="ignore"):
        _step(_parts(z), c, gates, c_after, h_after)
    return rounded((h_after, c_after, gates), dtype)


@vjp_variant(lstm_gates)
def gates_gradients(g, y, c):
    gh, gc, ggates = g
    if ggates is not None or not plain(gh, gc, y[2], c):
        return None
    gates = widen(y[2])
    (c,) = like(gates, c)
    gh = np.zeros_like(c) if gh is None else widen(gh)
    gc = np.zeros_like(c) if gc is None else widen(gc).copy()
    gz, slopes = array_module(c).empty((*c.shape[:-1], 4 * c.shape[-1]), c.dtype), gates.copy()
    _slopes(gates, c, slopes)
    _pull(slopes, gates[1], gh, gc, by_gate(gz, 4))
    return gz, gc


def scan_in_place(
    a: Any, w: Any, h: Any, c: Any, live: Any = None, *, reverse: bool = False
) -> tuple:
    """lstm_scan"""
    check_scan(4, a, w, live, h=h, c=c)
    dtype, a, w, h, c = widened(a, w, h, c)
    steps = StepsInPlace(a, w, (h, c), live, reverse, gates=5)
    z = steps.r
    parts = _parts(z)
    with np.errstate(over="ignore"):
        for t, (_, c), gates, (h_after, c_after) in steps:
            z += steps.a[t]
            _step(parts, c, gates, c_after, h_after)
    return rounded(steps.results(), dtype)


@vjp_variant(lstm_scan)
def scan_gradients(g, y, w, h, c, live, needs, reverse):
    with products_alone(h, w):
        if g[2] is not None or not plain(*g, *y, w, h, c, live):
            return lstm_scan_gradients(g, y, w, h, c, live, needs, reverse)
        ghs, gcs = (None if x is None else widen(x) for x in g[:2])
        hs, cs, gates = (widen(x) for x in y)
        w, h, c = like(hs, w, h, c)
        before = states_before(c, cs, reverse)
        ga, gh, gc = _back_through_time(ghs, gcs, gates, before, w, live, reverse)
    gw = weight_gradient(ga, states_before(h, hs, reverse), w.shape) if needs[1] else None
    return ga, gw, gh, gc, None


def _back_through_time(
    ghs: Any, gcs: Any, gates: Any, before: Any, w: Any, live: Any, reverse: bool
) -> tuple:
    """(ga, gh, gc) of arrays: the factors of many steps are computed at once."""
    xp, shape = array_module(w), before.shape
    gates, before, ghs, gcs, live = as_rows(
        w, (gates, 2), (before, 1), (ghs, 1), (gcs, 1), (live, 1)
    )
    ga = xp.empty((*before.shape[:-1], 4 * shape[-1]), w.dtype)
    gz, product = by_gate(ga, 4).swapaxes(0, 1), product_with(w, before[0])
    forget = gates[:, 1]

    def fill(span: slice, slopes: Any) -> None:
        _slopes(gates[span].swapaxes(0, 1), before[span], slopes)

    states = [xp.zeros(before.shape[1:], w.dtype) for _ in range(2)]
    lives = lives_of(live, len(before))
    for t, slopes in steps_back_in_place(fill, 5, (ghs, gcs), states, lives, reverse):
        gh, gc = states
        _pull(slopes, forget[t], gh, gc, gz[t])
        product(ga[t], gh)
    gh, gc = states
    return ga.reshape((*shape[:-1], ga.shape[-1])), gh.reshape(shape[1:]), gc.reshape(shape[1:])


for _device in ("cpu", "cuda"):
    add(lstm_gates, Variant(gates_in_place, _device, name="in place"))
    add(lstm_scan, Variant(scan_in_place, _device, name="in place"))
