"""An event log as a Chrome trace, for Perfetto (ui.perfetto.dev) and chrome://tracing.

One lane per thread, a slice per event, an arrow from each forward slice to its backward slice.
Names follow PyTorch's traces (cat "cpu_op", "fwdbwd", "Sequence number"), so that tools made for
those read ours. Times are microseconds from the start of the log, printed with three decimals from
whole nanoseconds: rounded numbers could make slices overlap, and viewers then drop them.
"""

import os
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from .formats import Event, EventReader, json_text, written_whole


def write_chrome(log: str, out: str | os.PathLike) -> None:
    """Convert the event log `log` into the trace file `out`, whole or not at all."""
    with EventReader(log) as reader, written_whole(os.fspath(out)) as file:
        for text in _trace(reader):
            file.write(text)


def _trace(reader: EventReader) -> Iterator[str]:
    pid = reader.header.get("pid") or 1
    base = reader.header["base_ns"]
    lanes: dict[int, int] = {}  # thread -> tid; numbered from 1, since 0 means something else
    links = _Links()
    yield '{"displayTimeUnit":"ns","traceEvents":[\n'
    yield json_text(_label("process_name", pid, 0, "minigrad"))
    for event in reader:
        tid = lanes.setdefault(event.thread, len(lanes) + 1)
        yield ",\n" + _slice(event, pid, tid, base)
        links.note(event, tid)
    for thread, tid in lanes.items():
        yield ",\n" + json_text(_label("thread_name", pid, tid, reader.threads[thread]))
    for phase, seq, tid, t in links.arrows():
        ending = ',"bp":"e"' if phase == "f" else ""
        yield (
            f',\n{{"ph":"{phase}","cat":"fwdbwd","name":"fwdbwd","id":{seq},"pid":{pid},'
            f'"tid":{tid},"ts":{_microseconds(t - base)}{ending}}}'
        )
    yield "\n]}\n"


def _label(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _microseconds(ns: int) -> str:
    """The exact decimal; an event from before the log's start has a negative time."""
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def _slice(event: Event, pid: int, tid: int, base: int) -> str:
    name = f"{event.op}.backward" if event.kind == "backward" else event.op
    category = "user_annotation" if event.kind == "pass" else "cpu_op"
    inputs, outputs = event.arrays["inputs"], event.arrays["outputs"]
    args: dict[str, Any] = {
        "Input Dims": [x["shape"] for x in inputs],
        "Input type": [x["dtype"] for x in inputs],
        "Output Dims": [y["shape"] for y in outputs],
        "Output bytes": event.bytes,
    }
    if event.seq is not None:
        args["Sequence number"] = event.seq
    if event.scope:
        args["Scope"] = event.scope
    if event.site:
        args["Call stack"] = f"{event.site['file']}({event.site['line']}): {event.site['function']}"
    return (
        f'{{"ph":"X","cat":"{category}","name":{json_text(name)},"pid":{pid},"tid":{tid},'
        f'"ts":{_microseconds(event.t0 - base)},"dur":{_microseconds(event.t1 - event.t0)},'
        f'"args":{json_text(args)}}}'
    )


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
