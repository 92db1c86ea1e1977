"""A program at its leaves, and the results of a plain backward."""

import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minigrad as mg

from ...tensor_api.tensor import Tensor
from ..function import Arrays, Function, as_array
from ..numeric import normal


class Refused(Exception):
    """A transform refuses this program."""


class Subject:
    """A program at its leaves: the function, cotangents, and the results of a plain backward."""

    def __init__(self, program: Callable, xs: Sequence[np.ndarray]):
        self.program = program
        self.function = Function(program, [np.asarray(x) for x in xs])
        self.rng = np.random.default_rng(0)
        self.values = self.function.value(self.xs)
        self.vs = normal(self.rng, self.values)
        self.us = normal(self.rng, self.xs)
        self.gradients = self.function.vjp(self.xs, self.vs)

    @property
    def xs(self) -> Arrays:
        return self.function.xs

    def is_defined_at(self, xs: Arrays) -> bool:
        """Whether values and gradients are finite there: a leaf that moves may leave a domain."""
        with np.errstate(all="ignore"):
            found = [*self.function.value(xs), *self.function.vjp(xs, self.vs)]
        return all(np.isfinite(y).all() for y in found)

    def with_globals(self, **others: Any) -> Function:
        """The same program with other meanings of some global names."""
        return Function(with_globals_of(self.program, others), self.xs)

    def in_double(self) -> "Subject":
        """Itself if all leaves have double precision, else at double-precision leaves."""
        wide = [x.astype(np.result_type(x, np.float64)) for x in self.xs]
        if all(x.dtype == w.dtype for x, w in zip(self.xs, wide, strict=True)):
            return self
        return Subject(self.program, wide)

    def with_held(self) -> Function:
        """The program with the constants of `detach` and `unrecorded` at the leaves, also
        elsewhere: for differences."""
        return Held(self).function


def with_globals_of(program: Callable, others: dict) -> Callable:
    space = {**program.__globals__, **others}
    return types.FunctionType(program.__code__, space, program.__name__)


class Held:
    """Constants of a program that keep their values while the leaves move."""

    def __init__(self, subject: Subject):
        self.kept: list[Tensor] = []
        self.place: int | None = None
        other = with_globals_of(
            subject.program, {"detach": self.detach, "unrecorded": self.unrecorded}
        )
        other(*[mg.tensor(x) for x in subject.xs])
        self.place = 0

        def at(*xs: Any) -> Any:
            self.place = 0
            return other(*xs)

        self.function = Function(at, subject.xs)

    def detach(self, x: Any) -> Any:
        if self.place is None:
            self.kept.append(mg.tensor(as_array(x).copy()))
            return self.kept[-1]
        self.place += 1
        return self.kept[self.place - 1]

    def unrecorded(self, f: Callable, x: Any) -> Any:
        return self.detach(f(x) if self.place is None else x)
