"""Common parametrizations, under PyTorch's path: weights that stay orthogonal, and weights divided
by a norm of theirs.
"""

from functools import partial
from typing import Any

import numpy as np

from ... import linalg
from ...backends.dtypes import is_differentiable
from ...engine.registry import op
from ...ops.axes import on_host
from ...tensor_api import create
from ...tensor_api.help import missing_names_of as _missing_names_of
from ...tensor_api.tensor import Tensor
from .. import functional, init, singular
from ..derived import class_before
from ..module import Module
from .parametrize import is_parametrized, register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

# -- orthogonal ---------------------------------------------------------------------------------


class _Orthogonal(Module):
    """Q = B exp(A) of a skew A = X − Xᴴ, whose lower triangle is learned; B is a buffer, `base`.

    With "cayley" it is B (1 − A/2)⁻¹ (1 + A/2). With "householder" it is B times the reflections
    along 1 + the columns of X below the diagonal; the diagonal has their signs. Of a tall X the
    first columns of Q are shown, of a wide one the transpose. Lezcano-Casado, Trivializations for
    Gradient-Based Optimization on Manifolds, 2019.
    """

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool):
        self.orthogonal_map = orthogonal_map
        self.shape = weight.shape
        if use_trivialization:
            self.register_buffer("base", _nearby(_tall(weight)))

    def forward(self, x: Tensor) -> Tensor:
        wide, tall = x.shape[-2] < x.shape[-1], _tall(x)
        q = _reflected(tall) if self.orthogonal_map == "householder" else self._turned(tall)
        if "base" in self._buffers:
            q = self.base @ q
        return op.swapaxes(q, -1, -2) if wide else q

    def _turned(self, tall: Tensor) -> Tensor:
        """exp(A), or its approximation by a quotient, of A = X − Xᴴ: its first columns."""
        tall = op.tril(tall)
        rows, columns = tall.shape[-2:]
        side = create.zeros(
            (*tall.shape[:-1], rows - columns), dtype=tall.dtype, device=tall.device
        )
        square = op.concatenate([tall, side], axis=-1)
        a = square - op.swapaxes(square, -1, -2).conj()
        if self.orthogonal_map == "matrix_exp":
            q = linalg.matrix_exp(a)
        else:
            one = create.eye(rows, dtype=tall.dtype, device=tall.device)
            q = linalg.solve(one - 0.5 * a, one + 0.5 * a)
        return q[..., :columns]

    def right_inverse(self, q: Tensor) -> Tensor:
        if q.shape != self.shape:
            raise ValueError(
                f"orthogonal: an assigned value must have the shape of the weight, {self.shape}; "
                f"got {q.shape}"
            )
        if "base" not in self._buffers:
            if self.orthogonal_map != "householder":
                raise NotImplementedError
            reflections = _reflections(_tall(q))
            return op.swapaxes(reflections, -1, -2) if q.shape[-2] < q.shape[-1] else reflections
        self.base = _nearby(_tall(q))
        # A = 0, thus Q = base. Its diagonal counts for reflections alone: one along an axis
        # turns this over, and −1 turns it back
        rows, columns = q.shape[-2:]
        start = -create.eye(rows, columns, dtype=q.dtype, device=q.device)
        return op.broadcast_to(start, q.shape)

    def extra_repr(self) -> str:
        return f"orthogonal_map={self.orthogonal_map!r}"


def _tall(x: Tensor) -> Tensor:
    return op.swapaxes(x, -1, -2) if x.shape[-2] < x.shape[-1] else x


def _reflected(tall: Tensor) -> Tensor:
    """The first columns of H₁ H₂ …, where Hᵢ = 1 − 2 vᵢ vᵢᵀ / ‖vᵢ‖² and vᵢ is column i below a 1.
    Each has the sign of the diagonal of X, which is not learned.

    H₁ H₂ … = 1 − V T⁻¹ Vᵀ, T the upper triangle of VᵀV with half its diagonal: Schreiber and
    Van Loan, A storage-efficient WY representation for products of Householder transformations.
    """
    rows, columns = tall.shape[-2:]
    one = create.eye(rows, columns, dtype=tall.dtype, device=tall.device)
    v = op.tril(tall, -1) + one
    products = op.swapaxes(v, -1, -2) @ v
    t = op.triu(products) - 0.5 * op.triu(op.tril(products))
    q = one - v @ op.triangular_solve(t, op.swapaxes(v[..., :columns, :], -1, -2), lower=False)
    signs = op.sign(op.diagonal(tall.detach(), axis1=-2, axis2=-1))
    return q * op.expand_dims(signs, -2)


