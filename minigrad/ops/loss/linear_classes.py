"""Cross entropy of a linear map's results, which are never all in memory.

The logits z = x wᵀ + b of N samples and C classes are by far the largest array of a language model:
4,096 samples of a vocabulary of 50,000 take 800 MB, their gradient as much again. Here they are
made block by block, once for the losses and once more for the gradients, which is a product more
than a plain backward has. The forward walks the classes with a running maximum and a running sum,
as attention does (fast/attention/blocks.py); what is kept is one number a sample.

Wijmans et al., Cut your losses in large-vocabulary language models, 2024.
"""

from typing import Any

import numpy as np

from ...backends.blocks import on_threads, scratch, spans
from ...backends.device import array_module
from ...backends.dtypes import accumulator, common_dtype
from ...engine.primitive import primitive
from ...engine.registry import op
from ...modes.autocast import in_float32
from ...tensor_api.composite import composite
from ..axes import array_like, plus, widen
from ..batching import apart, each_in_turn, full, merged
from ..row_sums import largest_over, sum_over
from ..softmax import NEARLY_ALL
from .classes import cross_entropy, cross_entropy_dx_ga, targets_of
from .reduction import check_reduction

__all__ = ["linear_cross_entropy"]

BLOCK = 1 << 20  # logits at a time
ROWS = 1 << 10  # samples at a time: fewer would read w more often, more leave few classes a block


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
    """(which samples have their target in this block of classes, its place there), (n, 1) both."""
    place = index[:, None] - columns.start
    inside = (place >= 0) & (place < columns.stop - columns.start)
    return inside, np.where(inside, place, 0)


def _check(x: Any, w: Any, index: Any, b: Any) -> None:
    if x.ndim != 2 or w.ndim != 2 or x.shape[1] != w.shape[1]:
        raise ValueError(f"x must be (N, n) and w (C, n); got {x.shape} and {w.shape}")
    if index.shape != x.shape[:1] or (b is not None and b.shape != w.shape[:1]):
        given = f"index {index.shape}" + ("" if b is None else f", b {b.shape}")
        raise ValueError(f"index must be (N,) and b (C,) beside x {x.shape}, w {w.shape}: {given}")


@primitive(arrays="x w index b", constants=["index"], outputs=2)
def linear_nll(x, w, index, b: Any = None):
    """(y, lse): y_n = lse_n − z_n,index, lse_n = log Σ_c exp z_nc, of the logits z = x wᵀ + b

    x (N, n), w (C, n), index (N,), b (C,) or None. Gradients: see linear_nll_grads. 16-bit floats
    are computed in float32, and the results stay there.
    """
    _check(x, w, index, b)
    xp, dtype = array_module(x), common_dtype(*[a for a in (x, w, b) if a is not None])
    wide = accumulator(dtype) or dtype
    x = x.astype(wide, copy=False)
    y, lse = xp.empty(len(x), wide), xp.empty(len(x), wide)
    samples, classes = _blocks(x, w)

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
        log = np.log(total)
        lse[rows] = (log + top)[:, 0]
        y[rows] = (log + (top - picked))[:, 0]

    on_threads(work, samples, x)
    return y, lse


@linear_nll.vjp
def linear_nll_gradients(g, y, x, w, index, b, needs):
    a, d = (np.zeros_like(y[1]) if v is None else v for v in reversed(g))
    wanted = (needs[0], needs[1], needs[3])
    gx, gw, gb = linear_nll_grads(a, d, x, w, index, y[1], b, wanted=wanted)
    return [v if has else None for v, has in zip((gx, gw, None, gb), needs, strict=True)]


