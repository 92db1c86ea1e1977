"""Hooks: functions that a backward calls at a vertex of the graph (a Node, Port or Leaf).

They are kept at the vertex itself, in a slot that stays unset until the first hook. They are the
keys of a dictionary: it keeps their order, and adding or removing one takes the same time however
many there are. Who runs them takes a list of them first, so a hook may remove itself or add others.
The order is always the same. At an inner tensor:

    tensor hooks, as registered → retain_grad → multi-grad hooks → node prehooks → the op's rules
    → node hooks

At a leaf:

    tensor hooks → multi-grad hooks → `.grad` is updated → post-accumulate hooks → leaf-ready hooks,
    that of the call (leaf_ready= of backward, grad and gradients) before those registered

modes/hook_runner.py runs them. While `graph.hook_count` is 0 a backward does not look for any.
"""

import weakref
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from ..backends.leaving import left_always
from ..backends.locks import Lock
from ..backends.threads import Local
from ..engine import graph
from ..engine.errors import about, describe
from ..engine.graph import Node, Port
from ..errors import HookError

_lock = Lock()
running = Local()  # .afterwards: functions to call when the current backward has ended


class Hook:
    """One function at one vertex. `kind` says when it runs: see the two orders above."""

    __slots__ = ("kind", "fn")

    def __init__(self, kind: str, fn: Any):
        self.kind = kind
        self.fn = fn


class HookHandle:
    """Removes what was registered: by remove(), or as a context manager at the end of it.

    Copies of a tensor have no hooks, so the deep or pickled copy of a handle has none to remove.
    """

    is_entered = False

    def __init__(self, attached: list[tuple[Any, Hook]]):
        self._attached = [(weakref.ref(vertex), hook) for vertex, hook in attached]

    def remove(self) -> None:
        """Take the hook away; a second time does nothing."""
        with _lock:
            self._detach()

    def _detach(self) -> None:
        while self._attached:
            ref, hook = self._attached[-1]
            vertex = ref()
            if vertex is not None:
                vertex.hooks.pop(hook, None)
            self._attached.pop()
            graph.hook_count -= 1  # Ctrl-C in between leaves one too many, which costs time alone

    def __copy__(self) -> "HookHandle":
        return self

    def __reduce__(self) -> tuple:
        return HookHandle, ([],)

    def __enter__(self) -> "HookHandle":
        self.is_entered = True
        return self

    @left_always(attrgetter("is_entered"))
    def __exit__(self, *exc: object) -> None:
        self.remove()


def add(attached: list[tuple[Any, str, Any]]) -> HookHandle:
    """Put hooks (vertex, kind, fn) where they belong; one handle removes them all."""
    for _, kind, fn in attached:
        require_function(fn[0].fn if kind == "multi" else fn)
    made = [(vertex, Hook(kind, fn)) for vertex, kind, fn in attached]
    handle, count = HookHandle(made), len(made)
    with _lock:
        graph.hook_count += count
        try:
            for vertex, hook in made:
                _put(vertex, hook)
        except BaseException:  # Ctrl-C: nobody would have the handle
            handle.remove()
            raise
    return handle


def require_function(fn: Any) -> None:
    """TypeError for a hook that is none."""
    if not callable(fn):
        raise TypeError(f"a hook is a function of the gradient, got {fn!r}")


def _put(vertex: Any, hook: Hook) -> None:
    """Add a hook behind the others of its vertex."""
    if not hasattr(vertex, "hooks"):
        vertex.hooks = {}
    vertex.hooks[hook] = None


def keep_retaining(tensor: Any, old: Any, new: Any) -> None:
    """Move a tensor's retain_grad from the vertex `old` to `new`, its vertex after an in-place
    write.

    Its other hooks stay at the old vertex, with the value that they were registered for.
    """
    moved = [hook for hook in at(old) if _retains(hook, tensor)]
    if moved and new is not old:
        with _lock:
            for hook in moved:
                del old.hooks[hook]
                _put(new, hook)


def _retains(hook: Hook, tensor: Any) -> bool:
    return hook.kind == "retain" and hook.fn() is tensor


def call_after_backward(fn: Callable[[], None]) -> None:
    """From a leaf-ready hook: call fn() once when this backward has ended without an error."""
    afterwards = getattr(running, "afterwards", None)
    if afterwards is None:
        raise HookError("call_after_backward is for leaf-ready hooks: no such hook runs here")
    if fn not in afterwards:
        afterwards.append(fn)


def at(vertex: Any) -> list[Hook]:
    """The hooks at a vertex, in the order in which they were registered."""
    return list(getattr(vertex, "hooks", ()))


