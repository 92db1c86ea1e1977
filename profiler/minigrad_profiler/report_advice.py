"""Findings to look at first, each with its line, figures and a next step.

Every finding is computed from the log alone and states a measurement. Only the author knows whether
the program can do without it.
"""

from minigrad.instrument.formats import header, json_text
from minigrad.instrument.table import beginning

from .advice_graph import graph_findings
from .advice_memory import memory_findings
from .advice_numpy import numpy_findings
from .advice_time import time_findings
from .finding import Finding
from .names import fitted, wrapped
from .outside import Outside
from .report_log import Measured, inert
from .report_memory import Memory
from .report_source import code_at
from .report_tables import Line


def advice(
    measured: Measured, lines: list[Line], memory: Memory | None, beside: Outside
) -> list[Finding]:
    """All findings, the one that explains most of the run first."""
    found = [*time_findings(measured, lines, beside), *numpy_findings(measured, beside)]
    found += graph_findings(measured, beside)
    if memory is not None:
        found += memory_findings(memory)
    _join_related(found)
    for finding in found:
        finding.code = code_at(finding.place, measured.sources)
    return sorted(found, key=lambda finding: -finding.rank)


def _join_related(found: list[Finding]) -> None:
    """Where one fault explains two findings, keep one or let the other rank behind it."""
    by_kind = {finding.kind: finding for finding in reversed(found)}
    vain, trip, tiny = map(by_kind.get, ("no backward", "round trip", "tiny ops"))
    if vain is None:
        return
    if trip is not None:  # recorded in vain because its result went through NumPy
        trip.weight, trip.fault = trip.weight + vain.weight, trip.fault or vain.fault
        trip.evidence += f"; {vain.weight:.0%} of the run was recorded before, for no backward"
        found.remove(vain)
    elif tiny is not None and tiny.weight < 2 * vain.weight:  # its calls are the same
        tiny.fault = False


def as_text(findings: list[Finding], width: int = 80) -> str:
    """For the terminal."""
    if not findings:
        return "nothing stands out"
    lines = []
    for number, finding in enumerate(findings, 1):
        place = f"{fitted(finding.place, 50)}  " if finding.place else ""
        lines += wrapped(f"{number}. {place}", inert(finding.title, 400).split(), width, " ")
        if finding.code:
            lines.append(f"   > {beginning(inert(finding.code, 200), width - 5)}")
        for text in (finding.evidence, finding.suggestion):
            lines += ["   " + line.strip() for line in wrapped("", text.split(), width - 5, " ")]
    return "\n".join(lines)


def as_json(findings: list[Finding]) -> str:
    """The findings as a JSON text."""
    told = [finding.data() for finding in findings]
    return json_text({**header("minigrad.advice"), "findings": told})
