"""vmap: a function of one example, run on a batch of them in one go.

Inside, a tensor hides its batch axis: its data has the axis in front, its shape does not show it.
An op's batch rule says how to run it once on such data; an elementwise op only needs its arguments
aligned. An op with no batch rule runs once for each example, and says so in a warning.
"""

import warnings
from collections.abc import Callable
from math import prod
from typing import Any

from ..backends.pool import is_count
from ..engine.errors import RuleError, describe
from ..engine.graph import wrap
from ..engine.registry import op as ops
from ..errors import TransformError
from ..ops.batching import align, each_in_turn
from ..tensor_api.tensor import Tensor
from . import tree
from .indices import each_index
from .levels import NoLeaf, as_result, kept, named_after, new_level, value_of
from .randomness import POLICIES, RandomPolicy, drawing_the_same, run_random

__all__ = ["VmapWarning", "vmap"]


class VmapWarning(UserWarning):
    """vmap ran an op once for each example, because the op has no batch rule."""


class Batched(NoLeaf, Tensor):
    """A value with a hidden batch axis in front."""

    __slots__ = ()
    hides_axis = True
    has_value_below = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape[1:]

    @property
    def ndim(self) -> int:
        return self._data.ndim - 1

    @property
    def size(self) -> int:
        return prod(self._data.shape[1:])

    def __bool__(self) -> bool:
        raise TransformError(
            "inside vmap the truth of a tensor differs from example to example; write "
            "mg.where(condition, a, b) or mg.func.cond instead of `if`, and "
            "mg.func.while_loop instead of `while`"
        )

    def _no_value(self, *args: Any, **options: Any) -> Any:
        raise TransformError(
            "inside vmap a tensor has one value for each example, so it is not a Python number or "
            "NumPy array; compute with it as a tensor (mg.stack and mg.hstack join some, as "
            "np.array and np.r_ would), or return it from the mapped function"
        )

    each_index = staticmethod(each_index)

    item = tolist = numpy = _no_value
    __int__ = __float__ = __complex__ = __index__ = __array__ = _no_value

    @classmethod
    def run_at_level(cls, mode: Any, op: Any, args: tuple, params: dict) -> None:
        """Run the op once for the whole batch."""
        cls.require_life(op)
        batched = [type(x) is cls for x in args]
        xs = [x.data if b else x for x, b in zip(args, batched, strict=True)]
        if "generator" in op.defaults:
            y = run_random(cls, op, xs, batched, params)
        elif op.batch_rule is not None:
            y = op.batch_rule(op, xs, batched, {**op.defaults, **params})
        elif op.kind == "elementwise":
            xs = _repeated(xs, batched) if op.outputs else align(xs, batched)
            y = op(*xs, **params)
        else:
            y = one_by_one(op, xs, batched, params)
        several = isinstance(y, tuple)
        for a in y if several else (y,):
            if not hasattr(a, "dtype"):
                raise RuleError(
                    f"the batch rule of {op.name} returned {describe(a)}; it must return the "
                    "op's result, with the axis of the examples first",
                    op=op.name,
                )
        mode.result = tuple(wrap(a, None, cls) for a in y) if several else wrap(y, None, cls)


def _repeated(xs: list, batched: list[bool]) -> list:
    """The arrays among xs, each with the examples' axis. An op may have several outputs, one of
    which depends on shared values alone.
    """
    size = next(x.shape[0] for x, b in zip(xs, batched, strict=True) if b)
    arrays = [hasattr(x, "dtype") for x in xs]
    xs = [
        x if b or not a else ops.broadcast_to(x, shape=(size, *x.shape))
        for x, b, a in zip(xs, batched, arrays, strict=True)
    ]
    return align(xs, arrays)