def _reflections(tall: Tensor) -> Tensor:
    """X of which _reflected makes the columns of `tall`, where these are orthonormal."""
    x, tau = np.linalg.qr(on_host(tall.detach()), mode="raw")
    x = np.swapaxes(x, -1, -2).copy()
    diagonal = np.einsum("...ii->...i", x[..., : x.shape[-1], :])  # a view
    diagonal[...] = np.where(diagonal < 0, -1, 1)
    diagonal[tau == 0] *= -1  # LAPACK has left out a reflection along the axis
    return create.tensor(x, dtype=tall.dtype, device=tall.device)


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

    It begins with the weight made orthogonal, and can be assigned. Further leading axes make a
    batch of matrices. The choices of orthogonal_map are "matrix_exp" (the default for square and
    for complex matrices), "cayley" and "householder" (the default for others). With
    use_trivialization=False the first two begin elsewhere, and cannot be assigned. Returns the
    module.
    """
    weight: Any = getattr(module, name, None)
    if orthogonal_map not in (None, "matrix_exp", "cayley", "householder"):
        raise ValueError(
            "orthogonal: orthogonal_map is 'matrix_exp', 'cayley' or 'householder', got "
            f"{orthogonal_map!r}"
        )
    if not isinstance(weight, Tensor):
        raise ValueError(f"orthogonal: {type(module).__name__} has no parameter {name!r}")
    if weight.ndim < 2 or not is_differentiable(weight.dtype):
        raise ValueError(
            f"orthogonal: needs a matrix, or several in axes in front, got shape {weight.shape}; "
            "an axis of one vector can be its norm: nn.utils.weight_norm"
        )
    is_complex = weight.dtype.kind == "c"
    if is_complex and orthogonal_map == "householder":
        raise ValueError(
            f"orthogonal: 'householder' is for real matrices, and {name} is {weight.dtype}; choose "
            "'matrix_exp' or 'cayley'"
        )
    turned = is_complex or weight.shape[-2] == weight.shape[-1]
    how = orthogonal_map or ("matrix_exp" if turned else "householder")
    made = _Orthogonal(weight, how, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


# -- divided by a norm --------------------------------------------------------------------------


class _WeightNorm(Module):
    def __init__(self, dim: int | None):
        self.dim = dim

    def forward(self, g: Tensor, v: Tensor) -> Tensor:
        return v / norm_except(v, self.dim) * g

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except(weight, self.dim), weight


def norm_except(v: Tensor, dim: int | None) -> Tensor:
    """The norm of v over all axes but dim, with axes of length 1; for None over all, a number."""
    axes = tuple(i for i in range(v.ndim) if dim is None or i != dim % v.ndim)
    return op.vector_norm(v, axis=axes, keepdims=dim is not None)


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """weight = g · v / ‖v‖, norms over all axes but dim; learned are original0, g, and original1, v

    dim counts from the end below 0; None: one norm, of the whole weight (PyTorch 2.13 takes dim=-1
    for None). Salimans and Kingma, 2016. It can be assigned, and takes the states of
    nn.utils.weight_norm too. Returns the module.
    """
    weight_with_axis("weight_norm", module, name, dim)
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module.register_load_state_dict_pre_hook(partial(_renamed, name))
    return module


def _renamed(tensor: str, module: Module, state: dict, prefix: str, *other: Any) -> None:
    """The names that nn.utils.weight_norm gives, in a state, as they are here; a hook."""
    for old, new in (("g", "original0"), ("v", "original1")):
        if is_parametrized(module, tensor) and f"{prefix}{tensor}_{old}" in state:
            value = state.pop(f"{prefix}{tensor}_{old}")
            state[f"{prefix}parametrizations.{tensor}.{new}"] = value


class _SpectralNorm(Module):
    """weight / σ, σ = uᴴ W v; in training u and v come closer to the singular vectors before."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float):
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps
        if weight.ndim > 1:
            matrix = as_rows(weight.detach(), dim)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                x = init.normal_(create.empty(size, dtype=weight.dtype, device=weight.device))
                self.register_buffer(name, singular.unit(x, eps))
            self._iterate(matrix, 15)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        singular.iterate(matrix, self._u, self._v, times, self.eps, v_first=False)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return functional.normalize(weight, dim=0, eps=self.eps)
        matrix = as_rows(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = singular.constant(self._u), singular.constant(self._v)
        return weight / op.sum(u.conj() * op.matmul(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value  # of a norm other than 1 it is not what is shown then


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """weight / σ, σ the largest singular value of the weight as a matrix with the rows of axis dim

    By power iteration, each time that the weight is read in training; a vector is divided by its
    norm. dim is 0, or 1 for transposed convolutions. Miyato et al., 2018. Returns the module.
    """
    if n_power_iterations < 1:
        raise ValueError("spectral_norm: n_power_iterations must be 1 or more")
    dim = axis_of_outputs(module) if dim is None else dim
    weight = weight_with_axis("spectral_norm", module, name, dim)
    made = _SpectralNorm(weight, n_power_iterations, dim % weight.ndim, eps)
    return register_parametrization(module, name, made)


def as_rows(weight: Tensor, dim: int) -> Tensor:
    """The weight as a matrix: a row for each entry along `dim`."""
    matrix = op.moveaxis(weight, dim, 0)
    return op.reshape(matrix, shape=(matrix.shape[0], -1))


def weight_with_axis(owner: str, module: Module, name: str, dim: int | None) -> Tensor:
    """module.<name>; ValueError if it is not a tensor, IndexError if it has no axis dim."""
    weight: Any = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"{owner}: {type(module).__name__} has no parameter {name!r}")
    if dim is not None and not -weight.ndim <= dim < weight.ndim:
        raise IndexError(f"{owner}: dim={dim} is not an axis of {name} {weight.shape}")
    return weight


def axis_of_outputs(module: Module) -> int:
    """The axis of the weight of a layer that its outputs have."""
    return 1 if class_before(module).__name__.startswith("ConvTranspose") else 0


__getattr__ = _missing_names_of(__name__)
