"""Windows as columns and back, one axis after the other: im2col and col2im."""

from math import prod
from typing import Any

from ...backends.dtypes import accumulator
from ...ops.image_columns import column_sums, window_columns
from ...ops.windows import Windows
from ..forms import Forms
from ..windows import columns, fold

form = Forms()


@form(window_columns, "axis by axis")
def columns_by_axis(x: Any, *, how: Windows) -> Any:
    out = how.count("im2col", x.shape[2:])
    y = columns(x, how, out, at=2)
    shape = (len(x), x.shape[1] * prod(how.kernel), prod(out))
    return y.reshape(shape).copy()  # columns are in scratch memory, or are x itself


@form(column_sums, "axis by axis")
def sums_by_axis(x: Any, *, size: tuple, how: Windows) -> Any:
    out = how.count("col2im", size)
    wide = x.astype(accumulator(x.dtype) or x.dtype, copy=False)
    channels = x.shape[1] // prod(how.kernel)
    y = fold(wide.reshape((len(x), channels, *how.kernel, *out)), how, size, at=2)
    return y.astype(x.dtype)  # a copy: the sums are in scratch memory


form.install()
