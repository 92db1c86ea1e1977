"""ctx: it carries values from a Function's forward to its backward."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from ..backends.dtypes import is_differentiable
from ..engine import modes
from ..engine.errors import InPlaceError, RuleError, about, describe
from ..engine.graph import Leaf
from ..tensor_api.inplace import seen_by_x_alone
from ..tensor_api.tensor import Tensor
from .shown import as_tensor, read_only

Role = tuple[str, int]  # ("input", i), ("output", i), or ("other", i): the i-th saved tensor


class Context:
    """The first argument of a Function's forward and backward; attributes of your own may be set.

    saved_tensors      in backward: the values saved by the forward, in its order
    needs_input_grad   for each argument of forward, whether its gradient is asked for

    An attribute that is an argument or a result of forward is saved as if by save_for_backward,
    also in lists, tuples and dicts (three deep). Any other is a constant to a second derivative,
    which is an error where the gradient depends on an argument by it (hidden.py).
    """

    def __init__(self, call: Any, inputs: list):
        self._name = call.name
        self.needs_input_grad = call.needs
        self._inputs = inputs
        self._given = call.given  # the caller's tensors
        self._counts = call.counts  # how often each one's array was referred to before the call
        self._recording = modes.state.recording
        self._saved: tuple = ()

    # Before the forward says otherwise, and `settle` finds out; none of these is changed in place.
    _materialize = True
    saved_roles: tuple[Role, ...] = ()  # what each saved tensor is
    saves_what_no_graph_shows = False  # a floating tensor that is no input or output
    constant_outputs: frozenset[int] = frozenset()
    dirty_outputs: dict[int, int] = {}  # which output is which input, changed in place
    _sample: list | None = None  # of the inputs, where what backward reads cannot be told from code
    plain_positions: tuple = ()  # of the results that are not tensors, among all
    _saved_forward: tuple | None = None
    _dirty: tuple[Tensor, ...] = ()
    _constant: tuple[Tensor, ...] = ()
    _others: dict[int, Any] = {}  # saved values that are neither an input nor an output
    # numbers of the saved tensors, as save_for_backward and save_for_forward had them; None: all
    _order: Sequence[int | None] | None = None
    _order_forward: Sequence[int | None] | None = None
    _attributes: dict[str, Any] = {}  # those that hold saved tensors, as their numbers

    # -- for the forward ---------------------------------------------------------------------

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for backward, where ctx.saved_tensors returns them.

        If one is changed in place before the backward, the backward raises InPlaceError.
        """
        for x in tensors:
            if not isinstance(x, Tensor):
                self._require_tensors("save_for_backward", tensors)
        self._saved = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """The same for jvp; without it jvp sees what was saved for backward."""
        self._require_tensors("save_for_forward", tensors)
        self._saved_forward = tensors

    def _require_tensors(self, method: str, tensors: tuple) -> None:
        for i, x in enumerate(tensors):
            if x is not None and not isinstance(x, Tensor):
                raise TypeError(
                    f"{self._name}: ctx.{method} takes tensors, got {describe(x)} at position {i}; "
                    "keep anything else as an attribute: ctx.name = value"
                )

    def mark_dirty(self, *tensors: Any) -> None:
        """Say, before the change, which arguments forward changes in place; it returns them too."""
        for x in tensors:
            at = next((i for i, own in enumerate(self._inputs) if own is x), None)
            if at is None:
                raise RuleError(f"{self._name}: ctx.mark_dirty takes tensor arguments of forward")
            self._refuse_dirty(self._given[at], self._counts[at])
            self._dirty += (x,)

    def _refuse_dirty(self, x: Tensor, count: int) -> None:
        if x.level:
            raise TypeError(f"{self._name}: inside a transform of mg.func tensors are not changed")
        if not self._recording:
            return
        if x.node.__class__ is Leaf:
            raise InPlaceError(
                f"{self._name}: its argument {describe(x)} is a leaf that requires a gradient, and "
                "a change in place would make it the result of an op; pass a copy (x.copy())",
                op=self._name, **about(x),
            )  # fmt: skip
        if not seen_by_x_alone(x, count):
            raise InPlaceError(
                f"{self._name}: the change of its argument {describe(x)} cannot be tracked: "
                "another object shares its memory (a view of it or by it, x.detach(), x.numpy()). "
                "Pass a copy (x.copy())",
                op=self._name, **about(x),
            )  # fmt: skip

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say which results are constants: no gradient comes back for them."""
        self._constant += tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (True, the default) or None for results not used."""
        self._materialize = bool(value)

    # -- for the engine ----------------------------------------------------------------------

    def is_dirty(self, x: Tensor) -> bool:
        """Whether forward has said that it changes x in place."""
        return any(x is other for other in self._dirty)

    def settle(self, inputs: list, results: list, ys: list) -> bool:
        """After the forward: find out what each saved tensor is, and release the rest.

        Returns whether the forward did no more than save arguments and results.
        """
        roles = self.alone(inputs, results[0]) if len(results) == 1 else None
        if roles is not None:
            self.saved_roles, self._saved, self._inputs, self._given = roles, (), (), ()
            return True
        refuse_taken(self)
        find = _Finder(inputs, results, ys, self.is_dirty)
        self._find_constants(results, ys)
        if self._dirty:
            self.dirty_outputs = self._changed(inputs, ys)
        kept = self._numbered(find)
        self.saved_roles = tuple([find(x) or ("other", i) for i, x in enumerate(kept)])
        self._others = {i: kept[i].data for kind, i in self.saved_roles if kind == "other"}
        if self._others:
            self.saves_what_no_graph_shows = any(
                is_differentiable(array.dtype) for array in self._others.values()
            )
        self._saved, self._saved_forward = (), None
        self._inputs = self._given = ()  # type: ignore[assignment]
        self._dirty = self._constant = ()
        return False

    def alone(self, inputs: Any, y: Any) -> tuple[Role, ...] | None:
        """The saved values, where a forward of one result has only saved it or arguments, each
        once.

        None where it has done more, or returned something else than a floating tensor.
        """
        if type(y) is not Tensor or y._data.dtype.kind not in "fc" or len(vars(self)) != _AT_FIRST:
            return None
        saved = self._saved
        if len(saved) == 1:
            if saved[0] is inputs[0]:
                return _FIRST
            if saved[0] is y:
                return _RESULT
        roles: tuple[Any, ...] = tuple([_role_of(x, inputs, y) for x in saved])
        return None if None in roles or len({*roles}) < len(roles) else roles

    def _find_constants(self, results: list, ys: list) -> None:
        constant = {id(y) for y in self._constant}
        pairs = enumerate(zip(results, ys, strict=True))
        self.constant_outputs = frozenset(
            [i for i, (y, a) in pairs if id(y) in constant or not is_differentiable(a.dtype)]
        )

    def _changed(self, inputs: list, ys: list) -> dict[int, int]:
        """Which result is which argument, changed in place."""
        changed = {}
        for x in self._dirty:
            at = next((i for i, array in enumerate(ys) if array is x.data), None)
            if at is None:
                raise RuleError(f"{self._name}: forward must return what ctx.mark_dirty was given")
            changed[at] = next(i for i, own in enumerate(inputs) if own is x)
        return changed

    def _numbered(self, find: "_Finder") -> list[Tensor]:
        """The tensors to be saved, each once; in their places their numbers are kept."""
        kept: list[Tensor] = []
        attributes = own_attributes(self)
        if not (self._saved or self._saved_forward or attributes):
            return kept

        def number(x: Tensor) -> int:
            at = next((i for i, other in enumerate(kept) if other is x), None)
            if at is None:
                kept.append(x)
            return len(kept) - 1 if at is None else at

        self._order = [None if x is None else number(x) for x in self._saved]
        forward = self._saved if self._saved_forward is None else self._saved_forward
        self._order_forward = [None if x is None else number(x) for x in forward]

        def slot(x: Any) -> Any:
            return _Slot(number(x)) if isinstance(x, Tensor) and find(x, x.node is None) else x

        slotted = {name: _mapped(slot, x) for name, x in attributes.items()}
        self._attributes = {name: x for name, x in slotted.items() if x is not attributes[name]}
        for name in self._attributes:
            delattr(self, name)
        return kept

    def forget(self) -> None:
        """Release what the nodes now keep themselves."""
        if self._others:
            self._others = {}

    def looked_up(self, inputs: Any, y: Any) -> tuple:
        """The saved values of one level, from the call's inputs and result there."""
        ys = y if isinstance(y, tuple) else (y,)
        return tuple(
            [
                inputs[i] if kind == "input" else ys[i] if kind == "output" else self._others[i]
                for kind, i in self.saved_roles
            ]
        )

    def at_use(self, values: tuple, needs: list, forward: bool = False) -> "Context":
        """This context as backward (or jvp) sees it, with the saved values in their places."""
        ctx = Context.__new__(Context)
        vars(ctx).update(vars(self))
        tensors = [  # the class may write into its own array: a second backward notices
            as_tensor(x if kind == "other" else read_only(x))
            for x, (kind, _) in zip(values, self.saved_roles, strict=True)
        ]
        order = self._order_forward if forward else self._order
        if order is None:
            ctx._saved = tuple(tensors)
        else:
            ctx._saved = tuple([None if i is None else tensors[i] for i in order])
        for name, slotted in self._attributes.items():
            setattr(ctx, name, _mapped(lambda s: tensors[s] if type(s) is _Slot else s, slotted))
        ctx.needs_input_grad = tuple(needs)
        return ctx

    @property
    def saved_tensors(self) -> tuple:
        """What save_for_backward was given, in its order."""
        return self._saved


