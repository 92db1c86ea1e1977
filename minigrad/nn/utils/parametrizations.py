"""Parametrizations that are often wanted, under PyTorch's path: weights that stay orthogonal."""

from typing import Any

import numpy as np

from ... import linalg
from ...core import create
from ...core.registry import op
from ...core.spelling import absences as _absences
from ...core.tensor import Tensor
from ..module import Module
from .parametrize import register_parametrization

__all__ = ["orthogonal"]


class _Orthogonal(Module):
    """Q = B exp(A) of a skew A = X − Xᴴ, whose lower triangle is learned; B is a buffer, `base`.

    With "cayley" it is B (1 − A/2)⁻¹ (1 + A/2). Of a tall X the first columns of Q are shown, of a
    wide one the transpose. Lezcano-Casado, Trivializations for Gradient-Based Optimization on
    Manifolds, 2019.
    """

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool):
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", _nearby(_tall(weight)))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.shape[-2] < x.shape[-1]
        tall = op.tril(_tall(x))
        rows, columns = tall.shape[-2:]
        side = create.zeros((*tall.shape[:-1], rows - columns), dtype=x.dtype, device=x.device)
        square = op.concatenate([tall, side], axis=-1)
        a = square - op.swapaxes(square, -1, -2).conj()
        if self.orthogonal_map == "matrix_exp":
            q = linalg.matrix_exp(a)
        else:
            one = create.eye(rows, dtype=x.dtype, device=x.device)
            q = linalg.solve(one - 0.5 * a, one + 0.5 * a)
        q = q[..., :columns]
        if "base" in self._buffers:
            q = self.base @ q
        return op.swapaxes(q, -1, -2) if wide else q

    def right_inverse(self, q: Tensor) -> Tensor:
        if "base" not in self._buffers:
            raise NotImplementedError
        self.base = _nearby(_tall(q))
        # A = 0, so that Q = base; −1 and not 0 in the diagonal, which A has not, as PyTorch does
        rows, columns = q.shape[-2:]
        start = -create.eye(rows, columns, dtype=q.dtype, device=q.device)
        return op.broadcast_to(start, q.shape)

    def extra_repr(self) -> str:
        return f"orthogonal_map={self.orthogonal_map!r}"


def _tall(x: Tensor) -> Tensor:
    return op.swapaxes(x, -1, -2) if x.shape[-2] < x.shape[-1] else x


def _nearby(tall: Tensor) -> Tensor:
    """A square orthogonal matrix whose first columns are those of `tall` made orthonormal."""
    q, r = linalg.qr(tall.detach(), mode="complete")
    diagonal = op.diagonal(r, axis1=-2, axis2=-1)
    signs = op.where(diagonal == 0, create.ones_like(diagonal), op.sign(diagonal))
    columns = tall.shape[-1]
    kept = q[..., :columns] * op.expand_dims(signs, -2)
    return op.concatenate([kept, q[..., columns:]], axis=-1)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Let the matrix module.<name> be orthogonal: QᵀQ = 1, or QQᵀ = 1 where it is wide

    It begins with the weight made orthogonal, and can be assigned. Further axes in front make a
    batch of matrices. orthogonal_map is "matrix_exp" (the default) or "cayley"; with
    use_trivialization=False it begins elsewhere, and cannot be assigned. Returns the module.
    """
    weight: Any = getattr(module, name, None)
    if orthogonal_map not in (None, "matrix_exp", "cayley"):
        raise ValueError(
            f"orthogonal: orthogonal_map is 'matrix_exp' or 'cayley', got {orthogonal_map!r}"
        )
    if not isinstance(weight, Tensor):
        raise ValueError(f"orthogonal: {type(module).__name__} has no parameter {name!r}")
    if weight.ndim < 2 or not np.issubdtype(weight.dtype, np.inexact):
        raise ValueError(
            f"orthogonal: needs a matrix, or several in axes in front, got shape {weight.shape}; "
            "an axis of one vector can be its norm: nn.utils.weight_norm"
        )
    made = _Orthogonal(weight, orthogonal_map or "matrix_exp", use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


__getattr__ = _absences(__name__)
