"""Running hooks in a backward: those at each vertex, and those around a node's rules.

The serial walk knows nothing of hooks: it iterates over the order. `HookRunner.around` yields the
same vertices, and runs a vertex's hooks just before and after it does.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..backends.device import at
from ..backends.locks import Lock
from ..custom.shown import as_tensor, read_only
from ..engine import events, versions
from ..engine.backward import BackwardRun, NodeVjp, accumulate, conform
from ..engine.errors import about, describe
from ..engine.graph import Leaf, raw
from ..errors import HookError
from ..tensor_api.tensor import Tensor
from . import hooks
from .scopes import span


def any_in(order: list) -> bool:
    """Whether a backward over this order has hooks to run."""
    return any(getattr(vertex, "hooks", ()) for vertex in order)


class HookRunner:
    """The hooks of one backward, and what to do just before and after each vertex.

    wanted, needed  as in a BackwardRun: hooks run only where this backward computes a gradient
    deposits        whether the backward updates `.grad`: only then leaf-ready hooks run
    leaf_ready      a hook of this call alone, fn(leaf, gradient); None for none
    lock            held while a hook runs: hooks of a parallel backward run one at a time
    """

    def __init__(self, work: BackwardRun):
        wanted, needed, order = work.wanted, work.needed, work.order
        self.reached = set(order) if wanted is None or needed is None else wanted.union(needed)
        self.wanted = wanted
        self.deposits = work.deposits
        self.leaf_ready = work.leaf_ready
        self.arrived: dict[Any, Tensor] = {}  # leaf -> its gradient, a copy, for leaf_ready
        self.lock = Lock()
        self.afterwards: list[Callable[[], None]] = []  # asked for by leaf-ready hooks
        self.several = _MultiGrads([vertex for vertex in order if vertex in self.reached])

    def around(self, order: list, cotangents: dict) -> Iterator:
        """The vertices of `order`; the hooks of each run just before and after it is handed out."""
        for vertex in order:
            if self.stands_at(vertex):
                g = self.before(vertex, cotangents.pop(vertex, None))
                if g is not None:
                    cotangents[vertex] = g
                del g  # only `cotangents` may hold the sums
            yield vertex
            if vertex.__class__ is Leaf:
                self.after(vertex)

    def stands_at(self, vertex: Any) -> bool:
        """Whether hooks run at this vertex, in this backward."""
        has_hooks = getattr(vertex, "hooks", ()) or (
            self.leaf_ready is not None and vertex.__class__ is Leaf
        )
        return bool(has_hooks) and vertex in self.reached

    def before(self, vertex: Any, g: Any) -> Any:
        """The total at the vertex after its tensor hooks; None where no gradient came."""
        if g is not None:
            g = _total(vertex, g)
        self.several.arrive(vertex, g)
        if g is not None and self.leaf_ready is not None and vertex.__class__ is Leaf:
            self.arrived[vertex] = g if isinstance(g, Tensor) else Tensor(g.copy())
        return g

    def after(self, leaf: Any) -> None:
        """Run the leaf-ready hooks of a leaf whose gradient is complete: first that of the call."""
        g = self.arrived.pop(leaf, None)
        registered = self.deposits and leaf in self.reached
        if g is None and not registered:
            return
        outer = getattr(hooks.running, "afterwards", None)
        hooks.running.afterwards = self.afterwards
        try:
            tensor = leaf.tensor()
            mine = self.leaf_ready if g is not None else None
            if mine is not None and tensor is not None and tensor.node is leaf:
                _run(mine, tensor, g)
            del tensor
            if registered:
                _run_ready(leaf)
        finally:
            hooks.running.afterwards = outer

    def finish(self) -> None:
        """Call the functions that leaf-ready hooks gave to call_after_backward."""
        for fn in self.afterwards:
            _run(fn)


def _run_ready(leaf: Any) -> None:
    for fn in hooks.of(leaf, "ready"):
        tensor = leaf.tensor()
        if tensor is not None:
            _run(fn, tensor)


def _run(fn: Callable, *args: Any) -> Any:
    """Call a user's hook; listeners get its time.

    HookError for its StopIteration, which would end the loop that hooks run in.
    """
    name = getattr(fn, "__qualname__", type(fn).__name__)
    try:
        if not events.listeners:
            return fn(*args)
        with span("hook", name):
            return fn(*args)
    except StopIteration as error:
        raise HookError(f"the hook {name} raised StopIteration; catch it there") from error


def _total(vertex: Any, g: Any) -> Any:
    """The total g after the tensor hooks; stored for tensors that retain their gradient."""
    for fn in hooks.of(vertex, "total"):
        g = _replaced(g, _run(fn, _shown(g)), f"a hook of {vertex!r}")
    for ref in hooks.of(vertex, "retain"):
        tensor = ref()
        if tensor is not None:
            recorded = isinstance(g, Tensor)
            accumulate(tensor, g if recorded else Tensor(g.copy()), recorded)
    return g


def vjp_with_hooks(vjp: NodeVjp, lock: AbstractContextManager) -> NodeVjp:
    """The same vjp with the node's hooks around it, run under the lock.

    Hooks may write in place, so what a node has saved is checked again just before it is used.
    """

    def wrapped(node: Any, g: Any, plan: Any) -> Iterable:
        versions.refuse_changed((node,))
        if not getattr(node, "hooks", ()):
            return vjp(node, g, plan)
        with lock:
            outputs = _node_prehooks(node, g if isinstance(g, list) else [g])
        contributions = vjp(node, outputs if isinstance(g, list) else outputs[0], plan)
        with lock:
            return _node_hooks(node, list(contributions), outputs)

    return wrapped


def _node_prehooks(node: Any, outputs: list) -> list:
    for fn in hooks.of(node, "pre"):
        given = _run(fn, tuple([_shown(g) for g in outputs]))
        outputs = _all_replaced(outputs, given, f"a prehook of {node!r}")
    return outputs


def _node_hooks(node: Any, inputs: list, outputs: list) -> list:
    after = hooks.of(node, "post")
    if after:
        pairs = zip(inputs, node.parents, strict=True)
        inputs = [c if c is None else conform(c, parent, node) for c, parent in pairs]
    for fn in after:
        shown = tuple([_shown(c) for c in inputs]), tuple([_shown(g) for g in outputs])
        inputs = _all_replaced(inputs, _run(fn, *shown), f"a hook of {node!r}")
    return inputs


class _MultiGrads:
    """The multi-grad hooks of one backward, and which gradients each still waits for."""

    def __init__(self, vertices: list):
        self.missing: dict[Any, int] = {}
        self.arrived: dict[Any, list] = {}
        for vertex in vertices:
            for shared, _ in hooks.of(vertex, "multi"):
                self.missing[shared] = self.missing.get(shared, 0) + 1
                self.arrived[shared] = [None] * shared.count

    def arrive(self, vertex: Any, g: Any) -> None:
        """Note the gradient of a vertex; call the hooks that now have all of theirs."""
        for shared, i in hooks.of(vertex, "multi"):
            if shared not in self.missing:
                continue  # registered during this backward, or done with
            self.missing[shared] -= 1
            self.arrived[shared][i] = shown = _shown(g)
            if shared.mode == "any" and shown is not None:
                del self.missing[shared]
                _run(shared.fn, shown)
            elif shared.mode == "all" and not self.missing[shared]:
                del self.missing[shared]
                _run(shared.fn, self.arrived.pop(shared))


def _shown(g: Any) -> Any:
    """g as a tensor around a read-only view: others may refer to the array too."""
    return as_tensor(read_only(g))


def _all_replaced(values: list, given: Any, where: str) -> list:
    if given is None:
        return values
    given = list(given) if isinstance(given, tuple | list) else [given]
    if len(given) != len(values):
        raise HookError(f"{where} returned {len(given)} gradients in place of {len(values)}")
    return [_replaced(g, new, where) for g, new in zip(values, given, strict=True)]


def _replaced(g: Any, new: Any, where: str) -> Any:
    """The value that a hook has returned for g, in g's form; g where it returned None."""
    if new is None:
        return g
    if g is None:
        said = f"{where} returned a gradient for a result that was not used; return None"
        raise HookError(said, given_shape=getattr(new, "shape", None))
    if getattr(new, "shape", None) != g.shape or not np.can_cast(new.dtype, g.dtype, "same_kind"):
        raise HookError(
            f"{where} returned {describe(new)} in place of a gradient {describe(g)}; a hook "
            "returns None to leave it, or a tensor of the same shape and kind of number",
            **about(g, new),
        )
    if isinstance(g, Tensor):
        return new.astype(g.dtype) if new.dtype != g.dtype else new
    with at(g):
        return raw(new).astype(g.dtype, copy=False)