def one_by_one(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """The op on each example in turn, the results stacked."""
    way = "a static method vmap" if hasattr(op, "function") else f"one with @{op.name}.batch"
    warnings.warn(
        f"{op.name} has no batch rule, so vmap runs it once for each example; give it {way}",
        VmapWarning,
        stacklevel=6,
    )
    return each_in_turn(op, xs, batched, params)


def vmap(
    fn: Callable,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
    in_axes: Any = ...,
    out_axes: Any = ...,
) -> Callable:
    """fn for single examples -> a function of batches.

    in_dims     which axis of each argument counts the examples: an int for all, or a tuple with an
                entry for each argument; None for an argument that all examples share. An entry may
                be a tree, with ints and None in place of branches of the argument.
    out_dims    which axis of each result is the batch axis, in the same way; None for a result that
                is the same for every example
    randomness  what a random op (mg.randn, dropout ...) does inside: "error", or draws that are
                "different" for every example, or the "same" for all
    chunk_size  at most this many examples at once, which bounds the memory
    in_axes, out_axes   other names of in_dims and out_dims

    Keyword arguments are shared by all examples.

        >>> import minigrad as mg
        >>> dot = mg.func.vmap(lambda row, v: row @ v, in_dims=(0, None))
        >>> dot(mg.tensor([[1.0, 2.0], [3.0, 4.0]]), mg.tensor([10.0, 1.0]))
        tensor([12., 34.])
    """
    in_dims = in_dims if in_axes is ... else in_axes
    out_dims = out_dims if out_axes is ... else out_axes
    if randomness not in POLICIES:
        raise TransformError(f"vmap: randomness is one of {POLICIES}, got {randomness!r}")
    if chunk_size is not None and not is_count(chunk_size):
        raise TransformError(
            f"vmap: chunk_size is a number of examples, at least 1, got {chunk_size!r}"
        )

    @named_after("vmap", fn)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        axes = _axes_of(args, in_dims)
        xs = [
            x if axis is None else value_of("vmap", x) for x, axis in zip(tree.leaves(args), axes)
        ]
        size = _batch_size(xs, axes, in_dims)
        xs = [x if a is None else _in_front(x, a) for x, a in zip(xs, axes)]

        def run(part: slice | None) -> Any:
            return _run(fn, tree.rebuild(args, _parts(xs, axes, part)), axes, kwargs, randomness)

        if chunk_size is None or size <= chunk_size:
            return _placed(out_dims, *run(None))
        if randomness == "same":
            run = drawing_the_same(run)
        starts = range(0, size, chunk_size)
        runs = [run(slice(start, start + chunk_size)) for start in starts]
        return _placed(out_dims, *_joined(runs))

    return transformed


def _axes_of(args: tuple, in_dims: Any) -> list:
    """The batch axis of every leaf of the arguments."""
    in_dims = tuple(in_dims) if isinstance(in_dims, list) else in_dims
    if isinstance(in_dims, tuple) and len(in_dims) != len(args):
        raise TransformError(f"vmap: in_dims has {len(in_dims)} entries for {len(args)} arguments")
    return tree.spread(in_dims, args, "in_dims")


def _batch_size(xs: list, axes: list, in_dims: Any) -> int:
    """The number of examples, the same in every mapped leaf."""
    sizes = set()
    for x, axis in zip(xs, axes, strict=True):
        if axis is not None:
            if not -x.ndim <= axis < x.ndim:
                raise TransformError(
                    f"vmap: in_dims asks for axis {axis} of a value {describe(x)}, which has no "
                    "such axis; None shares a value between all examples"
                )
            sizes.add(x.shape[axis])
    if len(sizes) != 1:
        raise TransformError(
            f"vmap: the mapped arguments must agree in their number of examples, got "
            f"{sorted(sizes) or 'none'}; in_dims={in_dims}"
        )
    return sizes.pop()


def _in_front(x: Any, axis: int) -> Any:
    return x if axis == 0 else ops.moveaxis(x, source=axis, destination=0)


def _parts(xs: list, axes: list, part: slice | None) -> list:
    """The examples of one chunk; shared values as they are."""
    if part is None:
        return xs
    return [x if axis is None else x[part] for x, axis in zip(xs, axes, strict=True)]


def _run(fn: Callable, args: tuple, axes: list, kwargs: dict, randomness: str) -> tuple:
    """(a tree like fn's result; each leaf as (value, whether it has the batch axis); the size)."""
    leaves = tree.leaves(args)
    size = next(x.shape[0] for x, axis in zip(leaves, axes, strict=True) if axis is not None)
    policy = RandomPolicy(randomness, size)
    with new_level(Batched, settings={"randomness": policy}) as kind:
        policy.kind = kind
        boxed = [x if axis is None else wrap(kept(x), None, kind) for x, axis in zip(leaves, axes)]
        returned = fn(*tree.rebuild(args, boxed), **kwargs)
        ys = [
            (as_result(y.data), True) if type(y) is kind else (value_of("vmap", y), False)
            for y in tree.leaves(returned)
        ]
        # a tensor still referred to when the level ends is so from outside
        returned = tree.rebuild(returned, [y for y, _ in ys])
    return returned, ys, size


def _joined(runs: list) -> tuple:
    """The runs of all chunks as one."""
    returned, first, _ = runs[0]
    joined = []
    for i, (y, batched) in enumerate(first):
        pieces = [run[1][i][0] for run in runs]
        joined.append((ops.concatenate(pieces) if batched else y, batched))
    return returned, joined, sum(run[2] for run in runs)


def _placed(out_dims: Any, returned: Any, ys: list, size: int) -> Any:
    """The results with their batch axes where out_dims says."""
    axes = tree.spread(
        tuple(out_dims) if isinstance(out_dims, list) else out_dims, returned, "out_dims"
    )
    placed = []
    for (y, batched), axis in zip(ys, axes, strict=True):
        if axis is None and batched:
            raise TransformError(
                "vmap: out_dims is None for a result that differs from example to example"
            )
        if axis is not None and not batched:  # the same for every example
            y = ops.broadcast_to(y, shape=(size, *y.shape))
        if axis is not None and not -y.ndim <= axis < y.ndim:
            raise TransformError(
                f"vmap: out_dims puts the examples on axis {axis} of a result that has {y.ndim} "
                "axes with it"
            )
        placed.append(y if not axis else ops.moveaxis(y, source=0, destination=axis))
    return tree.rebuild(returned, placed)
