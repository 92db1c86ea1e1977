"""The LSTM: the gates of one step as one op, and a whole sequence as one.

Composed of a sum, slices, σ, tanh and products a step is some 16 ops, whose own work is a third of
their time at 16 × 64.

Hochreiter and Schmidhuber, Long short-term memory, 1997; the forget gate: Gers et al., 2000.
"""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...engine.primitive import primitive
from ...engine.registry import op
from ..axes import plus, widen
from ..batching import full
from .in_place import (
    StepsInPlace,
    as_rows,
    lives_of,
    plain,
    product_with,
    products_alone,
    steps_back_in_place,
)
from .steps import (
    by_gate,
    check_scan,
    each,
    gate_parts,
    like,
    pushed_product,
    rounded,
    scan_batch,
    states_before,
    times,
    unbind,
    walk,
    walk_back,
    weight_gradient,
    widened,
)

# -- one step --------------------------------------------------------------------------------------


def _step(parts: Any, c: Any, gates: Any, c_after: Any, h_after: Any) -> None:
    """Fill gates (5, …, H), c' and h' from z by gates (4, …, H) and c."""
    s, i, f, o, g, t = gates[:3], *gates
    np.negative(parts[:2], out=s[:2])
    np.negative(parts[3], out=o)
    np.exp(s, out=s)  # where this is ∞ the gate is 0, and no sum would show what it is
    s += 1
    np.divide(1, s, out=s)
    np.tanh(parts[2], out=g)
    np.multiply(f, c, out=c_after)
    np.multiply(i, g, out=t)
    c_after += t
    np.tanh(c_after, out=t)
    np.multiply(o, t, out=h_after)


def _pull_step(gh: Any, gc: Any, ggates: Any, gates: Any, c: Any) -> tuple[Any, Any]:
    """(gz, gc) of a step from the cotangents of h', c' and the gates, each None where it is zero.

    With m = gc + gh o (1 − tanh² c'), the cotangent of c' from both sides:
    gz = (m g i (1 − i), m c f (1 − f), m i (1 − g²), gh tanh c' o (1 − o)) ;  gc = m f
    """
    gh = np.zeros_like(c) if gh is None else gh
    gi, gf, go, gg, gt = each(ggates, 5)
    i, f, o, g, t = unbind(gates, 0)
    m = plus(gc, plus(gh * o, gt) * (1 - t * t))
    parts = [
        plus(m * g, gi) * (i * (1 - i)),
        plus(m * c, gf) * (f * (1 - f)),
        plus(m * i, gg) * (1 - g * g),
        plus(gh * t, go) * (o * (1 - o)),
    ]
    return op.concatenate(parts, axis=-1), m * f


def _push_step(zt: Any, ct: Any, gates: Any, c: Any) -> tuple[Any, Any, Any]:
    """The tangents of h', c' and the gates from those of z and c, each None where it is zero."""
    i, f, o, g, t = unbind(gates, 0)
    zi, zf, zg, zo = [None] * 4 if zt is None else gate_parts(zt, 4)
    it, ft, ot = times(zi, i * (1 - i)), times(zf, f * (1 - f)), times(zo, o * (1 - o))
    gt = times(zg, 1 - g * g)
    ct = plus(times(ct, f), plus(times(ft, c), plus(times(it, g), times(gt, i))))
    tt = ct * (1 - t * t)
    none = np.zeros_like(c)
    moved = op.stack([none if x is None else x for x in (it, ft, ot, gt, tt)], axis=0)
    return plus(times(ot, t), tt * o), ct, moved


