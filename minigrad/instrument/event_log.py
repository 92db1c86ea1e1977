"""The event log: every op of a run, one line each, in the `minigrad.events` format.

    with mg.event_log("run.jsonl"):
        train()

then `minigrad-profile view run.jsonl`. The file grows as "run.jsonl.partial" and takes its name
when it is complete, also when the program ends with an exception. The log of a killed program can
be read up to the cut.
"""

import os
import sys
import time
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any
from weakref import WeakSet

from ..backends.leaving import left_always
from ..engine import events
from ..engine.events import capture_origin
from ..engine.graph import Leaf, Node
from . import conversions, formats
from . import sections as engine_sections
from .calls import FIELDS, site_key
from .device_lines import DeviceLines
from .hearing import hearing
from .hearing_cost import Cost, hearing_cost, marking_cost
from .kept import KeptGraphs
from .log_writer import BATCH, LogWriter
from .memory import MemoryTracker
from .options import count
from .sampler import PERIOD_MS, Sampler
from .schedule import schedule_of
from .wide import WideSources

MAX_EVENTS = 10_000_000
_MANY = 100  # events of a sort: from this many on, its cost is measured by itself
_FOLLOWED = 8  # nodes of a backward, to see whether it has kept its graph
_LONGEST_US = 1e15  # 30 years: what a clock's nanoseconds can tell


