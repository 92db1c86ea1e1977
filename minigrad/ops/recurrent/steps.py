"""Helpers of recurrent ops: pieces of an array, time steps, products of weights.

An op of a whole sequence is one loop over NumPy's calls, without a tensor and a node for each step.
The gradient of a weight is one product, not a sum of one product for each step.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...backends.dtypes import accumulator, common_dtype
from ...engine.registry import op
from ..axes import plus
from ..shape.splitting import unbind


def like(y: Any, *given: Any) -> list:
    """The arrays in the dtype of y, in which a rule computes: an input may have had another."""
    return [x if x.dtype == y.dtype else x.astype(y.dtype) for x in given]


def each(x: Any, count: int) -> Any:
    """The slices of x along axis 0; of None, which is zero, None for each."""
    return [None] * count if x is None else unbind(x, 0)


def parted(g: Any, live: Any) -> tuple[Any, Any]:
    """The cotangents of rows that take this step, and of those that stay as they are."""
    if live is None or g is None:
        return g, None
    return np.where(live, g, 0.0), np.where(live, 0.0, g)


# -- all steps -----------------------------------------------------------------------------------


def in_order(count: int, reverse: bool) -> range:
    """The steps in the order in which they are taken."""
    return range(count - 1, -1, -1) if reverse else range(count)


def walk(step: Callable, states: Sequence, length: int, live: Any, reverse: bool) -> tuple:
    """What step(t, *states) gives at each time, stacked: the states behind it, then all else.

    Where live is False a row keeps its states. They may be tangents: None where they are zero.
    """
    found: list = [()] * length
    for t in in_order(length, reverse):
        after, alive = step(t, *states), None if live is None else live[t]
        states = [after_step(alive, *pair) for pair in zip(after, states, strict=False)]
        found[t] = *states, *after[len(states) :]
    return tuple([np.stack(ys) for ys in zip(*found, strict=True)])


def walk_back(pull: Callable, gs: Sequence, length: int, live: Any, reverse: bool) -> tuple:
    """The cotangents of all that steps were given, stacked, and of the states before the first.

    gs are those of the states behind each step, None where zero. pull(t, *gs of one step) gives
    (arrays to be stacked), (the cotangents of the states before this step).
    """
    gs, lives = [each(g, length) for g in gs], each(live, length)
    found, before = [()] * length, [None] * len(gs)
    for t in in_order(length, not reverse):
        pairs = [parted(plus(g[t], x), lives[t]) for g, x in zip(gs, before, strict=True)]
        found[t], before = pull(t, *[taken for taken, _ in pairs])
        before = [plus(x, kept) for x, (_, kept) in zip(before, pairs, strict=True)]
    return tuple([op.stack(parts, axis=0) for parts in zip(*found, strict=True)]), before


# -- a forward rule's ----------------------------------------------------------------------------


def gate_parts(z: Any, count: int) -> tuple:
    """The parts of z (…, count · H), each (…, H)."""
    return unbind(op.reshape(z, shape=(*z.shape[:-1], count, z.shape[-1] // count)), -2)


def pushed_product(first: Any, states: Any, w_t: Any, reverse: bool) -> Any:
    """The tangent of h wᵀ in all steps from that of w, (T, …, n); None where w is constant."""
    if w_t is None:
        return None
    return op.matmul(states_before(first, states, reverse), op.swapaxes(w_t, axis1=-1, axis2=-2))


def times(a: Any, b: Any) -> Any:
    """a b, where a None is zero."""
    return None if a is None else a * b


def after_step(live: Any, new: Any, old: Any) -> Any:
    """The state behind a step, or its tangent: of rows that did not take it, that from before."""
    return new if live is None else np.where(live, new, 0.0 if old is None else old)


# -- a forward's arrays ----------------------------------------------------------------------------


def widened(*arrays: Any) -> tuple:
    """The dtype of the results, and the arrays in the one of all steps (16 bits: float32)."""
    dtype = common_dtype(*[x.dtype for x in arrays if x is not None])
    if dtype.kind == "c":
        raise TypeError(f"the gates of a recurrent step are real functions, got {dtype}")
    if dtype.kind in "biu":
        dtype = np.result_type(dtype, np.float16)
    wide = accumulator(dtype) or dtype
    return dtype, *[None if x is None else x.astype(wide, copy=False) for x in arrays]


def sigmoid(x: Any) -> Any:
    """1/(1 + e⁻ˣ), which is 0 where e⁻ˣ is ∞: callers ignore that overflow."""
    return 1 / (1 + np.exp(-x))


def rounded(ys: Any, dtype: Any) -> tuple:
    """The results in the dtype that they are to have."""
    return tuple([y.astype(dtype, copy=False) for y in ys])


def check_scan(gates: int, a: Any, w: Any, live: Any, **states: Any) -> None:
    """Refuse shapes that are not those of a sequence: see `lstm_scan`."""
    size = w.shape[-1] if w.ndim > 1 else 0
    lead, middle = w.shape[:-2], a.shape[1:-1]
    fit = w.shape[-2:] == (gates * size, size) and a.ndim > 1 and a.shape[-1] == gates * size
    if not fit or (lead and lead != middle[:-1]):
        n = f"{gates}·H" if gates > 1 else "H"
        raise ValueError(
            f"a must be (T, …, N, {n}) and w ({n}, H), or (…, {n}, H) with a's axes …; got a "
            f"{a.shape}, w {w.shape}"
        )
    for name, state in states.items():
        if state.shape != (*middle, size):
            raise ValueError(f"{name} must have shape {(*middle, size)}, got {state.shape}")
    if live is not None and (live.shape != (*a.shape[:-1], 1) or live.dtype != bool):
        raise ValueError(
            f"live must be boolean, of shape {(*a.shape[:-1], 1)}; got {live.dtype} {live.shape}"
        )
    if not a.shape[0]:
        raise ValueError(f"a sequence needs at least one step, got a {a.shape}")


def by_gate(z: Any, count: int) -> Any:
    """z (…, count · H) as (count, …, H), a view."""
    z = z.reshape((*z.shape[:-1], count, z.shape[-1] // count))
    return z.transpose((z.ndim - 2, *range(z.ndim - 2), z.ndim - 1))


# -- a rule's -----------------------------------------------------------------------------------


def states_before(first: Any, states: Any, reverse: bool) -> Any:
    """The state before each step, from those behind each, (T, …), and the one before all."""
    if reverse:
        return op.concatenate([states[1:], op.expand_dims(first, axis=0)], axis=0)
    return op.concatenate([op.expand_dims(first, axis=0), states[:-1]], axis=0)


def weight_gradient(d: Any, h: Any, shape: tuple) -> Any:
    """Σ dᵀ h over time and rows: the gradient of weights w of this shape in h wᵀ, from that of
    the products d (T, …, n) and the states h (T, …, H) before each step.

    One product for all steps, where each would have had its own, and a sum with the ones before.
    """
    if len(shape) == 2:
        d, h = (x.reshape((-1, x.shape[-1])) for x in (d, h))
        return op.matmul(d.T, h)
    order = (*range(1, d.ndim - 2), 0, d.ndim - 2, d.ndim - 1)
    d, h = (x.transpose(order) for x in (d, h))
    d, h = (x.reshape((*shape[:-2], -1, x.shape[-1])) for x in (d, h))
    return op.matmul(op.swapaxes(d, axis1=-1, axis2=-2), h)


# -- vmap ------------------------------------------------------------------------------------------


def scan_batch(op_: Any, xs: list, batched: list[bool], params: dict) -> tuple:
    """The batch rule of a scan: the examples are one more axis of it, behind that of time.

    Those that share a weight are rows of one product.
    """
    given = {name: (x, b) for name, x, b in zip(op_.arrays, xs, batched, strict=True)}
    size = next(x.shape[0] for x, b in given.values() if b)
    middle = given["a"][0].shape[1 + given["a"][1] : -1]  # of an example
    weights = [name for name in ("w", "b") if name in given and given[name][0] is not None]
    apart = any(given[name][1] for name in weights) or given["w"][0].ndim > 2
    rowless = apart and not middle
    arrays: dict[str, Any] = {}
    for name, (x, has) in given.items():
        if x is None or (name in weights and not apart):
            arrays[name] = x
            continue
        if not has:
            x = op.broadcast_to(x, shape=(size, *x.shape))
        if name in weights:
            own = x.shape[-2:] if name == "w" else x.shape[-1:]
            lead = x.shape[1 : x.ndim - len(own)]
            x = op.reshape(x, shape=(size, *lead, *(1,) * (len(middle[:-1]) - len(lead)), *own))
            arrays[name] = op.broadcast_to(x, shape=(size, *middle[:-1], *own))
            continue
        x = op.expand_dims(x, axis=-2) if rowless else x
        arrays[name] = op.swapaxes(x, axis1=0, axis2=1) if name in ("a", "live") else x
    found = []
    for y in op_(*arrays.values(), **params):
        before = 1 + (y.ndim > arrays["a"].ndim)  # axes before that of the examples: time, gates
        y = op.transpose(y, axes=(before, *range(before), *range(before + 1, y.ndim)))
        found.append(op.squeeze(y, axis=-2) if rowless else y)
    return tuple(found)
