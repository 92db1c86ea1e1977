"""The report's part on memory: the results of `minigrad-profile memory`, and more of the whole run.

The live set at the peak does not show the arrays that wait for the backward at other moments. So
this module follows them through the whole log.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from minigrad.instrument.records import CATEGORIES, Allocation, Mark

from .memory import Columns, Story, alive_over_time, once, story_of, waiting
from .report_log import inert, inert_place

MOST_OWNERS = 200
_MOST_SHAPES = 200_000
_MOST_STEPS = 200  # optimizer steps looked at


@dataclass(slots=True)
class Waiting:
    """Arrays of one op on one line that wait for the backward: the most at once, and when.

    start_ns   when the forward had last read them: the earliest moment a recomputation could drop
               them
    stop_ns    when the backward had
    """

    op: str
    place: str
    scope: str
    bytes: int
    count: int
    start_ns: int
    stop_ns: int


@dataclass(slots=True)
class Unread:
    """Gradients that neither an op nor an optimizer read; first_use: lines of inputs of that
    shape."""

    place: str
    made_by: str
    shape: tuple
    bytes: int
    count: int
    first_use: tuple[str, ...]


@dataclass(slots=True)
class Growth:
    """Memory that grew from step to step, and the op and line of most of the growth."""

    steps: int
    before: int
    after: int
    place: str
    op: str


@dataclass(slots=True)
class Memory:
    """The memory of a log as the report and its advice use it."""

    story: Story
    waiting: list[Waiting]
    unread: list[Unread]
    growth: Growth | None

    def data(self) -> dict[str, Any]:
        """For the page."""
        story = self.story
        owners = [_shown(owner) for owner in story.owners[:MOST_OWNERS]]
        rest = story.owners[MOST_OWNERS:]
        return {
            "peak": story.peak,
            "peak_ns": story.peak_ns,
            "at_peak": story.at_peak,
            "possible": story.possible,
            "at_end": story.at_end,
            "allocations": story.allocations,
            "releases": story.releases,
            "untracked": story.untracked,
            "most_waiting": story.waiting,
            "most_waiting_ns": story.waiting_ns,
            "categories": list(CATEGORIES),
            "timeline": [
                [t, total, [kinds.get(name, 0) for name in CATEGORIES]]
                for t, total, kinds in story.timeline
            ],
            "owners": owners,
            "rest": [len(rest), sum(owner.bytes for owner in rest)],
            "waiting": [
                _shown(w)
                for w in self.waiting[:MOST_OWNERS]
            ],
        }  # fmt: skip


def _shown(found: Any) -> dict[str, Any]:
    """An owner or a waiting array, with texts that are safe to show."""
    return asdict(found) | {
        "op": inert(found.op, 60), "place": inert_place(found.place), "scope": inert(found.scope),
    }  # fmt: skip


class Shaped(Columns):
    """The columns of a log, with the shapes of gradients, inputs and parameters."""

    def __init__(self, path: str):
        self.shapes: dict[int, tuple] = {}
        super().__init__(path)

    def _allocation(self, record: Allocation) -> None:
        if record.category != "temporary" and len(self.shapes) < _MOST_SHAPES:
            self.shapes[len(self.born)] = record.shape
        super()._allocation(record)


def memory_of(columns: Shaped, marks: list[Mark]) -> Memory:
    """The memory of a log that was recorded with memory, from its columns."""
    story = story_of(columns, buckets=400)
    steps = sorted([mark for mark in marks if mark.what == "optimizer"], key=lambda mark: mark.t0)
    steps = steps[:: max(1, len(steps) // _MOST_STEPS)]
    return Memory(story, _waiting(columns), _unread(columns, steps), _growth(columns, steps, story))


def _waiting(columns: Columns) -> list[Waiting]:
    """By op and line, the largest first."""
    kept, start, stop = waiting(columns)
    sizes, base = np.asarray(columns.bytes), columns.header["base_ns"]
    groups: dict[int, list[int]] = {}
    for row in np.flatnonzero(kept).tolist():
        groups.setdefault(columns.owner[row], []).append(row)
    found = []
    for number, members in groups.items():
        rows = np.array(members)
        times, live = alive_over_time(start[rows], stop[rows], sizes[rows])
        when = times[int(np.argmax(live))]
        then = rows[(start[rows] <= when) & (stop[rows] > when)]
        if len(then):
            op, place, scope = columns.owners[number]
            begin, end = int(start[then].min()) - base, int(stop[then].max()) - base
            total = int(sizes[then].sum())
            found.append(Waiting(op, place, scope, total, len(then), max(0, begin), end))
    return sorted(found, key=lambda w: (-w.bytes, w.place, w.op))


def _unread(columns: Shaped, steps: list[Mark]) -> list[Unread]:
    """Gradients that existed throughout an optimizer's step and were never read after it began.

    A log without an optimizer gives no finding: the program may read `.grad` by itself.
    """
    born, died, used = (np.asarray(c) for c in (columns.born, columns.died, columns.used))
    gradient, ever = once(columns, "gradient"), np.zeros(len(born), bool)
    for step in steps:
        ever |= gradient & (born < step.t0) & (died > step.t1) & (used < step.t0)
    first_uses = _first_uses(columns)
    groups: dict[tuple, list[int]] = {}
    for row in np.flatnonzero(ever).tolist():
        shape = _without_ones(columns.shapes.get(row, ()))
        # The log has the first gradient of a tensor at the op that read the tensor, and later
        # sums at the backward. The tensor joins the two.
        of = first_uses.get(shape) or columns.owner[row]
        groups.setdefault((of, shape), []).append(row)
    found = []
    for (of, _), rows in groups.items():
        made_by, place, _ = columns.owners[columns.owner[rows[-1]]]
        largest = max(columns.bytes[row] for row in rows)
        first_use = of if isinstance(of, tuple) else ()
        shape = columns.shapes.get(rows[-1], ())
        found.append(Unread(place, made_by, shape, largest, len(rows), first_use))
    return sorted(found, key=lambda unread: -unread.bytes)


def _first_uses(columns: Shaped) -> dict[tuple, tuple[str, ...]]:
    """By shape, the lines where an op first gets an array that no op has made."""
    kinds = CATEGORIES.index("input"), CATEGORIES.index("parameter")
    found: dict[tuple, dict[str, None]] = {}
    for row, shape in columns.shapes.items():
        place = columns.owners[columns.owner[row]][1]
        if place and columns.first[row] in kinds:
            found.setdefault(_without_ones(shape), {})[place] = None
    return {shape: tuple(places)[:3] for shape, places in found.items()}


def _without_ones(shape: tuple) -> tuple:
    """A shape as it stays recognisable when a reshape adds or removes ones."""
    return tuple(n for n in shape if n != 1)


def _growth(columns: Columns, steps: list[Mark], story: Story) -> Growth | None:
    """The growth, if more was alive after each optimizer step than after the one before."""
    if len(steps) < 5:
        return None
    born, died = np.asarray(columns.born), np.asarray(columns.died)
    sizes = np.asarray(columns.bytes)
    times, live = alive_over_time(born, died, sizes)
    after = live[np.searchsorted(times, [step.t1 for step in steps], side="right") - 1][1:]
    grown = int(after[-1] - after[0])
    if (np.diff(after) <= 0).any() or grown < 0.05 * story.peak:
        return None
    stayed = np.flatnonzero((born > steps[1].t1) & (died > steps[-1].t1) & (born <= steps[-1].t1))
    sums: dict[int, int] = {}
    for row in stayed.tolist():
        sums[columns.owner[row]] = sums.get(columns.owner[row], 0) + columns.bytes[row]
    op, place, _ = (
        columns.owners[max(sums, key=lambda number: sums[number])] if sums else ("", "", "")
    )
    return Growth(len(after), int(after[0]), int(after[-1]), place, op)