def _role_of(x: Any, inputs: Any, y: Any) -> Role | None:
    """Which argument x is, or whether it is the result; None if neither."""
    for i, own in enumerate(inputs):
        if own is x:
            return "input", i
    return ("output", 0) if x is y else None


_FIRST: tuple[Role, ...] = (("input", 0),)
_RESULT: tuple[Role, ...] = (("output", 0),)
_fresh = vars(Context(SimpleNamespace(name="", needs=(), given=[], counts=[]), []))
_AT_FIRST = len(_fresh)
_OWN = {*_fresh, *vars(Context)}  # attributes that are not a forward's
_TAKEN = {name for name in vars(Context) if not name.startswith("_")}


def own_attributes(ctx: Context) -> dict[str, Any]:
    """Those that the forward has set."""
    return {name: x for name, x in vars(ctx).items() if name not in _OWN}


def refuse_taken(ctx: Context) -> None:
    """TypeError where a forward has set an attribute that the engine reads as its own."""
    for name in vars(ctx).keys() & _TAKEN:
        raise TypeError(
            f"{ctx._name}: ctx.{name} is what ctx itself uses under this name; call the attribute "
            f"something else, ctx.my_{name} = value"
        )


class _Slot(int):
    """The number of a saved tensor, in its place in an attribute."""


