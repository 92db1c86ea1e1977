"""in_memory_order(array, strides): the array, with its elements in the memory order of strides."""

from typing import Any

from .device import array_module


def in_memory_order(array: Any, strides: tuple[int, ...]) -> Any:
    """array, or a copy with its axes in the memory order of an array with these strides.

    The same axis is innermost, contiguous neighbours stay contiguous, broadcast axes repeat, and
    reversed ones are reversed. NumPy and BLAS then take the same path, with the same rounding. A
    gap between rows becomes one element wide, for any width before.
    """
    if array.size == 1 and array.strides != strides:  # NumPy's loops test even these
        return array_module(array).lib.stride_tricks.as_strided(array, array.shape, strides)
    axes = [k for k, n in enumerate(array.shape) if n > 1]
    if array.size < 2 or all(array.strides[k] == strides[k] for k in axes):
        return array
    item = array.itemsize
    dense, extent, steps = item, item, [item] * array.ndim  # bytes: of strides, of the copy
    for k in sorted(axes, key=lambda k: abs(strides[k])):
        step, n = abs(strides[k]), array.shape[k]
        if step % item:
            return array  # a field of records
        if 0 < step < dense:  # overlapping windows: keep their strides
            steps = [abs(stride) for stride in strides]
            extent = sum((array.shape[k] - 1) * steps[k] for k in axes) + item
            break
        steps[k] = extent if step == dense else extent + item if step else 0
        dense = max(dense, (n - 1) * step + dense)
        extent = max(extent, (n - 1) * steps[k] + extent)
    if all(abs(array.strides[k]) == steps[k] and array.strides[k] * strides[k] >= 0 for k in axes):
        return array
    xp = array_module(array)
    memory = xp.empty(extent // item, array.dtype)
    view = xp.lib.stride_tricks.as_strided(memory, array.shape, steps)
    back = slice(None, None, -1)
    view = view[tuple([back if strides[k] < 0 and k in axes else slice(None)
                       for k in range(array.ndim)])]  # fmt: skip
    view[...] = array
    return view
