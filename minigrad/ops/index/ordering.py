"""Sorting and searching. Positions carry no gradient; values take it through the permutation."""

from typing import Any

import numpy as np

from ...engine.primitive import primitive
from ...engine.registry import op
from ...tensor_api.composite import composite
from ..axes import array_beside, array_like, axis_of, constant_array, constant_like, sortable
from ..batching import along, full, of_none

__all__ = [
    "argpartition", "argsort", "argwhere", "flatnonzero", "nonzero", "searchsorted", "sort", "topk",
    "unique", "unique_all",
]  # fmt: skip

MANY = 1 << 12  # elements; fewer are sorted as soon as parted
_KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


@primitive(numpy=np.argsort, differentiable=False)
def argsort(x, axis=-1, kind=None, order=None, *, stable=True, descending=False):
    """The positions in x of the sorted elements; equal ones in their order, NaN last. No gradient.

    The sort is stable for every `kind`; `order` (fields of structured arrays) is refused.
    """
    if order is not None:
        raise TypeError("order= is for structured arrays, which tensors are not")
    if kind not in _KINDS:
        raise ValueError(
            f"kind={kind!r}: give None or one of NumPy's, {', '.join(_KINDS[1:])} (the sort is "
            "stable with all of them); a descending order is asked for by descending=True"
        )
    if axis is None:
        x, axis = x.reshape(-1), 0
    if not descending:
        return np.argsort(sortable(x), axis=axis, kind="stable")
    # back to front before and after: equal elements keep their order
    n = x.shape[axis] if x.ndim else 1
    order = np.argsort(np.flip(sortable(x), axis), axis=axis, kind="stable")
    return n - 1 - np.flip(order, axis)


@composite(numpy=np.sort)
def sort(
    x: Any, axis: int | None = -1, kind: Any = None, order: Any = None,
    *, stable: bool = True, descending: bool = False,
) -> Any:  # fmt: skip
    """The elements in ascending order along `axis` (None: of x flattened), NaN last.

    gx = g carried back through the permutation; where elements tie, it is the stable one.
    """
    x = array_like(x)
    if axis is None:
        x, axis = op.reshape(x, shape=-1), -1
    places = op.argsort(x, axis, kind, order, descending=descending)
    return op.take_along_axis(x, places, axis=axis)


@primitive(differentiable=False)
def top_places(x, *, k, axis=-1, largest=True):
    """argsort(x, axis, descending=largest) cut to its first k. No gradient.

    A few of many are found by a partition, in a sixth of the time of the sort.
    """
    n = x.shape[axis] if x.ndim else 1
    if type(x) is np.ndarray and x.dtype.char in "fdil" and 0 < 4 * k <= n and x.size >= MANY:
        rows = np.moveaxis(x, axis, -1)
        places = _top_of_rows(rows.reshape(-1, n), k, largest)
        if places is not None:
            return np.moveaxis(places.reshape(*rows.shape[:-1], k), -1, axis)
    places = argsort.forward(x, axis=axis, descending=largest)
    return places[(slice(None),) * (axis % x.ndim) + (slice(0, k),)] if x.ndim else places[:k]


def _top_of_rows(rows: np.ndarray, k: int, largest: bool) -> np.ndarray | None:
    """Where each row has its k largest (smallest) entries, in their order; None if any NaN."""
    first = rows.shape[1] - k if largest else 0
    parted = np.partition(rows, first if largest else k - 1, axis=-1)[:, first : first + k]
    edge = (parted.min if largest else parted.max)(-1, keepdims=True)
    if np.isnan(edge).any():
        return None
    chosen = rows >= edge if largest else rows <= edge
    if np.count_nonzero(chosen) > len(rows) * k:  # of those equal to the edge the first
        beyond = rows > edge if largest else rows < edge
        equal = chosen & ~beyond
        spare = k - beyond.sum(-1, keepdims=True)
        chosen = beyond | (equal & (equal.cumsum(-1) <= spare))
    places = np.flatnonzero(chosen).reshape(-1, k) % rows.shape[1]
    order = argsort.forward(np.take_along_axis(rows, places, -1), descending=largest)
    return np.take_along_axis(places, order, -1)


