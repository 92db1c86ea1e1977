"""Attention on a GPU: by cuDNN where it has a kernel, else products and one kernel between them.

cuDNN (cudnn_attention.py) takes 16-bit floats without an array for a mask, and holds no scores.
`by_cudnn` switches, for the tests that hold one against the other.

Products over all heads at once take as many examples at a time as have their scores in the
workspace. Between q kᵀ and the product with v, mask, softmax and log-sum-exp are one kernel that
reads the scores once; in the backward so are the probabilities and the gradient of the scores.
16-bit floats are multiplied on tensor cores, and scores are float32 throughout. A causal mask is no
matrix: the kernel compares an element's place in its row, its key, with the row's query.
"""

from math import prod
from typing import Any

import numpy as np

from ..backends.cublas import product
from ..backends.device import array_module
from ..expressions.trace import place
from ..fusion import launch
from ..fusion.launch import shaped
from ..ops.attention.heads import parts_of
from ..ops.axes import sum_to
from . import cudnn_attention
from .install import on_gpu
from .products import available

SCORES = 1 << 28  # held at a time: 1 GiB of float32
by_cudnn = True


@on_gpu("split_heads")
def split_heads(x: Any, *, heads: int, time: int = 0) -> Any:
    """The three in memory one after the other: a copy here, and none at each product with them."""
    parts = parts_of(x, heads, time).copy(order="C")
    return parts[0], parts[1], parts[2]


def _masked(s: Any, mask: tuple) -> Any:
    """Scores under masks: boolean, added, or the last key that each query sees, an integer."""
    for m in mask:
        if m.dtype.kind == "i":
            m = place(s) <= m
        s = np.where(m, s, -np.inf) if m.dtype == bool else s + m.astype(s.dtype)
    return s


def probability_words(dtype: Any) -> Any:
    """(softmax of the scores, their log-sum-exp) of rows; 0 and ∞ where no key takes part."""

    def words(s: Any, *mask: Any) -> list:
        s = _masked(s, mask)
        top = s.max(axis=-1, keepdims=True)
        none = top == -np.inf
        top = np.where(none, 0, top)
        e = np.exp(s - top)
        total = np.where(none, 1, e.sum(axis=-1, keepdims=True))
        return [(e / total).astype(dtype), np.where(none, np.inf, top + np.log(total))]

    return words


def gradient_words(dtype: Any) -> Any:
    """(P, dS) at each place: P = e^(S − lse), dS = P ∘ (dP − δ)."""

    def words(s: Any, dp: Any, lse: Any, delta: Any, *mask: Any) -> list:
        p = np.exp(_masked(s, mask) - lse)
        return [p.astype(dtype), (p * (dp - delta)).astype(dtype)]

    return words


def _delta(a: Any, o: Any) -> list:
    wide = np.float32 if a.dtype.itemsize == 2 else a.dtype
    return [(a.astype(wide) * o.astype(wide)).sum(axis=-1, keepdims=True)]


def _takes(q: Any, k: Any, v: Any, seeds: Any) -> bool:
    """Whether these arrays are for here: on a GPU, of one dtype, no dropout, fitting shapes."""
    fits = q.ndim >= 2 and k.shape == (*q.shape[:-2], *k.shape[-2:-1], q.shape[-1])
    known = seeds is None and fits and available(q) and q.dtype.kind in "fV"
    alike = q.dtype == k.dtype == v.dtype and v.shape[:-1] == k.shape[:-1]
    return bool(known and alike and q.size and k.size and v.size)


def _for_cudnn(q: Any, v: Any, mask: Any) -> bool:
    return by_cudnn and mask is None and cudnn_attention.suits(q, v)


def _too_long(q: Any, k: Any) -> bool:
    """Whether the scores of one example alone do not fit in the workspace."""
    return q.shape[-2] * k.shape[-2] > SCORES


def _masks(mask: Any, is_causal: bool, xp: Any, shape: tuple) -> list:
    """The masks with the leading axis of all examples: (examples or 1, L, S); causal (1, L, 1)."""
    masks = [] if mask is None else [mask]
    if is_causal:  # query i sees the keys 0 … i
        masks.append(xp.arange(shape[-2]).reshape((-1, 1)))
    found = []
    for m in masks:
        m = m.reshape((*(1,) * (len(shape) - m.ndim), *m.shape))
        lead = m.shape[:-2]
        if prod(lead) == 1:
            m = m.reshape((1, *m.shape[-2:]))
        elif lead == shape[:-2]:
            m = m.reshape((-1, *m.shape[-2:]))
        else:
            m = xp.broadcast_to(m, (*shape[:-2], *m.shape[-2:])).reshape((-1, *m.shape[-2:]))
        found.append(m)
    return found


