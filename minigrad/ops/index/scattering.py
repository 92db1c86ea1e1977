"""Adding and writing many values at a key, the index in x[key].

The gradient of every read by index is such a sum: an entry read twice gets both gradients.
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.device import array_module
from ...modes import deterministic
from ...tensor_api.inplace import no_number
from ..axes import axis_of, constant_array, widen
from .in_order import sum_in_order

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
    """True, False or a 0-d mask, which consumes no axis of x."""
    return isinstance(item, bool | np.bool_) or (_is_mask(item) and item.ndim == 0)


def batched_key(key: Any, ndim: int) -> tuple[tuple, int]:
    """The key that reads `key` in each example of a batch, and where x[that] has its batch axis.

    In front, but behind the arrays' own axes where NumPy puts those first.
    """
    items = key if isinstance(key, tuple) else (key,)
    place = 0
    if not is_basic(key):
        *_, arrays, front = parts(key, ndim)
        place = len(np.broadcast_shapes(*[a.shape for a in arrays])) if front else 0
    return (slice(None), *items), place


def add_at(g: Any, key: Any, shape: tuple) -> Any:
    """Zeros of `shape` with g added at `key`; repeated places add up, 16-bit floats in float32."""
    if reads_once(key):
        y = array_module(g).zeros(shape, g.dtype)
        y[key] = g
        return y
    add = _add if array_module(g) is np else _add_on_device
    return add(widen(g), key, shape).astype(g.dtype, copy=False)


def _add(g: np.ndarray, key: Any, shape: tuple) -> np.ndarray:
    places = np.arange(prod(shape)).reshape(shape)[key]  # the number of the element for each value
    if places.shape != g.shape:  # NumPy 2.4 crashes in np.add.at(y, key, g) with more axes of g
        raise ValueError(f"values {g.shape} do not fit x[index], which has shape {places.shape}")
    y = np.zeros(prod(shape), g.dtype)
    np.add.at(y, places.ravel(), g.ravel())  # one after the other
    return y.reshape(shape)


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

    There threads write in no order. So the last writer of each place is found first, as the maximum
    of their numbers, which needs no order. Each place then reads its value.
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


def parts(key: Any, ndim: int) -> tuple[tuple, list[int], list[np.ndarray], bool]:
    """A key with index arrays, split into its parts.

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
    # an Ellipsis between two arrays parts them even where it covers no axis
    parted = dots and any(axis < at for axis in axes) and any(axis >= at for axis in axes)
    front = bool(parted) or axes != list(range(axes[0], axes[0] + len(axes)))
    return tuple(slices), axes, arrays, front


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
