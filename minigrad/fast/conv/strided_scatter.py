"""The transpose of a convolution with stride > 1, on NumPy's arrays.

A matrix product gives the contributions of each window; then every entry is added to the pixel it
came from. Along an image's rows those are runs of `out` entries, `stride` pixels apart: too short
for NumPy's loops. The image is therefore split into phases (fast/shifts.py), where the
contributions of all windows from one kernel position are contiguous. At the end the phases are
interleaved.
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.blocks import on_threads, scratch
from ...backends.window_kernels import compiled_kernels
from ...ops.windows import Windows
from ..shifts import Shifts
from ..small_products import multiply
from .images import FEW_WINDOWS, blocks


def suits(how: Windows, a: Any) -> bool:
    """Whether this form applies to such windows, and pays for results a (N, O, *out).

    Not where windows tile the image: each pixel then has one entry, and nothing is added. Nor with
    compiled loops, where short runs are as fast as long ones.
    """
    if (
        min(how.stride) == 1
        or how.tiling
        or type(a) is not np.ndarray
        or compiled_kernels() is not None
    ):
        return False
    return prod(a.shape[2:]) >= FEW_WINDOWS


def transposed(a: Any, w: Any, how: Windows, groups: int, y: Any) -> None:
    """y = conv_dx(a, w); both are channels first."""
    shifts, kernel = Shifts(how, y.shape[2:], a.shape[2:]), prod(how.kernel)
    outputs, inputs = len(w) // groups, w.shape[1]
    weight = w.reshape((groups, outputs, inputs, kernel)).transpose((0, 3, 2, 1))
    weight = weight.reshape((groups, kernel * inputs, outputs))

    def work(block: slice) -> None:
        run = shifts.spread(a[block], "block 1")
        lead = (len(run), groups)
        shape = (*lead, kernel * inputs, shifts.length)
        entries = scratch.empty("product", shape, a)
        multiply(weight, run.reshape((*lead, outputs, shifts.length)), entries)
        entries = entries.reshape((*lead, kernel, inputs, shifts.length))
        terms = [entries[:, :, k] for k in range(kernel)]
        images = y[block].reshape((*lead, inputs, *y.shape[2:]))
        shifts.image(shifts.collect(terms, (*lead, inputs), a), images)

    image = y.shape[1] * kernel * shifts.length * a.itemsize
    on_threads(work, blocks(a, image), a)
