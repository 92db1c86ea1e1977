"""Batch rules that many ops share: an op on examples, run once with a hidden batch axis in front.

A rule gets the op, its inputs (with the batch axis first where `batched`) and its parameters. It
returns the result with the batch axis first. Axes of an example lie one further back in a batch.
"""

from math import prod
from typing import Any

import numpy as np

from ..engine.registry import op as ops
from .axes import axes_of, axis_of


def behind(axis: Any, ndim: int) -> Any:
    """An axis (int, tuple, None for all) of an example of ndim axes, as an axis of the batch.

    Of a number, which has axis 0 for NumPy's reductions, it is not an axis: the empty tuple.
    """
    if axis is None:
        return tuple(range(1, ndim + 1))
    moved = tuple([a + 1 for a in axes_of(axis, ndim)])
    return moved if isinstance(axis, tuple) or not moved else moved[0]


def reduction(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """One array and an `axis` of which None means all axes: sum, max, flip ..."""
    (x,) = xs
    return op(x, **{**params, "axis": behind(params["axis"], x.ndim - 1)})


def along(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """One array and one `axis`, of which None means the array flattened: cumsum, argmax ..."""
    (x,), axis = xs, params["axis"]
    if axis is None:
        # argmax with keepdims keeps every axis of the example
        ones = (1,) * (x.ndim - 2) if params.get("keepdims") else ()
        x, axis = ops.reshape(x, shape=in_examples(x, (*ones, -1))), len(ones)
        return op(x, **{**params, "axis": 1 + axis})
    if x.ndim == 1:  # examples without axes, which NumPy takes for vectors of one element
        y = op(ops.reshape(x, shape=(-1, 1)), **{**params, "axis": 1 + axis_of(axis, 1)})
        return ops.reshape(y, shape=(-1,)) if params.get("keepdims") else y
    return op(x, **{**params, "axis": behind(axis, x.ndim - 1)})


def both_along(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """Two arrays of one shape and one `axis` of theirs: linear_recurrence, weighted_logsumexp."""
    a, b = full(xs, batched)
    return op(a, b, **{**params, "axis": behind(params["axis"], a.ndim - 1)})


def needs_axes(op: Any, xs: list, batched: list[bool], *least: int) -> None:
    """ValueError where an example has fewer axes than `least` says, one number for each input.

    Its batch would have enough of them, and the op would take the examples for one of its axes.
    """
    for name, x, is_batch, asked in zip(op.arrays, xs, batched, least, strict=False):
        ndim = np.ndim(x) - is_batch
        if ndim < asked:
            raise ValueError(
                f"{op.name} under vmap: {name} has {ndim} axes in each example and needs at least "
                f"{asked}; expand_dims gives it one, or in_dims=None makes all examples share it"
            )


def full(xs: list, batched: list[bool]) -> list:
    """The inputs, those that all examples share repeated (as views) along a batch axis."""
    size = next(x.shape[0] for x, b in zip(xs, batched) if b)
    return [
        x if b else ops.broadcast_to(x, shape=(size, *np.shape(x))) for x, b in zip(xs, batched)
    ]


def one_more_axis(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """Ops of one array with any number of leading axes, or of its elements: a batch is one more."""
    return op(*xs, **params)


def one_more_of_all(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """Ops of several arrays that share any number of leading axes: a batch is one more of each."""
    return op(*full(xs, batched), **params)


def align(xs: list, batched: list[bool]) -> list:
    """Unit axes after the batch axis: the examples then broadcast as they do one by one."""
    ndim = max(getattr(x, "ndim", 0) - b for x, b in zip(xs, batched, strict=True))
    return [
        ops.reshape(x, shape=(x.shape[0], *(1,) * (ndim + 1 - x.ndim), *x.shape[1:]))
        if b and x.ndim <= ndim
        else x
        for x, b in zip(xs, batched, strict=True)
    ]


def joining(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """Several arrays and an `axis` of the result."""
    xs = full(xs, batched)
    ndim = xs[0].ndim - (op.name == "concatenate_arrays")
    return op(*xs, **{**params, "axis": 1 + axis_of(params["axis"], ndim)})


def merged(x: Any, at: int = 0) -> Any:
    """The examples as more entries along axis `at` of one, which is 0 or 1.

    (B, N, …) becomes (B N, …), with at=1 (B, T, N, …) becomes (T, B N, …).
    """
    x = ops.swapaxes(x, axis1=0, axis2=1) if at else x
    return ops.reshape(x, shape=(*x.shape[:at], x.shape[at] * x.shape[at + 1], *x.shape[at + 2 :]))


def apart(y: Any, lead: tuple, at: int = 0) -> Any:
    """`merged` undone; lead: (B, N)."""
    y = ops.reshape(y, shape=(*y.shape[:at], *lead, *y.shape[at + 1 :]))
    return ops.swapaxes(y, axis1=0, axis2=1) if at else y


def flat(x: Any) -> Any:
    """Each example as one axis."""
    return ops.reshape(x, shape=in_examples(x, (-1,)))


def in_examples(x: Any, shape: tuple) -> tuple:
    """The shape of the batch x where each example has `shape`: of no examples −1 says nothing."""
    size, others = prod(x.shape[1:]), prod([n for n in shape if n != -1])
    if others and size % others == 0 and shape.count(-1) == 1:
        shape = tuple([size // others if n == -1 else n for n in shape])
    return (x.shape[0], *shape)


def each_in_turn(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """The op on each example by itself, the results stacked."""
    size = next(x.shape[0] for x, b in zip(xs, batched, strict=True) if b)
    if not size:
        return of_none(op, xs, batched, params)
    ys = [
        op(*[x[i] if b else x for x, b in zip(xs, batched, strict=True)], **params)
        for i in range(size)
    ]
    if isinstance(ys[0], tuple):
        return tuple([ops.stack(list(column)) for column in zip(*ys, strict=True)])
    return ops.stack(ys)


def of_none(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """The result for a batch of no example: an example of zeros tells its shape and dtype."""
    pairs = zip(xs, batched, strict=True)
    y = op(*[ops.sum(x, axis=0, dtype=x.dtype) if b else x for x, b in pairs], **params)
    if isinstance(y, tuple):
        return tuple([ops.expand_dims(a, axis=0)[:0] for a in y])
    return ops.expand_dims(y, axis=0)[:0]
