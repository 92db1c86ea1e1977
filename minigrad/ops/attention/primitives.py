"""Attention as one op, and its gradient, as formulas: scores, softmax, product.

The forward saves one number for each query for a backward, the log-sum-exp of its scores. The forms
in fast/attention never hold all scores.
"""

from functools import partial
from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import is_floating
from ...engine.primitive import primitive
from ...engine.registry import op
from ..axes import sum_to, widen
from .composed import dropped, probabilities, pull_gradients, scores, transposed


def check(q: Any, k: Any, v: Any, **others: tuple) -> None:
    """Refuse arrays that do not belong together; others: (array, its shape by the rule)."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not is_floating(x.dtype):  # its gradient could not be filled in place
            raise ValueError(f"{name} must be a floating array, got {x.dtype}")
    rule = "q (..., L, E), k (..., S, E), v (..., S, F) with equal leading axes"
    fit = q.ndim >= 2 and k.shape == (*q.shape[:-2], *k.shape[-2:-1], q.shape[-1])
    if not fit or v.ndim < 1 or v.shape[:-1] != k.shape[:-1]:
        raise ValueError(f"q {q.shape}, k {k.shape}, v {v.shape} must be {rule}")
    for name, (x, shape) in others.items():
        if x.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {x.shape}")


def check_gradient(a: Any, q: Any, k: Any, v: Any, o: Any, lse: Any) -> None:
    """Refuse what is not the forward's, or a cotangent of another shape than its result."""
    result = (*q.shape[:-1], *v.shape[-1:])
    check(q, k, v, a=(a, result), o=(o, result), lse=(lse, (*q.shape[:-1], 1)))


@primitive(arrays="q k v mask seeds", constants=["seeds"], residuals=["lse"])
def attention(
    q, k, v, mask: Any = None, seeds: Any = None, *, is_causal=False, scale=1.0, block_size=None,
    dropout_p=0.0,
):  # fmt: skip
    """y = softmax(scale q kᵀ + mask) v ;  (gq, gk, gv, gmask) = attention_grads(g, q, k, v)

    q (..., L, E), k (..., S, E), v (..., S, F), mask broadcasts against (..., L, S): boolean (True:
    takes part) or added. A query that may take no key gives 0, gradient 0. With seeds
    (..., 1, 1), weights are dropped with probability dropout_p (see drops.py). block_size: of the
    blocks of forms that compute in blocks.
    """
    check(q, k, v)
    dtype, (q, k, v) = q.dtype, map(widen, (q, k, v))
    s = scores(q, k, mask, is_causal, scale)
    top = s.max(-1, keepdims=True) if s.shape[-1] else s.sum(-1, keepdims=True)  # of no key 0
    top = np.where(top == -np.inf, 0, top)  # a row all −∞ stays so, and its exponentials are 0
    e = np.exp(s - top)
    total = e.sum(-1, keepdims=True)
    none = total == 0
    lse = np.where(none, np.inf, top + np.log(total + none))
    y = dropped(e / (total + none), seeds, dropout_p) @ v
    return y.astype(dtype, copy=False), lse


@attention.vjp
def attention_gradients(
    g, q, k, v, mask, seeds, y, lse, is_causal, scale, block_size, dropout_p, needs
):  # fmt: skip
    *gqkv, gmask = attention_grads(
        g, q, k, v, mask, y, lse, seeds, is_causal=is_causal, scale=scale, block_size=block_size,
        mask_gradient=needs[3], dropout_p=dropout_p,
    )  # fmt: skip
    return *gqkv, gmask if needs[3] else None, None


# o and lse, the results of the forward, are taken along to save work. To the rules of
# attention_grads they are functions of q and k; these rules hold the whole matrix of scores.


@primitive(arrays="a q k v mask o lse seeds", constants=["o", "lse", "seeds"], outputs=4)
def attention_grads(
    a, q, k, v, mask: Any = None, o: Any = None, lse: Any = None, seeds: Any = None, *,
    is_causal=False, scale=1.0, block_size=None, mask_gradient=False, dropout_p=0.0,
):  # fmt: skip
    """(dq, dk, dv) = (scale dS k, scale dSᵀ q, (M∘P)ᵀ a),  dS = P ∘ (M ∘ a vᵀ − Σ a o)

    P = e^(S − lse), M the factors of dropout, 1 without seeds. a (..., L, F) is the cotangent of
    attention's result o. A fourth result, dmask, is dS summed to the mask's shape; without
    mask_gradient it is empty. Rules: see composed.pull_gradients.
    """
    check_gradient(a, q, k, v, o, lse)
    dtypes, (a, q, k, v, o) = (q.dtype, k.dtype, v.dtype), map(widen, (a, q, k, v, o))
    drop = partial(dropped, seeds=seeds, p=dropout_p)
    p = np.exp(scores(q, k, mask, is_causal, scale) - lse)
    ds = p * (drop(a @ transposed(v)) - (a * o).sum(-1, keepdims=True))
    grads = scale * (ds @ k), scale * (transposed(ds) @ q), transposed(drop(p)) @ a
    if mask_gradient:
        dmask = sum_to(ds, mask.shape).astype(mask.dtype, copy=False)
    else:
        dmask = array_module(q).zeros((0,), q.dtype)
    return *[d.astype(dtype, copy=False) for d, dtype in zip(grads, dtypes, strict=True)], dmask


@attention_grads.vjp
def attention_grads_rule(
    g, a, q, k, v, mask, seeds, is_causal, scale, mask_gradient, dropout_p, needs
):  # fmt: skip
    p = probabilities(q, k, mask, is_causal, scale)
    g = [*g[:3], g[3] if mask_gradient else None]
    drop = partial(dropped, seeds=seeds, p=dropout_p)
    *others, gs = pull_gradients(g, a, q, k, v, p, scale, drop)
    gmask = sum_to(gs, mask.shape) if needs[4] else None
    return *others, gmask, None, None, None


@attention.batch
@attention_grads.batch
def attention_batch(op_, xs, batched, params):
    """The examples are one more leading axis."""
    place = op_.arrays.index("mask")
    mask, size = xs[place], next(x.shape[0] for x, b in zip(xs, batched, strict=True) if b)
    rest = [(x, b) for i, (x, b) in enumerate(zip(xs, batched, strict=True)) if i != place]
    xs = [x if b or x is None else op.broadcast_to(x, shape=(size, *x.shape)) for x, b in rest]
    q_ndim = len(xs[0].shape) - 1  # type: ignore[union-attr]  # of an example
    own = () if mask is None else mask.shape[batched[place] :]  # the shape in one example
    if params.get("mask_gradient") and not batched[place]:
        mask, batched = op.broadcast_to(mask, shape=(size, *own)), [True] * len(batched)
    if mask is not None and batched[place]:
        lead = (1,) * (q_ndim - len(own))
        mask = op.reshape(mask, shape=(size, *lead, *own))
    y = op_(*xs[:place], mask, *xs[place:], **params)
    if op_ is not attention_grads:
        return y
    if params["mask_gradient"]:
        return *y[:3], op.reshape(y[3], shape=(size, *own))
    return *y[:3], op.broadcast_to(y[3], shape=(size, 0))
