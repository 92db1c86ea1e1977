"""How far values spread: variance, standard deviation, norms."""

from typing import Any

import numpy as np

from ...backends.dtypes import is_differentiable
from ...engine.primitive import primitive
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import accumulate, array_like, count, widen
from ..batching import reduction
from ..elementwise.selection import constant_in
from .sums import keep_axes

__all__ = ["norm", "p_norm", "std", "var", "vector_norm"]


def degrees_lost(name: str, ddof: float, correction: float | None) -> float:
    """ddof, or `correction`, the array API's name for it; not both, which may differ."""
    if correction is None:
        return ddof
    if ddof:
        raise ValueError(
            f"{name}: ddof={ddof} and correction={correction} are two names of the number taken "
            "from n, ddof NumPy's and correction the array API's; give one of them"
        )
    return correction


@primitive(numpy=np.var)
def var(x, axis=None, dtype=None, ddof=0, keepdims=False, correction=None):
    """y = Σ |x − mean|² / (n − ddof) ;  gx = 2 g (x − mean) / (n − ddof).

    `correction` is another name for ddof; both together: ValueError. Where n ≤ ddof there is a
    division by 0, as in NumPy.
    """
    ddof = degrees_lost("var", ddof, correction)
    return accumulate(np.var, x, dtype, axis=axis, ddof=ddof, keepdims=keepdims)


@var.vjp("x")
def var_dx(g, x, axis, ddof, keepdims, correction):
    n = _degrees(x.shape, axis, ddof if correction is None else correction)
    g = keep_axes(g, x.shape, axis, keepdims)
    return widen(g) * (2 / n) * _centred(x, axis)


@primitive(numpy=np.std)
def std(x, axis=None, dtype=None, ddof=0, keepdims=False, correction=None):
    """y = √var ;  gx = g (x − mean) / ((n − ddof) y), and 0 where y = 0: x is constant there.

    Of a constant y is exactly 0, also where the mean of n equal numbers is rounded. Where y² is
    beyond the numbers of its dtype, as 1e-30² and 1e30² are in float32, x is scaled first.
    """
    ddof = degrees_lost("std", ddof, correction)
    options = {"axis": axis, "ddof": ddof, "keepdims": keepdims}
    if dtype is None and (wide := widen(x)) is not x:  # bfloat16's squares may be beyond float32's
        return std.forward(wide, **options).astype(x.dtype)
    with np.errstate(over="ignore"):  # done again below
        y = accumulate(np.std, x, dtype, **options)
    return settled(x, y, dtype, options) if x.size else y


def settled(x: Any, y: Any, dtype: Any, options: dict) -> Any:
    """The deviation y of x: 0 of a constant, and of x over a power of two where y is lost."""
    of = {"axis": options["axis"], "keepdims": options["keepdims"]}
    varies = op.max(x, **of) != op.min(x, **of)
    if dtype is None and type(x) is np.ndarray and x.dtype.char in _ROOTS:
        known = (y >= _ROOTS[x.dtype.char]) & (y < np.inf)
        if not known.all() and (lost := np.logical_and(varies, ~known)).any():
            y = _scaled_std(x, options, lost, y)
    return np.where(np.logical_or(varies, ~np.isfinite(y)), y, 0).astype(y.dtype)


# √ of the least number whose square has all its digits, by the dtype's character
_ROOTS = {char: float(np.sqrt(np.finfo(char).tiny)) for char in "fdFD"}


def _scaled_std(x: Any, options: dict, lost: Any, y: Any) -> Any:
    """y; where it is lost, the deviation of x over a power of two near the largest |x|."""
    scale = _scale_of(np.abs(x), options["axis"])
    scaled = np.std(x / scale, **options)
    return np.where(lost, scaled * scale.reshape(scaled.shape), y)


def _scale_of(r: Any, axis: Any) -> Any:
    """A power of two near the largest of each slice of r ≥ 0 over `axis`, kept at length 1."""
    top = np.max(r, axis=axis, keepdims=True)
    scale = np.exp2(np.frexp(top)[1] - 1).astype(top.dtype)
    return np.maximum(scale, np.finfo(top.dtype).tiny)  # a quotient by less may overflow


@std.vjp("x")
def std_dx(g, x, y, axis, ddof, keepdims, correction):
    n = _degrees(x.shape, axis, ddof if correction is None else correction)
    g, y = (widen(keep_axes(c, x.shape, axis, keepdims)) for c in (g, y))
    constant = y == 0
    # of (x − mean)/y, which is of the size of √n, nothing overflows, of g/y what is over a tiny y
    return np.where(constant, 0, g / n) * (_centred(x, axis) / np.where(constant, np.inf, y))


def root_of_variance(variance: Any) -> Any:
    """√variance, of gradient 0 where that is 0: all elements are equal there."""
    positive = variance > 0  # the root is taken of a safe value: no 0/0 enters
    return op.where(positive, op.sqrt(op.where(positive, variance, 1)), variance)


def _degrees(shape: tuple, axis: Any, ddof: float) -> float:
    """n − ddof; NaN, as the value, where that leaves nothing."""
    n = count(shape, axis) - ddof
    return n if n > 0 else float("nan")


def _centred(x: Any, axis: Any) -> Any:
    x = widen(x)
    return x - op.mean(x, axis=axis, keepdims=True)


