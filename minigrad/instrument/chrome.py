"""An event log as a Chrome trace, for Perfetto (ui.perfetto.dev) and chrome://tracing.

There is one lane per thread, and per stream of a GPU where the log has device times. There is a
slice per event, scope, step and hook. Arrows lead from each forward slice to its backward slice,
and from a call on the host to its time on the device. If the log follows memory, a counter shows
the bytes alive by category. Names follow PyTorch's traces (cat "cpu_op", "fwdbwd", "Sequence
number"): tools made for those read ours. Times are microseconds from the start of the log, printed
with three decimals from whole nanoseconds. Rounded numbers could make slices overlap, and viewers
then drop them.
"""

import os
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from .formats import Event, EventReader, is_count, json_text, written_whole
from .records import CATEGORIES, Allocation, Category, DeviceEvent, Held, Kept, Mark, Sample

STEPS = 999_999  # the lane of the steps
STREAMS = 1_000_000  # the lanes of streams are numbered from here
_MOST_ARRAYS = 50  # whose shapes a slice shows
MOST_COUNTERS = 100_000  # points of the counter; of more changes every nth is shown


def write_chrome(log: str, out: str | os.PathLike) -> str | None:
    """Convert the event log `log` into the trace file `out`, whole or not at all.

    Returns where the log was cut off, in one line, or None.
    """
    with EventReader(log, salvage=True) as reader, written_whole(os.fspath(out)) as file:
        for text in trace(reader):
            file.write(text)
    return reader.cut


def trace(
    reader: EventReader, pid: int = 0, zero: int | None = None, name: str = "minigrad"
) -> Iterator[str]:
    """The trace's text, piece by piece: its head, one piece a record, its end.

    pid, zero   the number of its group of lanes, and what is time 0 (default: the log's own)
    """
    arrows = f'"{pid}.' if pid else ""  # with several logs in one trace their ids differ
    given = reader.header.get("pid")
    pid = pid or (given if is_count(given) else 0) or 1
    base: int = reader.header["base_ns"] if zero is None else zero
    lanes: dict[int, int] = {}  # thread -> tid; numbered from 1, since 0 means something else
    streams: dict[tuple[int, int], int] = {}  # (stream, thread whose work it has) -> tid
    links, memory = _Links(), _Memory()
    yield '{"displayTimeUnit":"ns","traceEvents":[\n'
    yield json_text(_label("process_name", pid, 0, name))
    for event in reader.records():
        if isinstance(event, Event | Mark):
            if isinstance(event, Mark) and event.what == "step":  # may begin or end inside others
                yield ",\n" + _mark(event, pid, STEPS, base)
                continue
            tid = lanes.setdefault(event.thread, len(lanes) + 1)
            if isinstance(event, Event):
                yield ",\n" + _slice(event, pid, tid, base)
                links.note(event, tid)
            else:
                yield ",\n" + _mark(event, pid, tid, base)
        elif isinstance(event, DeviceEvent):
            host = lanes.setdefault(event.thread, len(lanes) + 1)
            lane = (event.stream, event.thread)
            tid = streams.setdefault(lane, STREAMS + len(streams))
            yield from _on_device(event, pid, (host, tid), base, arrows)
        elif not isinstance(event, Held | Sample | Kept):
            memory.note(event)
    for label in _labels(reader, pid, lanes, streams):
        yield ",\n" + json_text(label)
    for t, live in memory.counters():
        yield (
            f',\n{{"ph":"C","name":"bytes alive","pid":{pid},"tid":0,'
            f'"ts":{_microseconds(t - base)},"args":{json_text(live)}}}'
        )
    for phase, seq, tid, t in links.arrows():
        ending = ',"bp":"e"' if phase == "f" else ""
        number = f'{arrows}{seq}"' if arrows else seq
        yield (
            f',\n{{"ph":"{phase}","cat":"fwdbwd","name":"fwdbwd","id":{number},"pid":{pid},'
            f'"tid":{tid},"ts":{_microseconds(t - base)}{ending}}}'
        )
    yield "\n]}\n"


def _labels(
    reader: EventReader, pid: int, lanes: dict[int, int], streams: dict[tuple[int, int], int]
) -> Iterator[dict[str, Any]]:
    """The names of the lanes, and the order of the threads': workers last."""
    for thread, tid in lanes.items():
        worker = reader.workers.get(thread)
        name = reader.threads[thread] + ("" if worker is None else f" (worker {worker})")
        yield _label("thread_name", pid, tid, name)
        order = {"sort_index": tid if worker is None else 1000 + worker}
        yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": order}
    for (stream, thread), tid in streams.items():
        name = f"{reader.streams[stream]} ({reader.threads[thread]})"
        yield _label("thread_name", pid, tid, name)
    yield _label("thread_name", pid, STEPS, "steps")


