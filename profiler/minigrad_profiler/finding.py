"""One finding of the advice: what stands out, where, how much, and what to do."""

from dataclasses import asdict, dataclass
from typing import Any

from .names import fitted
from .report_log import inert, inert_place


@dataclass(slots=True)
class Finding:
    """kind: a word for programs; place: file:line, "" where it is not a single line."""

    kind: str
    title: str
    place: str
    evidence: str
    suggestion: str
    weight: float = 0.0

    def data(self) -> dict[str, Any]:
        """With texts that may be shown."""
        return asdict(self) | {
            "title": inert(self.title, 400), "place": inert_place(self.place),
            "evidence": inert(self.evidence, 600), "suggestion": inert(self.suggestion, 600),
        }  # fmt: skip


def short(place: str) -> str:
    """A place within a sentence."""
    return fitted(place, 50)