def divided(g: Any, y: Any) -> Any:
    """g / y, and 0 where y = 0."""
    y = widen(y)
    return np.where(y == 0, 0, g / np.where(y == 0, 1, y))


def _length(x: Any, axis: Any, keepdims: bool, p: float) -> Any:
    """(Σ |x|ᵖ)^(1/p); again of x over a power of two where the sum is beyond the numbers."""
    r = np.abs(x)

    def root(total: Any) -> Any:
        return np.sqrt(total) if p == 2 else total ** (1 / p)

    with np.errstate(over="ignore", divide="ignore"):  # 0 to a negative power: ∞, whose root is 0
        total = np.sum(r * r if p == 2 else r**p, axis=axis, keepdims=keepdims)
        y = root(total)
        if type(x) is np.ndarray and x.size and x.dtype.char in _ROOTS:
            known = (total >= np.finfo(x.dtype).tiny) & (total < np.inf)
            if not known.all():
                scale = _scale_of(r, axis)
                scaled = root(np.sum((r / scale) ** p, axis=axis, keepdims=keepdims))
                y = np.where(known, y, scaled * scale.reshape(scaled.shape))
    return y


@primitive
def p_norm(x, axis=None, keepdims=False, p=2):
    """y = (Σ |x|ᵖ)^(1/p) ;  gx = g x/|x| (|x|/y)^(p−1), and 0 where x = 0 or y = 0.

    At the zero vector 0 is the subgradient of least norm. For p < 1 the slope at x = 0 is infinite;
    the rule gives 0. Where Σ |x|ᵖ is beyond the numbers of its dtype and y is not, x is scaled
    first.
    """
    y = _length(widen(x), axis, keepdims, p)
    return y.astype(x.real.dtype) if is_differentiable(x.dtype) else y


@p_norm.vjp("x")
def p_norm_dx(g, x, y, axis, keepdims, p):
    g, y = (widen(keep_axes(c, x.shape, axis, keepdims)) for c in (g, y))
    x = widen(x)
    if p == 2:
        return np.where(y == 0, 0, x / np.where(y == 0, 1, y)) * g
    r = np.abs(x)
    none = np.logical_or(r == 0, y == 0)
    r = np.where(none, 1, r)
    share = (r / np.where(none, 1, y)) ** (p - 1)
    if x.dtype.kind == "c":
        return np.where(none, 0, g * (x / r) * share)
    return np.where(none, 0, g * np.copysign(share, x))  # x/|x| of an infinite x would be NaN


@composite(numpy=np.linalg.vector_norm)
def vector_norm(x: Any, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norm of vectors along `axis` (None: of x flattened; a tuple: of several axes).

    ord p > 0: (Σ |x|ᵖ)^(1/p); inf, −inf: the largest, smallest |x|, ties shared; 0: how many are
    nonzero (gradient 0); None: 2. The gradient at the zero vector is 0.
    """
    x, ord = array_like(x), 2 if ord is None else ord
    if x.dtype.kind in "biu":
        x = x.astype(np.float64)
    if ord == np.inf and count(x.shape, axis):  # of nothing: 0, the empty sum below
        return op.max(op.abs(x), axis=axis, keepdims=keepdims)
    if ord == -np.inf:
        return op.min(op.abs(x), axis=axis, keepdims=keepdims)
    if ord in (1, np.inf):
        return op.sum(op.abs(x), axis=axis, keepdims=keepdims)
    if ord == 0:
        nonzero = op.astype(x != 0, dtype=x.real.dtype)
        return op.sum(constant_in(op.real(x), nonzero), axis=axis, keepdims=keepdims)
    return op.p_norm(x, axis=axis, keepdims=keepdims, p=ord)


@composite(numpy=np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """NumPy's norm: of all elements (ord None), of vectors along one axis, of matrices along two.

    ord "fro" is the root of the sum of squares of a matrix; other matrix norms are those of
    mg.linalg.matrix_norm.
    """
    x = array_like(x)
    if isinstance(axis, list):
        raise TypeError(f"norm: several axes are a tuple: axis={tuple(axis)!r}")
    if axis is None and ord is None:
        axes = None
    else:
        axes = tuple(range(x.ndim)) if axis is None else axis
        axes = axes if isinstance(axes, tuple) else (axes,)
    if axes is not None and len(axes) > 2:
        raise ValueError(
            f"norm: axis={axis!r}, ord={ord!r} on an array of shape {x.shape} names {len(axes)} "
            "axes; give one for vectors, two for matrices, or use mg.vector_norm"
        )
    if ord is None or (ord == "fro" and axes is not None and len(axes) == 2):
        return vector_norm(x, axis=axes, keepdims=keepdims)
    if axes is not None and len(axes) == 2:
        y = op.matrix_norm(op.moveaxis(x, axes, (-2, -1)), ord=ord, keepdims=keepdims)
        return op.moveaxis(y, (-2, -1), axes) if keepdims else y
    if isinstance(ord, str):
        raise ValueError(f"norm: ord={ord!r} is a norm of matrices; give two axes")
    return vector_norm(x, axis=axes, keepdims=keepdims, ord=ord)


for _op in (var, std, p_norm):
    _op.batch(reduction)
