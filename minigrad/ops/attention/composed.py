"""Attention composed of other ops: the plain form, and the derivatives of the gradients.

S = scale q kᵀ + mask,  P = softmax S along the keys,  y = P v
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.dtypes import common_dtype
from ...engine.registry import op
from ..axes import module_of, plus, widen
from .drops import attention_kept, kept_factor


def transposed(x: Any) -> Any:
    """The last two axes swapped."""
    return op.swapaxes(x, axis1=-1, axis2=-2)


def scores(q: Any, k: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    """S (..., L, S), −∞ where a query may not take a key."""
    s = op.matmul(q * scale, transposed(k))
    if is_causal:
        s = op.where(visible(module_of(q), s.shape[-2], s.shape[-1]), s, -np.inf)
    if mask is not None:
        s = op.where(mask, s, -np.inf) if mask.dtype.kind == "b" else s + mask
    return s


def probabilities(q: Any, k: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    """P (..., L, S): what each query takes of each value; 0 in a row that may take none."""
    return op.softmax(scores(q, k, mask, is_causal, scale), axis=-1)


def plainly(
    q: Any, k: Any, v: Any, mask: Any, seeds: Any, *, is_causal: bool, scale: float, p: float
) -> tuple:
    """(y, M ∘ P) in the plain form, M the factors of dropout, which is none without seeds.

    16-bit floats are taken to float32 for all of it, as in blocks, and P stays there: q kᵀ of
    float16 numbers of some hundreds is infinite, and a row of such scores NaN. y has the dtype of
    q, k and v, whatever that of the mask.
    """
    dtype = common_dtype(q.dtype, k.dtype, v.dtype)
    q, k, v = widen(q), widen(k), widen(v)
    weights = dropped(probabilities(q, k, mask, is_causal, scale), seeds, p)
    y = op.matmul(weights, v)
    return y if y.dtype == dtype else op.astype(y, dtype=dtype), weights


def visible(xp: Any, queries: int, keys: int) -> Any:
    """The causal mask: query i sees the keys 0 … i."""
    return xp.arange(keys) <= xp.arange(queries)[:, None]


def dropped(weights: Any, seeds: Any, p: float) -> Any:
    """Weights (..., L, S) after dropout: 0, or 1/(1 − p) times as large. No seeds: no dropout."""
    if seeds is None:
        return weights
    queries, keys = weights.shape[-2:]
    mask = attention_kept(seeds, queries=queries, keys=keys, p=p)
    y = op.where(mask, weights, 0) * kept_factor(p)
    return op.astype(y, dtype=weights.dtype, copy=False)


def softmax_pullback(p: Any, c: Any) -> Any:
    """The gradient of S from c, that of P: P ∘ (c − Σ P c). Its own transpose."""
    pc = p * c
    return pc - p * op.sum(pc, axis=-1, keepdims=True)


def pull_gradients(
    g: list, a: Any, q: Any, k: Any, v: Any, p: Any, scale: float, drop: Callable
) -> tuple:
    """What (dq, dk, dv, dmask) hand back to (a, q, k, v, S), given cotangents g (or None).

    With M the factors of dropout (`drop` multiplies by them), dP = M ∘ a vᵀ and
    dS = P ∘ (dP − δ), δ = Σ P dP:  dq = scale dS k, dk = scale dSᵀ q, dv = (M ∘ P)ᵀ a, and dmask is
    dS, of which g has the cotangent before any sum over broadcast axes. The cotangent of dS is D;
    of a vᵀ, M ∘ E with E = P ∘ (D − Σ P D); of P, W; of S, P ∘ (W − Σ P W).
    """
    gdq, gdk = (None if c is None else c * scale for c in g[:2])
    gdv, gds = g[2:]
    dp = drop(op.matmul(a, transposed(v)))
    ds = softmax_pullback(p, dp)
    d = plus(
        None if gdq is None else op.matmul(gdq, transposed(k)),
        None if gdk is None else op.matmul(q, transposed(gdk)),
    )
    d = plus(d, gds)
    w = None if gdv is None else drop(op.matmul(a, transposed(gdv)))
    e = None if d is None else drop(softmax_pullback(p, d))
    if d is not None:
        delta = op.sum(p * dp, axis=-1, keepdims=True)
        w = plus(w, d * (dp - delta) - dp * op.sum(d * p, axis=-1, keepdims=True))
    gs = softmax_pullback(p, w)
    z = gs * scale
    ga = plus(
        None if e is None else op.matmul(e, v), None if gdv is None else op.matmul(drop(p), gdv)
    )
    gq = plus(op.matmul(z, k), None if gdk is None else op.matmul(ds, gdk))
    gk = plus(op.matmul(transposed(z), q), None if gdq is None else op.matmul(transposed(ds), gdq))
    gv = None if e is None else op.matmul(transposed(e), a)
    return ga, gq, gk, gv, gs
