"""Adding many values into few places: the gradient of every read by index is such a sum.

A key (the index in x[key]) is turned into one flat row number for each value read; then values
with the same number are added up. No loop over elements, and not `np.add.at` on rows either.
The quickest of five ways are taken (benchmarks/NOTES.md): np.add.at on flat places for single
numbers, a sparse product for rows.
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.blocks import scratch, spans
from ...backends.device import array_module
from ...backends.optional import optional
from ...backends.pool import share
from ...modes import deterministic
from ...tensor_api.inplace import no_number
from ..axes import axis_of, constant_array, widen
from .in_order import sum_in_order

MANY = 4096  # fewer numbers than this are added before a sparse matrix is even built


_INSTEAD = (
    ": in x[index], x[index] = v and mg.index_put, integers (arrays of them, beside slices "
    "and None) may differ from example to example; in place of a mask use "
    "mg.where(mask, x, other), of a list of tensors mg.stack, of a slice that moves x[start + "
    "mg.arange(length)]"
)


def plain_key(key: Any, xp: Any = np) -> Any:
    """The key with arrays in place of its tensors and lists."""
    if type(key) is tuple:
        return tuple([_plain_item(item, xp) for item in key])
    return _plain_item(key, xp)


def _plain_item(item: Any, xp: Any) -> Any:
    if isinstance(item, list | tuple):
        item = xp.asarray([constant_array(entry, instead=_INSTEAD) for entry in item])
        return item if item.size else item.astype(np.intp)  # [] alone would hold floats
    return constant_array(item, instead=_INSTEAD)


def is_basic(key: Any) -> bool:
    """Whether x[key] is a view: integers, slices, None and Ellipsis alone."""
    items = key if isinstance(key, tuple) else (key,)
    return all(_is_basic_item(item) for item in items)


def _is_basic_item(item: Any) -> bool:
    if item is None or item is Ellipsis or isinstance(item, slice | np.integer):
        return True
    return isinstance(item, int) and not isinstance(item, bool)


def reads_once(key: Any) -> bool:
    """Whether no place can be read twice: basic keys, and keys whose arrays are all masks."""
    items = key if isinstance(key, tuple) else (key,)
    return all(_is_basic_item(item) or _is_mask(item) for item in items)


def _is_mask(item: Any) -> bool:
    return isinstance(item, bool) or (hasattr(item, "dtype") and item.dtype.kind == "b")


def _is_bare_bool(item: Any) -> bool:
    """True, False or a 0-d mask, which stands for no axis of x."""
    return isinstance(item, bool | np.bool_) or (_is_mask(item) and item.ndim == 0)


def batched_key(key: Any, ndim: int) -> tuple[tuple, int]:
    """The key that reads `key` in each example of a batch, and where x[that] has its batch axis.

    In front, but behind the arrays' own axes where NumPy puts those first.
    """
    items = key if isinstance(key, tuple) else (key,)
    place = 0
    if not is_basic(key):
        *_, arrays, front = _parts(key, ndim)
        place = len(np.broadcast_shapes(*[a.shape for a in arrays])) if front else 0
    return (slice(None), *items), place


def add_at(g: Any, key: Any, shape: tuple) -> Any:
    """Zeros of `shape` with g added at `key`; repeated places add up, 16-bit floats in float32."""
    if reads_once(key):
        y = array_module(g).zeros(shape, g.dtype)
        y[key] = g
        return y
    wide = widen(g)
    y = _add_at(wide, key, shape) if array_module(g) is np else _add_on_device(wide, key, shape)
    return y.astype(g.dtype, copy=False)


def _add_on_device(g: Any, key: Any, shape: tuple) -> Any:
    """add_at for CuPy, by atomics: sums of floats in no fixed order, unless one is asked for."""
    if deterministic.required:
        places = array_module(g).arange(prod(shape)).reshape(shape)[key]
        values = array_module(g).broadcast_to(g, places.shape)
        return sum_in_order(values.ravel(), places.ravel(), prod(shape)).reshape(shape)
    import cupyx

    if g.dtype.kind == "c":  # there is no complex atomic
        return _add_on_device(g.real, key, shape) + 1j * _add_on_device(g.imag, key, shape)
    y = array_module(g).zeros(shape, g.dtype)  # CuPy's zeros_like takes shape=() for none given
    cupyx.scatter_add(y, key, g)
    return y


def write_at(y: Any, key: Any, values: Any) -> None:
    """y[key] = values; of two writes to one place the last wins, on a GPU too.

    There threads write in no order, so the last writer of each place is found first (the maximum
    of their numbers does not depend on an order), and each place then reads its value.
    """
    xp = array_module(y)
    if xp is np or reads_once(key):
        try:
            y[key] = values
        except ValueError:
            if np.ndim(values) and not np.ndim(y[key]):
                raise ValueError(f"the value {no_number(np.shape(values))}") from None
            raise
        return
    picked = y[key].shape
    writer = _last_writer(key, y.shape, xp)
    written = xp.broadcast_to(xp.asarray(values, dtype=y.dtype), picked).ravel()
    if written.size:
        y[...] = xp.where(writer < 0, y, written[writer])


def _last_writer(key: Any, shape: tuple, xp: Any) -> Any:
    """For each place, the number of the last value that x[key] = values writes there; or −1."""
    writer = xp.full(shape, -1, dtype=np.intp)
    numbers = xp.arange(writer[key].size, dtype=np.intp).reshape(writer[key].shape)
    if xp is np:
        writer[key] = numbers
    else:
        import cupyx

        cupyx.scatter_max(writer, key, numbers)
    return writer


def _add_at(g: np.ndarray, key: Any, shape: tuple) -> np.ndarray:
    """add_at for NumPy: slices become a view of y; the arrays become one flat row number."""
    slices, axes, arrays, front = _parts(key, len(shape))
    y = np.empty(shape, g.dtype)
    view = y[slices]
    lengths = [view.shape[a] for a in axes]
    places = _flat(arrays, lengths)
    index = places.ravel()
    # g's axes: those of the index arrays stand together, where NumPy has put them
    place = 0 if front else axes[0]
    picked = tuple(range(place, place + places.ndim))
    g = np.moveaxis(g, picked, range(len(picked)))
    rest = g.shape[len(picked) :]
    rows = sum_rows(g.reshape(index.size, prod(rest)), index, prod(lengths))
    whole = view.shape == shape and view.strides == y.strides  # not if a slice turns an axis round
    if whole and axes == list(range(len(axes))):
        return rows.reshape(shape)
    y[...] = 0
    np.moveaxis(view, axes, range(len(axes)))[...] = rows.reshape(*lengths, *rest)
    return y


def _flat(arrays: list[np.ndarray], lengths: list[int]) -> np.ndarray:
    """For each place that the index arrays name together its number in axes of these lengths."""
    total: Any = 0
    for i, n in zip(arrays, lengths, strict=True):
        low = _least(i, n) if i.size else 0
        i = i.astype(np.intp, copy=False)
        total = total * n + (np.where(i < 0, i + n, i) if low < 0 else i)
    return total


def _least(index: np.ndarray, n: int) -> Any:
    """The smallest of these numbers, which may count from the end; IndexError beyond −n … n − 1."""
    low, high = index.min(), index.max()
    if low < -n or high >= n:
        bad = low if low < -n else high
        raise IndexError(f"index {bad} is out of bounds for an axis of length {n}")
    return low


def take_along(x: Any, index: Any, axis: int) -> Any:
    """np.take_along_axis; of large arrays by one flat index, in place of one for each axis."""
    axis = axis_of(axis, x.ndim)
    if not (_in_blocks(index, axis, x.shape) and type(x) is np.ndarray and x.flags.c_contiguous):
        return np.take_along_axis(x, index, axis)  # which says what is wrong
    flat, y = x.reshape(-1), np.empty(index.shape, x.dtype)
    places = _Along(index, axis, x.shape)
    # the places are known to be inside: "clip" writes to y at once, "raise" by way of a copy
    share(lambda rows: flat.take(places(rows), out=y[rows], mode="clip"), places.pieces)
    return y


def add_along(g: Any, index: Any, axis: int, shape: tuple) -> Any:
    """Zeros of `shape` with g added at the index along `axis`: add_at, in blocks where it is large.

    In the order of the elements of g, as without blocks.
    """
    axis = axis_of(axis, len(shape))
    if not (_in_blocks(index, axis, shape) and type(g) is np.ndarray and g.shape == index.shape):
        return add_at(g, along_key(index, axis, shape), shape)
    wide, places = widen(g), _Along(index, axis, shape)
    y = np.zeros(prod(shape), wide.dtype)
    for rows in places.pieces:
        np.add.at(y, places(rows).reshape(-1), wide[rows].reshape(-1))
    return y.reshape(shape).astype(g.dtype, copy=False)


def _in_blocks(index: Any, axis: int, shape: tuple) -> bool:
    """Whether `_Along` takes this index: NumPy's integers, many, one for each line of the array."""
    if type(index) is not np.ndarray or index.dtype.kind != "i" or index.size < MANY:
        return False
    return index.ndim == len(shape) and all(
        k == axis or m == n for k, (m, n) in enumerate(zip(index.shape, shape))
    )


