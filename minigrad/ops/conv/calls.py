"""conv1d, conv2d, conv3d and their transposes: arguments checked and made into `Windows`."""

from typing import Any

import numpy as np

from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like
from ..windows import Padding, Sizes, Windows, per_axis, windows
from .primitives import conv, conv_dx

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
]  # fmt: skip


def _whole_groups(name: str, groups: Any) -> int:
    if not isinstance(groups, int | np.integer) or groups < 1:
        raise ValueError(f"{name}: groups must be an int ≥ 1, got {groups!r}")
    return int(groups)


def _convolve(
    name: str, dims: int, x: Any, w: Any, b: Any, stride: Sizes, padding: Padding,
    dilation: Sizes, groups: int,
) -> Any:  # fmt: skip
    """conv with its arguments checked; an image without a batch axis gets one temporarily."""
    x, w, b = array_like(x), array_like(w), None if b is None else array_like(b)
    if w.ndim != dims + 2 or x.ndim not in (dims + 1, dims + 2):
        raise ValueError(
            f"{name}: x must have {dims + 2} axes (N, C, *size) or {dims + 1}, and w {dims + 2} "
            f"(O, C/groups, *kernel); got x {x.shape}, w {w.shape}"
        )
    groups = _whole_groups(name, groups)
    channels = x.shape[-dims - 1]
    if channels != w.shape[1] * groups or w.shape[0] % groups:
        raise ValueError(
            f"{name}: with groups={groups}, x {x.shape} of {channels} channels needs w of shape "
            f"(O, {channels}/{groups}, *kernel) with O divisible by groups; got w {w.shape}"
        )
    if b is not None and b.shape != (w.shape[0],):
        raise ValueError(f"{name}: b must have shape ({w.shape[0]},), got {b.shape}")
    how = windows(name, w.shape[2:], stride, padding, dilation)
    how.count(name, x.shape[-dims:])
    images = x if x.ndim == dims + 2 else x.reshape((1, *x.shape))
    if b is None or b.dtype in (x.dtype, w.dtype):
        y = conv(images, w, b, how=how, groups=groups)
    else:  # b's dtype may be wider than that of the products
        y = conv(images, w, None, how=how, groups=groups) + b.reshape((-1, *(1,) * dims))
    return y if x.ndim == dims + 2 else y.reshape(y.shape[1:])


