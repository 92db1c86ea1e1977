"""Attention that never holds the whole matrix of scores: blocks of queries by blocks of keys.

The forward walks the keys block by block with a running maximum and a running sum (Milakov and
Gimelshein, Online normalizer calculation for softmax, 2018). The backward computes each block of
probabilities again from the log-sum-exp of its rows (Dao et al., FlashAttention, 2022). Memory
holds the arguments and one block.
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.blocks import on_threads, part, spans
from ...backends.device import array_module
from ...ops.attention.drops import kept, kept_factor
from ...ops.attention.primitives import check, check_gradient
from ...ops.axes import sum_to, widen
from ..row_sums import largest_over

BLOCK_SCORES = 1 << 19  # scores computed at a time
BLOCK_SCORES_ON_GPU = 1 << 27  # here a block costs a dozen launches, and takes 512 MB
NARROWEST = 64  # queries or keys in a block, at least: products of narrower blocks are slow


def _blocks(q: Any, k: Any, block_size: int | None) -> tuple[list[slice], list[slice]]:
    """Spans of queries and of keys: of `block_size`, or of at most BLOCK_SCORES scores."""
    size = block_size
    if size is None:
        most = BLOCK_SCORES if array_module(q) is np else BLOCK_SCORES_ON_GPU
        size = max(NARROWEST, int((most / max(prod(q.shape[:-2]), 1)) ** 0.5))
    return spans(q.shape[-2], size), spans(k.shape[-2], size)


def _by_head(q: Any) -> list[tuple]:
    """The pieces that threads share: slices along the first leading axis with several entries.

    Heads and examples are independent of each other. On a GPU all of them are one piece.
    """
    lead, whole = q.shape[:-2], (slice(None),) * q.ndim
    along = next((i for i, n in enumerate(lead) if n > 1), None)
    if along is None or array_module(q) is not np:
        return [whole]
    return [(*whole[:along], one, *whole[along + 1 :]) for one in spans(lead[along], 1)]


def _cut(arrays: tuple, piece: tuple) -> list:
    """The piece of each array that is not None."""
    return [None if x is None else part(x, piece) for x in arrays]


class Drops:
    """Blocks of dropout's factors on the weights: 1/(1 − p) where kept, else 0."""

    def __init__(self, seeds: Any, p: float):
        self.seeds, self.p = seeds, p

    def __call__(self, weights: Any, rows: slice, columns: slice) -> Any:
        """The weights, or their cotangents, with the block's factors, in place."""
        if self.seeds is not None:
            weights *= kept_factor(self.p)
            np.copyto(weights, 0, where=~kept(self.seeds, rows, columns, self.p))
        return weights


class Scores:
    """Blocks of scale q kᵀ + mask, −∞ where a query may not take a key."""

    def __init__(self, q: Any, k: Any, mask: Any, is_causal: bool, scale: float):
        self.q, self.k = q * scale, k
        self.mask, self.is_causal = mask, is_causal
        self.xp = array_module(q)

    def hidden(self, rows: slice, columns: slice) -> bool:
        """Whether all keys of the block come after all its queries, which then may take none."""
        return self.is_causal and columns.start >= rows.stop

    def __call__(self, rows: slice, columns: slice) -> Any:
        s = self.q[..., rows, :] @ self.k[..., columns, :].swapaxes(-1, -2)
        if self.is_causal and columns.stop > rows.start + 1:
            queries, keys = (self.xp.arange(n.start, n.stop) for n in (rows, columns))
            np.copyto(s, -np.inf, where=keys > queries[:, None])
        if self.mask is not None:
            piece = (*(slice(None),) * (s.ndim - 2), rows, columns)
            mask = part(self.mask, piece)
            if mask.dtype.kind == "b":
                np.copyto(s, -np.inf, where=~mask)
            else:
                s += mask
        return s


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, seeds: Any = None, *, is_causal: bool = False,
    scale: float = 1.0, block_size: int | None = None, dropout_p: float = 0.0,
) -> tuple:  # fmt: skip
    """(y, log-sum-exp of each row of scores): the op attention."""
    check(q, k, v)
    dtype, xp = q.dtype, array_module(q)
    q, k, v = widen(q), widen(k), widen(v)
    y = xp.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    lse = xp.empty((*q.shape[:-1], 1), q.dtype)

    def work(piece: tuple) -> None:
        arrays = _cut((q, k, v, mask, seeds, y, lse), piece)
        _attend(arrays, is_causal, scale, block_size, dropout_p)

    on_threads(work, _by_head(q), q)
    return y.astype(dtype, copy=False), lse


