"""The faster forms of matrix products: the BLAS call for each shape.

A look-up of variants would slow down a small product: these forms replace the references. A replay
of a tape has the bits of an eager call: a traced product therefore makes the BLAS calls with the
same bits.
"""

from contextlib import nullcontext
from typing import Any

import numpy as np

from ...backends import blas
from ...backends.blocks import take_steps
from ...backends.cuts import BUFFER, small_buffer
from ...backends.dtypes import common_dtype
from ...custom.rule_variants import vjp_variant
from ...custom.variants import ANY
from ...engine.registry import op
from ...ops.matmul import as_rows, check_layer, product, tensordot, with_unit_axes
from ...ops.matmul import matmul_da as own_da
from ...ops.matmul import matmul_db as own_db
from ..forms import Forms
from ..row_sums import folds, on_each_row, sum_of_rows
from ..small_products import are_many_outer, blocks_for, outer_products, steps_in_blocks

_ndarray = np.ndarray
form = Forms()


# -- matmul ----------------------------------------------------------------------------------------


@form(op.matmul, "by shape", on=ANY)
def matmul(a: Any, b: Any) -> Any:
    a_ndim, b_ndim = getattr(a, "ndim", 0), getattr(b, "ndim", 0)
    try:
        # by far the most frequent case: tested first
        if a_ndim == 2 == b_ndim and a.itemsize != 2 != b.itemsize:
            return _dot(a, b) if type(a) is _ndarray is type(b) else _traced_dot(a, b)
        if not (a_ndim and b_ndim):
            return op.matmul.reference(a, b)
        if a_ndim > 2 == b_ndim and a.flags.c_contiguous:  # one product, not one per batch entry
            return _product(as_rows(a), b).reshape((*a.shape[:-1], b.shape[-1]))
        return _product(a, b)
    except ValueError:
        return op.matmul.reference(a, b)  # its error explains the mismatch


def _product(a: Any, b: Any) -> Any:
    """The table's product; NumPy's loop for many outer products."""
    if a.dtype.itemsize != 2 and b.dtype.itemsize != 2:
        return outer_products(a, b) if are_many_outer(a, b) else np.matmul(a, b)
    return product(a, b)


LARGE_RESULT = 1 << 16  # elements; from here on filling zeros costs more than a ufunc's look-up


def _dot(a, b):
    """a b for NumPy matrices, on one thread of BLAS if they are of medium size.

    `dot` fills its result with zeros before it calls BLAS.
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

    For traced arrays a product of medium size is one call of the op, which writes in place: a
    replay by np.matmul would round differently. The same holds for products that `_dot` leaves to
    `dot`, and that np.matmul computes without BLAS: complex numbers where a has one column, and
    arrays with gaps or reversed axes. For all other arrays both give the same bits, and np.matmul
    writes into a buffer of the tape.
    """
    multiplications = a.size * b.shape[1]
    if not isinstance(a, np.ndarray):
        return np.matmul(a, b)
    if blas.FEW < multiplications < blas.MIDDLE:
        return _middling(a, b)
    small = multiplications <= blas.FEW or len(a) * b.shape[1] < LARGE_RESULT
    return a.dot(b) if small and _differ_by_dot(a, b) else np.matmul(a, b)


def _differ_by_dot(a, b):
    """Whether a.dot(b) and np.matmul(a, b) may round differently."""
    dense = [x.flags.c_contiguous or x.flags.f_contiguous for x in (a, b)]
    return "c" in (a.dtype.kind, b.dtype.kind) or not all(dense)


def _middling(a, b):
    """a b on one thread: in blocks where BLAS has kernels for them, else one product."""
    y = np.empty((len(a), b.shape[1]), a.dtype if a.dtype == b.dtype else np.result_type(a, b))
    blocks = blocks_for(a, b) if a.dtype == b.dtype else None
    if blocks is not None:
        take_steps(steps_in_blocks(a, b, y, *blocks))
    else:
        with blas.one_thread():
            np.matmul(a, b, y)
    return y


def _are_numpys(a, b):
    """Whether both are NumPy arrays, or the traced arrays that replace them (tape_trace.py)."""
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray)


def _outer(a, b):
    """a bᵀ of two NumPy vectors, without BLAS, which would first pack them as matrices."""
    with small_buffer() if len(b) > BUFFER else nullcontext():
        return a[:, None] * b


