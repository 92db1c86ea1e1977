"""Samples over a list of forms: the shapes of the arguments, and the static parameters."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..spec import Sample

REAL = ("float64", "float32", "float16", "bfloat16")
COMPLEX = (*REAL, "complex128", "complex64")


def normal(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """Signed values of size about 1, complex for a complex dtype."""
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return np.asarray(x).astype(dtype)


def distinct(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """Values of which no two are near each other, none near 0: no ties, no kinks."""
    n = int(np.prod(shape))
    steps = rng.permutation(n) - n // 2 + rng.uniform(0.25, 0.75, n)
    return np.asarray(0.4 * steps.reshape(shape)).astype(dtype)


def distinct_sizes(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """Signed values of which no two are near each other in size, none near 0."""
    n = int(np.prod(shape))
    sizes = rng.permutation(n) + rng.uniform(0.25, 0.75, n)
    return np.asarray(0.4 * (sizes * rng.choice([-1.0, 1.0], n)).reshape(shape)).astype(dtype)


def near_one(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
    """Signed values whose size is near 1: products of many stay in range."""
    x = rng.uniform(0.6, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    if np.dtype(dtype).kind == "c":
        x = x * np.exp(1j * rng.uniform(0, 6, shape))
    return np.asarray(x).astype(dtype)


def over(forms: Iterable[tuple[tuple, dict[str, Any]]], make: Callable = normal) -> Callable:
    """Samples of one array: each form is (shape, parameters)."""
    return _samples([((shape,), params) for shape, params in forms], make)


def of_several(forms: Iterable[tuple[tuple, dict[str, Any]]], make: Callable = normal) -> Callable:
    """Samples of several arguments: each form is (arguments, parameters).

    An argument that is a tuple is the shape of an array to make; any other is passed unchanged.
    """
    return _samples(list(forms), make)


def together(*draws: Callable) -> Callable:
    """The samples of all of these, for values made in different ways."""
    return lambda rng, dtype: [sample for draw in draws for sample in draw(rng, dtype)]


def in_both_orders(
    forms: Iterable[tuple[tuple, dict[str, Any]]], make: Callable = normal
) -> Callable:
    """Samples whose images lie in rows, and others with pixels first in memory."""

    def places_first(rng: np.random.Generator, dtype: Any, shape: tuple) -> np.ndarray:
        x = make(rng, dtype, shape)
        if x.ndim < 3:
            return x
        order = (*range(2, x.ndim), 0, 1)
        return np.ascontiguousarray(x.transpose(order)).transpose((-2, -1, *range(x.ndim - 2)))

    rows, turned = (of_several(forms, how) for how in (make, places_first))

    def samples(rng: np.random.Generator, dtype: Any) -> Iterator[Sample]:
        yield from rows(rng, dtype)
        for sample in turned(rng, dtype):
            yield Sample(f"places first, {sample.name}", sample.args, sample.params)

    return samples


def _samples(forms: list, make: Callable) -> Callable:
    def samples(rng: np.random.Generator, dtype: Any) -> Iterator[Sample]:
        for i, (arguments, params) in enumerate(forms):
            args = tuple([make(rng, dtype, a) if isinstance(a, tuple) else a for a in arguments])
            shapes = ", ".join([str(np.shape(a)) for a in args])
            options = ", ".join([f"{name}={_short(value)}" for name, value in params.items()])
            yield Sample(f"{i}: {shapes} {options}".rstrip(), args, params)

    # as if defined in the calling module: there the harness finds the op again
    samples.__module__ = sys._getframe(2).f_globals["__name__"]
    return samples


def _short(value: Any) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 30 else f"{text[:27]}..."
