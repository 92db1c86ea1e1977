"""x[index] = v, x += v and the like: in place where that is safe, recorded where it can be.

Four cases:

- Nothing is tracked (or under no_grad): the memory is written, as in NumPy, so views see it. The
  write is noted (versions.py): a backward that needs the old values raises InPlaceError.
- x or v is tracked: x becomes the result of the op `setitem` or `add`, in a new array, and
  gradients flow. Earlier results of x keep the old values, so nothing is corrupted. That is
  possible only if nothing else refers to x's memory: a view would keep the old values. CPython's
  reference count shows whether something does; then an InPlaceError is raised. Nodes that led to x
  or to the value and have saved the memory are allowed (holders.py): they should keep the old
  values. `y[i] += b` is y[i] = y[i] + b: the unnamed view y[i] need not be changed itself, since
  Python writes the result back to y[i] next.
- x is a leaf that requires a gradient: an InPlaceError, since the leaf would no longer be one.
- Inside a transform (grad, jvp, vmap), if x or v belongs to it: recorded too, at the innermost
  level. Until the transform ends x is a tensor of that level, also where it was a plain one (`y =
  mg.zeros(3)`, then `y[0] = v`; level_membership.py). An argument of the transformed function is a
  leaf. Under no_grad the values change and the history does not, as outside: x keeps its place in
  the graph of each level.
"""

import math
import sys
from types import FrameType
from typing import Any

import numpy as np

from ..backends.device import at, device_of, plain_array, to_device
from ..backends.dtypes import require_fit
from ..backends.memory_order import in_memory_order
from ..engine import graph, modes
from ..engine.errors import InPlaceError, about, describe, refuse_left_behind
from ..engine.graph import Leaf
from ..engine.registry import op
from ..errors import TransformError
from ..modes import hooks
from . import level_membership
from .holders import saved_alone
from .methods import Methods
from .swaps import refuse_swap
from .writes import note_write_at


class InPlace(Methods):
    """Base of Tensor: the methods that change a tensor."""

    __slots__ = ()

    _data: Any
    node: Any
    _grad: Any

    def __setitem__(self, index: Any, value: Any) -> None:
        """x[index] = value, in NumPy's meaning; with a gradient where x or value has one."""
        _write(self, index, value, "x[index] = value")

    def __delitem__(self, index: Any) -> None:
        raise TypeError(
            "del x[index]: a tensor keeps its elements; mg.delete(x, index, axis=0) gives another"
        )

    def copy_(self, value: Any) -> Any:
        """Put value, broadcast, in place of every element; returns x."""
        return _write(self, ..., value, "x.copy_(value)")

    def fill_(self, value: Any) -> Any:
        """Set every element to one number; returns x."""
        if np.ndim(value):
            raise ValueError(f"fill_ takes one number, got {describe(value)}; use x.copy_(value)")
        return _write(self, ..., value, "x.fill_(value)")

    def zero_(self) -> Any:
        """Set every element to 0; returns x."""
        return _write(self, ..., 0, "x.zero_()")

    def __iadd__(self, b: Any) -> Any:
        return _update(self, op.add, b, "x += b")

    def __isub__(self, b: Any) -> Any:
        return _update(self, op.sub, b, "x -= b")

    def __imul__(self, b: Any) -> Any:
        return _update(self, op.mul, b, "x *= b")

    def __itruediv__(self, b: Any) -> Any:
        return _update(self, op.div, b, "x /= b")

    def __ifloordiv__(self, b: Any) -> Any:
        return _update(self, op.floor_divide, b, "x //= b")

    def __imod__(self, b: Any) -> Any:
        return _update(self, op.remainder, b, "x %= b")

    def __ipow__(self, b: Any) -> Any:
        return _update(self, op.pow, b, "x **= b")

    def __imatmul__(self, b: Any) -> Any:
        return _update(self, op.matmul, b, "x @= b")

    def __iand__(self, b: Any) -> Any:
        return _update(self, op.bitwise_and, b, "x &= b")

    def __ior__(self, b: Any) -> Any:
        return _update(self, op.bitwise_or, b, "x |= b")

    def __ixor__(self, b: Any) -> Any:
        return _update(self, op.bitwise_xor, b, "x ^= b")

    def __ilshift__(self, b: Any) -> Any:
        return _update(self, op.bitwise_left_shift, b, "x <<= b")

    def __irshift__(self, b: Any) -> Any:
        return _update(self, op.bitwise_right_shift, b, "x >>= b")


