"""The parallel backward on a GPU: each thread puts its work into another stream.

A stream is a queue of the device: work in one runs in order, work in two may run at once.
The thread that called backward keeps its current stream, the home stream; each helper borrows one.
Four rules make the result the serial engine's:

1. Before a thread uses what another has made, its stream waits for the mark (an event) that the
   other left behind its work. The host waits for nothing. A stream begins by waiting for home.
2. At the end home waits for all streams. Only then the gradients are delivered (`on_gradient`), in
   the serial order and from the calling thread. A user's arrays belong to home, as usual.
3. CuPy's pool gives a freed block to the next array of the stream in which it was allocated, though
   another stream may still read it. So the arrays of a vertex are kept until the device has passed
   the mark behind that vertex. A thread keeps at most BEHIND vertices; then the host waits for the
   oldest.
4. A borrowed stream belongs to one calling thread and its home for good. When that thread has used
   and freed a gradient, the next backward that may get its memory waits for home, and so for that.

In some backwards all threads use home alone, whose order is enough. These are backwards with hooks
or with recomputed or packed saved values, since the graph does not show which arrays those touch.
The same holds while the stream is being captured.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..backends.device import array_module
from ..backends.locks import Lock
from ..engine import backward
from ..engine import backward as seam
from ..engine.backward import BackwardRun
from ..engine.graph import Leaf, Node
from ..modes.saving import Deferred
from .report import Report, keep
from .scheduler import Scheduler
from .work import Trial, trial_of

_DEFAULT = 2  # addresses up to this one are CUDA's default streams, which cannot be captured
BEHIND = 16  # vertices whose arrays a thread keeps for the device; bounds the memory it costs


def scheduler_for(work: BackwardRun, workers: int) -> type[Scheduler]:
    """The scheduler of a backward: with streams where its arrays lie on the current GPU."""
    return StreamScheduler if workers > 1 and usable(work) else Scheduler


def usable(work: BackwardRun) -> bool:
    """Whether the threads of this backward may use separate streams."""
    cupy = sys.modules.get("cupy")
    if cupy is None or work.hooks is not None:
        return False
    if not all(_here(g, cupy) for g in work.cotangents.values()):
        return False
    if any(_elsewhere(vertex) for vertex in work.order):
        return False
    stream = cupy.cuda.get_current_stream()
    return stream.ptr <= _DEFAULT or not stream.is_capturing()


def _here(g: Any, cupy: Any) -> bool:
    """Whether a cotangent lies on the current GPU."""
    return array_module(g) is cupy and g.device.id == cupy.cuda.Device().id


def _elsewhere(vertex: Any) -> bool:
    """Whether a vertex does what the graph does not tell, or takes its work to another device."""
    if vertex.__class__ is not Node:
        return False
    return isinstance(vertex.saved, Deferred) or vertex.op.name == "device_copy"


# -- which streams ---------------------------------------------------------------------------------


class _Home:
    """A stream that a thread calls backward from, and the streams that its helpers borrow."""

    def __init__(self, stream: Any):
        self.stream = stream  # kept: no other stream may get its address
        self.free: list[tuple[int, Any]] = []  # (the thread that had it last, stream)
        self._lock = Lock()

    def borrow(self, new: Any) -> Any:
        """A stream for this thread, if possible the one it had (its libraries are set to it)."""
        with self._lock:
            return self._take() if self.free else new(non_blocking=True)

    def _take(self) -> Any:
        mine = [i for i, (thread, _) in enumerate(self.free) if thread == threading.get_ident()]
        return self.free.pop(mine[-1] if mine else -1)[1]

    def give_back(self, seats: dict[int, "Seat"]) -> None:
        """Take back what threads have borrowed."""
        borrowed = [
            (thread, seat.stream)
            for thread, seat in seats.items()
            if seat.stream is not self.stream
        ]
        with self._lock:
            self.free += borrowed


_homes: dict[tuple, _Home] = {}  # by device, address of the stream, thread
_settling = Lock()  # around a thread's first home in a stream


def _home(cupy: Any) -> _Home:
    """The current stream of this thread, with what may be borrowed from it."""
    stream = cupy.cuda.get_current_stream()
    key = (cupy.cuda.Device().id, stream.ptr, threading.get_ident())
    if key in _homes:
        return _homes[key]
    with _settling:
        return _settle(key, stream)


def _settle(key: tuple, stream: Any) -> _Home:
    """A home for a thread that has none in this stream: a dead thread's in the same stream, if any.

    That keeps rule 4: all that the dead thread has given to the stream is there, so what waits for
    the stream waits for it. Dead threads' homes in other streams are forgotten once no thread can
    give such a stream work any more and it has finished. Nothing then uses memory of theirs. Under
    the lock.
    """
    alive = sys._current_frames()
    for other in [other for other in _homes if other[2] not in alive]:
        if other[:2] == key[:2]:
            return _homes.setdefault(key, _homes.pop(other))
        if _abandoned(_homes[other].stream):
            del _homes[other]
    return _homes.setdefault(key, _Home(stream))


def _abandoned(stream: Any) -> bool:
    """Whether only a home knows the stream: its attribute, and the two names of this question."""
    return sys.getrefcount(stream) <= 3 and stream.done


class Seat:
    """One thread's part: its stream, and what it keeps until the device is done with it."""

    __slots__ = ("stream", "held", "_event")

    def __init__(self, stream: Any, event: Any):
        self.stream = stream
        self.held: deque[tuple[Any, list]] = deque()
        self._event = event

    def wait_for(self, marks: list) -> None:
        """Let the stream wait for marks that other streams have left; takes them off the list."""
        while marks:
            stream, event = marks.pop()
            if stream is not self.stream:
                self.stream.wait_event(event)

    def leave(self, used: list) -> tuple[Any, Any]:
        """A mark behind everything so far; `used` is kept until the device has come to it."""
        event, held = self._event(disable_timing=True), self.held
        event.record(self.stream)
        held.append((event, used))
        while held and held[0][0].done:
            held.popleft()
        if len(held) > BEHIND:
            held[0][0].synchronize()  # first wait, then let go
            held.popleft()
        return self.stream, event


