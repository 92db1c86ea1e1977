"""The case of a check: an op's spec, one of its samples, and reproducible random numbers."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..backends.dtypes import resolve_dtype
from ..engine.primitive import Primitive
from ..engine.registry import op as registry
from ..tensor_api.tensor import Tensor
from .function import Function, as_tensors, floating_results, is_smooth_array, results
from .spec import OpSpec, Sample

DOUBLE = ("float64", "complex128")  # finite differences need these


@dataclass
class Context:
    """One run of the harness: its level, its seed, and its notes.

    draw     which draw of the random numbers: 0, or the number of redraws
    live     (op, position): arguments whose gradient was not zero in some sample
    dead     arguments whose gradient was zero in some sample
    notes    (op, check, reason) of parts of checks that were skipped
    """

    level: str = "fast"
    seed: int = 0
    draw: int = 0
    live: set[tuple[str, int]] = field(default_factory=set)
    dead: set[tuple[str, int]] = field(default_factory=set)
    cache: dict[Any, list[Sample]] = field(default_factory=dict)
    notes: set[tuple[str, str, str]] = field(default_factory=set)

    @property
    def full(self) -> bool:
        return self.level == "full"

    def rng(self, *words: Any) -> np.random.Generator:
        """A separate generator for these words: no check depends on which others ran."""
        seeds = [self.seed, zlib.crc32(repr(words).encode())]
        return np.random.default_rng([*seeds, self.draw] if self.draw else seeds)

    def again(self) -> "Context":
        """The same run with all random numbers drawn anew; its observations count here too."""
        return replace(self, draw=self.draw + 1, cache={})

    def samples(self, spec: OpSpec, dtype: str) -> list[Sample]:
        """The samples of this dtype, made once; check K7 (purity) ensures that nothing writes to
        them."""
        key = (spec.name, dtype)
        if key not in self.cache:
            rng = self.rng(spec.name, "samples")
            made = list(spec.samples(rng, resolve_dtype(dtype)))
            for sample in made:
                require_sample(spec, sample)
            require_dtype(spec, made, dtype)
            names = [sample.name for sample in made]
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise ValueError(f"{spec.name}: two samples have the same name: {sorted(twice)}")
            self.cache[key] = made
        return self.cache[key]

    def doubles(self, spec: OpSpec) -> Iterator["Case"]:
        """A case for each sample in double precision, where derivatives are compared."""
        for dtype in spec.dtypes:
            if dtype in DOUBLE:
                yield from self.cases(spec, dtype)

    def cases(self, spec: OpSpec, dtype: str) -> Iterator["Case"]:
        for sample in self.samples(spec, dtype):
            yield Case(spec, sample, self, dtype)

    def see(self, spec: OpSpec, function: Function, g: np.ndarray) -> None:
        """Remember for which arguments the packed gradient g is not zero."""
        start = 0
        for position, x in zip(function.positions, function.xs, strict=True):
            width = x.size * (2 if x.dtype.kind == "c" else 1)
            if width:
                seen = self.live if g[start : start + width].any() else self.dead
                seen.add((spec.name, position))
            start += width


def require_sample(spec: OpSpec, sample: Any) -> None:
    """Refuse anything but a Sample of arrays: a check would compare nothing."""
    if not isinstance(sample, Sample) or not isinstance(sample.args, tuple):
        raise TypeError(
            f"{spec.name}: samples must yield Sample(name, args), args being a tuple of arrays; "
            f"got {sample!r:.80}"
        )
    if any(isinstance(x, Tensor) for x in sample.args):
        raise TypeError(
            f"{spec.name}: the sample {sample.name!r} has a tensor among its arguments; give "
            "arrays, and the checks make tensors of them"
        )


def require_dtype(spec: OpSpec, made: list[Sample], dtype: str) -> None:
    """Refuse samples of other dtypes: the checks of the requested dtype would have nothing to
    compare."""
    arrays = [x for sample in made for x in sample.args if is_smooth_array(x)]
    found = {str(x.dtype) for x in arrays}
    if found and dtype not in found:
        raise ValueError(
            f"{spec.name}: the samples for {dtype} are {', '.join(sorted(found))}"
            "; use the argument dtype of samples(rng, dtype), or leave it out of dtypes"
        )


@dataclass(frozen=True)
class Case:
    """One op on one sample."""

    spec: OpSpec
    sample: Sample
    context: Context
    dtype: str = "float64"

    @property
    def name(self) -> str:
        return self.sample.name if self.dtype == "float64" else f"{self.dtype}/{self.sample.name}"

    @property
    def primitive(self) -> Primitive | None:
        return primitive_of(self.spec)

    @property
    def is_first_of_its_kind(self) -> bool:
        """Whether no earlier sample has the same kinds of arguments: checks may skip later ones."""

        def kinds(sample: Sample) -> list[str]:
            return [x.dtype.kind if isinstance(x, np.ndarray) else "" for x in sample.args]

        samples = self.context.samples(self.spec, self.dtype)
        first = next(sample for sample in samples if kinds(sample) == kinds(self.sample))
        return first is self.sample

    def rng(self, *words: Any) -> np.random.Generator:
        return self.context.rng(self.spec.name, self.name, *words)

    def again(self) -> "Case | None":
        """The sample of this name from the next draw; None if that has no such sample."""
        cases = self.context.again().cases(self.spec, self.dtype)
        return next((case for case in cases if case.name == self.name), None)

    def note(self, check: str, reason: str) -> None:
        """Count a part of a check that was skipped, once an op."""
        self.context.notes.add((self.spec.name, check, reason))

    def function(self) -> Function:
        """The op at this sample, differentiated by its floating arguments."""
        return function_of(self.spec, self.sample.args, self.sample.params)

    def call(self, *args: Any) -> list[Any]:
        """All results of the op for these arguments and the sample's parameters."""
        return results(self.spec.call(*args, **self.sample.params))

    def reference(self, *args: Any) -> list[Any]:
        """All results of the reference, by NumPy."""
        assert self.spec.reference is not None
        return results(self.spec.reference(*args, **self.sample.params))


