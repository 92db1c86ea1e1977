"""Distances of vectors: of two arrays, and of all pairs of rows."""

from typing import Any

import numpy as np

from ..backends.dtypes import common_dtype
from ..engine.primitive import primitive
from ..engine.registry import op
from ..tensor_api.composite import composite
from ..tensor_api.tensor import Tensor
from .axes import array_like, as_floating, both_arrays, constant_like, sum_to, widen
from .batching import align, needs_axes
from .reduce.spread import p_norm, p_norm_dx

__all__ = ["cdist", "dist", "pdist", "row_distances"]


@composite
def dist(a: Any, b: Any, p: float = 2.0) -> Any:
    """‖a − b‖ₚ of all entries; its gradient at a = b is 0."""
    a, b = both_arrays(a, b)
    return op.vector_norm(a - b, ord=p)


@composite
def pdist(x: Any, p: float = 2.0) -> Any:
    """The distances ‖x_i − x_j‖ₚ of the pairs i < j of rows of x (n, d): n (n − 1)/2 numbers."""
    x = array_like(x)
    if x.ndim != 2:
        raise ValueError(f"pdist: x must be rows (n, d), got shape {x.shape}")
    i, j = (constant_like(k, x) for k in np.triu_indices(x.shape[0], 1))
    return op.vector_norm(op.take(x, i, axis=0) - op.take(x, j, axis=0), ord=p, axis=-1)


@composite
def cdist(a: Any, b: Any, p: float = 2.0) -> Any:
    """y[…, i, j] = ‖a_i − b_j‖ₚ for rows a (…, m, d) and b (…, n, d); of equal rows, gradient 0.

    As accurate as the differences are, also for rows that nearly agree: see row_distances. For
    complex rows, p = 0, p = ±inf and a tensor p all (…, m, n, d) differences are made at once.
    """
    a, b = (as_floating(array_like(x)) for x in (a, b))
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"cdist: a (…, m, d) and b (…, n, d) need rows of one length, got {a.shape}, {b.shape}"
        )
    unusual = isinstance(p, Tensor) or p in (0, np.inf, -np.inf)
    if unusual or "c" in (a.dtype.kind, b.dtype.kind):
        return op.vector_norm(_differences(a, b), ord=p, axis=-1)
    return op.row_distances(a, b, p=p)


def _differences(a: Any, b: Any) -> Any:
    return a[..., :, None, :] - b[..., None, :, :]


@primitive
def row_distances(a, b, p=2.0):
    """y[…, i, j] = (Σ_k |x_k|ᵖ)^(1/p), x = a_i − b_j, for real rows a (…, m, d) and b (…, n, d)

    ga_i = Σ_j g_ij x/|x| (|x|/y_ij)^(p−1), gb_j = −Σ_i of the same; 0 where x = 0 or y = 0.
    """
    a, b = as_floating(a), as_floating(b)
    if "c" in (a.dtype.kind, b.dtype.kind):
        raise TypeError(f"needs real rows, got {a.dtype}, {b.dtype}; cdist takes complex ones too")
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"needs rows of one length, got {a.shape} and {b.shape}")
    y = p_norm.forward(_differences(widen(a), widen(b)), axis=-1, p=p)
    return y.astype(common_dtype(a, b), copy=False)


@row_distances.vjp
def row_distances_gradients(g, a, b, y, p, needs):
    x = _differences(widen(a), widen(b))
    h = np.sign(x) * op.expand_dims(g, axis=-1) if p == 1 else p_norm_dx(g, x, y, -1, False, p)
    return [
        sum_to(op.sum(h, axis=-2), a.shape) if needs[0] else None,
        sum_to(-op.sum(h, axis=-3), b.shape) if needs[1] else None,
    ]


@row_distances.batch
def row_distances_batch(op_, xs, batched, params):
    """Leading axes broadcast: the batch axis goes before those of the input that has more."""
    needs_axes(op_, xs, batched, 2, 2)
    return op_(*align(xs, batched), **params)