class _Along:
    """The flat places in an array of `shape` that an index along `axis` names, in blocks.

    A block of them stays in cache between the look at its bounds, the sum that makes it and its
    use, and all of them never lie in memory.
    """

    BLOCK = 1 << 15  # places

    def __init__(self, index: np.ndarray, axis: int, shape: tuple):
        self.index, self.axis, self.n = index, axis, shape[axis]
        self.stride = prod(shape[axis + 1 :])
        step = max(1, self.BLOCK * len(index) // index.size)
        self.pieces = spans(len(index), step)
        lines = np.arange(prod(shape) // max(self.n, 1)).reshape(
            (*shape[:axis], 1, *shape[axis + 1 :])
        )
        # line (i, k) begins at i n stride + k, where i counts what lies before the axis
        self.starts = lines % self.stride + lines // self.stride * (self.n * self.stride)

    def __call__(self, rows: slice) -> np.ndarray:
        """Those of index[rows], in scratch memory of this thread."""
        index, n = self.index[rows], self.n
        low = _least(index, n)
        places = scratch.empty("block 0", index.shape, index, np.intp)
        if low < 0:
            index = np.where(index < 0, index + n, index)
        if self.stride > 1:
            index = np.multiply(index, self.stride, out=places)
        starts = self.starts if self.axis == 0 else self.starts[rows]
        return np.add(index, starts, out=places)


def _parts(key: Any, ndim: int) -> tuple[tuple, list[int], list[np.ndarray], bool]:
    """A key with index arrays, taken apart.

    (slices and Nones that make the view, the view's axes that arrays index, those arrays, whether
    NumPy puts the arrays' axes in front: it does where a slice or None stands between two arrays)
    """
    items = []
    for item in key if isinstance(key, tuple) else (key,):
        if _is_bare_bool(item):
            items.append(bool(item))
        else:
            items += item.nonzero() if _is_mask(item) else [item]
    used = len([i for i in items if i is not None and i is not Ellipsis and type(i) is not bool])
    missing = [slice(None)] * (ndim - used)
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    at = dots[0] if dots else len(items)
    items[at : at + 1] = missing

    slices, axes, arrays = [], [], []
    for axis, item in enumerate(items):
        is_slice = item is None or isinstance(item, slice)
        if type(item) is bool:  # NumPy: an axis of length 1 in its place, read once or not at all
            item, unit = np.zeros(int(item), np.intp), True
        else:
            unit = False
        slices.append(item if is_slice else None if unit else slice(None))
        if not is_slice:
            axes.append(axis)
            arrays.append(item if hasattr(item, "shape") else np.asarray(item))
    # an Ellipsis between two arrays parts them even where it stands for no axis
    parted = dots and any(axis < at for axis in axes) and any(axis >= at for axis in axes)
    front = bool(parted) or axes != list(range(axes[0], axes[0] + len(axes)))
    return tuple(slices), axes, arrays, front


def sum_rows(rows: np.ndarray, index: np.ndarray, n: int) -> np.ndarray:
    """y[k] = Σ rows[i] over the i with index[i] = k;  rows (m, d), index (m,) → y (n, d)."""
    m, d = rows.shape
    sparse = optional("scipy.sparse") if d > 1 and rows.size >= MANY else None
    if sparse is not None:  # without it rows are added number by number
        # column i of this matrix has a single 1, at row index[i]
        ones = np.ones(m, rows.dtype)
        return sparse.csc_array((ones, index, np.arange(m + 1)), shape=(n, m)) @ rows
    y = np.zeros(n * d, rows.dtype)
    places = index if d == 1 else (index[:, None] * d + np.arange(d)).ravel()
    np.add.at(y, places, rows.ravel())  # fast, since all three are one-dimensional
    return y.reshape(n, d)


def sum_weighted_rows(
    rows: np.ndarray, weights: np.ndarray, index: np.ndarray, n: int
) -> np.ndarray:
    """y[q] = Σ weights[i, k] rows[i] over the i, k with index[i, k] = q, which must be in 0 … n − 1

    rows (m, d), weights and index (m, k) → y (n, d), of the rows' dtype.
    """
    m, k = index.shape
    sparse = optional("scipy.sparse") if rows.size * k >= MANY else None
    if sparse is None:
        values = weights[:, :, None] * rows[:, None, :]
        values = values.reshape((m * k, rows.shape[1])).astype(rows.dtype, copy=False)
        return sum_rows(values, index.ravel(), n)
    starts = np.arange(0, m * k + 1, max(k, 1))  # column i holds the k weights of row i
    weights = weights.astype(rows.dtype, copy=False).ravel()
    return sparse.csc_array((weights, index.ravel(), starts), shape=(n, m)) @ rows


def along_key(index: Any, axis: int, shape: tuple) -> tuple:
    """The key for which x[key] is take_along_axis(x, index, axis), x of this shape."""
    if index.ndim != len(shape):
        raise ValueError(
            f"the index has {index.ndim} axes and x has {len(shape)}: they must be as many"
        )
    axis = axis_of(axis, len(shape))
    xp = array_module(index)
    key = []
    for i, n in enumerate(shape):
        along = [1] * len(shape)
        along[i] = n
        key.append(index if i == axis else xp.arange(n).reshape(along))
    return tuple(key)


def last_writes(key: Any, shape: tuple, xp: Any) -> Any:
    """True for each value of an assignment x[key] = values that no later one overwrites."""
    if reads_once(key):
        return True
    picked = _last_writer(key, shape, xp)[key]
    return picked == xp.arange(picked.size, dtype=np.intp).reshape(picked.shape)
