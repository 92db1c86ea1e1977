"""The modes of a thread: whether ops are recorded, inside which transforms, in which scope.

`active` is the one global an op reads. It counts, over all threads, the reasons to look closer: a
thread that left the default modes, a transform that runs, a listener. While it is 0 an op takes
the plain path; else it reads its own thread's `state`. A module global costs 3 ns to read, a
thread-local 29, so the common case pays the former only.

Ctrl-C may arrive wherever a function begins and behind each call. So a block sets its mode last
when it is entered, and puts the old one back first when it is left: an interrupt then leaves at
worst one reason too many, which costs time and changes nothing. The old values are put back by
`own |= {…}` on the thread's own dict, which calls nothing; `state.set({})` brings `plain` up to
date. One that comes as __enter__ returns or __exit__ begins is backends/leaving.py's to answer.
"""

import functools
import inspect
import warnings
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ..backends.leaving import left_always
from ..backends.locks import Lock
from ..backends.threads import Local, identity

active = 0
checked = 0  # of the reasons, those that look at every op of every thread (sessions, determinism)
levels = 0  # of the reasons, the transforms that run
_lock = Lock()


def add_check(count: int = 1) -> None:
    """Count one more (or, with −1, one less) reason to look at every op, whatever its thread."""
    global checked
    with _lock:
        checked += count
    add_reason(count)


def add_level(count: int = 1) -> None:
    """Count one more (or, with −1, one less) transform that runs."""
    global levels
    with _lock:
        levels += count
    add_reason(count)


def add_reason(count: int = 1) -> None:
    """Count one more (or, with −1, one less) reason for ops to take the careful path."""
    global active
    with _lock:
        active += count


class _State(Local):
    recording: bool = True  # False under no_grad
    switched_off: bool = False  # True from a plain call set_grad_enabled(False) to its counterpart
    inference: bool = False  # True under inference_mode: recording cannot be switched on
    anomaly: Any = None  # the detect_anomaly that this thread is inside
    saving: tuple = ()  # the Savers (saved-tensor hooks, checkpoints) in force, innermost last
    no_hooks: str | None = None  # in disable_saved_tensors_hooks: what its error says
    tapes: tuple = ()  # the tapes that record, innermost last
    session: Any = None  # the session that new leaves join
    autocast: Any = None  # the autocast that casts the arguments of ops
    level: int = 0  # how many function transforms this thread is inside
    constant_below: int = 0  # the level of a transform under no_grad; lower ones are constant
    randomness: Any = None  # the innermost vmap's policy for random draws
    muted: bool = False  # True inside a Function's forward: listeners hear of the Function alone
    scope: str = ""  # such as "model/conv1", while a listener asks for scopes
    # What an op reads: recording; None while a transform, autocast, Saver or tape is on, and where
    # ops are recorded and muted at once. So what is recorded by a plain or watched call is heard.
    plain: bool | None = True

    def __init__(self) -> None:  # in each thread
        self.__dict__.update({name: getattr(_State, name) for name in _NAMES})
        self.__dict__["thread"] = identity()

    def __setattr__(self, name: str, value: Any) -> None:
        self.set({name: value})

    def set(self, values: dict[str, Any]) -> None:
        """Set attributes and update `plain`, so that an op reads this one thread-local only.

        Nothing is called between the first and the last, so no interrupt comes between them.
        """
        own = self.__dict__
        own |= values
        recording = own["recording"]
        special = own["autocast"] is not None or own["level"] or own["saving"] or own["tapes"]
        own["plain"] = None if special or (recording and own["muted"]) else recording

    def all(self) -> dict[str, Any]:
        """Every attribute, as `set` takes them."""
        own = self.__dict__
        return {name: own[name] for name in _NAMES}


_NAMES = tuple(_State.__annotations__)
state = _State()


def records(level: int) -> bool:
    """Whether an op of this level (0: outside all transforms) is recorded now."""
    return state.recording and level >= state.constant_below


