"""What an elementwise op makes of a large cotangent: contributions in blocks, or deferred.

The op's own rules run on blocks; nothing is generated or recorded.

A contribution need not be computed at once. Where it goes to another elementwise node, that node's
own rules take it block by block; where several meet, they are added. Deferred, each block of it is
computed there, in the cache, just before it is used, and the whole is never written to memory. So
the backward of tanh(x) * gelu(x) + x / 2 writes one array of the size of x in place of three.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from operator import truediv
from typing import Any, NamedTuple

import numpy as np

from ..engine.rule import Rule
from .blocked import axes_of, piecewise

PASSED = object()  # instead of a rule: the contribution is g itself
FREE = {"g": PASSED, "None": None}  # what stands for a contribution of this source
MOST = 6  # arrays that a lazy cotangent may read: their blocks share a cache


class BlockRule(NamedTuple):
    """One contribution: fn(g, *values) makes it, fill(y, g, *values) writes it into y.

    y may be g itself.

    positions  which of the saved values these are
    scales     whether g is no more than multiplied or divided, once
    """

    fn: Callable
    fill: Callable
    positions: tuple[int, ...]
    scales: bool

    def of(self, saved: Sequence) -> list:
        """The values that the rule reads."""
        return [saved[k] for k in self.positions]


def block_rule(rule: Rule, call: str, names: tuple[str, ...]) -> BlockRule:
    """The op's own rule for blocks: one ufunc writes a product or quotient into y, others copy.

    call: the contribution's source (codegen.py); names: what the saved values v0, v1 … are
    """
    run, reads = rule.run, [name for name in rule.names if name != "g"]
    positions = tuple([names.index(name) for name in reads])
    if rule.partial:
        return BlockRule(
            lambda g, *values: g * run(*values),
            lambda y, g, *values: np.multiply(g, run(*values), y),
            positions, True,
        )  # fmt: skip
    if [call] == [f"g / v{k}" for k in positions]:  # all that the rule does
        return BlockRule(truediv, lambda y, g, b: np.divide(g, b, y), positions, True)
    order = [["g", *reads].index(name) for name in rule.names]

    def fn(*blocks: Any) -> Any:
        return run(*[blocks[k] for k in order])

    def fill(y: Any, *blocks: Any) -> None:
        y[...] = fn(*blocks)

    return BlockRule(fn, fill, positions, False)


# -- lazy cotangents -------------------------------------------------------------------------------


class LazyCotangent:
    """A cotangent of this shape and dtype that is not computed yet.

    fn(*blocks) computes a block of it from those of `arrays`; fill(y, *blocks) writes it into y.
    """

    __slots__ = ("arrays", "shape", "dtype", "size")

    def __init__(self, arrays: tuple, shape: tuple, dtype: Any):
        self.arrays, self.shape, self.dtype = arrays, shape, dtype
        self.size = math.prod(shape)

    def fn(self, *blocks: Any) -> Any:
        raise NotImplementedError

    def fill(self, y: Any, *blocks: Any) -> None:
        raise NotImplementedError

    def materialise(self) -> np.ndarray:
        def fill(ys: list, *blocks: Any) -> None:
            self.fill(ys[0], *blocks)

        return piecewise(self.fn, self.arrays, {}, fill, few=False)

    def added(self, c: Any) -> Any:
        """The sum with a further contribution."""
        if isinstance(c, LazyCotangent):
            return Sum(self, c)
        total = self.materialise()
        total += c
        return total


class Contribution(LazyCotangent):
    """rule.fn(g, *values); g: an array, one number in an array without axes, or a LazyCotangent."""

    __slots__ = ("rule", "g")

    def __init__(self, rule: BlockRule, g: Any, values: list, shape: tuple, dtype: Any):
        super().__init__((*_parts(g), *values), shape, dtype)
        self.rule, self.g = rule, g

    def fn(self, *blocks: Any) -> Any:
        g, values = _apart(self.g, blocks)
        return self.rule.fn(g, *values)

    def fill(self, y: Any, *blocks: Any) -> None:
        g, values = _apart(self.g, blocks, y)
        self.rule.fill(y, g, *values)


class Sum(LazyCotangent):
    """Two, added in the order in which they came."""

    __slots__ = ("first", "second")

    def __init__(self, first: LazyCotangent, second: LazyCotangent):
        super().__init__((*first.arrays, *second.arrays), first.shape, first.dtype)
        self.first, self.second = first, second

    def fn(self, *blocks: Any) -> Any:
        first, others = _apart(self.first, blocks)
        return first + self.second.fn(*others)

    def fill(self, y: Any, *blocks: Any) -> None:
        first, others = _apart(self.first, blocks, y)
        second = np.empty(y.shape, self.dtype)
        self.second.fill(second, *others)
        np.add(first, second, y)


def _parts(g: Any) -> tuple:
    """What a cotangent is made of."""
    return g.arrays if isinstance(g, LazyCotangent) else (g,)


def _apart(g: Any, blocks: tuple, into: Any = None) -> tuple[Any, tuple]:
    """(block of g, the other blocks), from blocks of what they are made of.

    into: a block that may be written over
    """
    if not isinstance(g, LazyCotangent):
        return blocks[0], blocks[1:]
    n = len(g.arrays)
    if into is None or into.dtype != g.dtype:
        return g.fn(*blocks[:n]), blocks[n:]
    g.fill(into, *blocks[:n])
    return into, blocks[n:]


# -- the vjp -------------------------------------------------------------------------------------


class BlockedVjp:
    """`plan.blocked_vjp`: called as (g, saved, deferred), it returns what `vjp` would.

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
        """The contribution i, deferred; None where it is as well computed now.

        That is where what is held for the parent would read more than MOST arrays, or these
        are not of one shape and so cannot be cut together, or where it or g is of another dtype
        than the parent, or each of several contributions would compute g for itself.

        held: what has arrived at the parent so far, a LazyCotangent, or None
        """
        rule = self.rules[i]
        if not isinstance(rule, BlockRule) or g.dtype != dtype:
            return None
        if isinstance(g, LazyCotangent) and len(self.positions) > 1:
            return None
        once = _without_repeats(g, saved, rule.scales)
        deferred = Contribution(rule, once, rule.of(saved), g.shape, dtype)
        arrays = [x for x in deferred.arrays if axes_of(x)]
        if not arrays or any(
            type(x) is not np.ndarray or x.shape != g.shape or not all(x.strides) for x in arrays
        ):
            return None
        all_arrays = arrays if held is None else [*arrays, *held.arrays]
        if len({id(x) for x in all_arrays if axes_of(x)}) > MOST:
            return None
        few = (*(slice(0, 1),) * (len(g.shape) - 1), slice(0, 2))
        start = deferred.fn(*[x[few] if axes_of(x) else x for x in deferred.arrays])
        return deferred if type(start) is np.ndarray and start.dtype == dtype else None


