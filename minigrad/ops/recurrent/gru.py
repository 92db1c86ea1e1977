"""The GRU: the gates of one step as one op, and a whole sequence; the reset gate acts after the
product.

Cho et al., Learning phrase representations using RNN encoder-decoder, 2014.
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


def _step(a: Any, r: Any, h: Any, gates: Any, h_after: Any) -> None:
    """Fill gates (4, …, H) and h' from a and r by gates (3, …, H), and h."""
    s, reset, z, n, product = gates[:2], *gates
    np.add(a[:2], r[:2], out=s)
    np.negative(s, out=s)
    np.exp(s, out=s)  # where this is ∞ the gate is 0, and no sum would show what it is
    s += 1
    np.divide(1, s, out=s)
    product[...] = r[2]
    np.multiply(reset, product, out=n)
    n += a[2]
    np.tanh(n, out=n)
    np.subtract(h, n, out=h_after)
    h_after *= z
    h_after += n


def _slopes(gates: Any, h: Any, out: Any) -> None:
    """Fill out (4, steps, …, H): what gh is multiplied by for the parts of gr and the last of ga.

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
    h_after = np.empty_like(h, order="C")
    gates = np.empty_like(h, order="C", shape=(4, *h.shape))
    with np.errstate(over="ignore"):
        _step(by_gate(a, 3), by_gate(r, 3), h, gates, h_after)
    return rounded((h_after, gates), dtype)


@gru_gates.vjp
def gru_gates_gradients(g, y, h):
    gh, ggates = (None if x is None else widen(x) for x in g)
    gates = widen(y[1])
    (h,) = like(gates, h)
    if ggates is not None or not plain(gh, gates, h):
        return _pull_step(gh, ggates, gates, h)
    factors = np.empty_like(gates)
    _slopes(gates, h, factors)
    factors *= gh
    gr = array_module(h).empty((*h.shape[:-1], 3 * h.shape[-1]), h.dtype)
    by_gate(gr, 3)[...] = factors[:3]
    ga = gr.copy()
    by_gate(ga, 3)[2] = factors[3]
    return ga, gr, gh * gates[1]


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
    check_scan(3, a, w, live, h=h)
    if b is not None and b.shape != w.shape[:-1]:
        raise ValueError(f"b must have shape {w.shape[:-1]}, that of w without H; got {b.shape}")
    dtype, a, w, h, b = widened(a, w, h, b)
    bias = None if b is None else array_module(b).ascontiguousarray(_beside_rows(b))
    steps = StepsInPlace(a, w, (h,), live, reverse, gates=4)
    r = steps.r
    added, parts = by_gate(steps.a, 3).swapaxes(0, 1), by_gate(r, 3)
    with np.errstate(over="ignore"):
        for t, (h,), gates, (h_after,) in steps:
            if bias is not None:
                r += bias
            _step(added[t], parts, h, gates, h_after)
    return rounded(steps.results(), dtype)


def _beside_rows(b: Any) -> Any:
    """A bias (…, n) as (…, 1, n), for rows of …; (n,) as it is."""
    return b if b.ndim == 1 else b.reshape((*b.shape[:-1], 1, b.shape[-1]))


@gru_scan.vjp
def gru_scan_gradients(g, y, w, h, b_shape, live, needs, reverse):
    gh, ggates = (None if x is None else widen(x) for x in g)
    hs, gates = (widen(x) for x in y)
    w, h = like(hs, w, h)
    before = states_before(h, hs, reverse)
    with products_alone(h, w):
        if ggates is None and plain(gh, gates, before, w, live):
            ga, gr, gh = _back_through_time(gh, gates, before, w, live, reverse)
        else:
            ga, gr, gh = _back_by_ops(gh, ggates, gates, before, w, live, reverse)
    gw = weight_gradient(gr, before, w.shape) if needs[1] else None
    over = (0, *range(len(b_shape), gr.ndim - 1))
    return ga, gw, gh, op.sum(gr, axis=over) if needs[3] else None, None


def _back_through_time(
    ghs: Any, gates: Any, before: Any, w: Any, live: Any, reverse: bool
) -> tuple:
    """(ga, gr, gh) of arrays: what their steps multiply by is made for many steps."""
    shape = before.shape
    gates, before, ghs, live = as_rows(w, (gates, 2), (before, 1), (ghs, 1), (live, 1))
    gr = array_module(w).empty((*before.shape[:-1], 3 * shape[-1]), w.dtype)
    ga, through = np.empty_like(gr), np.empty_like(before[0])
    of_r, of_a = (by_gate(x, 3).swapaxes(0, 1) for x in (gr, ga))
    product = product_with(w, through)

    def fill(span: slice, slopes: Any) -> None:
        _slopes(gates[span].swapaxes(0, 1), before[span], slopes)

    states, lives = [np.zeros_like(through)], lives_of(live, len(before))
    for t, slopes in steps_back_in_place(fill, 4, (ghs,), states, lives, reverse):
        (gh,) = states
        np.multiply(slopes[:3], gh, out=of_r[t])
        np.multiply(slopes[3], gh, out=of_a[t, 2])
        gh *= gates[t, 1]
        product(gr[t], through)
        gh += through
    of_a[:, :2] = of_r[:, :2]
    ga, gr = (x.reshape((*shape[:-1], x.shape[-1])) for x in (ga, gr))
    return ga, gr, states[0].reshape(shape[1:])


def _back_by_ops(
    ghs: Any, ggates: Any, gates: Any, before: Any, w: Any, live: Any, reverse: bool
) -> tuple:
    """The same of tensors, recorded."""
    length = before.shape[0]
    ggates, gates, before = each(ggates, length), unbind(gates, 0), unbind(before, 0)

    def pull(t: int, gh: Any) -> tuple:
        ga, gr, direct = _pull_step(gh, ggates[t], gates[t], before[t])
        return (ga, gr), (gr @ w + direct,)

    (ga, gr), (gh,) = walk_back(pull, (ghs,), length, live, reverse)
    return ga, gr, gh


@gru_scan.jvp
def gru_scan_tangents(w, h, live, y, a_t, w_t, h_t, b_t, reverse):
    hs, gates = y
    length, across = hs.shape[0], op.swapaxes(w, axis1=-1, axis2=-2)
    a_t, moved = each(a_t, length), each(pushed_product(h, hs, w_t, reverse), length)
    if b_t is not None:
        b_t = op.broadcast_to(_beside_rows(b_t), shape=(*h.shape[:-1], b_t.shape[-1]))
    before, gates = unbind(states_before(h, hs, reverse), 0), unbind(gates, 0)

    def step(t: int, h_t: Any) -> tuple:
        r_t = plus(plus(moved[t], b_t), None if h_t is None else h_t @ across)
        return _push_step(a_t[t], r_t, h_t, gates[t], before[t])

    return walk(step, (h_t,), length, live, reverse)


gru_scan.batch(scan_batch)
