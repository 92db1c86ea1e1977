"""Cross entropy of a linear map's results, which are never all in memory.

The logits are computed block by block, once for the losses and once more for the gradients: one
product more than in a plain backward. Like attention (fast/attention/blocks.py), the forward walks
the classes with a running maximum and a running sum. It saves one number for each sample.

Wijmans et al., Cut your losses in large-vocabulary language models, 2024.
"""

from typing import Any

import numpy as np

from ...backends.blocks import on_threads, scratch, spans
from ...backends.device import array_module
from ...backends.dtypes import accumulator, common_dtype
from ...custom.variants import ANY
from ...ops.loss.linear_classes import check, linear_nll, linear_nll_grads
from ...ops.softmax import NEARLY_ALL
from ..forms import Forms
from ..row_sums import largest_over, sum_over

form = Forms()

BLOCK = 1 << 20  # logits at a time
ROWS = 1 << 10  # samples at a time: fewer read w more often, more leave few classes in a block


def _blocks(x: Any, w: Any) -> tuple[list[slice], list[slice]]:
    """Spans of samples and of classes."""
    rows = min(len(x), ROWS)
    return spans(len(x), ROWS), spans(len(w), max(1, BLOCK // max(rows, 1)))


def _logits(x: Any, w: Any, b: Any) -> Any:
    """x wᵀ + b of a block, in x's dtype and in scratch memory."""
    z = scratch.empty("block 0", (len(x), len(w)), x)
    np.matmul(x, w.astype(x.dtype, copy=False).T, out=z)
    if b is not None:
        z += b.astype(x.dtype, copy=False)
    return z


def _at_target(index: Any, columns: slice) -> tuple[Any, Any]:
    """(which samples have their target in this block of classes, its column there), both (n, 1)."""
    place = index[:, None] - columns.start
    inside = (place >= 0) & (place < columns.stop - columns.start)
    return inside, np.where(inside, place, 0)


@form(linear_nll, "blocks", on=ANY)
def losses(x: Any, w: Any, index: Any, b: Any = None) -> tuple:
    """(y, lse): the op linear_nll."""
    check(x, w, index, b)
    xp, dtype = array_module(x), common_dtype(*[a for a in (x, w, b) if a is not None])
    wide = accumulator(dtype) or dtype
    x = x.astype(wide, copy=False)
    y, lse = xp.empty(len(x), wide), xp.empty(len(x), wide)
    samples, classes = _blocks(x, w)
    endless = []  # rows with a logit +∞: they are their limits, which blocks cannot find

    def work(rows: slice) -> None:
        top = xp.full((rows.stop - rows.start, 1), -np.inf, wide)
        total, picked = xp.zeros_like(top), xp.zeros_like(top)
        for columns in classes:
            z = _logits(x[rows], w[columns], None if b is None else b[columns])
            inside, place = _at_target(index[rows], columns)
            picked = np.where(inside, np.take_along_axis(z, place, 1), picked)
            higher = np.maximum(top, largest_over(z, (1,)))
            safe = np.where(higher == -np.inf, 0, higher)  # all −∞ so far stays at 0
            z -= safe
            total *= np.exp(top - safe)
            total += sum_over(np.exp(z, out=z), (1,), wide)
            top = higher
        if xp is np and (top == np.inf).any():
            endless.append(rows)
        log = np.log(total)
        lse[rows] = (log + top)[:, 0]
        y[rows] = (log + (top - picked))[:, 0]

    on_threads(work, samples, x)
    return linear_nll.reference(x, w, index, b) if endless else (y, lse)


@form(linear_nll_grads, "blocks", on=ANY)
def gradients(
    a: Any, d: Any, x: Any, w: Any, index: Any, lse: Any, b: Any = None, *,
    wanted: tuple = (True, True, True),
) -> tuple:  # fmt: skip
    """(G w, Gᵀ x, Σ_n G), each block of G from its logits: the op linear_nll_grads."""
    check(x, w, index, b)
    xp = array_module(x)
    if xp is np and (lse == np.inf).any():
        return linear_nll_grads.reference(a, d, x, w, index, lse, b, wanted=wanted)
    dtypes = (x.dtype, w.dtype, w.dtype if b is None else b.dtype)
    a, d, x = (v.astype(lse.dtype, copy=False) for v in (a, d, x))
    shapes = x.shape, w.shape, w.shape[:1]
    grads = [
        xp.zeros(shape if wants else 0, lse.dtype)
        for shape, wants in zip(shapes, wanted, strict=True)
    ]
    idle = (a == 0) & (d == 0)  # their gradient is 0 for every x
    samples, classes = _blocks(x, w)
    for rows in samples:
        both, of_d = (a + d)[rows, None], d[rows, None]
        others, near = xp.zeros_like(both), xp.zeros(both.shape, bool)
        for columns in classes:
            g = _logits(x[rows], w[columns], None if b is None else b[columns])
            g -= lse[rows, None]
            np.exp(g, out=g)
            inside, place = _at_target(index[rows], columns)
            share = np.take_along_axis(g, place, 1)
            now = inside & (share > NEARLY_ALL)
            g *= both
            picked = share * both - np.where(inside, of_d, 0)
            np.put_along_axis(g, place, np.where(now, 0, picked), 1)
            np.copyto(g, 0, where=idle[rows, None])
            others += sum_over(g, (1,), g.dtype)
            near |= now
            _add_products(grads, g, x, w, rows, columns, wanted)
        if xp is not np or near.any():
            late = np.where(near & ~idle[rows, None], a[rows, None] - others, 0)
            _add_targets(grads, late, near[:, 0], x[rows], w, index[rows], rows, wanted)
    pairs = zip(grads, dtypes, strict=True)
    return tuple([v.astype(dtype, copy=False) for v, dtype in pairs])


def _add_products(
    grads: list, g: Any, x: Any, w: Any, rows: slice, columns: slice, wanted: tuple
) -> None:
    """Add a block of G to the gradients of x, w and b."""
    gx, gw, gb = grads
    if wanted[0]:
        gx[rows] += np.matmul(g, w[columns].astype(g.dtype, copy=False))
    if wanted[1]:
        gw[columns] += np.matmul(g.T, x[rows])
    if wanted[2]:
        gb[columns] += g.sum(0)


def _add_targets(
    grads: list, g: Any, near: Any, x: Any, w: Any, index: Any, rows: slice, wanted: tuple
) -> None:
    """Add G at the targets alone, g (n, 1), for the rows that are near."""
    xp = array_module(x)
    chosen = np.flatnonzero(near) if xp is np else slice(None)  # on a GPU it would wait
    g, x, index = g[chosen], x[chosen], index[chosen]
    gx, gw, gb = grads
    if wanted[0]:
        own = xp.arange(rows.start, rows.stop)[chosen]
        gx[own] += g * w[index].astype(g.dtype, copy=False)
    if wanted[1]:
        xp.add.at(gw, index, g * x)
    if wanted[2]:
        xp.add.at(gb, index, g[:, 0])


form.install()
