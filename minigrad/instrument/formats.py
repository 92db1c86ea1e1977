"""The two file formats that tools depend on: `minigrad.graph` and `minigrad.events`.

A graph dump is one JSON document, an event log is JSON lines; `graph.schema.json` and
`events.schema.json` in this folder define their contents exactly. Both begin with the same
header. Readers refuse a newer major version, keep fields they do not know, bound their memory, and
never execute anything. Any fault of a file is one FormatError.
"""

import json
import os
import platform
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from ..errors import FormatError
from ..version import __version__
from .reading import DAMAGED, opened
from .records import (
    DEFINITIONS,
    MAX_NAME,
    MAX_TEXTS,
    NO_ARRAYS,
    Allocation,
    Category,
    DeviceEvent,
    Event,
    Held,
    Kept,
    Mark,
    Record,
    Release,
    Sample,
    Source,
    device_fault,
    end_fault,
    event_fault,
    is_count,
    kept_fault,
    mark_fault,
    memory_fault,
    sample_fault,
)
from .writing import write_whole, written_whole

__all__ = [
    "EVENTS", "GRAPH", "MAX_NAME", "VERSION", "Event", "EventReader", "check_header",
    "cotangents_of", "header", "is_count", "json_text", "parse_json", "read_graph", "write_whole",
    "written_whole",
]  # fmt: skip

GRAPH, EVENTS = "minigrad.graph", "minigrad.events"
VERSION = (1, 0)  # major and minor
_VERSIONS = {
    # 1.1: work, stacks, memory, marks, its own share; 1.2: GPU times; 1.3: left_out; 1.4: source;
    # 1.5: samples, kept, came; 1.6: uncertain_ns; 1.7: marking_ns; 1.8: text
    EVENTS: (1, 8),
    # 1.1: FLOPs, checks against finite differences; 1.2: untracked inputs; 1.3: histograms
    GRAPH: (1, 3),
}
MAX_GRAPH_BYTES = 512 << 20
MAX_LINE_BYTES = 1 << 20
MAX_DEFINITIONS = 1_000_000  # sites, scopes, signatures, threads, streams that a log may name


def header(format_name: str) -> dict[str, Any]:
    """The fields every file begins with: what wrote it, and on what."""
    cupy = sys.modules.get("cupy")
    return {
        "format": format_name,
        "version": list(_VERSIONS.get(format_name, VERSION)),
        "minigrad": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cupy": cupy.__version__ if cupy is not None else None,
        "device": "cpu",
        "clock": "perf_counter_ns",
    }


def json_text(value: Any) -> str:
    """Compact JSON; NaN and Infinity, which JSON does not have, are refused."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def parse_json(text: bytes | str, what: str) -> Any:
    """The parsed document, or FormatError; `what` is what the message calls it."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise FormatError(f"{what}: nested too deeply") from None
    except ValueError as error:
        reason = "it is empty" if not text.strip() else str(error)[:100]
        if isinstance(error, UnicodeDecodeError):
            reason = "it is not UTF-8 text"
        raise FormatError(f"{what}: not whole JSON ({reason})") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def check_header(document: Any, format_name: str, what: str) -> None:
    """FormatError unless this is a header of that format in a version that we read."""
    found = document.get("format") if isinstance(document, dict) else None
    if found == GRAPH != format_name:
        raise FormatError(f"{what}: it is a graph, which minigrad-viz draws, not an event log")
    if found != format_name:
        raise FormatError(f'{what}: no "format": "{format_name}" at its start')
    version = document.get("version")
    if not isinstance(version, list) or len(version) != 2 or not all(map(is_count, version)):
        raise FormatError(f'{what}: "version" should be two integers such as [1, 0]')
    if version[0] != VERSION[0]:
        relation = "a newer" if version[0] > VERSION[0] else "an older"
        raise FormatError(
            f"{what}: written by {relation} minigrad (format {version[0]}.{version[1]}); this one "
            f"reads {VERSION[0]}.x. Use the same version of minigrad-engine to read it"
        )