class event_log:
    """Record every event into a file while entered. Memory stays bounded in every run.

    path        where the finished log will be
    max_events  further events are counted as dropped, not recorded
    min_us      shorter events are counted as dropped too
                (the one event for each whole backward is always kept)
    memory      also record which arrays live from when to when, and whose they are (memory.py)
    stack       how many frames of the caller's code to keep with each op; 0: the one line
    sync        wait for the device after each op: its time is then its own (slow)
    device      also when each op began and ended on a GPU, by stream, without waiting for it
    schedule    (wait, warmup, active, repeat): which steps to record; call step() after each
    sections    the engine's own time in each call too, as marks: "mul: unwrap"
    sample_ms   how often to look at where each thread is, for the time outside of ops; 0: never

    A file that cannot be opened is an OSError. If it cannot be written further (a full disk), the
    recording ends with one line on stderr, and the program goes on. `place` is the file, with its
    whole path, that holds what was written: that of `path` when the log is closed, if all went
    well. `failed` says that a write has failed: the file may end in the middle.
    """

    finds_origin = True  # by itself, where it is the only listener

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
        self.path = os.fspath(path)
        self.max_events = count("event_log", "max_events", max_events)
        if isinstance(min_us, str | None) or not 0 <= min_us < _LONGEST_US:
            raise ValueError(f"event_log: min_us should be microseconds from 0 on, got {min_us!r}")
        self.min_ns = int(min_us * 1000)
        self.stack, self.sync = count("event_log", "stack", stack), bool(sync)
        if not 0 <= sample_ms < 60_000:
            raise ValueError(f"event_log: sample_ms should be milliseconds, got {sample_ms!r}")
        self.schedule = schedule_of(schedule)
        self.steps = 0  # ended so far
        self._phase = "active"
        self._listening = False
        self._marks = 0  # of scopes and the like, which cost something as they are heard
        self._sections = sections
        self._passes: dict[int, list[tuple]] = {}  # thread -> its running backwards
        self._writer = writer = LogWriter(self.path, self.max_events, self.min_ns)
        self._thread = writer.lines.threads.here  # the number of the thread that calls it
        self._device = DeviceLines(self._thread) if device else None
        if self._device is not None:
            writer.taken = self._device.taken
        self._kept = KeptGraphs(writer.others.append)
        self._wide = WideSources()
        told = weakref.WeakMethod(self._sampled)  # no cycle: a dropped log is freed at once
        self._sampler = Sampler(
            lambda s: (tell := told()) and tell(s), writer.lines.threads.number_of, sample_ms
        )
        self._memory = None
        if memory:
            self._memory = MemoryTracker(writer.others.append, self.max_events, self._sampler.freed)
        failed = weakref.WeakMethod(self._unlisten)
        writer.on_failure = lambda: (unlisten := failed()) and unlisten()

    def __enter__(self) -> "event_log":
        if self._is_open:
            raise RuntimeError("this event log is open already; make another with mg.event_log()")
        if self._device is not None:
            self._device.open()  # without a GPU that is an error, before there is a file
        try:
            self._begin()
        except BaseException:  # Ctrl-C, too: the written part stays, and nothing goes on recording
            self._unlisten()
            self._listening = False
            self._close_device()
            self._writer.discard()
            raise
        return self

    @property
    def _is_open(self) -> bool:
        return self._writer.file is not None

    def _begin(self) -> None:
        """Open the file, write its first line, and listen."""
        _open.add(self)
        self._base = self._closed = perf_counter_ns()
        header = formats.header(formats.EVENTS) | {
            "pid": os.getpid(),
            "program": _program(),
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
        self._writer.open(header)
        self._step_began = self._base
        self._enter_phase()

    @left_always(lambda block: block._is_open)
    def __exit__(self, *exc: object) -> None:
        self.close()

    def step(self) -> None:
        """Say that a step of the program (of training) ends here, and the next one begins."""
        now = perf_counter_ns()
        if self._phase == "active" and self._is_open:
            thread = self._thread()
            self._writer.others.append(
                ("mark", "step", str(self.steps), self._step_began, now, thread, None)
            )
        self.steps += 1
        self._step_began = now
        self._enter_phase()

    def _enter_phase(self) -> None:
        """Listen or not, as the schedule says of the step that begins now."""
        before = self._phase if self._listening else ""
        self._phase = "active" if self.schedule is None else self.schedule.phase(self.steps)
        wanted = self._phase in ("warmup", "active") and self._is_open
        if wanted and self._phase != before:
            if before:
                events.unlisten(self)  # what hears a warm-up forgets
            events.listen(self, origin=True, stack=self.stack, sync=self.sync)
            if not before:
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
        cost, marking = Cost(0.0, 0.0), 0.0
        self._closed = perf_counter_ns()  # what closing takes is none of the program's time
        try:
            self._unlisten()
            self._listening = False
            if self._memory is not None:
                self._memory.close()
            self._close_device()
            with self._writer.lock:
                self._writer.flush()
            if self._is_open and self._writer.written:
                cost = self._hearing_cost()
            if self._is_open and self._marks:
                marking = self._marking_cost()
        finally:  # Ctrl-C at this time: the file is whole all the same
            try:
                self._finish(cost, marking)
            except BaseException:
                self._finish(cost, marking)
                raise
            finally:
                self._unlisten()  # in vain, unless it was interrupted above

    def _hearing_cost(self) -> Cost:
        """The cost of an event for its op before writing: measured now, on other ops.

        The mean over the sorts of events; of few, what a plain one takes is near enough.
        """
        plain = self._cost_of("plain")
        costs = {"plain": plain}
        heard = self._writer.lines.heard
        if heard["described"] >= _MANY:
            costs["described"] = self._cost_of("described")
        if heard["backward"] >= _MANY:  # measured with a forward for each
            both = self._cost_of("backward")
            costs["backward"] = Cost(max(0.0, both.each - plain.each), both.uncertain)
        each, uncertain = (
            sum(count * costs.get(sort, plain)[part] for sort, count in heard.items())
            / max(1, sum(heard.values()))
            for part in (0, 1)
        )
        return Cost(each, uncertain)

    def _cost_of(self, sort: str) -> Cost:
        """Of events of one sort. They are written too, to nowhere, for what that does to others."""
        like = event_log(os.devnull, memory=self._memory is not None, stack=self.stack, sample_ms=0)
        writer = like._writer
        writer.open({})
        try:
            return hearing_cost(
                like.hear,
                writer.flush,
                self.stack,
                frames=self._writer.lines.typical_depth,
                apart=lambda: writer.spent,
                sort=sort,
            )
        finally:
            writer.discard()

    def _marking_cost(self) -> float:
        """The cost of a mark before writing."""
        like = event_log(self.path, sample_ms=0)
        return marking_cost(like.marked, like._writer.others.clear)

    def _finish(self, cost: Cost, marking: float) -> None:
        """Write the last line; cost, marking: what an event and a mark took before writing."""
        writer = self._writer
        with writer.lock:
            heard, marked = round(cost.each * writer.written), round(marking * self._marks)
            writer.end(
                {
                    "kind": "end",
                    "events": writer.written,
                    "dropped": writer.dropped,
                    "untracked": 0 if self._memory is None else self._memory.lost,
                    "marks": writer.marks,
                    "steps": self.steps,
                    "wall_ns": self._closed - self._base,
                    "writing_ns": writer.spent,
                    "hearing_ns": heard,
                    "marking_ns": marked,
                    "uncertain_ns": round(cost.uncertain * writer.written),
                    "recording_ns": writer.spent + self._sampler.spent + heard + marked,
                }
            )
        _open.discard(self)

    def _close_device(self) -> None:
        if self._device is not None and self._device.is_open:
            self._device.close()
            self._writer.others += self._device.finish()

    @property
    def events(self) -> int:
        """How many events have been recorded."""
        return self._writer.recorded

    @property
    def dropped(self) -> int:
        """How many were left out."""
        return self._writer.dropped

    @property
    def failed(self) -> bool:
        """Whether a write did not go well."""
        return self._writer.failed

    @property
    def place(self) -> str:
        """The file that holds what was written."""
        return self._writer.place

    def rename(self, path: str) -> None:
        """Let the finished log take another name than it was opened for."""
        self._writer.rename(path)

    # -- listening -------------------------------------------------------------------------------

    @property
    def hear(self) -> Callable[[tuple], None]:
        """The function that takes the events; who calls it keeps it: here it would be a cycle."""
        if self._phase == "warmup":
            return _forget
        writer = self._writer
        return hearing(
            writer.events,
            FIELDS * BATCH,
            writer.flush_if_free,
            writer.lines,
            self.stack,
            self._kept,
            self._wide,
            self._sampler,
            self._memory,
            self._device,
        )

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
        if not self._passes.get(thread):
            return
        t0, leaves, newest, saving = self._passes[thread].pop()
        if self._phase == "warmup":
            return
        op = "backward" if error is None else f"backward ({type(error).__name__})"
        origin = capture_origin()
        if self._memory is not None:
            self._memory.backward_done(leaves, (thread, origin))
        t1 = perf_counter_ns()
        key, calls = ("pass", op, thread, site_key(origin)), self._writer.lines.calls
        call = calls.known.get(key) or calls.add(key, "pass", op, thread, origin)
        self._writer.events.extend((call, t0, t1, "null"))
        if saving and all((node := ref()) is not None and node.saved for ref in saving):
            self._writer.add(("mark", "retained", "graph", t0, t1, thread, origin))
        self._kept.passed(t1, newest)

    def marked(self, what: str, name: str, t0: int, t1: int, subject: Any) -> None:
        """A scope, a hook or an optimizer's step has ended."""
        if self._phase == "warmup":
            return
        self._marks += 1
        thread, origin = self._thread(), capture_origin()
        if what == "optimizer" and self._memory is not None and subject is not None:
            self._memory.stepped(subject, t1, (thread, origin))
        self._writer.add(("mark", what, name, t0, t1, thread, origin))

    def _converted(self, what: str, array: Any, t0: int, t1: int) -> None:
        """A tensor has left for NumPy, or was made of an array."""
        if self._phase != "active":
            return
        self._marks += 1
        origin = capture_origin()
        if what == conversions.FROM:
            self._wide.made(array, origin)
        told = what, array.shape, array.dtype
        mark = "mark", what, told, t0, t1, self._thread(), origin
        self._writer.add(mark, counted=False)

    def _sampled(self, sample: tuple) -> None:
        if self._phase == "active":
            self._writer.others.append(sample)

    def _section(self, op: str, spans: engine_sections.Spans) -> None:
        for name, t0, t1 in spans:
            if name != "forward":  # that is the op's own event
                self.marked("section", f"{op}: {name}", t0, t1, None)

    def leave(self) -> None:
        """In a forked child: do not listen or write; the log is the parent's."""
        self._listening, self._device = False, None
        self._sampler.leave()
        self._unlisten()
        if self._memory is not None:
            self._memory.leave()
        self._writer.leave()


_open: WeakSet[event_log] = WeakSet()


def _in_forked_child() -> None:
    for log in list(_open):
        log.leave()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)


def _program() -> str:
    """The name of the program that runs; of a package that does, the package's."""
    path = sys.argv[0] if sys.argv else ""
    folder, name = os.path.split(path)
    return os.path.basename(folder) if name == "__main__.py" and folder else name


def _forget(event: tuple) -> None:
    """Hear an event of a warm-up."""
