"""How long ops take on a GPU, as one table: pairs of marks in its streams (stream_marks.py).

All times are read once, when the window is over: a synchronisation for each op would change what is
measured.
"""

import json
import os
from collections import defaultdict
from time import perf_counter_ns
from typing import Any, NamedTuple

from ..backends import device
from ..backends.leaving import left_always
from ..engine import events
from .formats import written_whole
from .stream_marks import StreamMarks


class DeviceSpan(NamedTuple):
    """The device time of one op, or of one copy between host and device.

    kind     "forward", "backward", or "to host" and "to device" (op is then "copy")
    stream   which stream of the device, as it names them
    start    microseconds from the opening of the window to the mark in front
    time     microseconds between the marks
    host     microseconds the call took on the host
    seq      number of the graph node, None where nothing was recorded
    """

    kind: str
    op: str
    stream: int
    start: float
    time: float
    host: float
    seq: int | None = None


class DeviceTimes:
    """`with mg.DeviceTimes() as times:` records; afterwards `times.spans`, and print(times).

    The time between an op's marks includes waiting where its stream is idle until the host launches
    its next kernel. For ops smaller than a launch, `time` is the host's. `mg.event_log(path,
    device=True)` keeps the same in addition to the times of the host.
    """

    def __init__(self) -> None:
        self.spans: list[DeviceSpan] = []
        self.opened = 0  # time.perf_counter_ns() at the opening
        self._marks = StreamMarks("mg.DeviceTimes")
        self._heard: list[tuple] = []
        self._copies: list[tuple] = []

    def __enter__(self) -> "DeviceTimes":
        self._marks.open()
        self.opened = perf_counter_ns()
        device.observers.append(self._copied)
        events.listen(self)
        return self

    @left_always(lambda block: events.listeners.count(block))
    def __exit__(self, *exc: object) -> None:
        events.unlisten(self)
        device.observers.remove(self._copied)
        self._marks.close()
        self._resolve()

    def hear(self, event: tuple) -> None:
        """Keep what one event says, and its marks."""
        kind, op, t0, t1, node = event[:5]
        marks = self._marks.around(t0, t1)
        if marks is not None:
            seq = None if node is None else node.number
            self._heard.append((kind, op, seq, *marks, (t1 - t0) / 1000))

    def _copied(self, direction: str, t0: int, t1: int, array: Any) -> None:
        self._copies.append((direction, t0, t1, self._marks.here().stream))

    def _resolve(self) -> None:
        """Wait for the device once and read all times."""
        self._marks.wait()
        for kind, op, seq, first, last, host in self._heard:
            t0, t1 = self._marks.times(first, last)
            start, time = (t0 - self.opened) / 1000, (t1 - t0) / 1000
            self.spans.append(DeviceSpan(kind, op, first.stream, start, time, host, seq))
        for direction, t0, t1, stream in self._copies:
            start, took = (t0 - self.opened) / 1000, (t1 - t0) / 1000
            self.spans.append(DeviceSpan(direction, "copy", stream, start, took, took))
        self.spans.sort(key=lambda span: span.start)
        self._heard.clear()
        self._copies.clear()

    def total(self) -> dict[tuple[str, str], tuple[int, float]]:
        """{(kind, op): (calls, microseconds on the device)}, longest first."""
        sums: dict[tuple[str, str], list] = defaultdict(lambda: [0, 0.0])
        for span in self.spans:
            entry = sums[span.kind, span.op]
            entry[0] += 1
            entry[1] += span.time
        ordered = sorted(sums.items(), key=lambda item: -item[1][1])
        return {key: (calls, time) for key, (calls, time) in ordered}

    def __str__(self) -> str:
        whole = sum(time for _, time in self.total().values()) or 1.0
        lines = [f"{'device time':>12}  {'share':>6}  {'calls':>6}  op"]
        lines += [
            f"{time:9.1f} µs  {time / whole:6.1%}  {calls:6d}  {op} ({kind})"
            for (kind, op), (calls, time) in self.total().items()
        ]
        return "\n".join(lines)

    def write_chrome(self, out: str | os.PathLike) -> None:
        """The spans as a Chrome trace for Perfetto, a lane for each stream, and one for copies."""
        lanes: dict[Any, int] = {}
        with written_whole(os.fspath(out)) as file:
            file.write('{"displayTimeUnit":"ns","traceEvents":[\n')
            for i, span in enumerate(self.spans):
                lane = "copies" if span.op == "copy" else f"stream {span.stream:#x}"
                tid = lanes.setdefault(lane, len(lanes) + 1)
                entry = {
                    "ph": "X", "pid": 1, "tid": tid, "name": span.op, "cat": span.kind,
                    "ts": span.start, "dur": span.time, "args": {"host_us": span.host},
                }  # fmt: skip
                file.write(("" if i == 0 else ",\n") + json.dumps(entry))
            for lane, tid in lanes.items():
                name = {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name"}
                file.write(",\n" + json.dumps({**name, "args": {"name": lane}}))
            file.write("\n]}\n")
