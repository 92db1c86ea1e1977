"""Streams and events for the stand-in of CuPy, which find what a missing wait would let go wrong.

Work runs at once here, in the order of the host, so a race changes no number. Instead each stream
counts what it is given and knows how far the other streams must have come before its next work may
run (a vector clock: recording copies it, waiting merges it). From that follow two kinds of fault:

- an array is read or written by a stream that has not waited for what was written or read before;
- memory is freed, so that the next array of the stream in which it was allocated may get it, while
  another stream may still use it: CuPy's pool keeps what is free by stream.

A RuntimeError ends work of one GPU on the memory of another one.

`faults` says each in a sentence. The device is as slow as it can be: an event is done only when the
host has waited for it or for something behind it.
"""

import itertools
import threading
import weakref
from time import perf_counter
from typing import Any

faults: list[str] = []
waits: list[tuple[int, int]] = []  # (the stream that waits, the stream of the event), in order
ranges: list[tuple[int, str]] = []  # NVTX ranges as they opened: (how deep, name)
closed: list[str] = []  # and as they closed
_lock = threading.RLock()
_local = threading.local()
_numbers = itertools.count(1000)
_streams: weakref.WeakSet["Stream"] = weakref.WeakSet()
_finished: dict[int, int] = {}  # stream -> how much of it the host knows to be done
_blocks: dict[int, "_Block"] = {}  # by the id of the NumPy array that owns the memory
_free: dict[int, list["_Block"]] = {}  # stream -> what its next arrays may get


def _covers(clock: dict, uses: dict) -> bool:
    return all(clock.get(stream, 0) >= tick for stream, tick in uses.items())


def _merge(clock: dict, other: dict) -> None:
    with _lock:
        for stream, tick in other.items():
            clock[stream] = max(clock.get(stream, 0), tick)


class Event:
    def __init__(self, block: bool = False, disable_timing: bool = False, **_: Any):
        self.timed = not disable_timing
        self.clock: dict[int, int] = {}
        self.stream: Any = None

    def record(self, stream: "Stream | None" = None) -> None:
        self.stream = stream or current()
        with _lock:
            self.clock = dict(self.stream.clock)
        self.time = perf_counter()

    @property
    def done(self) -> bool:
        with _lock:
            return _covers(_finished, self.clock)

    def synchronize(self) -> None:
        _merge(_finished, self.clock)


class Stream:
    def __init__(self, null: bool = False, non_blocking: bool = False, **_: Any):
        self.ptr, self.device = 0 if null else next(_numbers), device()
        _streams.add(self)
        self.clock: dict[int, int] = {}

    def tick(self) -> int:
        self.clock[self.ptr] = self.clock.get(self.ptr, 0) + 1
        return self.clock[self.ptr]

    def record(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        waits.append((self.ptr, event.stream.ptr))
        _merge(self.clock, event.clock)

    def synchronize(self) -> None:
        _merge(_finished, self.clock)

    @property
    def done(self) -> bool:
        with _lock:
            return _covers(_finished, self.clock)

    def is_capturing(self) -> bool:
        return False

    def __enter__(self) -> "Stream":
        _local.__dict__.setdefault("entered", []).append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _local.entered.pop()


def device() -> int:
    """The number of this thread's current GPU."""
    return getattr(_local, "device", 0)


def set_device(number: int) -> None:
    _local.device = number


null = Stream(null=True)
_nulls = {0: null}


def wait_for_all() -> None:
    """The host waits for the device."""
    for stream in list(_streams):
        stream.synchronize()


def current() -> Stream:
    """The stream of this thread on its current GPU."""
    here = device()
    entered = [s for s in getattr(_local, "entered", ()) if s.device == here]
    if not entered and here not in _nulls:
        _nulls[here] = Stream(null=True)
        _nulls[here].ptr = -here  # in the clocks; the address is 0 on each GPU
    return entered[-1] if entered else _nulls[here]


def elapsed(first: Event, last: Event) -> float:
    """Milliseconds between two marks; as in CUDA, both must be timed."""
    if not (first.timed and last.timed):
        raise ValueError("cudaErrorInvalidResourceHandle: an event without timing")
    return (last.time - first.time) * 1e3


def push(name: str) -> None:
    """NVTX: a range opens in this thread."""
    _local.__dict__.setdefault("ranges", []).append(name)
    ranges.append((len(_local.ranges) - 1, name))


def pop() -> None:
    """NVTX: this thread's innermost range closes; an error where there is none."""
    closed.append(_local.ranges.pop())


def reset() -> None:
    """Forget everything that was seen."""
    for known in (faults, waits, ranges, closed, _finished, _blocks, _free):
        known.clear()
    for stream in _nulls.values():
        stream.clock.clear()
    set_device(0)


# -- what the stand-in's arrays tell ---------------------------------------------------------------


class _Block:
    """Memory: the stream in which it was allocated, the last write, and the last use by stream."""

    def __init__(self, root: Any, stream: Stream, tick: int):
        self.home, self.device = stream.ptr, device()
        self.written = {stream.ptr: tick}
        self.uses = {stream.ptr: tick}
        identity = id(root)
        self.ref = weakref.ref(root, lambda _: _freed(identity, self))


def _freed(identity: int, block: _Block) -> None:
    with _lock:
        if _blocks.get(identity) is block:
            del _blocks[identity]
            _free.setdefault(block.home, []).append(block)


def owner(a: Any) -> Any:
    """The array that owns the memory of a."""
    while a.base is not None and hasattr(a.base, "ctypes"):
        a = a.base
    return a


def device_of(a: Any) -> int:
    """The number of the GPU in whose memory `a` lies."""
    block = _blocks.get(id(owner(a)))
    return device() if block is None else block.device


def made(a: Any) -> None:
    """A device array around `a` exists: an allocation and a write, unless it is a view."""
    root, stream = owner(a), current()
    with _lock:
        if id(root) in _blocks:
            return
        tick = stream.tick()
        for block in _free.pop(stream.ptr, []):
            known = {**stream.clock}
            _merge(known, _finished)
            if not _covers(known, block.uses):
                faults.append(f"stream {stream.ptr} may get memory in use: {block.uses} {known}")
        _blocks[id(root)] = _Block(root, stream, tick)


def used(a: Any, written: bool = False, copied: bool = False) -> None:
    """Work of the current stream reads the memory of `a`, or writes it.

    copied: a copy from one GPU to another reads it.
    """
    root, stream = owner(a), current()
    with _lock:
        block = _blocks.get(id(root))
        if block is None:
            return made(a)
        if block.device != device() and not copied:
            what = "writes" if written else "reads"
            raise RuntimeError(f"GPU {device()} {what} memory of GPU {block.device}")
        tick = stream.tick()
        before = block.uses if written else block.written
        if not _covers(stream.clock, before):
            what = "writes" if written else "reads"
            faults.append(f"stream {stream.ptr} {what} what it has not waited for: {before}")
        block.uses[stream.ptr] = tick
        if written:
            block.written = {stream.ptr: tick}


def seen_by_host(a: Any) -> None:
    """The host has asked for values: it waits for the current stream."""
    used(a)
    current().synchronize()