# -- whether it pays ------------------------------------------------------------------------------


class DeviceTrial(Trial):
    """A Trial by the device's clock: it is the device that runs longer than the host, or shorter.

    marks   what has run: (whether parallel, home's mark before, its mark behind), not yet read
    """

    def __init__(self) -> None:
        super().__init__()
        self.worth = True
        self.marks: deque[tuple[bool, Any, Any]] = deque()

    def read(self, elapsed: Callable[[Any, Any], float]) -> None:
        """Note the runs that the device has come to the end of."""
        while self.marks and self.marks[0][2].done:
            parallel, first, last = self.marks.popleft()
            self.note(parallel, 1000 * elapsed(first, last))

    def reason(self) -> str:
        """The reason for the choice, as text for the report."""
        known = self.times[True] and self.times[False]
        return f"{super().reason()} on the device" if known else "a trial of both ways"


def measured(work: BackwardRun, workers: int, parallel: Callable[[Report], None]) -> None:
    """Run a backward by the engine that was faster so far, timed without waiting for the device."""
    cuda = sys.modules["cupy"].cuda
    trial = trial_of(work.order, workers, work.min_work or 0.0, DeviceTrial)
    trial.read(cuda.get_elapsed_time)
    chosen = trial.choose()
    engine = "parallel" if chosen else "serial"
    report = Report(engine, trial.reason(), workers, len(work.order))
    first, last = cuda.Event(), cuda.Event()
    first.record()
    if chosen:
        parallel(report)
    else:
        keep(report)
        backward.walk(work)
    last.record()
    trial.marks.append((chosen, first, last))


# -- the scheduler ---------------------------------------------------------------------------------