def _merged(x: Any) -> Any:
    """x (..., n, m) as contiguous (examples, n, m), with one copy at most."""
    return array_module(x).ascontiguousarray(x).reshape((-1, *x.shape[-2:]))


def _pieces(q: Any, k: Any) -> list[slice]:
    step = max(1, SCORES // (q.shape[-2] * k.shape[-2]))
    return [slice(i, min(i + step, len(q))) for i in range(0, len(q), step)]


def _of(masks: list, piece: slice) -> list:
    return [m if len(m) == 1 else m[piece] for m in masks]


def _transposed(x: Any) -> Any:
    return x.swapaxes(-1, -2)


@on_gpu("attention")
def attention(
    q: Any, k: Any, v: Any, mask: Any = None, seeds: Any = None, *, is_causal: bool = False,
    scale: float = 1.0, block_size: Any = None, dropout_p: float = 0.0,
) -> Any:  # fmt: skip
    if not _takes(q, k, v, seeds):
        return None
    if _for_cudnn(q, v, mask):
        results = cudnn_attention.forward(q, k, v, is_causal, scale)
        if results is not None:
            return tuple(results)
    if _too_long(q, k):
        return None
    shape, xp = (*q.shape[:-1], k.shape[-2]), array_module(q)
    masks = _masks(mask, is_causal, xp, shape)
    q, k, v = (_merged(x) for x in (q, k, v))
    words = probability_words(q.dtype)
    ys, sums = [], []
    for piece in _pieces(q, k):
        s = product(q[piece], _transposed(k[piece]), scale, wide=True)
        key = ("attention", q.dtype, len(masks))
        found = launch.run(key, words, [s, *_of(masks, piece)])
        if found is None:
            return None
        ys.append(product(found[0], v[piece]))
        sums.append(found[1])
    y, lse = (xs[0] if len(xs) == 1 else xp.concatenate(xs) for xs in (ys, sums))
    return shaped(y, (*shape[:-1], v.shape[-1])), shaped(lse, (*shape[:-1], 1))


@on_gpu("attention_grads")
def attention_grads(
    a: Any, q: Any, k: Any, v: Any, mask: Any = None, o: Any = None, lse: Any = None,
    seeds: Any = None, *, is_causal: bool = False, scale: float = 1.0, block_size: Any = None,
    mask_gradient: bool = False, dropout_p: float = 0.0,
) -> Any:  # fmt: skip
    if not _takes(q, k, v, seeds) or a.dtype != q.dtype:
        return None
    shape, xp, shapes = (*q.shape[:-1], k.shape[-2]), array_module(q), (q.shape, k.shape, v.shape)
    no_gradient = xp.zeros((0,), lse.dtype)  # of a mask
    if _for_cudnn(q, v, mask):
        results = cudnn_attention.gradients(a, q, k, v, o, lse, is_causal, scale)
        if results is not None:
            return *results, no_gradient
    if _too_long(q, k):
        return None
    masks = _masks(mask, is_causal, xp, shape)
    a, q, k, v, o, lse = (_merged(x) for x in (a, q, k, v, o, lse))
    words, grads, parts = gradient_words(q.dtype), [], []
    if mask_gradient:
        words = gradient_words(lse.dtype)
    for piece in _pieces(q, k):
        s = product(q[piece], _transposed(k[piece]), scale, wide=True)
        dp = product(a[piece], _transposed(v[piece]), wide=True)
        delta = launch.run("delta", _delta, [a[piece], o[piece]])
        if delta is None:
            return None
        key = ("attention gradient", q.dtype, len(masks), mask_gradient)
        found = launch.run(key, words, [s, dp, lse[piece], delta[0], *_of(masks, piece)])
        if found is None:
            return None
        del s, dp
        p, ds = found
        if mask_gradient:
            parts.append(ds)
        p, ds = (x.astype(q.dtype, copy=False) for x in (p, ds))
        grads.append(
            (
                product(ds, k[piece], scale),
                product(_transposed(ds), q[piece], scale),
                product(_transposed(p), a[piece]),
            )
        )
    results = [
        shaped(xs[0] if len(xs) == 1 else xp.concatenate(xs), own)
        for xs, own in zip(zip(*grads, strict=True), shapes, strict=True)
    ]
    if not mask_gradient:
        return *results, no_gradient
    dmask = sum_to(xp.concatenate(parts).reshape(shape), mask.shape).astype(mask.dtype)
    return *results, dmask
