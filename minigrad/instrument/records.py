"""The records of an event log: one dataclass for each kind of line, and the check of a line."""

from dataclasses import dataclass
from typing import Any, NamedTuple

CATEGORIES = (
    "parameter", "gradient", "saved", "temporary", "input", "optimizer state", "other",
)  # fmt: skip
MAX_NAME = 1000  # characters of a name
MAX_FRAMES = 100  # of a stack
MAX_ARRAYS = 1000  # inputs, and outputs, described of one call
MAX_AXES = 64
MAX_SOURCES = 1000  # files whose digests a log holds
MAX_TEXT = 1 << 16  # characters of a notebook's cell whose text it holds,
MAX_TEXTS = 1 << 20  # and of all of them
CASTS = ("cast", "astype")  # ops whose wider result was asked for
_NARROW = ("float16", "bfloat16", "float32", "complex64")


def is_count(value: Any) -> bool:
    """Whether this is an integer from 0 to 2⁶³ − 1."""
    return type(value) is int and 0 <= value < 1 << 63


@dataclass(slots=True, frozen=True)
class Event:
    """One op, or one whole backward, with what its line refers to filled in.

    kind     "forward", "backward", or "pass" for a whole backward
    t0 t1    nanoseconds of the header's clock
    thread   number of the lane: reader.threads names it, reader.workers[thread] is its number in a
             parallel backward, or None
    seq      number of the graph node; the same in forward and backward; None: not recorded
    arrays   {"inputs": [...], "outputs": [...]} with shape, dtype and bytes of each
    bytes    of the outputs together
    site     {"file", "line", "function"} of the user's line, or None
    flops    floating-point operations, by the op's entry in minigrad.ops.work; None: not known
    moved    bytes read and written at the least: inputs once, outputs once
    stack    the sites of the callers, innermost first, where the log keeps stacks
    came     of a forward that made float64 of a narrower float: the site where that came in
    """

    kind: str
    op: str
    t0: int
    t1: int
    thread: int
    seq: int | None
    arrays: dict[str, Any]
    bytes: int
    scope: str
    site: dict[str, Any] | None
    flops: int | None = None
    moved: int | None = None
    stack: tuple = ()
    came: dict[str, Any] | None = None

    @property
    def promoted(self) -> bool:
        """Whether a forward made double precision of a narrower input, next to a wide one."""
        if self.kind != "forward" or self.op in CASTS:
            return False
        wide = any(y["dtype"] in ("float64", "complex128") for y in self.arrays["outputs"])
        return wide and any(x["dtype"] in _NARROW for x in self.arrays["inputs"])


@dataclass(slots=True, frozen=True)
class Allocation:
    """Memory that began to be held at time t: an array that owns its data, under a number `id`.

    phase     "forward", "backward", "optimizer", or "before" for what was there when first seen
    op seq    which op made it, None where none did; seq as in Event
    category  one of CATEGORIES, as far as it was known then; Category lines change it
    """

    id: int
    t: int
    bytes: int
    category: str
    phase: str
    op: str | None
    seq: int | None
    thread: int
    scope: str
    site: dict[str, Any] | None
    shape: tuple
    dtype: str


@dataclass(slots=True, frozen=True)
class Category:
    """The memory `id` is of another category from time t on."""

    id: int
    t: int
    category: str


@dataclass(slots=True, frozen=True)
class Release:
    """The memory `id` was given back at time t.

    used, used_forward   when an op last read or made it; when an op of a forward last did
    """

    id: int
    t: int
    used: int
    used_forward: int


@dataclass(slots=True, frozen=True)
class Held:
    """The memory `id` is still there as the log ends; used, used_forward: as in Release."""

    id: int
    used: int
    used_forward: int


@dataclass(slots=True, frozen=True)
class Mark:
    """A stretch of a thread's time that is not an op (t0 < t1), or a moment (t0 = t1).

    what   "scope" (name: its path), "step" (name: its number; from the step's begin to its end),
           "optimizer" (an optimizer's step), "hook" (a user's hook that a backward ran),
           "communication" (a transfer between ranks), "waiting" (the program waits for one),
           "rank" (name: "1 of 4"; the moment at which all ranks began their logs)
    """

    what: str
    name: str
    t0: int
    t1: int
    thread: int
    scope: str
    site: dict[str, Any] | None


