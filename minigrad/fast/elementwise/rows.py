"""Rows of ops/elementwise/ in place: selections, and the rules of the error functions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.image_layout import alike
from ...custom.variants import Variant, add
from ...ops.elementwise.selection import WHOLE, keep
from ...ops.elementwise.special import TWO_OVER_SQRT_PI, erf, erfc
from .in_place import fills_vjp, keep_into

MANY = 1 << 14  # elements up to which a product with a copy of the condition is faster


def keep_in_place(x: Any, condition: Any) -> Any:
    """keep with a condition for each element: both in one memory order, without a copy."""
    if not isinstance(x, np.ndarray) or x.dtype.itemsize not in WHOLE:
        return None
    if getattr(condition, "dtype", None) != np.bool_ or condition.shape != x.shape:
        return None
    x, condition = alike((x, condition))
    y = np.empty_like(x)
    keep_into(y, x, condition)
    return y


add(keep, Variant(keep_in_place, "cpu", least=MANY + 1, name="in place", followed=True))


def fill_bell(scale: float) -> Callable:
    """y = g scale e^−x²"""

    def fill(y: Any, g: Any, x: Any) -> None:
        np.multiply(x, x, out=y)
        np.negative(y, out=y)
        np.exp(y, out=y)
        y *= scale
        y *= g

    return fill


fills_vjp(erf)(fill_bell(TWO_OVER_SQRT_PI))
fills_vjp(erfc)(fill_bell(-TWO_OVER_SQRT_PI))