class StreamScheduler(Scheduler):
    """A Scheduler whose threads have separate streams; see the module for the rules.

    arrived   for each vertex the marks to wait for before what has arrived there is used
    reached   gradients that are complete: (vertex, total), handed over at the end
    """

    def __init__(self, work: BackwardRun, *options: Any):
        super().__init__(work, *options)
        self.cupy = sys.modules["cupy"]
        self.arrived: list[list] = [[] for _ in work.order]
        self.reached: list[tuple] = []
        self.on_gradient = work.on_gradient
        work.on_gradient = lambda *found: self.reached.append(found)
        self.seats: dict[int, Seat] = {}  # by thread
        self.home = _home(self.cupy)
        # a chain stays in its stream, where it needs no waits: of what is ready because of a vertex
        # its thread goes on with one, and offers the others
        self.small = [True] * len(work.order)
        self.offered = [vertex.__class__ is not Leaf for vertex in work.order]

    def run(self, workers: int) -> None:
        """As a Scheduler does, between the moments at which all streams are at home."""
        stream = self.home.stream
        self.begin = self.cupy.cuda.Event(disable_timing=True)
        self.begin.record(stream)
        try:
            super().run(workers)
        finally:
            self.work.on_gradient = self.on_gradient
            self._come_home()
            self._reach_leaves()

    def _loop(self) -> None:
        seat = self._sit()
        home = seat.stream is self.home.stream
        with nullcontext() if home else seat.stream:
            super()._loop()

    def _sit(self) -> Seat:
        """A stream for this thread, behind what home has been given so far."""
        seat = self.seats.get(threading.get_ident())
        if seat is not None:  # a helper may find time to come twice
            return seat
        seat = Seat(self.home.stream, self.cupy.cuda.Event)
        if threading.get_ident() != self.caller:
            seat.stream = self.home.borrow(self.cupy.cuda.Stream)
            seat.stream.wait_event(self.begin)
        self.seats[threading.get_ident()] = seat
        return seat

    def _come_home(self) -> None:
        """Let home wait for every stream; then nothing needs to be kept, and streams go back."""
        home = self.home
        seats = [seat for seat in self.seats.values() if seat.stream is not home.stream]
        for seat in seats:
            mark = self.cupy.cuda.Event(disable_timing=True)
            mark.record(seat.stream)
            home.stream.wait_event(mark)
        if self.inside:  # a second Ctrl-C left helpers at work: their arrays stay theirs
            return
        for seat in self.seats.values():
            seat.held.clear()
        home.give_back(self.seats)
        self.seats.clear()

    def _reach_leaves(self) -> None:
        """Hand over the gradients that are complete, in the serial order."""
        totals = dict(self.reached)
        self.reached.clear()
        for vertex in self.work.order:
            if vertex in totals:
                g = totals.pop(vertex)  # the one name that private() asks for
                self.on_gradient(vertex, seam.private(g))

    # -- one vertex -------------------------------------------------------------------------------

    def _sent_by(self, i: int) -> Any:
        work, vertex = self.work, self.work.order[i]
        if vertex.__class__ is Leaf:  # nothing to compute, so no stream waits for it before the end
            g = work.cotangents.pop(vertex, None)
            if g is not None and (work.wanted is None or vertex in work.wanted):
                self.reached.append((vertex, g))
            return ()
        seat = self.seats[threading.get_ident()]
        seat.wait_for(self.arrived[i])
        used = [vertex.saved, *_memory(work.cotangents.get(vertex))]
        try:
            return super()._sent_by(i)
        finally:
            mark = seat.leave(used)
            for parent, _, _ in self.links[i]:  # before anybody can find what is sent there
                self.arrived[parent].append(mark)

    def _hand_over(self, complete: list[int], small: list[int]) -> None:
        complete.sort(key=lambda i: -self.priority[i])  # it goes on with the longest path
        super()._hand_over(complete, small)

    def _add(self, i: int, parts: list) -> None:
        cotangents, vertex = self.work.cotangents, self.work.order[i]
        if not parts or (len(parts) == 1 and vertex not in cotangents):
            return super()._add(i, parts)  # nothing is added yet: its mark is still to wait for
        seat = self.seats[threading.get_ident()]
        seat.wait_for(self.arrived[i])
        used = [*_memory(cotangents.get(vertex)), *_memory(parts)]
        try:
            super()._add(i, parts)
        finally:
            self.arrived[i].append(seat.leave(used))


def _memory(value: Any) -> list:
    """The object that keeps the memory of an array, or of those in a list or in a port's (port,
    array).

    Not the arrays themselves: a gradient without another reference is returned without a copy, and
    a further reference would look like a user's.
    """
    if isinstance(value, list | tuple):
        return [block for part in value for block in _memory(part)]
    return [value.data] if array_module(value) is not np else []
