"""The switch for results that repeat bit for bit.

On the CPU every op repeats, at the same number of BLAS threads: sums run in a fixed order. On a GPU
a few ops add by atomics or scan in an order that changes from run to run. While the switch is on
they take an ordered form, slower, or raise where there is none.
"""

import warnings
from contextlib import ContextDecorator
from functools import partial
from operator import attrgetter, is_not
from typing import Any, NamedTuple

from ..backends.device import device_of
from ..backends.leaving import left_always
from ..backends.locks import Lock
from ..engine import modes
from ..engine.graph import raw
from ..errors import DeterminismError

__all__ = [
    "are_deterministic_algorithms_enabled", "deterministic", "nondeterministic_ops",
    "use_deterministic_algorithms",
]  # fmt: skip

required = False  # whether the switch is on; for the whole process
_warn_only = False
_settings = [[False, False]]  # mode, warn_only: of the process, then of each block that is open
_lock = Lock()


class Nondeterministic(NamedTuple):
    """An op whose result may differ from run to run.

    device   where
    reason   why
    form     "ordered": with the switch on it adds in order; "raises": it is a DeterminismError
    """

    op: str
    device: str
    reason: str
    form: str


_ADDS = "adds by atomics, in no fixed order"
_SCANS = "scans in an order that depends on timing"
_LISTED = (
    Nondeterministic("getitem_dx", "cuda", _ADDS, "ordered"),
    Nondeterministic("take_dx", "cuda", _ADDS, "ordered"),
    Nondeterministic("add_along_axis", "cuda", _ADDS, "ordered"),
    Nondeterministic("bin_sums", "cuda", _ADDS, "ordered"),
    Nondeterministic("attention_grads", "cuda", _ADDS, "ordered"),
    Nondeterministic("cumsum", "cuda", _SCANS, "raises"),
    Nondeterministic("cumprod", "cuda", _SCANS, "raises"),
)
_RAISES = {entry.op: entry for entry in _LISTED if entry.form == "raises"}


def nondeterministic_ops() -> list[Nondeterministic]:
    """The ops that may not repeat bit for bit, where, why, and what the switch does to them.

    getitem_dx is the gradient of x[index], take_dx of take and embedding. add_along_axis is the
    gradient of gather, and computes scatter_add, index_add and index_put. bin_sums is bincount and
    histogram with weights. attention_grads is the gradient of attention, by atomics for 16-bit
    floats alone.
    """
    return list(_LISTED)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Switch on or off, for the process; warn_only: warn in place of a DeterminismError."""
    with _lock:
        _settings[-1][:] = bool(mode), bool(warn_only)
        _put_in_force()


def _put_in_force() -> None:
    """Let the last of the settings hold. Under the lock."""
    global required, _warn_only
    mode, _warn_only = _settings[-1]
    if mode and not required:  # Ctrl-C in between leaves a reason too many, not one too few
        modes.add_check(1)
        required = True
    elif required and not mode:
        required = False
        modes.add_check(-1)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether use_deterministic_algorithms is on."""
    return required


class deterministic(ContextDecorator):
    """`with mg.deterministic():` the switch on inside, as before afterwards; also a decorator.

    The switch is the process's: of blocks in several threads the one entered last holds for all.
    """

    def __init__(self, mode: bool = True, *, warn_only: bool = False):
        self.mode, self.warn_only = bool(mode), bool(warn_only)
        self._own = modes.Outer()

    def _recreate_cm(self) -> "deterministic":
        return deterministic(self.mode, warn_only=self.warn_only)  # for a call of what it decorates

    def __enter__(self) -> None:
        own = [self.mode, self.warn_only]
        self._own.stack.append(own)
        with _lock:
            _settings.append(own)
            _put_in_force()

    @left_always(attrgetter("_own.depth"))
    def __exit__(self, *exc: object) -> None:
        own = self._own.stack[-1]
        with _lock:  # its own, which is not the last where threads leave in another order
            _settings[:] = filter(partial(is_not, own), _settings)
            _put_in_force()
        self._own.stack.pop()


def refuse(op: Any, args: tuple) -> None:
    """Called for each op while the switch is on: an error for one without an ordered form."""
    entry = _RAISES.get(op.name)
    if entry is None:
        return
    device = next((device_of(raw(x)) for x in args if hasattr(x, "dtype")), "cpu")
    if device == "cpu":
        return
    text = (
        f"{op.name} on {device} {entry.reason}, and has no ordered form. Compute it on the CPU "
        "(x.to('cpu')), or switch off with mg.use_deterministic_algorithms(False)"
    )
    if not _warn_only:
        raise DeterminismError(text, op=op.name, device=device)
    warnings.warn(text, stacklevel=4)
