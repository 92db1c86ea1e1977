"""Values for samples of reductions, and samples over forms of (shape, parameters)."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..spec import Sample


def ordinary(rng: np.random.Generator, shape: tuple, dtype: Any) -> np.ndarray:
    """Normal values; complex ones with a normal imaginary part."""
    x = rng.standard_normal(shape)
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return np.asarray(x).astype(dtype)


def distinct(rng: np.random.Generator, shape: tuple, dtype: Any) -> np.ndarray:
    """Values of which no two are near each other: no ties, in any dtype."""
    n = int(np.prod(shape))
    x = (rng.permutation(n) - n / 2 + 0.25) * 0.25 + rng.uniform(0, 0.05, n)
    return x.reshape(shape).astype(dtype)


def near_one(rng: np.random.Generator, shape: tuple, dtype: Any) -> np.ndarray:
    """Values of either sign whose size is near 1, so that products of many stay O(1)."""
    x = rng.uniform(0.7, 1.3, shape) * rng.choice([-1.0, 1.0], shape)
    if dtype.kind == "c":
        x = x * np.exp(1j * rng.uniform(-1, 1, shape))
    return np.asarray(x).astype(dtype)


def over(
    forms: Iterable[tuple[tuple, dict]], values: Callable = ordinary
) -> Callable[[np.random.Generator, Any], Iterator[Sample]]:
    """One argument of each shape, with its parameters."""
    forms = list(forms)

    def samples(rng: np.random.Generator, dtype: Any) -> Iterator[Sample]:
        for shape, params in forms:
            given = ", ".join(f"{name}={value}" for name, value in params.items())
            name = f"{shape} {given}".strip()
            yield Sample(name, (values(rng, shape, dtype),), params)

    return samples
