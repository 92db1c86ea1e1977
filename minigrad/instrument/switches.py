"""What the environment switches start (see environment.py for the list)."""

import atexit
import os
import sys
import tempfile
from typing import Any, TextIO

from . import formats
from .event_log import MAX_EVENTS, event_log
from .graph_dump import record_backward
from .profile import profile
from .table import show
from .variables import complain, number, switch

SUFFIXES = {
    "table": ".txt",
    "json": ".json",
    "events": ".jsonl",
    "chrome": ".trace.json",
    "speedscope": ".speedscope.json",
}
_FROM_LOG = ("events", "chrome", "speedscope")


def start_switches() -> None:
    """Start the listeners that the environment asks for."""
    if os.environ.get("MINIGRAD_GRAPH_OUT"):
        _GraphWriter(os.environ["MINIGRAD_GRAPH_OUT"]).__enter__()
    every = number("MINIGRAD_PROFILE_EVERY", int, 1, "a whole number of ops, from 1 on")
    out = os.environ.get("MINIGRAD_PROFILE_OUT") or None
    wanted = _formats(os.environ.get("MINIGRAD_PROFILE_FORMAT", ""), out)
    wanted_by_default = every is not None or out is not None or bool(wanted)
    on = switch("MINIGRAD_PROFILE")
    if not (wanted_by_default if on is None else on):
        return
    wanted = wanted or [_format_of(out)]
    if out is None and any(name in _FROM_LOG for name in wanted):
        complain(
            f"MINIGRAD_PROFILE_FORMAT={','.join(wanted)} needs a file: set MINIGRAD_PROFILE_OUT"
        )
        wanted = [name for name in wanted if name not in _FROM_LOG] or ["table"]
    _start_profile([name for name in wanted if name not in _FROM_LOG], out, every, len(wanted) > 1)
    _start_log([name for name in wanted if name in _FROM_LOG], out, len(wanted) > 1)


def _formats(text: str, out: str | None) -> list[str]:
    """The known ones of a comma-separated list."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in SUFFIXES:
            complain(
                f"MINIGRAD_PROFILE_FORMAT: {name!r} is ignored; there are {', '.join(SUFFIXES)}"
            )
    return list(dict.fromkeys(name for name in names if name in SUFFIXES))


def _format_of(out: str | None) -> str:
    """The format that a file's ending means; the longest ending that fits."""
    fitting = [name for name, suffix in SUFFIXES.items() if out and out.endswith(suffix)]
    return max(fitting, key=lambda name: len(SUFFIXES[name]), default="table")


def _path_for(name: str, out: str, several: bool) -> str:
    """Where one of several formats goes: the path with the format's own ending."""
    return os.path.splitext(out)[0] + SUFFIXES[name] if several else out


# -- the table and its JSON ------------------------------------------------------------------------


class _PeriodicProfile(profile):
    """Reports and starts again after every `every` ops."""

    def __init__(self, every: int, report: "_Report"):
        super().__init__()
        self._every = every
        self._report = report
        self._count = 0

    def hear(self, event: tuple) -> None:
        super().hear(event)
        self._count += 1
        if self._count >= self._every:
            self._count = 0
            self._report.write(self)
            self.reset()


class _Report:
    """Writes the tables of a profile where the environment wants them."""

    def __init__(self, wanted: list[str], out: str | None, several: bool):
        self.wanted, self.out, self.several = wanted, out, several
        self.process = os.getpid()
        self.number = 0
        self.complained = False

    def write(self, prof: profile) -> None:
        """One report; what cannot be written is said once and lost."""
        self.number += 1
        for name in self.wanted:
            text = prof.json() if name == "json" else prof.table()
            try:
                if self.out is None:
                    _print(text, name, sys.stderr)
                else:
                    path = _path_for(name, self.out, self.several)
                    formats.write_whole(path.replace("{n}", str(self.number)), text + "\n")
            except (OSError, ValueError) as error:
                if not self.complained:
                    complain(f"the profile could not be written: {error}")
                self.complained = True

    def last(self, prof: profile) -> None:
        """The report at the end of the program, unless a forked child ends."""
        if os.getpid() == self.process and (prof.rows() or not self.number):
            self.write(prof)


def _print(text: str, name: str, stream: TextIO | None) -> None:
    if stream is None:
        return
    if name == "table":
        show(text, stream)
    else:
        print(text, file=stream, flush=True)


def _start_profile(wanted: list[str], out: str | None, every: int | None, several: bool) -> None:
    if wanted:
        report = _Report(wanted, out, several)
        prof = _PeriodicProfile(every, report) if every else profile()
        prof.__enter__()
        atexit.register(report.last, prof)


# -- event logs and what is made of them -----------------------------------------------------------


def _start_log(wanted: list[str], out: str | None, several: bool) -> None:
    if not wanted or out is None:
        return
    min_us = number("MINIGRAD_PROFILE_MIN_US", float, 0.0, "a number of microseconds")
    most = number("MINIGRAD_PROFILE_MAX_EVENTS", int, 0, "a whole number of events")
    kept = "events" in wanted
    try:
        path = _path_for("events", out, several) if kept else _beside(out)
        log = event_log(path, MAX_EVENTS if most is None else most, min_us or 0.0)
        log.__enter__()
    except OSError as error:
        complain(f"the event log could not be written: {error}")
        return
    converted = {name: _path_for(name, out, several) for name in wanted if name != "events"}
    atexit.register(_finish_log, log, converted, kept, os.getpid())


def _beside(out: str) -> str:
    """A new file in the folder of `out`."""
    handle, path = tempfile.mkstemp(suffix=".jsonl", dir=os.path.dirname(out) or ".")
    os.close(handle)
    return path


def _finish_log(log: event_log, converted: dict[str, str], kept: bool, process: int) -> None:
    if os.getpid() != process:
        return
    from .chrome import write_chrome
    from .speedscope import write_speedscope

    log.close()
    write: dict[str, Any] = {"chrome": write_chrome, "speedscope": write_speedscope}
    for name, path in converted.items():
        try:
            write[name](log.path, path)
        except (OSError, ValueError) as error:
            complain(f"the {name} file could not be written: {error}")
    if not kept:
        os.unlink(log.path)


# -- graphs ----------------------------------------------------------------------------------------


class _GraphWriter(record_backward):
    """Writes the graph of every backward to a file; never breaks the program it watches."""

    def __init__(self, path: str):
        super().__init__()
        self._path = path
        self._number = 0
        self._complained = False

    def graph_ready(self, order: list, roots: list) -> None:
        self._never_fail(super().graph_ready, order, roots)

    def hear(self, event: tuple) -> None:
        self._never_fail(super().hear, event)

    def done(self, graph: dict[str, Any]) -> None:
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