def contributions(rules: list[BlockRule], g: Any, saved: list) -> list:
    """The contributions by these rules, in blocks; g has one entry along an axis where it repeats.

    A sum hands out such a cotangent, as a view without a stride there. It is contiguous in no
    order, so nothing beside it could be cut; and what is made of it alone repeats, too.
    """
    once = _without_repeats(g, saved, all(rule.scales for rule in rules))

    def fn(*blocks: Any) -> list:
        block, values = _apart(g, blocks)
        return [rule.fn(block, *rule.of(values)) for rule in rules]

    def fill(ys: list, *blocks: Any) -> None:
        block, values = _apart(g, blocks, ys[-1])  # the last that is written
        for y, rule in zip(ys, rules, strict=True):
            rule.fill(y, block, *rule.of(values))

    few = not isinstance(g, LazyCotangent)
    computed = piecewise(fn, (*_parts(once), *saved), {}, fill, few=few)
    if once is g:
        return computed
    return [c if c.shape == g.shape else np.broadcast_to(c, g.shape) for c in computed]


def _without_repeats(g: Any, saved: Sequence, scaled: bool) -> Any:
    """g with one entry along the axes where it repeats; no axes, if it is one number everywhere."""
    if type(g) is not np.ndarray or all(g.strides):
        return g
    shapes = [x.shape for x in saved if axes_of(x)]
    if shapes and not (scaled and all(shape == g.shape for shape in shapes)):
        return g
    if not any(g.strides):
        return g[(0,) * g.ndim + (...,)]
    return g[tuple([slice(None) if stride else slice(1) for stride in g.strides])]
