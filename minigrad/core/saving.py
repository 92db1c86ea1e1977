"""Who takes over what nodes save: the protocol between the doorway and checkpoints or hooks.

`modes.state.saving` is None, or the innermost of those who want it: an object with `outer` (the
next one out) and `save(node, y, args)`, called when a node has been made, with the result and the
arguments of its call; it may put something else into `node.saved`.
"""

from collections.abc import Iterator
from typing import Any

from . import modes


class Deferred:
    """Stands in `node.saved` for values that come back, in order, when it is iterated over.

    `needs` is what an op of many arguments knows about which of them need a gradient.
    """

    __slots__ = ("needs",)
    recomputes = False  # whether it computes them anew (a checkpoint), bit for bit

    def __init__(self, node: Any):
        names = node.plan.names
        self.needs = [*node.saved][names.index("needs")] if "needs" in names else None

    def __iter__(self) -> Iterator:
        raise NotImplementedError

    def refuse_changed(self) -> None:
        """InPlaceError if what the values come back from was changed in place. Asked beforehand."""


class Saver:
    """Base of those who take over: a context manager around the forward, safe to nest."""

    outer: "Saver | None" = None

    def __enter__(self) -> "Saver":
        self.outer = modes.state.saving
        modes.state.saving = self
        modes.add_reason()
        return self

    def __exit__(self, *exc: object) -> None:
        modes.add_reason(-1)
        modes.state.saving = self.outer

    def save(self, node: Any, y: Any, args: tuple) -> None:
        """Take over node.saved; then let the next one out do the same with what is there now."""
        self.take(node, y, args)
        if self.outer is not None:
            self.outer.save(node, y, args)

    def take(self, node: Any, y: Any, args: tuple) -> None:
        """Put in node.saved what stands for its values from now on; a subclass says what."""
        raise NotImplementedError