def cotangents_of(g: Any) -> list:
    """The arrays in what a node's backward was given: of an op with several outputs, those used."""
    if isinstance(g, dict):
        g = list(g.values())
    return [part for part in (g if isinstance(g, list | tuple) else [g]) if part is not None]


# -- graph -----------------------------------------------------------------------------------------


def read_graph(path: str, max_bytes: int = MAX_GRAPH_BYTES) -> dict[str, Any]:
    """The graph dump in a file, its links checked; unknown fields are kept."""
    try:
        with opened(path) as file:
            data = file.read(max_bytes + 1)
    except DAMAGED:
        raise FormatError(f"{path}: its compressed data is damaged or cut off") from None
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from None
    if len(data) > max_bytes:
        raise FormatError(f"{path}: larger than {max_bytes:,} bytes; raise max_bytes to read it")
    document = parse_json(data, path)
    check_header(document, GRAPH, path)
    for key in ("nodes", "edges", "roots"):
        if not isinstance(document.get(key), list):
            raise FormatError(f'{path}: "{key}" should be a list')
    _check_links(document, path)
    return document


def _check_links(document: dict, path: str) -> None:
    """Every node has its own id, and every edge, root and step names a node."""
    ids = set()
    for at, node in enumerate(document["nodes"]):
        identity = node.get("id") if isinstance(node, dict) else None
        if not is_count(identity) or identity in ids:
            raise FormatError(f"{path}: nodes[{at}] should have a unique id, an integer")
        ids.add(identity)
    backward = document.get("backward") or {}
    steps = backward.get("steps", []) if isinstance(backward, dict) else None
    if not isinstance(steps, list):
        raise FormatError(f'{path}: "backward" should be an object with a list of steps')
    named = [("edges", edge, key) for edge in document["edges"] for key in ("producer", "consumer")]
    named += [("steps", step, "node") for step in steps]
    for where, record, key in named:
        if not isinstance(record, dict) or not _is_among(record.get(key), ids):
            raise FormatError(f'{path}: one of the {where} has a "{key}" that is not a node')
    if not all(_is_among(root, ids) for root in document["roots"]):
        raise FormatError(f"{path}: one of the roots is not a node")


def _is_among(identity: Any, ids: set) -> bool:
    return is_count(identity) and identity in ids


# -- event log -------------------------------------------------------------------------------------


