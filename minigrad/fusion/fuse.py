"""mg.fuse: a function of elementwise ops as one op, forward and backward each one pass.

The derivative is not written anywhere. The engine differentiates the function on symbols, as it
would on arrays; the result is one more program. Its derivative is found the same way.
"""

from collections.abc import Callable
from functools import cached_property, update_wrapper
from math import prod
from typing import Any

import numpy as np

from ..backends.caches import Cache
from ..backends.device import array_module
from ..engine.errors import describe
from ..engine.graph import Leaf, raw, wrap
from ..engine.plan import Rule
from ..engine.primitive import Primitive
from ..engine.registry import op as registry
from ..expressions.blocks import Program
from ..expressions.trace import NotFusible, holds_for, trace
from ..modes.recording import enable_grad
from ..ops.axes import sum_to
from ..tensor_api.derivatives import grad
from ..tensor_api.tensor import Tensor
from . import launch
from .outside import Outside, Unknown

programs = Cache("fused programs", max_entries=512)
_VERSIONS = 8  # programs of one function, for different values read from outside
_NUMBERS = (bool, int, float, complex)


def fuse(fn: Callable) -> Callable:
    """fn, a function of arrays composed of elementwise ops (and sums along the last axis), as one
    op.

        @mg.fuse
        def swish_tanh(x, y):
            return x * mg.sigmoid(x) + mg.tanh(y)

    Forward and gradient then run without temporaries. On a GPU each is one kernel; on the host they
    run on all cores, in blocks that stay in cache. Results agree with fn's to rounding (16-bit
    floats are rounded once, at the end). Arguments broadcast; each is a tensor, an array or a
    number. Inside func transforms, and where fn cannot be fused, fn runs unfused. It cannot be
    fused with an index, a branch on a value, a look at a shape, or a reduction over another axis.
    Nor can it be with several results, an argument by keyword, or a result whose shape is not the
    arguments' broadcast shape.

    Each call compares the numbers, strings and functions that fn reads from its closure and from
    global names, also in tuples, lists and dicts. If they differ, another program is made.
    Attributes of other objects are not compared. A program keeps their values from its recording at
    the first call, and its gradient those from the first backward. Give them as arguments. After
    eight changes fn runs unfused.
    """
    if not callable(fn):
        raise TypeError(f"fuse takes a function of arrays, got {describe(fn)}")
    outside, versions = Outside(fn), {}

    def call(*args: Any, **named: Any) -> Any:
        fits = args and not named and not any(map(_unfit, args))
        fused = _version(fn, outside, versions) if fits else None
        if fused is None or not fused.takes(args):
            return fn(*args, **named)
        y = fused.primitive_of(len(args))(*args)
        return y[0] if isinstance(y, tuple) else y

    return update_wrapper(call, fn)


def _unfit(x: Any) -> bool:
    """Whether x is neither an array, nor a tensor outside transforms, nor a number."""
    return bool(getattr(x, "level", 0)) or not (hasattr(x, "dtype") or isinstance(x, _NUMBERS))


def _version(fn: Callable, outside: Outside, versions: dict) -> "_Fused | None":
    """The fused function for fn's present reads from outside; None where these change too often."""
    try:
        values = outside.values()
    except Unknown:
        return None
    found = versions.get(values)
    if found is None and len(versions) < _VERSIONS:
        found = versions[values] = _Fused(outside.keeping(fn), _name_of(fn), 1)
    return found


def _name_of(fn: Callable) -> str:
    return getattr(fn, "__name__", type(fn).__name__)  # a partial has no name


