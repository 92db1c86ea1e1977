"""The vjp of an elementwise op for a large cotangent: contributions in blocks, or deferred.

A contribution need not be computed at once. If its parent is another elementwise node, that node's
own rules take it block by block; several contributions are added. Each block of a deferred
contribution is computed in the cache just before its use, and the whole is never written to memory.
So the backward of tanh(x) * gelu(x) + x / 2 writes one array of the size of x in place of three.

The calls that compute it are an op's own rules and sums, in a list; `Calls` (expressions/blocks.py)
makes them on each block. Nothing is generated or recorded.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from operator import truediv
from typing import Any, NamedTuple

import numpy as np

from ..backends import blocks
from ..backends.cuts import Cut, along_memory
from ..engine import modes
from ..engine.rule import Rule
from ..expressions.blocks import Calls, Ref
from .blocked import axes_of, cut_of, piecewise

PASSED = object()  # in place of a rule: the contribution is g itself
FREE = {"g": PASSED, "None": None}  # the marker of a contribution with this source
MOST = 6  # arrays that a lazy cotangent may read: their blocks share a cache


class BlockRule(NamedTuple):
    """One contribution: fn(g, *values) makes it, fill(g, *values, out=y) writes it into y.

    y may be g itself.

    positions  which of the saved values these are
    scales     whether the rule only multiplies or divides g, once
    """

    fn: Callable
    fill: Callable
    positions: tuple[int, ...]
    scales: bool

    def of(self, saved: Sequence) -> list:
        """The values that the rule reads."""
        return [saved[k] for k in self.positions]

    def call(self, g: Any, saved: Sequence, y: Any) -> tuple:
        """The rule as one of `Calls`; y is the contribution's name."""
        return self.fill, [_named(x) for x in (g, *self.of(saved))], y

    def keeps_dtype(self, g: Any, saved: Sequence, cut: Cut) -> bool:
        """Whether the rule keeps g's dtype: a trial on ones and the first few entries tells."""
        block = np.ones(cut.corner_shape, g.dtype) if g.shape else g
        values = [cut.views[id(x)][cut.corner] if axes_of(x) else x for x in self.of(saved)]
        y = self.fn(block, *values)
        return type(y) is np.ndarray and y.dtype == g.dtype and y.shape == cut.corner_shape


def block_rule(rule: Rule, call: str, names: tuple[str, ...]) -> BlockRule:
    """The op's own rule for blocks: one ufunc writes a product or quotient into y, others copy.

    call: the contribution's source (codegen.py); names: of the saved values v0, v1 …
    """
    run, reads = rule.run, [name for name in rule.names if name != "g"]
    positions = tuple([names.index(name) for name in reads])
    if rule.partial:
        return BlockRule(
            lambda g, *values: g * run(*values),
            lambda g, *values, out: np.multiply(g, run(*values), out),
            positions, True,
        )  # fmt: skip
    if [call] == [f"g / v{k}" for k in positions]:  # the rule is only this division
        return BlockRule(truediv, np.divide, positions, True)
    order = [["g", *reads].index(name) for name in rule.names]

    def fn(*blocks: Any) -> Any:
        return run(*[blocks[k] for k in order])

    def fill(*blocks: Any, out: Any) -> None:
        out[...] = fn(*blocks)

    return BlockRule(fn, fill, positions, False)


# -- lazy cotangents -------------------------------------------------------------------------------


class LazyCotangent:
    """A cotangent of this shape and dtype that is not computed yet.

    calls   compute it on a block (expressions/blocks.py); the last one gives the result
    arrays  their inputs, by id, all of one shape and memory order
    """

    __slots__ = ("calls", "arrays", "shape", "dtype", "size")

    def __init__(self, calls: list[tuple], arrays: dict[int, Any], shape: tuple, dtype: Any):
        self.calls, self.arrays, self.shape, self.dtype = calls, arrays, shape, dtype
        self.size = math.prod(shape)

    @property
    def name(self) -> Any:
        """The name of the value that the calls make; each may write over it."""
        return self.calls[-1][-1]

    def materialise(self) -> np.ndarray:
        cut: Any = along_memory([*self.arrays.values()], blocks.BLOCK)
        return _computed([self.name], self.calls, cut, self.dtype)[0]

    def added(self, c: Any) -> Any:
        """The sum with a further contribution, in the order in which they came."""
        if isinstance(c, LazyCotangent):
            add = np.add, [_named(self), _named(c)], self.name
            calls = [*self.calls, *c.calls, add]
            return LazyCotangent(calls, self.arrays | c.arrays, self.shape, self.dtype)
        total = self.materialise()
        total += c
        return total


def _named(x: Any) -> Any:
    """An argument of a call: an array or a lazy cotangent by its name, anything else itself."""
    if isinstance(x, LazyCotangent):
        return Ref(x.name)
    return Ref(id(x)) if axes_of(x) else x


def _arrays_of(*values: Any) -> dict[int, Any]:
    """The arrays that blocks of these values read, by id."""
    found: dict[int, Any] = {}
    for x in values:
        found |= x.arrays if isinstance(x, LazyCotangent) else {id(x): x} if axes_of(x) else {}
    return found


