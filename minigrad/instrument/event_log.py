"""The event log: every op of a run, one line each, in the `minigrad.events` format.

    with mg.event_log("run.jsonl"):
        train()

then `minigrad-profile view run.jsonl`. The file grows as "run.jsonl.partial" and takes its name
when it is complete, also when the program ends with an exception.
"""

import contextlib
import os
import sys
import threading
import time
from time import perf_counter_ns
from types import CodeType
from typing import Any

from ..core import events
from ..core.events import capture_origin
from . import formats
from .formats import cotangents_of, json_text

_BATCH = 2048  # events kept before they are written
_MOST_NAMES = 50_000  # definitions remembered; forgotten ones are defined again when they return
MAX_EVENTS = 10_000_000


class event_log:
    """Record every event into a file while entered. Memory stays bounded, whatever the run.

    path        where the finished log will be
    max_events  further events are counted as dropped, not recorded
    min_us      shorter events are counted as dropped too
                (the one event for each whole backward is always kept)

    A file that cannot be opened is an OSError; one that cannot be written further (a full disk)
    ends the recording with one line on stderr, not the program.
    """

    def __init__(self, path: str | os.PathLike, max_events: int = MAX_EVENTS, min_us: float = 0.0):
        self.path = os.fspath(path)
        self.max_events = int(max_events)
        self.min_ns = int(min_us * 1000)
        self.dropped = 0
        self._written = 0
        self._lock = threading.Lock()
        self._drop_lock = threading.RLock()  # a signal handler may run ops while we hold it
        self._pending: list[tuple] = []
        self._names: dict[Any, int] = {}
        self._next_name = 0
        self._passes: dict[int, list[int]] = {}  # thread -> when its backwards began
        self._file: Any = None

    def __enter__(self) -> "event_log":
        if self._file is not None:
            raise RuntimeError("this event log is open already; make another with mg.event_log()")
        self._partial = f"{self.path}.partial"
        self._file = open(self._partial, "w", encoding="utf-8")
        header = formats.header(formats.EVENTS) | {
            "pid": os.getpid(),
            "base_ns": perf_counter_ns(),
            "base_unix_ns": time.time_ns(),
            "min_ns": self.min_ns,
            "max_events": self.max_events,
        }
        self._file.write(json_text(header) + "\n")
        events.listen(self, origin=True)
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop recording and give the file its name. A second call does nothing."""
        events.unlisten(self)
        with self._lock:
            self._flush()
            file, self._file = self._file, None
            if file is None:
                return
            end = {"kind": "end", "events": self._written, "dropped": self.dropped}
            with self._guarded():
                with file:
                    file.write(json_text(end) + "\n")
                os.replace(self._partial, self.path)

    @property
    def events(self) -> int:
        """How many events have been recorded."""
        return self._written + len(self._pending)

    # -- listening -------------------------------------------------------------------------------

    def hear(self, event: tuple) -> None:
        kind, op, t0, t1, node, inputs, outputs = event
        pending = self._pending
        if t1 - t0 < self.min_ns or self._written + len(pending) >= self.max_events:
            with self._drop_lock:
                self.dropped += 1
            return
        if kind == "backward":
            inputs = cotangents_of(inputs[0])
        origin = node.origin if node is not None else capture_origin()
        pending.append(
            (
                kind,
                op,
                t0,
                t1,
                threading.get_ident(),
                None if node is None else node.number,
                tuple([_array(x) for x in inputs]),
                tuple([_array(y) for y in outputs]),
                origin,
            )
        )
        if len(pending) >= _BATCH and self._lock.acquire(blocking=False):
            try:
                self._flush()
            finally:
                self._lock.release()

    def graph_ready(self, order: list, roots: list) -> None:
        self._passes.setdefault(threading.get_ident(), []).append(perf_counter_ns())

    def graph_done(self, error: BaseException | None) -> None:
        """One event for the whole backward, around those of its nodes."""
        thread = threading.get_ident()
        if not self._passes.get(thread):
            return
        t0 = self._passes[thread].pop()
        op = "backward" if error is None else f"backward ({type(error).__name__})"
        self._pending.append(
            ("pass", op, t0, perf_counter_ns(), thread, None, (), (), capture_origin())
        )

    # -- writing ---------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Write what is pending; others may append meanwhile, behind what is taken."""
        batch = self._pending[:]
        del self._pending[: len(batch)]
        if self._file is None:
            return
        lines: list[str] = []
        try:
            for entry in batch:
                self._write_event(entry, lines)
            with self._guarded():
                self._file.write("".join(lines))
                self._written += len(batch)
        except BaseException:  # Ctrl-C in the middle: what it cost is counted, and names that
            self.dropped += len(batch)  # may not have reached the file are defined again
            self._names.clear()
            raise

    def _write_event(self, entry: tuple, lines: list[str]) -> None:
        kind, op, t0, t1, thread, seq, inputs, outputs, origin = entry
        text = (
            f'{{"kind":"{kind}","op":{json_text(op)},"t0":{t0},"t1":{t1},'
            f'"thread":{self._number(("thread", thread), lines)},'
            f'"seq":{"null" if seq is None else seq}'
        )
        if inputs or outputs:
            text += f',"arrays":{self._number(("arrays", inputs, outputs), lines)}'
        if origin is not None:
            code, instruction, scope = origin[:3]
            if scope:
                text += f',"scope":{self._number(("scope", scope), lines)}'
            text += f',"site":{self._site(code, instruction, lines)}'
        lines.append(text + "}\n")

    def _site(self, code: CodeType, instruction: int, lines: list[str]) -> int:
        """The number of a source line, which is looked up once for each instruction on it."""
        number = self._names.get((code, instruction))
        if number is None:
            site = events.site_of((code, instruction, "")) or {}
            number = self._number(("site", *site.values()), lines)
            self._names[code, instruction] = number
        return number

    def _number(self, name: tuple, lines: list[str]) -> int:
        """The number that stands for a site, scope, thread or signature, defined when it is new."""
        number = self._names.get(name)
        if number is None:
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            number = self._names[name] = self._next_name
            self._next_name += 1
            what = {"kind": "define", "what": name[0], "id": number}
            lines.append(json_text(what | _definition(*name)) + "\n")
        return number

    @contextlib.contextmanager
    def _guarded(self) -> Any:
        """A write that fails ends the recording, not the user's program."""
        try:
            yield
        except OSError as error:
            self._file = None
            events.unlisten(self)
            print(f"minigrad: the event log {self.path} ends: {error}", file=sys.stderr)


def _array(x: Any) -> tuple | None:
    """(shape, dtype, bytes) of an array or tensor; None for a number or a missing one."""
    try:
        return x.shape, x.dtype, x.nbytes
    except AttributeError:
        return None


def _definition(what: str, *content: Any) -> dict[str, Any]:
    if what == "arrays":
        return {"inputs": _described(content[0]), "outputs": _described(content[1])}
    if what == "site":
        return dict(zip(("file", "line", "function"), content, strict=True))
    if what == "thread":
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        return {"name": names.get(content[0], f"thread {content[0]}")}
    return {"name": content[0]}


def _described(arrays: tuple) -> list[dict[str, Any]]:
    return [
        {"shape": list(shape), "dtype": str(dtype), "bytes": nbytes}
        for shape, dtype, nbytes in filter(None, arrays)
    ]
