"""standardize and its two derivatives in blocks that stay in the cache, on all threads.

Each block of an array is read once; row_sums.py computes its sums.
"""

from typing import Any

import numpy as np

from ...backends.blocks import part, scratch
from ...backends.dtypes import accumulator, common_dtype
from ...backends.image_layout import in_rows
from ...ops.norm.standardize import broadcast_axes
from ..row_sums import sum_of_product, sum_over
from .means import Blocks


def _uniform(weight: Any, axis: tuple, ndim: int) -> bool:
    """Whether a weight is one number for all averaged elements, as in batch_norm."""
    shape = (*(1,) * (ndim - weight.ndim), *weight.shape)
    return all(shape[k] == 1 for k in axis)


def _scaled(y: Any, r: Any, weight: Any, axis: tuple) -> None:
    """y r weight, in place: r, which is small, takes a uniform weight."""
    if weight is not None and _uniform(weight, axis, y.ndim):
        r, weight = r * weight, None
    y *= r
    if weight is not None:
        y *= weight


def _empty(x: Any, piece: tuple, wide: Any, name: str = "block 0") -> Any:
    """Scratch memory for a block of x."""
    return scratch.empty(name, x[piece].shape, x, wide)


def _workspace(y: Any, piece: tuple, wide: Any) -> Any:
    """The memory for a block's result: y itself, or scratch memory of the wider dtype."""
    return y[piece] if y.dtype == wide else _empty(y, piece, wide, "block 1")


def _centred(x: Any, mean: Any, centre: bool, out: Any) -> Any:
    """x − mean, or x for rms_norm, in `out`."""
    if centre:
        return np.subtract(x, mean, out=out)
    out[...] = x
    return out


def standardized(x: Any, weight: Any, bias: Any, axis: tuple, eps: float, centre: bool) -> tuple:
    """(y, mean, var, rstd)."""
    x = in_rows(x)
    wide = accumulator(x.dtype) or x.dtype
    y = np.empty(x.shape, x.dtype)
    kept = tuple([1 if k in axis else n for k, n in enumerate(x.shape)])
    mean, var, rstd = np.zeros(kept, wide), np.ones(kept, wide), np.ones(kept, wide)
    blocks = Blocks(x, axis)
    if not blocks.complete:
        _moments(x, axis, centre, blocks, mean, var)
        rstd[...] = 1 / np.sqrt(var + eps)

    def work(piece: tuple) -> None:
        block, out = x[piece], _workspace(y, piece, wide)
        m, v, r = part(mean, piece), part(var, piece), part(rstd, piece)
        if blocks.complete and centre:
            m[...] = sum_over(block, axis, wide) / blocks.count
        _centred(block, m, centre, out)
        if blocks.complete:
            v[...] = sum_of_product(out, out, axis) / blocks.count
            r[...] = 1 / np.sqrt(v + eps)
        _scaled(out, r, None if weight is None else part(weight, piece), axis)
        if bias is not None:
            out += part(bias, piece)
        if y.dtype != wide:
            y[piece] = out

    blocks.run(work)
    return y, mean, var, rstd


def _moments(x: Any, axis: tuple, centre: bool, blocks: Blocks, mean: Any, var: Any) -> None:
    """Fill mean and var from sums of all blocks."""
    wide = mean.dtype
    if centre:
        mean[...] = blocks.totals(lambda piece: (sum_over(x[piece], axis, wide),))[0] / blocks.count

    def squares(piece: tuple) -> tuple:
        centred = _centred(x[piece], part(mean, piece), centre, _empty(x, piece, wide))
        return (sum_of_product(centred, centred, axis),)

    var[...] = blocks.totals(squares)[0] / blocks.count


def dx(a: Any, x: Any, weight: Any, mean: Any, rstd: Any, axis: tuple, centre: bool) -> Any:
    """r (u − mean u − x̂ mean(u x̂)), u = a weight."""
    a, x = in_rows(a), in_rows(x)
    wide = accumulator(x.dtype) or x.dtype
    y = np.empty(x.shape, x.dtype)
    blocks = Blocks(x, axis)
    # an infinite weight must give NaN, as it does where u is formed first
    uniform = False
    if weight is not None and _uniform(weight, axis, x.ndim):
        uniform = bool(np.isfinite(weight).all())

    def prepared(piece: tuple, u: Any) -> tuple:
        """(x − mean, u, weight that remains): a uniform weight waits until the end."""
        w: Any = None if weight is None else part(weight, piece)
        centred = _centred(x[piece], part(mean, piece), centre, _empty(x, piece, wide))
        if uniform or w is None:
            u[...] = a[piece]
        else:
            np.multiply(a[piece], w, out=u, dtype=wide, casting="same_kind")
            w = None
        return centred, u, w

    def sums(piece: tuple) -> tuple:
        centred, u, _ = prepared(piece, _empty(x, piece, wide, "block 1"))
        return sum_over(u, axis, wide), sum_of_product(u, centred, axis)

    totals = None if blocks.complete else blocks.totals(sums)

    def work(piece: tuple) -> None:
        r = part(rstd, piece)
        centred, u, w = prepared(piece, _workspace(y, piece, wide))
        total, product = totals or (sum_over(u, axis, wide), sum_of_product(u, centred, axis))
        centred *= product * (r * r) / blocks.count  # x̂ mean(u x̂), as x̂ = centred r
        if centre:
            centred += total / blocks.count
        u -= centred
        _scaled(u, r, w, axis)
        if y.dtype != wide:
            y[piece] = u

    blocks.run(work)
    return y


def dw(a: Any, x: Any, mean: Any, rstd: Any, shape: tuple, centre: bool) -> Any:
    """Σ a x̂ over the axes along which `shape` is broadcast."""
    a, x = in_rows(a), in_rows(x)
    wide = accumulator(x.dtype) or x.dtype
    over = broadcast_axes(shape, x)
    y = np.zeros([1 if k in over else n for k, n in enumerate(x.shape)], wide)
    blocks = Blocks(x, over)

    def sums(piece: tuple) -> tuple:
        product = _centred(x[piece], part(mean, piece), centre, _empty(x, piece, wide))
        product *= a[piece]
        product *= part(rstd, piece)
        return (sum_over(product, over, wide),)

    def work(piece: tuple) -> None:
        part(y, piece)[...] = sums(piece)[0]

    if blocks.complete:
        blocks.run(work)
    else:
        y = blocks.totals(sums)[0]
    return y.reshape(shape).astype(common_dtype(a, x), copy=False)
