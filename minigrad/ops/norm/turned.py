"""Normalisations of images that lie places first (../image_layout.py), without turning them back.

In memory such images are a matrix: a row for each place, an entry for each channel of each image.
Where means run over all places, sums are sums of its long rows; what then belongs to a channel, a
group or an image is one row, repeated where it is shared, so that nothing is broadcast along short
runs. Blocks of rows on all threads; their sums are added up in order, so it does not show how many
threads there were.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...backends.pool import share
from ..axes import sum_to
from ..blocks import long_runs, scratch, spans
from ..image_layout import turned_at, turned_like

# Elements of a block, twice as many as elsewhere: there are few calls for each, and two threads
# that meet at the interpreter after each short one take longer than one thread.
BLOCK = 1 << 19


def suits(x: Any, axis: tuple, *shapes: tuple) -> bool:
    """Whether x lies so, its places are all averaged, and a weight and a bias of these shapes are
    the same for all places.
    """
    if type(x) is not np.ndarray or x.dtype.char not in "fd":
        return False
    k = turned_at(x)
    places = range(k, x.ndim)
    full = [(*(1,) * (x.ndim - len(shape)), *shape) for shape in shapes]
    return k > 0 and {*places} <= {*axis} and all(shape[i] == 1 for shape in full for i in places)


class Rows:
    """The matrix of x, and what its sums belong to: `lead`, the axes that are no places."""

    def __init__(self, x: Any, axis: tuple):
        self.x, self.k = x, turned_at(x)
        self.lead = x.shape[: self.k]
        self.over = tuple([i for i in axis if i < self.k])
        self.count = x.dtype.type(prod([x.shape[i] for i in axis]))
        self.rows = self.matrix(x)
        self.blocks = spans(len(self.rows), max(1, BLOCK // self.rows.shape[1]))

    def matrix(self, a: Any) -> Any:
        """The same matrix of another array of x's shape; a view where it lies as x does."""
        a = turned_like(a, self.x)
        order = (*range(self.k, a.ndim), *range(self.k))
        return a.transpose(order).reshape((-1, prod(self.lead)))

    def sums(self, of_block: Callable[[slice], tuple]) -> list:
        """Σ over the blocks of what of_block gives, a tuple of rows; each in the shape `lead`."""
        parts: list = [None] * len(self.blocks)

        def work(i: int) -> None:
            parts[i] = of_block(self.blocks[i])

        with long_runs(self.rows, (0,)):
            share(work, range(len(parts)))
        return [np.add.reduce(part).reshape(self.lead) for part in zip(*parts, strict=True)]

    def run(self, work: Callable[[slice], None]) -> None:
        with long_runs(self.rows, (0,)):
            share(work, self.blocks)

    def total(self, a: Any) -> Any:
        """Σ of a (lead) over those of its axes that are averaged, which keep their places."""
        return a.sum(self.over, keepdims=True)

    def of_lead(self, a: Any) -> Any:
        """A weight or a bias, which broadcasts against x, against `lead`; 1 for None."""
        if a is None:
            return self.x.dtype.type(1)
        full = a.reshape((*(1,) * (self.x.ndim - a.ndim), *a.shape))
        return full.reshape(full.shape[: self.k])

    def row(self, a: Any) -> Any:
        """A row of the matrix from a, which broadcasts against `lead`."""
        return np.broadcast_to(a, self.lead).reshape(-1)

    def whole(self, a: Any) -> Any:
        """a with an axis of length 1 for each axis of places."""
        return a.reshape((*a.shape, *(1,) * (self.x.ndim - self.k)))

    def centred(self, block: slice, mean: Any) -> Any:
        rows = self.rows[block]
        return np.subtract(rows, mean, out=scratch.empty("block 0", rows.shape, rows))


# Standard deviations that means may be from 0 so that Σ x² − n mean², x·scale + offset and their
# like keep the digits that Σ (x − mean)² and (x − mean)·scale + bias have, which take twice as many
# passes. Up to 2 an error grows by a factor of 1 + 2² in the variance and of 1 + 2 in the results.
NEAR = 2


