"""Helpers of linear algebra ops: adjoints, safe reciprocals of differences, stacks under vmap.

A stack of matrices holds them in its last two axes; the axes before count the matrices.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.device import DeviceError, array_module
from ...backends.dtypes import is_floating
from ...engine.primitive import primitive
from ...engine.registry import op as ops
from ..batching import align, needs_axes


def lapack(x: Any) -> Any:
    """x as it is; TypeError for 16-bit floats (NumPy refuses float16 and widens bfloat16)."""
    if x.dtype.itemsize == 2 and is_floating(x.dtype):
        raise TypeError(
            f"there is no linear algebra in {x.dtype}: LAPACK has 32- and 64-bit routines. Compute "
            "in float32, x.astype(mg.float32)"
        )
    return x


def finite(x: Any) -> Any:
    """x, as `lapack`; LinAlgError for inf or NaN, for which LAPACK's SVD may never return."""
    if not np.isfinite(lapack(x)).all():
        raise np.linalg.LinAlgError("an argument holds inf or NaN: there is no SVD to compute with")
    return x


def square_matrices(x: Any, name: str = "x") -> Any:
    """x, as `lapack`; LinAlgError unless it holds square matrices."""
    if np.ndim(x) < 2 or x.shape[-1] != x.shape[-2]:
        raise np.linalg.LinAlgError(
            f"{name} must hold square matrices (…, n, n), got shape {np.shape(x)}"
        )
    return lapack(x)


def check_right_side(b: Any, n: int, said_by: str = "") -> None:
    """ValueError unless b is a right-hand side of n equations, or several."""
    if np.ndim(b) == 0 or b.shape[-1 if b.ndim == 1 else -2] != n:
        raise ValueError(f"{said_by}b must be (n,) or (…, n, k) with n = {n}, got {np.shape(b)}")


def as_columns(x: Any, b_shape: tuple) -> Any:
    """A right-hand side or solution for b of this shape as matrices; vectors become one column."""
    return x[..., None] if len(b_shape) == 1 else x


def scipy_function(name: str, x: Any) -> Callable:
    """The function of scipy.linalg (cupyx.scipy.linalg for an array on a GPU)."""
    module = "scipy.linalg" if array_module(x) is np else "cupyx.scipy.linalg"
    try:
        function = getattr(importlib.import_module(module), name, None)
        if function is None:
            raise DeviceError(f"CuPy has no {name}; bring the matrices to the host: x.to('cpu')")
        return _one_by_one(function) if module.startswith("cupyx") else function
    except ImportError:
        raise ImportError(
            f"{name} comes from {module}, which is not installed: "
            "pip install '/path/to/the/checkout[full]'"
        ) from None


def _one_by_one(function: Callable) -> Callable:
    """CuPy's functions of one matrix, on each matrix of a stack."""

    def on_stack(x: Any, *others: Any, **options: Any) -> Any:
        if x.ndim == 2:
            return function(x, *others, **options)
        ys = [function(a, *others, **options) for a in x.reshape((-1, *x.shape[-2:]))]
        if not isinstance(ys[0], tuple):
            return np.stack(ys).reshape((*x.shape[:-2], *ys[0].shape))
        parts = zip(*ys, strict=True)
        return tuple(np.stack(part).reshape((*x.shape[:-2], *part[0].shape)) for part in parts)

    return on_stack


def on_stacks(function: Callable, *arrays: Any) -> Any:
    """SciPy's function of one matrix of each stack, on all of them; leading axes broadcast."""
    if all(x.ndim == 2 for x in arrays):
        return function(*arrays)
    lead = np.broadcast_shapes(*[x.shape[:-2] for x in arrays])
    stacks = [np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in arrays]
    ys = [function(*[x[i] for x in stacks]) for i in np.ndindex(*lead)]
    if not ys:  # no matrices: those of ones tell the shape and dtype of the results
        y = function(*[np.eye(*x.shape[-2:], dtype=x.dtype) for x in stacks])
        return np.empty((*lead, *y.shape), y.dtype)
    return np.stack(ys).reshape((*lead, *ys[0].shape))


def equal_stacks(a: Any, b: Any) -> tuple[Any, Any]:
    """a (…, n, n) and b (…, n, k) with the same leading axes, which CuPy does not broadcast."""
    if array_module(a) is np or a.shape[:-2] == b.shape[:-2]:
        return a, b
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(x, (*stack, *x.shape[-2:])) for x in (a, b))
    return a, b


def adjoint(x: Any) -> Any:
    """xᴴ, the conjugate transpose of each matrix."""
    return x.conj().swapaxes(-1, -2)


def hermitian_part(x: Any) -> Any:
    """(x + xᴴ)/2: the form of a derivative by a Hermitian matrix, whichever triangle was read."""
    return (x + adjoint(x)) * 0.5


def triangle(x: Any, lower: bool, k: int = 0) -> Any:
    """The lower or upper triangle, |k| diagonals away from the middle, zeros elsewhere."""
    return ops.tril(x, k=-k) if lower else ops.triu(x, k=k)


def hermitian_of_triangle(x: Any, lower: bool) -> Any:
    """x's strict triangle, its adjoint on the other side, the real part of its diagonal."""
    strict = triangle(x, lower, 1)
    return strict + adjoint(strict) + ops.diag_embed(diagonal_of(x).real)


@primitive
def hermitian_from(x, lower=True):
    """The Hermitian matrix of which x (…, n, n) holds a triangle ;  gx = (g + gᴴ)/2

    The other triangle, and the imaginary part of the diagonal, are never read. The gradient is
    Hermitian nevertheless: that of a function of Hermitian matrices, as for `eigh` and `cholesky`.
    """
    return hermitian_of_triangle(square_matrices(x), lower)


@hermitian_from.vjp("x")
def hermitian_from_dx(g):
    return hermitian_part(g)


def diagonal_of(x: Any) -> Any:
    """The diagonal of each matrix, as a last axis."""
    return ops.diagonal(x, axis1=-2, axis2=-1)


@primitive(differentiable=False)
def identity_like(x):
    """Identity matrices in the shape of x (…, n, n), on its device. No gradient."""
    return np.zeros_like(x) + array_module(x).eye(x.shape[-1], dtype=x.dtype)


def reciprocal(x: Any, zero: Any) -> Any:
    """1/x, and 0 where `zero` holds; there the derivative is 0 as well."""
    return np.where(zero, 0, 1 / np.where(zero, 1, x))


def rounding_of(values: Any) -> Any:
    """How far LAPACK's eigenvalues or singular values (…, n) may be off: (…, 1)."""
    eps = float(np.finfo(values.dtype).eps)
    return 4 * eps * np.sum(np.abs(values), axis=-1, keepdims=True)


def reciprocal_gaps(values: Any) -> Any:
    """F_ij = 1/(v_j − v_i), and 0 where the two are equal to rounding, and so on the diagonal."""
    gaps = values[..., None, :] - values[..., :, None]
    return reciprocal(gaps, np.abs(gaps) <= rounding_of(values)[..., None])


# -- vmap: the hidden batch axis is one more axis that counts matrices -------------------------


def stack_batch(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """One stack of matrices."""
    needs_axes(op, xs, batched, 2)
    return op(*xs, **params)


def equation_batch(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """Matrices and right-hand sides; a vector on the right becomes a matrix of one column."""
    needs_axes(op, xs, batched, 2, 1)
    a, b = xs
    vector = b.ndim - batched[1] == 1
    if vector:
        b = b[..., None]
    y = op(*align([a, b], batched), **params)
    return y[..., 0] if vector else y


for _op in (hermitian_from, identity_like):
    _op.batch(stack_batch)