@composite
def conv1d(
    x: Any, w: Any, b: Any = None, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """conv2d's form in one dimension: x (N, C, W), w (O, C/groups, kw) -> (N, O, ow)."""
    return _convolve("conv1d", 1, x, w, b, stride, padding, dilation, groups)


@composite
def conv2d(
    x: Any, w: Any, b: Any = None, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """y[n,o,i] = b[o] + Σ_{c,k} w[o,c,k] x[n,c, stride·i + dilation·k − padding], no flip.

    x (N, C, H, W) or (C, H, W), w (O, C/groups, kh, kw), b (O,) -> (N, O, oh, ow). stride and
    dilation: an int or one for each axis; padding: these, (before, after) pairs, 'same' (stride 1;
    an odd total has the extra zero at the end) or 'valid'. ValueError names what does not fit.
    """
    return _convolve("conv2d", 2, x, w, b, stride, padding, dilation, groups)


@composite
def conv3d(
    x: Any, w: Any, b: Any = None, stride: Sizes = 1, padding: Padding = 0, dilation: Sizes = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    """conv2d's form in three dimensions: x (N, C, D, H, W), w (O, C/groups, kd, kh, kw)."""
    return _convolve("conv3d", 3, x, w, b, stride, padding, dilation, groups)


# -- transposed ------------------------------------------------------------------------------


def _transposed(
    name: str, dims: int, x: Any, w: Any, b: Any, stride: Sizes, padding: Padding,
    output_padding: Sizes, groups: int, dilation: Sizes,
) -> Any:  # fmt: skip
    """conv_dx with its arguments checked: the map whose gradient in its image is conv."""
    x, w, b = array_like(x), array_like(w), None if b is None else array_like(b)
    if w.ndim != dims + 2 or x.ndim not in (dims + 1, dims + 2):
        raise ValueError(
            f"{name}: x must have {dims + 2} axes (N, C, *size) or {dims + 1}, and w {dims + 2} "
            f"(C, O/groups, *kernel); got x {x.shape}, w {w.shape}"
        )
    groups = _whole_groups(name, groups)
    if x.shape[-dims - 1] != w.shape[0] or w.shape[0] % groups:
        raise ValueError(
            f"{name}: with groups={groups}, x {x.shape} needs w of shape (C, O/groups, *kernel) "
            f"with C = {x.shape[-dims - 1]} divisible by groups; got w {w.shape}"
        )
    if b is not None and b.shape != (w.shape[1] * groups,):
        raise ValueError(f"{name}: b must have shape ({w.shape[1] * groups},), got {b.shape}")
    how = windows(name, w.shape[2:], stride, padding, dilation)
    extra = per_axis(name, "output_padding", output_padding, dims, least=0)
    axes, size, beyond = [], [], []
    for n, (kernel, s, (before, after), d), more in zip(
        x.shape[-dims:], how.axes(), extra, strict=True
    ):
        # a stride or more would be room for another window: it goes into the padding behind, which
        # the kernels reach. The rest lies beyond all kernels
        moved = min(more, after) if more >= s else 0
        last = min(more - moved, s - 1)
        axes.append((kernel, s, (before, after - moved), d))
        size.append((n - 1) * s - before - after + moved + d * (kernel - 1) + 1 + last)
        beyond.append(more - moved - last)
    fits = all(more < max(s, d) for more, (_, s, _, d) in zip(extra, how.axes(), strict=True))
    inner = Windows.from_axes(axes)
    if not fits or min(size) < 1 or inner.count(name, tuple(size)) != x.shape[-dims:]:
        whole = tuple(n + more for n, more in zip(size, beyond, strict=True))
        raise ValueError(
            f"{name}: output_padding {extra} must be smaller than the stride {how.stride} or the "
            f"dilation {how.dilation}, and padding {how.padding} leave something of the result "
            f"{whole}"
        )
    images = x if x.ndim == dims + 2 else x.reshape((1, *x.shape))
    y = conv_dx(images, w, size=tuple(size), how=inner, groups=groups)
    if any(beyond):
        y = op.pad_zeros(y, widths=((0, 0), (0, 0), *((0, n) for n in beyond)))
    y = y if x.ndim == dims + 2 else y.reshape(y.shape[1:])
    return y if b is None else y + b.reshape((-1, *(1,) * dims))


@composite
def conv_transpose1d(
    x: Any, w: Any, b: Any = None, stride: Sizes = 1, padding: Padding = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Any:  # fmt: skip
    """conv_transpose2d's form in one dimension: x (N, C, W), w (C, O/groups, kw)."""
    return _transposed(
        "conv_transpose1d", 1, x, w, b, stride, padding, output_padding, groups, dilation
    )


@composite
def conv_transpose2d(
    x: Any, w: Any, b: Any = None, stride: Sizes = 1, padding: Padding = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Any:  # fmt: skip
    """y = the transpose of conv2d applied to x: every entry of x spreads a kernel over y.

    x (N, C, H, W) or (C, H, W), w (C, O/groups, kh, kw), b (O,). An axis of n entries gets the
    length (n − 1) stride − padding before and after + dilation (kernel − 1) + 1 + output_padding.
    The output_padding must be smaller than the stride or the dilation.
    """
    return _transposed(
        "conv_transpose2d", 2, x, w, b, stride, padding, output_padding, groups, dilation
    )


@composite
def conv_transpose3d(
    x: Any, w: Any, b: Any = None, stride: Sizes = 1, padding: Padding = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Any:  # fmt: skip
    """conv_transpose2d's form in three dimensions: x (N, C, D, H, W)."""
    return _transposed(
        "conv_transpose3d", 3, x, w, b, stride, padding, output_padding, groups, dilation
    )