def primitive_of(spec: OpSpec) -> Primitive | None:
    """The primitive that the spec is about; None for a composite."""
    entry = spec.call if isinstance(spec.call, Primitive) else None
    if entry is None and spec.name in registry:
        entry = getattr(registry, spec.name)
    return entry if isinstance(entry, Primitive) else None


def argument_names(spec: OpSpec) -> tuple[str, ...]:
    primitive = primitive_of(spec)
    return () if primitive is None or primitive.variadic else primitive.arrays


def differentiated(spec: OpSpec, args: tuple) -> list[int]:
    """Positions of the floating arrays that may carry a gradient."""
    constant = set(spec.constants)
    if isinstance(spec.call, Primitive) and not spec.call.variadic:
        names = spec.call.arrays
        constant |= {i for i, name in enumerate(names) if name in spec.call.constants}
    return [i for i, x in enumerate(args) if is_smooth_array(x) and i not in constant]


def function_of(spec: OpSpec, args: tuple | list, params: dict) -> Function:
    """The op at these arguments, differentiated by its floating ones, with the op's names."""
    positions = differentiated(spec, tuple(args))
    return Function(spec.call, args, params, positions, argument_names(spec))


def is_differentiable_op(spec: OpSpec, context: Context) -> bool:
    """Whether the op has a derivative at all: it is declared so, or its results can carry one."""
    if spec.differentiable is not None:
        return spec.differentiable
    primitive = primitive_of(spec)
    if primitive is not None and primitive.tracked == 0:
        return False
    for dtype in spec.dtypes:
        for case in context.cases(spec, dtype):
            if differentiated(spec, case.sample.args) and floating_results(
                spec.call(*as_tensors(case.sample.args), **case.sample.params)
            ):
                return True
    return False


def is_elementwise(spec: OpSpec) -> bool:
    """Whether the op is a row of the table: it broadcasts its arguments, one result per element."""
    primitive = primitive_of(spec)
    return primitive is not None and primitive.kind == "elementwise"
