"""Statistics, searching, sorting, sets, and the questions any and all."""

from collections import namedtuple
from typing import Any

import numpy as np

from ..engine.graph import raw
from ..engine.registry import op
from ..tensor_api.tensor import Tensor

__all__ = [
    "all", "any", "argmax", "argmin", "argsort", "count_nonzero", "cumulative_prod",
    "cumulative_sum", "diff", "isin", "max", "mean", "min", "nonzero", "prod", "searchsorted",
    "sort", "std", "sum", "unique_all", "unique_counts", "unique_inverse", "unique_values", "var",
    "where",
]  # fmt: skip

Axis = int | tuple[int, ...] | None


# -- statistics ------------------------------------------------------------------------------


def sum(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Σ x over `axis`; small integers are added up in the default integer dtype."""
    return op.sum(x, axis=axis, dtype=dtype, keepdims=keepdims)


def prod(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Π x over `axis`."""
    return op.prod(x, axis=axis, dtype=dtype, keepdims=keepdims)


def mean(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """Σ x / n over `axis`."""
    return op.mean(x, axis=axis, keepdims=keepdims)


def var(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Σ |x − mean|² / (n − correction) over `axis`."""
    return op.var(x, axis=axis, ddof=correction, keepdims=keepdims)


def std(x: Any, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """√var."""
    return op.std(x, axis=axis, ddof=correction, keepdims=keepdims)


def max(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The largest element over `axis`."""
    return op.max(x, axis=axis, keepdims=keepdims)


def min(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The smallest element over `axis`."""
    return op.min(x, axis=axis, keepdims=keepdims)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """y_k = Σ_{j≤k} x_j along `axis`; include_initial puts a 0 in front."""
    return op.cumulative_sum(x, axis, dtype, include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """y_k = Π_{j≤k} x_j along `axis`; include_initial puts a 1 in front."""
    return op.cumulative_prod(x, axis, dtype, include_initial)


def all(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """Whether every element is nonzero."""
    return op.all(x, axis=axis, keepdims=keepdims)


def any(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """Whether any element is nonzero."""
    return op.any(x, axis=axis, keepdims=keepdims)


def diff(
    x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None
) -> Any:  # fmt: skip
    """y_k = x_{k+1} − x_k along `axis`, n times."""
    return op.diff(x, n=n, axis=axis, prepend=prepend, append=append)


# -- searching and sorting -------------------------------------------------------------------


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Where the first of the largest elements stands."""
    return op.argmax(x, axis=axis, keepdims=keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """Where the first of the smallest elements stands."""
    return op.argmin(x, axis=axis, keepdims=keepdims)


def count_nonzero(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """How many elements are nonzero."""
    return op.count_nonzero(x, axis=axis, keepdims=keepdims)


def nonzero(x: Any, /) -> tuple:
    """The positions of nonzero elements, one array for each axis."""
    if x.ndim == 0:
        raise ValueError("nonzero: a 0-d array has no positions; reshape it to (1,) first")
    return op.nonzero(x)


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """The position of each x2 in the sorted 1-d x1 (x1[sorter], if a sorter is given)."""
    return op.searchsorted(x1, x2, side=side, sorter=sorter)


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """x1 where the condition holds, else x2."""
    return op.where(condition, x1, x2)


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The positions of the sorted elements in x; the sort is always stable."""
    return op.argsort(x, axis=axis, descending=descending)


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements in order along `axis`; the sort is always stable."""
    return op.sort(x, axis=axis, descending=descending)


# -- sets: NaNs are distinct from one another ------------------------------------------------

UniqueAll = namedtuple("UniqueAll", "values indices inverse_indices counts")
UniqueCounts = namedtuple("UniqueCounts", "values counts")
UniqueInverse = namedtuple("UniqueInverse", "values inverse_indices")


def unique_all(x: Any, /) -> UniqueAll:
    """The distinct elements, sorted; where each stands first, the inverse, how often each is."""
    return UniqueAll(*op.unique_all(x))


def unique_counts(x: Any, /) -> UniqueCounts:
    """The distinct elements, sorted, and how often each occurs."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The distinct elements, sorted, and which of them each element of x is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Any, /) -> Any:
    """The distinct elements, sorted."""
    return unique_all(x).values


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Any:
    """Whether each element of x1 occurs in x2; with invert, whether it does not. No gradient."""
    return Tensor(np.isin(raw(x1), raw(x2), invert=invert))
