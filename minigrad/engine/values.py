"""Between tensors and arrays: the arguments of a call as arrays, and its result as one."""

from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.dtypes import KINDS, NUMBERS, WITHOUT_DTYPE, weak_scalars
from .errors import describe, refuse_left_behind
from .help import operand
from .tensor import TensorBase, raw

_ndarray = np.ndarray


def unwrap(op: Any, args: tuple, params: dict) -> tuple[list, list, Any]:
    """(arrays, the node of each or None, the largest tensor's array or None) of the arguments."""
    arrays: list = []
    nodes: list = []
    bit, largest, weak = 1, None, False
    for x in args:
        node = None
        if isinstance(x, TensorBase):
            array = x._data
            if largest is None or array.size > largest.size:
                largest = array
            if bit & op.tracked:
                node = x.node
        elif type(x) in WITHOUT_DTYPE:  # Python scalars stay weak
            weak, array = True, x
        else:
            plain = type(x) is _ndarray and x.dtype.kind in KINDS
            array = x if plain else operand(x, op, args, params)
        arrays.append(array)
        nodes.append(node)
        bit += bit
    if weak:
        beside = largest is not None
        arrays = weak_scalars(arrays) if beside else scalars_as_arrays(op, arrays)
    return arrays, nodes, largest


def as_results(op: Any, y: Any, kind: type, args: tuple, params: dict) -> Any:
    """A result that is no array: several, a scalar of NumPy, CuPy's, or a tensor of a level below.

    kind   the class of the result; inside a transform its data is such a tensor
    """
    if not kind.level or isinstance(y, np.generic):  # type: ignore[attr-defined]
        y = as_result(op, y, args, params)
    return as_arrays(y) if op.outputs else y


def scalars_as_arrays(op: Any, values: list) -> list:
    """mg.sum(2.0): if no argument is a tensor, Python numbers are 0-d arrays to all but ufuncs.

    Beside an array they stay weak in elementwise ops, as they do beside a tensor.
    """
    weak = op.kind == "elementwise" and any(hasattr(x, "dtype") for x in values)
    if weak or isinstance(op.forward, np.ufunc):
        return values
    xp = next((array_module(x) for x in values if hasattr(x, "dtype")), np)
    return [xp.asarray(x) if type(x) in NUMBERS else x for x in values]


def as_result(op: Any, y: Any, args: tuple, params: dict) -> Any:
    """A forward's result that is not a NumPy array, in the form that a tensor may hold."""
    if isinstance(y, np.generic):
        return np.asarray(y)  # see as_arrays
    if isinstance(y, TensorBase | tuple):
        y = without_tensors(op, y, args, params)
    if not op.outputs and not hasattr(y, "dtype"):
        several = isinstance(y, tuple) and len(y) > 1
        advice = f", or a tuple of {len(y)} with outputs={len(y)}" if several else ""
        raise TypeError(
            f"the forward of {op.name} returned {describe(y)}; an op returns an array{advice}"
        )
    return y


def as_arrays(ys: Any) -> Any:
    """Several results, with arrays instead of the scalars that NumPy returns for 0-d ones.

    Scalars are read-only. Also, products of complex scalars are rounded differently from those of
    arrays, which use fused multiply-add, and a replay of a tape computes on arrays.
    """
    return tuple([np.asarray(y) if isinstance(y, np.generic) else y for y in ys])


def without_tensors(op: Any, y: Any, args: tuple, params: dict) -> Any:
    """The array of a result that came out as a tensor because a static parameter was one.

    A parameter that requires a gradient is refused: it would silently get none. So is an argument
    left over from a transform that has ended, also where there are several results.
    """
    refuse_left_behind(op, args)
    for name, value in params.items():
        if isinstance(value, TensorBase) and (value.level or value.requires_grad):
            raise TypeError(
                f"{op.name}: {name} is a constant here, and the one given, {describe(value)}, "
                f"asks for a derivative that it would not get; pass {name}={name}.item()"
            )
    return raw(y)
