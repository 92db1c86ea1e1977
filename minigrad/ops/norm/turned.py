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
from ..blocks import BLOCK, long_runs, scratch, spans
from ..image_layout import turned_at, turned_like


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


def standardized(x: Any, weight: Any, bias: Any, axis: tuple, eps: float, centre: bool) -> tuple:
    """(y, mean, rstd) as `standardize` gives them."""
    of, y = Rows(x, axis), np.empty_like(x)
    results = of.matrix(y)
    total = (
        of.sums(lambda block: (of.rows[block].sum(0),))[0]
        if centre
        else np.zeros_like(x, shape=of.lead)
    )
    mean = of.total(total) / of.count
    level = of.row(mean)

    def squares(block: slice) -> tuple:
        centred = of.centred(block, level)
        centred *= centred
        return (centred.sum(0),)

    rstd = 1 / np.sqrt(of.total(of.sums(squares)[0]) / of.count + x.dtype.type(eps))
    scale = of.row(rstd * of.of_lead(weight))
    offset = None if bias is None else of.row(of.of_lead(bias))

    def work(block: slice) -> None:
        out = np.subtract(of.rows[block], level, out=results[block])
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
    w, r, given = of.of_lead(weight), of.of_lead(rstd), of.matrix(g)
    level = of.row(of.of_lead(mean))

    def sums(block: slice) -> tuple:
        centred = of.centred(block, level)
        centred *= given[block]
        return given[block].sum(0), centred.sum(0)

    total, product = of.sums(sums)
    if y is not None:
        results, scale = of.matrix(y), of.row(r * w)
        slope = of.row(r * r * r * of.total(w * product) / of.count)
        mean_of_u = of.row(r * of.total(w * total) / of.count) if centre else None

        def work(block: slice) -> None:
            centred = of.centred(block, level)
            centred *= slope
            if mean_of_u is not None:
                centred += mean_of_u
            out = np.multiply(given[block], scale, out=results[block])
            out -= centred

        of.run(work)
    return [
        y,
        sum_to(of.whole(product * r), shapes[0]) if needs[1] else None,
        sum_to(of.whole(total), shapes[1]) if needs[2] else None,
    ]
