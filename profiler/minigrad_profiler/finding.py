"""One finding of the advice: what stands out, where, how much, and what to do."""

from dataclasses import asdict, dataclass
from typing import Any

from .names import fitted
from .report_log import inert, inert_place

FAULT = 0.3  # of the run, by which a fault comes before what is merely long


@dataclass(slots=True)
class Finding:
    """kind: a word for programs; place: file:line, "" where it is not a single line.

    weight  the part of the run that it explains, 0 to 1
    fault   something that a program can most often do without; others are only the longest
    code    the line itself, where it is one of a notebook's cell
    """

    kind: str
    title: str
    place: str
    evidence: str
    suggestion: str
    weight: float = 0.0
    fault: bool = False
    code: str = ""

    @property
    def rank(self) -> float:
        """By this, the largest first: a fault comes before what is merely long."""
        return self.weight + FAULT * self.fault

    def data(self) -> dict[str, Any]:
        """With texts that may be shown."""
        return asdict(self) | {
            "title": inert(self.title, 400), "place": inert_place(self.place),
            "evidence": inert(self.evidence, 600), "suggestion": inert(self.suggestion, 600),
            "code": inert(self.code, 200),
        }  # fmt: skip


def short(place: str) -> str:
    """A place within a sentence."""
    return fitted(place, 50)
