"""How transforms nest: each one that runs is a level, and an op runs at the innermost level first.

A tensor of level n holds, as its data, a value of a lower level: an array, or a tensor of a level
below n. Level n's rule runs an op whose arguments reach up to level n. That rule computes with the
lower values, and so calls ops that run at the levels below, down to arrays. Derivative rules are
ordinary calls of ops and take the same way, so jvp∘grad, vmap∘grad and any other order need no
further code.

An argument of a lower level is a constant to level n. That is what keeps an inner derivative from
mistaking the outer variable for its own (perturbation confusion).
"""

import functools
import gc
import sys
from collections.abc import Callable
from typing import Any

from ..backends.leaving import left_always
from ..backends.threads import Local
from ..engine import modes
from ..engine.errors import describe
from ..engine.graph import wrap
from ..errors import TransformError
from ..tensor_api import level_membership
from ..tensor_api.create import as_tensor
from ..tensor_api.tensor import Tensor
from .residuals import with_residuals

# Whether an object adds to the count of references to its class. A CPython without the GIL keeps
# that count elsewhere, or none: threads that make objects of one class do not meet there.
_MOST_CLASSES = 16  # kept of one level
_OBJECTS_COUNT = "free-threading" not in sys.version


class _Classes(Local):
    """The classes of levels, each thread's own: (base, level, lasting) -> those made so far."""

    def __init__(self) -> None:
        self.made: dict[tuple[type, int, bool], list[Any]] = {}


_classes = _Classes()


class LevelTensor(Tensor):
    """A tensor of a reverse-mode transform: recorded like any other, over lower values."""

    __slots__ = ()
    life = None  # its tensors have a value and a graph after the level too
    thread = 0  # that in which the level runs; 0 when it has ended
    has_value_below = True  # whether a tensor of the level can stand for one value below it

    def __copy__(self) -> Any:
        return self.copy()  # recorded: a new leaf, as outside, would be a constant of the level

    def __deepcopy__(self, memo: dict) -> Any:
        return self.copy()

    @classmethod
    def run_at_level(cls, mode: Any, op: Any, args: tuple, params: dict) -> None:
        """Let the doorway record the call, with the op itself, one level down, as its forward."""
        cls.require_life(op)
        mode.args = tuple(lifted(x, cls) for x in args)
        mode.forward = op
        if op.residuals:
            mode.forward = lambda *xs, **params: with_residuals(op, xs, params)
        mode.kind = cls

    @classmethod
    def require_life(cls, op: Any) -> None:
        """An error in another thread than that in which the level runs; it may have ended."""
        if cls.thread and cls.thread != modes.state.thread:
            raise TransformError(_OF_ANOTHER_THREAD.format(op.name))


_OF_ANOTHER_THREAD = (
    "{}: a tensor that belongs to a transform of mg.func (grad, vjp, jvp, vmap) is used in another "
    "thread than that in which the transform runs, where its derivative or batch axis would be "
    "lost. Compute with it in that thread, or start the transforms in the threads"
)
_ESCAPED = (
    "{}: a tensor made inside vmap or jvp was kept (in a list, an attribute, a global name) and is "
    "used after that run has ended, where its batch axis or tangent means nothing. Let the mapped "
    "function return it (jvp: with has_aux=True), and use what the transform returns"
)


class NoLeaf:
    """For the tensors of vmap and jvp: they carry an axis or a tangent, and record nothing."""

    __slots__ = ()
    life: Any = None  # [whether the level runs, references to the class while it has no tensor]
    thread = 0  # that in which it runs

    @classmethod
    def require_life(cls, op: Any) -> None:
        """An error for a tensor of a run that has ended, which means nothing outside of it.

        So is one in another thread, where the level does not run.
        """
        if not cls.life[0]:
            raise TransformError(_ESCAPED.format(op.name))
        if cls.thread != modes.state.thread:
            raise TransformError(_OF_ANOTHER_THREAD.format(op.name))

    @property
    def requires_grad(self) -> bool:
        return False

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if wanted:
            raise TransformError(
                "inside vmap and jvp a tensor cannot be made to require a gradient; call "
                "mg.func.grad or mg.func.vjp on a function of it"
            )


def lifted(x: Any, kind: type[Tensor]) -> Any:
    """x as a tensor of this level: a tensor of a lower level becomes a constant of it."""
    return wrap(kept(x), None, kind) if isinstance(x, Tensor) and type(x) is not kind else x


def kept(x: Tensor) -> Tensor:
    """Another object for x as it is now, which a tensor of a higher level may hold.

    x itself is the user's: x += y turns it into the result, and what was computed from x would then
    have that in place of the value it was computed from.
    """
    y = wrap(x._data, x.node, type(x) if x.level else Tensor)
    y._grad = x._grad if x.level else None  # where a dual number has its tangent
    return y


