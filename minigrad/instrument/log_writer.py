"""The pending events of an event log, and its file."""

import contextlib
from collections.abc import Callable, Iterator
from time import perf_counter_ns, thread_time_ns

from ..backends.locks import Lock
from .calls import FIELDS
from .formats import json_text
from .log_lines import Lines
from .variables import complain
from .writing import GrowingFile

BATCH = 128  # events kept before they are written: few, to stay in the processor's cache


class LogWriter:
    """Gathers events and other entries of a log, and writes them in batches.

    events     FIELDS values each (calls.py); others: entries of Lines.write_others
    written    events in the file; marks: marks there; dropped: what was left out
    spent      nanoseconds of the processor that writing took
    failed     a write did not go well: the file may end in the middle
    place      the file that holds what was written
    """

    def __init__(self, path: str, max_events: int, min_ns: int):
        self.path = self.place = path
        self.max_events, self.min_ns = max_events, min_ns
        self.lines = Lines()
        self.events: list = []
        self.others: list[tuple] = []
        self.written = self.marks = self.dropped = self.spent = 0
        self.failed = False
        self.file: GrowingFile | None = None
        self._before_end: int | None = None  # bytes before the last line, once that is written
        self.lock, self._flushing = Lock(), False
        self._drop_lock = Lock()  # a signal handler may run ops while we hold it
        self.taken: Callable[[], list[tuple]] = list  # more entries, as each batch is written
        self.on_failure: Callable[[], None] = lambda: None

    @property
    def recorded(self) -> int:
        """Events written, and those that will be."""
        waiting = self.events[::FIELDS] if not self.min_ns else self._long_ones(self.events)[0]
        return min(self.written + len(waiting), self.max_events)

    def open(self, header: dict) -> None:
        """Make the file, with its first lines."""
        self.file, self._before_end = GrowingFile(self.path), None
        self.place = self.file.place
        self.file.write(json_text(header) + "\n" + self.lines.first_thread())

    def rename(self, path: str) -> None:
        """Let the file take another name when it is whole."""
        self.path = path
        if self.file is not None:
            self.file.rename(path)

    def discard(self) -> None:
        """Leave no file."""
        file, self.file = self.file, None
        if file is not None:
            file.discard()

    def leave(self) -> None:
        """In a forked child: write nothing, the file is the parent's."""
        self.lock, self._drop_lock = Lock(), Lock()  # a thread had them
        file, self.file = self.file, None
        if file is not None:
            file.leave()

    def add(self, entry: tuple, counted: bool = True) -> None:
        """A mark: there may be as many as events; counted: one left out counts as dropped."""
        if self.marks + len(self.others) >= self.max_events:
            self.drop(counted)
            return
        self.others.append(entry)
        if len(self.others) >= BATCH:
            self.flush_if_free()

    def drop(self, count: int) -> None:
        """Count what is left out."""
        with self._drop_lock:
            self.dropped += count

    def flush_if_free(self) -> None:
        """Write what waits, unless that is being done."""
        if not self._flushing:  # in another thread, or below: a signal handler may run ops
            with self.lock:
                self.flush()

    def flush(self) -> None:
        """Write the pending entries; other threads may append behind them at the same time."""
        began, used = perf_counter_ns(), thread_time_ns()
        self.others += self.taken()
        events, others = self.events[:], self.others[:]
        del self.events[: len(events)], self.others[: len(others)]
        if self.file is None:
            return
        lines: list[str] = []
        given = False
        count = len(events) // FIELDS
        try:
            self._flushing = True
            events, left_out = self._fitting(events)
            self.lines.write_events(events, lines)
            self.lines.write_others(others, lines)
            text, marks = "".join(lines), sum(entry[0] == "mark" for entry in others)
            with self.guarded():
                given = True  # from here on, Ctrl-C leaves the text to what closes the file
                self.written += count - left_out
                self.marks += marks
                self.drop(left_out)
                self.file.write(text)
        except BaseException:  # Ctrl-C in the middle: its cost is counted, and names that
            if not given:  # may not have reached the file are defined again
                self.dropped += count
            self.lines.forget()
            raise
        finally:
            self._flushing = False
            self.spent += thread_time_ns() - used
            now = perf_counter_ns()
            here = self.lines.threads.here()
            self.others.append(("mark", "recording", "log", began, now, here, None))

    def _fitting(self, events: list) -> tuple[list, int]:
        """Those events that are long enough, as many as there is room for; how many are not."""
        count, left_out = len(events) // FIELDS, 0
        if self.min_ns:
            events, left_out = self._long_ones(events)
        room = self.max_events - self.written
        if count - left_out > room:
            events, left_out = events[: FIELDS * room], count - room
        return events, left_out

    def _long_ones(self, events: list) -> tuple[list, int]:
        """The events that last long enough (whole backwards always do); how many do not."""
        found: list = []
        for at in range(0, len(events), FIELDS):
            call, t0, t1, _ = event = events[at : at + FIELDS]
            if t1 - t0 >= self.min_ns or call.kind == "pass":
                found += event
        return found, (len(events) - len(found)) // FIELDS

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """A write that fails ends the recording, not the user's program."""
        try:
            yield
        except OSError as error:
            self.file, self.failed = None, True
            self.on_failure()
            reason = error.strerror or error
            complain(f"the event log {self.path} ends: {reason}; {self.place} holds what there was")

    def end(self, told: dict) -> None:
        """Write the last line and give the file its name; call it again after Ctrl-C."""
        file = self.file
        if file is None:
            return
        text = json_text(told) + "\n"
        with self.guarded():
            if self._before_end is None:
                self._before_end = file.size()
            if file.size() == self._before_end:  # Ctrl-C may have come before or behind the line
                file.write(text)
            file.finish()
            self.place = file.place
        self.file = None
