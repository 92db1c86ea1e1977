"""Trees: nested dicts, lists, tuples, named tuples and dataclasses, split up and put together.

Anything else is a leaf. None is an empty tree: it has no leaves and stays where it is.
"""

import copy
import dataclasses
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

import numpy as np

from ..engine.registry import op
from ..errors import TransformError
from ..tensor_api.tensor import Tensor
from .levels import require_function

_MANY = 10_000  # parts, from which on a tree is asked whether it contains itself


def _children(tree: Any) -> list | None:
    """The parts of a tree in their order; None for a leaf."""
    if isinstance(tree, Tensor):  # nearly always; to find out that it is none of these takes longer
        return None
    if isinstance(tree, dict):
        return [tree[key] for key in _keys(tree)]
    if isinstance(tree, list | tuple):
        return list(tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return [getattr(tree, field.name) for field in dataclasses.fields(tree)]
    return [] if tree is None else None


def _children_like(tree: Any, other: Any) -> list | None:
    """The parts of `other`; where both are dicts of the same keys, in the order of `tree`'s."""
    if isinstance(tree, dict) and isinstance(other, dict) and tree.keys() == other.keys():
        return [other[key] for key in _keys(tree)]
    return _children(other)


def _keys(tree: dict) -> list:
    """Sorted: two dicts with the same keys then have the same leaves; else in their order."""
    try:
        return sorted(tree)
    except TypeError:
        return list(tree)


def _with_children(tree: Any, parts: list) -> Any:
    """A tree of the same kind with these parts."""
    if isinstance(tree, dict):
        made = copy.copy(tree)
        made.update(zip(_keys(tree), parts, strict=True))
        return made
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*parts)
    if isinstance(tree, list | tuple):
        return type(tree)(parts)
    made = copy.copy(tree)  # a dataclass, frozen or not
    if made is not None:
        for field, part in zip(dataclasses.fields(made), parts, strict=True):
            object.__setattr__(made, field.name, part)
    return made


def leaves(tree: Any) -> list:
    """The tree's leaves, left to right; dict entries in the order of their sorted keys.

    TransformError for a tree that contains itself.
    """
    found, stack, seen = [], [tree], 0
    while stack:
        node = stack.pop()
        parts = _children(node)
        if parts is None:
            found.append(node)
        else:
            stack.extend(reversed(parts))
            if seen <= _MANY < (seen := seen + 1 + len(parts)):
                _refuse_cycle(tree)  # once, where there is so much that it may have no end
    return found


def _refuse_cycle(tree: Any) -> None:
    """TransformError where a container lies inside itself."""
    inside: set[int] = set()  # the containers between the tree and the node
    stack = [(tree, False)]
    while stack:
        node, leaving = stack.pop()
        if leaving:
            inside.discard(id(node))
        elif parts := _children(node):
            if id(node) in inside:
                raise TransformError(
                    f"this tree has no end: a {type(node).__name__} in it contains itself; "
                    "put a copy in its place"
                )
            inside.add(id(node))
            stack.append((node, True))
            stack.extend((part, False) for part in parts)


def rebuild(tree: Any, values: Iterable) -> Any:
    """A tree of the same form with these leaves, of any depth."""
    values = iter(values)
    made: list = []
    stack: list = [(tree, made, None)]  # a node, where it goes, its parts once it was opened
    while stack:
        node, into, parts = stack.pop()
        if parts is not None:  # seen before: by now its parts are ready
            into.append(_with_children(node, parts))
            continue
        children = _children(node)
        if children is None:
            into.append(next(values))
        else:
            below: list = []
            stack.append((node, into, below))
            stack.extend((child, below, None) for child in reversed(children))
    return made[0]


def copied(tree: Any) -> Any:
    """The same leaves in new containers, which a function may change: d["x"] = value."""
    return rebuild(tree, leaves(tree))


def tree_map(fn: Callable, tree: Any, *others: Any) -> Any:
    """The tree of fn(leaf), or of fn(leaf, other, …) with the leaves at their positions in others.

    The others must have the form of `tree`: TransformError names the position where one has not.
    """
    require_function("tree_map", fn)
    if not others and isinstance(tree, Tensor):
        return fn(tree)
    rows = [leaves(tree), *[matched(tree, other, "tree_map") for other in others]]
    return rebuild(tree, [fn(*row) for row in zip(*rows, strict=True)])