@dataclass(slots=True, frozen=True)
class Sample:
    """Where a thread was at time t, between ops or in one.

    stack   the sites of the user's frames, innermost first; never empty
    doing   "python", "library", "import" or "data" (a DataLoader's); via: what the line had called
    inside  how many of the frames the DataLoader has called
    """

    t: int
    thread: int
    stack: tuple
    doing: str
    via: str
    inside: int


@dataclass(slots=True, frozen=True)
class Kept:
    """At time t, nodes of steps that were over were still alive.

    nodes bytes   how many of those that were followed, and what these had saved
    first last    their numbers, as in Event.seq
    holder        the variable that keeps them, "" where it was not found
    site made     the line that adds to it; the line of the ops
    """

    t: int
    nodes: int
    bytes: int
    first: int
    last: int
    holder: str
    site: dict[str, Any]
    made: dict[str, Any]


@dataclass(slots=True, frozen=True)
class DeviceEvent:
    """One op, or one copy between host and device, as a GPU had it in one of its streams.

    of       "forward", "backward", or "to host" and "to device" (op is then "copy")
    host     t0 of the Event on the host that it belongs to
    t0 t1    when the device was there, in nanoseconds of the header's clock
    stream   number of the lane: reader.streams names it
    thread   of the host, as in Event; seq too
    """

    of: str
    op: str
    host: int
    t0: int
    t1: int
    stream: int
    thread: int
    seq: int | None


Record = Event | Allocation | Category | Release | Held | Mark | Sample | Kept | DeviceEvent


# -- definitions: each checked, and None where it is not whole -------------------------------------
# They are cut too: a few bytes of each event may name one, and what is written of it is long.


def _site(record: dict) -> dict | None:
    get: Any = record.get
    file, line, function = get("file"), get("line"), get("function")
    whole = isinstance(file, str) and is_count(line) and isinstance(function, str)
    if not whole:
        return None
    return {"file": file[-MAX_NAME:], "line": line, "function": function[:MAX_NAME]}


class Source(NamedTuple):
    """A file of the program as it ran: the SHA-256 of its text; of a notebook's cell the text."""

    sha256: str
    text: str | None = None


def _source(record: dict) -> tuple[str, Source] | None:
    file, digest, text = record.get("file"), record.get("sha256"), record.get("text")
    if isinstance(file, str) and isinstance(digest, str) and len(digest) == 64:
        held = isinstance(text, str) and len(text) <= MAX_TEXT
        return file[-MAX_NAME:], Source(digest, text if held else None)
    return None


def _name(record: dict) -> str | None:
    name = record.get("name")
    return name[:MAX_NAME] if isinstance(name, str) else None


def _stack(record: dict) -> tuple | None:
    frames: Any = record.get("frames")
    whole = isinstance(frames, list) and all(map(is_count, frames))
    return tuple(frames[:MAX_FRAMES]) if whole else None


def _arrays(record: dict) -> dict | None:
    """Inputs and outputs of a call, and the bytes of the outputs together."""
    inputs, outputs = record.get("inputs"), record.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        return None
    if not all(map(_is_array, [*inputs, *outputs])):
        return None
    left_out = record.get("left_out")
    more: Any = left_out.get("bytes") if isinstance(left_out, dict) else 0
    total = sum(array["bytes"] for array in outputs) + (more if is_count(more) else 0)
    return {"inputs": inputs[:MAX_ARRAYS], "outputs": outputs[:MAX_ARRAYS], "bytes": total}


def _is_array(array: Any) -> bool:
    if not isinstance(array, dict) or not isinstance(array.get("dtype"), str):
        return False
    whole = _is_shape(array.get("shape")) and is_count(array.get("bytes"))
    return whole and len(array["dtype"]) <= MAX_NAME


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list) and len(shape) <= MAX_AXES and all(map(is_count, shape))


