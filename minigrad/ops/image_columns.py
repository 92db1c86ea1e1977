"""im2col and its transpose col2im: the windows of images as columns (PyTorch's unfold and fold).

mg.unfold is the other meaning of the word, NumPy's sliding windows along one axis.
"""

from math import prod
from typing import Any

import numpy as np

from ..backends.dtypes import accumulator
from ..engine.primitive import linear
from ..engine.registry import op
from ..tensor_api.composite import composite
from .axes import array_like
from .batching import apart, merged
from .windows import Windows, columns, per_axis, windows
from .windows import fold as fold_windows

__all__ = ["col2im", "fold", "im2col"]


@linear
def window_columns(x, *, how):
    """y[n, c·K + k, i] = x[n, c, stride·i + dilation·k − padding] ;  gx = column_sums(g)

    x (N, C, *size) -> y (N, C·K, L): K places in a window, L windows. Padding counts as 0.
    """
    out = how.count("im2col", x.shape[2:])
    y = columns(x, how, out, at=2)
    return y.reshape((len(x), x.shape[1] * prod(how.kernel), prod(out)))


@window_columns.vjp("x")
def window_columns_gx(g, x_shape, how):
    return column_sums(g, size=x_shape[2:], how=how)


@linear
def column_sums(x, *, size, how):
    """The transpose of window_columns: every entry added to the place it came from. gx: that op.

    x (N, C·K, L) -> y (N, C, *size). 16-bit floats are added in float32.
    """
    out = how.count("col2im", size)
    wide = x.astype(accumulator(x.dtype) or x.dtype, copy=False)
    channels = x.shape[1] // prod(how.kernel)
    y = fold_windows(wide.reshape((len(x), channels, *how.kernel, *out)), how, size, at=2)
    return y.astype(x.dtype)  # a copy, without the padding


@column_sums.vjp("x")
def column_sums_gx(g, how):
    return window_columns(g, how=how)


@window_columns.batch
@column_sums.batch
def _images_batch(op_, xs, batched, params):
    """The examples are more images."""
    (x,) = xs
    return apart(op_(merged(x), **params), x.shape[:2])


# -- what users call -------------------------------------------------------------------------


def _how(name: str, dims: int, kernel_size, dilation, padding, stride) -> Windows:
    kernel = per_axis(name, "kernel_size", kernel_size, dims, least=1)
    return windows(name, kernel, stride, padding, dilation)


@composite
def im2col(x: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """y[n, c·K + k, i] = x[n, c, place k of window i]: windows as columns, padding counts as 0.

    x (N, C, *size) or (C, H, W) -> (N, C·K, L), K = Π kernel_size places in a window and L windows,
    both row by row: torch.nn.functional.unfold. kernel_size: an int for images of two axes, or one
    for each of 1, 2 or 3 spatial axes. gx = col2im(g).
    """
    x = array_like(x)
    dims = len(kernel_size) if np.ndim(kernel_size) else 2
    if x.ndim not in (dims + 1, dims + 2):
        raise ValueError(
            f"im2col: x must have {dims + 2} axes (N, C, *size) or {dims + 1} for kernel_size "
            f"{kernel_size}; got {x.shape}"
        )
    how = _how("im2col", dims, kernel_size, dilation, padding, stride)
    how.count("im2col", x.shape[-dims:])
    if x.ndim == dims + 2:
        return window_columns(x, how=how)
    return window_columns(op.expand_dims(x, axis=0), how=how)[0]


@composite
def col2im(
    x: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    """y = the images of size output_size in which every column is added at its window's places.

    x (N, C·K, L) or (C·K, L) -> (N, C, *output_size): torch.nn.functional.fold. It is the transpose
    of im2col and not its inverse: places in several windows get the sum. gx = im2col(g).
    """
    x = array_like(x)
    dims = len(output_size) if np.ndim(output_size) else 2
    size = per_axis("col2im", "output_size", output_size, dims, least=1)
    how = _how("col2im", dims, kernel_size, dilation, padding, stride)
    count, places = prod(how.count("col2im", size)), prod(how.kernel)
    if x.ndim not in (2, 3) or x.shape[-1] != count or x.shape[-2] % places:
        raise ValueError(
            f"col2im: x must be (N, C·{places}, {count}) or (C·{places}, {count}): {places} places "
            f"in a window of {how.kernel}, {count} windows on {size}; got {x.shape}"
        )
    if x.ndim == 3:
        return column_sums(x, size=size, how=how)
    return column_sums(op.expand_dims(x, axis=0), size=size, how=how)[0]


fold = col2im
