"""Sums in place: CPython's reference counts show whether anything else refers to an array.

These replace the engine's `add_into`, `private` and `blocked_vjp` (engine/backward.py) and give the
same numbers. They write into an array without another reference, and return it without a copy.
"""

from sys import getrefcount
from typing import Any

import numpy as np

from ..backends.device import array_module, at
from ..engine.graph import Leaf, Node, wrap
from ..engine.registry import op
from ..tensor_api.tensor import Tensor
from .blocked_vjp import LazyCotangent

_ndarray = np.ndarray


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
    """Whether a view shows all of an array without another reference (a rule's reshape)."""
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
    """Whether x is a vmap batch whose array has no other reference, and no graph holds x."""
    while (type(x) is Tensor or getattr(x, "hides_axis", False)) and x.node is None:
        x = x._data
        if getrefcount(x) != _WRAPPED:
            return False
    return type(x) is _ndarray and (x.base is None or _holds_alone(x, in_any_order=True))


def blocked_vjp(node: Any, g: Any, plan: Any, cotangents: dict, needed: dict | None) -> list:
    """The contributions of an elementwise node for a large g, in blocks.

    A contribution is deferred (blocked_vjp.py) if no sum has been computed for its parent, and the
    parent is a leaf or takes it in blocks. The numbers are those of `add_into`.
    """
    if g.dtype.kind == "c":
        return plan.vjp(g, node.saved)
    large, saved, deferred = plan.blocked_vjp, [*node.saved], {}
    g = large.materialised(g)
    for i, parent in enumerate(node.parents):
        held = cotangents.get(parent)
        if parent.shape == g.shape and _may_defer(parent, node, held, needed):
            c = large.deferred(i, g, saved, parent.dtype, held)
            if c is not None:
                deferred[i] = c
    return large(g, saved, deferred)


def _may_defer(parent: Any, node: Any, held: Any, needed: dict | None) -> bool:
    """Whether the node's contribution to this parent may be deferred.

    It may if no total has been computed for the parent, and the parent is a leaf or takes its
    total in blocks.
    """
    if not (held is None or isinstance(held, LazyCotangent)) or node.parents.count(parent) > 1:
        return False
    if type(parent) is not Node:
        return type(parent) is Leaf
    plan = parent.plan if needed is None else needed.get(parent)
    return plan is not None and plan.blocked_vjp is not None


def add_into(cotangents: dict, parent: Any, c: Any) -> None:
    """Add c to the parent's total, in place where the array has no other reference.

    If the array is a view, its base must have no other reference either. CPython's reference counts
    show both exactly.
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
    elif isinstance(total, LazyCotangent):
        cotangents[parent] = total.added(c)
    elif hasattr(total, "added") and getrefcount(total) == _ALONE_IN_DICT:
        cotangents[parent] = total.added(c)  # a traced array: the result of +=, in total's layout
    else:  # on a GPU, where a kernel that writes a new array costs no more than one in place
        cotangents[parent] = op.add(total, c)


def _copied(g: Any) -> Any:
    with at(g):
        return g.copy()


def private(g: Any) -> Any:
    """g itself if the caller's one name is the only reference to it, else a copy.

    Every gradient returned to a user goes through here: none shares memory with another gradient,
    the seed or a saved array. The caller must hold g in exactly one local name.
    """
    # the second test is for a traced array, which claims to be an ndarray
    if type(g) is _ndarray or type(g) is array_module(g).ndarray:
        alone = getrefcount(g) == _ALONE and (g.base is None or _holds_alone(g))
        return g if alone else _copied(g)
    if getrefcount(g) == _ALONE and _wraps_alone(g):
        return g
    if isinstance(g, LazyCotangent):
        return g.materialise()
    return op.copy(g) if hasattr(g, "dtype") and not isinstance(g, np.generic) else np.asarray(g)
