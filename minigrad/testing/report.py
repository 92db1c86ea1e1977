"""The report of a run of the harness: a matrix of ops by checks in Markdown, or JSON lines."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..instrument.formats import write_whole
from ..instrument.table import counted
from .run import Outcome
from .snippet import rules_of

# These name a cause (a wrong value, a write, a call that does not repeat); others show its effects.
_CAUSES = ("K1", "K7", "K9", "K13", "K24")
_AT_SAMPLES = ("K2", "K3")  # a gradient that is wrong here is also wrong at other points
_FOLLOWS = "at a second point"  # of K24: such a gradient is also wrong at the sample
_CELLS = {"pass": "✓", "fail": "✗", "skip": "s", "n/a": "·"}


@dataclass
class Report:
    """Every outcome of one run."""

    level: str
    seed: int
    outcomes: list[Outcome] = field(default_factory=list)
    notes: set[tuple[str, str, str]] = field(default_factory=set)
    seconds: float = 0.0
    cut_off_from: int | None = None  # how many ops an interrupted run should have checked

    @property
    def failed(self) -> list[Outcome]:
        return failures(self.outcomes)

    @property
    def skips(self) -> Counter[tuple[str, str]]:
        """(check, reason) -> how many ops: checks that could apply and did not run."""
        counts = Counter((check, reason) for _, check, reason in self.notes)
        counts.update((o.check, o.reason) for o in self.outcomes if o.status == "skip")
        return counts

    @property
    def comparisons(self) -> int:
        return sum(outcome.comparisons for outcome in self.outcomes)

    def summary(self) -> str:
        """The last line of a run."""
        ops, of = len({outcome.op for outcome in self.outcomes}), self.cut_off_from
        bad = len({outcome.op for outcome in self.failed})
        text = counted(ops, "op") if of is None else f"{ops:,} of {counted(of, 'op')}"
        text += f", {counted(len(self.outcomes), 'check')}, "
        text += f"{counted(self.comparisons, 'comparison')}, "
        text += f"{counted(sum(self.skips.values()), 'skip')}, {self.seconds:.1f} s"
        text += ": " if of is None else ", then interrupted: "
        if bad:
            return text + f"{counted(len(self.failed), 'failure')} in {counted(bad, 'op')}"
        return text + ("all passed" if of is None else "nothing had failed")


def failures(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The failures; for each op, checks that name a cause come before checks that show effects."""
    failed = [outcome for outcome in outcomes if outcome.status == "fail"]
    places = {op: i for i, op in enumerate(dict.fromkeys(outcome.op for outcome in failed))}
    return sorted(failed, key=lambda o: (places[o.op], not _names_a_cause(o)))


def _names_a_cause(outcome: Outcome) -> bool:
    told = "".join(message for _, message, _ in outcome.failures[:1])
    return outcome.check in _CAUSES and not told.startswith(_FOLLOWS)


def matrix(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """A head, then one row an op: its name, a sign for each check, its comparisons."""
    checks = sorted(dict.fromkeys(o.check for o in outcomes if o.check != "samples"), key=_number)
    rows = [["op", *checks, "comparisons"]]
    by_op: dict[str, dict[str, Outcome]] = {}
    for outcome in outcomes:
        by_op.setdefault(outcome.op, {})[outcome.check] = outcome
    for op, of in by_op.items():
        cells = [_CELLS[of[check].status] if check in of else "✗" for check in checks]
        rows.append([op, *cells, str(sum(outcome.comparisons for outcome in of.values()))])
    return rows


def _number(check: str) -> int:
    return int(check.lstrip("K"))


def failure_text(outcome: Outcome) -> str:
    """One failing check for the terminal and the report."""
    lines = []
    for sample, message, snippet in outcome.failures:
        place = f" on sample {sample!r}" if sample else ""
        first, *more = message.split("\n")
        lines.append(f"{outcome.op}, {outcome.check}{place}: {first}")
        lines += [f"  {line}" for line in more]
        if snippet:
            lines.append(f"  again:\n{snippet}")
    return "\n".join(lines)


def failures_of_ops(outcomes: Iterable[Outcome]) -> list[str]:
    """For the terminal, op by op: the failed checks and the file and line of its rules. Then each
    failure follows once, with all checks that report it in the same words."""
    texts = []
    by_op: dict[str, list[Outcome]] = {}
    for outcome in failures(outcomes):
        by_op.setdefault(outcome.op, []).append(outcome)
    for op, of in by_op.items():
        rules = "".join([f"\n  {line}" for line in rules_of(op)])
        texts.append(f"{op} fails {counted(len(of), 'check')}: {_names(of)}{rules}")
        alike: dict[Any, list[Outcome]] = {}
        for outcome in of:
            alike.setdefault(_kind_of(outcome, of), []).append(outcome)
        causes = [kind for kind, told in alike.items() if _names_a_cause(told[0])]
        for kind, (first, *others) in alike.items():
            texts.append(failure_text(first))
            if others:
                texts.append(f"  the same in {_names(others)}")
            if causes[-1:] == [kind] and len(alike) > len(causes):
                texts.append("  other failures of this op may follow from it: mend it first")
    return texts


def _kind_of(outcome: Outcome, of: Sequence[Outcome]) -> Any:
    """Failures reported once: those in the same words, and a gradient wrong at the samples."""
    told = outcome.failures[0][1] if outcome.failures else ""
    wrong = [o for o in of if o.failures and _is_wrong_gradient(o)]
    at_samples = any(o.check in _AT_SAMPLES for o in wrong)
    return "wrong gradient" if at_samples and outcome in wrong else told


def _is_wrong_gradient(outcome: Outcome) -> bool:
    """A gradient that is wrong at first order; K10's failures concern a second derivative."""
    told = outcome.failures[0][1]
    signs = ("along a random direction", "Jacobian:", "the gradient holds")
    return outcome.check != "K10" and any(sign in told for sign in signs)


def _names(outcomes: Sequence[Outcome]) -> str:
    return ", ".join([outcome.check for outcome in outcomes])


def markdown(report: Report) -> str:
    """The whole report: summary, matrix, failures, skips."""
    head, *rows = matrix(report.outcomes)
    lines = [
        "# Gradcheck report",
        "",
        f"Level {report.level}, seed {report.seed}. {report.summary()}.",
        "",
        "✓ passed, ✗ failed, s skipped with a reason, · nothing to compare",
        "",
        f"| {' | '.join(head)} |",
        "|" + "---|" * len(head),
        *[f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows],
    ]
    if report.failed:
        lines += ["", "## Failures", ""]
        for outcome in report.failed:
            lines += ["```text", failure_text(outcome), "```", ""]
    if report.skips:
        lines += ["", "## Skips", "", "| check | reason | count |", "|---|---|---|"]
        for (check, reason), count in sorted(report.skips.items()):
            lines.append(f"| {check} | {_cell(reason)} | {count} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def json_lines(report: Report) -> str:
    """A header line, one line an outcome, one for the skips."""
    head = {"format": "minigrad.gradcheck", "version": [1, 0], "level": report.level}
    head |= {"seed": report.seed, "comparisons": report.comparisons, "failed": len(report.failed)}
    skips = [
        {"check": check, "reason": reason, "count": count}
        for (check, reason), count in sorted(report.skips.items())
    ]
    lines: Iterable[dict] = [head, *map(asdict, report.outcomes), {"skips": skips}]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def write(report: Report, path: str) -> None:
    """Write the report, as JSON lines if the path ends in .json or .jsonl, else as Markdown."""
    text = json_lines(report) if path.endswith((".json", ".jsonl")) else markdown(report)
    write_whole(path, text)