def _label(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _microseconds(ns: int) -> str:
    """The exact decimal; an event from before the log's start has a negative time."""
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def _slice(event: Event, pid: int, tid: int, base: int) -> str:
    name = f"{event.op}.backward" if event.kind == "backward" else event.op
    category = "user_annotation" if event.kind == "pass" else "cpu_op"
    inputs, outputs = (event.arrays[side][:_MOST_ARRAYS] for side in ("inputs", "outputs"))
    args: dict[str, Any] = {
        "Input Dims": [x["shape"] for x in inputs],
        "Input type": [x["dtype"] for x in inputs],
        "Output Dims": [y["shape"] for y in outputs],
        "Output bytes": event.bytes,
    }
    if event.seq is not None:
        args["Sequence number"] = event.seq
    if event.flops is not None:
        args["FLOP"] = event.flops
    if event.moved is not None:
        args["Bytes moved"] = event.moved
    if event.scope:
        args["Scope"] = event.scope
    if event.site:
        sites = event.stack or (event.site,)
        args["Call stack"] = ";".join(
            f"{site['file']}({site['line']}): {site['function']}" for site in reversed(sites)
        )
    return (
        f'{{"ph":"X","cat":"{category}","name":{json_text(name)},"pid":{pid},"tid":{tid},'
        f'"ts":{_microseconds(event.t0 - base)},"dur":{_microseconds(event.t1 - event.t0)},'
        f'"args":{json_text(args)}}}'
    )


def _on_device(
    event: DeviceEvent, pid: int, tids: tuple[int, int], base: int, arrows: str
) -> Iterator[str]:
    """A slice on the device, and the arrow to it from where the host called it."""
    backward = ".backward" if event.of == "backward" else ""
    category = "gpu_memcpy" if event.op == "copy" else "kernel"
    host, tid = tids
    args = {"of": event.of} if event.seq is None else {"Sequence number": event.seq}
    start = _microseconds(event.t0 - base)
    yield (
        f',\n{{"ph":"X","cat":"{category}","name":{json_text(event.op + backward)},"pid":{pid},'
        f'"tid":{tid},"ts":{start},"dur":{_microseconds(event.t1 - event.t0)},'
        f'"args":{json_text(args)}}}'
    )
    number = f'{arrows or chr(34)}{event.host}.{host}"'
    for phase, where, when in (("s", host, _microseconds(event.host - base)), ("f", tid, start)):
        ending = ',"bp":"e"' if phase == "f" else ""
        yield (
            f',\n{{"ph":"{phase}","cat":"ac2g","name":"ac2g","id":{number},"pid":{pid},'
            f'"tid":{where},"ts":{when}{ending}}}'
        )


def _mark(mark: Mark, pid: int, tid: int, base: int) -> str:
    name = f"ProfilerStep#{mark.name}" if mark.what == "step" else mark.name
    return (
        f'{{"ph":"X","cat":"user_annotation","name":{json_text(name)},"pid":{pid},"tid":{tid},'
        f'"ts":{_microseconds(mark.t0 - base)},"dur":{_microseconds(mark.t1 - mark.t0)},'
        f'"args":{{"what":{json_text(mark.what)}}}}}'
    )


class _Memory:
    """Every change of the bytes alive: time, category, difference; three numbers each."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}  # id -> (category, bytes)
        self._columns = array("q"), array("q"), array("q")

    def note(self, record: Any) -> None:
        if isinstance(record, Allocation):
            kind = CATEGORIES.index(record.category)
            self._known[record.id] = kind, record.bytes
            self._step(record.t, kind, record.bytes)
            return
        kind, size = self._known.pop(record.id, (0, 0))
        self._step(record.t, kind, -size)
        if isinstance(record, Category):
            kind = CATEGORIES.index(record.category)
            self._known[record.id] = kind, size
            self._step(record.t, kind, size)

    def _step(self, t: int, kind: int, change: int) -> None:
        for column, value in zip(self._columns, (t, kind, change), strict=True):
            column.append(value)

    def counters(self) -> Iterator[tuple[int, dict[str, int]]]:
        """(time, bytes by category) after the changes of each moment; at most MOST_COUNTERS."""
        times, kinds, changes = map(np.asarray, self._columns)
        if not len(times):
            return
        order = np.argsort(times, kind="stable")
        every = max(1, len(times) // MOST_COUNTERS)
        live = dict.fromkeys(CATEGORIES, 0)
        last = len(order) - 1
        for at, i in enumerate(order.tolist()):
            live[CATEGORIES[kinds[i]]] += int(changes[i])
            moment_over = at == last or times[order[at + 1]] != times[i]
            if moment_over and (at % every == 0 or every == 1 or at == last):
                yield int(times[i]), {name: max(0, n) for name, n in live.items()}


class _Links:
    """Where each recorded op ran forward and backward: a few numbers each, in arrays."""

    def __init__(self) -> None:
        self._columns = {
            kind: (array("q"), array("q"), array("q")) for kind in ("forward", "backward")
        }

    def note(self, event: Event, tid: int) -> None:
        if event.seq is not None and event.kind != "pass":
            for column, value in zip(self._columns[event.kind], (event.seq, tid, event.t0)):
                column.append(value)

    def arrows(self) -> Iterator[tuple[str, int, int, int]]:
        """("s" or "f", seq, tid, time): one start per forward that ran backward, then its ends."""
        seqs, tids, times = map(np.asarray, self._columns["forward"])
        order = np.argsort(seqs, kind="stable")
        started = set()
        for seq, tid, t in zip(*self._columns["backward"], strict=True):
            at = np.searchsorted(seqs, seq, sorter=order)
            if at == len(order) or seqs[order[at]] != seq:
                continue  # its forward ran before the log began
            if seq not in started:
                started.add(seq)
                yield "s", seq, int(tids[order[at]]), int(times[order[at]])
            yield "f", seq, tid, t
