"""Normalisations of images, whose means run over all pixels: batch_norm and similar ones.

In memory images are a matrix in either layout. Pixels first (backends/image_layout.py), it has a
row for each pixel and a column for each channel of each image. In the other layout it has a row for
each channel of each image and a column for each pixel. Sums over pixels run down the columns or
along the rows. Threads share blocks of rows, whose sums are added in order: the number of threads
does not change the result.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...backends.blocks import long_runs, scratch, spans
from ...backends.image_layout import in_rows, turned_at, turned_like
from ...backends.pool import share
from ...ops.axes import sum_to

# Elements of a block, twice as many as elsewhere: each has few calls, and two threads that wait for
# the interpreter after each short call take longer than one thread.
BLOCK = 1 << 19

# Elements of images in rows, and pixels of each, from which this form is faster than the others.
LEAST, LEAST_PLACES = 1 << 17, 16

# How many standard deviations a mean may be from 0 for the fast sums, Σ x² − n mean², x·scale +
# offset and similar ones. Up to 2, errors grow by a factor of at most 1 + 2² in the variance and 1
# + 2 in the results. The exact sums, Σ (x − mean)² and (x − mean)·scale + bias, take twice as many
# passes.
NEAR = 2


def _near_zero(mean: Any, rstd: Any) -> bool:
    """Whether no mean is more than NEAR deviations from 0; False where one is not finite."""
    return bool(np.abs(mean * rstd).max() <= NEAR)


# -- the two orders in memory ----------------------------------------------------------------------


class _Images:
    """The matrix of images x, and `lead`, the axes that are not pixels, which index its sums."""

    def __init__(self, x: Any, axis: tuple, k: int):
        self.x, self.k, self.lead = x, k, x.shape[:k]
        self.over = tuple([i for i in axis if i < k])
        self.count = x.dtype.type(prod([x.shape[i] for i in axis]))
        self.rows = self.matrix(x)
        self.blocks = spans(len(self.rows), max(1, BLOCK // self.rows.shape[1]))

    matrix: Callable[[Any], Any]  # of an array of x's shape; a view if it has x's order
    along: int  # the axis of the matrix along which the index in `lead` is constant
    each: Callable[[Any, slice], Any]  # the part of a, of shape `lead`, for a block
    sum: Callable[[Any], Any]  # Σ of a block over pixels
    dot: Callable[[Any, Any], Any]  # Σ of the product of two blocks over pixels
    joined: Callable[[list], Any]  # the matrix's sums from the blocks'

    def sums(self, of_block: Callable[[slice], tuple]) -> list:
        """The totals of of_block, a tuple of sums over pixels, for all blocks; each of shape
        `lead`."""
        parts: list = [None] * len(self.blocks)

        def work(i: int) -> None:
            parts[i] = of_block(self.blocks[i])

        with long_runs(self.rows, (self.along,)):
            share(work, range(len(parts)))
        return [self.joined(list(part)).reshape(self.lead) for part in zip(*parts, strict=True)]

    def run(self, work: Callable[[slice], None]) -> None:
        with long_runs(self.rows, (self.along,)):
            share(work, self.blocks)

    def total(self, a: Any) -> Any:
        """Σ of a (lead) over those of its axes that are averaged, which are kept."""
        return a.sum(self.over, keepdims=True)

    def of_lead(self, a: Any) -> Any:
        """A weight or a bias, which broadcasts against x, against `lead`; 1 for None."""
        if a is None:
            return self.x.dtype.type(1)
        full = a.reshape((*(1,) * (self.x.ndim - a.ndim), *a.shape))
        return full.reshape(full.shape[: self.k])

    def all_of(self, a: Any) -> Any:
        """An array that broadcasts against `lead`, as one number for each of its entries."""
        return np.broadcast_to(a, self.lead).reshape(-1)

    def whole(self, a: Any) -> Any:
        """a with an axis of length 1 for each axis of pixels."""
        return a.reshape((*a.shape, *(1,) * (self.x.ndim - self.k)))

    def centred(self, block: slice, mean: Any) -> Any:
        rows = self.rows[block]
        out = scratch.empty("block 0", rows.shape, rows)
        return np.subtract(rows, self.each(mean, block), out=out)


class _PlacesFirst(_Images):
    """A row for each pixel."""

    along = 0

    def matrix(self, a: Any) -> Any:
        a = turned_like(a, self.x)
        order = (*range(self.k, a.ndim), *range(self.k))
        return a.transpose(order).reshape((-1, prod(self.lead)))

    def each(self, a: Any, _: slice) -> Any:
        return a

    def sum(self, block: Any) -> Any:
        return block.sum(0)

    def dot(self, block: Any, other: Any) -> Any:
        return np.einsum("ij,ij->j", block, other)

    def joined(self, parts: list) -> Any:
        return np.add.reduce(parts)


class _InRows(_Images):
    """A row for each entry of `lead`."""

    along = 1

    def matrix(self, a: Any) -> Any:
        return in_rows(a).reshape((prod(self.lead), -1))

    def each(self, a: Any, block: slice) -> Any:
        return a[block, None]

    def sum(self, block: Any) -> Any:
        return np.vecdot(block, np.ones(block.shape[1], block.dtype))

    def dot(self, block: Any, other: Any) -> Any:
        return np.vecdot(block, other)

    def joined(self, parts: list) -> Any:
        return np.concatenate(parts)


def images(x: Any, axis: tuple, *shapes: tuple) -> _Images | None:
    """x as such images; None unless all pixels are averaged, and a weight and a bias of these
    shapes are the same for all pixels.
    """
    if type(x) is not np.ndarray or x.dtype.char not in "fd" or not x.size:
        return None
    full = [(*(1,) * (x.ndim - len(shape)), *shape) for shape in shapes]
    places = x.ndim  # the first of the axes that may be pixels
    while places and places - 1 in axis and all(shape[places - 1] == 1 for shape in full):
        places -= 1
    k = turned_at(x)
    if k and places <= k:
        return _PlacesFirst(x, axis, k)
    if not places or x.size < LEAST or not x.flags.c_contiguous:
        return None
    return _InRows(x, axis, places) if prod(x.shape[places:]) >= LEAST_PLACES else None


# -- value and gradients ---------------------------------------------------------------------------


def _moments(of: _Images, centre: bool) -> tuple:
    """(mean, var), each of lead's shape with 1 for averaged axes."""

    def sums(block: slice) -> tuple:
        rows = of.rows[block]
        return (of.dot(rows, rows), of.sum(rows)) if centre else (of.dot(rows, rows),)

    square, *total = [of.total(a) / of.count for a in of.sums(sums)]
    mean = total[0] if centre else np.zeros_like(square)
    var = square - mean * mean
    near = (mean * mean <= NEAR * NEAR * var).all() and np.isfinite(var).all()
    if centre and not near:
        level = of.all_of(mean)

        def squares(block: slice) -> tuple:
            centred = of.centred(block, level)
            return (of.dot(centred, centred),)

        var = of.total(of.sums(squares)[0]) / of.count
    return mean, var


