"""vmap: a function of one example, run on a batch of them in one go.

Inside, a tensor hides its batch axis: its data has the axis in front, its shape does not show it.
An op's batch rule says how to run it once on such data; an elementwise op only needs its arguments
aligned. An op with no batch rule runs once for each example, and says so in a warning.
"""

import warnings
from collections.abc import Callable
from typing import Any

from ..core.create import as_tensor
from ..core.errors import TransformError
from ..core.registry import op as ops
from ..core.tensor import Tensor, wrap
from . import tree
from .levels import as_result, new_level

__all__ = ["VmapWarning", "vmap"]


class VmapWarning(UserWarning):
    """vmap ran an op once for each example, because the op has no batch rule."""


class Batched(Tensor):
    """A value with a hidden batch axis in front."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape[1:]

    @property
    def ndim(self) -> int:
        return self.data.ndim - 1

    @property
    def size(self) -> int:
        return self.data.size // max(self.data.shape[0], 1)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __bool__(self) -> bool:
        raise TransformError(
            "inside vmap the truth of a tensor differs from example to example; "
            "write mg.where(condition, a, b) instead of `if`"
        )

    @classmethod
    def run_at_level(cls, watch: Any, op: Any, args: tuple, params: dict) -> None:
        """Run the op once for the whole batch."""
        batched = [type(x) is cls for x in args]
        xs = [x.data if b else x for x, b in zip(args, batched, strict=True)]
        if op.batch_rule is not None:
            y = op.batch_rule(op, xs, batched, {**op.defaults, **params})
        elif op.kind == "elementwise":
            y = op(*align(xs, batched), **params)
        else:
            y = one_by_one(op, xs, batched, params)
        several = isinstance(y, tuple)
        watch.result = tuple(wrap(a, None, cls) for a in y) if several else wrap(y, None, cls)


def align(xs: list, batched: list[bool]) -> list:
    """Unit axes behind the batch axis, so that the examples broadcast as they do one by one."""
    ndim = max(_ndim(x) - b for x, b in zip(xs, batched, strict=True))
    return [
        ops.reshape(x, shape=(x.shape[0],) + (1,) * (ndim + 1 - x.ndim) + x.shape[1:])
        if b and x.ndim <= ndim
        else x
        for x, b in zip(xs, batched, strict=True)
    ]


def _ndim(x: Any) -> int:
    return getattr(x, "ndim", 0)


def one_by_one(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """The op on each example in turn, the results stacked."""
    warnings.warn(
        f"{op.name} has no batch rule, so vmap runs it once for each example; "
        f"give it one with @{op.name}.batch",
        VmapWarning,
        stacklevel=6,
    )
    size = next(x.shape[0] for x, b in zip(xs, batched, strict=True) if b)
    ys = [
        op(*[x[i] if b else x for x, b in zip(xs, batched, strict=True)], **params)
        for i in range(size)
    ]
    if isinstance(ys[0], tuple):
        return tuple(ops.stack(list(column)) for column in zip(*ys, strict=True))
    return ops.stack(ys)


def vmap(fn: Callable, in_axes: Any = 0, out_axes: int = 0) -> Callable:
    """fn for single examples -> a function of batches.

    in_axes   which axis of each argument counts the examples: an int, or one for each argument,
              None for an argument that all examples share; it holds for every leaf of the argument
    out_axes  where the batch axis stands in the results
    """

    def transformed(*args: Any) -> Any:
        axes = in_axes if isinstance(in_axes, tuple | list) else (in_axes,) * len(args)
        if len(axes) != len(args):
            raise TransformError(f"vmap: in_axes has {len(axes)} entries for {len(args)} arguments")
        _batch_size(args, axes)
        with new_level(Batched) as kind:
            inputs = [
                arg if axis is None else tree.tree_map(lambda x, a=axis: _enter(x, a, kind), arg)
                for arg, axis in zip(args, axes, strict=True)
            ]
            size = _batch_size(args, axes)
            returned = fn(*inputs)
            return tree.tree_map(lambda y: _leave(y, size, out_axes, kind), returned)

    return transformed


def _enter(x: Any, axis: int, kind: type) -> Tensor:
    x = as_tensor(x)
    return wrap(x if axis == 0 else ops.moveaxis(x, source=axis, destination=0), None, kind)


def _leave(y: Any, size: int, axis: int, kind: type) -> Tensor:
    if type(y) is not kind:  # the same for every example
        y = as_tensor(y)
        y = ops.broadcast_to(y, shape=(size, *y.shape))
    else:
        y = as_result(y.data)
    return y if axis == 0 else ops.moveaxis(y, source=0, destination=axis)


def _batch_size(args: tuple, axes: tuple | list) -> int:
    """The number of examples, the same in every mapped argument."""
    sizes = {
        as_tensor(x).shape[axis]
        for arg, axis in zip(args, axes, strict=True)
        if axis is not None
        for x in tree.leaves(arg)
    }
    if len(sizes) != 1:
        raise TransformError(
            f"vmap: the mapped arguments must agree in their number of examples, got "
            f"{sorted(sizes) or 'none'}; in_axes={tuple(axes)}"
        )
    return sizes.pop()
