"""Sums of products, and other short compositions that PyTorch names."""

from functools import partial
from itertools import combinations as _combinations
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from ..backends.dtypes import is_floating
from ..engine.primitive import linear
from ..engine.registry import op
from ..tensor_api.composite import composite
from .axes import (
    array_beside,
    array_like,
    as_floating,
    axis_of,
    both_arrays,
    constant_like,
    in_wide,
)

__all__ = [
    "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "aminmax", "baddbmm", "block_diag",
    "cartesian_prod", "combinations", "cumulative_trapezoid", "ediff1d", "flatten", "frac",
    "kthvalue", "logdet", "mode", "polar", "renorm", "std_mean", "unflatten", "var_mean",
    "view_as_complex", "view_as_real",
]  # fmt: skip


# -- sums of products ------------------------------------------------------------------------


@composite
def addcmul(x: Any, a: Any, b: Any, value: float = 1) -> Any:
    """y = x + value a b"""
    return in_wide(lambda x, a, b: x + value * a * b, x, array_like(array_beside(a, x)), b)


@composite
def addcdiv(x: Any, a: Any, b: Any, value: float = 1) -> Any:
    """y = x + value a / b"""
    return in_wide(lambda x, a, b: x + value * (a / b), x, array_like(array_beside(a, x)), b)


