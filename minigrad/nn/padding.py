"""Padding layers: values around the last one, two or three axes. Names are PyTorch's."""

from collections.abc import Sequence

from ..engine.errors import describe
from ..engine.registry import op
from ..tensor_api.tensor import Tensor
from .conv import Sizes, as_tuple
from .module import Module

__all__ = [
    f"{kind}Pad{dims}d"
    for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero")
    for dims in (1, 2, 3)
]


def padded(owner: str, x: Tensor, padding: Sequence[int], mode: str, value: float) -> Tensor:
    """x with the last axes longer by (left, right) each, or shorter where a number is negative.

    padding begins with the pair of the last axis; mode and value are those of mg.pad.
    """
    pairs = list(zip(padding[::2], padding[1::2], strict=True))[::-1]
    width = [(0, 0)] * (x.ndim - len(pairs)) + [(max(a, 0), max(b, 0)) for a, b in pairs]
    options = {"constant_values": value} if mode == "constant" else {}
    longer = lambda x: op.pad(x, tuple(width), mode=mode, **options)
    shorter = lambda x: _cut(owner, x, padding, [(min(a, 0), min(b, 0)) for a, b in pairs])
    if min(padding, default=0) >= 0:
        return longer(x)
    if mode in ("edge", "reflect"):  # an element cut off at one end can still pad the other
        return shorter(longer(x))
    return longer(shorter(x))


def _cut(owner: str, x: Tensor, padding: Sequence[int], pairs: list[tuple[int, int]]) -> Tensor:
    """x without what the pairs, of numbers below 0, take off the ends of its last axes."""
    sizes = x.shape[x.ndim - len(pairs) :]
    ends = [n + right for n, (_, right) in zip(sizes, pairs, strict=True)]
    begins = [-left for left, _ in pairs]
    if any(begin > end for begin, end in zip(begins, ends, strict=True)):
        raise ValueError(
            f"{owner}: padding {tuple(padding)} cuts off more than x {describe(x)} has"
        )
    return x[(..., *map(slice, begins, ends))]


class _Pad(Module):
    """Base: `padding` is one width, or (left, right) of the last axis, then of the one before.

    x has a channel axis before those, and perhaps a batch axis; around any array of enough axes a
    constant goes, as in PyTorch.
    """

    mode = "constant"
    dims = 0
    value = 0.0

    def __init__(self, padding: Sizes):
        self.padding = as_tuple(padding, 2 * self.dims)
        if len(self.padding) % 2:
            raise ValueError(
                f"{type(self).__name__}: padding is one width, or (left, right) of the last axis, "
                f"then of the one before; got {self.padding}"
            )

    def forward(self, x: Tensor) -> Tensor:
        n = self.dims
        if x.ndim < n or (self.mode != "constant" and x.ndim not in (n + 1, n + 2)):
            axes = f"at least {n}" if self.mode == "constant" else f"{n + 1} or {n + 2}"
            name = type(self).__name__
            raise ValueError(f"{name}: x must have {axes} axes, got shape {x.shape}")
        return padded(type(self).__name__, x, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Sizes, value: float):
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ZeroPad1d(_Pad):
    """Zeros around the last axis"""

    dims = 1


class ZeroPad2d(_Pad):
    """Zeros around the last two axes; padding: one width, or (left, right, top, bottom)"""

    dims = 2


class ZeroPad3d(_Pad):
    """Zeros around the last three axes"""

    dims = 3


class ConstantPad1d(_ConstantPad):
    """A value around the last axis"""

    dims = 1


class ConstantPad2d(_ConstantPad):
    """A value around the last two axes"""

    dims = 2


class ConstantPad3d(_ConstantPad):
    """A value around the last three axes"""

    dims = 3


class ReflectionPad1d(_Pad):
    """x mirrored at its ends, which are not repeated: b c | a b c | b a"""

    mode, dims = "reflect", 1


class ReflectionPad2d(_Pad):
    """x mirrored at its borders, which are not repeated"""

    mode, dims = "reflect", 2


class ReflectionPad3d(_Pad):
    """x mirrored at its borders, which are not repeated"""

    mode, dims = "reflect", 3


class ReplicationPad1d(_Pad):
    """The entries at the ends again: a a | a b c | c c"""

    mode, dims = "edge", 1


class ReplicationPad2d(_Pad):
    """The entries at the border again"""

    mode, dims = "edge", 2


class ReplicationPad3d(_Pad):
    """The entries at the border again"""

    mode, dims = "edge", 3


class CircularPad1d(_Pad):
    """x begun anew at its ends: b c | a b c | a b"""

    mode, dims = "wrap", 1


class CircularPad2d(_Pad):
    """x begun anew at its borders"""

    mode, dims = "wrap", 2


class CircularPad3d(_Pad):
    """x begun anew at its borders"""

    mode, dims = "wrap", 3
