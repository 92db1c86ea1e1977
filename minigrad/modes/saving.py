"""How checkpoints and saved-tensor hooks replace what nodes save.

`modes.state.saving` holds the Savers in force, innermost last. When a node has been made, `take` of
each is called, from the innermost out; it may put something else into `node.saved`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..backends.leaving import left_always
from ..engine import modes

__all__ = ["is_recomputing"]


class Deferred:
    """Placeholder in `node.saved` for values that are produced, in order, by iterating over it.

    `needs`: of a variadic op, which arguments need a gradient; else None.
    """

    __slots__ = ("needs",)
    recomputes = False  # whether it computes the values again (a checkpoint), bit for bit

    def __init__(self, node: Any):
        names = node.plan.names
        self.needs = [*node.saved][names.index("needs")] if "needs" in names else None

    def __iter__(self) -> Iterator:
        raise NotImplementedError

    def refuse_changed(self) -> None:
        """InPlaceError if what the values are made from was changed; called before the backward."""


class Saver:
    """Base of a context manager around a forward whose nodes save through it; safe to nest.

    It holds no state of where it is entered: one object may serve several threads, and be nested
    in itself.

    recomputes  whether what runs inside has run before (a checkpoint's second run)
    """

    recomputes = False

    def __enter__(self) -> "Saver":
        modes.add_reason()
        state = modes.state
        state.set({"saving": (*state.saving, self)})
        return self

    @left_always(lambda block: len(modes.state.saving))
    def __exit__(self, *exc: object) -> None:
        own = modes.state.__dict__
        own |= {"saving": own["saving"][:-1], "plain": None}
        modes.state.set({})
        modes.add_reason(-1)

    def take(self, node: Any, y: Any, args: tuple) -> None:
        """Replace node.saved, if wanted; outer Savers are called later and see the replacement."""
        raise NotImplementedError

    def once(self, make: Callable[[], Any]) -> Any:
        """What make() returns; inside a checkpoint what it returned in the first run."""
        return make()


def is_recomputing() -> bool:
    """Whether a checkpoint runs its function again, for a backward.

    A layer's writes elsewhere (running statistics, a count of batches) have happened then:

        if self.training and not mg.is_recomputing():
            self.seen += len(x)
    """
    return any(saver.recomputes for saver in modes.state.saving)


def once(make: Callable[[], Any]) -> Any:
    """make(), which a checkpoint's second run does not call again: it gets the same result.

    For what a layer reads from a state that it moves on, and what it draws only the first time.
    """
    for saver in modes.state.saving:
        make = partial(saver.once, make)
    return make()
