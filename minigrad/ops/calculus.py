"""Calculus on samples: differences, integrals, polynomials, convolution, cross."""

from typing import Any

import numpy as np

from ..backends.dtypes import NUMBERS, common_dtype, is_differentiable, weak_scalars
from ..engine.primitive import multilinear, primitive
from ..engine.registry import op
from ..tensor_api.composite import composite, on_its_gpu
from .axes import (
    array_beside,
    array_like,
    as_floating,
    axes_of,
    axis_of,
    both_arrays,
    constant_array,
    constant_like,
    in_wide,
    on_host,
    sum_to,
)
from .batching import align, behind, full
from .elementwise.support import with_fractions

__all__ = [
    "convolve", "correlate", "cross", "diff", "gradient", "polyval", "trapezoid", "unwrap",
]  # fmt: skip


def _cut(x: Any, axis: int, *bounds: int | None) -> Any:
    """x[start:stop] along one axis (counted from the front)."""
    return x[(*(slice(None),) * axis, slice(*bounds))]


# -- differences -----------------------------------------------------------------------------


@composite(numpy=np.diff)
def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """y_k = x_{k+1} − x_k along `axis`, n times; `prepend`, `append`: numbers or arrays.

    n=0 is x as it is, as in NumPy.
    """
    x = array_like(x)
    if n < 0 or x.ndim == 0:
        raise ValueError(f"diff: needs n ≥ 0 and at least one axis, got n={n}, shape {x.shape}")
    axis = axis_of(axis, x.ndim)
    if n == 0:
        return x
    parts = [_edge(prepend, x, axis), x, _edge(append, x, axis)]
    parts = [part for part in parts if part is not None]
    y = op.concatenate(parts, axis=axis) if len(parts) > 1 else x

    def differences(y: Any) -> Any:
        for _ in range(min(n, y.shape[axis])):  # by then nothing is left
            later, earlier = _cut(y, axis, 1, None), _cut(y, axis, None, -1)
            y = later != earlier if y.dtype.kind == "b" else later - earlier
        return y

    return in_wide(differences, y)


def _edge(value: Any, x: Any, axis: int) -> Any:
    """The values before or behind x: a number becomes one entry of every line along the axis."""
    if value is None:
        return None
    if type(value) in NUMBERS:  # takes x's dtype if it has a place there, as in x + value
        beside = np.result_type(*weak_scalars([np.empty(0, x.dtype), value]))
        value = constant_like(np.asarray(value, dtype=beside), x)
    value = array_beside(value, x)
    if value.ndim == 0:
        shape = [1 if i == axis else n for i, n in enumerate(x.shape)]
        return op.broadcast_to(value, shape=tuple(shape))
    return value


