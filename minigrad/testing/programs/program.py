"""A program: leaves and lines of source, and how to write out and run both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from .helpers import imports_of, names


@dataclass(frozen=True)
class Leaf:
    """An argument of a program: uniform numbers in an interval, from a seed."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    low: float = 0.5
    high: float = 1.5
    seed: int = 0

    @cached_property
    def source(self) -> str:
        """The expression that makes it."""
        drawn = f"np.random.default_rng({self.seed}).uniform({self.low}, {self.high}, "
        if self.dtype.startswith("complex"):
            half = "float32" if self.dtype == "complex64" else "float64"
            drawn += f"{(*self.shape, 2)})"
            return f"{drawn}.astype(np.{half}).view(np.{self.dtype})[..., 0]"
        drawn += f"{self.shape})" if self.shape else "(1,))[0]"
        if self.dtype == "float64":
            return drawn if self.shape else f"np.array({drawn})"
        return f"np.array({drawn}, np.{self.dtype})" if not self.shape else (
            f"{drawn}.astype(np.{self.dtype})"
        )  # fmt: skip

    @cached_property
    def value(self) -> np.ndarray:
        return np.array(eval(self.source, {"np": np}), self.dtype)


@dataclass(frozen=True)
class Line:
    """One line: the names that it sets, the names that it reads, the source with {0}, {1} ..."""

    sets: tuple[str, ...]
    reads: tuple[str, ...]
    form: str

    @property
    def source(self) -> str:
        text = self.form
        for i, name in enumerate(self.reads):
            text = text.replace(f"{{{i}}}", name)
        for i, name in enumerate(self.sets):
            text = text.replace(f"<{i}>", name)
        return text


@dataclass(frozen=True)
class Program:
    """A function of the leaves that gives the outputs."""

    leaves: tuple[Leaf, ...]
    lines: tuple[Line, ...]
    outputs: tuple[str, ...]
    seed: str = field(default="", compare=False)

    @cached_property
    def source(self) -> str:
        head = f"def program({', '.join(leaf.name for leaf in self.leaves)}):"
        body = [f"    {line.source}" for line in self.lines]
        return "\n".join([head, *body, f"    return {', '.join(self.outputs)}"])

    @cached_property
    def function(self) -> Callable:
        space = names()
        exec(self.source, space)
        return space["program"]

    def __getstate__(self) -> dict:
        """Without the compiled source, which cannot be sent to another process."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def xs(self) -> list[np.ndarray]:
        return [leaf.value for leaf in self.leaves]

    @property
    def size(self) -> tuple:
        """The measures that shrinking reduces: lines, leaves, outputs, elements."""
        elements = sum(leaf.value.size for leaf in self.leaves)
        return len(self.lines), len(self.leaves), len(self.outputs), elements, len(self.source)

    def without_unused(self) -> "Program":
        """Without the lines and leaves that no output depends on."""
        needed, lines = set(self.outputs), []
        for line in reversed(self.lines):
            if needed & set(line.sets):
                lines.append(line)
                needed |= set(line.reads)
        leaves = [leaf for leaf in self.leaves if leaf.name in needed]
        return replace(self, leaves=tuple(leaves or self.leaves[:1]), lines=tuple(lines[::-1]))

    def with_name_for(self, old: str, new: str) -> "Program":
        """Reading `new` wherever `old` was read."""

        def renamed(names: Sequence[str]) -> tuple[str, ...]:
            return tuple([new if name == old else name for name in names])

        lines = [replace(line, reads=renamed(line.reads)) for line in self.lines]
        return replace(self, lines=tuple(lines), outputs=renamed(self.outputs))

    def text(self, way: str) -> str:
        """Python that shows the result of `way` for it."""
        leaves = [f"{leaf.name} = {leaf.source}" for leaf in self.leaves]
        xs = ", ".join(leaf.name for leaf in self.leaves)
        call = f"compare({way!r}, program, [{xs}])"
        return "\n".join([imports_of(self.source) + leaves[0], *leaves[1:], self.source, call])


def values_of(program: Program) -> dict[str, Any]:
    """Every name's array, by one run without a graph."""
    from minigrad import no_grad, tensor

    space = names()
    space |= {leaf.name: tensor(leaf.value) for leaf in program.leaves}
    with no_grad():
        for line in program.lines:
            exec(line.source, space)
    return {n: space[n].data for line in program.lines for n in line.sets} | {
        leaf.name: leaf.value for leaf in program.leaves
    }
