"""What a log says should be looked at first: findings, each with its line, figures and a next step.

Every finding is computed from the log alone. It says what was measured; whether the program can do
without it only its author knows.
"""

from minigrad.instrument.formats import header, json_text

from .advice_memory import memory_findings
from .advice_time import last_findings, time_findings
from .finding import Finding
from .names import fitted, wrapped
from .report_log import Measured, inert
from .report_memory import Memory
from .report_tables import Line


def advice(measured: Measured, lines: list[Line], memory: Memory | None) -> list[Finding]:
    """All findings; of each kind the weightiest come first."""
    found = time_findings(measured, lines)
    if memory is not None:
        found += memory_findings(memory)
    return [*found, *last_findings(measured)]


def as_text(findings: list[Finding], width: int = 80) -> str:
    """For the terminal."""
    if not findings:
        return "nothing stands out"
    lines = []
    for number, finding in enumerate(findings, 1):
        place = f"{fitted(finding.place, 50)}  " if finding.place else ""
        lines += wrapped(f"{number}. {place}", inert(finding.title, 400).split(), width, " ")
        for text in (finding.evidence, finding.suggestion):
            lines += ["   " + line.strip() for line in wrapped("", text.split(), width - 5, " ")]
    return "\n".join(lines)


def as_json(findings: list[Finding]) -> str:
    """The findings as a JSON text."""
    told = [finding.data() for finding in findings]
    return json_text({**header("minigrad.advice"), "findings": told})
