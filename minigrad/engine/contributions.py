"""From a rule's result to the sum at a parent: conforming a contribution, and adding it."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.locks import Lock
from .errors import RuleError, about, describe
from .registry import op
from .tensor import TensorBase, wrap

_ndarray = np.ndarray
_NUMBERS = "biufcV"  # kinds of dtypes; bfloat16 is V


def conform(c: Any, parent: Any, node: Any) -> Any:
    """The contribution c in exactly its parent's shape and dtype.

    Three steps, each only where needed: the real part for a real parent, the sum over broadcast
    axes (16-bit floats summed in float32), the parent's dtype. Only elementwise ops broadcast; a
    wrong shape from any other op is an error in its rule, a RuleError.
    """
    if c.dtype.kind == "c" and parent.dtype.kind != "c":
        c = op.real(c)
    if c.shape != parent.shape:
        if node.op.kind != "elementwise":
            raise _of_another_shape(c, parent, node)
        c = unbroadcast(c, parent.shape)
    if c.dtype != parent.dtype:
        if c.dtype.kind not in _NUMBERS:
            raise _of_no_numbers(c, parent, node)
        c = op.cast(c, dtype=parent.dtype)
    return c


def _of_another_shape(c: Any, parent: Any, node: Any) -> RuleError:
    """The error for a contribution that does not fit, with what to do where the op broadcasts."""
    which = _input_of(node, parent)
    n = len(parent.shape)
    pairs = zip(c.shape[c.ndim - n :], parent.shape)
    broadcast = c.ndim >= n and all(here in (there, 1) for there, here in pairs)
    advice = "; sum over the axes along which the op broadcasts it" if broadcast else ""
    return RuleError(
        f"the rule of {node.op.name} returned a gradient of shape {c.shape} for {which} of shape "
        f"{parent.shape}; a rule returns exactly its input's shape{advice}",
        op=node.op.name, argument=_name_of(node, parent), **about(parent, c),
    )  # fmt: skip


def _of_no_numbers(c: Any, parent: Any, node: Any) -> RuleError:
    return RuleError(
        f"the rule of {node.op.name} returned {describe(c)} for {_input_of(node, parent)}; a "
        "gradient is an array of numbers",
        op=node.op.name, argument=_name_of(node, parent), **about(parent, c),
    )  # fmt: skip


def _input_of(node: Any, parent: Any) -> str:
    """Which input of the node's op the parent is, for an error."""
    name = _name_of(node, parent)
    return "an input" if name is None else f"the input {name!r}"


def _name_of(node: Any, parent: Any) -> str | None:
    names = [node.op.arrays[i] for i in node.plan.slots] if not node.op.variadic else []
    position = next((i for i, x in enumerate(node.parents) if x is parent), -1)
    return names[position] if 0 <= position < len(names) else None


def require_array(c: Any, parent: Any, node: Any) -> None:
    """RuleError where a rule returned something else than an array. The engines ask after an
    AttributeError only, as a look at each contribution would cost every backward.
    """
    if not hasattr(c, "shape") or not hasattr(c, "dtype"):
        raise RuleError(
            f"the rule of {node.op.name} returned {describe(c)} for {_input_of(node, parent)} of "
            f"shape {parent.shape}; a rule returns an array of its input's shape, or None for zero",
            op=node.op.name,
            argument=_name_of(node, parent),
            **about(parent, c),
        ) from None


def unbroadcast(c: Any, shape: tuple) -> Any:
    """Sum c over the axes along which `shape` was broadcast; or broadcast it, if c is smaller."""
    if c.ndim < len(shape) or any(n == 1 != m for n, m in zip(c.shape[-len(shape) :], shape)):
        c = op.broadcast_to(c, shape=np.broadcast_shapes(c.shape, shape))
    extra = c.ndim - len(shape)
    axes = [i for i in range(c.ndim) if i < extra or (shape[i - extra] == 1 != c.shape[i])]
    if axes:
        c = op.sum(c, axis=tuple(axes), keepdims=axes[-1] >= extra)
    return op.reshape(c, shape=shape) if c.shape != shape else c


# Seam D. Both may be replaced: fast/ adds in place, and copies nothing, where CPython's reference
# counts say that nobody else can see an array.


def _add(cotangents: dict, parent: Any, c: Any) -> None:
    """Add c to what has arrived at the parent, in the memory order of that, as += would."""
    total = cotangents[parent]
    if type(total) is _ndarray:
        cotangents[parent] = np.add(total, c, out=np.empty_like(total))
    else:
        cotangents[parent] = total.added(c) if hasattr(total, "added") else op.add(total, c)


def _copied(g: Any) -> Any:
    """g in memory of its own.

    Every gradient handed to a user goes through here, so that none shares memory with another, with
    the seed or with a saved array.
    """
    if type(g) is _ndarray:
        return g.copy()
    return op.copy(g) if hasattr(g, "dtype") and not isinstance(g, np.generic) else np.asarray(g)


add_into: Callable[[dict, Any, Any], None] = _add
private: Callable[[Any], Any] = _copied
# (node, g, plan, cotangents, needed) -> contributions, of a g of LARGE elements or more, for a plan
# with a `blocked_vjp`, which only fast/ makes
blocked_vjp: Any = None
LARGE: float = np.inf

_adding = Lock()  # so that threads whose graphs share a leaf lose no update of .grad
if hasattr(os, "register_at_fork"):  # else a child might inherit it locked by another thread
    os.register_at_fork(
        before=_adding.acquire, after_in_parent=_adding.release, after_in_child=_adding.release
    )


def accumulate(x: TensorBase, g: TensorBase, recorded: bool) -> None:
    """Add g to x.grad, in a new array: a gradient that the user holds does not change."""
    with _adding:
        if x._grad is None:
            x._grad = g
        else:
            x._grad = x._grad + g if recorded else wrap(x._grad._data + g._data)
