"""no_grad and its kin: whether ops are recorded, for a block, a function, or from here on."""

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..engine import modes
from ..engine.modes import Recording, add_reason, refuse_inside_inference, state


class CalledFirst(type):
    """Metaclass of context managers without arguments: `with mg.no_grad:` says what () it lacks."""

    if not TYPE_CHECKING:  # a type checker finds the mistake itself

        def __enter__(cls) -> None:
            raise TypeError(
                f"`with {cls.__name__}:` names the class, and a block is entered by an object of "
                f"it; write `with {cls.__name__}():`"
            )

        def __exit__(cls, *exc: object) -> None:
            """Never called; Python checks that it exists before it calls __enter__."""


class _RecordingMode(Recording, metaclass=CalledFirst):
    """Base of no_grad and enable_grad: a context manager and a decorator, safe to nest."""

    def __new__(cls, mode: Any = None) -> Any:
        return cls()(mode) if callable(mode) else object.__new__(cls)  # @no_grad is @no_grad()

    def __call__(self, fn: Callable) -> Callable:
        return decorated(fn, type(self))


_OF_A_CLASS = (
    "{0} is a class: of it only __init__ runs in the mode, not its methods. Decorate those that "
    "should, one by one"
)


def decorated(fn: Callable, mode: Callable) -> Callable:
    """fn with each call inside a new mode(); of a generator, each of its steps."""
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise TypeError(
            f"{fn.__qualname__} is async: other tasks of this thread run while it waits, and would "
            "run in its mode. Write the `with` around the parts that do not await"
        )
    if inspect.isclass(fn):
        warnings.warn(_OF_A_CLASS.format(fn.__qualname__), stacklevel=3)
        fn.__init__ = decorated(fn.__init__, mode)  # type: ignore[misc]
        return fn

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with mode():
            return fn(*args, **kwargs)

    @functools.wraps(fn)
    def stepped(*args: Any, **kwargs: Any) -> Any:
        with mode():
            generator = fn(*args, **kwargs)
        return (yield from _each_step(generator, mode))

    return stepped if inspect.isgeneratorfunction(fn) else wrapped


def _each_step(generator: Any, mode: Callable) -> Any:
    """The generator, with the mode on while it runs and off while its caller does."""
    step, given = generator.send, None
    try:
        while True:
            try:
                with mode():
                    y = step(given)
            except StopIteration as stop:
                return stop.value
            try:
                step, given = generator.send, (yield y)
            except GeneratorExit:
                raise
            except BaseException as error:  # thrown in by the user
                step, given = generator.throw, error
    finally:
        with mode():
            generator.close()


class no_grad(_RecordingMode):
    """Inside, results do not require gradients and nothing is saved. Also a decorator.

    A decorated generator runs in the mode; its caller's code between steps does not. The mode
    belongs to the thread, and so to all its asyncio tasks. Do not `await` inside the block: another
    task would run in the mode, and two overlapping blocks may leave it on after both.
    """

    recording = False


def inside_forward(forward: Callable, *args: Any) -> Any:
    """forward(*args) of a Function: its ops are neither recorded nor reported to listeners."""
    own, plain = state.__dict__, state.plain
    outer = {"recording": state.recording, "muted": state.muted, "plain": plain}
    with modes._lock:
        modes.active += 1
    try:
        try:
            own |= {"recording": False, "muted": True, "plain": None if plain is None else False}
            return forward(*args)
        finally:
            own |= outer
    finally:
        own |= outer  # again: an interrupt may have come before the first
        add_reason(-1)


class inference_mode(no_grad):
    """no_grad that enable_grad cannot lift: switching recording on inside is an error.

    Only `inference_mode(False)` lifts it: inside that, ops are recorded again.
    """

    def __init__(self, mode: bool = True):
        Recording.__init__(self, not mode)
        self.inference = bool(mode)

    def _inside(self) -> dict[str, Any]:
        return {"recording": self.recording, "inference": self.inference}

    def __call__(self, fn: Callable) -> Callable:
        return decorated(fn, lambda: inference_mode(self.inference))


class enable_grad(_RecordingMode):
    """Inside, ops are recorded again, also within `no_grad`. Also a decorator."""

    recording = True


class set_grad_enabled(_RecordingMode):
    """`enable_grad` or `no_grad`, chosen by a value: for a block, a function, or from here on.

    As a plain call it holds for this thread until the next one, or until the block around it ends.
    """

    def __init__(self, mode: bool):
        super().__init__(bool(mode))
        refuse_inside_inference(self.recording)
        self._before: bool | None = state.recording
        _record_from_here_on(self.recording)

    def __enter__(self) -> Recording:
        self._for_a_block()
        return super().__enter__()

    def __call__(self, fn: Callable) -> Callable:
        self._for_a_block()
        return decorated(fn, enable_grad if self.recording else no_grad)

    def _for_a_block(self) -> None:
        """Undo what the plain call did: this one is for a block or a function."""
        if self._before is not None:
            _record_from_here_on(self._before)
            self._before = None


def _record_from_here_on(recording: bool) -> None:
    """Set this thread's mode outside any block; one reason for the slow path while it is off."""
    state.recording = recording
    if recording == state.switched_off:
        state.switched_off = not recording
        add_reason(-1 if recording else 1)


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside inference_mode."""
    return state.inference


def is_grad_enabled() -> bool:
    """Whether this thread records ops now."""
    return state.recording
