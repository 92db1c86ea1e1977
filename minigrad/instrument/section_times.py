"""The engine's own time in calls of each op, by section (sections.py), for a profile."""

from time import perf_counter_ns
from typing import Any

from ..backends.locks import Lock
from . import sections
from .table import duration, text_table

_BATCH = 4096  # calls kept before they are summed


class SectionTimes:
    """Sums of each section, by op; told of every call while it listens."""

    def __init__(self) -> None:
        self._pending: list[tuple[str, sections.Spans]] = []
        self._sums: dict[str, dict[str, int]] = {}
        self._lock = Lock()  # a signal handler may run ops while we hold it

    def hear(self, op: str, spans: sections.Spans) -> None:
        """Note one call."""
        self._pending.append((op, spans))
        if len(self._pending) >= _BATCH:
            self._fold()

    def _fold(self) -> None:
        with self._lock:
            told = self._pending[:]
            del self._pending[: len(told)]
            for op, spans in told:
                sums = self._sums.setdefault(op, dict.fromkeys(("calls", *sections.NAMES), 0))
                sums["calls"] += 1
                for name, t0, t1 in spans:
                    sums[name] += t1 - t0

    def reset(self) -> None:
        """Forget all calls so far."""
        with self._lock:
            self._pending.clear()
            self._sums.clear()

    def rows(self) -> list[dict[str, Any]]:
        """{"op", "calls", "scan_ns", …} for each op, most time of the engine's own first."""
        self._fold()
        with self._lock:
            found = [
                {"op": op, "calls": sums["calls"], **{f"{n}_ns": sums[n] for n in sections.NAMES}}
                for op, sums in self._sums.items()
            ]
        return sorted(found, key=lambda row: (-_own(row), row["op"]))

    def table(self, top: int = 40) -> str:
        """The times a call, as text; ops after the first `top` in one line."""
        rows = self.rows()
        shown, rest = rows[:top], rows[top:]
        if rest:
            more = {key: sum(row[key] for row in rest) for key in rest[0] if key != "op"}
            shown.append({"op": f"({len(rest)} more)", **more})
        columns = ["<op", "calls", *sections.NAMES, "own share"]
        lines = [
            [
                row["op"], f"{row['calls']:,}",
                *[duration(row[f"{name}_ns"] / row["calls"]) for name in sections.NAMES],
                f"{_own(row) / max(1, _own(row) + row['forward_ns']):.1%}",
            ]
            for row in shown
        ]  # fmt: skip
        note = f"(each with one look at the clock, {duration(clock_cost())})"
        return "\n".join(["engine sections, a call:", text_table(columns, lines), note])


def _own(row: dict[str, Any]) -> int:
    """The engine's own time: all sections but the forward."""
    return sum(row[f"{name}_ns"] for name in sections.NAMES if name != "forward")


def clock_cost() -> float:
    """Nanoseconds that one look at the clock takes."""
    rounds, t0 = 1000, perf_counter_ns()
    for _ in range(rounds):
        perf_counter_ns()
    return (perf_counter_ns() - t0) / rounds
