"""From a rule's result to the sum at a parent: conforming a contribution, and adding it."""

import os
from sys import getrefcount
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.locks import Lock
from ..courtesy.explain import RuleError, about, describe
from ..fast.large_pull import PutOff
from .graph import Leaf, Node
from .registry import op
from .tensor import Tensor, wrap

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
    place = next((i for i, x in enumerate(node.parents) if x is parent), -1)
    return names[place] if 0 <= place < len(names) else None


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
        )  # fmt: skip from None


def unbroadcast(c: Any, shape: tuple) -> Any:
    """Sum c over the axes along which `shape` was broadcast; or broadcast it, if c is smaller."""
    if c.ndim < len(shape) or any(n == 1 != m for n, m in zip(c.shape[-len(shape) :], shape)):
        c = op.broadcast_to(c, shape=np.broadcast_shapes(c.shape, shape))
    extra = c.ndim - len(shape)
    axes = [i for i in range(c.ndim) if i < extra or (shape[i - extra] == 1 != c.shape[i])]
    if axes:
        c = op.sum(c, axis=tuple(axes), keepdims=axes[-1] >= extra)
    return op.reshape(c, shape=shape) if c.shape != shape else c


def _references(x: Any) -> int:
    return getrefcount(x)


def _count_alone() -> tuple[int, int]:
    """Reference counts of an array with one name: seen as an argument, and with a dict entry."""
    x = np.empty(1)
    alone = _references(x)
    held = {0: x}  # noqa: F841
    return alone, getrefcount(x)


def _count_viewed() -> int:
    """The reference count of an array that has one name and one view."""
    x = np.empty(1).reshape(1, 1)
    base = x.base
    return getrefcount(base)


def _count_wrapped() -> int:
    """The reference count of an array that has one name and is the data of one tensor."""
    x = wrap(np.empty(1))
    data = x._data
    return getrefcount(data)


_ALONE, _ALONE_IN_DICT = _count_alone()
_VIEWED = _count_viewed()
_WRAPPED = _count_wrapped()


def _holds_alone(view: Any, in_any_order: bool = False) -> bool:
    """Whether a view shows all of an array that nothing else refers to (a rule's reshape)."""
    base = view.base
    return (
        type(base) is _ndarray
        and getrefcount(base) == _VIEWED
        and base.flags.owndata
        and base.nbytes == view.nbytes
        and view.flags.writeable
        and (in_any_order or view.flags.c_contiguous)
    )


def _wraps_alone(x: Any) -> bool:
    """Whether x is a batch of vmap's whose array nothing else refers to, and no graph holds it."""
    while (type(x) is Tensor or getattr(x, "hides_axis", False)) and x.node is None:
        x = x._data
        if getrefcount(x) != _WRAPPED:
            return False
    return type(x) is _ndarray and (x.base is None or _holds_alone(x, in_any_order=True))


def pull_large(node: Any, g: Any, plan: Any, cotangents: dict, leads: dict | None) -> list:
    """The contributions of an elementwise node for a large g, made in blocks.

    Where a parent is a leaf or takes its contribution in blocks, and no sum has been made there, it
    is put off until then (large_pull.py). The numbers are those of `add_into`.
    """
    if g.dtype.kind == "c":
        return plan.pull(g, node.saved)
    large, saved, later = plan.pull_large, [*node.saved], {}
    g = large.received(g)
    for i, parent in enumerate(node.parents):
        held = cotangents.get(parent)
        if parent.shape == g.shape and _may_wait(parent, node, held, leads):
            c = large.put_off(i, g, saved, parent.dtype, held)
            if c is not None:
                later[i] = c
    return large(g, saved, later)


def _may_wait(parent: Any, node: Any, held: Any, leads: dict | None) -> bool:
    """Whether the node's contribution to this parent may be put off: nothing else has been made
    there, and the total is a leaf's gradient or taken in blocks.
    """
    if not (held is None or isinstance(held, PutOff)) or node.parents.count(parent) > 1:
        return False
    if type(parent) is not Node:
        return type(parent) is Leaf
    plan = parent.plan if leads is None else leads.get(parent)
    return plan is not None and plan.pull_large is not None


def add_into(cotangents: dict, parent: Any, c: Any) -> None:
    """Add c to what has arrived at the parent, in place where nobody else can see the array.

    That is so when there is no other reference to the array, nor to one that it is a view of, which
    CPython's reference counts tell exactly.
    """
    total = cotangents[parent]
    if type(total) is _ndarray:
        if getrefcount(total) == _ALONE_IN_DICT and (total.base is None or _holds_alone(total)):
            try:
                total += c
                return
            except ValueError:  # read-only: too rare to check the flags each time
                pass
        cotangents[parent] = total + c
    elif isinstance(total, PutOff):
        cotangents[parent] = total.added(c)
    elif hasattr(total, "added") and getrefcount(total) == _ALONE_IN_DICT:
        cotangents[parent] = total.added(c)  # a traced array: the result of +=, in total's layout
    else:  # arrays on a GPU: there a kernel that writes a new array costs no more than in place
        cotangents[parent] = op.add(total, c)


def private(g: Any) -> Any:
    """g itself if the caller's one name is the only reference to it, else a copy.

    Every gradient handed to a user goes through here, so that none shares memory with another, with
    the seed or with a saved array. The caller must hold g in exactly one local name.
    """
    # the second test, since a traced array claims to be an ndarray
    if type(g) is _ndarray or type(g) is array_module(g).ndarray:
        alone = getrefcount(g) == _ALONE and (g.base is None or _holds_alone(g))
        return g if alone else g.copy()
    if getrefcount(g) == _ALONE and _wraps_alone(g):
        return g
    if isinstance(g, PutOff):
        return g.made()
    return op.copy(g) if hasattr(g, "dtype") and not isinstance(g, np.generic) else np.asarray(g)


_adding = Lock()  # so that threads whose graphs share a leaf lose no update of .grad
if hasattr(os, "register_at_fork"):  # else a child might inherit it locked by another thread
    os.register_at_fork(
        before=_adding.acquire, after_in_parent=_adding.release, after_in_child=_adding.release
    )


def accumulate(x: Tensor, g: Tensor, recorded: bool) -> None:
    """Add g to x.grad, in a new array: a gradient that the user holds does not change."""
    with _adding:
        if x._grad is None:
            x._grad = g
        else:
            x._grad = x._grad + g if recorded else wrap(x._grad._data + g._data)
