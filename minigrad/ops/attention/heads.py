"""Query, key and value split into heads and joined again: one op each, not one for each slice.

Three slices of one array would have three gradients, zero but for a third each, and two additions.
"""

from typing import Any

import numpy as np

from ...backends.device import array_module
from ...backends.dtypes import common_dtype
from ...engine.primitive import linear
from ..batching import apart, full, merged


def by_part(x: Any, time: int) -> Any:
    """x (L, N, 3, heads, d) as (3, N, heads, L, d), a view; with time=1 x begins with (N, L)."""
    return x.transpose((2, 1 - time, 3, time, 4))


def parts_of(x: Any, heads: int, time: int) -> Any:
    """x (L, N, 3·heads·d) as (3, N, heads, L, d), a view; with time=1 x begins with (N, L)."""
    if x.ndim != 3 or x.shape[2] % (3 * heads):
        raise ValueError(f"x must be (L, N, 3·heads·d) with heads={heads}; got {x.shape}")
    return by_part(x.reshape((*x.shape[:2], 3, heads, x.shape[2] // (3 * heads))), time)


def by_head(y: Any, heads: int, time: int) -> Any:
    """y (L, N, heads·d) as (N, heads, L, d), a view; with time=1 y begins with (N, L)."""
    y = y.reshape((*y.shape[:2], heads, y.shape[2] // heads))
    return y.transpose((1 - time, 2, time, 3))


@linear(outputs=3, view=True)
def split_heads(x, *, heads, time=0):
    """(q, k, v), each (N, heads, L, d), of x (L, N, 3·heads·d) ;  gx = join_heads(gq, gk, gv)

    time: the axis of x that is L; with time=1 x is (N, L, 3·heads·d). Views.
    """
    parts = parts_of(x, heads, time)
    return parts[0], parts[1], parts[2]


@split_heads.vjp("x")
def split_heads_gx(g, time):
    some = next(part for part in g if part is not None)
    return join_heads(*[np.zeros_like(some) if part is None else part for part in g], time=time)


@linear
def join_heads(q, k, v, *, time=0):
    """x (L, N, 3·heads·d), or (N, L, …) with time=1, of q, k, v (N, heads, L, d)

    (gq, gk, gv) = split_heads(gx)
    """
    if not q.shape == k.shape == v.shape or q.ndim != 4:
        raise ValueError(
            f"q, k and v must have one shape (N, heads, L, d); got {q.shape}, {k.shape}, {v.shape}"
        )
    n, heads, length, d = q.shape
    lead = (n, length) if time else (length, n)
    x = array_module(q).empty((*lead, 3, heads, d), common_dtype(q.dtype, k.dtype, v.dtype))
    for place, part in zip(by_part(x, time), (q, k, v), strict=True):
        place[...] = part
    return x.reshape((*lead, 3 * heads * d))


@join_heads.vjp
def join_heads_gradients(g, q_shape, time):
    return split_heads(g, heads=q_shape[1], time=time)


# -- batch rules: the examples B join the batch N ------------------------------------------------


@split_heads.batch
def split_heads_batch(op_, xs, batched, params):
    (x,), at = xs, 1 - params["time"]
    lead = x.shape[0], x.shape[1 + at]
    return tuple([apart(y, lead) for y in op_(merged(x, at), **params)])


@join_heads.batch
def join_heads_batch(op_, xs, batched, params):
    parts = full(xs, batched)
    y = op_(*map(merged, parts), **params)
    return apart(y, parts[0].shape[:2], at=1 - params["time"])