@composite(numpy=np.gradient)
@on_its_gpu
def gradient(f: Any, *spacing: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences inside, one-sided of order `edge_order` (1 or 2) at the ends.

    spacing: one number for all axes, or for each axis a number or the coordinates (constants). A
    tuple, one array for each axis, unless there is one axis.
    """
    f = array_like(f)
    axes = axes_of(axis, f.ndim)
    if len(spacing) not in (0, 1, len(axes)) or edge_order not in (1, 2):
        raise ValueError(
            f"gradient: needs no spacing, one, or one for each of {len(axes)} axes, and edge_order "
            f"1 or 2; got {len(spacing)} spacings, edge_order={edge_order}"
        )
    if len(spacing) == 1 < len(axes) and np.ndim(spacing[0]):
        raise ValueError(
            f"gradient: one array of coordinates is of one axis; give one for each of {len(axes)} "
            "axes, or axis="
        )
    steps = spacing or (1.0,)
    steps = steps * len(axes) if len(steps) == 1 else steps
    f = f if f.dtype.kind in "fcV" else op.astype(f, dtype=np.float64)
    ys = [
        _slope(f, i, constant_array(h, "varargs"), edge_order)
        for i, h in zip(axes, steps, strict=True)
    ]
    return ys[0] if len(ys) == 1 else tuple(ys)


def _slope(f: Any, axis: int, h: Any, edge_order: int) -> Any:
    """The derivative along one axis, by second-order differences for unequal steps."""
    n = f.shape[axis]
    if n < edge_order + 1:
        raise ValueError(
            f"gradient: axis {axis} of shape {f.shape} needs at least {edge_order + 1} elements"
        )
    if np.ndim(h) == 0:
        steps: Any = np.full(n - 1, h, dtype=np.result_type(h, float))
    else:
        steps = np.diff(as_floating(on_host(h)))  # also for unsigned integers
    if steps.shape != (n - 1,):
        raise ValueError(
            f"gradient: axis {axis} has {n} elements, got {steps.size + 1} coordinates"
        )

    def line(values: np.ndarray) -> Any:
        shape = [-1 if i == axis else 1 for i in range(f.ndim)]
        kept = f.dtype if values.dtype.kind != "c" else common_dtype(f.dtype, np.complex64)
        return constant_like(values.astype(kept).reshape(shape), f)

    def weighted(weights: list, *offsets: slice) -> Any:
        terms = [
            _cut(f, axis, s.start, s.stop) * line(np.atleast_1d(w))
            for w, s in zip(weights, offsets, strict=True)
        ]
        return sum(terms[1:], terms[0])

    ends = range(edge_order + 1)
    start = weighted(_end_weights(steps, edge_order), *(slice(k, k + 1) for k in ends))
    last = [-w for w in _end_weights(steps[::-1], edge_order)]
    stop = weighted(last, *(slice(n - 1 - k, n - k) for k in ends))
    if n == 2:
        return op.concatenate([start, stop], axis=axis)
    a, b = steps[:-1], steps[1:]  # the steps before and behind each inner element
    before, between, behind = -b / (a * (a + b)), (b - a) / (a * b), a / (b * (a + b))
    if between.any():
        inner = [before, between, behind]
        middle = weighted(inner, slice(None, -2), slice(1, -1), slice(2, None))
    else:  # equal steps: the element between has weight 0, and is left out lest it be infinite
        middle = weighted([before, behind], slice(None, -2), slice(2, None))
    return op.concatenate([start, middle, stop], axis=axis)


def _end_weights(steps: np.ndarray, edge_order: int) -> list:
    """Weights of f at the end, and one and two places inside, for its derivative at the end."""
    if edge_order == 1:
        return [-1 / steps[0], 1 / steps[0]]
    a, b = steps[:2]
    return [-(2 * a + b) / (a * (a + b)), (a + b) / (a * b), -a / (b * (a + b))]


# -- integrals, and angles that go on --------------------------------------------------------


@composite(numpy=np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Σ (x_{k+1} − x_k) (y_k + y_{k+1}) / 2 along `axis`; x of y's shape, or 1-d, or spacing dx.

    16-bit floats are added up in float32.
    """
    y = array_like(y)
    axis = axis_of(axis, y.ndim)
    if x is not None:
        x = array_like(x)
        dx = diff(x, axis=axis if x.ndim > 1 else 0)
        if x.ndim == 1:
            dx = dx.reshape([-1 if i == axis else 1 for i in range(y.ndim)])

    even = np.isscalar(dx) and y.shape[axis] > 1 and is_differentiable(y.dtype)

    def area(y: Any, dx: Any) -> Any:
        if even:  # all count whole but the two ends
            ends = op.sum(_cut(y, axis, None, 1) + _cut(y, axis, -1, None), axis=axis)
            return dx * (op.sum(_cut(y, axis, 1, -1), axis=axis) + 0.5 * ends)
        return op.sum(dx * (_cut(y, axis, 1, None) + _cut(y, axis, None, -1)) * 0.5, axis=axis)

    return in_wide(area, y, dx if np.isscalar(dx) else array_like(dx))


@primitive(numpy=np.unwrap)
def unwrap(p, discont=None, axis=-1, period=2 * np.pi):
    """p with multiples of the period added where it jumps by more than half of one ;  gx = g"""
    return in_wide(lambda p: np.unwrap(p, discont=discont, axis=axis, period=period), p)


@unwrap.vjp("p")
def unwrap_dp(g):
    return g


# -- polynomials -----------------------------------------------------------------------------


def _check_coefficients(shape: tuple) -> None:
    if len(shape) != 1:
        raise ValueError(f"the coefficients p must be a vector, got shape {shape}")


@primitive(numpy=np.polyval)
def polyval(p, x):
    """y = Σ_k p_k x^(n−1−k), highest power first ;  gp_k = Σ g x̄^(n−1−k), gx = g p′(x̄)

    p (n,), x of any shape -> y of x's shape, by Horner's scheme.
    """
    _check_coefficients(np.shape(p))
    y = np.zeros_like(x, dtype=common_dtype(p, x))
    for coefficient in p:
        y = y * x + coefficient
    return y


@polyval.vjp("p")
def polyval_dp(g, x, p_shape, xp):
    x = with_fractions(array_beside(x, g))
    powers = xp.arange(p_shape[0] - 1, -1, -1).astype(x.dtype)
    return op.matmul(g.reshape(-1), x.conj().reshape((-1, 1)) ** powers)


@polyval.vjp("x")
def polyval_dx(g, p, x, xp):
    n, p = p.shape[0], with_fractions(p)
    if n < 2:
        return np.zeros_like(g)
    slopes = p[:-1] * xp.arange(n - 1, 0, -1).astype(p.dtype)
    return g * op.polyval(slopes, x).conj()


# -- convolution of vectors ------------------------------------------------------------------


@multilinear
def convolve_full(a, v):
    """y_n = Σ_k a_{n−k} v_k, n < len(a) + len(v) − 1 ;  ga = slide(g, v̄), gv = slide(g, ā)"""
    return in_wide(np.convolve, a, v)


@convolve_full.vjp("a")
def convolve_full_da(g, v):
    return slide(g, v.conj())


@convolve_full.vjp("v")
def convolve_full_dv(g, a):
    return slide(g, a.conj())


@multilinear
def slide(x, v):
    """y_n = Σ_k x_{n+k} v_k, n ≤ len(x) − len(v) ;  gx = convolve_full(g, v̄), gv = slide(x̄, g)"""
    return in_wide(lambda x, v: np.convolve(x, v[::-1], "valid"), x, v)


@slide.vjp("x")
def slide_dx(g, v):
    return convolve_full(g, v.conj())


@slide.vjp("v")
def slide_dv(g, x):
    return slide(x.conj(), g)


@composite(numpy=np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """y_n = Σ_k a_{n−k} v_k of two vectors; mode 'full', 'same' (the middle) or 'valid'."""
    a, v = both_arrays(a, v)
    if a.ndim > 1 or v.ndim > 1 or not (a.size and v.size):
        raise ValueError(f"convolve: needs two non-empty vectors, got shapes {a.shape}, {v.shape}")
    a, v = a.reshape(-1), v.reshape(-1)
    long, short = (a, v) if a.size >= v.size else (v, a)
    if mode == "valid":
        return slide(long, op.flip(short))
    y = convolve_full(long, short)
    if mode == "full":
        return y
    if mode != "same":
        raise ValueError(f"convolve: mode must be 'full', 'same' or 'valid', got {mode!r}")
    start = (short.size - 1) // 2
    return y[start : start + long.size]


@composite(numpy=np.correlate)
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """y_k = Σ_n a_{n+k} conj(v_n) of two vectors; mode as in convolve."""
    a, v = both_arrays(a, v)
    if a.ndim != 1 or v.ndim != 1:
        raise ValueError(f"correlate: needs two vectors, got shapes {a.shape}, {v.shape}")
    v = v.conj() if v.dtype.kind == "c" else v  # NumPy's conj of bool is int8
    if a.size >= v.size:
        return convolve(a, op.flip(v), mode)
    return op.flip(convolve(v, op.flip(a), mode))  # the longer one slides over the shorter


# -- batch rules -----------------------------------------------------------------------------


@unwrap.batch
def unwrap_batch(op_, xs, batched, params):
    return unwrap(xs[0], **{**params, "axis": behind(params["axis"], xs[0].ndim - 1)})


@slide.batch
def slide_batch(op_, xs, batched, params):
    """Each example's windows as the rows of a matrix."""
    x, v = full(xs, batched)
    rows = op.unfold(x, axis=1, size=v.shape[1])
    return op.squeeze(op.matmul(rows, op.expand_dims(v, axis=2)), axis=2)


@convolve_full.batch
def convolve_full_batch(op_, xs, batched, params):
    a, v = full(xs, batched)
    ends = v.shape[1] - 1
    padded = op.pad_zeros(a, widths=((0, 0), (ends, ends)))
    return slide_batch(slide, [padded, op.flip(v, axis=1)], [True, True], {})


@polyval.batch
def polyval_batch(op_, xs, batched, params):
    p, x = full(xs, batched)
    _check_coefficients(p.shape[1:])
    p = op.reshape(p, shape=(*p.shape, *(1,) * (x.ndim - 1)))
    y = np.zeros_like(x)
    for k in range(p.shape[1]):
        y = y * x + p[:, k]
    return y


# -- the cross product -----------------------------------------------------------------------


@multilinear
def cross_last(a, b):
    """y = a × b along the last axis, of 3 ;  ga = b̄ × g, gb = g × ā"""
    return in_wide(np.cross, a, b)


@cross_last.vjp("a")
def cross_last_da(g, b, a_shape):
    return sum_to(cross_last(b.conj(), g), a_shape)


@cross_last.vjp("b")
def cross_last_db(g, a, b_shape):
    return sum_to(cross_last(g, a.conj()), b_shape)


@cross_last.batch
def cross_last_batch(op_, xs, batched, params):
    return cross_last(*align(xs, batched))


@composite(numpy=(np.cross, np.linalg.cross))
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """y = a × b of 3-vectors along `axis` (or axisa of a, axisb of b, axisc of y)."""
    a, b = both_arrays(a, b)
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis, axis, axis)
    a, b = op.moveaxis(a, axisa, -1), op.moveaxis(b, axisb, -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError(f"cross: needs vectors of length 3, got shapes {a.shape} and {b.shape}")
    return op.moveaxis(cross_last(a, b), -1, axisc)