def _near_zero(mean: Any, deviation: Any) -> bool:
    """Whether no mean is more than NEAR deviations from 0; False with what is not finite."""
    return bool((np.abs(mean) <= NEAR * deviation).all() and np.isfinite(deviation).all())


def _moments(of: Rows, eps: Any, centre: bool) -> tuple:
    """(mean, rstd), each with an entry for what `lead` has, or 1."""

    def sums(block: slice) -> tuple:
        rows = of.rows[block]
        squares = np.einsum("ij,ij->j", rows, rows)
        return (squares, rows.sum(0)) if centre else (squares,)

    square, *total = [of.total(a) / of.count for a in of.sums(sums)]
    mean = total[0] if centre else np.zeros_like(square)
    var = square - mean * mean
    if centre and not _near_zero(mean, np.sqrt(np.maximum(var, 0))):
        level = of.row(mean)

        def squares(block: slice) -> tuple:
            centred = of.centred(block, level)
            centred *= centred
            return (centred.sum(0),)

        var = of.total(of.sums(squares)[0]) / of.count
    return mean, 1 / np.sqrt(var + eps)


def standardized(x: Any, weight: Any, bias: Any, axis: tuple, eps: float, centre: bool) -> tuple:
    """(y, mean, rstd) as `standardize` gives them."""
    of, y = Rows(x, axis), np.empty_like(x)
    results = of.matrix(y)
    mean, rstd = _moments(of, x.dtype.type(eps), centre)
    scale = rstd * of.of_lead(weight)
    offset = None if bias is None else of.of_lead(bias)
    near = _near_zero(mean, 1 / rstd)
    if near and centre:  # x scale + (bias − mean scale)
        offset = (0 if offset is None else offset) - mean * scale
    level, scale = of.row(mean), of.row(scale)
    offset = None if offset is None else of.row(offset)

    def work(block: slice) -> None:
        out = results[block]
        if near:
            np.multiply(of.rows[block], scale, out=out)
        else:
            np.subtract(of.rows[block], level, out=out)
            out *= scale
        if offset is not None:
            out += offset

    of.run(work)
    return y, of.whole(mean), of.whole(rstd)


def gradients(
    g: Any, x: Any, weight: Any, mean: Any, rstd: Any, shapes: tuple, needs: list, axis: tuple,
    centre: bool,
) -> list:  # fmt: skip
    """[dx, dweight, dbias], those that are needed: see joint.py."""
    of, y = Rows(x, axis), np.empty_like(x) if needs[0] else None
    w, r, m, given = of.of_lead(weight), of.of_lead(rstd), of.of_lead(mean), of.matrix(g)
    level = of.row(m)

    def sums(block: slice) -> tuple:
        centred = of.centred(block, level)
        centred *= given[block]
        return given[block].sum(0), centred.sum(0)

    def sums_near(block: slice) -> tuple:
        return given[block].sum(0), np.einsum("ij,ij->j", given[block], of.rows[block])

    near = _near_zero(m, 1 / r)
    if near:
        total, product = of.sums(sums_near)
        product -= m * total
        near = bool(np.isfinite(product).all())  # ∞ − ∞ stands for ∞ here
    if not near:
        total, product = of.sums(sums)
    if y is not None:
        results, scale = of.matrix(y), of.row(r * w)
        slope = r * r * r * of.total(w * product) / of.count
        level_of_u = r * of.total(w * total) / of.count if centre else 0
        if near:  # x slope + (level − mean slope)
            level_of_u = level_of_u - m * slope
        slope, level_of_u = of.row(slope), of.row(level_of_u)

        def work(block: slice) -> None:
            rows, out = of.rows[block], results[block]
            if near:
                away = np.multiply(rows, slope, out=scratch.empty("block 0", rows.shape, rows))
            else:
                away = of.centred(block, level)
                away *= slope
            if centre:
                away += level_of_u
            np.multiply(given[block], scale, out=out)
            out -= away

        of.run(work)
    return [
        y,
        sum_to(of.whole(product * r), shapes[0]) if needs[1] else None,
        sum_to(of.whole(total), shapes[1]) if needs[2] else None,
    ]
