"""The errors of checks."""

import re
from dataclasses import dataclass, field
from typing import Any

# np.float64(1.5) is printed as 1.5
_NUMPYS = re.compile(r"np\.(?:float|complex|int)\d+\(([^()]*|\([^()]*\))\)")


@dataclass(frozen=True)
class Entry:
    """One wrong number of a gradient: its position, its value, and the right value."""

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

    entry     the wrong entry, if one could be named
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
    """Finite differences are too noisy at this point for a decision. That counts as a failure."""


class DoesNotApply(Exception):
    """The op lacks the subject of the check (as ties for an op of one argument)."""


@dataclass
class Skipped(Exception):
    """The check could apply and did not run, with the reason. Reports count these."""

    reason: str = field(default="")