class _Fused:
    """A function with `outputs` results as an op for each number of arguments."""

    def __init__(self, fn: Callable, name: str, outputs: int):
        self.fn, self.name, self.outputs = fn, name, outputs
        self._primitives: dict[int, Primitive] = {}

    def takes(self, values: tuple) -> bool:
        """Whether a program of one element or row represents fn on such values."""
        values = tuple([raw(x) for x in values])
        kinds = [(x.shape, x.dtype) if hasattr(x, "dtype") else type(x) for x in values]

        def asked() -> bool:
            arrays = _arrays(values)
            return holds_for(self.fn, [x.dtype for x in arrays], [x.shape for x in arrays])

        return programs.get_or_make((self, "takes", *kinds), asked)

    def primitive_of(self, count: int) -> Primitive:
        if count not in self._primitives:
            self._primitives[count] = self._made(count)
        return self._primitives[count]

    def _made(self, count: int) -> Primitive:
        names = [f"x{i}" for i in range(count)]
        outputs = self.outputs if self.outputs > 1 else 0
        entry = Primitive(self._forward, self.name, names, outputs=outputs)

        def rule(g: Any, *values: Any) -> list:
            *xs, needs = values
            gs = list(g) if outputs else [g]
            like = next(x for x in gs if x is not None)
            gs = [np.zeros_like(like) if x is None else x for x in gs]
            pulled = self.pullback.primitive_of(self.outputs + count)(*gs, *xs)
            pulled = pulled if isinstance(pulled, tuple) else (pulled,)
            return [
                _conforming(c, x) if need else None
                for c, x, need in zip(pulled, xs, needs, strict=True)
            ]

        entry.joint = Rule(rule, ("g", *names, "needs"))
        return entry

    @cached_property
    def pullback(self) -> "_Fused":
        """(cotangents, arguments) -> the arguments' gradients, in the shape of the results."""
        outputs = self.outputs

        def pulled(*values: Any) -> Any:
            gs, xs = values[:outputs], values[outputs:]
            with enable_grad():
                shape = np.broadcast_shapes(*[np.shape(x) for x in values])
                leaves = [_inside(x, shape) for x in xs]
                ys = self.fn(*leaves)
                ys = list(ys) if isinstance(ys, tuple | list) else [ys]
                pairs = [(y, g) for y, g in zip(ys, gs, strict=True) if isinstance(y, Tensor)]
                pairs = [(y, g) for y, g in pairs if y.node is not None]
                if not pairs:
                    return [np.zeros_like(leaf.data) for leaf in leaves]
                roots, seeds = zip(*pairs, strict=True)
                seeds = [g if isinstance(g, Tensor) else wrap(g) for g in seeds]
                recorded = any(isinstance(x, Tensor) for x in values)
                found = grad(list(roots), leaves, seeds, create_graph=recorded, allow_unused=True)
            gxs = [
                np.zeros_like(leaf.data) if g is None else g
                for leaf, g in zip(leaves, found, strict=True)
            ]
            return gxs if recorded else [raw(g) for g in gxs]

        return _Pullback(pulled, f"{self.name}_gradient", outputs)

    def _forward(self, *arrays: Any) -> Any:
        """One kernel or one pass over blocks; fn itself where it cannot be fused."""
        ys = self._run(arrays)
        if ys is None:
            ys = self.fn(*arrays)
            ys = list(ys) if isinstance(ys, tuple | list) else [ys]
            shape = np.broadcast_shapes(*[np.shape(x) for x in arrays])
            ys = [np.broadcast_to(y, shape) if np.shape(y) != shape else y for y in ys]
        return tuple(ys) if len(ys) > 1 else ys[0]

    def _run(self, values: tuple) -> list | None:
        arrays = _arrays(values)
        if array_module(arrays[0]) is not np:
            return launch.run((self, len(values)), self.fn, arrays)
        if launch.host is not None and launch.host.takes(arrays):
            found = launch.run((self, len(values)), self.fn, arrays)
            if found is not None:
                return found
        shape = np.broadcast_shapes(*[x.shape for x in arrays])
        arrays = [x if x.flags.c_contiguous else np.ascontiguousarray(x) for x in arrays]
        kinds = [_block_kind(x.shape, shape) for x in arrays]
        key = (self, tuple(kinds), *[x.dtype for x in arrays])
        program = programs.get(key)
        if program is None:
            try:
                inputs, found = trace(self.fn, [x.dtype for x in arrays])
                program = Program(inputs, found, kinds)
            except NotFusible as reason:
                program = reason
            programs.put(key, program)
        if isinstance(program, NotFusible):
            return None
        return program(arrays, shape)


class _Pullback(_Fused):
    """A gradient: as many results as the function it belongs to has arguments."""

    def __init__(self, fn: Callable, name: str, cotangents: int):
        super().__init__(fn, name, 1)
        self.cotangents = cotangents

    def primitive_of(self, count: int) -> Primitive:
        self.outputs = count - self.cotangents
        return super().primitive_of(count)


def _conforming(c: Any, x: Any) -> Any:
    """A contribution in the shape and dtype of the argument it belongs to."""
    c = sum_to(c, np.shape(x))
    return c if c.dtype == x.dtype else c.astype(x.dtype)


def _block_kind(own: tuple, shape: tuple) -> str | None:
    """How blocks.py reads an array of shape `own`: "full", "one", "row" or "line"."""
    place = launch.kind_of(own, shape)
    if place is None or place[0] != "part":
        return place and place[0]
    s, n = place[1]
    if s == 1:
        return "row" if n == shape[-1] else None
    return "line" if s == shape[-1] and s * n == prod(shape) else None


def _arrays(values: tuple) -> list:
    """The values as arrays of one device; a Python number is weak and takes the others' dtype."""
    given = [x for x in values if hasattr(x, "dtype")]
    xp: Any = next((array_module(x) for x in given if array_module(x) is not np), np)
    dtype = np.result_type(*[x.dtype for x in given]) if given else None
    return [
        x if hasattr(x, "dtype") else xp.full((), x, dtype and np.result_type(dtype, x))
        for x in values
    ]


def _inside(x: Any, shape: tuple) -> Tensor:
    """x, broadcast to the results' shape, as a tensor of the inner differentiation.

    Its derivative by an outer tensor stays linked.
    """
    if x.shape != shape:
        x = registry.broadcast_to(x, shape=shape)
    if isinstance(x, Tensor) and x.node is not None:
        return registry.positive(x)
    leaf = wrap(x.data if isinstance(x, Tensor) else x)
    leaf.node = Leaf(leaf)
    return leaf