def tree_leaves(tree: Any) -> list:
    """The leaves of a tree, left to right; those of a dict in the order of its sorted keys."""
    return leaves(tree)


def ravel_pytree(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """(vector, unravel): all leaves of a tree end to end, and the way back, as JAX's.

    For functions of one vector, such as SciPy's optimizers. unravel(vector) is a tree of the same
    form; its leaves have their former shapes and dtypes. Both are differentiable. ValueError for a
    vector of another length.
    """
    xs = [x if hasattr(x, "dtype") else np.asarray(x) for x in leaves(tree)]
    dtype = np.result_type(*[x.dtype for x in xs]) if xs else np.dtype(float)
    flat = [op.reshape(op.astype(x, dtype=dtype), shape=-1) for x in xs]
    ends = np.cumsum([0] + [x.size for x in xs]).tolist()
    shapes, dtypes = [x.shape for x in xs], [x.dtype for x in xs]
    form = rebuild(tree, range(len(xs)))  # numbers in place of leaves, whose memory may go

    def unravel(vector: Any) -> Any:
        if np.shape(vector) != (ends[-1],):
            raise ValueError(f"unravel: the vector must be ({ends[-1]},), got {np.shape(vector)}")
        parts = [vector[start:end] for start, end in zip(ends, ends[1:], strict=False)]
        xs = [op.reshape(x, shape=shape) for x, shape in zip(parts, shapes, strict=True)]
        return rebuild(form, [op.astype(x, dtype=t) for x, t in zip(xs, dtypes, strict=True)])

    return op.concatenate(flat) if xs else np.zeros(0), unravel


def matched(tree: Any, other: Any, what: str) -> list:
    """The leaves of `other`, of the form of `tree`: TransformError names the position where not."""
    found, stack = [], [(tree, other, "")]
    while stack:
        a, b, path = stack.pop()
        mine, theirs = _children(a), _children_like(a, b)
        if mine is None and theirs is None:
            found.append(b)
        elif mine is None or theirs is None or not _alike(a, b):
            raise TransformError(
                f"{what}: the two trees differ{f' at {path}' if path else ''}: {_form(a)} on the "
                f"one side, {_form(b)} on the other; they must have the same form"
            )
        else:
            names = _keys(a) if isinstance(a, dict) else range(len(mine))
            pairs = zip(mine, theirs, [f"{path}[{name!r}]" for name in names], strict=True)
            stack.extend(reversed(list(pairs)))
    return found


def _alike(a: Any, b: Any) -> bool:
    """Whether two inner nodes of trees are of one kind, with the same keys or length."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys()
    sequences = isinstance(a, list | tuple) and isinstance(b, list | tuple)
    return (sequences or type(a) is type(b)) and len(_children(a) or ()) == len(_children(b) or ())


def _form(node: Any) -> str:
    if isinstance(node, dict):
        return f"a dict with the keys {_keys(node)}"
    if isinstance(node, list | tuple):
        return f"a {type(node).__name__} of {len(node)}"
    if hasattr(node, "dtype"):
        return "an array"  # a tensor, of any level
    return "None" if node is None else f"a {type(node).__name__}"


def spread(prefix: Any, tree: Any, what: str) -> list:
    """One entry of `prefix` (a tree of ints and None) for each leaf of `tree` below it."""
    found: list = []
    stack = [(prefix, tree)]
    while stack:
        axis, branch = stack.pop()
        if axis is None or isinstance(axis, Integral):
            found += [axis] * len(leaves(branch))
            continue
        mine, theirs = _children_like(branch, axis), _children(branch)
        if mine is None or theirs is None or not _alike(axis, branch):
            raise TransformError(
                f"vmap: {what} has {_form(axis)} where the value has {_form(branch)}; it takes "
                "ints and None, alone or in place of a whole branch"
            )
        stack.extend(reversed(list(zip(mine, theirs, strict=True))))
    return found
