"""Convolution of every channel with a kernel of its own (groups = channels), on plain arrays.

There is no matrix product in it: y is the sum, over the places k of the kernel, of the image
shifted by k times one number a channel. With stride 1 the padded image is taken as one long row,
in which a shift is an offset, so that NumPy's inner loops are long; row ends are left out.
"""

from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.pool import share
from ..blocks import scratch, spans
from ..windows import Windows, every, inside, padded

BLOCK = 1 << 17  # elements of the padded images that a thread works on at a time


def is_depthwise(x: Any, inputs: int, outputs: int, groups: int) -> bool:
    """Whether each of several channels, as many in as out, has its own kernel; x is NumPy's."""
    return 1 < groups == inputs == outputs and array_module(x) is np


class Shifts:
    """The shifted images, one for each place of the kernel, as views of a padded image.

    They have the form (n, c, length) where the stride is 1, else (n, c, *out).
    """

    def __init__(self, how: Windows, size: tuple, out: tuple):
        self.how, self.size, self.out = how, size, out
        self.padded = tuple([n + sum(pair) for n, pair in zip(size, how.padding, strict=True)])
        self.flat = all(step == 1 for step in how.stride)
        self.steps = [prod(self.padded[i + 1 :]) for i in range(len(size))]
        self.length = 1 + sum((n - 1) * step for n, step in zip(out, self.steps, strict=True))

    def views(self, x: Any) -> list:
        """The shifted images of a padded and contiguous x (n, c, *size)."""
        views, row = [], x.reshape((*x.shape[:2], -1))
        for offsets in product(*map(range, self.how.kernel)):
            places = [k * d for k, d in zip(offsets, self.how.dilation, strict=True)]
            if self.flat:
                start = sum(k * step for k, step in zip(places, self.steps, strict=True))
                views.append(row[:, :, start : start + self.length])
            else:
                cut = zip(places, self.how.stride, self.out, strict=True)
                views.append(x[(..., *(every(*one) for one in cut))])
        return views

    def empty(self, name: str, lead: tuple, like: Any) -> Any:
        """Scratch memory in the form of a shifted image."""
        form = (self.length,) if self.flat else self.out
        return scratch.empty(name, (*lead, *form), like)

    def result(self, y: Any) -> Any:
        """What is a result (n, c, *out) in an array in the form of a shifted image. A view."""
        if not self.flat:
            return y
        strides = (*y.strides[:2], *(step * y.itemsize for step in self.steps))
        return np.lib.stride_tricks.as_strided(y, (*y.shape[:2], *self.out), strides)

    def spread(self, a: Any) -> Any:
        """a (n, c, *out) in the form of a shifted image, 0 where that holds no result."""
        y = self.empty("block 1", a.shape[:2], a)
        if self.flat:
            y[...] = 0
        self.result(y)[...] = a
        return y

    def weights(self, w: Any) -> list:
        """For each place of the kernel the numbers of the channels, shaped as the images are."""
        columns = w.reshape((len(w), -1)).T
        return [
            column.reshape((-1, *(1,) * (1 if self.flat else len(self.out)))) for column in columns
        ]

    def blocks(self, x: Any) -> list[slice]:
        """Slices of the batch."""
        return spans(len(x), max(1, BLOCK // max(1, x.shape[1] * prod(self.padded))))


def forward(x: Any, w: Any, bias: Any, how: Windows, y: Any) -> None:
    """y = conv(x, w) + bias"""
    shifts = Shifts(how, x.shape[2:], y.shape[2:])
    weights = shifts.weights(w)

    def work(block: slice) -> None:
        views = shifts.views(np.ascontiguousarray(padded(x[block], how.padding, name="padded")))
        total = shifts.empty("block 0", views[0].shape[:2], x)
        term = shifts.empty("block 1", views[0].shape[:2], x)
        np.multiply(views[0], weights[0], out=total)
        for view, weight in zip(views[1:], weights[1:], strict=True):
            total += np.multiply(view, weight, out=term)
        y[block] = shifts.result(total)
        if bias is not None:
            y[block] += bias

    share(work, shifts.blocks(x))


def transposed(a: Any, w: Any, how: Windows, y: Any) -> None:
    """y = conv_dx(a, w): every term of the forward goes back to where it came from."""
    shifts = Shifts(how, y.shape[2:], a.shape[2:])
    weights, place = shifts.weights(w), inside(how.padding, y.shape[2:])

    def work(block: slice) -> None:
        spread = shifts.spread(a[block])
        image = scratch.empty("padded", (*spread.shape[:2], *shifts.padded), a)
        image[...] = 0
        term = shifts.empty("block 0", spread.shape[:2], a)
        for view, weight in zip(shifts.views(image), weights, strict=True):
            view += np.multiply(spread, weight, out=term)
        y[block] = image[place]

    share(work, shifts.blocks(y))


def of_weight(a: Any, x: Any, how: Windows) -> Any:
    """conv_dw(a, x) as (C, kernel places): products of a with the shifted images, added up."""
    shifts = Shifts(how, x.shape[2:], a.shape[2:])
    cut = shifts.blocks(x)
    parts = np.zeros((max(1, len(cut)), x.shape[1], prod(how.kernel)), x.dtype)

    def work(i: int) -> None:
        block = cut[i]
        image = np.ascontiguousarray(padded(x[block], how.padding, name="padded"))
        spread = shifts.spread(a[block].conj())  # which vecdot takes back
        spread = spread.reshape((*spread.shape[:2], -1))
        for k, view in enumerate(shifts.views(image)):
            parts[i, :, k] = np.vecdot(spread, view.reshape(spread.shape)).sum(0)

    share(work, range(len(cut)))
    return parts.sum(0)