def standardized(of: _Images, weight: Any, bias: Any, eps: float, centre: bool) -> tuple:
    """(y, mean, var, rstd): the results of `standardize`, and the variance."""
    y = np.empty_like(of.x)
    results = of.matrix(y)
    mean, var = _moments(of, centre)
    rstd = 1 / np.sqrt(var + y.dtype.type(eps))
    scale = rstd * of.of_lead(weight)
    offset = None if bias is None else of.of_lead(bias)
    near = _near_zero(mean, rstd)
    if near and centre:  # x scale + (bias − mean scale)
        offset = (0 if offset is None else offset) - mean * scale
    level, scale = of.all_of(mean), of.all_of(scale)
    offset = None if offset is None else of.all_of(offset)

    def work(block: slice) -> None:
        out = results[block]
        if near:
            np.multiply(of.rows[block], of.each(scale, block), out=out)
        else:
            np.subtract(of.rows[block], of.each(level, block), out=out)
            out *= of.each(scale, block)
        if offset is not None:
            out += of.each(offset, block)

    of.run(work)
    return y, of.whole(mean), of.whole(var), of.whole(rstd)


def gradients(
    of: _Images, g: Any, weight: Any, mean: Any, rstd: Any, shapes: tuple, needs: list, centre: bool
) -> list:
    """[dx, dweight, dbias], None for those that are not needed: see joint.py."""
    y = np.empty_like(of.x) if needs[0] else None
    w, r, m, given = of.of_lead(weight), of.of_lead(rstd), of.of_lead(mean), of.matrix(g)
    level = of.all_of(m)

    def sums(block: slice) -> tuple:
        return of.sum(given[block]), of.dot(given[block], of.centred(block, level))

    def sums_near(block: slice) -> tuple:
        return of.sum(given[block]), of.dot(given[block], of.rows[block])

    near = _near_zero(m, r)
    if near:
        total, product = of.sums(sums_near)
        product -= m * total
        near = bool(np.isfinite(product).all())  # ∞ − ∞ would replace ∞
    if not near:
        total, product = of.sums(sums)
    if y is not None:
        results, scale = of.matrix(y), of.all_of(r * w)
        slope = r * (r * (r * of.total(w * product))) / of.count  # r³ alone may be out of range
        level_of_u = r * of.total(w * total) / of.count if centre else 0
        if near:  # x slope + (level − mean slope)
            level_of_u = level_of_u - m * slope
        slope, level_of_u = of.all_of(slope), of.all_of(level_of_u)

        def work(block: slice) -> None:
            rows, out = of.rows[block], results[block]
            if near:
                away = scratch.empty("block 0", rows.shape, rows)
                np.multiply(rows, of.each(slope, block), out=away)
            else:
                away = of.centred(block, level)
                away *= of.each(slope, block)
            if centre:
                away += of.each(level_of_u, block)
            np.multiply(given[block], of.each(scale, block), out=out)
            out -= away

        of.run(work)
    return [
        y,
        sum_to(of.whole(product * r), shapes[0]) if needs[1] else None,
        sum_to(of.whole(total), shapes[1]) if needs[2] else None,
    ]
