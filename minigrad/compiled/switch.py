"""mg.accelerate: compiled loops for large work on the host, and the process tuned for it."""

from operator import attrgetter
from types import TracebackType

from ..backends import heap, pool
from ..backends.leaving import ended_by, left_always
from ..backends.optional import optional
from ..instrument.variables import complain, switch

_on = False  # compiled loops
_tuned = False  # the process


class accelerate:
    """Run large elementwise ops, rows, norms and images as loops compiled by numba, and tune the
    process for large arrays.

        mg.accelerate()                 # from here on; mg.accelerate(False) switches it off
        with mg.accelerate():           # inside only
        mg.accelerate(compiled=False)   # only the process; needs no numba
        mg.accelerate(process=False)    # only compiled loops

    mode       whether it is on from here on
    compiled   whether the switch applies to compiled loops; False: their state does not change
    process    whether the switch applies to the process; False: its state does not change

    The switch holds for the whole process, with all threads. Results agree with NumPy's to
    rounding, and do not depend on the number of threads. A kernel is compiled at the first call
    that needs it (some tenths of a second), and kept. Loops take contiguous float32 and float64
    arrays; everything else runs as without them. ImportError if numba is missing.

    The process: the C library (glibc) keeps up to 256 MB of freed arrays for the next ones, in
    large pages. Threads that share an op keep to different processors during the op. No result
    changes. Switching off undoes all of it, with one exception: glibc's thresholds return to their
    former values, but no longer adapt to the program's arrays.
    """

    is_entered = False

    def __init__(self, mode: bool = True, *, compiled: bool = True, process: bool = True):
        self._before = _on, _tuned
        _switch(bool(mode) if compiled else _on, bool(mode) if process else _tuned)

    def __enter__(self) -> "accelerate":
        self.is_entered = True
        return self

    @left_always(attrgetter("is_entered"))
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _switch(*self._before)
        self.is_entered = False


def is_accelerated() -> bool:
    """Whether mg.accelerate has switched compiled loops on (mg.show_versions shows the rest)."""
    return _on


def _switch(compiled: bool, process: bool) -> None:
    global _on, _tuned
    if compiled and not _on and optional("numba") is None:
        raise ImportError(
            "mg.accelerate compiles with numba, which is not installed: "
            "pip install '/path/to/the/checkout[fast]'; "
            "mg.accelerate(compiled=False) tunes only the process"
        )
    if compiled != _on:
        from . import install

        with ended_by(lambda: _on or install.uninstall()):  # also after Ctrl-C
            _on = False
            if compiled:
                install.install()
                _on = True
    if process != _tuned:
        with ended_by(lambda: _tuned or _tune_no_more()):
            _tuned = False
            if process:
                _tune()
                _tuned = True


def _tune() -> None:
    heap.keep_freed_arrays()
    pool.keep_apart(True)


def _tune_no_more() -> None:
    heap.give_back()
    pool.keep_apart(False)


def from_environment() -> None:
    """MINIGRAD_ACCELERATE=1 switches both on, =process or =compiled one of the two. If that fails,
    one line on stderr says so.
    """
    said = switch("MINIGRAD_ACCELERATE", "process", "compiled")
    if not said:
        return
    try:
        _switch(said != "process", said != "compiled")
    except ImportError as error:
        complain(f"MINIGRAD_ACCELERATE is ignored: {error}")
