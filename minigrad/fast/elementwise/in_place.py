"""Elementwise functions of large arrays computed in place, block by block, in scratch memory.

A NumPy expression makes a new array at every step. Six arrays of a million elements do not fit in
the cache. A step takes several times as long on fresh memory as in place. An expression of many
steps is therefore written once more as a `fill`, with the same steps in the same order: both
compute the same bits.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.blocks import LARGE, in_blocks, scratch
from ...backends.cuts import memory_order
from ...custom.rule_variants import vjp_variant
from ...custom.variants import Variant, add
from ...ops.elementwise.selection import WHOLE

# Elements below which the expression takes less time than looking up scratch memory.
FEW = 1 << 15
_NUMBERS = (float, int)


def fills(op: Any, when: Callable[..., bool] | None = None) -> Callable:
    """Decorator: fill(y, x, *numbers) computes the op for large arrays."""

    def append(fill: Callable) -> Callable:
        add(op, Variant(filled(fill), "cpu", when, FEW, name="in place", followed=True))
        return fill

    return append


def fills_vjp(op: Any) -> Callable:
    """Decorator: fill(y, g, x, *numbers) computes the rule of the op's input x."""

    def append(fill: Callable) -> Callable:
        vjp_variant(op, "x", on=("cpu",), least=FEW)(filled(fill, arrays=2))
        return fill

    return append


def filled(fill: Callable[..., None], arrays: int = 1) -> Callable:
    """The function that `fill` computes for large arrays; it returns None for all other arguments.

    fill writes y, and reads blocks of the first `arrays` arguments; the others are numbers.
    """

    def function(*xs: Any, **params: Any) -> Any:
        numbers = (*xs[arrays:], *params.values())
        order = _order(xs[:arrays])
        if order is None or any(type(x) not in _NUMBERS for x in numbers):
            return None  # a number in an array may be of a wider dtype
        y = np.empty_like(xs[0])
        flat = [x.transpose(order).reshape(-1) for x in (y, *xs[:arrays])]

        def work(piece: Any) -> None:
            fill(*[x[piece] for x in flat], *xs[arrays:], **params)

        if y.size < LARGE:
            fill(*flat, *xs[arrays:], **params)
        else:
            in_blocks(work, flat[0])
        return y

    parameters = [*inspect.signature(fill).parameters.values()][1:]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


def _order(arrays: tuple) -> tuple | None:
    """The memory order that large NumPy arrays share, all float32 or all float64; else None."""
    first = arrays[0]
    if type(first) is not np.ndarray or first.size < FEW or first.dtype.char not in "fd":
        return None
    if any(getattr(x, "dtype", None) != first.dtype for x in arrays):
        return None
    return memory_order([*arrays])


def room(number: int, y: Any, dtype: Any = None) -> Any:
    """Memory for an intermediate result of a fill on one block."""
    return scratch.empty(f"block {number}", y.shape, y, dtype)


def keep_into(y: Any, x: Any, condition: Any) -> None:
    """y = x where the condition holds, else 0, like `keep`: the bits of x times 0 or 1.

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
    """y = a where the condition holds, else b. The condition is overwritten."""
    bits, all_or_none = y.view(WHOLE[y.dtype.itemsize]), condition.view(np.int8)
    np.negative(all_or_none, out=all_or_none)  # −1 has every bit set
    np.copyto(bits, all_or_none)
    of_a, of_b = (y.dtype.type(number).view(bits.dtype) for number in (a, b))
    bits &= of_a ^ of_b
    bits ^= of_b
