"""Findings about memory: it waits for the backward, nobody reads it, or it grows."""

from minigrad.instrument.table import counted, duration, size

from .finding import Finding, short
from .names import often
from .report_memory import Memory

_OF_PEAK = 0.1  # of the run: assumed cost of the whole peak, to rank findings
_LEAK = 0.6  # the most that growing memory weighs, by the same measure
_LEAST_BYTES = 1 << 16  # less memory than that is no finding


def memory_findings(memory: Memory) -> list[Finding]:
    """All findings about memory; of each kind the weightiest come first."""
    return [*_hogs(memory), *_needless(memory), *_unread(memory), *_growing(memory)]


def _hogs(memory: Memory) -> list[Finding]:
    found = []
    for waiting in memory.waiting[:1]:
        if waiting.bytes < max(0.05 * memory.story.peak, _LEAST_BYTES):
            continue
        arrays = counted(waiting.count, "array")
        evidence = (
            f"{arrays} of {waiting.op}, {size(waiting.bytes)} of the {size(memory.story.waiting)} "
            f"that waited at most (the peak of everything is {size(memory.story.peak)}). The "
            f"forward last read them at "
            f"{duration(waiting.start_ns)}, the backward at {duration(waiting.stop_ns)}"
        )
        text = (
            "mg.checkpoint computes them again instead of keeping them; or an algebraically equal "
            "form with smaller intermediate arrays, a smaller batch, a narrower dtype"
        )
        title = f"memory hog: {size(waiting.bytes)} waits for the backward"
        part = _part(waiting.bytes, memory)
        found.append(Finding("memory", title, waiting.place, evidence, text, part))
    return found


def _needless(memory: Memory) -> list[Finding]:
    held = [o for o in memory.story.owners if o.place and o.category != "gradient"]
    held = [o for o in held if o.needless > max(0.1 * memory.story.peak, _LEAST_BYTES)]
    found = []
    for owner in sorted(held, key=lambda owner: -owner.needless)[:2]:
        end = owner.released_ns
        freed = "never freed" if end is None else f"freed at {duration(end)}"
        if owner.released_ns is not None and owner.released_ns - memory.story.peak_ns < 1_000_000:
            continue  # released right after the peak
        evidence = (
            f"{size(owner.needless)} of {owner.op} at the peak were last read at "
            f"{duration(owner.earliest_ns)} and {freed}"
        )
        text = "del the name that holds it, or let it go out of scope, after its last use"
        title = f"{size(owner.needless)} held after the last use"
        found.append(
            Finding("held", title, owner.place, evidence, text, _part(owner.needless, memory))
        )
    return found


def _unread(memory: Memory) -> list[Finding]:
    found = []
    for unread in memory.unread[:3]:
        shape = "×".join(map(str, unread.shape)) or "scalar"
        places = unread.first_use or ((unread.place,) if unread.place else ())
        used = f"; tensors of that shape enter at {', '.join(map(short, unread.first_use))}"
        evidence = (
            f"a gradient of shape {shape}, {size(unread.bytes)}, was computed "
            f"{often(unread.count)} (the backward at {short(unread.place)}) and read by no "
            "optimizer and no op"
            f"{used if unread.first_use else ''}"
        )
        text = "make that tensor without requires_grad, or detach it; its backward is not run then"
        title = "unused gradient: nobody reads it"
        where = places[0] if places else ""
        found.append(
            Finding("unused gradient", title, where, evidence, text, _part(unread.bytes, memory))
        )
    return found


def _growing(memory: Memory) -> list[Finding]:
    growth = memory.growth
    if growth is None:
        return []
    evidence = (
        f"after {growth.steps:,} optimizer steps {size(growth.after)} were alive, "
        f"{size(growth.before)} after the first; {growth.op} made most of the growth"
    )
    text = "something keeps old results: append loss.item() to lists, not the loss with its graph"
    grown = (growth.after - growth.before) / max(1, memory.story.peak)
    return [Finding("leak", "memory grows from step to step", growth.place, evidence, text,
                    min(_LEAK, grown), True)]  # fmt: skip


def _part(nbytes: int, memory: Memory) -> float:
    """Bytes as a part of the run: waiting memory costs no time, so it ranks behind findings that
    do."""
    return _OF_PEAK * nbytes / max(1, memory.story.peak)
