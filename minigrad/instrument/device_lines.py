"""The device's side of an event log: when each op, and each copy, began and ended in its stream."""

from collections import deque
from collections.abc import Callable
from typing import Any

from ..backends import device
from .stream_marks import Mark, StreamMarks, stream_name


class DeviceLines:
    """Gathers marks while a log is open, and gives lines of what the device has come to.

    Nothing waits: entries that the device has not reached stay for the next time; `finish` waits,
    once.
    """

    def __init__(self, thread: Callable[[], int]) -> None:
        self._thread = thread  # gives the number of the thread that calls it
        self.marks = StreamMarks("mg.event_log(device=True)")
        self._heard: deque[tuple] = deque()  # (of, op, seq, thread, host time, first, last)
        self._copies: deque[tuple] = deque()
        self.is_open = False

    def open(self) -> None:
        """Begin: a mark with every event, and with every copy between host and device."""
        self.marks.open()
        self.is_open = True
        device.observers.append(self._copied)

    def close(self) -> None:
        """End; pending entries are still to be taken."""
        device.observers.remove(self._copied)
        self.marks.close()
        self.is_open = False

    def hear(self, kind: str, op: str, t0: int, t1: int, seq: int | None) -> None:
        """Keep an event's marks; in the thread that ran it."""
        marks = self.marks.around(t0, t1)
        if marks is not None:
            self._heard.append((kind, op, seq, self._thread(), t0, *marks))

    def _copied(self, direction: str, t0: int, t1: int, array: Any) -> None:
        # the host waits while a copy runs, so its times are the host's
        thread, stream = self._thread(), stream_name(self.marks.here())
        self._copies.append(("device", direction, "copy", None, thread, t0, t0, t1, stream))

    def taken(self) -> list[tuple]:
        """Entries complete on the device by now, for Lines.write_others."""
        found = [self._copies.popleft() for _ in range(len(self._copies))]
        for _ in range(len(self._heard)):  # streams do not end in the order of the host
            entry = self._heard.popleft()
            last: Mark = entry[-1]
            if last.event.done:
                found.append(self._entry(*entry))
            else:
                self._heard.append(entry)
        return found

    def finish(self) -> list[tuple]:
        """The rest, after waiting for the device."""
        self.marks.wait()
        return self.taken()

    def _entry(
        self, kind: str, op: str, seq: Any, thread: int, host: int, first: Mark, last: Mark
    ) -> tuple:
        t0, t1 = self.marks.times(first, last)
        return "device", kind, op, seq, thread, host, t0, t1, stream_name(first)
