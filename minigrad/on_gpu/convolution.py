"""Convolution on a GPU: by cuDNN where its front end is installed, else by products.

Without cuDNN a convolution is columns and products by cuBLAS. With fast/ (fast/conv/images.py) it
takes as much of the batch at a time as a workspace holds. `by_cudnn` switches cuDNN off for the
tests that compare the two.
"""

from math import prod
from typing import Any

from ..backends.device import array_module, is_contiguous
from ..backends.dtypes import is_floating
from ..fusion import launch
from ..fusion.launch import shaped
from ..modes import deterministic
from ..ops.windows import Windows
from . import cudnn_convolution, cudnn_plans
from .install import on_gpu
from .products import available, biased

by_cudnn = True


def _run(which: str, first: Any, second: Any, shape: tuple, how: Windows) -> Any:
    """One of the three convolutions by cuDNN; None where cuDNN does not support it."""
    if not by_cudnn or not available(first) or first.dtype != second.dtype:
        return None
    if not is_floating(first.dtype) or not prod(shape) or not first.size or not second.size:
        return None
    if not cudnn_plans.installed():
        return None
    arrays = [x if is_contiguous(x) else x.copy(order="C") for x in (first, second)]
    axes = len(how.kernel)
    if axes == 1:  # cuDNN takes at least two axes
        how = Windows(
            (1, *how.kernel), (1, *how.stride), ((0, 0), *how.padding), (1, *how.dilation)
        )
        arrays = [x.reshape((*x.shape[:2], 1, x.shape[2])) for x in arrays]
        full = (*shape[:2], 1, shape[2])
    else:
        full = shape
    if axes > 3:
        return None
    x, w = arrays
    y = cudnn_convolution.convolution(
        array_module(first), which, x, w, full, tuple(how), deterministic.required
    )
    return None if y is None else shaped(y, shape)


@on_gpu("conv")
def conv(x: Any, w: Any, b: Any = None, *, how: Windows, groups: int = 1) -> Any:
    shape = (len(x), len(w), *how.count("conv", x.shape[2:]))
    y = _run("y", x, w, shape, how)
    if y is None or b is None:
        return y
    b = b.reshape((-1, *(1,) * len(how.kernel)))
    ys = launch.run("bias", biased, [y, b]) if b.dtype == y.dtype else None
    return (y + b).astype(y.dtype, copy=False) if ys is None else ys[0]


@on_gpu("conv_dx")
def conv_dx(a: Any, w: Any, *, size: tuple, how: Windows, groups: int = 1) -> Any:
    shape = (len(a), w.shape[1] * groups, *size)
    return _run("x", a, w, shape, how)


@on_gpu("conv_dw")
def conv_dw(a: Any, x: Any, *, how: Windows, groups: int = 1) -> Any:
    shape = (a.shape[1], x.shape[1] // groups, *how.kernel)
    return _run("w", a, x, shape, how)
