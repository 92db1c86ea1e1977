"""Running hooks in a backward: an order that acts as it is walked, and a pull with more around it.

The walk itself (serial.py) knows nothing of hooks. It takes one place after the other from the
order; `hooked_order` hands out the same places and runs what stands there just before and after.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..core import hooks, versions
from ..core.errors import HookError, describe
from ..core.graph import Leaf
from ..core.tensor import Tensor, raw
from .contributions import accumulate, conform


def any_in(order: list) -> bool:
    """Whether a backward over this order has hooks to run."""
    return any(getattr(place, "hooks", ()) for place in order)


def hooked_order(
    order: list, cotangents: dict, wanted: set | None, leads: set | None, deposits: bool
) -> Iterator:
    """The places of `order`, with the tensor hooks run on each total before it is handed out.

    wanted, leads   as in serial.run: hooks run only where this backward computes a gradient
    deposits        whether it updates `.grad`: only then a leaf is reported as ready
    """
    reached = set(order) if wanted is None or leads is None else wanted | leads
    several = _MultiGrads([place for place in order if place in reached])
    for place in order:
        if getattr(place, "hooks", ()) and place in reached:
            if place in cotangents:
                cotangents[place] = _total(place, cotangents.pop(place))
            several.arrive(place, cotangents.get(place))
        yield place
        if deposits and place.__class__ is Leaf and place in reached:
            for fn in hooks.of(place, "ready"):
                leaf = place.tensor()
                if leaf is not None:
                    fn(leaf)


def _total(place: Any, g: Any) -> Any:
    """The total g after the tensor hooks; retained where a tensor asks for it."""
    for fn in hooks.of(place, "total"):
        g = _replaced(g, fn(_shown(g)), f"a hook of {place!r}")
    for ref in hooks.of(place, "retain"):
        tensor = ref()
        if tensor is not None:
            recorded = isinstance(g, Tensor)
            accumulate(tensor, g if recorded else Tensor(g.copy()), recorded)
    return g


def hooked_pull(pull: Callable[[Any, Any], Iterable]) -> Callable[[Any, Any], Iterable]:
    """The same pull with the node's hooks around it.

    Hooks may write in place, so what a node has saved is checked again just before it is used.
    """

    def pulled(node: Any, g: Any) -> Iterable:
        versions.refuse_changed((node,))
        if not getattr(node, "hooks", ()):
            return pull(node, g)
        outputs = _node_prehooks(node, g if isinstance(g, list) else [g])
        contributions = pull(node, outputs if isinstance(g, list) else outputs[0])
        return _node_hooks(node, list(contributions), outputs)

    return pulled


def _node_prehooks(node: Any, outputs: list) -> list:
    for fn in hooks.of(node, "pre"):
        given = fn(tuple([_shown(g) for g in outputs]))
        outputs = _all_replaced(outputs, given, f"a prehook of {node!r}")
    return outputs


def _node_hooks(node: Any, inputs: list, outputs: list) -> list:
    after = hooks.of(node, "post")
    if after:
        pairs = zip(inputs, node.parents, strict=True)
        inputs = [c if c is None else conform(c, parent, node) for c, parent in pairs]
    for fn in after:
        shown = tuple([_shown(c) for c in inputs]), tuple([_shown(g) for g in outputs])
        inputs = _all_replaced(inputs, fn(*shown), f"a hook of {node!r}")
    return inputs


class _MultiGrads:
    """What the multi-grad hooks of one backward wait for."""

    def __init__(self, places: list):
        self.missing: dict[Any, int] = {}
        self.arrived: dict[Any, list] = {}
        for place in places:
            for shared, _ in hooks.of(place, "multi"):
                self.missing[shared] = self.missing.get(shared, 0) + 1
                self.arrived[shared] = [None] * shared.count

    def arrive(self, place: Any, g: Any) -> None:
        """Note the gradient of a place; call the hooks that have now heard of all of theirs."""
        for shared, i in hooks.of(place, "multi"):
            if shared not in self.missing:
                continue  # registered during this backward, or done with
            self.missing[shared] -= 1
            self.arrived[shared][i] = shown = None if g is None else _shown(g)
            if shared.mode == "any" and shown is not None:
                del self.missing[shared]
                shared.fn(shown)
            elif shared.mode == "all" and not self.missing[shared]:
                del self.missing[shared]
                shared.fn(self.arrived.pop(shared))


def _shown(g: Any) -> Any:
    """g as a tensor; a plain array as a read-only view, since others may hold the array too."""
    if g is None or isinstance(g, Tensor):
        return g
    view = g.view()
    if isinstance(view, np.ndarray):
        view.flags.writeable = False
    return Tensor(view)


def _all_replaced(values: list, given: Any, where: str) -> list:
    if given is None:
        return values
    given = list(given) if isinstance(given, tuple | list) else [given]
    if len(given) != len(values):
        raise HookError(f"{where} returned {len(given)} gradients in the place of {len(values)}")
    return [_replaced(g, new, where) for g, new in zip(values, given, strict=True)]


def _replaced(g: Any, new: Any, where: str) -> Any:
    """What a hook has returned in the place of g, in g's form; g where it returned None."""
    if new is None:
        return g
    if g is None:
        raise HookError(f"{where} returned a gradient for a result that was not used; return None")
    if getattr(new, "shape", None) != g.shape or not np.can_cast(new.dtype, g.dtype, "same_kind"):
        raise HookError(
            f"{where} returned {describe(new)} in the place of a gradient {describe(g)}; a hook "
            "returns None to leave it, or a tensor of the same shape and kind of number"
        )
    if isinstance(g, Tensor):
        return new.astype(g.dtype) if new.dtype != g.dtype else new
    return raw(new).astype(g.dtype, copy=False)
