"""Shared sample generators of elementwise ops: ranges of values, over shapes that broadcast."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..spec import Sample

REAL = ("float64", "float32", "float16", "bfloat16")
NUMBERS = (*REAL, "complex128", "complex64")
ONE = ((), (3,), (2, 3), (0,))
TWO = (((3,), (3,)), ((), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 3), ()), ((0, 3), (3,)))

Range = tuple[float, float]
Samples = Callable[[np.random.Generator, Any], Iterator[Sample]]


def uniform(rng: np.random.Generator, shape: tuple, dtype: Any, low: float, high: float) -> Any:
    """Values between low and high; complex ones with an imaginary part between −1 and 1."""
    x = rng.uniform(low, high, shape)
    if dtype.kind == "c":
        x = x + 1j * rng.uniform(-1, 1, shape)
    return np.asarray(x).astype(dtype)


def unary(low: float = -2.0, high: float = 2.0, **params: Any) -> Samples:
    """One argument in several shapes; the parameters go with each."""

    def samples(rng: np.random.Generator, dtype: Any) -> Iterator[Sample]:
        for shape in ONE:
            yield Sample(f"{shape}", (uniform(rng, shape, dtype, low, high),), params)

    return samples


def binary(a: Range = (-2.0, 2.0), b: Range = (-2.0, 2.0), **params: Any) -> Samples:
    """Two arguments in shapes that broadcast."""

    def samples(rng: np.random.Generator, dtype: Any) -> Iterator[Sample]:
        for shapes in TWO:
            args = [uniform(rng, s, dtype, *r) for s, r in zip(shapes, (a, b), strict=True)]
            yield Sample(f"{shapes[0]} with {shapes[1]}", tuple(args), params)

    return samples


def beside(*ranges: Range, **params: Any) -> Samples:
    """One sample of vectors, from ranges that others leave out: negative divisors, far tails."""

    def samples(rng: np.random.Generator, dtype: Any) -> Iterator[Sample]:
        args = tuple(uniform(rng, (6,), dtype, *r) for r in ranges)
        yield Sample(f"beside {ranges}", args, params)

    return samples


def between_halves() -> Samples:
    """One argument at least 0.05 from every multiple of ½, where rounding of any kind jumps."""

    def samples(rng: np.random.Generator, dtype: Any) -> Iterator[Sample]:
        for shape in ONE:
            x = rng.integers(-8, 8, shape) / 2 + rng.uniform(0.05, 0.45, shape)
            yield Sample(f"{shape}", (np.asarray(x).astype(dtype),))

    return samples


def never_tied() -> Samples:
    """Two arguments at least 0.1 from each other however they broadcast, and 0.05 from 0."""

    def samples(rng: np.random.Generator, dtype: Any) -> Iterator[Sample]:
        for shapes in TWO:
            args = [
                np.asarray(rng.integers(-4, 4, s) / 2 + rng.uniform(low, low + 0.15, s))
                for s, low in zip(shapes, (0.05, 0.3), strict=True)
            ]
            yield Sample(f"{shapes[0]} with {shapes[1]}", tuple([x.astype(dtype) for x in args]))

    return samples


def several(*ranges: Range) -> Samples:
    """Any number of arguments, the shapes (2, 3) and (3,) by turns, and all 0-d."""

    def samples(rng: np.random.Generator, dtype: Any) -> Iterator[Sample]:
        turns = [((2, 3), (3,))[i % 2] for i in range(len(ranges))]
        for name, shapes in (("broadcast", turns), ("0-d", [()] * len(ranges))):
            args = [uniform(rng, s, dtype, *r) for s, r in zip(shapes, ranges, strict=True)]
            yield Sample(name, tuple(args))

    return samples


def both(*generators: Samples) -> Samples:
    """All samples of several generators; `name n` if two have the same name."""

    def samples(rng: np.random.Generator, dtype: Any) -> Iterator[Sample]:
        for i, generator in enumerate(generators):
            for sample in generator(rng, dtype):
                name = f"{sample.name} {sample.params or i}" if i else sample.name
                yield Sample(name, sample.args, sample.params)

    return samples


def from_scipy(name: str) -> Callable:
    """The function of scipy.special by name; the first call imports SciPy."""

    def call(*args: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*args)

    return call


def from_mpmath(name: str) -> Callable:
    """The function (or constant, called without arguments) of mpmath by name; imported at the
    call."""

    def call(*args: Any) -> Any:
        import mpmath

        found = getattr(mpmath, name)
        return found(*args) if args else +found

    return call
