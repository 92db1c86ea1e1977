"""The faster forms of reads by index along an axis, and of sums at an index.

A look-up of variants would slow down small calls: these forms replace the references.
"""

from math import prod
from typing import Any

import numpy as np

from ...backends.device import array_module
from ...custom.variants import ANY
from ...engine.registry import op
from ...ops.index.scattering import along_key, plain_key
from ...ops.index.taking import key_of_take
from ..forms import Forms
from .along import add_along, take_along
from .rows import add_at

form = Forms()


@form(op.getitem_dx, "rows", on=ANY)
def getitem_dx(x: Any, *, index: Any, shape: tuple) -> Any:
    if array_module(x) is not np or not x.size:
        return op.getitem_dx.reference(x, index=index, shape=shape)
    return add_at(x, plain_key(index), shape)


@form(op.take_dx, "rows", on=ANY)
def take_dx(x: Any, indices: Any, *, axis: int | None, mode: str = "raise", shape: tuple) -> Any:
    if array_module(x) is not np:
        return op.take_dx.reference(x, indices, axis=axis, mode=mode, shape=shape)
    key, lengths = key_of_take(indices, axis, mode, shape)
    return add_at(x, key, lengths).reshape(shape)


@form(op.take_along_axis, "blocks", on=ANY)
def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Any:
    y = None if axis is None else take_along(x, indices, axis)
    return op.take_along_axis.reference(x, indices, axis) if y is None else y


@form(op.add_along_axis, "blocks", on=ANY)
def add_along_axis(x: Any, indices: Any, *, axis: int | None, shape: tuple) -> Any:
    if array_module(x) is not np:
        return op.add_along_axis.reference(x, indices, axis=axis, shape=shape)
    if axis is None:
        return add_at(x, (indices,), (prod(shape),)).reshape(shape)
    y = add_along(x, indices, axis, shape)
    return add_at(x, along_key(indices, axis, shape), shape) if y is None else y


form.install()
