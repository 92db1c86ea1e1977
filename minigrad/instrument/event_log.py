"""The event log: every op of a run, one line each, in the `minigrad.events` format.

    with mg.event_log("run.jsonl"):
        train()

then `minigrad-profile view run.jsonl`. The file grows as "run.jsonl.partial" and takes its name
when it is complete, also when the program ends with an exception. What a killed program leaves
can be read up to the cut.
"""

import contextlib
import os
import sys
import time
import weakref
from time import perf_counter_ns
from typing import Any
from weakref import WeakSet

import numpy as np

from ..backends.leaving import left_always
from ..backends.locks import Lock
from ..engine import events, modes
from ..engine.events import capture_origin
from ..engine.graph import Leaf, Node
from ..ops import work
from ..tensor_api.tensor import Tensor
from . import conversions, formats
from . import sections as engine_sections
from .device_lines import DeviceLines
from .formats import cotangents_of, json_text
from .kept import KeptGraphs
from .log_lines import Lines
from .memory import MemoryTracker
from .options import count
from .sampler import PERIOD_MS, Sampler
from .schedule import schedule_of
from .variables import complain
from .wide import COMPLEX128, FLOAT64, WideSources, only_wide
from .writing import GrowingFile

_BATCH = 2048  # lines kept before they are written
MAX_EVENTS = 10_000_000
_FOLLOWED = 8  # nodes of a backward, to see whether it has kept its graph
_LONGEST_US = 1e15  # 30 years: what a clock's nanoseconds can tell


