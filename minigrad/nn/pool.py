"""Pooling layers. Names, argument order and defaults are PyTorch's."""

from typing import Any

from ..engine.registry import op
from ..tensor_api import create
from ..tensor_api.tensor import Tensor
from .conv import Sizes
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


class _MaxPool(Module):
    dims = 0

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ):
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Any:
        pool = getattr(op, f"max_pool{self.dims}d")
        return pool(
            x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
            self.return_indices,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest value of each window ;  x (n, c, w). stride is kernel_size when left out."""

    dims = 1


class MaxPool2d(_MaxPool):
    """The largest value of each window ;  x (n, c, h, w). stride is kernel_size when left out."""

    dims = 2


class MaxPool3d(_MaxPool):
    """The largest value of each window ;  x (n, c, d, h, w). stride is kernel_size if left out."""

    dims = 3


class _AvgPool(Module):
    dims = 0

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: float | None = None,
    ):
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override
        if self.dims == 1 and divisor_override is not None:
            raise TypeError("AvgPool1d takes no divisor_override; AvgPool2d and AvgPool3d do")

    def forward(self, x: Tensor) -> Tensor:
        pool = getattr(op, f"avg_pool{self.dims}d")
        options: dict = {"ceil_mode": self.ceil_mode, "count_include_pad": self.count_include_pad}
        if self.divisor_override is not None:
            options["divisor_override"] = self.divisor_override
        return pool(x, self.kernel_size, self.stride, self.padding, **options)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The mean of each window ;  x (n, c, w). The padding counts, unless count_include_pad=False"""

    dims = 1


class AvgPool2d(_AvgPool):
    """The mean of each window ;  x (n, c, h, w). The padding counts as in AvgPool1d."""

    dims = 2


class AvgPool3d(_AvgPool):
    """The mean of each window ;  x (n, c, d, h, w). The padding counts as in AvgPool1d."""

    dims = 3


class _AdaptivePool(Module):
    """Pooling to a given size; None keeps an axis as long as it is."""

    dims = 0

    def __init__(self, output_size: Any):
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveAvgPool(_AdaptivePool):
    def forward(self, x: Tensor) -> Tensor:
        return getattr(op, f"adaptive_avg_pool{self.dims}d")(x, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of output_size windows spread evenly: window i from ⌊i n/m⌋ up to ⌈(i+1) n/m⌉"""

    dims = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """AdaptiveAvgPool1d's form over the last two axes."""

    dims = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """AdaptiveAvgPool1d's form over the last three axes."""

    dims = 3


class _AdaptiveMaxPool(_AdaptivePool):
    def __init__(self, output_size: Any, return_indices: bool = False):
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, x: Tensor) -> Any:
        pool = getattr(op, f"adaptive_max_pool{self.dims}d")
        return pool(x, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest value in each of AdaptiveAvgPool1d's windows."""

    dims = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest value in each of AdaptiveAvgPool2d's windows."""

    dims = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest value in each of AdaptiveAvgPool3d's windows."""

    dims = 3


class _FractionalMaxPool(Module):
    """Max-pooling to output_size, or output_ratio of x's size, with windows at places drawn."""

    dims = 0
    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | tuple[float, ...] | None = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ):
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{type(self).__name__}: give either output_size or output_ratio")
        self.kernel_size = kernel_size
        self.output_size = output_size
        self.output_ratio = output_ratio
        self.return_indices = return_indices
        if _random_samples is not None:  # saved, as PyTorch's are
            _random_samples = create.as_tensor(_random_samples)
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, x: Tensor) -> Any:
        pool = getattr(op, f"fractional_max_pool{self.dims}d")
        return pool(
            x, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            self._random_samples,
        )  # fmt: skip

    def extra_repr(self) -> str:
        sized = self.output_ratio is None
        size = f"size={self.output_size}" if sized else f"ratio={self.output_ratio}"
        return f"kernel_size={self.kernel_size}, output_{size}"


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest value of each of output_size windows drawn ;  x (n, c, h, w)

    See mg.fractional_max_pool2d. The windows are drawn in eval() too.
    """

    dims = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """FractionalMaxPool2d's form in three dimensions ;  x (n, c, d, h, w)"""

    dims = 3


class _MaxUnpool(Module):
    """The inverse of a max pool, for its result and the indices it returns; zeros elsewhere."""

    dims = 0

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0):
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding

    def forward(self, x: Tensor, indices: Any, output_size: Any = None) -> Tensor:
        unpool = getattr(op, f"max_unpool{self.dims}d")
        return unpool(x, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """MaxUnpool2d's form in one dimension."""

    dims = 1


class MaxUnpool2d(_MaxUnpool):
    """Zeros, with x's entries at the places `indices` of MaxPool2d(..., return_indices=True)"""

    dims = 2


class MaxUnpool3d(_MaxUnpool):
    """MaxUnpool2d's form in three dimensions."""

    dims = 3


class _LPPool(Module):
    dims = 0

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ):
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        pool = getattr(op, f"lp_pool{self.dims}d")
        return pool(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """(Σ xᵖ)^(1/p) over each window ;  x (n, c, w), p = norm_type"""

    dims = 1


class LPPool2d(_LPPool):
    """(Σ xᵖ)^(1/p) over each window ;  x (n, c, h, w), p = norm_type"""

    dims = 2


class LPPool3d(_LPPool):
    """(Σ xᵖ)^(1/p) over each window ;  x (n, c, d, h, w), p = norm_type"""

    dims = 3
