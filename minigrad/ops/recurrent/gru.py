"""The GRU: the gates of one step as one op, and a whole sequence; the reset gate acts after the
product.

Cho et al., Learning phrase representations using RNN encoder-decoder, 2014.
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


def _step(a: Any, r: Any, h: Any) -> tuple[Any, Any]:
    """(h', gates) of a step, from a, r and h."""
    (a1, a2, a3), (r1, r2, r3) = by_gate(a, 3), by_gate(r, 3)
    reset, z = sigmoid(a1 + r1), sigmoid(a2 + r2)
    n = np.tanh(a3 + reset * r3)
    return n + z * (h - n), np.stack([reset, z, n, r3])


def _pull_step(gh: Any, ggates: Any, gates: Any, h: Any) -> tuple[Any, Any, Any]:
    """(ga, gr, the part of gh that does not go through r) from cotangents of h' and the gates.

    With p = gh (1 − z) (1 − n²), the cotangent of a₃, and q = p r₃ that of the reset gate:
    gr = (q reset (1 − reset), gh (h − n) z (1 − z), p reset) ;  ga the same but for its last, p
    """
    gh = op.zeros_like(h) if gh is None else gh
    greset, gz, gn, gproduct = each(ggates, 4)
    reset, z, n, product = unbind(gates, 0)
    p = plus(gh * (1 - z), gn) * (1 - n * n)
    first = plus(p * product, greset) * (reset * (1 - reset))
    second = plus(gh * (h - n), gz) * (z * (1 - z))
    ga = op.concatenate([first, second, p], axis=-1)
    return ga, op.concatenate([first, second, plus(p * reset, gproduct)], axis=-1), gh * z


def _push_step(at: Any, rt: Any, ht: Any, gates: Any, h: Any) -> tuple[Any, Any]:
    """The tangents of h' and the gates from those of a, r and h, each None where it is zero."""
    reset, z, n, product = unbind(gates, 0)
    a1, a2, a3 = [None] * 3 if at is None else gate_parts(at, 3)
    r1, r2, r3 = [None] * 3 if rt is None else gate_parts(rt, 3)
    reset_t, zt = times(plus(a1, r1), reset * (1 - reset)), times(plus(a2, r2), z * (1 - z))
    nt = times(plus(a3, plus(times(reset_t, product), times(r3, reset))), 1 - n * n)
    none = np.zeros_like(h)
    moved = op.stack([none if x is None else x for x in (reset_t, zt, nt, r3)], axis=0)
    return plus(times(nt, 1 - z), plus(times(zt, h - n), times(ht, z))), moved


@primitive(outputs=2)
def gru_gates(a, r, h):
    """(h', gates):  h' = (1 − z) n + z h, n = tanh(a₃ + s r₃), s = σ(a₁ + r₁), z = σ(a₂ + r₂)

    a, r (…, 3H), h (…, H), real. gates (4, …, H) are s, the reset gate, z, n and r₃, of which the
    gradient is made: with p = gh (1 − z) (1 − n²), that of a₃ is p and that of r₃ p s. 16-bit
    floats are computed in float32.
    """
    if h.ndim < 1 or not a.shape == r.shape == (*h.shape[:-1], 3 * h.shape[-1]):
        raise ValueError(f"a and r must be (…, 3H), h (…, H); got {a.shape}, {r.shape}, {h.shape}")
    dtype, a, r, h = widened(a, r, h)
    with np.errstate(over="ignore"):
        return rounded(_step(a, r, h), dtype)


@gru_gates.vjp
def gru_gates_gradients(g, y, h):
    gh, ggates = (None if x is None else widen(x) for x in g)
    gates = widen(y[1])
    (h,) = like(gates, h)
    return _pull_step(gh, ggates, gates, h)


@gru_gates.jvp
def gru_gates_tangents(h, y, a_t, r_t, h_t):
    return _push_step(a_t, r_t, h_t, y[1], h)


@gru_gates.batch
def gru_gates_batch(op_, xs, batched, params):
    h, gates = op_(*full(xs, batched))
    return h, op.swapaxes(gates, axis1=0, axis2=1)


# -- all steps -------------------------------------------------------------------------------------


@primitive(arrays="a w h b live", constants=["live"], outputs=2)
def gru_scan(a, w, h, b: Any = None, live: Any = None, *, reverse=False):
    """(h, gates) behind every step t of gru_gates(a_t, h wᵀ + b, h), from a first h

    a (T, …, N, 3H), the gates' part from the input; w (3H, H) and b (3H,) or None, or one for each
    of a's axes …, (…, 3H, H) and (…, 3H); h (…, N, H), real -> h (T, …, N, H), gates
    (T, 4, …, N, H). live (T, …, N, 1), boolean: where it is False a row keeps its h. reverse takes
    the last step first. The gradient goes back through time by the rule of gru_gates.
    """
    check(a, w, h, b, live)
    dtype, a, w, h, b = widened(a, w, h, b)
    across, bias = w.swapaxes(-1, -2), None if b is None else beside_rows(b)
    with np.errstate(over="ignore"):
        step = lambda t, h: _step(a[t], plus(h @ across, bias), h)
        return rounded(walk(step, (h,), len(a), live, reverse), dtype)


def check(a: Any, w: Any, h: Any, b: Any, live: Any) -> None:
    check_scan(3, a, w, live, h=h)
    if b is not None and b.shape != w.shape[:-1]:
        raise ValueError(f"b must have shape {w.shape[:-1]}, that of w without H; got {b.shape}")


def beside_rows(b: Any) -> Any:
    """A bias (…, n) as (…, 1, n), for rows of …; (n,) as it is."""
    return b if b.ndim == 1 else b.reshape((*b.shape[:-1], 1, b.shape[-1]))


@gru_scan.vjp
def gru_scan_gradients(g, y, w, h, b_shape, live, needs, reverse):
    gh, ggates = (None if x is None else widen(x) for x in g)
    hs, gates = (widen(x) for x in y)
    w, h = like(hs, w, h)
    length, before = hs.shape[0], states_before(h, hs, reverse)
    gates, ggates, each_before = unbind(gates, 0), each(ggates, length), unbind(before, 0)

    def pull(t: int, gh: Any) -> tuple:
        ga, gr, direct = _pull_step(gh, ggates[t], gates[t], each_before[t])
        return (ga, gr), (gr @ w + direct,)

    (ga, gr), (gh,) = walk_back(pull, (gh,), length, live, reverse)
    return ga, *gradients_of_r(gr, before, w, gh, b_shape, needs), None


def gradients_of_r(gr: Any, before: Any, w: Any, gh: Any, b_shape: Any, needs: Any) -> tuple:
    """(gw, gh, gb): w and b have theirs from all steps at once."""
    gw = weight_gradient(gr, before, w.shape) if needs[1] else None
    over = (0, *range(len(b_shape), gr.ndim - 1))
    return gw, gh, op.sum(gr, axis=over) if needs[3] else None


@gru_scan.jvp
def gru_scan_tangents(w, h, live, y, a_t, w_t, h_t, b_t, reverse):
    hs, gates = y
    length, across = hs.shape[0], op.swapaxes(w, axis1=-1, axis2=-2)
    a_t, moved = each(a_t, length), each(pushed_product(h, hs, w_t, reverse), length)
    if b_t is not None:
        b_t = op.broadcast_to(beside_rows(b_t), shape=(*h.shape[:-1], b_t.shape[-1]))
    before, gates = unbind(states_before(h, hs, reverse), 0), unbind(gates, 0)

    def step(t: int, h_t: Any) -> tuple:
        r_t = plus(plus(moved[t], b_t), None if h_t is None else h_t @ across)
        return _push_step(a_t[t], r_t, h_t, gates[t], before[t])

    return walk(step, (h_t,), length, live, reverse)


gru_scan.batch(scan_batch)
