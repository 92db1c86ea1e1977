"""Reshapes that copy: images pixels first are copied into rows block by block."""

from typing import Any

import numpy as np

from ..backends.image_layout import in_rows
from ..custom.variants import ANY, Variant, add
from ..ops.shape.views import reshape

LARGE = 1 << 14  # elements: NumPy copies smaller arrays as fast


def reshape_in_rows(x: Any, shape: Any, order: str = "C") -> Any:
    """reshape: a view where it can be one."""
    if order != "C":
        return reshape.reference(x, shape, order)
    if x.flags.c_contiguous or type(x) is not np.ndarray or x.ndim < 3 or x.size < LARGE:
        return x.reshape(shape)
    try:
        return x.reshape(shape, copy=False)
    except ValueError:  # no view has this shape
        return in_rows(x).reshape(shape)


add(reshape, Variant(reshape_in_rows, ANY, name="rows"))
