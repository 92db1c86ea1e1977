"""Distances and similarities of vectors as modules. Names and defaults are PyTorch's."""

from typing import Any

from ..engine.registry import op
from ..ops.axes import array_like, widen
from ..ops.scaling import overflows, power_of_two
from ..tensor_api.help import with_call_context
from ..tensor_api.tensor import Tensor
from .module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


@with_call_context
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1·x2 / (max(‖x1‖, eps) max(‖x2‖, eps)) along dim."""
    a, b = (normalize(x, 2.0, dim, eps) for x in op.broadcast_arrays(x1, x2))
    return op.sum(a * b, axis=dim)


@with_call_context
def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """‖x1 − x2 + eps‖ₚ along the last axis."""
    return op.vector_norm(array_like(x1) - x2 + eps, ord=p, axis=-1, keepdims=keepdim)


@with_call_context
def normalize(x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(‖x‖ₚ, eps), the norm taken along dim."""
    x = array_like(x)
    wide = widen(x)
    size = op.vector_norm(wide, ord=p, axis=dim, keepdims=True)
    if overflows(size):  # beyond the numbers: that of the numbers over a power of two is not
        unit = power_of_two(wide, axis=dim)
        wide, eps = wide / unit, eps / unit
        size = op.vector_norm(wide, ord=p, axis=dim, keepdims=True)
    y = wide / op.clip(size, eps, None)
    return y if y.dtype == x.dtype or wide is x else op.astype(y, dtype=x.dtype)


class CosineSimilarity(Module):
    """x1·x2 / (max(‖x1‖, eps) max(‖x2‖, eps)) along dim"""

    def __init__(self, dim: int = 1, eps: float = 1e-8):
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Any, x2: Any) -> Tensor:
        return cosine_similarity(x1, x2, self.dim, self.eps)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, eps={self.eps}"


class PairwiseDistance(Module):
    """‖x1 − x2 + eps‖ₚ along the last axis"""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
        self.p = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Any, x2: Any) -> Tensor:
        return pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)

    def extra_repr(self) -> str:
        return f"p={self.p}, eps={self.eps}, keepdim={self.keepdim}"
