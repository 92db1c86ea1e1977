"""Triangles and diagonals of matrices; stacks of matrices in the last two axes."""

import operator
from typing import Any

import numpy as np

from ...backends.device import array_module
from ...engine.primitive import linear
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like, axis_of, sum_to
from ..batching import behind, needs_axes
from ..elementwise.selection import keep

__all__ = ["diag", "diag_embed", "diagflat", "diagonal", "trace", "tril", "triu"]


def _check_triangle(x: Any) -> None:
    if not x.ndim:
        raise ValueError("a number has no triangle; x must be matrices (..., n, m), or a row")


def _below(x, k):
    """Where column − row ≤ k, for the last two axes of x."""
    n, m = x.shape[-2:] if x.ndim > 1 else x.shape * 2
    return array_module(x).tri(n, m, k, dtype=bool)


@linear(numpy=np.tril)
def tril(x, k=0):
    """x where column − row ≤ k, else 0 (selected, so inf stays out) ;  gx = tril(g, k).

    A 1-d x means a square matrix of equal rows, as in NumPy.
    """
    _check_triangle(x)
    return keep(x, _below(x, k))


@tril.vjp("x")
def tril_dx(g, k, x_shape):
    return sum_to(op.tril(g, k), x_shape)


@linear(numpy=np.triu)
def triu(x, k=0):
    """x where column − row ≥ k, else 0 ;  gx = triu(g, k)."""
    _check_triangle(x)
    return keep(x, ~_below(x, k - 1))


@triu.vjp("x")
def triu_dx(g, k, x_shape):
    return sum_to(op.triu(g, k), x_shape)


@tril.batch
@triu.batch
def triangle_batch(op, xs, batched, params):
    needs_axes(op, xs, batched, 1)
    (x,) = xs
    if x.ndim == 2:  # vectors mean matrices of equal rows
        x = np.broadcast_to(np.expand_dims(x, 1), (x.shape[0], x.shape[1], x.shape[1]))
    return op(x, **params)


@linear(numpy=np.diagonal, view=True)
def diagonal(x, offset=0, axis1=0, axis2=1):
    """The elements with column − row = offset, along a new last axis: a read-only view.

    gx = g on that diagonal of zeros.
    """
    return np.diagonal(x, offset, axis1, axis2)


@diagonal.vjp("x")
def diagonal_dx_rule(g, offset, axis1, axis2, x_shape):
    return op.diagonal_dx(g, offset=offset, axis1=axis1, axis2=axis2, shape=x_shape)


@diagonal.batch
def diagonal_batch(op, xs, batched, params):
    (x,) = xs
    axes = {name: behind(params[name], x.ndim - 1) for name in ("axis1", "axis2")}
    return op(x, **{**params, **axes})


@linear
def diagonal_dx(x, *, offset=0, axis1=0, axis2=1, shape):
    """Zeros of `shape` with x (…, n) on a diagonal: the transpose of diagonal."""
    y = np.zeros_like(x, shape=shape)
    room = np.diagonal(y, offset, axis1, axis2).shape
    if x.shape != room:
        raise ValueError(f"x has shape {x.shape}, that diagonal {room}")
    axis1, axis2 = axis_of(axis1, y.ndim), axis_of(axis2, y.ndim)
    matrices = np.moveaxis(y, (axis1, axis2), (0, 1))
    i = array_module(x).arange(x.shape[-1])
    matrices[i + max(-offset, 0), i + max(offset, 0)] = np.moveaxis(x, -1, 0)
    return y


@diagonal_dx.vjp("x")
def diagonal_dx_dx(g, offset, axis1, axis2):
    return op.diagonal(g, offset=offset, axis1=axis1, axis2=axis2)


@diagonal_dx.batch
def diagonal_dx_batch(op, xs, batched, params):
    (x,), shape = xs, params["shape"]
    axes = {name: behind(params[name], len(shape)) for name in ("axis1", "axis2")}
    return op(x, **{**params, **axes, "shape": (x.shape[0], *shape)})


@composite
def diag_embed(x: Any, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Any:
    """Matrices of zeros with the vectors x (…, n) on their diagonals: (…, n+|k|, n+|k|).

    Rows are along axis1 of the result, columns along axis2, as in diagonal, which is the way back.
    """
    x = array_like(x)
    if not x.ndim:
        raise ValueError("diag_embed: x must be vectors (…, n), got a number")
    n = x.shape[-1] + abs(operator.index(offset))
    y = op.diagonal_dx(x, offset=offset, axis1=-2, axis2=-1, shape=(*x.shape[:-1], n, n))
    if (axis1, axis2) == (-2, -1):
        return y
    return op.moveaxis(y, source=(-2, -1), destination=(axis1, axis2))


@composite(numpy=np.diag)
def diag(x: Any, k: int = 0) -> Any:
    """The diagonal of a matrix; or, of a vector, the matrix that has it as its diagonal."""
    x = array_like(x)
    if x.ndim == 1:
        return diag_embed(x, k)
    if x.ndim == 2:
        return op.diagonal(x, offset=k)
    raise ValueError(
        f"diag: needs a vector or a matrix, got shape {x.shape}; use diagonal or diag_embed for "
        "stacks of them"
    )


@composite(numpy=np.diagflat)
def diagflat(x: Any, k: int = 0) -> Any:
    """The matrix that has the elements of x, flattened, as its diagonal."""
    return diag_embed(op.reshape(x, shape=-1), k)


@composite(numpy=np.trace)
def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    """Σ of the diagonal ;  gx = g times the identity."""
    return op.sum(op.diagonal(x, offset=offset, axis1=axis1, axis2=axis2), axis=-1, dtype=dtype)
