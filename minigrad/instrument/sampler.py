"""Samples: where each thread is, looked up a few hundred times a second while a log is recorded.

Ops tell their own times. Ops say nothing about the program between them (its Python, reading data,
imports). So a separate thread looks at the others' frames. A sample counts for the time since the
one before it. That includes C code which held the interpreter in between.

A sample is ("sample", t, thread, sites, doing, via, inside):

    sites   (code, instruction) of the user's frames, innermost first: neither ours, nor NumPy's,
            nor those of the standard library and of installed packages
    doing   "import", "data" (a DataLoader makes or awaits a batch), "library" (Python of a package
            or of ours that the user's line has called), "python" (the line itself), or "op"
            (of one forward call every few ms, for who called it; `via` is the op)
    via     the name of the function, or module, that the user's line has called; or ""
    inside  how many of the frames a DataLoader has called
"""

import contextlib
import gc
import os
import sys
import sysconfig
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from types import CodeType, FrameType
from typing import Any

from ..backends.sites import calling_frames, outermost
from ..backends.threads import identity

PERIOD_MS = 5.0
_SOON = 0.002  # s between the first looks: a run of a tenth of a second needs some, too
_FIRST = 50  # how many these are
_LONG_COLLECTION = 1_000_000  # ns of a garbage collection that is told
# Seconds until a thread that runs Python gives way: the least. With 5 ms, as Python has it, and
# even with 0.1 ms, samples are taken where a thread lets others run by itself, as NumPy does while
# it copies or fills, not where it spends its time.
_SWITCH = 1e-6
_ENDS = 1.0  # s in which the thread ends, if Ctrl-C has not come before it began
_DEEPEST = 40  # frames of the user's in a sample
_MOST_CODES = 100_000  # code objects whose kind is remembered
_OURS = ("minigrad", "minigrad_profiler", "minigrad_viz")
_LOADING = ("minigrad.data.loader", "minigrad.data.workers")  # load_digits() is none

USER, LIBRARY, OURS, DATA, IMPORT = range(5)