@primitive(arrays="a d x w index lse b", constants=["index", "lse"], outputs=3)
def linear_nll_grads(a, d, x, w, index, lse, b: Any = None, *, wanted=(True, True, True)):
    """(G w, Gᵀ x, Σ_n G), G_nc = a_n p_nc + d_n (p_nc − [c = index_n]), p = exp(z − lse)

    a and d (N,): the cotangents of lse and of y. What is not `wanted` is empty. p − 1 near 0 is
    minus the sum of the other p. lse is there to save a pass; the rules see p as the function
    softmax(x wᵀ + b), and hold all logits, so that derivatives of every order follow from theirs.
    """
    _check(x, w, index, b)
    xp, dtypes = array_module(x), (x.dtype, w.dtype, w.dtype if b is None else b.dtype)
    a, d, x = (v.astype(lse.dtype, copy=False) for v in (a, d, x))
    shapes = x.shape, w.shape, w.shape[:1]
    grads = [
        xp.zeros(shape if wants else 0, lse.dtype)
        for shape, wants in zip(shapes, wanted, strict=True)
    ]
    idle = (a == 0) & (d == 0)  # whose gradient is 0, whatever x holds
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
    """G's share of a block in the gradients of x, w and b."""
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
    """That of the targets alone, G at them being g (n, 1), for the rows that are near."""
    xp = array_module(x)
    chosen = np.flatnonzero(near) if xp is np else slice(None)  # a GPU would be waited for
    g, x, index = g[chosen], x[chosen], index[chosen]
    gx, gw, gb = grads
    if wanted[0]:
        own = xp.arange(rows.start, rows.stop)[chosen]
        gx[own] += g * w[index].astype(g.dtype, copy=False)
    if wanted[1]:
        xp.add.at(gw, index, g * x)
    if wanted[2]:
        xp.add.at(gb, index, g[:, 0])


@linear_nll_grads.vjp
def linear_nll_grads_rule(g, a, d, x, w, index, lse, b, wanted, needs):
    """With D the cotangent of G, (g₁ wᵀ + x g₂ᵀ + g₃): ga = Σ_c p D, gd = Σ_c p (D − D_index), and
    of the logits E = (a + d) p (D − Σ p D), which like G goes on to x, w and b.
    """
    gx, gw, gb = (v if wants else None for v, wants in zip(g, wanted, strict=True))
    place = index.reshape((-1, 1))
    z = op.linear(x, w, b)
    p = op.softmax(z, axis=1)
    of_x = None if gx is None else op.matmul(gx, w.T)
    of_w = None if gw is None else op.matmul(x, gw.T)
    both = op.broadcast_to(plus(plus(of_x, of_w), gb), shape=p.shape)
    of_g = op.expand_dims(a, axis=1) * p + op.cross_entropy_dx(
        d, z, op.expand_dims(lse, axis=1), place
    )
    e = op.softmax_dx(op.expand_dims(a + d, axis=1) * both, p, axis=1)
    found = [
        op.sum(p * both, axis=1),
        cross_entropy_dx_ga(both, z, place),
        plus(op.matmul(e, w), None if gw is None else op.matmul(of_g, gw)),
        plus(op.matmul(e.T, x), None if gx is None else op.matmul(of_g.T, gx)),
        None,
        None,
        op.sum(e, axis=0),
    ]
    return [v if has else None for v, has in zip(found, needs, strict=True)]


@linear_nll.batch
def linear_nll_batch(op_, xs, batched, params):
    """The examples are more samples of one map; of maps of their own each takes a call."""
    x, w, index, b = xs
    if batched[1] or batched[3]:
        return each_in_turn(op_, xs, batched, params)
    x, index = full([x, index], [batched[0], batched[2]])
    return tuple([apart(y, x.shape[:2]) for y in op_(merged(x), w, merged(index), b)])


linear_nll_grads.batch(each_in_turn)


# -- what users call -------------------------------------------------------------------------


