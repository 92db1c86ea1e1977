"""A layer and the batch norm behind it as one layer, for a trained model that is only evaluated.

In eval() a batch norm is y = (x − mean) s + bias with s = weight / √(var + eps), a number for each
channel. This affine map goes into the weight and the bias of the layer before it.
"""

import copy
from typing import Any

from ...engine.registry import op
from ...tensor_api.help import missing_names_of as _missing_names_of
from ...tensor_api.tensor import Tensor
from ..parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]  # fmt: skip


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of the convolution, of any kind, that computes bn(conv(x)); both must be in eval().

    transpose=, PyTorch's word for a transposed convolution, has no effect: conv knows what it is.
    ValueError in train(), for a norm without running statistics, or with other channels.
    """
    _check("fuse_conv_bn_eval", conv, bn, conv.out_channels)
    statistics = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    weight = conv.weight
    if conv.transposed:  # (in, out / groups, ...): each group with the scales of its outputs
        weight = op.reshape(weight, shape=(conv.groups, -1, *weight.shape[1:]))
        weight = op.reshape(op.swapaxes(weight, 1, 2), shape=(conv.out_channels, -1))
    fused, bias = fuse_conv_bn_weights(weight, conv.bias, *statistics)
    if conv.transposed:
        per_group = conv.out_channels // conv.groups
        parted = op.reshape(fused, shape=(conv.groups, per_group, -1, *conv.weight.shape[2:]))
        fused = op.reshape(op.swapaxes(parted, 1, 2), shape=conv.weight.shape)
    return _with(conv, fused, bias)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of the linear layer that computes bn(linear(x)) for x (n, features); as above."""
    _check("fuse_linear_bn_eval", linear, bn, linear.out_features)
    statistics = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    return _with(linear, *fuse_linear_bn_weights(linear.weight, linear.bias, *statistics))


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """(weight, bias) of the fused layer from both layers' arrays; conv_b, bn_w, bn_b may be None.

    conv_w (out, ...), or with `transpose` (in, out, ...). New leaves, in conv_w's dtype.
    """
    scale = op.rsqrt(bn_rv + bn_eps)
    scale = scale if bn_w is None else bn_w * scale
    bias = (-bn_rm if conv_b is None else conv_b - bn_rm) * scale
    bias = bias if bn_b is None else bias + bn_b
    of_rows = [1] * conv_w.ndim
    of_rows[int(transpose)] = -1
    weight = conv_w * op.reshape(scale, shape=tuple(of_rows))
    return _leaf(weight, conv_w), _leaf(bias, conv_w)


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """The same for a linear layer's weight (out, in) and bias."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _leaf(value: Tensor, like: Tensor) -> Parameter:
    return Parameter(op.astype(value.detach(), dtype=like.dtype), like.requires_grad)


def _check(name: str, layer: Any, bn: Any, channels: int) -> None:
    if layer.training or bn.training:
        raise ValueError(
            f"{name}: both layers must be in eval(): in train() a batch norm takes the statistics "
            "of each batch, which are in no weight"
        )
    if bn.running_mean is None:
        raise ValueError(f"{name}: the batch norm keeps no running statistics to be fused")
    if bn.num_features != channels:
        raise ValueError(
            f"{name}: the layer has {channels} outputs, the batch norm {bn.num_features} features"
        )


def _with(layer: Any, weight: Tensor, bias: Parameter) -> Any:
    """A copy of the layer with these parameters."""
    fused = copy.deepcopy(layer)
    fused.weight = _leaf(weight, layer.weight)
    fused.bias = bias
    return fused


__getattr__ = _missing_names_of(__name__)