def _with_product(name: str, times: Any, x: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    """beta x + alpha times(a, b), in float32 where that is 16-bit."""

    def value(x: Any, a: Any, b: Any) -> Any:
        product = times(a, b)
        _check_fits(name, getattr(x, "shape", ()), product.shape)
        return _scaled_sum(x, product, beta, alpha)

    return in_wide(value, x, *both_arrays(a, b))


def _check_fits(name: str, x: tuple, product: tuple) -> None:
    """ValueError unless an x of this shape broadcasts against a product of that one."""
    try:
        np.broadcast_shapes(x, product)
    except ValueError:
        raise ValueError(
            f"{name}: x {x} is added to a product {product}: each of its axes, counted from the "
            "last one, should be as long as that of the product, or 1"
        ) from None


def _scaled_sum(x: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta x + alpha product; where beta is 0, x does not count, not even NaN, and gets 0."""
    y = product if isinstance(alpha, int) and alpha == 1 else alpha * product
    if isinstance(beta, int | float) and beta == 0:
        return op.where(True, y, x)
    return y + (x if isinstance(beta, int) and beta == 1 else beta * array_beside(x, product))


@composite
def addmm(x: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Any:
    """y = beta x + alpha A B for matrices A (m, n) and B (n, p); x has no part where beta = 0

    x broadcasts against the product (m, p), ValueError where it does not; so in the kin of addmm.
    """
    return _with_product("addmm", op.matmul, x, a, b, beta, alpha)


@composite
def addmv(x: Any, a: Any, v: Any, beta: float = 1, alpha: float = 1) -> Any:
    """y = beta x + alpha A v for a matrix A (m, n) and a vector v (n,)"""
    return _with_product("addmv", op.matmul, x, a, v, beta, alpha)


@composite
def addr(x: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Any:
    """y = beta x + alpha a bᵀ for vectors a (m,) and b (n,)"""
    return _with_product("addr", op.outer, x, a, b, beta, alpha)


@composite
def baddbmm(x: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Any:
    """y = beta x + alpha A B for stacks of matrices A (k, m, n) and B (k, n, p)"""
    return _with_product("baddbmm", op.matmul, x, a, b, beta, alpha)


@composite
def addbmm(x: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Any:
    """y = beta x + alpha Σ_k A_k B_k for stacks of matrices A (k, m, n) and B (k, n, p)"""
    a, b = both_arrays(a, b)
    lengths = ((a.shape[0], b.shape[0]), (a.shape[2], b.shape[1])) if a.ndim == 3 == b.ndim else ()
    if not lengths or any(m != n and 1 not in (m, n) for m, n in lengths):
        raise ValueError(
            f"addbmm: A (k, m, n) and B (k, n, p) are multiplied pair by pair and these products "
            f"added up; got A {a.shape}, B {b.shape}"
        )
    return _with_product("addbmm", partial(op.einsum, "kmn,knp->mp"), x, a, b, beta, alpha)


@composite
def renorm(x: Any, p: float, axis: int, maxnorm: float) -> Any:
    """x with every slice along axis whose p-norm is above maxnorm scaled down to it

    Where the norm is maxnorm, or 0, the gradient is that of an unscaled slice. ValueError unless
    p > 0 and maxnorm ≥ 0.
    """
    if not (p > 0 and maxnorm >= 0):
        raise ValueError(f"renorm: needs p > 0 and maxnorm ≥ 0; got p={p}, maxnorm={maxnorm}")
    x = array_like(x)
    others = tuple([i for i in range(x.ndim) if i != axis_of(axis, x.ndim)])
    size = op.vector_norm(x, ord=p, axis=others, keepdims=True)
    longer = size > maxnorm
    return x / op.where(longer, size, 1) * op.where(longer, float(maxnorm), op.ones_like(size))


# -- two results, or one with its place ----------------------------------------------------------


@composite
def var_mean(x: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> tuple:
    """(mg.var, mg.mean) over axis"""
    y = op.mean(x, axis=axis, keepdims=keepdims)
    return op.var(x, axis=axis, ddof=ddof, keepdims=keepdims), y


@composite
def std_mean(x: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> tuple:
    """(mg.std, mg.mean) over axis"""
    y = op.mean(x, axis=axis, keepdims=keepdims)
    return op.std(x, axis=axis, ddof=ddof, keepdims=keepdims), y


@composite
def aminmax(x: Any, axis: int | None = None, keepdims: bool = False) -> tuple:
    """(the smallest, the largest) over axis; ties share the gradient equally."""
    return op.min(x, axis=axis, keepdims=keepdims), op.max(x, axis=axis, keepdims=keepdims)


def _at(x: Any, places: Any, axis: int, keepdims: bool) -> tuple:
    """(the entries at these places, one along axis; the places)"""
    y = op.take_along_axis(x, places, axis=axis)
    return (y, places) if keepdims else (op.squeeze(y, axis=axis), op.squeeze(places, axis=axis))


@composite
def kthvalue(x: Any, k: int, axis: int = -1, keepdims: bool = False) -> tuple:
    """(the k-th smallest entry along axis, its place): k = 1 is the smallest."""
    x = array_like(x)
    n = x.shape[axis_of(axis, x.ndim)]
    if not 1 <= k <= n:
        raise ValueError(f"kthvalue: k must lie between 1 and {n}, the length of the axis; got {k}")
    return _at(x, op.narrow(op.argsort(x, axis=axis), axis, k - 1, 1), axis, keepdims)


@composite
def mode(x: Any, axis: int = -1, keepdims: bool = False) -> tuple:
    """(the most frequent entry along axis, its last place); of several the smallest."""
    x = array_like(x)
    axis = axis_of(axis, x.ndim)
    order = op.argsort(x, axis=axis)
    ranked = op.moveaxis(op.take_along_axis(x, order, axis=axis), axis, -1)
    n = x.shape[axis]
    # in order, equal entries are a run: the longest one ends first where the most have been counted
    places = constant_like(np.arange(n), x)
    begins = op.concatenate(
        [op.ones_like(ranked[..., :1], dtype=bool), ranked[..., 1:] != ranked[..., :-1]], axis=-1
    )
    counted = places - op.cummax(op.where(begins, places, 0), axis=-1).values
    best = op.argmax(counted, axis=-1, keepdims=True)
    value = op.take_along_axis(ranked, best, axis=-1)
    last = n - 1 - op.argmax(op.flip(op.moveaxis(x, axis, -1) == value, axis=-1), -1, keepdims=True)
    return _at(x, op.moveaxis(last, -1, axis), axis, keepdims)


# -- complex numbers and parts -----------------------------------------------------------------


@composite
def polar(r: Any, angle: Any) -> Any:
    """y = r e^(i angle), complex, of real r and angle"""
    parts = op.broadcast_arrays(r * op.cos(angle), r * op.sin(angle))
    return op.view_as_complex(op.stack(parts, axis=-1))


@linear
def view_as_complex(x):
    """x (…, 2) of real and imaginary parts as complex numbers (…); a copy ;  gx = (Re g, Im g)

    Each part is put in its place: 1j times an infinite one would bring NaN into the other.
    """
    if not x.ndim or x.shape[-1] != 2 or not is_floating(x.dtype):
        raise ValueError(f"x must be real (…, 2), got {x.dtype} {x.shape}")
    y: Any = np.empty_like(x[..., 0], dtype=np.result_type(x.dtype, np.complex64))
    y.real[...], y.imag[...] = x[..., 0], x[..., 1]
    return y


@view_as_complex.vjp("x")
def view_as_complex_dx(g):
    return op.view_as_real(g)


@view_as_complex.batch
def view_as_complex_batch(op_, xs, batched, params):
    if xs[0].ndim < 2:
        raise ValueError("x must be real (…, 2), and is a number in each example")
    return op_(*xs)


@composite
def view_as_real(x: Any) -> Any:
    """Complex x (…) as its real and imaginary parts (…, 2); a copy."""
    x = array_like(x)
    if x.dtype.kind != "c":
        raise TypeError(f"view_as_real: x must be complex, got {x.dtype}")
    return op.stack([op.real(x), op.imag(x)], axis=-1)


@composite
def frac(x: Any) -> Any:
    """y = x − trunc x, with the sign of x ;  gx = g"""
    x = array_like(x)
    return x - op.trunc(x)


@composite
def logdet(a: Any) -> Any:
    """log det A of each matrix of a (…, n, n): −∞ for det 0, NaN where det is negative."""
    sign, y = op.slogdet(a)
    return op.where(sign < 0, np.nan, y) if is_floating(sign.dtype) else y + op.log(sign)


# -- shapes ----------------------------------------------------------------------------------


@composite
def unflatten(x: Any, axis: int, sizes: Any) -> Any:
    """x with one axis split into several of these sizes, of which one may be −1."""
    x = array_like(x)
    axis = axis_of(axis, x.ndim)
    sizes = list(sizes)
    if sizes.count(-1) > 1:
        raise ValueError(f"unflatten: only one of the sizes may be -1, got {tuple(sizes)}")
    if -1 in sizes:
        rest = -int(np.prod(sizes))
        sizes[sizes.index(-1)] = x.shape[axis] // max(rest, 1)
    if int(np.prod(sizes)) != x.shape[axis]:  # which a reshape without entries would not notice
        raise ValueError(
            f"unflatten: sizes {tuple(sizes)} do not multiply to {x.shape[axis]}, the length of "
            f"axis {axis} of x {x.shape}"
        )
    return op.reshape(x, shape=(*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


@composite
def flatten(x: Any, start: int = 0, end: int = -1) -> Any:
    """x with the axes start … end merged into one; a number becomes a vector of one entry."""
    x = array_like(x)
    if not x.ndim:
        return op.reshape(x, shape=1)
    start, end = axis_of(start, x.ndim), axis_of(end, x.ndim)
    if start > end:
        raise ValueError(f"flatten: axis start={start} comes after axis end={end}")
    merged = int(np.prod(x.shape[start : end + 1]))
    return op.reshape(x, shape=(*x.shape[:start], merged, *x.shape[end + 1 :]))


@composite(numpy=np.ediff1d)
def ediff1d(x: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours of x flattened, with `to_begin` before and `to_end` after them.

    They have x's dtype, as in NumPy; TypeError for ends that it cannot hold.
    """
    x = array_like(x).reshape(-1)
    ends = [None if v is None else _in_dtype_of(x, v) for v in (to_begin, to_end)]
    parts = [part for part in (ends[0], x[1:] - x[:-1], ends[1]) if part is not None]
    return op.concatenate(parts) if len(parts) > 1 else parts[0]


def _in_dtype_of(x: Any, end: Any) -> Any:
    """Values that ediff1d puts before or after those of x, as a vector of x's dtype."""
    end = array_beside(end, x).reshape(-1)
    if not np.can_cast(end.dtype, x.dtype, "same_kind"):
        raise TypeError(f"ediff1d: to_begin and to_end of {end.dtype} do not fit x of {x.dtype}; "
                        "bring one of them to the other's dtype with astype")  # fmt: skip
    return op.astype(end, dtype=x.dtype)


@composite
def block_diag(*xs: Any) -> Any:
    """The matrices xs (vectors as rows, numbers as 1 × 1) down the diagonal, zeros elsewhere."""
    beside = next((x for x in xs if hasattr(x, "shape") and not isinstance(x, np.generic)), None)
    xs = tuple(op.atleast_2d(array_like(array_beside(x, beside))) for x in xs)
    if any(x.ndim != 2 for x in xs):
        raise ValueError(f"block_diag: needs matrices, got shapes {[x.shape for x in xs]}")
    width, before, rows = sum(x.shape[1] for x in xs), 0, []
    for x in xs:
        rows.append(op.pad(x, [(0, 0), (before, width - before - x.shape[1])]))
        before += x.shape[1]
    return op.concatenate(rows, axis=0)


@composite
def cartesian_prod(*xs: Any) -> Any:
    """All tuples with an entry of each vector, as rows: the last one changes fastest."""
    if len(xs) == 1:
        return op.reshape(array_like(xs[0]), shape=-1)
    axes = op.meshgrid(*xs, indexing="ij")
    return op.stack([op.reshape(axis, shape=-1) for axis in axes], axis=1)


@composite
def combinations(x: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """The choices of r entries of a vector x (n,), in order, as rows.

    with_replacement: an entry may be chosen more than once.
    """
    x = array_like(x)
    if x.ndim != 1:
        raise ValueError(f"combinations: x must be a vector, got shape {x.shape}")
    if r > x.size and not with_replacement:  # none, for which Python would first list r places
        return op.reshape(x[:0], shape=(0, r))
    choices = combinations_with_replacement if with_replacement else _combinations
    rows = list(choices(range(x.size), r))
    places = np.array(rows, dtype=np.intp).reshape(len(rows), r)
    return op.take(x, constant_like(places, x))


@composite
def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Σ_{j<k} (x_{j+1} − x_j) (y_j + y_{j+1}) / 2 along axis, k = 1, 2, …: one shorter than y.

    16-bit floats are added up in float32.
    """
    y = as_floating(array_like(y))
    y = op.moveaxis(y, axis, -1)
    if x is not None:
        x = array_like(x)
        dx = op.diff(x if x.ndim == 1 else op.moveaxis(x, axis, -1))

    def areas(y: Any, dx: Any) -> Any:
        return op.cumsum(dx * (y[..., 1:] + y[..., :-1]) * 0.5, axis=-1)

    sums = in_wide(areas, y, dx if np.isscalar(dx) else array_like(dx))
    return op.moveaxis(sums, -1, axis)
