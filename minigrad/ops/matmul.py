"""Products of matrices and vectors. All arithmetic ends in `product`, that is in BLAS.

`matmul` and `linear` are primitives; the others are compositions of them with views.
"""

from contextlib import nullcontext
from math import prod
from typing import Any

import numpy as np

from ..backends import blas
from ..backends.blocks import take_steps
from ..backends.cuts import BUFFER, small_buffer
from ..backends.dtypes import accumulator, common_dtype
from ..engine.primitive import multilinear, primitive
from ..engine.registry import op
from ..tensor_api.composite import composite
from .axes import axis_of, both_arrays, sum_to
from .batching import needs_axes
from .row_sums import folds, on_each_row, sum_of_rows
from .small_products import are_many_outer, blocks_for, outer_products, steps_in_blocks

_ndarray = np.ndarray


def product(a: Any, b: Any) -> Any:
    """np.matmul on plain arrays, with 16-bit floats multiplied in float32.

    NumPy has no BLAS kernel for float16 (300 times slower than float32) and none for bfloat16.
    """
    if a.dtype.itemsize != 2 and b.dtype.itemsize != 2:
        return outer_products(a, b) if are_many_outer(a, b) else np.matmul(a, b)
    dtype = common_dtype(a, b)
    wide = accumulator(dtype) or dtype
    return np.matmul(a.astype(wide), b.astype(wide)).astype(dtype)


def _rows(x):
    """x (..., k) as one matrix (rows, k)."""
    return x if x.ndim == 2 else x.reshape((prod(x.shape[:-1]), x.shape[-1]))


@multilinear(numpy=np.matmul)
def matmul(a, b):
    """y = a b ;  ga = g bᴴ, gb = aᴴ g, each summed over the batch axes its input was broadcast on

    a (..., n, k), b (..., k, m) -> y (..., n, m); leading axes broadcast. A 1-d operand is a row
    on the left, a column on the right, and its axis of length 1 is dropped from y. ValueError
    where the inner lengths differ or an operand is a scalar.
    """
    a_ndim, b_ndim = getattr(a, "ndim", 0), getattr(b, "ndim", 0)
    try:
        # by far the most frequent: asked first
        if a_ndim == 2 == b_ndim and a.itemsize != 2 != b.itemsize:
            return _dot(a, b) if type(a) is _ndarray is type(b) else _traced_dot(a, b)
        if not (a_ndim and b_ndim):
            raise ValueError("an operand is 0-d; matmul multiplies matrices, use a * b for scalars")
        if a_ndim > 2 == b_ndim and a.flags.c_contiguous:  # one product, not one per batch entry
            return product(_rows(a), b).reshape((*a.shape[:-1], b.shape[-1]))
        return product(a, b)
    except ValueError:
        if not (a_ndim and b_ndim) or a.shape[-1] == b.shape[-2 if b_ndim > 1 else 0]:
            raise
        raise ValueError(_inner_lengths(a.shape, b.shape)) from None


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
    if len(a_shape) == 2 == b.ndim:
        return _times(g, b.conj().T)
    if len(a_shape) == 2 and b.ndim == 1 and _are_numpys(g, b):
        return _outer(g, b.conj())
    g = _with_unit_axes(g, len(a_shape), b.ndim)
    b = b.conj() if b.ndim > 1 else b.conj().reshape((-1, 1))
    if len(a_shape) <= 2 < b.ndim:  # one a for the whole batch: contract batch and columns at once
        axes = (*range(b.ndim - 2), b.ndim - 1)
        return tensordot(g, b, (axes, axes)).reshape(a_shape)
    return sum_to(matmul(g, b.swapaxes(-1, -2)), a_shape)


@matmul.vjp("b")
def matmul_db(g, a, b_shape):
    if a.ndim == 2 == len(b_shape):
        return _times(a.conj().T, g)
    if a.ndim == 1 and len(b_shape) == 2 and _are_numpys(g, a):
        return _outer(a.conj(), g)
    g = _with_unit_axes(g, a.ndim, len(b_shape))
    a = a.conj() if a.ndim > 1 else a.conj().reshape((1, -1))
    if len(b_shape) <= 2:  # one b for the whole batch: batch and rows are one long axis
        return matmul(_rows(a).T, _rows(g)).reshape(b_shape)
    return sum_to(matmul(a.swapaxes(-1, -2), g), b_shape)


def _are_numpys(a, b):
    """Whether both are NumPy arrays, or the traced arrays that replace them (tape_trace.py)."""
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray)


def _outer(a, b):
    """a bᵀ of two vectors of NumPy's: BLAS would pack them as the matrices of a product first."""
    with small_buffer() if len(b) > BUFFER else nullcontext():
        return a[:, None] * b


def _times(a, b):
    """a b for matrices; on NumPy's arrays its own product, except for 16-bit floats.

    `dot` makes the same BLAS call as `@`, but is not a ufunc, which would first look up the loop
    for these dtypes.
    """
    plain = type(a) is _ndarray is type(b) and a.itemsize != 2 != b.itemsize
    return _dot(a, b) if plain else matmul(a, b)


def _rows_times(x, a):
    """x a for x (..., n) and a matrix a: one product of matrices, where the rows of x are one."""
    if x.ndim == 2:
        return _times(x, a)
    if x.ndim == 1 and x.dtype.itemsize != 2 != a.dtype.itemsize:
        plain = type(x) is np.ndarray is type(a)
        if plain or (_are_numpys(x, a) and _differ_by_dot(x, a)):
            return x.dot(a)
    if x.ndim > 2 and isinstance(x, np.ndarray) and x.flags.c_contiguous:
        return _times(_rows(x), a).reshape((*x.shape[:-1], a.shape[1]))
    return matmul(x, a)