class EventReader:
    """An event log read line by line: `header` at once, then its lines by iterating, once.

    Iterating gives the events of ops; `records()` gives every line: Event, DeviceEvent, Mark,
    Allocation, Category and Release. When all have been read, `events` and `dropped` hold the log's
    own counts and `end` its last line, with what recording cost. Memory is bounded by the
    definitions (sites, signatures ...), not by the number of events.

    salvage   read a log that was cut off (its program killed, the disk full) up to the cut; `cut`
              then says so in one line. Without it that is a FormatError.
    """

    def __init__(self, path: str, salvage: bool = False):
        self.path = path
        self.salvage = salvage
        self.cut: str | None = None
        self.events = self.dropped = 0
        self.end: dict[str, Any] = {}
        self.threads: dict[int, str] = {}
        self.workers: dict[int, int | None] = {}
        self.streams: dict[int, str] = {}
        self.sources: dict[str, Source] = {}  # by file
        self._texts = 0  # characters in those
        self._defined: dict[str, dict[int, Any]] = {what: {} for what in DEFINITIONS}
        try:
            self._file: BinaryIO = opened(path)
        except OSError as error:
            hint = ""
            if os.path.exists(f"{path}.partial"):
                hint = f"; {path}.partial is there, of a program that runs or was killed"
            raise FormatError(f"{path}: cannot be read ({error.strerror}){hint}") from None
        try:
            self.header = self._line(1)
            check_header(self.header, EVENTS, path)
            if not is_count(self.header.get("base_ns")):
                raise FormatError(f'{path}: "base_ns" should be an integer')
        except OSError as error:
            self._file.close()
            raise FormatError(f"{path}: cannot be read ({error.strerror})") from None
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> "EventReader":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        return (record for record in self.records() if isinstance(record, Event))

    def records(self) -> Iterator[Record]:
        """Every line of the log that is not a definition, in the order of writing."""
        number, count = 1, 0  # lines, events
        while True:
            number += 1
            try:
                record = self._line(number, count)
            except _CutOff as cut:
                if not self.salvage:
                    raise
                self.cut, self.events = str(cut), count
                return
            kind = record.get("kind")
            if kind in ("forward", "backward", "pass"):
                count += 1
                yield self._event(record, number)
            elif kind == "define":
                self._define(record, number)
            elif kind == "end":
                self.events, self.dropped = record.get("events", 0), record.get("dropped", 0)
                if not (is_count(self.dropped) and is_count(self.events) and self.events <= count):
                    raise FormatError(f"{self._at(number)}: the log's end does not fit its events")
                if fault := end_fault(record):
                    raise FormatError(f"{self._at(number)}: {fault}")
                self.end = record
                return
            elif kind == "device":
                yield self._on_device(record, number)
            elif kind == "sample":
                yield self._sample(record, number)
            elif kind == "kept":
                yield self._kept(record, number)
            elif kind in _OTHERS:
                yield self._other(record, number)
            # lines of other kinds come from newer minor versions: passed over

    def _at(self, number: int) -> str:
        return f"{self.path}, line {number}"

    def _line(self, number: int, events: int = 0) -> dict[str, Any]:
        try:
            line = self._file.readline(MAX_LINE_BYTES + 1)
        except DAMAGED:  # the rest of a compressed file: as of one that was cut off
            line = b""
        if len(line) > MAX_LINE_BYTES:
            raise FormatError(f"{self._at(number)}: longer than {MAX_LINE_BYTES:,} bytes")
        if not line.endswith(b"\n"):
            if number == 1:
                check_header(parse_json(line, self.path), EVENTS, self.path)
            raise _CutOff(
                f"{self.path}: cut off after {events:,} events (line {number}): the program that "
                "wrote it was killed, or the disk was full"
            )
        record = parse_json(line, self._at(number) if number > 1 else self.path)
        if not isinstance(record, dict):
            raise FormatError(f"{self._at(number)}: should be a JSON object")
        return record

    def _define(self, record: dict[str, Any], number: int) -> None:
        what: Any = record.get("what")
        identity: Any = record.get("id")
        table = self._defined.get(what) if isinstance(what, str) else None
        if table is None:
            return
        checked: Any = DEFINITIONS[what](record)
        if checked is not None and what == "stack":
            sites = self._defined["site"]
            checked = tuple([sites[i] for i in checked]) if sites.keys() >= {*checked} else None
        if not is_count(identity) or checked is None:
            raise FormatError(f"{self._at(number)}: a {what} that is not whole")
        if sum(map(len, self._defined.values())) >= MAX_DEFINITIONS:
            raise FormatError(f"{self.path}: more than {MAX_DEFINITIONS:,} definitions")
        if what == "source":
            file, source = checked
            self._texts += len(source.text or "")
            self.sources[file] = source if self._texts <= MAX_TEXTS else Source(source.sha256)
            checked = file
        table[identity] = checked
        if what == "stream":
            self.streams[identity] = checked
        elif what == "thread":
            worker = record.get("worker")
            self.threads[identity] = checked
            self.workers[identity] = worker if is_count(worker) else None

    def _named(
        self, record: dict[str, Any], what: str, otherwise: Any, key: str | None = None
    ) -> Any:
        key = key or what
        return self._defined[what][record[key]] if key in record else otherwise

    def _event(self, record: dict[str, Any], number: int) -> Event:
        fault = event_fault(record)
        if fault:
            raise FormatError(f"{self._at(number)}: {fault}")
        get = record.get
        try:
            thread = record["thread"]
            self._defined["thread"][thread]
            arrays = self._named(record, "arrays", NO_ARRAYS)
            scope = self._named(record, "scope", "")
            site = self._named(record, "site", None)
            stack = self._named(record, "stack", ())
            came = self._named(record, "site", None, "came")
        except (KeyError, TypeError):
            raise FormatError(f"{self._at(number)}: refers to something not defined") from None
        return Event(
            record["kind"], record["op"], record["t0"], record["t1"], thread, get("seq"), arrays,
            arrays["bytes"], scope, site, get("flops"), get("moved"), stack, came,
        )  # fmt: skip

    def _on_device(self, record: dict[str, Any], number: int) -> DeviceEvent:
        fault = device_fault(record)
        if fault:
            raise FormatError(f"{self._at(number)}: {fault}")
        try:
            stream, thread = record["stream"], record["thread"]
            self._defined["stream"][stream]
            self._defined["thread"][thread]
        except (KeyError, TypeError):
            raise FormatError(f"{self._at(number)}: refers to something not defined") from None
        return DeviceEvent(
            record["of"], record["op"], record["host"], record["t0"], record["t1"], stream, thread,
            record.get("seq"),
        )  # fmt: skip

    def _sample(self, record: dict[str, Any], number: int) -> Sample:
        fault = sample_fault(record)
        if fault:
            raise FormatError(f"{self._at(number)}: {fault}")
        try:
            stack, thread = self._defined["stack"][record["stack"]], record["thread"]
            self._defined["thread"][thread]
        except (KeyError, TypeError):
            raise FormatError(f"{self._at(number)}: refers to something not defined") from None
        if not stack:
            raise FormatError(f"{self._at(number)}: a sample without a frame")
        get: Any = record.get
        return Sample(get("t"), thread, stack, get("doing"), get("via"), get("inside"))

    def _kept(self, record: dict[str, Any], number: int) -> Kept:
        fault = kept_fault(record)
        if fault:
            raise FormatError(f"{self._at(number)}: {fault}")
        try:
            site, made = (self._defined["site"][record[key]] for key in ("site", "made"))
        except (KeyError, TypeError):
            raise FormatError(f"{self._at(number)}: refers to something not defined") from None
        get: Any = record.get
        return Kept(
            get("t"), get("nodes"), get("bytes"), get("first"), get("last"), get("holder"), site,
            made,
        )  # fmt: skip

    def _other(self, record: dict[str, Any], number: int) -> Record:
        kind = record["kind"]
        fault = mark_fault(record) if kind == "mark" else memory_fault(record)
        if fault:
            raise FormatError(f"{self._at(number)}: {fault}")
        if kind == "category":
            return Category(record["id"], record["t"], record["category"])
        if kind == "held":
            return Held(record["id"], record["used"], record["used_forward"])
        if kind == "release":
            return Release(record["id"], record["t"], record["used"], record["used_forward"])
        get: Any = record.get
        try:
            thread = record["thread"]
            self._defined["thread"][thread]
            scope = self._named(record, "scope", "")
            site = self._named(record, "site", None)
        except (KeyError, TypeError):
            raise FormatError(f"{self._at(number)}: refers to something not defined") from None
        if kind == "mark":
            return Mark(get("what"), get("name"), get("t0"), get("t1"), thread, scope, site)
        return Allocation(
            get("id"), get("t"), get("bytes"), get("category"), get("phase"), get("op"),
            get("seq"), thread, scope, site, tuple(get("shape")), get("dtype"),
        )  # fmt: skip


_OTHERS = ("mark", "alloc", "category", "release", "held")


class _CutOff(FormatError):
    """The log ends in the middle."""
