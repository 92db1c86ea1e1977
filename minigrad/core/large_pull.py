"""What an elementwise op makes of a large cotangent: contributions in blocks, or put off.

A contribution that goes to another elementwise node need not be made at once: that node's own rules
take it block by block. Put off, each block of it is made there, in the cache, just before it is
used, and the whole is never written to memory. The backward of tanh(x) * gelu(x) writes one array
of the size of x so, instead of three.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .piecewise import axes_of, piecewise

PASSED = object()  # in the place of a rule: the contribution is g itself
MOST = 4  # arrays that a contribution put off may be made of: their blocks share a cache


class BlockRule(NamedTuple):
    """One contribution: fn(g, *values) makes it, fill(y, g, *values) writes it into y.

    y may be g itself.

    places    which of the saved values these are
    scales    whether g is no more than multiplied or divided, once
    """

    fn: Callable
    fill: Callable
    places: tuple[int, ...]
    scales: bool

    def of(self, saved: Sequence) -> list:
        """The values that the rule reads."""
        return [saved[k] for k in self.places]


class PutOff:
    """A contribution that is not made yet: rule.fn(g, *values), of this shape and dtype.

    g        an array, or one number in an array without axes, or a PutOff of the same dtype
    arrays   what it is made of: (g, *values), with the arrays of g in its place if it is a PutOff
    """

    __slots__ = ("rule", "g", "arrays", "shape", "dtype", "size")

    def __init__(self, rule: BlockRule, g: Any, values: list, shape: tuple, dtype: Any):
        self.rule, self.g, self.shape, self.dtype = rule, g, shape, dtype
        self.arrays = (*(g.arrays if type(g) is PutOff else (g,)), *values)
        self.size = math.prod(shape)

    def fn(self, *arrays: Any) -> Any:
        """A block of it, from blocks of the arrays."""
        g, values = _apart(self.g, arrays)
        return self.rule.fn(g, *values)

    def fill(self, y: Any, *arrays: Any) -> None:
        """The same, written into y."""
        g, values = _apart(self.g, arrays, y)
        self.rule.fill(y, g, *values)

    def made(self) -> np.ndarray:
        return piecewise(self.fn, self.arrays, {}, lambda ys, *arrays: self.fill(ys[0], *arrays))

    def added(self, c: Any) -> np.ndarray:
        """The sum with another contribution: what add_into asks for."""
        total = self.made()
        total += c
        return total


def _apart(g: Any, arrays: tuple, into: Any = None) -> tuple[Any, tuple]:
    """(block of g, the other blocks), from blocks of what they are made of.

    into: a block that may be overwritten
    """
    if type(g) is not PutOff:
        return arrays[0], arrays[1:]
    n = len(g.arrays)
    if into is None or into.dtype != g.dtype:
        return g.fn(*arrays[:n]), arrays[n:]
    g.fill(into, *arrays[:n])
    return into, arrays[n:]


class LargePull:
    """`plan.pull_large`: called as (g, saved, totals, dtypes), it returns what `pull` would.

    g        an array, or a PutOff
    totals   for each parent None, or what its contribution may be added to, as in piecewise
    dtypes   for each parent None, or the dtype in which its contribution may be put off
    """

    def __init__(self, rules: list):
        """For each parent a BlockRule, PASSED, or None where there is no contribution."""
        self.rules = rules
        self.places = [i for i, rule in enumerate(rules) if isinstance(rule, BlockRule)]

    def __call__(self, g: Any, saved: Any, totals: Sequence = (), dtypes: Sequence = ()) -> list:
        saved, now = [*saved], self.places
        if type(g) is PutOff:
            if PASSED in self.rules:
                g = g.made()
            elif len(now) > 1:
                dtypes = ()  # each contribution put off would make g for itself
        found: list = [g if rule is PASSED else None for rule in self.rules]
        if dtypes:
            for i in now:
                if dtypes[i] is not None:
                    found[i] = put_off(self.rules[i], g, saved, dtypes[i])
            now = [i for i in now if found[i] is None]
        if now:
            rules, sums = [self.rules[i] for i in now], [totals[i] for i in now if totals]
            for i, c in zip(now, contributions(rules, g, saved, sums), strict=True):
                found[i] = c
        return found


def contributions(rules: list[BlockRule], g: Any, saved: list, totals: Sequence) -> list:
    """The contributions by these rules, in blocks; g has one entry along an axis where it repeats.

    A sum hands out such a cotangent, as a view without a stride there. It is contiguous in no
    order, so nothing beside it could be cut; and what is made of it alone repeats, too.
    """
    once = _without_repeats(g, saved, all(rule.scales for rule in rules))

    def fn(*arrays: Any) -> list:
        block, values = _apart(g, arrays)
        return [rule.fn(block, *rule.of(values)) for rule in rules]

    def fill(ys: list, *arrays: Any) -> None:
        block, values = _apart(g, arrays, ys[-1])  # the last that is written
        for y, rule in zip(ys, rules, strict=True):
            rule.fill(y, block, *rule.of(values))

    given = g.arrays if type(g) is PutOff else (once,)
    made = piecewise(fn, (*given, *saved), {}, fill, totals=totals)
    if once is g:
        return made
    return [c if c is None or c.shape == g.shape else np.broadcast_to(c, g.shape) for c in made]


def _without_repeats(g: Any, saved: list, scaled: bool) -> Any:
    """g with one entry along the axes where it repeats; no axes, if it is one number everywhere."""
    if type(g) is not np.ndarray or all(g.strides):
        return g
    shapes = [x.shape for x in saved if axes_of(x)]
    if shapes and not (scaled and all(shape == g.shape for shape in shapes)):
        return g
    if not any(g.strides):
        return g[(0,) * g.ndim + (...,)]
    return g[tuple([slice(None) if stride else slice(1) for stride in g.strides])]


def put_off(rule: BlockRule, g: Any, saved: list, dtype: Any) -> PutOff | None:
    """The contribution by this rule, put off; None where it is as well made now.

    That is where it would hold more than MOST arrays, or they are not of one shape and so cannot
    be cut with what it is used for, or it or g is of another dtype than the parent.
    """
    once, values = _without_repeats(g, saved, rule.scales), rule.of(saved)
    later = PutOff(rule, once, values, g.shape, dtype)
    arrays = [x for x in later.arrays if axes_of(x)]
    if (
        g.dtype != dtype
        or not 0 < len(arrays) <= MOST
        or any(
            type(x) is not np.ndarray or x.shape != g.shape or not all(x.strides) for x in arrays
        )
    ):
        return None
    few = (*(slice(0, 1),) * (len(g.shape) - 1), slice(0, 2))
    start = later.fn(*[x[few] if axes_of(x) else x for x in later.arrays])
    return later if type(start) is np.ndarray and start.dtype == dtype else None
