"""Polynomials by their coefficients, highest power first, as in NumPy's poly functions.

A result's length follows from the lengths of the arguments alone: leading zeros are kept.
"""

from typing import Any

import numpy as np

from ..backends.dtypes import finfo, is_differentiable
from ..engine.graph import raw
from ..engine.registry import op
from ..tensor_api.composite import composite, on_its_gpu
from .axes import array_like, as_floating, constant_array, constant_like, module_of
from .calculus import convolve

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "roots",
]  # fmt: skip

_MOST_INTEGRALS = 10_000  # 1/m! is 0 in every dtype long before


def _vector(name: str, p: Any) -> Any:
    p = array_like(p)
    if p.ndim > 1:
        raise ValueError(f"{name}: the coefficients must be a vector, got shape {p.shape}")
    return op.reshape(p, shape=-1)


def _same_length(name: str, a: Any, b: Any) -> tuple:
    """a and b with leading zeros for the shorter one."""
    a, b = _vector(name, a), _vector(name, b)
    n = max(a.size, b.size)
    return tuple([op.pad(p, [(n - p.size, 0)]) if p.size < n else p for p in (a, b)])


@composite(numpy=np.polyadd)
def polyadd(a: Any, b: Any) -> Any:
    """The coefficients of a(x) + b(x)."""
    a, b = _same_length("polyadd", a, b)
    return a + b


@composite(numpy=np.polysub)
def polysub(a: Any, b: Any) -> Any:
    """The coefficients of a(x) − b(x)."""
    a, b = _same_length("polysub", a, b)
    return a - b


@composite(numpy=np.polymul)
def polymul(a: Any, b: Any) -> Any:
    """The coefficients of a(x) b(x): the convolution of a and b."""
    return convolve(_vector("polymul", a), _vector("polymul", b))


@composite(numpy=np.polydiv)
def polydiv(u: Any, v: Any) -> tuple:
    """(q, r) with u(x) = q(x) v(x) + r(x), by long division; r has len(v) − 1 coefficients."""
    u, v = as_floating(_vector("polydiv", u)), as_floating(_vector("polydiv", v))
    if not v.size or (v.size > u.size and not u.size):
        raise ValueError(f"polydiv: needs coefficients, got {u.size} and {v.size} of them")
    if v.size > u.size:
        return op.zeros_like(u[:1]), op.copy(u)
    quotient = []
    for _ in range(u.size - v.size + 1):
        q = u[:1] / v[:1]
        quotient.append(q)
        u = op.concatenate([u[1 : v.size] - q * v[1:], u[v.size :]])
    return op.concatenate(quotient), u if u.size else op.zeros_like(quotient[0])


@composite(numpy=np.polyder)
def polyder(p: Any, m: int = 1) -> Any:
    """The coefficients of the m-th derivative."""
    p = _vector("polyder", p)
    if m < 0:
        raise ValueError(f"polyder: the order m must be 0 or more, got {m}; see mg.polyint")
    for _ in range(min(m, p.size)):  # by then nothing is left
        powers = module_of(p).arange(p.size - 1, 0, -1)
        # an integer times a power may not fit into the dtype of the integer
        p = p[:-1] * (powers.astype(p.dtype) if is_differentiable(p.dtype) else powers)
    return p


