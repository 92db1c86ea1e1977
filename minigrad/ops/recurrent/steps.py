"""What the ops of recurrent networks share: pieces of an array, time steps, products of weights.

An op of a whole sequence is one loop over NumPy's calls: no tensor and no node a step, and
one product for the gradient of a weight where a step each would add up as many.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any

import numpy as np

from ...backends import blas
from ...backends.device import array_module
from ...backends.dtypes import accumulator, common_dtype
from ...engine.registry import op
from ..shape.splitting import unbind
from ..small_products import multiplier


def plain(*arrays: Any) -> bool:
    """Whether all of them, but for what is None, are arrays: nobody records what is done there."""
    return all(x is None or type(x) is array_module(x).ndarray for x in arrays)


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
    """The tangent of a state behind a step: of rows that did not take it, that from before."""
    return new if live is None else np.where(live, new, 0.0 if old is None else old)


# -- a forward's arrays ----------------------------------------------------------------------------


def computed_in(*arrays: Any) -> tuple[Any, Any]:
    """The dtype of the results, and the one that all steps are computed in (16 bits: float32)."""
    dtype = common_dtype(*[x.dtype for x in arrays])
    if dtype.kind == "c":
        raise TypeError(f"the gates of a recurrent step are real functions, got {dtype}")
    if dtype.kind in "biu":
        dtype = np.result_type(dtype, np.float16)
    return dtype, accumulator(dtype) or dtype


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


def as_rows(w: Any, *given: tuple) -> list:
    """Each (x, axes) with x's axes behind the first `axes` and before the last as one.

    Only where all of them share the weight w; x may be None.
    """
    return [
        x
        if x is None or w.ndim > 2
        else x.reshape((*x.shape[:axes], prod(x.shape[axes:-1]), x.shape[-1]))
        for x, axes in given
    ]


def lives_of(live: Any, count: int) -> list:
    """live in each of the steps; None where all rows take it, as far as the host can see."""
    if live is None:
        return [None] * count
    if type(live) is not np.ndarray:
        return list(live)
    whole: Any = live.reshape((count, -1)).all(1)
    return [None if all_live else x for all_live, x in zip(whole, live, strict=True)]


def by_gate(z: Any, count: int) -> Any:
    """z (…, count · H) as (count, …, H), a view."""
    z = z.reshape((*z.shape[:-1], count, z.shape[-1] // count))
    return z.transpose((z.ndim - 2, *range(z.ndim - 2), z.ndim - 1))


def in_order(count: int, reverse: bool) -> range:
    """The steps in the order in which they are taken."""
    return range(count - 1, -1, -1) if reverse else range(count)


# Elements of the state times steps. A backward of 50 steps of 16 × 64 takes 0.93 ms with 2^13, 0.84
# with 2^14, 0.81 with 2^16.
_TOGETHER = 1 << 15


def several(state: Any, length: int) -> int:
    """For how many of the steps numbers are made at once, a few arrays of the state's size each.

    As many as stay in the cache until they are used.
    """
    return max(1, min(length, _TOGETHER // max(1, state.size)))


def runs(order: range, count: int) -> list[range]:
    """The steps of an order, `count` at a time."""
    return [order[i : i + count] for i in range(0, len(order), count)]


def product_with(w: Any, states: Any) -> Callable:
    """product(x, y): y = x w, for x with as many rows as the states, in each of the steps.

    For one matrix by `dot`, which is not a ufunc and so begins sooner (0.5 of 5.6 µs for 16 × 64 by
    64 × 256), or in blocks that BLAS takes as they lie (16 × 128 by 128 × 512 32 → 19 µs). Only
    where `products_alone` holds.
    """
    if w.ndim > 2:
        return lambda x, y: np.matmul(x, w, out=y)
    in_blocks = multiplier(w, len(states))
    return in_blocks or (lambda x, y: np.dot(x, w, out=y))


def products_alone(h: Any, w: Any) -> AbstractContextManager:
    """BLAS on one thread while the products of a step, of h and w, are of middling size.

    A second thread would gain little and spin behind each of them: see `blas.MIDDLE`.
    """
    return blas.one_thread() if h.size * w.shape[-2] < blas.MIDDLE else nullcontext()


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