def _computed(names: list, calls: list[tuple], cut: Cut, dtype: Any) -> list:
    """New arrays with the values of these names. All results of the calls have this dtype."""
    ys = [np.empty_like(cut.like, dtype) for _ in names]
    into = dict(zip(names, map(cut.view, ys), strict=True))
    inner = {y: (dtype, False) for *_, y in calls if y not in into}
    with cut.context:
        step = cut.pieces[0].stop
        Calls(calls, inner).run(cut.views | into, into[names[0]].shape, step, [])
    return ys


# -- the vjp -------------------------------------------------------------------------------------


class BlockedVjp:
    """`plan.blocked_vjp`: called as (g, saved, deferred), it returns the results of `vjp`.

    g         an array, or a LazyCotangent
    deferred  the contributions that are deferred, by position
    """

    def __init__(self, rules: list, calls: list[str], names: tuple[str, ...]):
        """For each parent a BlockRule, PASSED, or None where there is no contribution."""
        self.rules: list = [
            FREE[call] if call in FREE else block_rule(rule, call, names)
            for rule, call in zip(rules, calls, strict=True)
        ]
        self.positions = [i for i, rule in enumerate(self.rules) if isinstance(rule, BlockRule)]

    def __call__(
        self, g: Any, saved: Any, deferred: Mapping[int, LazyCotangent] | None = None
    ) -> list:
        found: list = [g if rule is PASSED else None for rule in self.rules]
        for i, c in (deferred or {}).items():
            found[i] = c
        now = [i for i in self.positions if found[i] is None]
        if now:
            rules = [self.rules[i] for i in now]
            for i, c in zip(now, contributions(rules, g, [*saved]), strict=True):
                found[i] = c
        return found

    def materialised(self, g: Any) -> Any:
        """g, computed if it is lazy and the contributions need more than its blocks."""
        return g.materialise() if isinstance(g, LazyCotangent) and PASSED in self.rules else g

    def deferred(
        self, i: int, g: Any, saved: Sequence, dtype: Any, held: Any
    ) -> LazyCotangent | None:
        """The contribution i, deferred; None where computing it now is as good.

        That is the case where
          - the parent's total would read more than MOST arrays,
          - these differ in shape or memory order, and cannot be cut together,
          - the contribution or g has another dtype than the parent,
          - several contributions would each compute g again.

        held: the parent's total so far, a LazyCotangent, or None
        """
        rule, lazy = self.rules[i], isinstance(g, LazyCotangent)
        if not isinstance(rule, BlockRule) or g.dtype != dtype or modes.state.plain is None:
            return None
        if lazy and len(self.positions) > 1:
            return None
        once = _without_repeats(g, saved, rule.scales)
        own = _arrays_of(once, *rule.of(saved))
        arrays = [*(own if held is None else own | held.arrays).values()]
        cut = along_memory(arrays, blocks.BLOCK) if own and len(arrays) <= MOST else None
        if cut is None or cut.like.shape != g.shape or not rule.keeps_dtype(once, saved, cut):
            return None
        calls, y = (g.calls, g.name) if lazy else ([], object())
        return LazyCotangent([*calls, rule.call(once, saved, y)], own, g.shape, dtype)


def contributions(rules: list[BlockRule], g: Any, saved: list) -> list:
    """The contributions by these rules, in blocks; g has one entry along an axis where it repeats.

    The rule of a sum returns such a cotangent, a view with stride 0 along that axis. It is
    contiguous in no order, which would prevent cutting the other arrays. A contribution of g alone
    repeats, too.
    """
    if isinstance(g, LazyCotangent):
        return _of_lazy(rules, g, saved) or contributions(rules, g.materialise(), saved)
    once = _without_repeats(g, saved, all(rule.scales for rule in rules))

    def fn(block: Any, *values: Any) -> list:
        return [rule.fn(block, *rule.of(values)) for rule in rules]

    def fill(ys: list, block: Any, *values: Any) -> None:
        for y, rule in zip(ys, rules, strict=True):
            rule.fill(block, *rule.of(values), out=y)

    computed = piecewise(fn, (once, *saved), {}, fill)
    if once is g:
        return computed
    return [c if c.shape == g.shape else np.broadcast_to(c, g.shape) for c in computed]


def _of_lazy(rules: list[BlockRule], g: LazyCotangent, saved: list) -> list | None:
    """The same in the blocks in which g is computed; None where the arrays cannot be cut like
    that."""
    arrays = [*_arrays_of(g, *saved).values()]
    cut = cut_of(None, arrays, g.size, 0, helped=True)
    if cut is None or not all(rule.keeps_dtype(g, saved, cut) for rule in rules):
        return None
    names = [*[object() for _ in rules[1:]], g.name]  # the last is written over g
    calls = [rule.call(g, saved, y) for rule, y in zip(rules, names, strict=True)]
    return _computed(names, [*g.calls, *calls], cut, g.dtype)


def _without_repeats(g: Any, saved: Sequence, scaled: bool) -> Any:
    """g with one entry along the axes where it repeats; without axes, if it is one number."""
    if type(g) is not np.ndarray or all(g.strides):
        return g
    shapes = [x.shape for x in saved if axes_of(x)]
    if shapes and not (scaled and all(shape == g.shape for shape in shapes)):
        return g
    if not any(g.strides):
        return g[(0,) * g.ndim + (...,)]
    return g[tuple([slice(None) if stride else slice(1) for stride in g.strides])]
