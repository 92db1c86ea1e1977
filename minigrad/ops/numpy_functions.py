"""What NumPy functions mean on tensors that are not ops here: np.isin(t, ...), np.put(t, ...).

Three kinds. Results without a gradient (truths, places, counts), which NumPy computes from the
values; compositions of ops; and writes, which are x[key] = values with all its rules (inplace.py).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.dtypes import common_dtype, is_floating
from ..engine.graph import wrap
from ..engine.registry import numpy_table, op
from ..tensor_api.numpy_protocol import mask_of
from ..tensor_api.tensor import Tensor
from .axes import (
    array_beside,
    array_like,
    axes_of,
    axis_of,
    constant_array,
    constant_like,
    goes_into,
    on_host,
)
from .elementwise.support import ordered
from .index.scattering import along_key
from .statistics import constant_span, edges_of

__all__: list[str] = []  # they are reached through NumPy's names


# -- no gradient -------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """The arrays of the tensors in an argument, on the host."""
    if isinstance(value, list | tuple):
        return type(value)(_plain(part) for part in value)
    return on_host(constant_array(value)) if isinstance(value, Tensor) else value


def _wrapped(value: Any) -> Any:
    """Arrays of a result as tensors; truths and numbers of Python stay what they are."""
    if isinstance(value, tuple):
        parts = [_wrapped(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return wrap(value) if isinstance(value, np.ndarray | np.generic) else value


def _of_values(function: Callable) -> Callable:
    def run(*args: Any, **kwargs: Any) -> Any:
        kwargs = {name: _plain(value) for name, value in kwargs.items()}
        return _wrapped(function(*[_plain(x) for x in args], **kwargs))

    return run


for _function in (
    np.isin, np.array_equiv, np.lexsort, np.unravel_index, np.ravel_multi_index,
    np.min_scalar_type, np.common_type, np.packbits, np.unpackbits, np.einsum_path,
):  # fmt: skip
    numpy_table[_function] = _of_values(_function)


def _of_shape(function: Callable) -> Callable:
    """Functions of an array's shape alone, which vmap too knows."""

    def run(arr: Any, *args: Any, **kwargs: Any) -> Any:
        return _wrapped(function(np.empty(arr.shape, bool), *args, **kwargs))

    return run


for _function in (np.tril_indices_from, np.triu_indices_from, np.diag_indices_from):
    numpy_table[_function] = _of_shape(_function)


# -- compositions ------------------------------------------------------------------------------


def _numpy(function: Callable | None) -> Callable:
    """Decorator: the meaning of a NumPy function (None: not in this version) on tensors."""

    def add(fn: Callable) -> Callable:
        if function is not None:
            numpy_table[function] = fn
        return fn

    return add


@_numpy(np.rollaxis)
def _rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    axis, start = axis_of(axis, a.ndim), start + a.ndim if start < 0 else start
    if not 0 <= start <= a.ndim:
        raise np.exceptions.AxisError(start, a.ndim)
    return op.moveaxis(a, axis, start - (axis < start))


@_numpy(np.ix_)
def _ix(*args: Any) -> tuple:
    """Views that broadcast against one another, of truths the places where they hold."""
    shapes = [place.shape for place in np.ix_(*map(_plain, args))]
    parts = [array_like(x) for x in args]
    parts = [op.nonzero(x)[0] if x.dtype.kind == "b" else x for x in parts]
    return tuple([op.reshape(x, shape=shape) for x, shape in zip(parts, shapes, strict=True)])


@_numpy(np.histogram_bin_edges)
def _histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    range = constant_span(range)
    edges = np.histogram_bin_edges(_plain(a), _plain(bins), range, _plain(weights))
    return _wrapped(edges_of(edges, array_like(a), bins, range))


@_numpy(np.isposinf)
def _isposinf(x: Any) -> Any:
    return op.logical_and(op.isinf(x), op.logical_not(op.signbit(x)))


@_numpy(np.isneginf)
def _isneginf(x: Any) -> Any:
    return op.logical_and(op.isinf(x), op.signbit(x))


@_numpy(np.digitize)
def _digitize(x: Any, bins: Any, right: bool = False) -> Any:
    x, edges = ordered(x, "np.digitize"), np.asarray(_plain(bins))
    np.digitize(0, edges)  # raises where the edges neither rise nor fall
    side, falls = "left" if right else "right", edges.size > 0 and edges[0] > edges[-1]
    places = op.searchsorted(constant_like(edges[::-1] if falls else edges, x), x, side=side)
    return _wrapped(edges.size - places if falls else places)


