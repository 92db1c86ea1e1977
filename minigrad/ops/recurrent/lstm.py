"""The LSTM: the gates of one step as one op, and a whole sequence as one.

Composed of a sum, slices, σ, tanh and products a step is some 16 ops, whose own work is a third of
their time at 16 × 64.

Hochreiter and Schmidhuber, Long short-term memory, 1997; the forget gate: Gers et al., 2000.
"""

from typing import Any

import numpy as np

from ...engine.primitive import primitive
from ...engine.registry import op
from ..axes import plus, widen
from ..batching import full
from .steps import (
    by_gate,
    check_scan,
    each,
    gate_parts,
    like,
    pushed_product,
    rounded,
    scan_batch,
    sigmoid,
    states_before,
    times,
    unbind,
    walk,
    walk_back,
    weight_gradient,
    widened,
)

# -- one step --------------------------------------------------------------------------------------


def _step(z: Any, c: Any) -> tuple[Any, Any, Any]:
    """(h', c', gates) of a step, from z and c."""
    i, f, g, o = by_gate(z, 4)
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    c = f * c + i * g
    t = np.tanh(c)
    return o * t, c, np.stack([i, f, o, g, t])


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
    with np.errstate(over="ignore"):
        return rounded(_step(z, c), dtype)


@lstm_gates.vjp
def lstm_gates_gradients(g, y, c):
    gh, gc, ggates = (None if x is None else widen(x) for x in g)
    gates = widen(y[2])
    (c,) = like(gates, c)
    return _pull_step(gh, gc, ggates, gates, c)


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
    across = w.swapaxes(-1, -2)
    with np.errstate(over="ignore"):
        step = lambda t, h, c: _step(a[t] + h @ across, c)
        return rounded(walk(step, (h, c), len(a), live, reverse), dtype)


@lstm_scan.vjp
def lstm_scan_gradients(g, y, w, h, c, live, needs, reverse):
    ghs, gcs, ggates = (None if x is None else widen(x) for x in g)
    hs, cs, gates = (widen(x) for x in y)
    w, h, c = like(hs, w, h, c)
    length, before = hs.shape[0], unbind(states_before(c, cs, reverse), 0)
    gates, ggates = unbind(gates, 0), each(ggates, length)

    def pull(t: int, gh: Any, gc: Any) -> tuple:
        gz, gc = _pull_step(gh, gc, ggates[t], gates[t], before[t])
        return (gz,), (gz @ w, gc)

    (ga,), (gh, gc) = walk_back(pull, (ghs, gcs), length, live, reverse)
    gw = weight_gradient(ga, states_before(h, hs, reverse), w.shape) if needs[1] else None
    return ga, gw, gh, gc, None


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