def _write(x: Any, index: Any, value: Any, what: str) -> Any:
    """x with x[index] = value: recorded, or in x's memory."""
    value = _beside(x, value)
    if _is_recorded(x, value, what, index):
        value = _with_dtype_of(x, value, what)
        return _become(x, op.setitem(x, value, index=index))
    if isinstance(value, InPlace) and index is not ...:
        refuse_swap(x, value, sys._getframe(2))
    return _store(x, _plain(index), _plain(value), what)


def _beside(x: Any, value: Any) -> Any:
    """The value on x's device: a write is a copy, from another device too (it is counted)."""
    if isinstance(value, InPlace):
        return value if value.device == x.device else op.to(value, device=x.device)
    if isinstance(value, (list, tuple)) and x.device != "cpu":
        value = plain_array(value)
    if not hasattr(value, "ndim"):
        if x.device != "cpu":  # NumPy refuses it, CuPy wraps it round
            require_fit(value, x.dtype)
        return value
    if device_of(value) == x.device:
        return value
    return to_device(value, x.device)


def _update(x: Any, arithmetic: Any, b: Any, what: str) -> Any:
    """x with x = arithmetic(x, b), in x's shape and dtype: recorded, or in x's memory.

    A view without a name comes from `y[i] += b`, and Python is about to assign the result to y[i].
    Then the result is computed from a copy: an array that the op saves must not be a view of y.
    """
    written_back = (
        sys.getrefcount(x) <= _UNNAMED
        and _is_tracked(x, b)
        and not seen_by_x_alone(x)
        and (_LOCALS_COUNT or not _is_local(x, sys._getframe(2)))
    )
    recorded = not written_back and _is_recorded(x, b, what)
    y = _with_dtype_of(x, arithmetic(x.copy() if written_back else x, b), what)
    if y.shape != x.shape:
        raise ValueError(f"{what}: the result has shape {y.shape}, x has {x.shape}; use x = ...")
    if written_back:
        return y
    if recorded:
        return _become(x, y)
    return _store(x, ..., y._data, what)


def _store(x: Any, index: Any, value: Any, what: str) -> Any:
    """x, after the write into its memory."""
    if modes.state.pending is not None:
        modes.state.pending.end("memory is written in place")
    try:
        with at(x._data):
            x._data[index] = value
    except ValueError as error:
        if getattr(getattr(x._data, "flags", None), "writeable", True):
            picked = np.shape(x._data[index])
            if np.ndim(value) and not (picked and _fits(np.shape(value), picked)):
                why = "does not broadcast to it" if picked else no_number(np.shape(value))
                raise ValueError(
                    f"{what}: x, {describe(x)}, has shape {picked} at the index, and value, "
                    f"{describe(value)}, {why}"
                ) from None
            raise ValueError(f"{what}: x is {describe(x)}: {error}") from None
        raise ValueError(
            f"{what}: x, {describe(x)}, is a read-only view, since others refer to its memory too "
            "(as results of broadcast_to and diagonal, and arguments of rules and hooks, are). "
            "Begin with x = x.copy(), or write into the tensor that it shows, by y[index] = value"
        ) from None
    except (IndexError, TypeError) as error:
        called = f"{what}: x is {describe(x)}, value {describe(value)}"
        raise type(error)(f"{called}: {error}") from None
    note_write_at(x._data, index, f"`{what}`")
    return x


def no_number(shape: tuple) -> str:
    """The words of an error about a value of this shape that is written to one element."""
    return "is not one number" + "; value.squeeze() is" * (math.prod(shape) == 1)


def _fits(shape: tuple, into: tuple) -> bool:
    """Whether an array of this shape may be assigned to one of shape `into`."""
    while len(shape) > len(into) and shape[0] == 1:
        shape = shape[1:]  # NumPy drops leading axes of length 1 there
    pairs = zip(shape[::-1], into[::-1])
    return len(shape) <= len(into) and all(n in (1, m) for n, m in pairs)