def _attend(arrays, is_causal, scale, block_size, dropout_p):
    """Fill y and lse, with an online softmax over the blocks of keys."""
    q, k, v, mask, seeds, y, lse = arrays
    xp = array_module(q)
    scores, drops = Scores(q, k, mask, is_causal, scale), Drops(seeds, dropout_p)
    queries, keys = _blocks(q, k, block_size)
    for rows in queries:
        top = xp.full((*q.shape[:-2], rows.stop - rows.start, 1), -np.inf, q.dtype)
        total = xp.zeros_like(top)
        taken = xp.zeros((*top.shape[:-1], v.shape[-1]), q.dtype)
        for columns in keys:
            if scores.hidden(rows, columns):
                break
            s = scores(rows, columns)
            higher = np.maximum(top, largest_over(s, (s.ndim - 1,)))
            safe = np.where(higher == -np.inf, 0, higher)  # a row all −∞ so far stays at 0
            s -= safe
            p = np.exp(s, out=s)
            shrink = np.exp(top - safe)
            total = total * shrink + p.sum(-1, keepdims=True)
            taken *= shrink
            taken += drops(p, rows, columns) @ v[..., columns, :]
            top = higher
        none = total == 0
        y[..., rows, :] = taken / (total + none)
        lse[..., rows, :] = np.where(none, np.inf, top + np.log(total + none))


def gradients(
    a: Any, q: Any, k: Any, v: Any, mask: Any = None, o: Any = None, lse: Any = None,
    seeds: Any = None, *, is_causal: bool = False, scale: float = 1.0,
    block_size: int | None = None, mask_gradient: bool = False, dropout_p: float = 0.0,
) -> tuple:  # fmt: skip
    """(dq, dk, dv, dmask), the last one empty without mask_gradient: the op attention_grads."""
    check_gradient(a, q, k, v, o, lse)
    dtypes = q.dtype, k.dtype, v.dtype
    a, q, k, v, o = (widen(x) for x in (a, q, k, v, o))
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    dmask = array_module(q).zeros(mask.shape if mask_gradient else (0,), q.dtype)

    def work(piece: tuple) -> None:
        arrays = _cut((a, q, k, v, mask, o, lse, seeds, dq, dk, dv), piece)
        _pull(arrays, dmask if mask_gradient else None, is_causal, scale, block_size, dropout_p)

    # the gradient of a mask may be a sum over heads, which threads would add to at once
    on_threads(work, _by_head(q) if not mask_gradient else [(slice(None),) * q.ndim], q)
    dmask = dmask.astype(mask.dtype, copy=False) if mask_gradient else dmask
    grads = zip((dq, dk, dv), dtypes, strict=True)
    return *[d.astype(dtype, copy=False) for d, dtype in grads], dmask


def _pull(arrays, dmask, is_causal, scale, block_size, dropout_p):
    """Fill dq, dk, dv and, if wanted, dmask; each block of probabilities is computed again."""
    a, q, k, v, mask, o, lse, seeds, dq, dk, dv = arrays
    scores, drops = Scores(q, k, mask, is_causal, scale), Drops(seeds, dropout_p)
    queries, keys = _blocks(q, k, block_size)
    for rows in queries:
        a_rows, q_rows = a[..., rows, :], scores.q[..., rows, :]
        delta = (a_rows * o[..., rows, :]).sum(-1, keepdims=True)
        for columns in keys:
            if scores.hidden(rows, columns):
                break
            p = scores(rows, columns)
            p -= lse[..., rows, :]
            np.exp(p, out=p)
            ds = drops(a_rows @ v[..., columns, :].swapaxes(-1, -2), rows, columns)
            ds -= delta
            ds *= p
            dv[..., columns, :] += drops(p, rows, columns).swapaxes(-1, -2) @ a_rows
            if dmask is not None:
                total = part(dmask, (*(slice(None),) * (ds.ndim - 2), rows, columns))
                total += sum_to(ds, total.shape)
            dq[..., rows, :] += ds @ k[..., columns, :]
            dk[..., columns, :] += ds.swapaxes(-1, -2) @ q_rows
    dq *= scale
