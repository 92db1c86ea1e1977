"""What a check says when it is not satisfied."""

import re
from dataclasses import dataclass, field
from typing import Any

# np.float64(1.5) is told as 1.5
_NUMPYS = re.compile(r"np\.(?:float|complex|int)\d+\(([^()]*|\([^()]*\))\)")


@dataclass(frozen=True)
class Entry:
    """One number of a gradient that is wrong: where it stands, what it is, what it should be."""

    position: int  # which argument
    name: str
    index: tuple[int, ...]
    analytic: Any
    numeric: Any
    part: str = ""  # "real" or "imaginary" for a complex argument

    def __str__(self) -> str:
        place = f"argument {self.position} ({self.name})"
        if self.index:
            place += f" at index {list(self.index)}"
        if self.part:
            place += f", {self.part} part"
        return f"{place}: analytic {self.analytic!r}, numeric {self.numeric!r}"


class GradcheckError(AssertionError):
    """A derivative (or another property that a check demands) is wrong.

    entry     the wrong entry, where one could be named
    snippet   Python text that shows the same thing outside the harness
    """

    def __init__(self, message: str, entry: Entry | None = None, snippet: str = ""):
        message = _NUMPYS.sub(r"\1", message)
        self.what = message
        self.entry = entry
        self.snippet = snippet
        super().__init__(message)

    def __str__(self) -> str:
        parts = [self.what]
        if self.entry is not None:
            parts.append(f"wrong entry: {self.entry}")
        if self.snippet:
            parts.append(f"to see it:\n{self.snippet}")
        return "\n".join(parts)


class Inconclusive(GradcheckError):
    """Finite differences are too noisy at this point to decide. That counts as a failure."""


class DoesNotApply(Exception):
    """The check is about something that this op does not have (ties for an op of one argument)."""


@dataclass
class Skipped(Exception):
    """The check could apply and was not made, with the reason. Reports count these."""

    reason: str = field(default="")
