"""The aggregate profile: how often each op ran, forward and backward, and how long it took.

    with mg.profile() as prof:
        train()
    print(prof.table())

The listener appends two numbers per event to lists that belong to the op; sums are formed later,
a few thousand at a time. Appending is atomic in Python, so threads need no lock there. Files are
the part of outputs.py.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from time import perf_counter_ns
from typing import Any

from ..backends.leaving import left_always
from ..backends.locks import Lock
from ..backends.sites import site_of
from ..backends.threads import identity
from ..engine import events
from ..engine.graph import Leaf
from ..modes.recording import CalledFirst
from . import formats, profile_table
from . import sections as engine_sections
from .cells import BATCH, FLOAT32, IN_GRAPH, REPLAY, Cell, Phase, Row, brief_counter, counter
from .hearing_cost import hearing_cost
from .memory import PeakMemory
from .notebook import bundle_of_text
from .options import count
from .outputs import Outputs
from .schedule import schedule_of
from .section_times import SectionTimes
from .table import shares
from .variant_calls import VariantCalls

_MOST_NESTED = 100_000  # events remembered per thread while a backward runs


class profile(metaclass=CalledFirst):
    """Counts and times every op while it is entered; may be nested and entered again.

    rows()   the numbers, longest first        json()   the same as a JSON text
    table()  the numbers as a text table       reset()  forget them
    scopes() how often each scope was left, and nanoseconds in it, the longest first
    variants()  how often which form of an op ran (mg.exp.variants lists them)

    lines       tell source lines apart
    memory      follow which arrays live: their bytes at the peak, by category
    sections    split the engine's own time in each call: scan, unwrap, forward, link, wrap; in the
                formats made of a log they are marks next to the op
    schedule    (wait, warmup, active, repeat): which steps to count; call step() after each
    every       report after every N ops and count from zero again
    out         a file to write when the profile is left ({n}: its number, with every)
    format      "table", "json", "events", "chrome", "speedscope", "folded" or "html", or several
                joined by commas or in a list; without it the ending of `out` decides
    stack, sync, device, min_us, max_events
                as in mg.event_log, for the formats made of one; stack also tells lines apart

    The same by environment variables: see instrument/environment.py.
    """

    @property
    def finds_origin(self) -> bool:
        """Whether the listener looks for the line of a call itself, where it listens alone."""
        return self.lines

    def __init__(
        self,
        *,
        lines: bool = False,
        memory: bool = False,
        sections: bool = False,
        schedule: Any = None,
        every: int | None = None,
        out: Any = None,
        format: Any = None,
        stack: int = 0,
        sync: bool = False,
        min_us: float = 0.0,
        max_events: int | None = None,
        device: bool = False,
    ) -> None:
        self.lines = lines or count("profile", "stack", stack) > 0
        self.memory = PeakMemory() if memory else None
        self.sections = SectionTimes() if sections else None
        self.schedule = schedule_of(schedule)
        self.sync = sync
        self.steps = 0
        log = {"memory": memory, "stack": stack, "sync": sync, "schedule": schedule}
        log |= {"min_us": min_us, "device": device, "sections": sections}
        log |= {} if max_events is None else {"max_events": max_events}
        self._outputs = Outputs(out, format, log) if out or format or every else None
        self._every = None if every is None else count("profile", "every", every, 1)
        self._count = 0
        self._scopes: dict[str, list[int]] = {}  # name -> [times, nanoseconds]
        self._variants = VariantCalls()
        self._lock = Lock()  # a signal handler may run ops while we hold it
        self._forward, self._backward = Phase(self._lock), Phase(self._lock)
        self._replays: dict[Any, Cell] = {}  # by the call of a compiled function's program
        self._running = 0  # backwards that run now
        self._nested: dict[int, list[tuple[int, int]]] = {}  # thread -> (t0, time) of its events
        self._leaves: dict[int, list] = {}  # thread -> leaves of its running backward
        self._entered = 0
        self._phase = ""
        self._since = 0
        self._wall = 0

    def __enter__(self) -> "profile":
        if not self._entered:
            if self._outputs is not None:
                self._outputs.start()
            self._entered = 1
            self._enter_phase()
        else:
            self._entered += 1
        return self

    @left_always(lambda block: block._entered)
    def __exit__(self, *exc: object) -> None:
        if self._entered == 1:
            self._stop()
        self._entered -= 1
        if not self._entered and self._outputs is not None:
            self._outputs.finish(self)

    def step(self) -> None:
        """Say that a step of the program (of training) ends here, and the next one begins."""
        self.steps += 1
        if self._outputs is not None:
            self._outputs.step()
        if self._entered:
            self._enter_phase()

    def _enter_phase(self) -> None:
        """Count or not, as the schedule says of the step that begins now."""
        phase = "active" if self.schedule is None else self.schedule.phase(self.steps)
        if phase == "active" and self._phase != "active":
            self._variants.start()
            self._since = perf_counter_ns()
            events.listen(self, origin=self.lines, sync=self.sync)
            if self.sections is not None:
                engine_sections.listen(self.sections.hear)
        elif phase != "active" and self._phase == "active":
            self._pause()
        self._phase = phase

    def _unlisten(self) -> None:
        events.unlisten(self)
        if self.sections is not None:
            engine_sections.unlisten(self.sections.hear)

    def _pause(self) -> None:
        self._unlisten()
        now = perf_counter_ns()
        self._wall, self._since = self._wall + now - self._since, now
        self._variants.pause()
        self._set_running(0)

    def _stop(self) -> None:
        if self._phase == "active":
            self._pause()
        self._unlisten()  # interrupted as it began to listen it is in no phase yet
        self._phase = ""

    # -- listening -------------------------------------------------------------------------------

    @property
    def hear(self) -> Callable[[tuple], None]:
        """The function that takes the events; who calls it keeps it: here it would be a cycle."""
        count_event = counter(self._forward, self._backward, self._own_time, self._fold, self.lines)
        if self.memory is None and self._every is None:
            return count_event

        def hear_more(event: tuple) -> None:
            count_event(event)
            self._hear_more(event)

        return hear_more

    @property
    def brief(self) -> Callable[[Any, Any, int, int], bool] | None:
        """The function that takes the short form of a call, if that can be enough."""
        if self.memory is not None or self._every is not None:
            return None
        return brief_counter(self._forward, self.lines)

    @property
    def replayed(self) -> Callable[[Any, int, int], None] | None:
        """The function that hears the calls of mg.compile; None where every op must be heard."""
        is_more = self.memory is not None or self._every is not None or self.sections is not None
        return None if is_more else self._hear_replayed

    def _hear_replayed(self, call: Any, t0: int, t1: int) -> None:
        cells = self._replays
        cell = cells.get(call) or cells.setdefault(call, Cell(call.name, REPLAY))
        cell.times.append(t1 - t0)
        cell.sizes.append(call.nbytes)
        for part in call.inside:
            cell = cells.get(part) or cells.setdefault(part, Cell(part.name, IN_GRAPH))
            cell.times.append(0)
        if len(cell.times) >= BATCH:
            self._fold_all()

    def _fold_all(self) -> None:
        """Sum up what is pending."""
        with self._lock:
            for cell in self._cells():
                cell.fold()

    def _cells(self) -> list[Cell]:
        """All cells of now. Calls go on in other threads, so that each list is one copy."""
        forward, backward = self._forward.cells, self._backward.cells
        return [*forward.values(), *backward.values(), *self._replays.values()]

    def _fold(self, cell: Cell) -> None:
        with self._lock:
            cell.fold()

    def _hear_more(self, event: tuple) -> None:
        """Beyond counting: follow memory, report in between."""
        if self.memory is not None:
            self.memory.hear(event)
        if self._every is not None and self._outputs is not None:
            self._count += 1
            if self._count >= self._every:
                self._count = 0
                self._outputs.report(self)
                self.reset()

    def graph_ready(self, order: list, roots: list) -> None:
        """A backward begins: see engine/events.py."""
        with self._lock:
            self._set_running(self._running + 1)
        if self.memory is not None:
            leaves = [vertex for vertex in order if vertex.__class__ is Leaf]
            self._leaves[identity()] = leaves

    def graph_done(self, error: BaseException | None) -> None:
        """It has ended."""
        with self._lock:
            self._set_running(max(0, self._running - 1))
        if self.memory is not None:
            self.memory.tracker.backward_done(self._leaves.pop(identity(), []), (0, None))

    def marked(self, what: str, name: str, t0: int, t1: int, subject: Any) -> None:
        """A scope has ended; an optimizer's step shows the memory that it keeps."""
        if what == "scope":
            with self._lock:
                found = self._scopes.setdefault(name, [0, 0])
                found[0], found[1] = found[0] + 1, found[1] + t1 - t0
        if what == "optimizer" and self.memory is not None and subject is not None:
            self.memory.tracker.stepped(subject, t1, (0, None))

    def _set_running(self, count: int) -> None:
        """In a plain backward only arrays are computed with, so nothing nests; see _own_time."""
        self._running = count
        if not count:
            self._nested.clear()
        self._forward.set_nesting(count > 0)
        self._backward.may_nest = count > 1 or bool(self._nested)

    def _own_time(self, kind: str, t0: int, spent: int) -> int:
        """The event's time without that of the events inside it.

        Only a node's backward can hold others: the ops that a rule records under create_graph, a
        recomputation with its backward. They end, and so are reported, before it, and they began
        after it did.
        """
        own = spent
        with self._lock:
            earlier = self._nested.setdefault(identity(), [])
            if kind == "backward":
                own -= _taken_since(t0, earlier)
                if self._running == 1:  # nothing encloses this event, nor what came before it
                    del self._nested[identity()]
                    self._backward.may_nest = bool(self._nested)
                    return own
            self._backward.may_nest = True
            earlier.append((t0, spent))
            if len(earlier) > _MOST_NESTED:
                del earlier[: _MOST_NESTED // 2]
        return own

    # -- results ---------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """One row per op and phase (and line), the longest total first; shares add to 100."""
        with self._lock:
            merged = self._merged()
        rows = sorted(merged.values(), key=lambda row: (-row.total_ns, row.op, row.phase, row.site))
        for row, share in zip(rows, shares([row.total_ns for row in rows]), strict=True):
            row.share = share
        return rows

    def _merged(self) -> dict[tuple, Row]:
        """The cells' calls by op, phase and line, as of now: others may come while we read."""
        merged: dict[tuple, Row] = {}
        for cell in [*self._forward.cells.values(), *self._backward.cells.values()]:
            _merge(cell, _place(cell.origin), merged)
        for call, cell in list(self._replays.items()):
            _merge(cell, _places(call.origins) if self.lines else "", merged)
        return merged

    def scopes(self) -> dict[str, tuple[int, int]]:
        """{scope: (how often it was left, nanoseconds from entering to leaving)}; they nest."""
        with self._lock:
            found = {name: (times, ns) for name, (times, ns) in list(self._scopes.items())}
        return dict(sorted(found.items(), key=lambda item: (-item[1][1], item[0])))

    def variants(self) -> dict[tuple[str, str], int]:
        """{(op, variant): how often this form computed the op}; the op's own form took the rest."""
        return self._variants.by_op_and_variant()

    @property
    def wall_ns(self) -> int:
        """Nanoseconds that the profile counted, until now."""
        return self._wall + (perf_counter_ns() - self._since if self._phase == "active" else 0)

    def reset(self) -> None:
        """Forget everything counted so far."""
        with self._lock:
            self._forward.clear()
            self._backward.clear()
            self._replays.clear()
            self._scopes.clear()
            self._variants.reset()
            self._wall, self._since = 0, perf_counter_ns()
        if self.sections is not None:
            self.sections.reset()

    def as_dict(self) -> dict[str, Any]:
        """The rows and what they were measured on, ready for JSON."""
        rows = self.rows()
        found = {
            **formats.header("minigrad.profile"),
            "wall_ns": self.wall_ns,
            "calls": sum(row.calls for row in rows),
            "total_ns": sum(row.total_ns for row in rows),
            "recording_ns_per_call": round(self._recording_cost()),
            "rows": [asdict(row) for row in rows],
            "scopes": [
                {"scope": name, "calls": times, "total_ns": ns}
                for name, (times, ns) in self.scopes().items()
            ],
            "variants": [
                {"op": op, "variant": name, "calls": calls}
                for (op, name), calls in self.variants().items()
            ],
        }
        if self.sections is not None:
            found["sections"] = self.sections.rows()
        return found if self.memory is None else {**found, "memory": self.memory.as_dict()}

    def _recording_cost(self) -> float:
        """Nanoseconds that one event costs its op: of float32 or not, as the busiest op is."""
        with self._lock:
            cells = list(self._forward.cells.values())
        busiest = max(cells, key=lambda cell: cell.row.calls + len(cell.times), default=None)
        wide = busiest is None or busiest.dtype is not FLOAT32  # is looked at more closely
        return recording_cost(self.lines, self.memory is not None, wide)

    def json(self) -> str:
        """`as_dict` as a JSON text."""
        return formats.json_text(self.as_dict())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """In a notebook a profile is its table."""
        try:
            return bundle_of_text(self.table())
        except Exception as error:  # a notebook that fails while it prints hides the value
            return bundle_of_text(f"profile: no table ({type(error).__name__})")

    def table(self, top: int = 40) -> str:
        """The rows as plain text for 80 columns; those after the first `top` in one line."""
        text = profile_table.text(
            self.rows(),
            self.wall_ns,
            self._recording_cost(),
            self.memory,
            top,
            self.scopes(),
            self.variants(),
        )
        return text if self.sections is None else f"{text}\n{self.sections.table(top)}"


def _taken_since(t0: int, earlier: list[tuple[int, int]]) -> int:
    """Take the events that began at t0 or later off the list; how long they took."""
    taken = 0
    while earlier and earlier[-1][0] >= t0:
        taken += earlier.pop()[1]
    return taken


def _merge(cell: Cell, site: str, merged: dict[tuple, Row]) -> None:
    """Add a cell to the row of its op, phase and line (a line has many instructions)."""
    cell.fold()
    row = cell.row
    if not row.calls:
        return
    places = tuple(dict.fromkeys(map(_place, list(cell.promotions.values()))))
    known = merged.get((row.op, row.phase, site))
    if known is None:
        merged[row.op, row.phase, site] = replace(row, site=site, promoted_at=places)
        return
    known.calls += row.calls
    known.total_ns += row.total_ns
    known.min_ns, known.max_ns = min(known.min_ns, row.min_ns), max(known.max_ns, row.max_ns)
    known.bytes += row.bytes
    known.promoted |= row.promoted
    known.promoted_at = tuple(dict.fromkeys(known.promoted_at + places))


def _place(origin: tuple | None) -> str:
    site = site_of(origin)
    return f"{site['file']}:{site['line']}" if site else ""


def _places(origins: tuple) -> str:
    """`a.py:3,5; b.py:7`: the lines of several origins, by file."""
    lines: dict[str, list[int]] = {}
    for site in map(site_of, origins):
        if site is not None and site["line"] not in lines.setdefault(site["file"], []):
            lines[site["file"]].append(site["line"])
    return "; ".join(f"{file}:{','.join(map(str, sorted(at)))}" for file, at in lines.items())


def recording_cost(lines: bool = False, memory: bool = False, wide: bool = True) -> float:
    """Nanoseconds that one event costs its op on this machine, now; wide: of float64."""
    like = profile(lines=lines, memory=memory)
    return hearing_cost(
        like.hear,
        like._fold_all,
        origin=lines,
        dtype="float64" if wide else "float32",
        brief=like.brief,
    ).each
