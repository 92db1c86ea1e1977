"""How some ops run on a hidden batch axis; those not named here have their rule in their own file.

A rule gets the op, its inputs (with the batch axis first where `batched`), and its parameters. It
returns the result with the batch axis first.
"""

from typing import Any

from ..engine.registry import op as ops
from ..ops.axes import axis_of
from ..ops.batching import align, behind, needs_axes


def _broadcast_to(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    (x,), shape = xs, tuple(params["shape"])
    x = ops.reshape(x, shape=(x.shape[0],) + (1,) * (len(shape) + 1 - x.ndim) + x.shape[1:])
    return op(x, shape=(x.shape[0], *shape))


def _transpose(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    ndim, axes = xs[0].ndim, params["axes"]
    if axes is None:
        return op(xs[0], axes=(0, *range(ndim - 1, 0, -1)))
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    return op(xs[0], axes=(0, *behind(axes, ndim - 1)))


def _swapaxes(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    first, second = (1 + axis_of(params[name], xs[0].ndim - 1) for name in ("axis1", "axis2"))
    return op(xs[0], axis1=first, axis2=second)


def _expand_dims(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    axis = params["axis"]
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return op(xs[0], axis=behind(axes, xs[0].ndim - 1 + len(axes)))


def _matmul(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """Vectors become one-column or one-row matrices, which batch by broadcasting."""
    needs_axes(op, xs, batched, 1, 1)
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


def _like(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    shape = params["shape"]
    if shape is not None:
        shape = (xs[0].shape[0], *((shape,) if isinstance(shape, int) else shape))
    return op(*xs, **{**params, "shape": shape})


_RULES = {
    _broadcast_to: "broadcast_to",
    _transpose: "transpose",
    _swapaxes: "swapaxes",
    _expand_dims: "expand_dims",
    _matmul: "matmul",
    _like: "zeros_like ones_like full_like empty_like",
}


def install() -> None:
    """Give each op above its batch rule, unless its own file has done so."""
    for rule, names in _RULES.items():
        for name in names.split():
            entry = getattr(ops, name) if name in ops else None
            if entry is not None and getattr(entry, "batch_rule", rule) is None:
                entry.batch_rule = rule
