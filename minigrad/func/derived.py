"""Jacobians, Hessians and their products: transforms made of vjp, jvp and vmap."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..core.create import as_tensor
from ..core.errors import TransformError
from ..core.registry import op as ops
from ..core.tensor import Tensor, raw
from .batching import vmap
from .forward import jvp
from .reverse import grad, vjp

__all__ = ["hessian", "hvp", "jacfwd", "jacobian", "jacrev"]


def jacrev(fn: Callable, argnums: int = 0, chunk_size: int | None = None) -> Callable:
    """(*args) -> J of shape y.shape + x.shape, by one vjp for each element of y, batched.

    chunk_size bounds how many rows are computed at once, and so the memory.
    """

    def transformed(*args: Any) -> Tensor:
        x = as_tensor(args[argnums])
        y, pull = vjp(lambda x: fn(*args[:argnums], x, *args[argnums + 1 :]), x)
        if not isinstance(y, Tensor):
            raise TransformError("jacrev: the function must return one tensor")
        rows = _mapped(lambda g: pull(g)[0], _basis(y), chunk_size)
        return ops.reshape(rows, shape=(*y.shape, *x.shape))

    return transformed


def jacfwd(fn: Callable, argnums: int = 0, chunk_size: int | None = None) -> Callable:
    """(*args) -> J of shape y.shape + x.shape, by one jvp for each element of x, batched."""

    def transformed(*args: Any) -> Tensor:
        x = as_tensor(args[argnums])

        def column(t: Any) -> Any:
            return jvp(lambda x: fn(*args[:argnums], x, *args[argnums + 1 :]), (x,), (t,))[1]

        columns = _mapped(column, _basis(x), chunk_size)
        y_shape = columns.shape[1:]
        columns = ops.moveaxis(columns, source=0, destination=-1)
        return ops.reshape(columns, shape=(*y_shape, *x.shape))

    return transformed


jacobian = jacrev


def hessian(fn: Callable, argnums: int = 0, chunk_size: int | None = None) -> Callable:
    """(*args) -> the matrix of second derivatives of a scalar function, forward over reverse."""
    return jacfwd(grad(fn, argnums), argnums, chunk_size)


def hvp(fn: Callable, primals: tuple, tangents: tuple) -> Any:
    """The Hessian of a scalar function of one tensor times a tangent, without the Hessian."""
    if len(primals) != 1 or len(tangents) != 1:
        raise TransformError("hvp takes one primal and one tangent, each in a tuple")
    return jvp(grad(fn), primals, tangents)[1]


def _basis(x: Tensor) -> Any:
    """The unit arrays of x's shape, one after the other along a first axis."""
    xp = array_module(raw(x))
    return xp.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape)


def _mapped(fn: Callable, basis: np.ndarray, chunk_size: int | None) -> Any:
    """vmap(fn) over the basis, at most chunk_size elements at a time."""
    if chunk_size is not None and chunk_size < 1:
        raise TransformError(f"chunk_size must be at least 1, got {chunk_size}")
    size = chunk_size or max(len(basis), 1)
    parts = [vmap(fn)(basis[i : i + size]) for i in range(0, max(len(basis), 1), size)]
    return parts[0] if len(parts) == 1 else ops.concatenate(parts)
