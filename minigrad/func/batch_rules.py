"""How some ops run on a hidden batch axis; those not named here have their rule in their own file.

A rule gets the op, its inputs (the batch axis in front where `batched`), and its parameters, and
returns the result with the batch axis in front.
"""

from typing import Any

from ..core.registry import op as ops
from .batching import align


def _behind_batch(axis: Any, ndim: int) -> Any:
    """The same axis (int, tuple, None for all) of an example, counted with the batch axis."""
    if axis is None:
        return tuple(range(1, ndim))
    if isinstance(axis, int):
        return axis + 1 if axis >= 0 else axis
    return tuple(_behind_batch(a, ndim) for a in axis)


def _reduction(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    return op(xs[0], **{**params, "axis": _behind_batch(params["axis"], xs[0].ndim)})


def _broadcast_to(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    (x,), shape = xs, tuple(params["shape"])
    x = ops.reshape(x, shape=(x.shape[0],) + (1,) * (len(shape) + 1 - x.ndim) + x.shape[1:])
    return op(x, shape=(x.shape[0], *shape))


def _transpose(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    ndim = xs[0].ndim
    axes = params["axes"]
    axes = tuple(range(ndim - 1, 0, -1)) if axes is None else _behind_batch(tuple(axes), ndim)
    return op(xs[0], axes=(0, *axes))


def _swapaxes(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    ndim = xs[0].ndim
    first, second = (_behind_batch(params[name], ndim) for name in ("axis1", "axis2"))
    return op(xs[0], axis1=first, axis2=second)


def _expand_dims(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    axis = params["axis"]
    return op(xs[0], axis=_behind_batch(axis if isinstance(axis, int) else tuple(axis), 0))


def _matmul(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """Vectors become one-column or one-row matrices, which batch by broadcasting."""
    a, b = xs
    row, column = a.ndim - batched[0] == 1, b.ndim - batched[1] == 1
    if row:
        a = ops.expand_dims(a, axis=-2)
    if column:
        b = ops.expand_dims(b, axis=-1)
    y = op(*align([a, b], batched))
    if column:
        y = y[..., 0]
    if row:
        y = y[..., 0] if column else y[..., 0, :]
    return y


def _same_shape(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    return op(*align(xs, batched), **params)


_RULES = {
    _reduction: "softmax log_softmax",
    _broadcast_to: "broadcast_to",
    _transpose: "transpose",
    _swapaxes: "swapaxes",
    _expand_dims: "expand_dims",
    _matmul: "matmul",
    _same_shape: "where zeros_like ones_like full_like empty_like relu gelu",
}


def install() -> None:
    """Give each op above its batch rule, unless its own file has done so."""
    for rule, names in _RULES.items():
        for name in names.split():
            entry = getattr(ops, name) if name in ops else None
            if entry is not None and getattr(entry, "batch_rule", rule) is None:
                entry.batch_rule = rule
