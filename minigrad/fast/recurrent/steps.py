"""The walks over steps of ops/recurrent, for arrays only: in place, with few calls a step."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any

import numpy as np

from ...backends import blas
from ...backends.device import array_module
from ...ops.recurrent.steps import in_order, parted
from ..small_products import multiplier


def plain(*arrays: Any) -> bool:
    """Whether all of them, except for None, are arrays: then no operation is recorded."""
    return all(x is None or type(x) is array_module(x).ndarray for x in arrays)


class StepsInPlace:
    """The steps of a sequence in order: (t, states, gates, after); the caller fills the last two.

    a      the input's part of all steps, with one axis of rows where they share a weight
    r      h wᵀ for the first state h of the present step; the caller may write to it
    gates  the number of arrays of a state's size that a step fills
    """

    def __init__(
        self, a: Any, w: Any, states: Sequence, live: Any, reverse: bool, gates: int
    ) -> None:
        xp, self.shape, length = array_module(a), states[0].shape, len(a)
        self.a, live, *self.states = as_rows(w, (a, 1), (live, 1), *[(x, 0) for x in states])
        self.lives, self.order, self.w = lives_of(live, length), in_order(length, reverse), w
        rows = self.states[0].shape
        self.found = [xp.empty((length, *rows), w.dtype) for _ in states]
        self.gates = xp.empty((length, gates, *rows), w.dtype)
        self.r = xp.empty(self.a.shape[1:], w.dtype)

    def __iter__(self) -> Iterator[tuple]:
        states, r, gates, lives = self.states, self.r, self.gates, self.lives
        across = self.w.swapaxes(-1, -2).copy()  # BLAS reads a small one twice as fast
        behind = list(zip(*self.found, strict=True))
        with products_alone(states[0], self.w):
            product = product_with(across, states[0])
            for t in self.order:
                product(states[0], r)
                after = behind[t]
                yield t, states, gates[t], after
                if lives[t] is not None:
                    for old, new in zip(states, after, strict=True):
                        np.copyto(new, old, where=~lives[t])
                states = after

    def results(self) -> list:
        """The states after each step, and its gates."""
        hs = [x.reshape((len(x), *self.shape)) for x in self.found]
        return [*hs, self.gates.reshape((*self.gates.shape[:2], *self.shape))]


def steps_back_in_place(
    fill: Callable, count: int, gs: Sequence, states: list, live: Any, reverse: bool
) -> Iterator[tuple]:
    """The steps back in time, (t, factors).

    `states` holds the cotangents of the states after step t; the caller replaces them by those
    before it. The cotangents from outside, gs, are added here. fill(span, out) computes the factors
    of many steps at once: it fills out (count, steps, …, H) for a slice of time.
    """
    length, given = len(live), [(k, g) for k, g in enumerate(gs) if g is not None]
    memory = np.empty_like(states[0], shape=(count, several(states[0], length), *states[0].shape))
    for run in runs(in_order(length, not reverse), memory.shape[1]):
        first = min(run)
        span, factors = slice(first, first + len(run)), memory[:, : len(run)]
        fill(span, factors)
        factors = factors.swapaxes(0, 1)
        for t in run:
            for k, g in given:
                states[k] += g[t]
            if live[t] is None:
                yield t, factors[t - first]
                continue
            pairs = [parted(x, live[t]) for x in states]
            states[:] = [taken for taken, _ in pairs]
            yield t, factors[t - first]
            for k, (_, kept) in enumerate(pairs):
                states[k] += kept


def as_rows(w: Any, *given: tuple) -> list:
    """Each (x, axes) with all of x's axes between the first `axes` and the last joined into one.

    Only where all rows share the weight w; x may be None.
    """
    return [
        x
        if x is None or w.ndim > 2
        else x.reshape((*x.shape[:axes], prod(x.shape[axes:-1]), x.shape[-1]))
        for x, axes in given
    ]


def lives_of(live: Any, count: int) -> list:
    """live in each of the steps; None where, as far as the host can see, all rows take the step."""
    if live is None:
        return [None] * count
    if type(live) is not np.ndarray:
        return list(live)
    whole: Any = live.reshape((count, -1)).all(1)
    return [None if all_live else x for all_live, x in zip(whole, live, strict=True)]


# Elements of the state times steps: as many as fit in the cache.
_TOGETHER = 1 << 15


def several(state: Any, length: int) -> int:
    """The number of steps whose factors are computed at once, a few arrays of the state's size
    each.

    As many as stay in the cache until their use.
    """
    return max(1, min(length, _TOGETHER // max(1, state.size)))


def runs(order: range, count: int) -> list[range]:
    """The steps of an order, `count` at a time."""
    return [order[i : i + count] for i in range(0, len(order), count)]


def product_with(w: Any, states: Any) -> Callable:
    """product(x, y): y = x w, for x with as many rows as the states, in each of the steps.

    One matrix is multiplied by `dot`, which is not a ufunc and therefore starts sooner, or in
    blocks that BLAS reads in place. Only inside `products_alone`.
    """
    if w.ndim > 2:
        return lambda x, y: np.matmul(x, w, out=y)
    in_blocks = multiplier(w, len(states))
    return in_blocks or (lambda x, y: np.dot(x, w, out=y))


def products_alone(h: Any, w: Any) -> AbstractContextManager:
    """BLAS on one thread while the products of a step, of h and w, are of medium size.

    A second thread would gain little, and spin after each of them: see `blas.MIDDLE`.
    """
    return blas.one_thread() if h.size * w.shape[-2] < blas.MIDDLE else nullcontext()
