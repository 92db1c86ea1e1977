"""Depthwise convolution, one kernel per channel (groups = channels), on plain arrays.

y is the sum, over the kernel positions k, of the image shifted by k times one number per channel.
`Shifts` reads the shifted images as long runs. For short rows or large kernels, products with
banded matrices are faster: banded.py.
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.blocks import long_runs, scratch, spans
from ...backends.device import array_module
from ...backends.pool import share
from ...ops.windows import Windows
from ..shifts import Shifts, Views
from .images import images_at_once

# Elements of the padded images that a thread works on at a time. They are many, since a piece takes
# some thirty NumPy calls: two threads that wait for the interpreter after each short call take
# longer than one.
BLOCK = 1 << 19


def is_depthwise(x: Any, inputs: int, outputs: int, groups: int) -> bool:
    """Whether each of several channels, as many in as out, has its own kernel; x is NumPy's."""
    return 1 < groups == inputs == outputs and array_module(x) is np


def _blocks(x: Any, shifts: Shifts) -> list[slice]:
    """Slices of the batch x."""
    image = x.shape[1] * prod(shifts.rows) * prod(shifts.how.stride)
    return spans(len(x), images_at_once(len(x), image, BLOCK))


def _space(x: Any) -> tuple:
    """The axes along which a number of the kernel is constant."""
    return tuple(range(2, x.ndim))


def _columns(w: Any) -> Any:
    """For each kernel position the numbers of the channels, (C, 1)."""
    return w.reshape((len(w), -1)).T[..., None]


def forward(x: Any, w: Any, bias: Any, how: Windows, y: Any) -> None:
    """y = conv(x, w) + bias"""
    shifts = Shifts(how, x.shape[2:], y.shape[2:])
    weights = _columns(w)

    def work(block: slice) -> None:
        runs = shifts.runs(shifts.phases(x[block], "phases"))
        total = scratch.empty("block 0", runs[0].shape, x)
        term = scratch.empty("block 1", runs[0].shape, x)
        np.multiply(runs[0], weights[0], out=total)
        for run, weight in zip(runs[1:], weights[1:], strict=True):
            total += np.multiply(run, weight, out=term)
        if bias is None:
            y[block] = shifts.result(total)
        else:
            np.add(shifts.result(total), bias, out=y[block])

    with long_runs(x, _space(x)):
        share(work, _blocks(x, shifts))


def transposed(a: Any, w: Any, how: Windows, y: Any) -> None:
    """y = conv_dx(a, w): every term of the forward is added to the pixel it came from."""
    shifts = Shifts(how, y.shape[2:], a.shape[2:])
    weights = _columns(w)

    def work(block: slice) -> None:
        spread = shifts.spread(a[block], "block 1")
        term = scratch.empty("block 0", spread.shape, a)
        terms = (np.multiply(spread, weight, out=term) for weight in weights)
        shifts.image(shifts.collect(terms, spread.shape[:2], a), y[block])

    with long_runs(y, _space(y)):
        share(work, _blocks(y, shifts))


def of_weight(a: Any, x: Any, how: Windows) -> Any:
    """conv_dw(a, x) as (C, kernel positions): sums of products of a with the shifted images."""
    shifts = Shifts(how, x.shape[2:], a.shape[2:])
    cut = _blocks(x, shifts)
    parts = np.zeros((max(1, len(cut)), x.shape[1], prod(how.kernel)), x.dtype)

    def work(i: int) -> None:
        block = cut[i]
        spread = shifts.spread(a[block].conj(), "block 1")  # vecdot conjugates it again
        for k, run in enumerate(shifts.runs(shifts.phases(x[block], "phases"))):
            parts[i, :, k] = np.vecdot(spread, run).sum(0)

    share(work, range(len(cut)))
    y = parts.sum(0)
    bad = ~np.isfinite(y).all(1)
    if bad.any():  # 0 between two rows of results times ∞ is NaN, also where windows see no ∞
        y[bad] = _of_weight_by_windows(a[:, bad], x[:, bad], how)
    return y


def _of_weight_by_windows(a: Any, x: Any, how: Windows) -> Any:
    """The same, position by position, from windows only: short runs, and nothing between them."""
    seen = Views(how, x.shape[2:], a.shape[2:]).places(x)
    axes = list(range(x.ndim))
    return np.stack([np.einsum(a, axes, place, axes, [1]) for place in seen], axis=1)