@_numpy(np.union1d)
def _union1d(a: Any, b: Any) -> Any:
    return op.unique(op.concatenate([op.reshape(array_beside(x, y), shape=-1)
                                     for x, y in ((a, b), (b, a))]))  # fmt: skip


def _members(a: Any, b: Any, wanted: bool, assume_unique: bool) -> Any:
    """The distinct entries of a that are in b, or are not; differentiable in a."""
    values = op.reshape(array_like(a), shape=-1)
    values = values if assume_unique else op.unique(values)
    inside = np.isin(on_host(constant_array(values)), _plain(b))
    return values[inside if wanted else ~inside]


@_numpy(np.intersect1d)
def _intersect1d(a: Any, b: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """The entries of both, sorted; on demand where they stand first in a and in b."""
    a, b = array_beside(a, b), array_beside(b, a)
    _, *places = np.intersect1d(_plain(a), _plain(b), assume_unique, return_indices=True)
    y = op.take(op.reshape(a, shape=-1), constant_like(places[0], a))
    y = op.astype(y, dtype=common_dtype(a.dtype, b.dtype), copy=False)
    return (y, *map(_wrapped, places)) if return_indices else y


@_numpy(np.setdiff1d)
def _setdiff1d(a: Any, b: Any, assume_unique: bool = False) -> Any:
    return _members(a, b, False, assume_unique)


@_numpy(np.setxor1d)
def _setxor1d(a: Any, b: Any, assume_unique: bool = False) -> Any:
    parts = [_members(a, b, False, assume_unique), _members(b, a, False, assume_unique)]
    return op.sort(op.concatenate(parts))


@_numpy(np.unique_values)
def _unique_values(x: Any) -> Any:
    return op.unique_all(x)[0]


for _function, _parts in (
    (np.unique_all, (0, 1, 2, 3)), (np.unique_counts, (0, 3)), (np.unique_inverse, (0, 2)),
):  # fmt: skip
    _kind = type(_function(np.zeros(1)))  # a named tuple

    def _named_parts(x: Any, kind: Any = _kind, parts: tuple = _parts) -> Any:
        found = op.unique_all(x)
        return kind(*[found[i] for i in parts])

    numpy_table[_function] = _named_parts


@_numpy(np.trim_zeros)
def _trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """The smallest box that holds all that is not 0, on the sides and axes that may be cut."""
    sides = set(trim.lower())
    if not sides or sides - {"f", "b"}:
        raise ValueError(f"np.trim_zeros: trim must be 'f', 'b' or 'fb', got {trim!r}")
    places = np.nonzero(on_host(constant_array(filt))) if filt.ndim else ()  # 0-d as it is
    box = [slice(None)] * filt.ndim
    for i in axes_of(axis, filt.ndim):
        if not places[i].size:
            box[i] = slice(0)
            continue
        first = places[i].min() if "f" in sides else None
        box[i] = slice(first, places[i].max() + 1 if "b" in sides else None)
    return filt[tuple(box)]


@_numpy(np.real_if_close)
def _real_if_close(a: Any, tol: float = 100) -> Any:
    if a.dtype.kind != "c":
        return a
    real = np.real_if_close(on_host(constant_array(a)), tol).dtype.kind != "c"
    return op.real(a) if real else a


@_numpy(np.sort_complex)
def _sort_complex(a: Any) -> Any:
    """The entries in order along the last axis, as complex numbers."""
    y = op.sort(array_like(a))
    narrow = y.dtype.kind in "iu" and y.dtype.itemsize < 4
    return y if y.dtype.kind == "c" else op.astype(y, np.complex64 if narrow else np.complex128)


@_numpy(np.apply_along_axis)
def _apply_along_axis(func1d: Callable, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """func1d of each line along the axis; its result's axes take that axis's place."""
    axis = axis_of(axis, arr.ndim)
    lines = op.moveaxis(arr, axis, -1)
    places = list(np.ndindex(*lines.shape[:-1]))
    ys = op.stack([array_beside(func1d(lines[i], *args, **kwargs), arr) for i in places])
    y = op.reshape(ys, shape=(*lines.shape[:-1], *ys.shape[1:]))
    k = lines.ndim - 1
    new = range(k, y.ndim)
    return op.moveaxis(y, tuple(new), tuple(range(axis, axis + len(new)))) if new else y


@_numpy(np.apply_over_axes)
def _apply_over_axes(func: Callable, a: Any, axes: Any) -> Any:
    """func(a, axis) for each axis in turn; an axis that it takes away is put back with length 1."""
    for axis in (axes,) if np.ndim(axes) == 0 else axes:
        y = func(a, axis)
        a = y if y.ndim == a.ndim else op.expand_dims(y, axis=axis)
    return a


# -- writes ------------------------------------------------------------------------------------


def _target(name: str, x: Any) -> Any:
    if not isinstance(x, Tensor):
        raise TypeError(
            f"np.{name}: writing a tensor's values into a NumPy array would drop their history in "
            "silence; make the array a tensor (mg.tensor), or write x.detach()"
        )
    return x


@_numpy(np.copyto)
def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    dst = _target("copyto", dst)
    if not _may_be_cast(src, dst.dtype, casting):
        raise TypeError(
            f"np.copyto: values of {array_like(src).dtype} do not fit into {dst.dtype} by "
            f"casting={casting!r}; cast them first, or say casting='unsafe'"
        )
    if type(where) in (int, float, complex):  # as NumPy, which refuses arrays of them
        where = bool(where)
    dst[...] = src if where is True else op.where(mask_of("copyto", where, dst.shape), src, dst)


def _may_be_cast(values: Any, dtype: Any, casting: Any) -> bool:
    """NumPy's rule; a number of Python needs no more than a dtype of its kind."""
    if type(values) in (bool, int, float, complex):
        kinds = {"b": "?", "f": "e", "c": "F"} | {"i": dtype.char if dtype.kind in "iu" else "b"}
        given = np.dtype(kinds[np.asarray(values).dtype.kind])
        casting = "unsafe" if casting == "unsafe" else "same_kind"
    else:
        given = array_like(values).dtype
    return np.can_cast(given, dtype, casting) or (
        casting == "same_kind" and is_floating(given) and is_floating(dtype)  # bfloat16's is V
    )


@_numpy(np.fill_diagonal)
def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    a = _target("fill_diagonal", a)
    if a.ndim < 2 or (a.ndim > 2 and len(set(a.shape)) > 1):
        raise ValueError("np.fill_diagonal: needs a matrix, or equal lengths along all axes")
    n = min(a.shape)
    step = sum(np.cumprod((1, *a.shape[:0:-1])).tolist())  # from one entry to the next, in memory
    # wrap: below the square of a tall matrix, after a row left out, the diagonal begins again
    places = np.arange(0, a.size, step) if wrap and a.ndim == 2 else step * np.arange(n)
    values = array_like(goes_into(val, a))
    if values.ndim:
        values = op.resize(values, places.size)
    a[np.unravel_index(places, a.shape)] = values


@_numpy(np.put)
def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    a, places = _target("put", a), np.ravel(_plain(ind))
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"np.put: mode={mode!r}: choose 'raise', 'wrap' or 'clip'")
    values = array_like(goes_into(v, a))
    if places.size and values.size:
        shape = a.shape or (1,)
        key = np.unravel_index(_within(places, a.size, mode), shape)
        a[key if a.shape else ...] = op.resize(values, places.size)


def _within(places: np.ndarray, n: int, mode: str) -> np.ndarray:
    if mode == "clip":
        return np.clip(places, 0, n - 1)
    if mode != "wrap" and ((places < -n) | (places >= n)).any():
        raise IndexError(f"np.put: places {places} are out of bounds for size {n}")
    return places % n


@_numpy(np.putmask)
def _putmask(a: Any, mask: Any, values: Any) -> None:
    a = _target("putmask", a)
    values = array_like(goes_into(values, a))
    mask = _mask_over("putmask", mask, a)
    if values.size:
        a[mask] = op.reshape(op.resize(values, a.size), shape=a.shape)[mask]


def _mask_over(name: str, mask: Any, a: Any) -> np.ndarray:
    """The mask as truths, also where it is given as numbers, in the shape of a."""
    mask = np.asarray(_plain(mask), bool)
    if mask.size != a.size:
        raise ValueError(f"np.{name}: the mask, {mask.shape}, must be as large as a, {a.shape}")
    return mask.reshape(a.shape)


@_numpy(np.place)
def _place(arr: Any, mask: Any, vals: Any) -> None:
    arr = _target("place", arr)
    vals = array_like(goes_into(vals, arr))
    mask = _mask_over("place", mask, arr)
    if mask.any() and not vals.size:
        raise ValueError("np.place: vals is empty, and the mask has places to fill")
    if mask.any():
        arr[mask] = op.resize(vals, int(mask.sum()))


@_numpy(np.put_along_axis)
def _put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None = -1) -> None:
    arr, indices = _target("put_along_axis", arr), np.asarray(_plain(indices))
    if axis is None:
        if indices.ndim != 1:
            raise ValueError(
                f"np.put_along_axis: for axis=None, of arr flattened, indices is a vector, got "
                f"shape {indices.shape}"
            )
        return _put(arr, indices, values)
    arr[along_key(indices, axis, arr.shape)] = values
    return None
