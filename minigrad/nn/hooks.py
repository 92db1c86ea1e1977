"""Hooks of modules: functions called before and after a forward, and around a backward.

A full backward hook needs to know when the gradients of a module's inputs and results are there.
So while a module has one, its tensors pass through two identities, one before the forward and one
after it. The hooks belong to the nodes of these (modes/hooks.py).
"""

import warnings
import weakref
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from ..backends.caches import cached
from ..backends.leaving import left_always
from ..engine.errors import describe
from ..engine.primitive import Primitive
from ..errors import HookError
from ..tensor_api.tensor import Tensor


class Hook:
    """One function and when it is called; remove() takes it away, as does the end of a `with`.

    owner, a module or an optimizer, keeps its hooks in `_hooks`, in the order in which they run.
    The reference is weak: its arrays are freed as soon as it is dropped, as without hooks.
    """

    is_entered = False

    def __init__(
        self,
        owner: Any,
        kind: str,
        fn: Callable,
        with_kwargs: bool = False,
        always_call: bool = False,
    ):
        if not callable(fn):
            raise TypeError(
                f"{type(owner).__name__}: a hook is a function that is called with what its "
                f"register method says; got {describe(fn)}"
            )
        self._owner = weakref.ref(owner)
        self.kind = kind
        self.fn = fn
        self.with_kwargs = with_kwargs
        self.always_call = always_call  # after a forward that has raised too

    def remove(self) -> None:
        """Take the hook away; a second time does nothing."""
        owner = self._owner()
        if owner is not None:
            owner._hooks = tuple([h for h in owner._hooks if h is not self])

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles of the owner: the hook there belongs to the new owner."""
        return {**vars(self), "_owner": self._owner()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        owner = state["_owner"]
        vars(self).update(state, _owner=weakref.ref(owner) if owner is not None else lambda: None)

    def __enter__(self) -> "Hook":
        self.is_entered = True
        return self

    @left_always(attrgetter("is_entered"))
    def __exit__(self, *exc: object) -> None:
        self.remove()


class ModuleHooks:
    """Base of Module: what may be hooked.

    Hooks run in the order of their registration, one with prepend=True before those there are.
    """

    _hooks: tuple[Hook, ...] = ()

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> Hook:
        """hook(module, args) before forward; it may return other arguments (a tuple, or one value).

        With with_kwargs=True: hook(module, args, kwargs), which may return (args, kwargs).
        """
        return self._add("forward_pre", hook, prepend, with_kwargs)

    def register_forward_hook(
        self,
        hook: Callable,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> Hook:
        """hook(module, args, result) after forward; it may return another result.

        With with_kwargs=True: hook(module, args, kwargs, result). With always_call=True it is also
        called after a forward that raised, with the result None. An error in the hook is then a
        warning.
        """
        return self._add("forward", hook, prepend, with_kwargs, always_call)

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> Hook:
        """hook(module, grad_output) once the gradients of the results are there.

        It may return others, a tuple. Results are the tensors in a tensor, tuple or list.
        """
        return self._add("backward_pre", hook, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> Hook:
        """hook(module, grad_input, grad_output) once the gradients of the inputs are there.

        Tuples, with None for what is not a tensor or needs no gradient; inputs are the positional
        arguments. It may return other gradients of the inputs. It is not called for a gradient that
        reaches the inputs without the results, as in the backward of a gradient of them.
        """
        return self._add("backward", hook, prepend)

    def register_state_dict_pre_hook(self, hook: Callable) -> Hook:
        """hook(module, prefix, keep_vars) before state_dict, of this module or one above it.

        prefix, here and below, is what stands before the module's names in the state.
        """
        return self._add("state_dict_pre", hook)

    def register_state_dict_post_hook(self, hook: Callable) -> Hook:
        """hook(module, state_dict, prefix, local_metadata) after state_dict, which it may change.

        local_metadata, here and below, is an empty dict: versions of layers are not kept.
        """
        return self._add("state_dict_post", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> Hook:
        """hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs) before load_state_dict, of this module or one above it.

        state_dict is a shallow copy of the given one, in which it may rename and add paths. Entries
        that it adds to the lists count as found.
        """
        return self._add("load_state_dict_pre", hook)

    def register_load_state_dict_post_hook(self, hook: Callable) -> Hook:
        """hook(module, incompatible_keys) after load_state_dict.

        It may strike paths from incompatible_keys.missing_keys and .unexpected_keys, which then
        are no error.
        """
        return self._add("load_state_dict_post", hook)

    def _add(self, kind: str, fn: Callable, prepend: bool = False, *how: bool) -> Hook:
        hook = Hook(self, kind, fn, *how)
        self._hooks = (hook, *self._hooks) if prepend else (*self._hooks, hook)
        return hook


def call_with_hooks(module: Any, *args: Any, **kwargs: Any) -> Any:
    """module.forward(*args, **kwargs) with the module's hooks around it."""
    waiting = [hook for hook in module._hooks if hook.kind == "forward"]
    try:
        return _call(module, waiting, args, kwargs)
    except Exception:
        for hook in [hook for hook in waiting if hook.always_call]:
            try:
                _call_after(hook, module, args, kwargs, None)
            except Exception as error:
                warnings.warn(
                    f"a forward hook of {type(module).__name__}, called since its forward raised, "
                    f"raised {error!r}; the error of the forward follows",
                    stacklevel=2,
                )
        raise


