"""Products of matrices and vectors.

`matmul` and `linear` are primitives; the others are compositions of them with views.
"""

from math import prod
from typing import Any

import numpy as np

from ..backends.dtypes import accumulator, common_dtype
from ..engine.primitive import multilinear, primitive
from ..engine.registry import op
from ..tensor_api.composite import composite
from .axes import axis_of, both_arrays, sum_to, widen
from .batching import needs_axes


def product(a: Any, b: Any) -> Any:
    """np.matmul on plain arrays, with 16-bit floats multiplied in float32.

    NumPy has no BLAS kernel for float16 (300 times slower than float32) and none for bfloat16.
    """
    if a.dtype.itemsize != 2 and b.dtype.itemsize != 2:
        return np.matmul(a, b)
    dtype = common_dtype(a, b)
    wide = accumulator(dtype) or dtype
    return np.matmul(a.astype(wide), b.astype(wide)).astype(dtype)


@multilinear(numpy=np.matmul)
def matmul(a, b):
    """y = a b ;  ga = g bᴴ, gb = aᴴ g, each summed over the batch axes its input was broadcast on

    a (..., n, k), b (..., k, m) -> y (..., n, m); leading axes broadcast. A 1-d operand is a row
    on the left, a column on the right, and its axis of length 1 is dropped from y. ValueError
    where the inner lengths differ or an operand is a scalar.
    """
    if not (np.ndim(a) and np.ndim(b)):
        raise ValueError("an operand is 0-d; matmul multiplies matrices, use a * b for scalars")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ValueError(_inner_lengths(a.shape, b.shape))
    return product(a, b)


def _inner_lengths(a: tuple, b: tuple) -> str:
    """The error for shapes whose inner lengths differ."""
    k, n = a[-1], b[-2 if len(b) > 1 else 0]
    place = "last axis but one" if len(b) > 1 else "one axis"
    fits = "; b.T would fit" if len(b) == 2 and b[1] == k else ""
    return (
        f"the last axis of a is {k} long and the {place} of b {n}; a product sums over both at "
        f"once, so they must agree: (..., n, k) @ (..., k, m){fits}"
    )


@matmul.vjp("a")
def matmul_da(g, b, a_shape):
    g, b = with_unit_axes(g, len(a_shape), b.ndim), b.conj()
    b = b if b.ndim > 1 else b.reshape((-1, 1))
    return _summed(g, b.swapaxes(-1, -2), a_shape)


@matmul.vjp("b")
def matmul_db(g, a, b_shape):
    g, a = with_unit_axes(g, a.ndim, len(b_shape)), a.conj()
    a = a if a.ndim > 1 else a.reshape((1, -1))
    matrix = b_shape if len(b_shape) > 1 else (*b_shape, 1)
    return _summed(a.swapaxes(-1, -2), g, matrix).reshape(b_shape)


def _summed(a, b, shape):
    """a b, summed to a shape: of 16-bit floats in float32, if there is a sum."""
    if np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) != shape[:-2]:
        a, b = widen(a), widen(b)
    return sum_to(matmul(a, b), shape)


def with_unit_axes(g, a_ndim, b_ndim):
    """g (..., n, m), with the axes of length 1 that a 1-d operand dropped put back."""
    if b_ndim == 1:
        g = g.reshape((*g.shape, 1))
    if a_ndim == 1:
        g = g.reshape((*g.shape[:-1], 1, g.shape[-1]))
    return g


def as_rows(x):
    """x (..., k) as one matrix (rows, k)."""
    return x if x.ndim == 2 else x.reshape((prod(x.shape[:-1]), x.shape[-1]))


@primitive(arrays="x w b")
def linear(x, w, b=None):
    """y = x wᵀ + b ;  gx = g w̄, gw = gᵀ x̄, gb = Σ g over all axes but the last

    x (..., n), w (m, n), b (m,) or None -> y (..., m): PyTorch's layout of the weight.
    """
    check_layer(x, w, b)
    y = product(x, w.T)
    return y if b is None else (y + b).astype(common_dtype(y, b), copy=False)


def check_layer(x: Any, w: Any, b: Any) -> None:
    """ValueError unless the shapes fit each other."""
    if getattr(w, "ndim", 0) != 2 or not getattr(x, "ndim", 0) or x.shape[-1] != w.shape[1]:
        raise ValueError(_inputs_of_layer(x, w))
    if b is not None and b.shape != w.shape[:1]:
        raise ValueError(f"b must have shape {w.shape[:1]}, one entry for each row of w")


def _inputs_of_layer(x, w):
    """The error for an x that w does not take."""
    wanted = "x must be (..., n) and w (m, n) with the same n"
    if getattr(w, "ndim", 0) != 2 or not getattr(x, "ndim", 0):
        return wanted
    n, row = w.shape[1], prod(x.shape[1:])
    flat = f"; nn.Flatten(), or x.reshape({len(x)}, {n}), would fit" if row == n else ""
    said = f"the last axis of x is {x.shape[-1]} long, and w (outputs, inputs) takes {n}"
    return f"{said}; {wanted}{flat}"


@linear.vjp("x")
def linear_dx(g, w):
    return matmul(g, w.conj())


@linear.vjp("w")
def linear_dw(g, x):
    return matmul(as_rows(g).T, as_rows(x.conj()))


@linear.vjp("b")
def linear_db(g):
    return op.sum(g, axis=tuple(range(g.ndim - 1)))


@linear.jvp
def linear_jvp(x, w, y, x_t, w_t, b_t):
    t = 0 if b_t is None else op.broadcast_to(b_t, shape=y.shape)
    t = t if x_t is None else t + linear(x_t, w)
    return t if w_t is None else t + linear(x, w_t)