class Sampler:
    """Calls tell(sample) from a separate thread, from `start` to `stop`.

    number_of  the number of a thread in the log, by its identity
    spent      nanoseconds of the processor that its thread took: waking it costs more than looking
    due        set at each look: the next forward call is to tell its callers
    """

    def __init__(
        self,
        tell: Callable[[tuple], Any],
        number_of: Callable[[int], int],
        period_ms: float = PERIOD_MS,
    ) -> None:
        self.tell, self.number_of = tell, number_of
        self.period = period_ms / 1000
        self.spent = self.taken = 0
        self.due = False
        self._interval = sys.getswitchinterval()
        self._collects = 0
        self._kinds: dict[int, tuple[CodeType, int]] = {}  # by id: a code's hash is slow
        # Locks of C: Ctrl-C inside those of `threading`, which are Python, can leave them broken.
        self._stop: Any = None  # held while the thread is to look
        self._ended: Any = None  # held until it has ended
        self._own = 0  # the thread's identity
        self._looked = 0  # when it last began to look

    def start(self) -> None:
        """Begin to look, unless it does already or never should."""
        if self._stop is not None or not self.period:
            return
        stop, ended = allocate_lock(), allocate_lock()
        stop.acquire()
        ended.acquire()
        self._interval = sys.getswitchinterval()
        self._stop, self._ended = stop, ended
        sys.setswitchinterval(min(self._interval, _SWITCH))
        gc.callbacks.append(self._collecting)
        start_new_thread(self._run, (stop, ended))

    def stop(self) -> None:
        """Look no more; the thread has ended when this returns."""
        stop, ended = self._stop, self._ended
        if stop is None:
            return
        try:
            if stop.locked():  # not so where Ctrl-C came in an earlier call
                stop.release()
            ended.acquire(timeout=_ENDS)
        finally:
            if stop.locked():
                stop.release()
            self._restore()
            self._stop = self._ended = (
                None  # last: where Ctrl-C came before, a further call goes on
            )

    def leave(self) -> None:
        """In a forked child, which has no such thread."""
        if self._stop is not None:
            self._restore()
        self._stop = self._ended = None

    def _restore(self) -> None:
        if sys.getswitchinterval() == min(self._interval, _SWITCH):
            sys.setswitchinterval(self._interval)
        with contextlib.suppress(ValueError):
            gc.callbacks.remove(self._collecting)

    def _collecting(self, phase: str, info: dict[str, int]) -> None:
        """The garbage collector begins or ends, in the thread that it interrupts."""
        now = perf_counter_ns()
        if phase == "start":
            self._collects = now
        elif now - self._collects > _LONG_COLLECTION:
            own = identity() == self._own  # then all others wait for it
            thread = 0 if own else self.number_of(identity())
            name = f"generation {info.get('generation', 0)}"
            self.tell(("mark", "gc", name, self._collects, now, thread, None))

    def _run(self, stop: Any, ended: Any) -> None:
        self._own = identity()
        try:
            looks = used = 0
            while not stop.acquire(timeout=self._pause(looks)):
                self._look(perf_counter_ns(), self._own)
                used, before = thread_time_ns(), used
                self.spent += used - before
                looks += 1
        except Exception:  # showing a program must never end it
            return
        finally:
            ended.release()

    def _pause(self, looks: int) -> float:
        return min(_SOON, self.period) if looks < _FIRST else self.period

    def called(self, op: str, t: int, thread: int) -> None:
        """A forward call that was due: tell its callers."""
        self.due = False
        frames = tuple(calling_frames(_DEEPEST))
        if frames:
            self.tell(("sample", t, thread, frames, "op", op, 0))

    def freed(self) -> int:
        """When memory that is given back now was let go.

        A frame that is looked at keeps its arrays, even if its function has returned. Objects that
        this thread frees, the program has let go since the look began.
        """
        return self._looked if get_ident() == self._own else perf_counter_ns()

    def _look(self, t: int, own: int) -> None:
        """Look at all other threads, without a garbage collection at the same time.

        To look at a frame makes an object of it. Python 3.11 crashes where that begins a collection
        in which another thread goes on, and ends the frame.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            self._look_at_threads(t, own)
        finally:
            if collects:
                gc.enable()

    def _look_at_threads(self, t: int, own: int) -> None:
        self.due, self._looked = True, t
        for ident, frame in sys._current_frames().items():
            if ident != own:
                found = self.described(frame)
                if found is not None:
                    self.taken += 1
                    self.tell(("sample", t, self.number_of(ident), *found))

    def described(self, frame: FrameType | None) -> tuple | None:
        """(sites, doing, via, inside) of a thread's frames; None where none is the user's."""
        sites: list[tuple[CodeType, int]] = []
        below: FrameType | None = None  # the last frame that is not the user's, before one that is
        doing, via, inside = "python", "", 0
        imported = ""
        while frame is not None and len(sites) < _DEEPEST and id(frame.f_code) not in outermost:
            kind = self._kind(frame)
            if kind == USER:
                if not sites and below is not None and doing != "import":
                    doing = "library" if doing == "python" else doing
                    via = _called(below)
                sites.append((frame.f_code, frame.f_lasti))
            elif kind == IMPORT:
                if not _is_the_program(frame, sites):
                    imported = _module_of(frame) or imported
                    doing, via, inside = "import", imported, 0
                    sites.clear()
            elif kind == DATA and doing != "import":
                doing, inside = "data", len(sites)
            below = frame
            frame = frame.f_back
        return (tuple(sites), doing, via, inside) if sites else None

    def _kind(self, frame: FrameType) -> int:
        code = frame.f_code
        known = self._kinds.get(id(code))
        if known is None:
            if len(self._kinds) >= _MOST_CODES:
                self._kinds.clear()
            module = frame.f_globals.get("__name__")
            known = self._kinds[id(code)] = code, kind_of(code.co_filename, str(module))
        return known[1]


def kind_of(file: str, module: str) -> int:
    """Whose code this is: one of USER, LIBRARY, OURS, DATA and IMPORT."""
    root = module.partition(".")[0]
    if root in _OURS:
        return DATA if module in _LOADING else OURS
    if file.startswith("<frozen importlib"):
        return IMPORT
    if file.startswith("<frozen ") or root == "numpy" or _is_installed(file):
        return LIBRARY
    if root.startswith("namedtuple_"):  # what makes one: Python has written it
        return LIBRARY
    return USER


def _is_installed(file: str) -> bool:
    """Whether a file belongs to the standard library or an installed package."""
    return file.startswith(_INSTALLED) or any(f"{os.sep}{name}{os.sep}" in file for name in _SITES)


_SITES = ("site-packages", "dist-packages")
_PATHS = sysconfig.get_paths()
_INSTALLED = tuple(
    {os.path.join(_PATHS[name], "") for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def _is_the_program(frame: FrameType, sites: list) -> bool:
    """Whether a top-level import runs the program itself: a main module that imports the rest."""
    calls = [code for code, _ in sites if code.co_name != "<module>"]
    importer = frame.f_back
    while importer is not None and importer.f_code.co_filename.startswith("<frozen importlib"):
        importer = importer.f_back
    top = importer is not None and importer.f_globals.get("__name__") == "__main__"
    return bool(calls) and top and importer is not None and importer.f_code.co_name == "<module>"


def _module_of(frame: FrameType) -> str:
    """The name of the module that a frame of importlib is looking for, if that one knows."""
    if frame.f_code.co_name != "_find_and_load":
        return ""
    name = frame.f_locals.get("name")
    return name if isinstance(name, str) else ""


def _called(frame: FrameType) -> str:
    """module.function of a frame, as a reader would write it."""
    module = str(frame.f_globals.get("__name__", ""))
    name = frame.f_code.co_qualname
    root = module.partition(".")[0]
    if "<locals>" in name:
        return root if root in _OURS else ""
    return f"{root}.{name}"
