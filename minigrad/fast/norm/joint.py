"""The three gradients of a normalisation together: each block of x and of the cotangent read once.

    dx = r (u − mean u − x̂ mean(u x̂)), u = g weight ;  dweight = Σ g x̂ ;  dbias = Σ g

For NumPy arrays only. A second derivative, a GPU, and arguments refused here take the three as
separate ops, which have derivatives.
"""

from typing import Any

import numpy as np

from ...backends.blocks import outermost, part, scratch, single
from ...backends.image_layout import in_rows
from ...ops.axes import sum_to
from ...ops.norm import scaled
from ..row_sums import sum_of_product, sum_over
from . import images, rows
from .means import Blocks


def gradients(
    g: Any, x: Any, weight: Any, mean: Any, rstd: Any, shapes: tuple, needs: list, axis: tuple,
    eps: float, centre: bool,
) -> list | None:  # fmt: skip
    """[dx, dweight, dbias] by one walk over blocks (two where the batch is among the axes).

    shapes: of weight and bias; needs: which of the three are wanted, the others are None. `needs`
    changes no bit of a gradient. None: one of the arrays has another type, dtype or shape.
    """
    dtype = x.dtype
    for a in (g, x, mean, rstd) if weight is None else (g, x, mean, rstd, weight):
        if not isinstance(a, np.ndarray) or a.dtype != dtype:
            return None
    if dtype.char not in "fd" or not x.size or g.shape != x.shape:
        return None
    if (scale := scaled.scale_of(rstd, eps)) is not None:
        x, mean, rstd = scaled.rescaled(scale, x, mean, rstd)
        found = gradients(g, x, weight, mean, rstd, shapes, needs, axis, 1.0, centre)
        return found and [found[0] if found[0] is None else found[0] / scale, *found[1:]]
    given = [shapes[k] for k in range(2) if needs[k + 1]]
    if rows.suits(x, axis, *given, *(() if weight is None else (weight.shape,))):
        return rows.gradients(g, x, weight, mean, rstd, shapes, needs, axis, centre)
    of = images.images(x, axis, *shapes)
    if of is not None:
        if weight is not None and not np.isfinite(weight).all():
            return None  # ∞ · 0 must be NaN in the sums, too
        return images.gradients(of, g, weight, mean, rstd, shapes, needs, centre)
    full = [(*(1,) * (x.ndim - len(shape)), *shape) for shape in shapes]
    summed = [tuple([k for k, n in enumerate(shape) if n == 1]) for shape in full]
    if all({*axis} <= {*over} for over in summed):
        if weight is not None and not np.isfinite(weight).all():
            return None  # ∞ · 0 must be NaN in the sums, too
        g, x = in_rows(g), in_rows(x)
        return _for_means(g, x, weight, mean, rstd, shapes, needs, axis, centre)
    g, x = in_rows(g), in_rows(x)
    along = None if single(x) else outermost(x, axis)
    if weight is None or any(along is not None and along not in over for over in summed):
        return None
    return _for_places(g, x, weight, mean, rstd, shapes, needs, summed, axis, centre)


def _centred(x: Any, mean: Any, centre: bool) -> Any:
    out = scratch.empty("block 0", x.shape, x)
    if centre:
        return np.subtract(x, mean, out=out)
    out[...] = x
    return out


def _take_means(y: Any, centred: Any, slope: Any, level: Any) -> None:
    """y −= level + centred slope; centred is overwritten, level None is 0."""
    centred *= slope
    if level is not None:
        centred += level
    y -= centred


def _for_means(
    g: Any, x: Any, weight: Any, mean: Any, rstd: Any, shapes: tuple, needs: list, axis: tuple,
    centre: bool,
) -> list:  # fmt: skip
    """A weight and a bias for each mean, as in batch_norm: dx needs the sums that are their
    gradients."""
    y, blocks = np.empty(x.shape, x.dtype) if needs[0] else None, Blocks(x, axis)
    scale = rstd if weight is None else rstd * weight
    count = x.dtype.type(blocks.count)
    total, product = np.empty_like(rstd), np.empty_like(rstd)

    def sums(piece: tuple, centred: Any) -> tuple:
        if blocks.complete:
            return sum_over(g[piece], axis, x.dtype), sum_of_product(g[piece], centred, axis)
        centred *= g[piece]
        return sum_over(g[piece], axis, x.dtype), sum_over(centred, axis, x.dtype)

    def centred(piece: tuple) -> Any:
        return _centred(x[piece], part(mean, piece), centre)

    def work(piece: tuple) -> None:
        t, p, r = part(total, piece), part(product, piece), part(rstd, piece)
        c = centred(piece)
        if blocks.complete:
            t[...], p[...] = sums(piece, c)
        if y is not None:
            block, s = y[piece], part(scale, piece)
            np.multiply(g[piece], s, out=block)
            _take_means(block, c, s * p * (r * r) / count, s * t / count if centre else None)

    if not blocks.complete:
        total, product = blocks.totals(lambda piece: sums(piece, centred(piece)))
    if blocks.complete or y is not None:
        blocks.run(work)
    return [
        y,
        sum_to(product * rstd, shapes[0]) if needs[1] else None,
        sum_to(total, shapes[1]) if needs[2] else None,
    ]


def _for_places(
    g: Any, x: Any, weight: Any, mean: Any, rstd: Any, shapes: tuple, needs: list, summed: list,
    axis: tuple, centre: bool,
) -> list:  # fmt: skip
    """A weight and a bias for each element that a mean runs over, as in layer_norm."""
    y, blocks = np.empty(x.shape, x.dtype) if needs[0] else None, Blocks(x, axis)
    count = x.dtype.type(blocks.count)

    def work(piece: tuple) -> tuple:
        a, r, sums = g[piece], part(rstd, piece), []
        centred = _centred(x[piece], part(mean, piece), centre)
        scaled = np.multiply(a, r, out=scratch.empty("block 1", a.shape, x))
        if y is not None:
            np.multiply(scaled, part(weight, piece), out=y[piece])  # r u
        if needs[1]:
            scaled *= centred
            sums.append(sum_over(scaled, summed[0], x.dtype))
        if needs[2]:
            sums.append(sum_over(a, summed[1], x.dtype))
        if y is not None:
            level = sum_over(y[piece], axis, x.dtype) / count if centre else None
            slope = sum_of_product(y[piece], centred, axis) * (r * r) / count
            _take_means(y[piece], centred, slope, level)
        return tuple(sums)

    sums = iter(blocks.totals(work))
    return [
        y,
        next(sums).reshape(shapes[0]) if needs[1] else None,
        next(sums).reshape(shapes[1]) if needs[2] else None,
    ]