def _mapped(fn: Callable, value: Any, depth: int = 3) -> Any:
    """value with fn of what it holds in lists, tuples and dicts; itself where nothing changes.

    No deeper than `depth`: a container may hold itself.
    """
    if type(value) not in (list, tuple, dict) or not depth:
        return fn(value)
    parts = [*(value.values() if type(value) is dict else value)]
    mapped = [_mapped(fn, part, depth - 1) for part in parts]
    if all(a is b for a, b in zip(parts, mapped, strict=True)):
        return value
    return dict(zip(value, mapped, strict=True)) if type(value) is dict else type(value)(mapped)


class _Finder:
    """Says which argument or result of a call a tensor is; None if neither."""

    def __init__(self, inputs: list, results: list, ys: list, is_dirty: Any):
        self.of_tensor: dict[int, Role] = {}
        self.of_memory: dict[int, Role] = {}
        # the first that fits counts, an argument before a result, so they are entered from the end
        for i in range(len(results) - 1, -1, -1):
            self._enter(("output", i), results[i], ys[i])
        for i in range(len(inputs) - 1, -1, -1):
            if not is_dirty(inputs[i]):  # an input changed in place is the result from then on
                self._enter(("input", i), inputs[i], inputs[i].data)

    def _enter(self, role: Role, x: Any, array: Any) -> None:
        self.of_tensor[id(x)] = self.of_memory[id(array)] = role

    def __call__(self, x: Tensor, by_memory: bool = True) -> Role | None:
        """By the tensor itself; else by its memory, which x may share without being it.

        A tensor with recorded history (made under enable_grad, for a backward inside the backward)
        is not the constant that `x.detach()` returns.
        """
        role = self.of_tensor.get(id(x))
        return self.of_memory.get(id(x.data)) if role is None and by_memory else role
