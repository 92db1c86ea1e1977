"""The modes of a thread: whether ops are recorded, inside which transforms, in which scope.

`active` is the one global an op reads. It counts, over all threads, the reasons to look closer: a
thread that left the default modes, a transform that runs, a listener. While it is 0 an op takes
the plain path; else it reads its own thread's `state`. Reading a module global costs far less than
reading a thread-local, and the common case pays for the former only.

Ctrl-C may arrive wherever a function begins and behind each call. So a block sets its mode last
when it is entered, and restores the old one first when it is left. At worst an interrupt then
leaves one reason too many, which costs time and changes nothing. The old values are put back by
`own |= {…}` on the thread's own dict, which calls nothing; `state.set({})` brings `plain` up to
date. One that comes as __enter__ returns or __exit__ begins is backends/leaving.py's to answer.
"""

from operator import attrgetter
from typing import Any

from ..backends.leaving import left_always
from ..backends.locks import Lock
from ..backends.threads import Local, identity

active = 0
checked = 0  # of the reasons, those that look at every op of every thread (sessions, determinism)
levels = 0  # of the reasons, the transforms that run
listening = 0  # of the reasons, the listeners; if they are all, each thread is in the default modes
_lock = Lock()


def add_check(count: int = 1) -> None:
    """Count one more (or, with −1, one less) reason to look at every op, in all threads."""
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
    """Count one more (or, with −1, one less) reason for ops to take the slow path."""
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
    pending: Any = None  # the call of a compiled function whose ops are awaited
    scope: str = ""  # such as "model/conv1", while a listener asks for scopes
    # What an op reads: recording; None while a transform, autocast, Saver or tape is on, and where
    # ops are recorded and muted at once. So what is recorded by a fast or instrumented call is
    # heard.
    plain: bool | None = True

    def __init__(self) -> None:  # in each thread
        self.__dict__.update({name: getattr(_State, name) for name in _NAMES})
        self.__dict__["thread"] = identity()

    def __setattr__(self, name: str, value: Any) -> None:
        self.set({name: value})

    def set(self, values: dict[str, Any]) -> None:
        """Set attributes and update `plain`, the one thread-local that an op reads.

        Nothing is called between the first and the last, so no interrupt comes between them.
        """
        own = self.__dict__
        own |= values
        recording = own["recording"]
        special = own["autocast"] is not None or own["level"] or own["saving"] or own["tapes"]
        special = special or own["pending"] is not None
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


class Recording:
    """`with Recording(False):` no op of this thread is recorded inside; safe to nest."""

    recording: bool  # what a subclass has for all its objects

    def __init__(self, recording: bool | None = None):
        if recording is not None:
            self.recording = recording
        self._outer = Outer()

    def __enter__(self) -> "Recording":
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


def refuse_inside_inference(recording: bool) -> None:
    """RuntimeError where recording is to be switched on inside inference_mode."""
    if recording and state.inference:
        raise RuntimeError(
            "inside inference_mode nothing can be recorded: no enable_grad, create_graph or "
            "mg.func transform. Leave inference_mode first, or use no_grad in its place."
        )
