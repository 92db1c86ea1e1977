"""What this thread asks of every op: record or not, inside which transforms, in which scope.

`active` is the one word an op reads. It counts the reasons, over all threads, to look closer: a
thread that left the default modes, a transform that runs, a listener. While it is 0 an op takes
the plain path; else it asks its own thread's `state`. A module global costs 3 ns to read, a
thread-local 29, so the common case pays the former only.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

active = 0
_lock = threading.Lock()


def add_reason(count: int = 1) -> None:
    """Count one more (or, with −1, one less) reason for ops to take the careful path."""
    global active
    with _lock:
        active += count


class _State(threading.local):
    recording = True  # False under no_grad
    inference = False  # True under inference_mode: recording cannot be switched on
    anomaly: Any = None  # what detect_anomaly looks for
    saving: Any = None  # who takes over what nodes save (saved_tensors_hooks, checkpoint)
    level = 0  # how many function transforms this thread is inside
    scope = ""  # "model/conv1" while a listener wants scopes


state = _State()


class _RecordingMode:
    """Base of no_grad and enable_grad: a context manager and a decorator, safe to nest."""

    recording: bool

    def __init__(self) -> None:
        self._previous: list[bool] = []

    def __enter__(self) -> "_RecordingMode":
        if self.recording and state.inference:
            raise RuntimeError(
                "inside inference_mode nothing can be recorded: no enable_grad, create_graph or "
                "mg.func transform. Leave inference_mode first, or use no_grad in its place."
            )
        self._previous.append(state.recording)
        state.recording = self.recording
        add_reason()
        return self

    def __exit__(self, *exc: object) -> None:
        add_reason(-1)
        state.recording = self._previous.pop()

    def __call__(self, fn: Callable) -> Callable:
        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)():
                return fn(*args, **kwargs)

        return wrapped


class no_grad(_RecordingMode):
    """Inside, results do not require gradients and nothing is saved. Also a decorator."""

    recording = False


class inference_mode(no_grad):
    """no_grad that nothing inside can lift: a model that records for itself is an error here."""

    def __enter__(self) -> "inference_mode":
        super().__enter__()
        self._previous.append(state.inference)
        state.inference = True
        return self

    def __exit__(self, *exc: object) -> None:
        state.inference = self._previous.pop()
        super().__exit__(*exc)


class enable_grad(_RecordingMode):
    """Inside, ops are recorded again, also within `no_grad`. Also a decorator."""

    recording = True


class set_grad_enabled(_RecordingMode):
    """`enable_grad` or `no_grad`, chosen by a value."""

    def __init__(self, mode: bool):
        super().__init__()
        self.recording = bool(mode)

    def __call__(self, fn: Callable) -> Callable:
        return (enable_grad if self.recording else no_grad)()(fn)


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside inference_mode."""
    return state.inference


def is_grad_enabled() -> bool:
    """Whether this thread records ops now."""
    return state.recording