@linear.batch
def linear_batch(op_, xs, batched, params):
    needs_axes(op_, xs, batched, 1, 2)
    x, w, *b = xs
    if not any(batched[1:]):
        return linear(*xs)
    size = next(a.shape[0] for a, is_batch in zip(xs, batched, strict=True) if is_batch)
    rows = op.broadcast_to(x, shape=(size, *x.shape)) if not batched[0] else x
    flat = op.reshape(rows, shape=(size, prod(rows.shape[1:-1]), rows.shape[-1]))
    y = matmul(flat, op.swapaxes(w, axis1=-1, axis2=-2))
    if b and b[0] is not None:
        y = y + (op.expand_dims(b[0], axis=1) if batched[2] else b[0])
    return op.reshape(y, shape=(*rows.shape[:-1], y.shape[-1]))


# -- compositions ----------------------------------------------------------------------------


@composite(numpy=np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """y = Σ a b over pairs of axes: the last `axes` of a with the first of b, or two axis lists.

    The free axes of a come first in y, then those of b. ValueError where a pair's lengths differ.
    """
    a, b = both_arrays(a, b)
    over_a, over_b = _contracted(a, b, axes)
    inner = [a.shape[axis] for axis in over_a]
    if inner != [b.shape[axis] for axis in over_b]:
        raise ValueError(
            f"tensordot: the contracted axes differ in length: a {a.shape} over {over_a}, "
            f"b {b.shape} over {over_b}"
        )
    free_a = [axis for axis in range(a.ndim) if axis not in over_a]
    free_b = [axis for axis in range(b.ndim) if axis not in over_b]
    rows, columns = [a.shape[axis] for axis in free_a], [b.shape[axis] for axis in free_b]
    left = a.transpose((*free_a, *over_a)).reshape((prod(rows), prod(inner)))
    right = b.transpose((*over_b, *free_b)).reshape((prod(inner), prod(columns)))
    return matmul(left, right).reshape((*rows, *columns))


def _contracted(a: Any, b: Any, axes: Any) -> tuple[tuple, tuple]:
    """The axes of a and of b that are summed over, pair by pair."""
    if isinstance(axes, list | tuple) or np.ndim(axes):
        over = [(x,) if np.ndim(x) == 0 else tuple(x) for x in axes]
    elif axes <= min(a.ndim, b.ndim):
        over = [range(a.ndim - axes, a.ndim), range(axes)]
    else:
        raise ValueError(f"tensordot: axes={axes} are more than a {a.shape} or b {b.shape} has")
    pairs = [[axis_of(i, x.ndim) for i in each] for each, x in zip(over, (a, b), strict=False)]
    if len(over) != 2 or len(pairs[0]) != len(pairs[1]) or any(len({*p}) < len(p) for p in pairs):
        raise ValueError(
            f"tensordot: axes={axes!r} must be a number, or two lists, of as many axes of a as of "
            "b and none of them twice"
        )
    return tuple(pairs[0]), tuple(pairs[1])


@composite(numpy=np.dot)
def dot(a: Any, b: Any) -> Any:
    """y = Σ_k a[..., k] b[..., k, :], NumPy's dot: a product for scalars, matmul up to 2-d."""
    a, b = both_arrays(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    if a.ndim <= 2 and b.ndim <= 2:
        return matmul(a, b)
    return tensordot(a, b, (-1, max(b.ndim - 2, 0)))


@composite(numpy=np.inner)
def inner(a: Any, b: Any) -> Any:
    """y = Σ_k a[..., k] b[..., k]; no conjugate."""
    a, b = both_arrays(a, b)
    return a * b if a.ndim == 0 or b.ndim == 0 else tensordot(a, b, (-1, -1))


@composite(numpy=np.outer)
def outer(a: Any, b: Any) -> Any:
    """y[i, j] = a[i] b[j], a and b flattened."""
    a, b = both_arrays(a, b)
    return a.reshape((-1, 1)) * b.reshape((1, -1))


@composite(numpy=np.vdot)
def vdot(a: Any, b: Any) -> Any:
    """y = Σ conj(a) b, a and b flattened."""
    a, b = both_arrays(a, b)
    a = a.conj() if a.dtype.kind == "c" else a  # of bools NumPy's is int8
    return matmul(a.reshape(-1), b.reshape(-1))


@composite(numpy=np.vecdot)
def vecdot(a: Any, b: Any, axis: int = -1) -> Any:
    """y = Σ conj(a) b along one axis; the others broadcast."""
    a, b = both_arrays(a, b)
    axis_of(axis, min(a.ndim, b.ndim))  # its error names this call
    if axis != -1:
        a, b = op.moveaxis(a, axis, -1), op.moveaxis(b, axis, -1)
    row = (a.conj() if a.dtype.kind == "c" else a).reshape((*a.shape[:-1], 1, a.shape[-1]))
    y = matmul(row, b.reshape((*b.shape, 1)))
    y = y.reshape(y.shape[:-2])
    return y


@composite(numpy=np.kron)
def kron(a: Any, b: Any) -> Any:
    """y = the blocks a[i, j] b; the shorter shape gets ones in front, as in NumPy."""
    a, b = both_arrays(a, b)
    ndim = max(a.ndim, b.ndim)
    shape_a = (1,) * (ndim - a.ndim) + a.shape
    shape_b = (1,) * (ndim - b.ndim) + b.shape
    spread_a = a.reshape([n for m in shape_a for n in (m, 1)])
    spread_b = b.reshape([n for m in shape_b for n in (1, m)])
    return (spread_a * spread_b).reshape([n * m for n, m in zip(shape_a, shape_b, strict=True)])


__all__ = [
    "dot", "inner", "kron", "linear", "matmul", "outer", "tensordot", "vdot", "vecdot",
]  # fmt: skip
