"""The files of a profile: which formats are wanted, where they go, and writing them at its end.

A table and its JSON come from the profile's own numbers; the other formats are made of an event log
that runs at the same time.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from . import formats
from .event_log import event_log
from .table import show
from .variables import complain

SUFFIXES = {
    "table": ".txt",
    "json": ".json",
    "events": ".jsonl",
    "chrome": ".trace.json",
    "speedscope": ".speedscope.json",
    "folded": ".folded",
    "html": ".html",
}
FROM_LOG = ("events", "chrome", "speedscope", "folded", "html")


def names_of(given: str | Iterable[str] | None) -> list[str]:
    """The formats in "table,json" or a list; ValueError for one that there is not."""
    parts = given.split(",") if isinstance(given, str) else list(given or ())
    names = [name.strip().lower() for name in parts if name.strip()]
    for name in names:
        if name not in SUFFIXES:
            raise ValueError(f"format {name!r}: there are {', '.join(SUFFIXES)}")
    return list(dict.fromkeys(names))


def format_of(out: str | None) -> str:
    """The format that a file's ending means; the longest ending that fits."""
    fitting = [name for name, suffix in SUFFIXES.items() if out and out.endswith(suffix)]
    return max(fitting, key=lambda name: len(SUFFIXES[name]), default="table")


class Outputs:
    """Outputs of one profile. Problems with files are one line on stderr, never an exception."""

    def __init__(self, out: Any, format: Any, log_options: dict[str, Any]):
        self.out = None if out is None else os.path.abspath(out)  # the program may go elsewhere
        self.wanted = names_of(format) or [format_of(self.out)]
        if self.out is None and any(name in FROM_LOG for name in self.wanted):
            raise ValueError(f"format={','.join(self.wanted)} needs a file: give out=path too")
        self.several = len(self.wanted) > 1
        self.process = os.getpid()
        self.number = 0
        self._log_options = log_options
        self._log: event_log | None = None
        self._complained = False

    def start(self) -> None:
        """Open the event log, if one is needed."""
        if not any(name in FROM_LOG for name in self.wanted):
            return
        kept = "events" in self.wanted
        try:
            path = self._path("events") if kept else _beside(self.out or "")
            self._log = event_log(path, **self._log_options)
            self._log.__enter__()
        except OSError as error:
            self._log = None
            complain(f"the event log could not be written: {error}")

    def step(self) -> None:
        """Tell the log that a step has ended."""
        if self._log is not None:
            self._log.step()

    def report(self, prof: Any) -> None:
        """Write the table and its JSON, where they are wanted; nothing in a forked child."""
        if os.getpid() != self.process:
            return
        names = [name for name in self.wanted if name not in FROM_LOG]
        self.number += bool(names)
        for name in names:
            text = prof.json() if name == "json" else prof.table()
            try:
                if self.out is None:
                    _print(text, name, sys.stderr)
                else:
                    formats.write_whole(self._path(name), text + "\n")
            except (OSError, ValueError) as error:
                if not self._complained:
                    complain(f"the profile could not be written: {error}")
                self._complained = True

    def finish(self, prof: Any) -> None:
        """The last report, and what is made of the log; nothing in a forked child."""
        if os.getpid() != self.process:
            return
        if prof.rows() or not self.number:
            self.report(prof)
        log, self._log = self._log, None
        if log is None:
            return
        log.close()
        kept = "events" in self.wanted
        for name in self.wanted:
            if name in FROM_LOG and name != "events":
                try:
                    writer(name)(log.place, self._path(name))
                except (OSError, ValueError) as error:
                    complain(f"the {name} file could not be written: {error}")
                    if not kept:
                        complain(f"the events are kept in {log.place}")
                    kept = True
        if not kept:
            with contextlib.suppress(OSError):
                os.unlink(log.place)

    def _path(self, name: str) -> str:
        """Where one of several formats goes: the path with the format's own ending.

        {n} in it is the number of the table; of the log there is one, the first.
        """
        number = 1 if name in FROM_LOG else self.number
        out = (self.out or "").replace("{n}", str(number))
        if not self.several:
            return out
        own = next((s for s in sorted(SUFFIXES.values(), key=len)[::-1] if out.endswith(s)), "")
        return (out.removesuffix(own) if own else os.path.splitext(out)[0]) + SUFFIXES[name]


def writer(name: str) -> Callable[[str, str], Any]:
    """The function (log, out) that writes a format; ValueError where its tool is not installed."""
    if name == "chrome":
        from .chrome import write_chrome

        return write_chrome
    if name in ("speedscope", "folded"):
        from . import speedscope

        return speedscope.write_speedscope if name == "speedscope" else speedscope.write_folded
    try:
        return importlib.import_module("minigrad_profiler.report").write_report
    except (ImportError, AttributeError):
        raise ValueError(
            "the HTML report is part of the profiler tool: pip install "
            "'/path/to/the/checkout[profile]', or write events and use minigrad-profile view"
        ) from None


def _beside(out: str) -> str:
    """A new name in the folder of `out`."""
    folder, name = os.path.split(out)
    return os.path.join(folder, f"{name[:40]}.{os.urandom(4).hex()}.jsonl")


def _print(text: str, name: str, stream: TextIO | None) -> None:
    if stream is None:
        return
    if name == "table":
        show(text, stream)
    else:
        print(text, file=stream, flush=True)
