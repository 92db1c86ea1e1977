"""The event logs of several ranks as one: a trace with a group of lanes a rank, and a table.

    minigrad-profile merge run.rank-*.jsonl --chrome trace.json

The logs come from mg.distributed.event_log, which marks in each the moment at which a barrier let
all ranks go. These moments become one moment in the trace. Logs without it are aligned by their
wall clocks.
"""

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from minigrad.instrument.chrome import trace
from minigrad.instrument.formats import EventReader, is_count, written_whole
from minigrad.instrument.records import Mark
from minigrad.instrument.table import cells

from .names import fitted

Span = tuple[int, int]
_NAME = 24  # columns of a rank's name, which has any length in a log


@dataclass(slots=True)
class Rank:
    """The numbers of one rank's log; times in milliseconds.

    communication   while transfers of gradients were under way
    exposed         the part of it in which the program waited for them
    waiting         all waits for other ranks, including those of single collectives
    """

    name: str
    log: str
    transfers: int
    communication: float
    exposed: float
    waiting: float
    steps: int
    base: int  # time 0 of the log, on its own clock
    offset: int  # nanoseconds to add to the log's times
    cut: str | None

    @property
    def hidden(self) -> float | None:
        """The share of the communication during which the program did its own work; None without
        any."""
        return 1 - self.exposed / self.communication if self.communication else None


@dataclass(slots=True)
class Merged:
    """The ranks in order; base: time 0 of the merged trace."""

    ranks: list[Rank]
    base: int

    def text(self) -> str:
        """The table, in milliseconds."""
        names = [fitted(rank.name, _NAME) for rank in self.ranks]
        wide = max(10, *[cells(name) + 1 for name in names])
        head = f"{'rank':<{wide}}{'transfers':>10}{'communication':>15}{'exposed':>10}"
        lines = [f"{head}{'hidden':>8}{'waiting':>10}{'steps':>7}"]
        for name, rank in zip(names, self.ranks, strict=True):
            hidden = "-" if rank.hidden is None else f"{rank.hidden:.0%}"
            label = name + " " * (wide - cells(name))
            lines.append(
                f"{label}{rank.transfers:>10,}{rank.communication:>15,.2f}"
                f"{rank.exposed:>10,.2f}{hidden:>8}{rank.waiting:>10,.2f}{rank.steps:>7,}"
            )
        lines.append("times in ms; hidden: the share of the communication during which the program")
        lines.append("did its own work; waiting: in all collectives together")
        return "\n".join(lines)

    def notes(self) -> list[str]:
        """The ranks that the logs mention but that have no log here, and those with several
        logs."""
        spoken = [rank.name.split(" of ") for rank in self.ranks]
        pairs = [(int(p[0]), int(p[1])) for p in spoken if len(p) == 2 and all(map(_small, p))]
        seen = Counter(number for number, _ in pairs)
        size = max((size for _, size in pairs), default=0)
        notes = [f"rank {number} has {count} logs" for number, count in seen.items() if count > 1]
        missing = [str(i) for i in range(min(size, len(seen) + 9)) if i not in seen]
        if missing:
            more = ", ..." if len(missing) > 8 else ""
            notes.append(f"of {size:,} ranks no log is here of: {', '.join(missing[:8])}{more}")
        return notes

    def json(self) -> str:
        """The same as JSON."""
        rows = [asdict(rank) | {"hidden": rank.hidden} for rank in self.ranks]
        return json.dumps(rows, indent=1)

    def write_chrome(self, out: str | os.PathLike) -> None:
        """One trace for Perfetto: a group of lanes for each rank, on a common clock."""
        with written_whole(os.fspath(out)) as file:
            file.write('{"displayTimeUnit":"ns","traceEvents":[\n')
            for number, rank in enumerate(self.ranks):
                with EventReader(rank.log, salvage=True) as reader:
                    label = f"rank {rank.name}"
                    pieces = trace(reader, number + 1, self.base - rank.offset, label)
                    next(pieces)  # the head
                    before = ""
                    for piece in pieces:
                        if before:
                            file.write(before)
                        elif number:
                            piece = ",\n" + piece
                        before = piece
            file.write("\n]}\n")


def _small(text: str) -> bool:
    return text.isdecimal() and len(text) < 10


def merged(logs: Sequence[str]) -> Merged:
    """Read the logs of all ranks; FormatError for one that cannot be read."""
    if not logs:
        raise ValueError("merge: give the logs of the ranks, such as run.rank-*.jsonl")
    found = sorted([_read(log) for log in logs], key=lambda entry: entry[0])
    starts = [start for _, start, _, _ in found]
    if all(start is not None for start in starts):
        offsets = [starts[0] - start for start in starts]  # type: ignore[operator]
    else:  # aligned by their wall clocks
        offsets = [clock - found[0][2] for _, _, clock, _ in found]
    for (_, _, _, rank), offset in zip(found, offsets, strict=True):
        rank.offset = offset
    ranks = [rank for _, _, _, rank in found]
    return Merged(ranks, ranks[0].base)


def _read(log: str) -> tuple[tuple, int | None, int, Rank]:
    """(sort key, the common moment on this log's clock, its clock's zero, numbers) of a log."""
    transfers: list[Span] = []
    waits: list[Span] = []
    name, start, steps = "", None, 0
    with EventReader(log, salvage=True) as reader:
        for record in reader.records():
            if not isinstance(record, Mark):
                continue
            if record.what == "communication":
                transfers.append((record.t0, record.t1))
            elif record.what == "waiting":
                waits.append((record.t0, record.t1))
            elif record.what == "step":
                steps += 1
            elif record.what == "rank" and start is None:
                name, start = record.name, record.t1
        unix = reader.header.get("base_unix_ns")
        base = reader.header["base_ns"]
        cut = reader.cut
    moving, idle = united(transfers), united(waits)
    exposed = sum(b - a for a, b in common(moving, idle))
    rank = Rank(
        name or os.path.basename(log), log, len(transfers), length(moving) / 1e6, exposed / 1e6,
        length(idle) / 1e6, steps, base, 0, cut,
    )  # fmt: skip
    number = name.partition(" ")[0]
    clock = (unix if is_count(unix) else 0) - base
    return (0, int(number), log) if number.isdecimal() else (1, 0, log), start, clock, rank


# -- stretches of time -----------------------------------------------------------------------------


def united(spans: list[Span]) -> list[Span]:
    """The same time without overlaps, in order."""
    result: list[Span] = []
    for a, b in sorted(spans):
        if result and a <= result[-1][1]:
            result[-1] = (result[-1][0], max(b, result[-1][1]))
        else:
            result.append((a, b))
    return result


def common(first: list[Span], second: list[Span]) -> list[Span]:
    """The time that lies in both; each is in order and without overlaps."""
    result, i, k = [], 0, 0
    while i < len(first) and k < len(second):
        a, b = max(first[i][0], second[k][0]), min(first[i][1], second[k][1])
        if a < b:
            result.append((a, b))
        if first[i][1] < second[k][1]:
            i += 1
        else:
            k += 1
    return result


def length(spans: list[Span]) -> int:
    """The total length of the spans."""
    return sum(b - a for a, b in spans)
