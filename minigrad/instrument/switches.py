"""The effects of the environment switches (see environment.py for the list)."""

import atexit
import os
import sys
from typing import Any

from ..backends.device import DeviceError, require_gpu
from . import formats
from .graph_dump import no_graph_file
from .outputs import FROM_LOG, SUFFIXES, format_of
from .profile import profile
from .recorder import record_backward
from .schedule import OptimizerSteps, Schedule, schedule_from
from .variables import complain, complain_of_misspelt, number, switch


def start_switches() -> None:
    """Start the listeners that the environment asks for."""
    complain_of_misspelt()
    graph_out = _of_this_process(os.environ.get("MINIGRAD_GRAPH_OUT", ""))
    if said := no_graph_file(graph_out):
        complain(f"MINIGRAD_GRAPH_OUT is ignored: {said}")
    elif graph_out:
        check = switch("MINIGRAD_GRAPH_CHECK")
        _GraphWriter(graph_out, bool(check)).__enter__()
    elif switch("MINIGRAD_GRAPH_CHECK"):
        complain("MINIGRAD_GRAPH_CHECK=1 needs a file: set MINIGRAD_GRAPH_OUT")
    every = number("MINIGRAD_PROFILE_EVERY", int, 1, "a number of ops, 1 or more")
    out = _of_this_process(os.environ.get("MINIGRAD_PROFILE_OUT", "")) or None
    wanted = _formats(os.environ.get("MINIGRAD_PROFILE_FORMAT", ""))
    memory, sync = switch("MINIGRAD_PROFILE_MEMORY"), switch("MINIGRAD_PROFILE_SYNC")
    sections = switch("MINIGRAD_PROFILE_SECTIONS")
    stack = number("MINIGRAD_PROFILE_STACK", int, 0, "a number of frames, from 0 on") or 0
    by_default = (
        every is not None or out is not None or bool(wanted or memory or sections or sync or stack)
    )
    on = switch("MINIGRAD_PROFILE")
    if not (by_default if on is None else on):
        return
    wanted = wanted or [format_of(out)]
    if out is None and any(name in FROM_LOG for name in wanted):
        complain(
            f"MINIGRAD_PROFILE_FORMAT={','.join(wanted)} needs a file: set MINIGRAD_PROFILE_OUT"
        )
        wanted = [name for name in wanted if name not in FROM_LOG] or ["table"]
    schedule = _schedule(os.environ.get("MINIGRAD_PROFILE_SCHEDULE", ""))
    shortest = number("MINIGRAD_PROFILE_MIN_US", float, 0.0, "a number of microseconds", 1e15)
    prof = profile(
        memory=bool(memory),
        sections=bool(sections),
        sync=bool(sync),
        device=_device_times(),
        stack=stack,
        schedule=schedule,
        every=every,
        out=out,
        format=wanted,
        min_us=shortest or 0.0,
        max_events=number("MINIGRAD_PROFILE_MAX_EVENTS", int, 0, "a number of events, 0 or more"),
    )
    prof.__enter__()
    if schedule is not None:
        OptimizerSteps(prof.step)
    atexit.register(prof.__exit__)


def _of_this_process(path: str) -> str:
    """The path; with the process's number in its name where multiprocessing has started it.

    Such a process has the variables of its parent, and would write over the parent's files.
    """
    started = sys.modules.get("multiprocessing.process")
    if started is None or started.current_process().name == "MainProcess" or not path:
        return path
    if os.path.exists(path) and not os.path.isfile(path):  # such as /dev/stderr
        return path
    folder, name = os.path.split(path)
    stem, dot, endings = name[1:].partition(".")
    return os.path.join(folder, f"{name[:1]}{stem}.process-{os.getpid()}{dot}{endings}")


def _schedule(text: str) -> Schedule | None:
    try:
        return schedule_from(text) if text else None
    except ValueError as error:
        complain(f"MINIGRAD_PROFILE_SCHEDULE is ignored: {error}")
        return None


def _device_times() -> bool:
    """Whether device times are asked for, and there is a device."""
    wanted = bool(switch("MINIGRAD_PROFILE_DEVICE"))
    try:
        return wanted and require_gpu("MINIGRAD_PROFILE_DEVICE") is not None
    except DeviceError as error:
        complain(f"{error}; the profile goes without")
        return False


def _formats(text: str) -> list[str]:
    """The known ones of a comma-separated list."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in SUFFIXES:
            complain(
                f"MINIGRAD_PROFILE_FORMAT: {name!r} is ignored; there are {', '.join(SUFFIXES)}"
            )
    return list(dict.fromkeys(name for name in names if name in SUFFIXES))


# -- graphs ----------------------------------------------------------------------------------------


class _GraphWriter(record_backward):
    """Writes the graph of every backward to a file; never breaks the program it watches."""

    def __init__(self, path: str, check: bool = False):
        super().__init__(check=check)
        self._path = os.path.abspath(path)  # the program may go elsewhere
        self._process = os.getpid()
        self._number = 0
        self._complained = False

    def graph_ready(self, order: list, roots: list) -> None:
        self._never_fail(super().graph_ready, order, roots)

    def hear(self, event: tuple) -> None:
        self._never_fail(super().hear, event)

    def done(self, graph: dict[str, Any]) -> None:
        if os.getpid() != self._process:  # a forked child, whose numbers are its parent's too
            return
        self._number += 1
        path = self._path.replace("{n}", str(self._number))
        self._never_fail(lambda: formats.write_whole(path, formats.json_text(graph)))

    def _never_fail(self, fn: Any, *args: Any) -> None:
        try:
            fn(*args)
        except Exception as error:
            if not self._complained:
                complain(f"MINIGRAD_GRAPH_OUT: the graph could not be written: {error}")
            self._complained = True