class event_log:
    """Record every event into a file while entered. Memory stays bounded, whatever the run.

    path        where the finished log will be
    max_events  further events are counted as dropped, not recorded
    min_us      shorter events are counted as dropped too
                (the one event for each whole backward is always kept)
    memory      also record which arrays live from when to when, and whose they are (memory.py)
    stack       how many frames of the caller's code to keep with each op; 0: the one line
    sync        wait for the device after each op, so that its time is its own (slow)
    device      also when each op began and ended on a GPU, by stream, without waiting for it
    schedule    (wait, warmup, active, repeat): which steps to record; call step() after each
    sections    the engine's own time in each call too, as marks: "mul: unwrap"
    sample_ms   how often to look at where each thread is, for the time outside of ops; 0: never

    A file that cannot be opened is an OSError; one that cannot be written further (a full disk)
    ends the recording with one line on stderr, not the program. `place` is the file, with its whole
    path, that holds what was written: that of `path` when the log is closed, if all went well.
    `failed` says that a write did not go well, so that the file may end in the middle.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        max_events: int = MAX_EVENTS,
        min_us: float = 0.0,
        memory: bool = False,
        stack: int = 0,
        sync: bool = False,
        schedule: Any = None,
        device: bool = False,
        sections: bool = False,
        sample_ms: float = PERIOD_MS,
    ):
        self.path = self.place = os.fspath(path)
        self.max_events = count("event_log", "max_events", max_events)
        if isinstance(min_us, str | None) or not 0 <= min_us < _LONGEST_US:
            raise ValueError(f"event_log: min_us should be microseconds from 0 on, got {min_us!r}")
        self.min_ns = int(min_us * 1000)
        self.stack, self.sync = count("event_log", "stack", stack), bool(sync)
        self.schedule = schedule_of(schedule)
        self.failed = False
        self.dropped = 0
        self.steps = 0  # ended so far
        self._written = 0
        self._marks = 0
        self._spent = 0  # nanoseconds that writing took
        self._lock, self._flushing = Lock(), False
        self._drop_lock = Lock()  # a signal handler may run ops while we hold it
        self._pending: list[tuple] = []
        self._others: list[tuple] = []  # marks and memory
        self._memory = MemoryTracker(self._others.append, self.max_events) if memory else None
        self._passes: dict[int, list[tuple]] = {}  # thread -> its running backwards
        self._file: Any = None
        self._ended = False  # its last line is written, or about to be
        self._lines = Lines()
        self._thread = self._lines.threads.here  # the number of the thread that calls it
        self._device = DeviceLines(self._thread) if device else None
        self._sections = sections
        self._listening = False
        self._phase = "active"
        if not 0 <= sample_ms < 60_000:
            raise ValueError(f"event_log: sample_ms should be milliseconds, got {sample_ms!r}")
        told = weakref.WeakMethod(self._sampled)  # no cycle: a dropped log is freed at once
        self._sampler = Sampler(
            lambda s: (tell := told()) and tell(s), self._lines.threads.number_of, sample_ms
        )
        self._kept = KeptGraphs(self._others.append)
        self._wide = WideSources()

    def __enter__(self) -> "event_log":
        if self._file is not None:
            raise RuntimeError("this event log is open already; make another with mg.event_log()")
        if self._device is not None:
            self._device.open()  # without a GPU that is an error, before there is a file
        try:
            self._begin()
        except BaseException:  # Ctrl-C, too: what was there stays, and nothing goes on recording
            self._unlisten()
            self._listening = False
            self._close_device()
            file, self._file = self._file, None
            if file is not None:
                file.discard()
            raise
        return self

    def _begin(self) -> None:
        """Open the file, write its first line, and listen."""
        self._file, self._ended = GrowingFile(self.path), False
        self.place = self._file.place
        _open.add(self)
        self._base = perf_counter_ns()
        header = formats.header(formats.EVENTS) | {
            "pid": os.getpid(),
            "program": os.path.basename(sys.argv[0]) if sys.argv else "",
            "base_ns": self._base,
            "base_unix_ns": time.time_ns(),
            "min_ns": self.min_ns,
            "max_events": self.max_events,
            "memory": self._memory is not None,
            "stack": self.stack,
            "sync": self.sync,
            "device_times": self._device is not None,
            "sample_ms": round(1000 * self._sampler.period, 3),
            "schedule": None if self.schedule is None else self.schedule._asdict(),
        }
        self._file.write(json_text(header) + "\n" + self._lines.first_thread())
        self._step_began = self._base
        self._enter_phase()

    @left_always(lambda block: block._file is not None)
    def __exit__(self, *exc: object) -> None:
        self.close()

    def step(self) -> None:
        """Say that a step of the program (of training) ends here, and the next one begins."""
        now = perf_counter_ns()
        if self._phase == "active" and self._file is not None:
            thread = self._thread()
            self._others.append(
                ("mark", "step", str(self.steps), self._step_began, now, thread, None)
            )
        self.steps += 1
        self._step_began = now
        self._enter_phase()

    def _enter_phase(self) -> None:
        """Listen or not, as the schedule says of the step that begins now."""
        self._phase = "active" if self.schedule is None else self.schedule.phase(self.steps)
        wanted = self._phase in ("warmup", "active") and self._file is not None
        if wanted and not self._listening:
            events.listen(self, origin=True, stack=self.stack, sync=self.sync)
            if self._sections:
                engine_sections.listen(self._section)
            conversions.listen(self._converted)
            self._sampler.start()
        elif not wanted and self._listening:
            self._unlisten()
        self._listening = wanted

    def _unlisten(self) -> None:
        self._sampler.stop()
        conversions.unlisten(self._converted)
        engine_sections.unlisten(self._section)
        events.unlisten(self)

    def close(self) -> None:
        """Stop recording and give the file its name. A second call does nothing."""
        hearing = 0.0
        try:
            self._unlisten()
            self._listening = False
            if self._memory is not None:
                self._memory.close()
            self._close_device()
            with self._lock:
                self._flush()
            hearing = _hearing_cost() if self._file is not None else 0.0
        finally:  # Ctrl-C meanwhile: the file is whole all the same
            try:
                self._finish(hearing)
            except BaseException:
                self._finish(hearing)
                raise
            finally:
                self._unlisten()  # in vain, unless it was interrupted above

    def _finish(self, hearing: float) -> None:
        """Write the last line; hearing: nanoseconds that an event cost before it was written."""
        with self._lock:
            file = self._file
            if file is None:
                return
            lost = 0 if self._memory is None else self._memory.lost
            end = {
                "kind": "end",
                "events": self._written,
                "dropped": self.dropped,
                "untracked": lost,
                "marks": self._marks,
                "steps": self.steps,
                "wall_ns": perf_counter_ns() - self._base,
                "writing_ns": self._spent,
                "hearing_ns": round(hearing * self._written),
                "recording_ns": self._spent + self._sampler.spent + round(hearing * self._written),
            }
            text = json_text(end) + "\n"
            with self._guarded():
                if not self._ended:
                    self._ended = True
                    file.write(text)
                file.finish()
                self.place = file.place
            self._file = None
        _open.discard(self)

    def _close_device(self) -> None:
        if self._device is not None and self._device.is_open:
            self._device.close()
            self._others += self._device.finish()

    @property
    def events(self) -> int:
        """How many events have been recorded."""
        return self._written + len(self._pending)

    # -- listening -------------------------------------------------------------------------------

    def hear(self, event: tuple) -> None:
        """Keep one event, as engine/events.py describes it, for the next batch of lines.

        Shapes and dtypes are taken at once, and text is made in the batch: the op waits for this.
        """
        kind, op, t0, t1, node, inputs, outputs, params = event
        pending = self._pending
        if self._phase == "warmup":
            return
        thread, seq, slots, came = self._thread(), None, (), None
        if node is not None:
            origin, seq = node.origin, node.number
        else:
            origin = capture_origin()
        if kind == "forward":
            if node is not None and self._kept.note(node):
                self._sampler.due = True
            dtype = getattr(outputs[0], "dtype", None) if outputs else None
            if (
                (dtype is FLOAT64 or dtype is COMPLEX128)
                and origin is not None
                and not (self._wide.alone and only_wide(node, inputs))
            ):
                came = self._wide.source(op, inputs, outputs, origin)
            if self._sampler.due:
                self._sampler.called(op, t1, thread)
                self._kept.forward_only(t1)
        if self._memory is not None:
            if kind == "forward":
                self._memory.forward(op, t1, node, inputs, outputs, (thread, origin))
            else:
                self._memory.backward(op, t1, node, inputs[0], outputs, (thread, origin))
        if self._device is not None:
            self._device.hear(kind, op, t0, t1, seq)
        if t1 - t0 < self.min_ns or self._written + len(pending) >= self.max_events:
            with self._drop_lock:
                self.dropped += 1
            return
        if kind == "backward" and node is not None:
            slots = tuple(node.plan.slots) or None
            inputs = cotangents_of(inputs[0])
        elif params:
            slots = tuple([(name, params.get(name)) for name in work.needed_params(op)])
        pending.append(
            (
                kind,
                op,
                t0,
                t1,
                thread,
                seq,
                tuple(map(_array, inputs)),
                tuple(map(_array, outputs)),
                origin,
                slots,
                came,
            )
        )
        if len(pending) >= _BATCH or len(self._others) >= _BATCH:
            self._flush_if_free()

    def graph_ready(self, order: list, roots: list) -> None:
        """A backward begins. A hook may run another inside it, so each thread has a stack."""
        leaves = []
        if self._memory is not None:
            leaves = [place for place in order if place.__class__ is Leaf]
        newest = max([place.number for place in order[:1]], default=0)
        saving = [weakref.ref(n) for n in order if n.__class__ is Node and n.saved][:_FOLLOWED]
        begun = perf_counter_ns(), leaves, newest, saving
        self._passes.setdefault(self._thread(), []).append(begun)

    def graph_done(self, error: BaseException | None) -> None:
        """One event for the whole backward, around those of its nodes."""
        thread = self._thread()
        if not self._passes.get(thread) or self._phase == "warmup":
            return
        t0, leaves, newest, saving = self._passes[thread].pop()
        op = "backward" if error is None else f"backward ({type(error).__name__})"
        origin = capture_origin()
        if self._memory is not None:
            self._memory.backward_done(leaves, (thread, origin))
        t1 = perf_counter_ns()
        self._pending.append(("pass", op, t0, t1, thread, None, (), (), origin, (), None))
        if saving and all((node := ref()) is not None and node.saved for ref in saving):
            self._others.append(("mark", "retained", "graph", t0, t1, thread, origin))
        self._kept.passed(t1, newest)

    def marked(self, what: str, name: str, t0: int, t1: int, subject: Any) -> None:
        """A scope, a hook or an optimizer's step has ended."""
        if self._phase == "warmup":
            return
        thread, origin = self._thread(), capture_origin()
        if what == "optimizer" and self._memory is not None and subject is not None:
            self._memory.stepped(subject, t1, (thread, origin))
        if self._marks + len(self._others) >= self.max_events:
            with self._drop_lock:
                self.dropped += 1
            return
        self._others.append(("mark", what, name, t0, t1, thread, origin))
        if len(self._others) >= _BATCH:
            self._flush_if_free()

    def _converted(self, what: str, array: Any, t0: int, t1: int) -> None:
        """A tensor has left for NumPy, or was made of an array."""
        if self._phase != "active":
            return
        origin = capture_origin()
        if what == conversions.FROM:
            self._wide.made(array, origin)
        told = f"{what} {array.shape} {array.dtype}"
        self._others.append(("mark", what, told, t0, t1, self._thread(), origin))
        if len(self._others) >= _BATCH:
            self._flush_if_free()

    def _sampled(self, sample: tuple) -> None:
        if self._phase == "active":
            self._others.append(sample)

    def _section(self, op: str, spans: engine_sections.Spans) -> None:
        for name, t0, t1 in spans:
            if name != "forward":  # that is the op's own event
                self.marked("section", f"{op}: {name}", t0, t1, None)

    # -- writing ---------------------------------------------------------------------------------

    def _flush_if_free(self) -> None:
        if not self._flushing:  # in another thread, or below: a signal handler may run ops
            with self._lock:
                self._flush()

    def _flush(self) -> None:
        """Write what is pending; others may append meanwhile, behind what is taken."""
        began = perf_counter_ns()
        if self._device is not None:
            self._others += self._device.taken()
        batch, others = self._pending[:], self._others[:]
        del self._pending[: len(batch)], self._others[: len(others)]
        if self._file is None:
            return
        lines: list[str] = []
        given = False
        try:
            self._flushing = True
            for entry in batch:
                self._lines.write_event(entry, lines)
            for entry in others:
                self._lines.write_other(entry, lines)
            text, marks = "".join(lines), sum(entry[0] == "mark" for entry in others)
            with self._guarded():
                given = True  # from here on, Ctrl-C leaves the text to what closes the file
                self._written += len(batch)
                self._marks += marks
                self._file.write(text)
        except BaseException:  # Ctrl-C in the middle: what it cost is counted, and names that
            if not given:  # may not have reached the file are defined again
                self.dropped += len(batch)
            self._lines.forget()
            raise
        finally:
            self._flushing = False
            now = perf_counter_ns()
            self._spent += now - began
            self._others.append(("mark", "recording", "log", began, now, self._thread(), None))

    @contextlib.contextmanager
    def _guarded(self) -> Any:
        """A write that fails ends the recording, not the user's program."""
        try:
            yield
        except OSError as error:
            self._file, self.failed = None, True
            self._unlisten()
            reason = error.strerror or error
            complain(f"the event log {self.path} ends: {reason}; {self.place} holds what there was")

    def leave(self) -> None:
        """In a forked child: hear nothing, write nothing; the log is the parent's."""
        self._lock, self._drop_lock = Lock(), Lock()  # a thread had them
        self._listening, self._device = False, None
        self._sampler.leave()
        self._unlisten()
        if self._memory is not None:
            self._memory.leave()
        file, self._file = self._file, None
        if file is not None:
            file.leave()


_open: WeakSet[event_log] = WeakSet()


def _in_forked_child() -> None:
    for log in list(_open):
        log.leave()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


def _array(x: Any) -> tuple | None:
    """(shape, dtype, bytes) of an array or tensor; None for a number or a missing one."""
    if type(x) is Tensor:
        x = x._data
    try:
        return x.shape, x.dtype, x.nbytes
    except AttributeError:
        return None


def _hearing_cost() -> float:
    """Nanoseconds that hearing one event costs on this machine, now, without writing it."""
    log, x, rounds = event_log(os.devnull), (np.empty(1),), 500
    t0 = perf_counter_ns()
    for _ in range(rounds):
        modes.state.plain  # noqa: B018 (what an op reads under a mode)
        a, b = perf_counter_ns(), perf_counter_ns()
        log.hear(("forward", "op", a, b, None, x, x, {}))
    return (perf_counter_ns() - t0) / rounds