DEFINITIONS = {
    "site": _site, "scope": _name, "thread": _name, "arrays": _arrays, "stack": _stack,
    "stream": _name, "source": _source,
}  # fmt: skip
NO_ARRAYS: dict[str, Any] = {"inputs": [], "outputs": [], "bytes": 0}


# -- lines: a complaint, or None where the line is whole -------------------------------------------


def event_fault(record: dict) -> str | None:
    """The fault in the line of an event, without its references."""
    get = record.get
    t0: Any = get("t0")
    t1: Any = get("t1")
    if not (is_count(t0) and is_count(t1) and t0 <= t1):
        return "an event needs t0 and t1, t0 not after t1"
    op = get("op")
    if not isinstance(op, str) or len(op) > MAX_NAME:
        return f'"op" should be a text of at most {MAX_NAME}'
    for name in ("seq", "flops", "moved"):
        if get(name) is not None and not is_count(get(name)):
            return f'"{name}" should be an integer or null'
    return None


_END_COUNTS = (
    "untracked", "marks", "steps", "wall_ns", "writing_ns", "hearing_ns",
    "marking_ns", "uncertain_ns", "recording_ns",
)  # fmt: skip


def end_fault(record: dict) -> str | None:
    """The fault in the last line, about the whole log."""
    for name in _END_COUNTS:
        if name in record and not is_count(record[name]):
            return f'"{name}" of the log\'s end should be an integer'
    return None


def mark_fault(record: dict) -> str | None:
    """The fault in the line of a mark."""
    what, name = record.get("what"), record.get("name")
    t0: Any = record.get("t0")
    t1: Any = record.get("t1")
    if not (is_count(t0) and is_count(t1) and t0 <= t1):
        return "a mark needs t0 and t1, t0 not after t1"
    if not isinstance(what, str) or not isinstance(name, str) or len(name) > MAX_NAME:
        return f"a mark needs what and name, texts of at most {MAX_NAME}"
    return None


def sample_fault(record: dict) -> str | None:
    """The fault in the line of a sample."""
    get = record.get
    if not (is_count(get("t")) and is_count(get("inside"))):
        return "a sample needs t and inside, integers"
    texts: Any = get("doing"), get("via")
    if not all(isinstance(text, str) and len(text) <= MAX_NAME for text in texts):
        return f"a sample needs doing and via, texts of at most {MAX_NAME}"
    return None


def kept_fault(record: dict) -> str | None:
    """The fault in the line of graphs that stayed."""
    for name in ("t", "nodes", "bytes", "first", "last"):
        if not is_count(record.get(name)):
            return f'"{name}" of what is kept should be an integer'
    holder = record.get("holder")
    whole = isinstance(holder, str) and len(holder) <= MAX_NAME
    return None if whole else f'"holder" should be a text of at most {MAX_NAME}'


def device_fault(record: dict) -> str | None:
    """The fault in the line of an op on a device, without its references."""
    if not isinstance(record.get("of"), str):
        return 'a device line needs "of", a text'
    if not is_count(record.get("host")):
        return "a device line needs host, an integer"
    return event_fault(record)


def memory_fault(record: dict) -> str | None:
    """The fault in the line of an allocation, a release or a category."""
    get, kind = record.get, record["kind"]
    if not (is_count(get("id")) and (kind == "held" or is_count(get("t")))):
        return f"{kind} needs id and t, integers"
    if kind in ("release", "held"):
        whole = is_count(get("used")) and is_count(get("used_forward"))
        return None if whole else f"{kind} needs used and used_forward, integers"
    if get("category") not in CATEGORIES:
        return f"the category should be one of {', '.join(CATEGORIES)}"
    if kind == "category":
        return None
    op, seq = get("op"), get("seq")
    if not (op is None or isinstance(op, str)) or not (seq is None or is_count(seq)):
        return "an allocation's op is a text or null, its seq an integer or null"
    if not (is_count(get("bytes")) and isinstance(get("phase"), str)):
        return "an allocation needs bytes and phase"
    if not (_is_shape(get("shape")) and isinstance(get("dtype"), str)):
        return "an allocation needs shape and dtype"
    return None
