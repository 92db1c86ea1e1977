"""Views: the same elements in another shape. The result shares memory with x."""

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from ...engine.primitive import linear
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like, axes_of, sum_to
from ..batching import behind, in_examples

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "expand_dims",
    "matrix_transpose", "moveaxis", "permute", "ravel", "reshape", "squeeze", "swapaxes",
    "transpose",
]  # fmt: skip


@linear(arrays="x", numpy=np.reshape, view=True)
def reshape(x, shape, order="C"):
    """The elements of x, in row-major order, in another shape (one entry may be −1).

    gx = g in x's shape. order="F" reads and writes column-major, first index fastest.
    """
    if order not in ("C", "F"):
        why = " depends on the memory layout" if order in ("A", "K", "a", "k") else ""
        raise ValueError(f"order={order!r}{why}; use order='C' or 'F'")
    return x.reshape(shape, order=order)  # NumPy's function would ask a GPU's array for its own


@reshape.vjp("x")
def reshape_dx(g, x_shape, order):
    return op.reshape(g, shape=x_shape, order=order)


@reshape.batch
def reshape_batch(op, xs, batched, params):
    (x,), shape = xs, params["shape"]
    shape = tuple(shape) if np.iterable(shape) else (shape,)
    if params["order"] == "C":
        return op(x, shape=in_examples(x, shape))
    # column-major is row-major with the axes of each example reversed, before and after
    y = op(_examples_reversed(x), shape=in_examples(x, shape[::-1]))
    return _examples_reversed(y)


def _examples_reversed(x: Any) -> Any:
    return np.transpose(x, (0, *range(x.ndim - 1, 0, -1)))


@composite(numpy=np.ravel)
def ravel(x: Any, order: str = "C") -> Any:
    """x as one axis: reshape(x, −1)."""
    return op.reshape(x, shape=-1, order=order)


@linear(numpy=np.transpose, view=True)
def transpose(x, axes=None):
    """Axes permuted: y.shape[i] = x.shape[axes[i]]; reversed where axes is None.

    gx = g with the inverse permutation.
    """
    return x.transpose(axes)


@transpose.vjp("x")
def transpose_dx(g, axes, x_shape):
    if axes is None:
        return op.transpose(g)
    inverse = np.argsort(axes_of(axes, len(x_shape)))
    return op.transpose(g, axes=tuple(inverse.tolist()))


@composite
def permute(x: Any, *axes: Any) -> Any:
    """transpose with the axes given one by one, or as one tuple."""
    return op.transpose(x, axes=axes[0] if len(axes) == 1 else axes)


@linear(arrays="x", numpy=np.swapaxes, view=True)
def swapaxes(x, axis1, axis2):
    """Two axes exchanged; gx = g with the same two exchanged."""
    return x.swapaxes(axis1, axis2)


@swapaxes.vjp("x")
def swapaxes_dx(g, axis1, axis2):
    return op.swapaxes(g, axis1=axis1, axis2=axis2)


@composite(numpy=(np.matrix_transpose, np.linalg.matrix_transpose))
def matrix_transpose(x: Any) -> Any:
    """The last two axes exchanged: each matrix of a stack transposed."""
    return op.swapaxes(x, axis1=-1, axis2=-2)


@composite(numpy=np.moveaxis)
def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    """Axes moved from `source` to `destination`; the others keep their order."""
    x = array_like(x)
    source = normalize_axis_tuple(source, x.ndim, "source")
    destination = normalize_axis_tuple(destination, x.ndim, "destination")
    if len(source) != len(destination):
        raise ValueError(f"moveaxis: {len(source)} source axes, {len(destination)} destinations")
    order = [i for i in range(x.ndim) if i not in source]
    for place, axis in sorted(zip(destination, source)):
        order.insert(place, axis)
    return op.transpose(x, axes=tuple(order))


@linear(numpy=np.squeeze, view=True)
def squeeze(x, axis=None):
    """Axes of length 1 removed: all of them, or those named. gx = g in x's shape."""
    return np.squeeze(x, axis)


@squeeze.vjp("x")
def squeeze_dx(g, x_shape):
    return g.reshape(x_shape)


@squeeze.batch
def squeeze_batch(op, xs, batched, params):
    (x,), axis = xs, params["axis"]
    if axis is None:
        return op(x, axis=tuple([i for i, n in enumerate(x.shape) if i and n == 1]))
    return op(x, axis=behind(axis, x.ndim - 1))


@linear(arrays="x", numpy=np.expand_dims, view=True)
def expand_dims(x, axis):
    """Axes of length 1 inserted at these positions of the result. gx = g in x's shape."""
    if type(axis) is int and 0 <= axis <= x.ndim:  # what np.expand_dims does in the end
        return x.reshape((*x.shape[:axis], 1, *x.shape[axis:]))
    return np.expand_dims(x, axis)


@expand_dims.vjp("x")
def expand_dims_dx(g, x_shape):
    return g.reshape(x_shape)


@linear(arrays="x", numpy=np.broadcast_to, view=True)
def broadcast_to(x, shape):
    """x repeated, without a copy, up to `shape` (a read-only view).

    gx = g summed over the axes along which x was repeated.
    """
    return np.broadcast_to(x, shape)


@broadcast_to.vjp("x")
def broadcast_to_dx(g, x_shape):
    return sum_to(g, x_shape)


@composite(numpy=np.broadcast_arrays)
def broadcast_arrays(*arrays: Any) -> tuple:
    """Each array as a view of the shape to which all of them broadcast."""
    arrays = tuple([array_like(x) for x in arrays])
    shape = np.broadcast_shapes(*[x.shape for x in arrays])
    return tuple([op.broadcast_to(x, shape=shape) for x in arrays])


@composite(numpy=np.atleast_1d)
def atleast_1d(*arrays: Any) -> Any:
    """A 0-d array as (1,); others as they are. Several arrays give a tuple."""
    return _each(arrays, lambda shape: shape if len(shape) >= 1 else (1,))


@composite(numpy=np.atleast_2d)
def atleast_2d(*arrays: Any) -> Any:
    """Axes of length 1 put in front up to two: (n,) becomes (1, n)."""
    return _each(arrays, lambda shape: shape if len(shape) >= 2 else (1, *(shape or (1,))))


@composite(numpy=np.atleast_3d)
def atleast_3d(*arrays: Any) -> Any:
    """Up to three axes: (n,) becomes (1, n, 1) and (m, n) becomes (m, n, 1)."""
    fewer = {0: lambda shape: (1, 1, 1), 1: lambda shape: (1, *shape, 1), 2: lambda s: (*s, 1)}
    return _each(arrays, lambda shape: fewer.get(len(shape), tuple)(shape))


def _each(arrays: tuple, change: Any) -> Any:
    """Each array under the shape `change(its shape)`; a view, also where they agree."""
    results = tuple([op.reshape(x, shape=change(np.shape(x))) for x in map(array_like, arrays)])
    return results[0] if len(results) == 1 else results