def _is_recorded(x: Any, value: Any, what: str, index: Any = None) -> bool:
    """Whether this change needs a node; an error if it cannot be made."""
    if not _is_tracked(x, value, index):
        return False
    instead = "y = mg.setitem(x, value, index=index), x = x + b and the like give a changed copy"
    if _level(x, value, index):
        refuse_left_behind(op.setitem, (x, value))
        instead = f"begin with x = x.copy() to change an argument; {instead}"
    if x.node.__class__ is Leaf:
        raise InPlaceError(
            f"{what}: x, {describe(x)}, is a leaf that requires a gradient, and a recorded op "
            f"would make it a result. {_what_a_leaf_allows(instead)}",
            op=what, argument="x", **about(x),
        )  # fmt: skip
    if not (seen_by_x_alone(x) or saved_alone(x, value)):
        raise InPlaceError(
            f"{what}: the gradient of this change cannot be tracked, because x, {describe(x)}, "
            "shares its memory with an object that would keep the old values. Either x is a view "
            "(x[i], x.T ...) of another tensor, or a view, x.detach(), x.numpy() or a saved array "
            "of it is alive (a recording mg.Tape keeps all results alive). If x is a view, "
            "x = y[i], change y itself by y[i] = value or y[i] += b, or begin with "
            "x = y[i].copy(). If another result was computed from x or any part of it, "
            "compute that from a copy: f(x[i].copy()). If the value is a view of x itself, "
            f"x[1:] = x[:-1].copy(). Else {instead}",
            op=what, argument="x", **about(x),
        )  # fmt: skip
    return True


def _what_a_leaf_allows(instead: str) -> str:
    """What to do in place of a write to a leaf; under no_grad it is a leaf of a transform."""
    if modes.state.recording:
        return f"To set its values, do it under mg.no_grad(); to compute with others, {instead}"
    return f"In a transform its values stay: {instead}"


def _is_tracked(x: Any, value: Any, index: Any = None) -> bool:
    """Whether a change of x by value needs a node."""
    tracked = x.node is not None or getattr(value, "node", None) is not None
    return _level(x, value, index) > 0 or tracked and modes.records(0)


def _level(x: Any, value: Any, index: Any) -> int:
    """The highest level of a change: above 0 inside a transform."""
    return max(x.level, getattr(value, "level", 0), _level_of(index))


def seen_by_x_alone(x: Any, count: int = 0) -> bool:
    """Whether no view and no other tensor can see x's memory, by CPython's reference counts.

    count: how often x._data was referred to, where that was counted before.

    The node that made x may have saved the array as its result; that reference does not count.
    Inside a transform x.data is a tensor of the level below, and so on down to the array.
    """
    while isinstance(x._data, InPlace):
        if sys.getrefcount(x._data) > _ALONE + _saved_by_own_node(x):
            return False
        x = x._data
    if type(x._data) is not np.ndarray:
        return x._data.base is None  # CuPy: only views are recognised
    if (count or sys.getrefcount(x._data)) > _ALONE + _saved_by_own_node(x):
        return False
    base = x._data.base
    return base is None or type(base) is np.ndarray and sys.getrefcount(base) <= _BASE_ALONE


def _saved_by_own_node(x: Any) -> int:
    """How often the node that made x holds its data."""
    saved = getattr(x.node, "saved", None)
    return sum(value is x._data for value in saved) if type(saved) is tuple else 0


class _Holder:
    __slots__ = ("_data",)


def _count_alone() -> tuple[int, int]:
    """The counts this interpreter shows: for an array in one slot; for its base, named here."""
    x = _Holder()
    x._data = np.empty(4).reshape(2, 2)
    base = x._data.base
    return sys.getrefcount(x._data), sys.getrefcount(base)


_ALONE, _BASE_ALONE = _count_alone()


class _Counted:
    """A probe: `p[i] += b` and `p += b` store how often p[i] and p are referred to at that time."""

    def __getitem__(self, index: int) -> Any:
        return _Counted()

    def __setitem__(self, index: int, count: Any) -> None:
        self.count = count

    def __iadd__(self, b: Any) -> Any:
        return _references(self, None, b, "")


