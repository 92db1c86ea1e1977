"""Marks in the streams of a GPU, as the clock of a window: where each op began and ended there.

A GPU works behind the host: when an op returns, its kernels have only been put into a stream. So
each look at the clock also puts a mark (an event) into the thread's current stream. The time
between two marks is read when the device has reached them. Nothing waits for the device but the
opening of the window, once for each device: there its time and the host's are tied.
"""

from time import perf_counter_ns
from typing import Any, NamedTuple

from ..backends import device
from ..backends.locks import Lock
from ..backends.threads import Local
from ..engine import events

_KEPT = 10_000  # marks of a thread that nobody has asked for; the older half then goes
_FAR = 1000.0  # milliseconds: times are single floats, so they are counted from a mark nearby


class Mark(NamedTuple):
    """A place in a stream: which GPU, the stream's address there, and the event."""

    device: int
    stream: int
    event: Any


def stream_name(mark: Mark) -> str:
    """The name of the lane of this mark's stream."""
    stream = "default stream" if mark.stream == 0 else f"stream {mark.stream:#x}"
    return f"GPU {mark.device}, {stream}"


class StreamMarks:
    """Between open() and close() each event of the engine has its marks, found by its times.

    One window at a time: RuntimeError where another is open; DeviceError without a GPU.
    """

    def __init__(self, what: str):
        self.what = what
        self._local = Local()
        self._tied: dict[int, tuple[Any, float]] = {}  # device -> (an event, its host time in ns)
        self._lock = Lock()

    def open(self) -> None:
        """Begin to mark."""
        self._cuda = device.require_gpu(self.what).cuda
        if events.clock is not perf_counter_ns:
            raise RuntimeError(f"{self.what}: another window is open; one at a time marks streams")
        self._mark()
        events.clock = self._clock

    def close(self) -> None:
        """End it; marks taken before can still be read."""
        events.clock = perf_counter_ns

    def _mark(self) -> Mark:
        stream = self._cuda.get_current_stream()
        mark = Mark(self._cuda.runtime.getDevice(), stream.ptr, self._cuda.Event())
        mark.event.record(stream)
        if mark.device not in self._tied:
            self._tie(mark)
        return mark

    def _tie(self, mark: Mark) -> None:
        """Wait for a device, the first time it is met: then it is as late there as here."""
        with self._lock:
            if mark.device not in self._tied:
                self._cuda.Device(mark.device).synchronize()
                mark.event.record()
                mark.event.synchronize()
                self._tied[mark.device] = mark.event, float(perf_counter_ns())

    def _clock(self) -> int:
        mark, marks = self._mark(), self._waiting()
        t = perf_counter_ns()
        marks[t] = mark
        if len(marks) > _KEPT:  # of ops without a listener
            for old in list(marks)[: _KEPT // 2]:
                del marks[old]
        return t

    def _waiting(self) -> dict[int, Mark]:
        """This thread's marks that have not been read yet, by the clock's time."""
        try:
            return self._local.marks
        except AttributeError:
            self._local.marks = {}
            return self._local.marks

    def here(self) -> Mark:
        """A mark at this place of the thread's stream."""
        return self._mark()

    def around(self, t0: int, t1: int) -> tuple[Mark, Mark] | None:
        """The marks of an event of this thread, once; None where it has none."""
        marks = self._waiting()
        first, last = marks.pop(t0, None), marks.pop(t1, None)
        return None if first is None or last is None else (first, last)

    # -- what the device has come to ---------------------------------------------------------------

    def wait(self) -> None:
        """Wait for the devices, to read all marks."""
        for number in self._tied:
            self._cuda.Device(number).synchronize()

    def times(self, first: Mark, last: Mark) -> tuple[int, int]:
        """When the device came to two marks of one stream: nanoseconds of the host's clock."""
        elapsed, near = self._cuda.get_elapsed_time, self._tied[first.device]
        away = elapsed(near[0], first.event)
        t0 = near[1] + 1e6 * away
        if away > _FAR:
            self._tied[first.device] = first.event, t0
        return round(t0), round(t0 + 1e6 * max(0.0, elapsed(first.event, last.event)))