@composite
@in_float32
def linear_cross_entropy(
    x: Any, linear_weight: Any, target: Any, *, linear_bias: Any = None, weight: Any = None,
    reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:  # fmt: skip
    """y = cross_entropy(x wᵀ + b, target), without all logits x wᵀ + b in memory

    x (N, n) or (n,), w = linear_weight (C, n), b = linear_bias (C,) or None. target: class indices
    (N,); for these the logits are made block by block, in the backward once more. Of probabilities
    (N, C), or of several maps at once, w (C, d₁, …, n) and b (C, d₁, …) with targets (N, d₁, …),
    they are made as a whole, and so they are for derivatives of second order. weight, reduction and
    label_smoothing as in cross_entropy; ignore_index: None for −100, and not with probabilities.
    options, which choose PyTorch's blocks, have no effect.
    """
    name = "linear_cross_entropy"
    if isinstance(options, bool | int | float | complex | str):
        raise TypeError(f"{name}: options are PyTorch's LinearCrossEntropyOptions, got {options!r}")
    x, w, target = array_like(x), array_like(linear_weight), array_like(target)
    b = None if linear_bias is None else array_like(linear_bias)
    _check_arguments(x, w, b, reduction, label_smoothing)
    if x.ndim == 1:  # one sample
        y = linear_cross_entropy(
            x.reshape((1, -1)), w, target.reshape((1, *target.shape)), linear_bias=b,
            weight=weight, reduction=reduction, ignore_index=ignore_index,
            label_smoothing=label_smoothing,
        )  # fmt: skip
        return y.reshape(()) if reduction == "none" else y
    indices = target.dtype.kind in "iub"
    if not indices and ignore_index is not None:
        raise ValueError(
            f"{name}: ignore_index={ignore_index} is for class indices, and the target holds "
            f"probabilities ({target.dtype} {target.shape}); leave those samples out"
        )
    ignored = -100 if ignore_index is None else ignore_index
    if not indices or w.ndim > 2 or not target.size:
        z = op.linear(x, w.reshape((-1, w.shape[-1])), None if b is None else b.reshape(-1))
        z = z.reshape((x.shape[0], *w.shape[:-1]))
        return cross_entropy(z, target, weight, ignored, reduction, label_smoothing)
    weight = None if weight is None else array_like(weight)
    dtype = common_dtype(*[a.dtype for a in (x, w, b) if a is not None])
    logits = {"shape": (x.shape[0], w.shape[0]), "dtype": dtype, "scores": "the logits"}
    index, kept, scale = targets_of(name, x, target, weight, ignored, reduction, **logits)
    if label_smoothing:
        x = op.where(op.expand_dims(kept, axis=1) == 0, 0, x)  # an ignored sample may hold NaN
    y, lse = linear_nll(x, w, index.reshape(-1), b)
    y = op.where(scale == 0, 0, y) * ((1 - label_smoothing) * scale)
    if label_smoothing:
        y = y + (label_smoothing / w.shape[0]) * kept * _over_all_classes(x, w, b, weight, lse)
    y = op.where(index.reshape(-1) < 0, np.nan, y)
    y = y if reduction == "none" else op.sum(y)
    return op.astype(y, dtype=dtype, copy=False)


def _over_all_classes(x: Any, w: Any, b: Any, weight: Any, lse: Any) -> Any:
    """Σ_c v_c (lse_n − z_nc) with the classes' weights v, or 1: Σ v z is a sum over features."""

    def total(a: Any) -> Any:
        a = widen(a)
        return op.sum(a, axis=0) if weight is None else op.matmul(widen(weight), a)

    level = op.matmul(widen(x), total(w))
    level = level if b is None else level + total(b)
    return (w.shape[0] if weight is None else op.sum(widen(weight))) * lse - level


def _check_arguments(x: Any, w: Any, b: Any, reduction: str, smoothing: float) -> None:
    name = "linear_cross_entropy"
    check_reduction(name, reduction)
    if not 0 <= smoothing <= 1:
        raise ValueError(f"{name}: label_smoothing must be from 0 to 1, got {smoothing}")
    if x.ndim not in (1, 2) or w.ndim < 2 or x.shape[-1] != w.shape[-1]:
        raise ValueError(
            f"{name}: x must be (N, n) or (n,) and linear_weight (C, n), or (C, …, n), with the "
            f"same n; got {x.shape} and {w.shape}"
        )
    if x.ndim == 1 and w.ndim > 2:
        raise ValueError(f"{name}: several maps {w.shape} need a batch x (N, n), got {x.shape}")
    if b is not None and b.shape != w.shape[:-1]:
        raise ValueError(f"{name}: linear_bias must have shape {w.shape[:-1]}, got {b.shape}")
    for argument, a in (("x", x), ("linear_weight", w), ("linear_bias", b)):
        if a is not None and a.dtype.kind in "biuc":
            raise ValueError(f"{name}: {argument} must hold real floats, got {a.dtype} {a.shape}")
