"""Arrays built from others: grids, blocks, powers, rotations by 90°."""

from typing import Any

import numpy as np

from ..engine.registry import op
from ..tensor_api.composite import composite, on_its_gpu
from .axes import array_like, axes_of, module_of

__all__ = ["block", "meshgrid", "rot90", "vander"]


@composite(numpy=np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple:
    """Coordinate arrays of a grid: y_i varies along axis i as the vector x_i; 'xy' swaps 0 and 1.

    sparse=True leaves length 1 along the other axes; with copy=False full ones are views.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    xs = [array_like(x).reshape(-1) for x in xi]
    places = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        places[0], places[1] = 1, 0
    ys = [x.reshape([-1 if k == i else 1 for k in range(len(xs))]) for i, x in zip(places, xs)]
    if not sparse:
        shape = np.broadcast_shapes(*(y.shape for y in ys))
        ys = [op.broadcast_to(y, shape=shape) for y in ys]
    return tuple(op.copy(y) if copy else y for y in ys)


@composite(numpy=np.block)
def block(arrays: Any) -> Any:
    """An array from nested lists of blocks: the innermost lists are joined along the last axis."""
    depth = _depth(arrays)
    ndim = max(depth, max((x.ndim for x in _blocks_of(arrays)), default=0))
    return _joined(arrays, depth, ndim)


def _depth(arrays: Any) -> int:
    """How deep the lists nest; they must nest equally deep everywhere."""
    depth, level = 0, [arrays]
    while any(isinstance(x, list) for x in level):
        if not all(isinstance(x, list) and x for x in level):
            raise ValueError("block: lists must nest equally deep everywhere and hold something")
        depth, level = depth + 1, [x for inner in level for x in inner]
    return depth


def _blocks_of(arrays: Any) -> list:
    """All blocks, in order."""
    level = [arrays]
    while any(isinstance(x, list) for x in level):
        level = [x for inner in level for x in inner]
    return [array_like(x) for x in level]


def _joined(arrays: Any, depth: int, ndim: int) -> Any:
    """The blocks of nested lists, joined along axis −depth: a recursion as deep as they are."""
    if not isinstance(arrays, list):
        x = array_like(arrays)
        return x.reshape((*(1,) * (ndim - x.ndim), *x.shape))
    return op.concatenate([_joined(x, depth - 1, ndim) for x in arrays], axis=-depth)


@composite(numpy=np.rot90)
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """m rotated k times by 90°, from the first axis towards the second."""
    m = array_like(m)
    if np.shape(axes) != (2,):
        raise ValueError(f"rot90: axes must be two, got {axes!r}")
    first, second = axes_of(tuple(axes), m.ndim)
    if k % 4 == 0:
        return m[...]
    if k % 4 == 2:
        return op.flip(m, axis=(first, second))
    if k % 4 == 1:
        return op.flip(op.swapaxes(m, axis1=first, axis2=second), axis=first)
    return op.swapaxes(op.flip(m, axis=first), axis1=first, axis2=second)


@composite(numpy=np.vander)
@on_its_gpu
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """y[i, k] = x_i^(N−1−k), or x_i^k if increasing; 1 for power 0, with exact derivatives at 0."""
    x = array_like(x)
    if x.ndim != 1:
        raise ValueError(f"vander: x must be a vector, got shape {x.shape}")
    if N is not None and N < 0:
        raise ValueError(f"vander: N={N} columns; it must be at least 0")
    powers = module_of(x).arange(x.shape[0] if N is None else N)
    return x.reshape((-1, 1)) ** (powers if increasing else powers[::-1])
