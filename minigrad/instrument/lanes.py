"""An event log as one lane per thread: which event ran inside which, and each one's own time.

A log of a million events takes some 24 MB here: a lane keeps three numbers an event, in arrays.
"""

from array import array
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from .formats import Event, EventReader
from .records import Kept, Mark, Record, Sample

MAX_MARKS = 1_000_000  # kept of one log


class Lane:
    """The events of one thread in the order in which they ended: t0, t1 and a key's number."""

    __slots__ = ("name", "t0", "t1", "key")

    def __init__(self, name: str):
        self.name = name
        self.t0, self.t1, self.key = array("q"), array("q"), array("q")


class Lanes:
    """All lanes of a log. `keys[n]` is what `key_of` gave for the events with key number n.

    `others` gets every record that is no event, mark, sample or kept graph. A log is read once, and
    so may come through a pipe.

    marks   the log's marks (scopes, steps, optimizer steps, hooks), in the order of their ends
    samples where threads were, in the order of time
    kept    graphs that were found to outlive their steps
    main    the thread that opened the log
    sources {file: Source}: its text, or the SHA-256 of that, as the program had it
    cut     where the log was cut off, in one line, or None
    """

    def __init__(
        self,
        path: str,
        key_of: Callable[[Event], Hashable],
        others: Callable[[Record], None] | None = None,
    ):
        self.lanes: dict[int, Lane] = {}
        self.keys: list[Any] = []
        self.marks: list[Mark] = []
        self.samples: list[Sample] = []
        self.kept: list[Kept] = []
        numbers: dict[Hashable, int] = {}
        with EventReader(path, salvage=True) as reader:
            self.header = reader.header
            for event in reader.records():
                if not isinstance(event, Event):
                    if isinstance(event, Kept):
                        self.kept.append(event)
                    elif isinstance(event, Sample):
                        if len(self.samples) < MAX_MARKS:
                            self.samples.append(event)
                    elif not isinstance(event, Mark):
                        if others is not None:
                            others(event)
                    elif len(self.marks) < MAX_MARKS:
                        self.marks.append(event)
                    continue
                lane = self.lanes.get(event.thread)
                if lane is None:
                    lane = self.lanes[event.thread] = Lane(reader.threads[event.thread])
                key = key_of(event)
                number = numbers.setdefault(key, len(numbers))
                if number == len(self.keys):
                    self.keys.append(key)
                lane.t0.append(event.t0)
                lane.t1.append(event.t1)
                lane.key.append(number)
            self.dropped = reader.dropped
            self.end, self.cut, self.sources = reader.end, reader.cut, reader.sources
            self.main = next(iter(reader.threads), 0)


def walk(lane: Lane) -> Iterator[tuple[int, int, int | None, int]]:
    """Openings and closings of a lane's events in time: (time, key number, own time, duration).

    Own time is the duration less that of the events directly inside; it is None at an opening.
    Events of one thread nest; where a damaged log says otherwise, an inner one ends with its outer.
    """
    t0s, t1s = np.asarray(lane.t0), np.asarray(lane.t1)
    stack: list[list[int]] = []  # [start, end, key number, time of the events directly inside]

    def closed() -> tuple[int, int, int, int]:
        start, end, key, inside = stack.pop()
        if stack:
            stack[-1][3] += end - start
        return end, key, end - start - inside, end - start

    for i in np.lexsort((-t1s, t0s)).tolist():
        t0, t1, key = lane.t0[i], lane.t1[i], lane.key[i]
        while stack and stack[-1][1] <= t0:
            yield closed()
        if stack:
            t1 = min(t1, stack[-1][1])
        stack.append([t0, t1, key, 0])
        yield t0, key, None, 0
    while stack:
        yield closed()
