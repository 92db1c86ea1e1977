"""Nested dicts, lists and tuples of tensors, taken apart and put together again."""

from collections.abc import Callable, Iterable
from typing import Any


def leaves(tree: Any) -> list:
    """The tree's leaves, left to right; dict entries in the order of their sorted keys."""
    found, stack = [], [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            stack.extend(node[key] for key in sorted(node, reverse=True))
        elif isinstance(node, list | tuple):
            stack.extend(reversed(node))
        elif node is not None:
            found.append(node)
    return found


def rebuild(tree: Any, values: Iterable) -> Any:
    """A tree of the same shape with these leaves. Nesting is as deep as the user wrote it."""
    values = iter(values)

    def build(node: Any) -> Any:
        if isinstance(node, dict):
            built = {key: build(node[key]) for key in sorted(node)}
            return type(node)({key: built[key] for key in node})
        if isinstance(node, tuple) and hasattr(node, "_fields"):
            return type(node)(*(build(child) for child in node))
        if isinstance(node, list | tuple):
            return type(node)(build(child) for child in node)
        return None if node is None else next(values)

    return build(tree)


def tree_map(fn: Callable, tree: Any) -> Any:
    """fn applied to each leaf."""
    return rebuild(tree, [fn(leaf) for leaf in leaves(tree)])
