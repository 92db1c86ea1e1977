"""Who takes over what nodes save: the protocol between the doorway and checkpoints or hooks.

`modes.state.saving` are those who want it, the innermost last. When a node has been made, `take`
of each is called, from the innermost out; it may put something else into `node.saved`.
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
    """Base of those who take over: a context manager around the forward, safe to nest.

    It knows nothing of where it is entered: one object serves several threads, and itself inside.
    """

    def __enter__(self) -> "Saver":
        modes.state.saving = (*modes.state.saving, self)
        modes.add_reason()
        return self

    def __exit__(self, *exc: object) -> None:
        modes.add_reason(-1)
        modes.state.saving = modes.state.saving[:-1]

    def take(self, node: Any, y: Any, args: tuple) -> None:
        """Take over node.saved; those further out come later, and see what is there then."""
        raise NotImplementedError