@composite(numpy=np.polyint)
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The coefficients of an m-fold integral; k: its m constants (a number for all, 0)."""
    p = as_floating(_vector("polyint", p))
    if m < 0:
        raise ValueError(f"polyint: the order m must be 0 or more, got {m}; see mg.polyder")
    if m > _MOST_INTEGRALS:
        raise ValueError(f"polyint: the order m is at most {_MOST_INTEGRALS:,}, got {m:,}")
    constants = op.broadcast_to(array_like(0.0 if k is None else k), shape=(m,))
    if constants.dtype.kind == "c":
        p = op.astype(p, dtype=np.result_type(p.dtype, np.complex64), copy=False)
    for i in range(m):
        powers = module_of(p).arange(p.size, 0, -1).astype(p.dtype)
        last = op.astype(constants[i : i + 1], dtype=p.dtype)
        p = op.concatenate([p / powers, constant_like(last, p)])
    return p


@composite(numpy=np.poly)
def poly(seq_of_zeros: Any) -> Any:
    """The coefficients of Π (x − r_i) for roots r (n,), or of det(x − A) for a matrix A."""
    r = as_floating(array_like(seq_of_zeros))
    real = r.ndim == 2 and r.dtype.kind != "c"  # its complex eigenvalues come in pairs
    if r.ndim == 2:
        r = op.eigvals(r)
    if r.ndim != 1:
        raise ValueError(f"poly: needs roots (n,) or a square matrix, got shape {r.shape}")
    p = op.ones_like(r[:1]) if r.size else op.reshape(op.prod(r), shape=1)
    for i in range(r.size):
        p = op.pad(p, [(0, 1)]) - op.pad(p * r[i], [(1, 0)])
    return op.real(p) if real else p


@composite(numpy=np.roots)
@on_its_gpu
def roots(p: Any) -> Any:
    """The complex roots of p (n + 1,): eigenvalues of its companion matrix, as in NumPy.

    The first coefficient must not be 0 (LinAlgError). Not differentiable where roots coincide.
    """
    p = as_floating(_vector("roots", p))
    n = p.size - 1
    if n < 1:
        return op.astype(p[:0], dtype=np.result_type(p.dtype, np.complex64))
    if (raw(p)[..., 0] == 0).any():
        raise np.linalg.LinAlgError("roots: the first coefficient is 0; cut leading zeros off")
    first = op.expand_dims(-p[1:] / p[0], axis=0)
    below = constant_like(np.eye(n - 1, n, dtype=p.dtype), p)
    return op.eigvals(op.concatenate([first, below], axis=0))


@composite(numpy=np.polyfit)
@on_its_gpu
def polyfit(
    x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None,
    cov: bool | str = False,
) -> Any:  # fmt: skip
    """The coefficients p (deg + 1,) that minimise Σ w² (y − p(x))²: least squares, as in NumPy

    y (n,) or (n, k) for k polynomials at once; x (n,). Differentiable in x, y and w.
    full=True: (p, residuals, rank, singular values, rcond) of the scaled problem. cov=True: (p, V),
    V (deg + 1, deg + 1) or (…, k) the covariance of p, where the variance of y is estimated by
    Σ w² (y − p(x))² / (n − deg − 1); cov="unscaled": where it is 1/w².
    """
    x, y = as_floating(array_like(x)), as_floating(array_like(y))
    if deg < 0 or x.ndim != 1 or y.ndim not in (1, 2) or len(x) != len(y) or not len(x):
        raise ValueError(
            f"polyfit: needs deg ≥ 0, points x (n,) and values y (n,) or (n, k); got deg={deg}, "
            f"x {x.shape}, y {y.shape}"
        )
    columns = op.vander(x, deg + 1)
    if w is not None:
        w = as_floating(array_like(w))
        columns = columns * op.expand_dims(w, axis=1)
        y = y * (w if y.ndim == 1 else op.expand_dims(w, axis=1))
    size = op.sqrt(op.sum(op.square(columns), axis=0))
    scale = op.where(size == 0, 1, size)
    scaled = columns / scale
    rcond = len(x) * float(finfo(x.dtype).eps) if rcond is None else constant_array(rcond)
    found = op.lstsq(scaled, y, rcond=rcond)
    p = found[0] / (scale if y.ndim == 1 else op.expand_dims(scale, axis=1))
    if full:
        return p, *found[1:], rcond
    return (p, _covariance(scaled, scale, found.residuals, y.shape, cov)) if cov else p


def _covariance(scaled: Any, scale: Any, residuals: Any, shape: tuple, cov: Any) -> Any:
    """The covariance of coefficients that were fitted to values of this shape."""
    n, order = scaled.shape
    v = op.inv(op.matmul(op.transpose(scaled), scaled)) / op.outer(scale, scale)
    v = v if len(shape) == 1 else op.expand_dims(v, axis=2)
    if cov == "unscaled":
        return v
    if n <= order:
        raise ValueError(
            f"polyfit: cov=True estimates the variance of y from what {order} coefficients leave "
            f"of {n} values, which is nothing; give more values, or cov='unscaled'"
        )
    return v * (residuals / (n - order))