LARGE_RESULT = 1 << 16  # elements from which the zeros cost more than a ufunc's way to its loop


def _dot(a, b):
    """a b for NumPy's matrices, on one thread of BLAS if they are of middling size.

    `dot` fills its result with zeros before BLAS does.
    """
    multiplications = a.size * b.shape[1]
    if multiplications <= blas.FEW:
        return a.dot(b)
    if a.shape[1] == 1:
        return outer_products(a, b)
    if multiplications < blas.MIDDLE:
        return _middling(a, b)
    return a.dot(b) if len(a) * b.shape[1] < LARGE_RESULT else np.matmul(a, b)


def _traced_dot(a, b):
    """a b for matrices on a GPU, or for traced arrays (tape_trace.py).

    Of these a middling product is one call of the op, as it writes into place: a replay that made
    np.matmul of it would round otherwise. So would one of what `_dot` leaves to `dot`, where
    np.matmul multiplies by itself, not by BLAS: complex numbers where a has one column, and arrays
    with gaps or reversed. Of others both give the same bits, and np.matmul writes into a buffer of
    the tape.
    """
    multiplications = a.size * b.shape[1]
    if not isinstance(a, np.ndarray):
        return np.matmul(a, b)
    if blas.FEW < multiplications < blas.MIDDLE:
        return _middling(a, b)
    small = multiplications <= blas.FEW or len(a) * b.shape[1] < LARGE_RESULT
    return a.dot(b) if small and _differ_by_dot(a, b) else np.matmul(a, b)


def _differ_by_dot(a, b):
    """Whether a.dot(b) and np.matmul(a, b) may round apart."""
    dense = [x.flags.c_contiguous or x.flags.f_contiguous for x in (a, b)]
    return "c" in (a.dtype.kind, b.dtype.kind) or not all(dense)


def _middling(a, b):
    """a b on one thread: in blocks where BLAS has kernels for these, else by one thread of it."""
    y = np.empty((len(a), b.shape[1]), a.dtype if a.dtype == b.dtype else np.result_type(a, b))
    blocks = blocks_for(a, b) if a.dtype == b.dtype else None
    if blocks is not None:
        take_steps(steps_in_blocks(a, b, y, *blocks))
    else:
        with blas.one_thread():
            np.matmul(a, b, y)
    return y


def _with_unit_axes(g, a_ndim, b_ndim):
    """g (..., n, m), with the axes of length 1 that a 1-d operand dropped put back."""
    if b_ndim == 1:
        g = g.reshape((*g.shape, 1))
    if a_ndim == 1:
        g = g.reshape((*g.shape[:-1], 1, g.shape[-1]))
    return g


# Multiplications from which BLAS packs its factors, and then the transposed weight slowly.
LEAST_FEW = 1 << 18


def _has_few_rows(x, w):
    """Whether BLAS takes less time for w xᵀ than for x wᵀ.

    OpenBLAS takes up to half the time the other way round, and longer with fewer outputs than rows;
    in float64 there is little difference.
    """
    if type(x) is not np.ndarray or type(w) is not np.ndarray:
        return False
    if x.dtype.char != "f" or w.dtype.char != "f":
        return False
    rows = x.size // x.shape[-1]
    return 1 < rows <= min(len(w), 64 if x.shape[-1] >= 512 else 32)


def _of_few_rows(x, w):
    """x wᵀ, as the transpose of w xᵀ."""
    y = np.empty((*x.shape[:-1], len(w)), x.dtype)
    _rows(y)[...] = _dot(w, _rows(x).T).T
    return y


@primitive(arrays="x w b")
def linear(x, w, b=None):
    """y = x wᵀ + b ;  gx = g w̄, gw = gᵀ x̄, gb = Σ g over all axes but the last

    x (..., n), w (m, n), b (m,) or None -> y (..., m): PyTorch's layout of the weight. The bias is
    added in place, so that no second array of y's size is made.
    """
    if getattr(w, "ndim", 0) != 2 or not getattr(x, "ndim", 0) or x.shape[-1] != w.shape[1]:
        raise ValueError(_inputs_of_layer(x, w))
    if b is not None and b.shape != w.shape[:1]:
        raise ValueError(f"b must have shape {w.shape[:1]}, one entry for each row of w")
    if x.size * len(w) >= LEAST_FEW and _has_few_rows(x, w):
        y = _of_few_rows(x, w)
    else:
        y = _rows_times(x, w.T)
    if b is None:
        return y
    if y.dtype.itemsize == 2 or (b.dtype != y.dtype and common_dtype(y, b) != y.dtype):
        return (y + b).astype(common_dtype(y, b), copy=False)
    if y.flags.c_contiguous:
        on_each_row(np.add, _rows(y), b)
    else:  # as x with its axes in another order gives it: there _rows is a copy
        np.add(y, b, y)
    return y


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
    return _rows_times(g, w.conj())


@linear.vjp("w")
def linear_dw(g, x):
    return _times(_rows(g).T, _rows(x.conj()))


@linear.vjp("b")
def linear_db(g):
    if type(g) is np.ndarray and g.dtype.itemsize != 2:  # as the op, without its questions
        rows = _rows(g)
        return sum_of_rows(rows) if folds(rows) else np.add.reduce(rows)
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
