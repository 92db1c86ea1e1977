"""Attention on a GPU: by cuDNN where it has a kernel, else products and one kernel between them.

cuDNN (cudnn_attention.py) takes 16-bit floats without a mask array, and stores no scores.
`by_cudnn` switches it off for the tests that compare the two.

Without cuDNN a product covers all heads of several examples, as many as the workspace has room for
their scores. Between q kᵀ and the product with v, one kernel reads the scores once: it computes
mask, softmax and log-sum-exp. In the backward one kernel computes the probabilities and the
gradient of the scores. Tensor cores multiply 16-bit floats, and scores are float32 throughout. A
causal mask needs no matrix: the kernel compares an element's index in its row, the key, with the
row's query. Where not all scores fit in the workspace, most of the hidden ones are not computed.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..backends.cublas import product
from ..backends.device import array_module
from ..expressions.trace import place
from ..fusion import launch
from ..fusion.launch import shaped
from ..ops.axes import sum_to
from . import cudnn_attention
from .install import on_gpu
from .products import available

SCORES = 1 << 28  # in memory at a time: 1 GiB of float32
by_cudnn = True


def _masked(s: Any, mask: tuple) -> Any:
    """Scores under masks: boolean, additive, or the last key that each query sees, an integer."""
    for m in mask:
        if m.dtype.kind == "i":
            m = place(s) <= m
        s = np.where(m, s, -np.inf) if m.dtype == bool else s + m.astype(s.dtype)
    return s


def probability_words(dtype: Any) -> Any:
    """(softmax of the scores, their log-sum-exp) of rows; 0 and ∞ for a row without keys."""

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
    """(P, dS) of each element: P = e^(S − lse), dS = P ∘ (dP − δ)."""

    def words(s: Any, dp: Any, lse: Any, delta: Any, *mask: Any) -> list:
        p = np.exp(_masked(s, mask) - lse)
        return [p.astype(dtype), (p * (dp - delta)).astype(dtype)]

    return words


def _delta(a: Any, o: Any) -> list:
    wide = np.float32 if a.dtype.itemsize == 2 else a.dtype
    return [(a.astype(wide) * o.astype(wide)).sum(axis=-1, keepdims=True)]


def _takes(q: Any, k: Any, v: Any, seeds: Any) -> bool:
    """Whether this module takes the arrays: on a GPU, one dtype, no dropout, matching shapes."""
    fits = q.ndim >= 2 and k.shape == (*q.shape[:-2], *k.shape[-2:-1], q.shape[-1])
    known = seeds is None and fits and available(q) and q.dtype.kind in "fV"
    alike = q.dtype == k.dtype == v.dtype and v.shape[:-1] == k.shape[:-1]
    return bool(known and alike and q.size and k.size and v.size)


def _for_cudnn(q: Any, v: Any, mask: Any) -> bool:
    return by_cudnn and mask is None and cudnn_attention.suits(q, v)


def _too_long(q: Any, k: Any) -> bool:
    """Whether the scores of a single example exceed the workspace."""
    return q.shape[-2] * k.shape[-2] > SCORES


def _masks(mask: Any, is_causal: bool, xp: Any, shape: tuple) -> list:
    """The masks with one leading axis for the examples: (examples or 1, L, S); causal (1, L, 1)."""
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
    """x (..., n, m) as contiguous (examples, n, m), with at most one copy."""
    return array_module(x).ascontiguousarray(x).reshape((-1, *x.shape[-2:]))


def _parts(q: Any, k: Any, by_queries: bool) -> list[tuple[slice, slice]]:
    """(queries, keys) of each step, the last queries first.

    One step takes all. Where a causal mask hides many scores, a step takes an eighth of the queries
    and the keys that they see. No scores of other keys are computed.
    """
    (examples, queries), keys = q.shape[:2], k.shape[1]
    if not by_queries or examples * queries * keys <= SCORES:
        return [(slice(0, queries), slice(0, keys))]
    step = -(-queries // (8 * 64)) * 64
    parts = [
        (slice(i, i + step), slice(0, min(i + step, keys))) for i in range(0, queries - step, step)
    ]
    rest = slice(len(parts) * step, queries)
    return [(rest, slice(0, keys)), *parts[::-1]]


def _examples(q: Any, k: Any, parts: list) -> list[slice]:
    """The examples of each step, so that the scores of each part fit in the workspace."""
    longest = max(queries.stop - queries.start for queries, _ in parts)
    step = max(1, SCORES // (longest * k.shape[1]))
    return [slice(i, min(i + step, len(q))) for i in range(0, len(q), step)]


def _of(masks: list, *at: slice) -> list:
    """The masks of some examples, queries and keys; an axis of length 1 serves all of them."""
    return [
        m[tuple([slice(None) if n == 1 else i for n, i in zip(m.shape, at, strict=False)])]
        for m in masks
    ]


def _joined(xs: Sequence[Any], axis: int) -> Any:
    return xs[0] if len(xs) == 1 else array_module(xs[0]).concatenate(xs, axis)


def _transposed(x: Any) -> Any:
    return x.swapaxes(-1, -2)


def _forward(q: Any, k: Any, v: Any, masks: list, parts: list, scale: float) -> list | None:
    """[y, lse] of arrays (examples, length, features)."""
    words, found = probability_words(q.dtype), []
    for queries, keys in parts:
        s = product(q[:, queries], _transposed(k[:, keys]), scale, wide=True)
        arrays = [s, *_of(masks, slice(None), queries, keys)]
        ys = launch.run(("attention", q.dtype, len(masks)), words, arrays)
        if ys is None:
            return None
        found.append((product(ys[0], v[:, keys]), ys[1]))
    return [_joined(xs[::-1], 1) for xs in zip(*found, strict=True)]


def _backward(
    a: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, masks: list, parts: list, scale: float,
    dtype: Any,
) -> list | None:  # fmt: skip
    """[dq, dk, dv, dS] of arrays (examples, length, features); dS, in dtype, is the last part's."""
    words, several = gradient_words(dtype), len(parts) > 1
    key = ("attention gradient", q.dtype, len(masks), dtype)
    delta = launch.run("delta", _delta, [a, o])
    if delta is None:
        return None
    dq: list = []
    dk: Any = None
    dv: Any = None
    ds: Any = None
    for queries, keys in parts:
        s = product(q[:, queries], _transposed(k[:, keys]), scale, wide=True)
        dp = product(a[:, queries], _transposed(v[:, keys]), wide=True)
        arrays = [s, dp, lse[:, queries], delta[0][:, queries]]
        found = launch.run(key, words, [*arrays, *_of(masks, slice(None), queries, keys)])
        if found is None:
            return None
        del s, dp, arrays
        ds = found[1]
        p, rounded = (x.astype(q.dtype, copy=False) for x in found)
        dq.append(product(rounded, k[:, keys], scale))
        of_keys = product(_transposed(rounded), q[:, queries], scale, wide=several)
        of_values = product(_transposed(p), a[:, queries], wide=several)
        if dk is None:  # the first part has all keys
            dk, dv = of_keys, of_values
        else:
            dk[:, keys] += of_keys
            dv[:, keys] += of_values
    dk, dv = (x.astype(q.dtype, copy=False) for x in (dk, dv))
    return [_joined(dq[::-1], 1), dk, dv, ds]


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
    parts, found = _parts(q, k, is_causal and len(masks) == 1), []
    for i in _examples(q, k, parts):
        found.append(_forward(q[i], k[i], v[i], _of(masks, i), parts, scale))
        if found[-1] is None:
            return None
    y, lse = (_joined(xs, 0) for xs in zip(*found, strict=True))
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
    parts, found = _parts(q, k, is_causal and len(masks) == 1), []
    dtype = lse.dtype if mask_gradient else q.dtype
    for i in _examples(q, k, parts):
        own = _backward(
            a[i], q[i], k[i], v[i], o[i], lse[i], _of(masks, i), parts, scale, dtype
        )  # fmt: skip
        if own is None:
            return None
        found.append(own if mask_gradient else own[:3])
    joined = [_joined(xs, 0) for xs in zip(*found, strict=True)]
    results = [shaped(x, own) for x, own in zip(joined, shapes, strict=False)]
    if not mask_gradient:
        return *results, no_gradient
    dmask = sum_to(joined[3].reshape(shape), mask.shape).astype(mask.dtype)
    return *results, dmask
