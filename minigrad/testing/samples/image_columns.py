"""Samples of im2col and col2im: windows that touch, overlap, leave gaps, reach into the padding."""

from math import prod

import numpy as np

from ...ops.windows import Windows, windows
from ..spec import ErrorSample, register_op
from .forms import COMPLEX, over
from .pool import _views


def _how(kernel_size, dilation, padding, stride, dims=2):
    kernel = (kernel_size,) * dims if np.ndim(kernel_size) == 0 else tuple(kernel_size)
    return windows("reference", kernel, stride, padding, dilation)


def _columns(x, how):
    """Each window of x (N, C, *size) as a column."""
    x = x if x.dtype.kind == "c" else x.astype(float)
    parts = [_views(part, how, 0) for part in ((x.real, x.imag) if x.dtype.kind == "c" else (x,))]
    v = parts[0] if len(parts) == 1 else parts[0] + 1j * parts[1]
    v = np.moveaxis(v, -1, 2)
    return v.reshape((v.shape[0], v.shape[1] * v.shape[2], prod(v.shape[3:])))


def _im2col(x, kernel_size, dilation=1, padding=0, stride=1):
    dims = 2 if np.ndim(kernel_size) == 0 else len(kernel_size)
    if x.ndim not in (dims + 1, dims + 2):
        raise ValueError("images in a batch, or one")
    how = _how(kernel_size, dilation, padding, stride, dims)
    y = _columns(x if x.ndim == dims + 2 else x[None], how)
    return (y if x.ndim == dims + 2 else y[0]).astype(x.dtype)


def _sums(x, size, how):
    """Every entry of every column, added at its position of the padded image."""
    channels = x.shape[1] // prod(how.kernel)
    counts = how.count("reference", size)
    if x.shape[2] != prod(counts):
        raise ValueError("one column for each window")
    wide = x if x.dtype.kind == "c" else x.astype(float)
    wide = wide.reshape((len(x), channels, *how.kernel, *counts))
    y = np.zeros((len(x), channels, *(n + sum(p) for n, p in zip(size, how.padding))), wide.dtype)
    for k in np.ndindex(*how.kernel):
        for i in np.ndindex(*counts):
            places = [s * a + d * b for s, a, d, b in zip(how.stride, i, how.dilation, k)]
            y[(..., *places)] += wide[(slice(None), slice(None), *k, *i)]
    inside = [slice(before, before + n) for n, (before, _) in zip(size, how.padding)]
    return y[(..., *inside)].astype(x.dtype)


def _col2im(x, output_size, kernel_size, dilation=1, padding=0, stride=1):
    dims = 2 if np.ndim(output_size) == 0 else len(output_size)
    size = (output_size,) * dims if np.ndim(output_size) == 0 else tuple(output_size)
    if x.ndim < 2:
        raise ValueError("columns have two axes")
    how = _how(kernel_size, dilation, padding, stride, dims)
    if x.ndim == 3:
        return _sums(x, size, how)
    return _sums(x[None], size, how)[0]


register_op(
    "im2col",
    over(
        [
            ((2, 2, 4, 5), {"kernel_size": 2}),
            ((1, 2, 5, 4), {"kernel_size": (3, 2), "padding": 1, "stride": 2}),
            ((3, 4, 4), {"kernel_size": 2, "dilation": 2}),
            ((2, 1, 3, 3), {"kernel_size": 1}),
            ((2, 2, 5), {"kernel_size": (2,), "stride": 3}),
            ((1, 1, 2, 3, 3), {"kernel_size": (2, 2, 1)}),
            ((0, 1, 3, 3), {"kernel_size": 2}),
        ]
    ),
    reference=_im2col,
    dtypes=COMPLEX,
    errors=[
        ErrorSample("window larger than x", (np.ones((1, 1, 3, 3)),), ValueError,
                    r"im2col: the kernel \(5, 5\).*larger than the padded input.*size \(3, 3\)",
                    {"kernel_size": 5}),
        ErrorSample("axes", (np.ones((3, 3)),), ValueError,
                    r"im2col: x must have 4 axes \(N, C, \*size\) or 3 .*got \(3, 3\)",
                    {"kernel_size": 2}),
        ErrorSample("stride", (np.ones((1, 1, 3, 3)),), ValueError,
                    "im2col: stride must be an int ≥ 1, or 2 of them, got 0",
                    {"kernel_size": 2, "stride": 0}),
    ],
)  # fmt: skip
register_op(
    "col2im",
    over(
        [
            ((2, 8, 6), {"output_size": (3, 4), "kernel_size": 2}),
            ((1, 6, 9), {"output_size": (5, 4), "kernel_size": (3, 2), "padding": 1, "stride": 2}),
            ((4, 4), {"output_size": 4, "kernel_size": 2, "dilation": 2}),
            ((2, 2, 3), {"output_size": (7,), "kernel_size": (2,), "stride": 2}),
        ]
    ),
    reference=_col2im,
    dtypes=COMPLEX,
    errors=[
        ErrorSample("columns that do not fit", (np.ones((1, 8, 5)),), ValueError,
                    r"col2im: x must be \(N, C·4, 6\).*windows on \(3, 4\); got \(1, 8, 5\)",
                    {"output_size": (3, 4), "kernel_size": 2}),
        ErrorSample("channels", (np.ones((1, 7, 6)),), ValueError, r"got \(1, 7, 6\)",
                    {"output_size": (3, 4), "kernel_size": 2}),
        ErrorSample("window larger than the image", (np.ones((1, 8, 5)),), ValueError,
                    "col2im: the kernel .*larger than the padded input",
                    {"output_size": (3, 4), "kernel_size": 5}),
    ],
)  # fmt: skip

HOW = Windows((3, 2), (1, 2), ((1, 1), (0, 1)), (1, 1))
register_op(
    "window_columns",
    over([((2, 1, 4, 5), {"how": HOW}), ((1, 1, 2, 3), {"how": HOW})]),
    reference=lambda x, how: _columns(x, how).astype(x.dtype),
    dtypes=COMPLEX,
    skips={"K17": "im2col, which users call, checks the shapes of a primitive"},
)
register_op(
    "column_sums",
    over([((2, 6, 12), {"size": (4, 5), "how": HOW}), ((1, 6, 4), {"size": (2, 3), "how": HOW})]),
    reference=_sums,
    dtypes=COMPLEX,
    skips={"K17": "col2im, which users call, checks the shapes of a primitive"},
)