def of(vertex: Any, kind: str) -> list:
    """The functions of this kind at a vertex, in the order in which they were registered."""
    return [hook.fn for hook in at(vertex) if hook.kind == kind]


def _before_rules(vertex: Any, fn: Callable) -> HookHandle:
    """fn(gradients of the results) before the rules run; it may return others, as a tuple.

    Results that were not used have None.
    """
    return add([(_producer(vertex), "pre", fn)])


def _after_rules(vertex: Any, fn: Callable) -> HookHandle:
    """fn(gradients of the inputs, gradients of the results) after the rules have run.

    It may return other gradients of the inputs, as a tuple. Only inputs that need one count.
    """
    return add([(_producer(vertex), "post", fn)])


# What `y.grad_fn` offers: hooks around the rules of one recorded call.
Node.register_prehook = Port.register_prehook = _before_rules
Node.register_hook = Port.register_hook = _after_rules


def _producer(vertex: Any) -> Any:
    """The node itself; the node that a port belongs to."""
    return vertex.parents[0] if hasattr(vertex, "index") else vertex


class TensorHooks:
    """Base of Tensor: the methods for hooks."""

    __slots__ = ()

    node: Any
    is_leaf: bool

    def register_hook(self, fn: Callable) -> HookHandle:
        """fn(gradient) once for each backward, with the total; it may return another in its place.

        The gradient may not be changed in place: it is a read-only view.
        """
        return add([(_vertex_of(self, "register_hook"), "total", fn)])

    def retain_grad(self) -> None:
        """Keep this inner tensor's gradient in `.grad` too, as a leaf does."""
        vertex = _vertex_of(self, "retain_grad")
        if not self.is_leaf and not self.retains_grad:
            add([(vertex, "retain", weakref.ref(self))])

    @property
    def retains_grad(self) -> bool:
        """Whether retain_grad was called on this inner tensor."""
        return any(_retains(hook, self) for hook in at(self.node))

    def register_post_accumulate_grad_hook(self, fn: Callable) -> HookHandle:
        """fn(leaf) after a backward has updated the leaf's `.grad`; it returns None."""
        return add([(_leaf(self, "register_post_accumulate_grad_hook"), "accumulated", fn)])

    def register_leaf_ready_hook(self, fn: Callable) -> HookHandle:
        """fn(leaf) once in each backward that reaches the leaf, as soon as nothing more will come.

        That is in the middle of the backward, before older nodes run; it is called also where no
        gradient has arrived. Use it for what needs a parameter's complete gradient as early as
        possible, such as sending it to other machines.
        """
        return add([(_leaf(self, "register_leaf_ready_hook"), "ready", fn)])


class MultiGrad:
    """A hook over several tensors: their count, the function, and the mode ("all" or "any")."""

    __slots__ = ("count", "fn", "mode")

    def __init__(self, count: int, fn: Callable, mode: str):
        self.count = count
        self.fn = fn
        self.mode = mode


def register_multi_grad_hook(tensors: Sequence, fn: Callable, mode: str = "all") -> HookHandle:
    """fn(list of gradients) once for each backward, when those of all the tensors are there.

    None means a tensor that the backward does not reach. With mode="any": fn(gradient) for the
    first that comes.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: mode is 'all' or 'any', got {mode!r}")
    if hasattr(tensors, "node") or not hasattr(tensors, "__iter__"):  # of a tensor: new rows
        raise TypeError(
            f"register_multi_grad_hook takes several tensors, [a, b], got {describe(tensors)}; "
            "x.register_hook is for one, model.parameters() has those of a module"
        )
    vertices = [_vertex_of(x, "register_multi_grad_hook") for x in tensors]
    shared = MultiGrad(len(vertices), fn, mode)
    return add([(vertex, "multi", (shared, i)) for i, vertex in enumerate(vertices)])


def _vertex_of(x: Any, method: str) -> Any:
    if not hasattr(x, "node"):
        raise TypeError(f"{method} takes tensors, got {describe(x)}")
    if x.node is None:
        raise HookError(
            f"{method}: {describe(x)} does not require a gradient, so none will come. Make it "
            "with requires_grad=True, or put the hook on a result that depends on such a tensor.",
            **about(x),
        )
    return x.node


def _leaf(x: Any, method: str) -> Any:
    vertex = _vertex_of(x, method)
    if not x.is_leaf:
        raise HookError(
            f"{method} is for leaves; {describe(x)} is the result of {vertex!r}. Use "
            "register_hook for its gradient, and retain_grad() to keep it in .grad.",
            **about(x),
        )
    return vertex