def _call(module: Any, after: list[Hook], args: tuple, kwargs: dict) -> Any:
    """The call with its hooks; those after the forward leave the list `after` as they run."""
    hooks = module._hooks
    for hook in [h for h in hooks if h.kind == "forward_pre"]:
        if hook.with_kwargs:
            given = hook.fn(module, args, kwargs)
            if given is not None and not (isinstance(given, tuple) and len(given) == 2):
                raise HookError(
                    f"a forward pre hook of {type(module).__name__}, registered with_kwargs, "
                    f"returned {given!r}; it returns None, or the tuple (args, kwargs)"
                )
            args, kwargs = (args, kwargs) if given is None else given
        else:
            given = hook.fn(module, args)
            args = args if given is None else given if isinstance(given, tuple) else (given,)
    around = _Backward(module) if any(h.kind.startswith("backward") for h in hooks) else None
    if around:
        args = around.enter(args)
    result = module.forward(*args, **kwargs)
    while after:
        given = _call_after(after.pop(0), module, args, kwargs, result)
        result = result if given is None else given
    return around.leave(result) if around else result


def _call_after(hook: Hook, module: Any, args: tuple, kwargs: dict, result: Any) -> Any:
    seen = (args, kwargs, result) if hook.with_kwargs else (args, result)
    return hook.fn(module, *seen)


class _Backward:
    """The backward hooks of one call of a module."""

    def __init__(self, module: Any):
        self.module = module
        self.grad_output: tuple | None = None  # of the backward that is between results and inputs
        self.inputs = 0  # how many positional arguments
        self.tracked: list[int] = []  # which of them are tensors that need a gradient

    def hooks(self, kind: str) -> list[Callable]:
        return [hook.fn for hook in self.module._hooks if hook.kind == kind]

    def enter(self, args: tuple) -> tuple:
        """The arguments behind an identity whose node calls the full backward hooks."""
        args, self.tracked, node = _through_identity(args)
        self.inputs = len(args)
        if node is not None:
            node.register_hook(lambda grads, _: self.inputs_ready(grads))
        return args

    def leave(self, result: Any) -> Any:
        """The result behind an identity whose node calls the pre hooks."""
        several = isinstance(result, tuple | list)
        values, tracked, node = _through_identity(tuple(result) if several else (result,))
        if node is not None:
            node.register_hook(lambda grads, _: self.outputs_ready(grads, len(values), tracked))
        if not several:
            return values[0]
        return type(result)(*values) if hasattr(result, "_fields") else type(result)(values)

    def outputs_ready(self, grads: tuple, count: int, tracked: list[int]) -> tuple:
        full = _spread(grads, count, tracked)
        for fn in self.hooks("backward_pre"):
            full = self._chosen(fn(self.module, full), full, "results")
        self.grad_output = full
        if not self.tracked:  # no input needs a gradient: nothing more will come
            self.grad_output = None
            for fn in self.hooks("backward"):
                fn(self.module, (None,) * self.inputs, full)
        return tuple([full[i] for i in tracked])

    def inputs_ready(self, grads: tuple) -> tuple:
        grad_output, self.grad_output = self.grad_output, None
        if grad_output is None:  # it has not come through the results, as in a double backward
            return grads
        full = _spread(grads, self.inputs, self.tracked)
        for fn in self.hooks("backward"):
            full = self._chosen(fn(self.module, full, grad_output), full, "inputs")
        return tuple([full[i] for i in self.tracked])

    def _chosen(self, given: Any, full: tuple, of: str) -> tuple:
        """The gradients that a hook has returned, one for each; those there were, if it did not."""
        if given is None:
            return full
        given = given if isinstance(given, tuple) else (given,)
        if len(given) != len(full):
            raise HookError(
                f"a backward hook of {type(self.module).__name__} returned {len(given)} gradients "
                f"for {len(full)} {of}; it must return None, or a tuple with one for each (None "
                "for an input without a gradient)"
            )
        return given


def _spread(grads: tuple, count: int, places: list[int]) -> tuple:
    full: list = [None] * count
    for place, g in zip(places, grads, strict=True):
        full[place] = g
    return tuple(full)


def _through_identity(values: tuple) -> tuple[tuple, list[int], Any]:
    """(values, places of those that need a gradient, the node these now come from or None)"""
    places = [i for i, x in enumerate(values) if isinstance(x, Tensor) and x.requires_grad]
    if not places:
        return values, places, None
    passed = _identity(len(places))(*[values[i] for i in places])
    behind = dict(zip(places, passed, strict=True))
    node = passed[0].grad_fn
    if node is None:  # under no_grad
        return values, [], None
    return tuple([behind.get(i, x) for i, x in enumerate(values)]), places, node


@cached("module boundaries", max_entries=64)
def _identity(count: int) -> Primitive:
    """(x₁ … xₙ) ↦ (x₁ … xₙ), one node for all."""
    identity = Primitive(lambda *xs: xs, "module", ["xs"], outputs=count, variadic=True)
    identity.vjp(lambda g: g)
    return identity
