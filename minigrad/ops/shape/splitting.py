"""Splitting arrays into views: each piece shares memory with x."""

import operator
from typing import Any

import numpy as np

from ...backends.caches import cached
from ...engine.primitive import Primitive
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_like, axis_of

__all__ = ["array_split", "chunk", "dsplit", "hsplit", "narrow", "split", "unstack", "vsplit"]

_MOST_EMPTY = 10**6  # parts beyond the length of an axis, each of which is a separate view


# -- one op for all pieces: sliced one by one, each would have a gradient of x's full size ---------


def unbind(x: Any, axis: int) -> tuple:
    """The slices of x along an axis, without it, as views: one op, whose gradient is one stack."""
    axis = axis_of(axis, x.ndim)
    if x.shape[axis] < 2:
        return tuple([x[(*_all(axis), i)] for i in range(x.shape[axis])])
    return _pieces(tuple(range(x.shape[axis])), axis, False)(x)


def _parts(x: Any, bounds: list, axis: int) -> list:
    """x[start : stop] along an axis for all the bounds, as views."""
    covered = [0, *(stop for _, stop in bounds)]
    each = [slice(*pair) for pair in bounds]
    tiling = [*zip(covered, covered[1:])] == bounds and covered == sorted(covered)
    if len(each) < 2 or not tiling or covered[-1] != x.shape[axis]:
        return [x[(*_all(axis), part)] for part in each]  # one, or they overlap or leave some out
    return list(_pieces(tuple(covered), axis, True)(x))


@cached("pieces of an axis", max_entries=256)
def _pieces(places: tuple, axis: int, parts: bool) -> Primitive:
    """The op of the slices at these places, or of the parts between them, and its rules."""
    pairs = zip(places, places[1:])
    index: list = [slice(*pair) for pair in pairs] if parts else list(places)
    name = "split" if parts else "unbind"

    def forward(x: Any) -> tuple:
        before = _all(axis)
        return tuple([x[(*before, i)] for i in index])

    def rule(g: list) -> Any:
        some = next(piece for piece in g if piece is not None)
        if not parts:
            zero = op.zeros_like(some)
            return op.stack_arrays(*[zero if piece is None else piece for piece in g], axis=axis)
        lengths = [part.stop - part.start for part in index]
        both = zip(g, lengths, strict=True)
        given = [_zeros(some, n, axis) if piece is None else piece for piece, n in both]
        return op.concatenate_arrays(*given, axis=axis)

    pieces = Primitive(forward, name, ["x"], kind="linear", outputs=len(index), view=True)
    pieces.vjp("x")(rule)
    pieces.batch(lambda op, xs, batched, params: _pieces(places, axis + 1, parts)(*xs))
    return pieces


def _refuse_empty(called: str, parts: int, n: int) -> None:
    if parts - n > _MOST_EMPTY:
        raise ValueError(
            f"{called}: {parts:,} parts of an axis of length {n:,} are empty, but for {n:,}; ask "
            f"for at most {n:,}"
        )


def _zeros(like: Any, n: int, axis: int) -> Any:
    """Zeros of the shape of `like`, but n along the axis."""
    one = op.zeros_like(op.sum(like, axis=axis, keepdims=True))
    return op.broadcast_to(one, shape=(*one.shape[:axis], n, *one.shape[axis + 1 :]))


# -- what users call -------------------------------------------------------------------------------


@composite
def narrow(x: Any, axis: int, start: int, length: int) -> Any:
    """x[start : start+length] along one axis, a view; IndexError beyond its end."""
    x = array_like(x)
    axis = axis_of(axis, x.ndim)
    n, start, length = x.shape[axis], operator.index(start), operator.index(length)
    first = start + n if start < 0 else start
    if length < 0 or first < 0 or first + length > n:
        raise IndexError(
            f"narrow: start={start}, length={length} leaves axis {axis} of shape {x.shape}; "
            f"need 0 <= start and start + length <= {n}"
        )
    return x[(*_all(axis), slice(first, first + length))]


@composite(numpy=np.split)
def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list:
    """A list of views: n equal parts along `axis`, or cut before each of the given indices.

    ValueError where n does not divide the axis (array_split allows that).
    """
    x = array_like(x)
    if not np.iterable(indices_or_sections):
        n, indices_or_sections = x.shape[axis_of(axis, x.ndim)], operator.index(indices_or_sections)
        if indices_or_sections > 0 and n % indices_or_sections:
            raise ValueError(
                f"split: axis {axis} of shape {x.shape} does not divide into "
                f"{indices_or_sections} equal parts; use array_split for unequal ones"
            )
    return array_split(x, indices_or_sections, axis)


@composite(numpy=np.array_split)
def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> list:
    """split, where n parts may differ in length by one (the longer ones first)."""
    x = array_like(x)
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis]
    if np.iterable(indices_or_sections):
        cuts = [0, *indices_or_sections, n]
    elif (parts := operator.index(indices_or_sections)) < 1:
        raise ValueError(f"split: needs at least 1 part, got {parts}")
    else:
        _refuse_empty("array_split", parts, n)
        size, longer = divmod(n, parts)
        cuts = [i * size + min(i, longer) for i in range(parts + 1)]
    return _parts(x, [slice(a, b).indices(n)[:2] for a, b in zip(cuts, cuts[1:])], axis)


@composite
def chunk(x: Any, chunks: int, axis: int = 0) -> list:
    """At most `chunks` views of equal length, ⌈n/chunks⌉; the last may be shorter.

    Of an axis of length 0 there are `chunks` empty ones.
    """
    x = array_like(x)
    axis = axis_of(axis, x.ndim)
    if chunks < 1:
        raise ValueError(f"chunk: needs at least 1 chunk, got {chunks}")
    n, chunks = x.shape[axis], operator.index(chunks)
    if n == 0:
        _refuse_empty("chunk", chunks, n)
        return _parts(x, [(0, 0)] * chunks, axis)
    size = -(-n // chunks)
    return _parts(x, [(a, min(a + size, n)) for a in range(0, n, size)], axis)


@composite(numpy=getattr(np, "unstack", ()))
def unstack(x: Any, axis: int = 0) -> tuple:
    """The slices of x along `axis`, without that axis: the inverse of stack."""
    x = array_like(x)
    if x.ndim == 0:
        raise ValueError("unstack: a 0-d array has no axis to unstack")
    return unbind(x, axis)


@composite(numpy=np.vsplit)
def vsplit(x: Any, indices_or_sections: Any) -> list:
    """split along axis 0, for at least two axes."""
    return split(_with_axes(x, 2, "vsplit"), indices_or_sections, 0)


@composite(numpy=np.hsplit)
def hsplit(x: Any, indices_or_sections: Any) -> list:
    """split along axis 1, or along axis 0 for a 1-d array."""
    x = _with_axes(x, 1, "hsplit")
    return split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


@composite(numpy=np.dsplit)
def dsplit(x: Any, indices_or_sections: Any) -> list:
    """split along axis 2, for at least three axes."""
    return split(_with_axes(x, 3, "dsplit"), indices_or_sections, 2)


def _all(n: int) -> tuple:
    return (slice(None),) * n


def _with_axes(x: Any, least: int, name: str) -> Any:
    x = array_like(x)
    if x.ndim < least:
        raise ValueError(f"{name}: needs at least {least} axes, got an array of shape {x.shape}")
    return x