def _references(x: Any, arithmetic: Any, b: Any, what: str) -> Any:
    """The count that _update would see; it has _update's arguments because passing them counts."""
    return sys.getrefcount(x)


def _count_unnamed() -> tuple[int, bool]:
    """The count that _update sees of x in `y[i] += b`, and whether it sees more in `x += b`.

    From Python 3.14 on it does not where x is a local variable: the interpreter lends its reference
    to the expression. A variable of any other kind, an attribute or a list counts as ever.
    """
    p: Any = _Counted()
    p[0] += 1
    unnamed = p.count
    p += 1
    return unnamed, unnamed < p


_UNNAMED, _LOCALS_COUNT = _count_unnamed()


def _is_local(x: Any, frame: FrameType) -> bool:
    """Whether a local variable of the function that runs in this frame is x."""
    return any(value is x for value in frame.f_locals.values())


def _become(x: Any, y: Any) -> Any:
    """Turn the tensor x into the result y; inside a transform into a tensor of y's level."""
    if not modes.records(y.level):
        _keep_history(x, y)
    if y.level > x.level:
        level_membership.note(x, y.level)
    if graph.hook_count:
        hooks.keep_retaining(x, x.node, y.node)
    x._data, x.node = _lying_as(x._data, y._data), y.node
    if y.level:
        x.__class__ = type(y)
        x._grad = y._grad  # where a dual number has its tangent
    return x


def _lying_as(before: Any, after: Any) -> Any:
    """The new array in the old one's memory order, as after a write that is not recorded.

    The memory order decides in which order a sum adds, and so its last bits.
    """
    if isinstance(before, InPlace) or isinstance(after, InPlace) or 0 in before.strides:
        return after
    return in_memory_order(after, before.strides) if before.shape == after.shape else after


def _keep_history(x: Any, y: Any) -> None:
    """Give y, new values made under no_grad, x's node (or tangent) at every level they share."""
    while isinstance(y, InPlace):
        if isinstance(x, InPlace) and x.level == y.level:
            y.node, y._grad = x.node, x._grad
            x = x._data
        y = y._data


def set_values(x: Any, value: Any) -> None:
    """`x.data = value` inside a transform: a write under no_grad, that of an argument too.

    Under vmap the tensor of the level below, as x.data shows it, has the batch axis in front.
    """
    level = getattr(value, "level", 0)
    if level > x.level:
        raise TransformError(
            f"x.data = v: v, {describe(value)}, belongs to a transform and x, {describe(x)}, does "
            "not, so x cannot hold v without its history or batch; x[...] = v makes x part of it"
        )
    if level < x.level and np.shape(value) == x._data.shape != x.shape:
        whole = x.detach()
        whole._data, value = value, whole
    if np.shape(value) != x.shape:
        raise TransformError(
            f"x.data = {describe(value)}: inside a transform x keeps its shape, {x.shape}; write "
            "x = v for another"
        )
    with modes.Recording(False):
        y = op.setitem(x, _with_dtype_of(x, value, "x.data = value"), index=...)
    _keep_history(x, y)
    x._data = y._data


def _level_of(index: Any) -> int:
    """The highest level of the tensors in an index."""
    parts = index if type(index) is tuple else (index,)
    return max([getattr(part, "level", 0) for part in parts], default=0)


def _with_dtype_of(x: Any, value: Any, what: str) -> Any:
    """value in x's dtype, where NumPy would cast it in an assignment like this."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype == x.dtype:
        return value
    if not np.can_cast(dtype, x.dtype, "same_kind") and {dtype.kind, x.dtype.kind} != {"f", "V"}:
        raise TypeError(f"{what}: {dtype} values do not fit into x, {describe(x)}; cast one first")
    return op.astype(value, dtype=x.dtype)


def _plain(value: Any) -> Any:
    """Arrays in place of tensors, in an index or a value."""
    if type(value) is tuple:
        return tuple([_plain(part) for part in value])
    return value._data if isinstance(value, InPlace) else value
