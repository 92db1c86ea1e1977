"""Elementwise functions of large arrays computed in place, block by block, in scratch memory.

A NumPy expression makes a new array at every step. Six arrays of a million elements are more than
the cache holds, and a step takes several times as long on fresh memory as in place. So a function
of many steps is written twice: as an expression (`words`), which serves every device, transform and
symbol, and as a `fill` for NumPy's arrays.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.blocks import in_blocks
from ..backends.cuts import memory_order
from .blocked import LARGE

# Elements, below which the words take less time. Microseconds of hardswish and its gradient, words
# and fill: 128² 41 and 44, 160² 53 and 52, 256² 105 and 89.
FEW = 1 << 15
_NUMBERS = (float, int)
WHOLE = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}  # integers of these many bytes


def filled_by(fill: Callable[..., None], arrays: int = 1) -> Callable:
    """Decorator of an elementwise expression: fill(y, *xs) computes it for large arrays.

    fill writes y, and reads blocks of the first `arrays` arguments; the others are numbers. It
    makes the steps of the expression in their order, so that no bit depends on the array's size.
    """

    def decorate(words: Callable) -> Callable:
        @functools.wraps(words)
        def function(*xs: Any, **params: Any) -> Any:
            numbers = xs[arrays:]
            order = _order(xs[:arrays])
            if order is None or any(type(x) not in _NUMBERS for x in numbers):
                return words(*xs, **params)
            if any(hasattr(value, "dtype") for value in params.values()):
                return words(*xs, **params)  # a number in an array or a tensor may have a wider one
            y = np.empty_like(xs[0])
            flat = [x.transpose(order).reshape(-1) for x in (y, *xs[:arrays])]

            def work(piece: Any) -> None:
                fill(*[x[piece] for x in flat], *numbers, **params)

            if y.size < LARGE:
                fill(*flat, *numbers, **params)
            else:
                in_blocks(work, flat[0])
            return y

        return function

    return decorate


def _order(arrays: tuple) -> tuple | None:
    """The memory order of large arrays of NumPy's that lie alike, all float32 or all float64."""
    first = arrays[0]
    if type(first) is not np.ndarray or first.size < FEW or first.dtype.char not in "fd":
        return None
    if any(getattr(x, "dtype", None) != first.dtype for x in arrays):
        return None
    return memory_order([*arrays])


def keep_into(y: Any, x: Any, condition: Any) -> None:
    """y = x where the condition holds, else 0, as `keep`: the bits of x times 0 or 1.

    A product with the condition itself would copy it through NumPy's buffer.
    """
    whole = WHOLE.get(y.dtype.itemsize)
    if whole is None:  # long doubles and complex128
        y[...] = np.where(condition, x, 0)
        return
    bits = y.view(whole)
    np.copyto(bits, condition.view(np.int8))
    bits *= x.view(bits.dtype)


def one_of_two(y: Any, condition: Any, a: float, b: float) -> None:
    """y = a where the condition holds, else b. The condition is written over."""
    bits, all_or_none = y.view(WHOLE[y.dtype.itemsize]), condition.view(np.int8)
    np.negative(all_or_none, out=all_or_none)  # −1, whose every bit is set
    np.copyto(bits, all_or_none)
    of_a, of_b = (y.dtype.type(number).view(bits.dtype) for number in (a, b))
    bits &= of_a ^ of_b
    bits ^= of_b
