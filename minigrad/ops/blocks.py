"""Cutting arrays into blocks that stay in the cache."""

from typing import Any


def spans(n: int, step: int) -> list[slice]:
    """0..n in slices of `step`, the last one shorter."""
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def part(a: Any, piece: tuple) -> Any:
    """The block of an array that broadcasts against what `piece` cuts: all of an axis of length 1.

    A view. `piece` has a slice for each axis of the larger array; a may have fewer, the last ones.
    """
    own = piece[len(piece) - a.ndim :]
    return a[tuple([slice(None) if n == 1 else i for i, n in zip(own, a.shape, strict=True)])]
