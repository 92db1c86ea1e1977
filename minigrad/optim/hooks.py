"""Hooks of optimizers: functions called around a step, and around saving and loading the state."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from ..engine import modes
from ..nn.hooks import Hook


class OptimizerHooks:
    """Base of Optimizer: what may be hooked. Names and calls are PyTorch's.

    Hooks run in the order of their registration; with prepend=True one runs before those that are
    there. Copies of an optimizer have none.
    """

    _hooks: tuple[Hook, ...] = ()
    _running: frozenset[str] = frozenset()  # the hooked methods that it is in
    begun = False  # whether a step was taken, or a saved state loaded: a schedule's turn may come

    def register_step_pre_hook(self, hook: Callable) -> Hook:
        """hook(optimizer, args, kwargs) before a step; it may return other (args, kwargs).

        args begins with the optimizer, as it does in PyTorch.
        """
        return self._add("step_pre", hook)

    def register_step_post_hook(self, hook: Callable) -> Hook:
        """hook(optimizer, args, kwargs) after a step."""
        return self._add("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> Hook:
        """hook(optimizer) before state_dict."""
        return self._add("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> Hook:
        """hook(optimizer, state_dict) after state_dict; it may return another one."""
        return self._add("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> Hook:
        """hook(optimizer, state_dict) before load_state_dict; it may return another one.

        state_dict is a shallow copy of what was given.
        """
        return self._add("load_state_dict_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> Hook:
        """hook(optimizer) after load_state_dict."""
        return self._add("load_state_dict_post", hook, prepend)

    def _add(self, kind: str, fn: Callable, prepend: bool = False) -> Hook:
        hook = Hook(self, kind, fn)
        self._hooks = (hook, *self._hooks) if prepend else (*self._hooks, hook)
        return hook

    def _fns(self, kind: str) -> list[Callable]:
        return [hook.fn for hook in self._hooks if hook.kind == kind]


def hooked(method: Callable) -> Callable:
    """step, state_dict or load_state_dict, with the hooks of its name around it.

    Where one calls its base's, the hooks run around the outer alone.
    """
    name = method.__name__
    around = {"step": _step, "state_dict": _save, "load_state_dict": _load}[name]

    @wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if name != "state_dict":
            self.begun = True
        if modes.state.pending is not None:
            modes.state.pending.end(f"an optimizer's {name}")
        if not self._hooks or name in self._running:
            return method(self, *args, **kwargs)
        self._running |= {name}
        try:
            return around(method, self, *args, **kwargs)
        finally:
            self._running -= {name}

    return run


def _step(step: Callable, *args: Any, **kwargs: Any) -> Any:
    optimizer = args[0]
    for fn in optimizer._fns("step_pre"):
        given = fn(optimizer, args, kwargs)
        if given is None:
            continue
        if not isinstance(given, tuple) or len(given) != 2:
            raise RuntimeError(
                f"{type(optimizer).__name__}: a step pre hook returned {given!r}; it returns None "
                "or (args, kwargs), where args begins with the optimizer"
            )
        args, kwargs = given
    result = step(*args, **kwargs)
    for fn in optimizer._fns("step_post"):
        fn(optimizer, args, kwargs)
    return result


def _save(save: Callable, optimizer: Any) -> dict[str, Any]:
    for fn in optimizer._fns("state_dict_pre"):
        fn(optimizer)
    state = save(optimizer)
    for fn in optimizer._fns("state_dict_post"):
        given = fn(optimizer, state)
        state = state if given is None else given
    return state


def _load(load: Callable, optimizer: Any, state_dict: Mapping[str, Any]) -> None:
    state = dict(state_dict) if isinstance(state_dict, Mapping) else state_dict  # refused by load
    for fn in optimizer._fns("load_state_dict_pre"):
        given = fn(optimizer, state)
        state = state if given is None else given
    load(optimizer, state)
    for fn in optimizer._fns("load_state_dict_post"):
        fn(optimizer)