def at_level(base: type, level: int, lasting: bool = False) -> type:
    """The class of tensors of this kind at this level: one that was made before, or a new one.

    A `lasting` level has a class for itself: its tensors are used after it has ended (by the vjp
    that vjp returns), and must not be taken for those of a later transform of the same depth. So
    has one whose tensors have no value after it. Such a class serves again when nothing of the
    earlier run refers to it: its tensors do, as an object refers to its class. Where that cannot be
    told, or many are in use, a new one is made, which only the cyclic collector frees.
    """
    made = _classes.made.setdefault((base, level, lasting), [])
    no_leaf = issubclass(base, NoLeaf)
    alone = lasting or no_leaf
    for kind in made:
        if not alone or (_OBJECTS_COUNT and sys.getrefcount(kind) <= kind.unused):
            return kind
    words = {"level": level, "__slots__": (), "life": [False] if no_leaf else None, "unused": 0}
    kind = type(f"{base.__name__}{level}", (base,), words)
    if len(made) < _MOST_CLASSES:
        made.append(kind)
        kind.unused = sys.getrefcount(kind)
    return kind


class new_level:
    """Enter a level inside those that this thread is in; gives the class of its tensors.

    settings: what else of the thread's modes it sets.

    Under no_grad this level records all the same, and those below do not: the result is a constant.
    No generator: interrupted as it is entered, one is left to whoever frees it, in any order.
    """

    __slots__ = ("base", "lasting", "settings", "level", "kind", "before")

    kind: Any

    def __init__(self, base: type, lasting: bool = False, settings: dict[str, Any] | None = None):
        self.base, self.lasting, self.settings = base, lasting, settings or {}

    def __enter__(self) -> Any:
        state = modes.state
        modes.refuse_inside_inference(True)
        self.level = level = state.level + 1
        constant_below = state.constant_below if state.recording else level
        inside = {"level": level, "constant_below": constant_below, "recording": True}
        inside |= self.settings
        self.before = {**{name: getattr(state, name) for name in inside}, "plain": None}
        self.kind = kind = at_level(self.base, level, self.lasting)
        kind.thread = modes.state.thread
        if kind.life:
            kind.life[0] = True
        modes.add_level()
        state.set(inside)
        return kind

    @left_always(lambda block: modes.state.level)
    def __exit__(self, error: Any, *others: object) -> None:
        own = modes.state.__dict__
        try:
            own["recording"] = self.before["recording"]
            _settle(self.base, self.level, failed=error is not None)
        finally:
            own |= self.before
            modes.state.set({})
            if self.kind.life:
                self.kind.life[0] = False
            self.kind.thread = 0
            self.kind = None
            modes.add_level(-1)


def _settle(base: Any, level: int, failed: bool = False) -> None:
    """Give tensors from outside that were written at this level, which ends, a value below it.

    It is the one they have now. In vmap there is none, and they are again what they were: an error,
    unless the function has failed with one that says more.
    """
    left = level_membership.alive(level)
    if left and not base.has_value_below and not failed:
        del left
        gc.collect()  # a tensor made inside may wait for it in a cycle
        left = level_membership.alive(level)
    level_membership.forget(level)
    for x, before in left:
        if base.has_value_below:
            _lower(x, before)
        else:
            before.restore(x)
    if left and not (base.has_value_below or failed):
        raise TransformError(
            f"vmap: a value for each example was written into {describe(left[0][0])}, a tensor "
            "that is referred to from outside the mapped function; it can hold one value only, "
            "and has its old one again. Make the tensor inside, or write into a copy of it, "
            "and return that"
        )


def _lower(x: Any, before: level_membership.Before) -> None:
    """Turn x, a tensor of a level that ends, into its value one level below.

    In new memory: results and graphs may hold its former array, and x may be written to later.
    """
    value = as_result(x.data).copy()
    if value.level > before.kind.level:
        level_membership.note(x, value.level, before)
        x.__class__ = type(value)
    else:
        x.__class__ = before.kind
    x._data, x.node, x._grad = value.data, value.node, value._grad


def lowered(y: Any, kind: type[Tensor]) -> Any:
    """y's value one level below, a tensor; itself if it does not belong to this level."""
    return as_result(y.data) if type(y) is kind else y


def as_result(y: Any) -> Any:
    """The results of a transform: tensors, never plain arrays."""
    return y if isinstance(y, Tensor) else wrap(y)


def require_function(what: str, fn: Any) -> None:
    """TypeError where something else, such as what a function returned, stands in its place."""
    if not callable(fn):
        raise TypeError(
            f"mg.func.{what} takes the function itself, f and not f(x); got {describe(fn)}"
        )


def value_of(what: str, x: Any) -> Tensor:
    """x as a tensor; an error of this transform for what is no number."""
    try:
        return as_tensor(x)
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from error


def named_after(what: str, fn: Any) -> Callable:
    """Decorator for the function that a transform makes of fn: it has fn's name and docstring."""
    require_function(what, fn)
    return functools.wraps(fn, updated=())  # a module's attributes stay with the module
