"""One finding of the advice: its place, its evidence, its weight, and a suggestion."""

from dataclasses import asdict, dataclass
from typing import Any

from .names import fitted
from .report_log import inert, inert_place

FAULT = 0.3  # of the run: by so much a fault ranks before a merely long part


@dataclass(slots=True)
class Finding:
    """kind: a word for programs; place: file:line, "" without a single line.

    weight  the part of the run that it explains, 0 to 1
    fault   most programs can do without it; other findings are merely the longest parts
    code    the line itself, if it belongs to a notebook's cell
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
        """The key of the order, the largest first: a fault ranks before a merely long part."""
        return self.weight + FAULT * self.fault

    def data(self) -> dict[str, Any]:
        """The fields, with texts that are safe to show."""
        return asdict(self) | {
            "title": inert(self.title, 400), "place": inert_place(self.place),
            "evidence": inert(self.evidence, 600), "suggestion": inert(self.suggestion, 600),
            "code": inert(self.code, 200),
        }  # fmt: skip


def short(place: str) -> str:
    """A place, shortened for a sentence."""
    return fitted(place, 50)