@composite
def topk(x: Any, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> tuple:
    """(values, indices) of the k largest elements along `axis`, largest first.

    largest=False: the smallest, smallest first. sorted=False: in no particular order, which is
    quicker. Of equal elements the first come first. The values carry the gradient.
    """
    x = array_like(x)
    n = x.shape[axis_of(axis, x.ndim)] if x.ndim else 1
    if not 0 <= k <= n:
        raise ValueError(
            f"topk: k must lie between 0 and {n}, the length of axis {axis} of x {x.shape}; got {k}"
        )
    if sorted:
        places = op.top_places(x, k=k, axis=axis, largest=largest)
    else:
        first = n - k if largest else 0
        rank = min(first if largest else k - 1, n - 1)  # k = 0 takes none, for any rank
        places = op.argpartition(x, kth=rank, axis=axis) if n else op.argsort(x, axis=axis)
        places = op.narrow(places, axis, first, k)
    return op.take_along_axis(x, places, axis=axis), places


@primitive(numpy=np.argpartition, differentiable=False)
def argpartition(x, kth=0, axis=-1):
    """Positions of the elements once rank kth is in place, smaller ones before it. No gradient."""
    return np.argpartition(sortable(x), kth, axis)


argsort.batch(along)
argpartition.batch(along)
top_places.batch(along)


@primitive(numpy=np.searchsorted, arrays="a v", differentiable=False)
def searchsorted(a, v, side: Any = "left", sorter: Any = None):
    """Where each v belongs in sorted 1-d a, before (left) or after its equals. No gradient.

    sorter: an order in which a is sorted, as argsort(a) gives it, where a itself is not.
    """
    a, v = sortable(array_beside(a, v)), sortable(array_beside(v, a))
    sorter = None if sorter is None else constant_like(constant_array(sorter), a)
    return np.searchsorted(a, v, side=side, sorter=sorter)


@searchsorted.batch
def searchsorted_batch(op, xs, batched, params):
    a, v = xs
    if not batched[0]:
        return op(a, v, **params)
    a, v = full(xs, batched)
    if not len(a):
        return of_none(op, [a, v], [True, True], params)
    return np.stack([op(row, x, **params) for row, x in zip(a, v)])  # NumPy searches one row


@primitive(numpy=np.argwhere, differentiable=False)
def argwhere(x):
    """The positions of nonzero elements, one row each: (count, x.ndim). No gradient."""
    return np.argwhere(x)


@composite(numpy=np.nonzero)
def nonzero(x: Any) -> tuple:
    """The positions of nonzero elements as a tuple, one array for each axis: x[nonzero(x)]."""
    x = array_like(x)
    if x.ndim == 0:
        raise ValueError("nonzero: a 0-d array has no positions; use mg.atleast_1d(x)")
    return op.unstack(op.argwhere(x), axis=1)


@composite(numpy=np.flatnonzero)
def flatnonzero(x: Any) -> Any:
    """The positions of nonzero elements in x flattened."""
    return op.reshape(op.argwhere(op.reshape(x, shape=-1)), shape=-1)


@primitive(outputs=3, differentiable=False)
def unique_places(x, *, equal_nan=False, axis=None):
    """(first positions, inverse, counts) of the distinct elements, sorted. No gradient."""
    _, *found = np.unique(sortable(x), True, True, True, axis, equal_nan=equal_nan)
    first, inverse, counts = found
    return first, inverse.reshape(x.shape if axis is None else -1), counts


@composite
def unique_all(x: Any, *, equal_nan: bool = False, axis: int | None = None) -> tuple:
    """(values, first positions, inverse, counts) of the distinct elements, sorted.

    NaNs are distinct from one another, unless equal_nan. axis: of the slices along it instead. gx:
    the gradient of an element goes to the first of those that are equal.
    """
    x = array_like(x)
    first, inverse, counts = op.unique_places(x, equal_nan=equal_nan, axis=axis)
    if axis is None:
        return op.getitem(op.reshape(x, shape=(-1,)), index=first), first, inverse, counts
    return op.take(x, first, axis=axis), first, inverse, counts


@composite(numpy=np.unique)
def unique(
    x: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """The distinct elements, sorted; on demand first positions, inverse and counts.

    axis: the distinct slices along it, in the order of their elements, instead. NaNs are one
    element, unless equal_nan=False. sorted=False allows any order; it is this one. gx: the gradient
    of an element goes to the first of those that are equal.
    """
    x = array_like(x)
    values, first, inverse, counts = unique_all(x, equal_nan=equal_nan, axis=axis)
    wanted = (True, return_index, return_inverse, return_counts)
    found = [y for y, want in zip((values, first, inverse, counts), wanted) if want]
    return tuple(found) if len(found) > 1 else found[0]