def _slopes(gates: Any, c: Any, out: Any) -> None:
    """Fill out (5, steps, …, H) with what the cotangents of steps are multiplied by.

    The first four, times m, m, m and gh, are gz; the last, times gh, and gc are m. See _pull_step.
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
    """Fill gz (4, …, H), and gc with that of the step before."""
    m = gh * slopes[4]
    m += gc
    np.multiply(slopes[:3], m, out=gz[:3])
    np.multiply(slopes[3], gh, out=gz[3])
    np.multiply(m, f, out=gc)


@primitive(outputs=3)
def lstm_gates(z, c):
    """(h', c', gates):  c' = σ(f) c + σ(i) tanh(g) ;  h' = σ(o) tanh c', with (i, f, g, o) = z

    z (…, 4H), c (…, H), real. gates (5, …, H) are σ(i), σ(f), σ(o), tanh(g) and tanh c', of which
    the gradient is made: with m = gc + gh σ(o) (1 − tanh² c'), the part of σ(i) in gz is
    m tanh(g) σ(i) (1 − σ(i)), and gc before the step m σ(f). 16-bit floats are computed in float32.
    """
    if z.ndim < 1 or z.shape != (*c.shape[:-1], 4 * (c.shape[-1:] or (0,))[0]):
        raise ValueError(f"z must be (…, 4H) and c (…, H); got {z.shape} and {c.shape}")
    dtype, z, c = widened(z, c)
    h_after, c_after = (np.empty_like(c, order="C") for _ in range(2))
    gates = np.empty_like(c, order="C", shape=(5, *c.shape))
    with np.errstate(over="ignore"):
        _step(by_gate(z, 4), c, gates, c_after, h_after)
    return rounded((h_after, c_after, gates), dtype)


@lstm_gates.vjp
def lstm_gates_gradients(g, y, c):
    gh, gc, ggates = (None if x is None else widen(x) for x in g)
    gates = widen(y[2])
    (c,) = like(gates, c)
    if ggates is not None or not plain(gh, gc, gates, c):
        return _pull_step(gh, gc, ggates, gates, c)
    gc = np.zeros_like(c) if gc is None else gc.copy()
    gz, slopes = array_module(c).empty((*c.shape[:-1], 4 * c.shape[-1]), c.dtype), gates.copy()
    _slopes(gates, c, slopes)
    _pull(slopes, gates[1], np.zeros_like(c) if gh is None else gh, gc, by_gate(gz, 4))
    return gz, gc


@lstm_gates.jvp
def lstm_gates_tangents(c, y, z_t, c_t):
    return _push_step(z_t, c_t, y[2], c)


@lstm_gates.batch
def lstm_gates_batch(op_, xs, batched, params):
    h, c, gates = op_(*full(xs, batched))
    return h, c, op.swapaxes(gates, axis1=0, axis2=1)


# -- all steps -------------------------------------------------------------------------------------


@primitive(arrays="a w h c live", constants=["live"], outputs=3)
def lstm_scan(a, w, h, c, live: Any = None, *, reverse=False):
    """(h, c, gates) behind every step t of lstm_gates(a_t + h wᵀ, c), from a first h and c

    a (T, …, N, 4H), the gates' part from the input; w (4H, H), or one for each of a's axes …,
    (…, 4H, H); h, c (…, N, H), real -> h, c (T, …, N, H), gates (T, 5, …, N, H). live (T, …, N, 1),
    boolean: where it is False a row keeps its h and c. reverse takes the last step first.
    The gradient goes back through time by the rule of lstm_gates; gw = Σ gzᵀ h over all steps.
    """
    check_scan(4, a, w, live, h=h, c=c)
    dtype, a, w, h, c = widened(a, w, h, c)
    steps = StepsInPlace(a, w, (h, c), live, reverse, gates=5)
    z = steps.r
    parts = by_gate(z, 4)
    with np.errstate(over="ignore"):
        for t, (_, c), gates, (h_after, c_after) in steps:
            z += steps.a[t]
            _step(parts, c, gates, c_after, h_after)
    return rounded(steps.results(), dtype)


@lstm_scan.vjp
def lstm_scan_gradients(g, y, w, h, c, live, needs, reverse):
    ghs, gcs, ggates = (None if x is None else widen(x) for x in g)
    hs, cs, gates = (widen(x) for x in y)
    w, h, c = like(hs, w, h, c)
    before = states_before(c, cs, reverse)
    with products_alone(h, w):
        if ggates is None and plain(ghs, gcs, gates, before, w, live):
            ga, gh, gc = _back_through_time(ghs, gcs, gates, before, w, live, reverse)
        else:
            ga, gh, gc = _back_by_ops(ghs, gcs, ggates, gates, before, w, live, reverse)
    gw = weight_gradient(ga, states_before(h, hs, reverse), w.shape) if needs[1] else None
    return ga, gw, gh, gc, None


def _back_through_time(
    ghs: Any, gcs: Any, gates: Any, before: Any, w: Any, live: Any, reverse: bool
) -> tuple:
    """(ga, gh, gc) of arrays: what their steps multiply by is made for many steps."""
    xp, shape = array_module(w), before.shape
    gates, before, ghs, gcs, live = as_rows(
        w, (gates, 2), (before, 1), (ghs, 1), (gcs, 1), (live, 1)
    )
    ga = xp.empty((*before.shape[:-1], 4 * shape[-1]), w.dtype)
    gz, product = by_gate(ga, 4).swapaxes(0, 1), product_with(w, before[0])

    def fill(span: slice, slopes: Any) -> None:
        _slopes(gates[span].swapaxes(0, 1), before[span], slopes)

    states = [xp.zeros(before.shape[1:], w.dtype) for _ in range(2)]
    lives = lives_of(live, len(before))
    for t, slopes in steps_back_in_place(fill, 5, (ghs, gcs), states, lives, reverse):
        gh, gc = states
        _pull(slopes, gates[t, 1], gh, gc, gz[t])
        product(ga[t], gh)
    gh, gc = states
    return ga.reshape((*shape[:-1], ga.shape[-1])), gh.reshape(shape[1:]), gc.reshape(shape[1:])


def _back_by_ops(
    ghs: Any, gcs: Any, ggates: Any, gates: Any, before: Any, w: Any, live: Any, reverse: bool
) -> tuple:
    """The same of tensors, recorded."""
    length = before.shape[0]
    ggates, gates, before = each(ggates, length), unbind(gates, 0), unbind(before, 0)

    def pull(t: int, gh: Any, gc: Any) -> tuple:
        gz, gc = _pull_step(gh, gc, ggates[t], gates[t], before[t])
        return (gz,), (gz @ w, gc)

    (ga,), (gh, gc) = walk_back(pull, (ghs, gcs), length, live, reverse)
    return ga, gh, gc


@lstm_scan.jvp
def lstm_scan_tangents(w, h, c, live, y, a_t, w_t, h_t, c_t, reverse):
    hs, cs, gates = y
    length, across = hs.shape[0], op.swapaxes(w, axis1=-1, axis2=-2)
    moved = each(plus(a_t, pushed_product(h, hs, w_t, reverse)), length)
    before, gates = unbind(states_before(c, cs, reverse), 0), unbind(gates, 0)

    def step(t: int, h_t: Any, c_t: Any) -> tuple:
        z_t = plus(moved[t], None if h_t is None else h_t @ across)
        return _push_step(z_t, c_t, gates[t], before[t])

    return walk(step, (h_t, c_t), length, live, reverse)


lstm_scan.batch(scan_batch)