def _times(a, b):
    """a b for matrices; for NumPy arrays by `_dot`, except for 16-bit floats.

    `dot` makes the same BLAS call as `@`, but is not a ufunc, which would first look up a loop for
    these dtypes.
    """
    plain = type(a) is _ndarray is type(b) and a.itemsize != 2 != b.itemsize
    return _dot(a, b) if plain else op.matmul(a, b)


def _rows_times(x, a):
    """x a for x (..., n) and a matrix a: one product where the rows of x form one matrix."""
    if x.ndim == 2:
        return _times(x, a)
    real = "c" not in (x.dtype.kind, a.dtype.kind)  # BLAS gives NaN for some complex infinities
    if x.ndim == 1 and real and x.dtype.itemsize != 2 != a.dtype.itemsize:
        plain = type(x) is np.ndarray is type(a)
        if plain or (_are_numpys(x, a) and _differ_by_dot(x, a)):
            return x.dot(a)
    if x.ndim > 2 and isinstance(x, np.ndarray) and x.flags.c_contiguous:
        return _times(as_rows(x), a).reshape((*x.shape[:-1], a.shape[1]))
    return op.matmul(x, a)


@vjp_variant(op.matmul, "a", name="by shape", always=True)
def matmul_da(g, b, a_shape):
    if len(a_shape) == 2 == b.ndim:
        return _times(g, b.conj().T)
    if len(a_shape) == 2 and b.ndim == 1 and _are_numpys(g, b):
        return _outer(g, b.conj())
    if len(a_shape) <= 2 < b.ndim:  # one a for the whole batch: contract batch and columns at once
        g, axes = with_unit_axes(g, len(a_shape), b.ndim), (*range(b.ndim - 2), b.ndim - 1)
        return tensordot(g, b.conj(), (axes, axes)).reshape(a_shape)
    return own_da(g, b, a_shape)


@vjp_variant(op.matmul, "b", name="by shape", always=True)
def matmul_db(g, a, b_shape):
    if a.ndim == 2 == len(b_shape):
        return _times(a.conj().T, g)
    if a.ndim == 1 and len(b_shape) == 2 and _are_numpys(g, a):
        return _outer(a.conj(), g)
    if len(b_shape) <= 2:  # one b for the whole batch: batch and rows are one long axis
        g, a = with_unit_axes(g, a.ndim, len(b_shape)), a.conj()
        a = a if a.ndim > 1 else a.reshape((1, -1))
        return op.matmul(as_rows(a).T, as_rows(g)).reshape(b_shape)
    return own_db(g, a, b_shape)


# -- linear ----------------------------------------------------------------------------------------

# Multiplications from which BLAS packs its factors; it packs a transposed weight slowly.
LEAST_FEW = 1 << 18


def _has_few_rows(x, w):
    """Whether BLAS takes less time for w xᵀ than for x wᵀ.

    OpenBLAS takes as little as half the time for w xᵀ, but longer if there are fewer outputs than
    rows. In float64 there is little difference.
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
    as_rows(y)[...] = _dot(w, as_rows(x).T).T
    return y


@form(op.linear, "by shape", on=ANY)
def linear(x: Any, w: Any, b: Any = None) -> Any:
    """The bias is added in place, which saves a second array of y's size."""
    check_layer(x, w, b)
    if x.size * len(w) >= LEAST_FEW and _has_few_rows(x, w):
        y = _of_few_rows(x, w)
    else:
        y = _rows_times(x, w.T)
    if b is None:
        return y
    if y.dtype.itemsize == 2 or (b.dtype != y.dtype and common_dtype(y, b) != y.dtype):
        return (y + b).astype(common_dtype(y, b), copy=False)
    if y.flags.c_contiguous:
        on_each_row(np.add, as_rows(y), b)
    else:  # from an x with permuted axes: its rows would be a copy
        np.add(y, b, y)
    return y


@vjp_variant(op.linear, "x", name="by shape", always=True)
def linear_dx(g, w):
    return _rows_times(g, w.conj())


@vjp_variant(op.linear, "w", name="by shape", always=True)
def linear_dw(g, x):
    return _times(as_rows(g).T, as_rows(x.conj()))


@vjp_variant(op.linear, "b", name="rows", always=True)
def linear_db(g):
    if type(g) is np.ndarray and g.dtype.itemsize != 2:  # like the op, without its checks
        rows = as_rows(g)
        return sum_of_rows(rows) if folds(rows) else np.add.reduce(rows)
    return op.sum(g, axis=tuple(range(g.ndim - 1)))


form.install()