class Outer(dict):
    """The settings that a context manager restores at the end of each block it is in.

    One stack per thread, since several threads may be inside blocks of one object. A dict by thread
    id, because a threading.local takes twelve times as long to make.
    """

    @property
    def stack(self) -> list[Any]:
        """This thread's stack."""
        return self.setdefault(state.thread, [])

    @property
    def depth(self) -> int:
        """How many blocks this thread is in."""
        return len(self.get(state.thread, ())) if self else 0

    def enter(self, values: dict[str, Any]) -> None:
        """Set these attributes of the thread's state, all at once, until `leave`."""
        own = state.__dict__
        outer = {name: own[name] for name in values}
        outer["plain"] = None  # until `leave` has set it: an op then looks at the others
        self.setdefault(own["thread"], []).append(outer)
        state.set(values)

    def leave(self) -> None:
        """Set the attributes to what they were, before anything is called; then `plain`."""
        own = state.__dict__
        stack = self[own["thread"]]
        own |= stack[-1]
        state.set({})
        stack.pop()


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


class _RecordingMode(metaclass=CalledFirst):
    """Base of no_grad and enable_grad: a context manager and a decorator, safe to nest."""

    recording: bool

    def __new__(cls, mode: Any = None) -> Any:
        return cls()(mode) if callable(mode) else object.__new__(cls)  # @no_grad is @no_grad()

    def __init__(self) -> None:
        self._outer = Outer()

    def __enter__(self) -> "_RecordingMode":
        values = self._inside()
        add_reason()
        self._outer.enter(values)
        return self

    @left_always(attrgetter("_outer.depth"))
    def __exit__(self, *exc: object) -> None:
        self._outer.leave()
        add_reason(-1)

    def _inside(self) -> dict[str, Any]:
        """What is set inside."""
        if self.recording:
            refuse_inside_inference(True)
        return {"recording": self.recording}

    def __call__(self, fn: Callable) -> Callable:
        return decorated(fn, type(self))


def refuse_inside_inference(recording: bool) -> None:
    """RuntimeError where recording is to be switched on inside inference_mode."""
    if recording and state.inference:
        raise RuntimeError(
            "inside inference_mode nothing can be recorded: no enable_grad, create_graph or "
            "mg.func transform. Leave inference_mode first, or use no_grad in its place."
        )


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

    A decorated generator runs in the mode; what its caller does between steps does not. The mode
    belongs to the thread, and so to all its asyncio tasks: do not `await` inside the block, or
    another task runs in the mode, and two blocks that overlap may leave it on after both.
    """

    recording = False


def inside_forward(forward: Callable, *args: Any) -> Any:
    """forward(*args) of a Function: its ops are neither recorded nor reported to listeners."""
    global active
    own, plain = state.__dict__, state.plain
    outer = {"recording": state.recording, "muted": state.muted, "plain": plain}
    with _lock:
        active += 1
    try:
        try:
            own |= {"recording": False, "muted": True, "plain": None if plain is None else False}
            return forward(*args)
        finally:
            own |= outer
    finally:
        own |= outer  # again: an interrupt may have come before the first
        add_reason(-1)


def on_symbols(fn: Callable, *args: Any) -> Any:
    """fn(*args), whose ops compute nothing (fusion records them): no listener, tape, Saver or
    anomaly mode is told of symbols, which are no arrays.
    """
    own = state.__dict__
    inside = {"muted": True, "tapes": (), "saving": (), "anomaly": None}
    outer = {name: getattr(state, name) for name in (*inside, "plain")}
    try:
        state.set(inside)
        return fn(*args)
    finally:
        own |= outer


class inference_mode(no_grad):
    """no_grad that enable_grad cannot lift: switching recording on inside is an error.

    Only `inference_mode(False)` lifts it: inside that, ops are recorded again.
    """

    def __init__(self, mode: bool = True):
        super().__init__()
        self.inference, self.recording = bool(mode), not mode

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
        super().__init__()
        self.recording = bool(mode)
        refuse_inside_inference(self.recording)
        self._before: bool | None = state.recording
        _record_from_here_on(self.recording)

    def __enter__(self) -> "_RecordingMode":
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
    """Set this thread's mode outside any block; one reason for the careful path while it is off."""
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
