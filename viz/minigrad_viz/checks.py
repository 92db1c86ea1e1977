"""Badges: what finite differences say of a node's rule, and of several nodes together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from minigrad_viz.escape import shown
from minigrad_viz.graph import Check, Graph, Node
from minigrad_viz.wording import aligned, count_text, number_text, shape_text, site_text

SIGNS = {"wrong": "✗", "unsure": "?", "right": "✓", "skipped": "–"}  # the most telling first


@dataclass(slots=True)
class Badge:
    """The text at the corner of a box."""

    verdict: str
    text: str

    @property
    def sign(self) -> str:
        """One character for the verdict."""
        return SIGNS[self.verdict]


def badge_of(nodes: Iterable[Node]) -> Badge | None:
    """The badge of one box; None where nothing was checked."""
    checks = [node.check for node in nodes if node.check is not None]
    if not checks:
        return None
    counts = Counter(check.verdict for check in checks)
    verdict = next(one for one in SIGNS if counts[one])
    if len(checks) == 1:
        error = checks[0].error
        size = "" if error is None else f" {error_text(error)}"
        return Badge(verdict, SIGNS[verdict] + size)
    share = "" if counts[verdict] == len(checks) else f" of {len(checks):,}"
    return Badge(verdict, f"{SIGNS[verdict]} {counts[verdict]:,}{share}")


def error_text(error: float) -> str:
    """2.4e-09 -> '2e−9': the order of the error is what counts."""
    return (
        number_text(error)
        if error >= 1e-3
        else f"{error:.0e}".replace("e-0", "e-").replace("-", "−")
    )


def check_words(check: Check) -> str:
    """'right, error 2e−9 of 6e−5 allowed'."""
    words = [check.verdict]
    if check.error is not None:
        allowed = "" if check.tolerance is None else f" ({error_text(check.tolerance)} allowed)"
        words.append(f"error {error_text(check.error)}{allowed}")
    return ", ".join([*words, *[shown(check.why, 160)] * bool(check.why)])


def check_counts(graph: Graph) -> dict[str, int]:
    """{"wrong": 1, "right": 20}: how many nodes each verdict has."""
    counts = Counter(node.check.verdict for node in graph.nodes if node.check is not None)
    return {verdict: counts[verdict] for verdict in SIGNS if counts[verdict]}


def check_table(graph: Graph, most: int = 40) -> str:
    """A line for each node that was checked, the wrong ones first, at most `most` of them."""
    ranks = {verdict: rank for rank, verdict in enumerate(SIGNS)}
    checked = [node for node in graph.nodes if node.check is not None]
    checked.sort(key=lambda node: (ranks[_check(node).verdict], -(_check(node).error or 0.0)))
    lines = aligned([_row(node) for node in checked[:most]])
    if len(checked) > most:
        lines.append(f"… {count_text(len(checked) - most, 'more node')}")
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in check_counts(graph).items())
    return "\n".join([*lines, f"finite differences: {counts}"]) + "\n"


def _check(node: Node) -> Check:
    return node.check or Check("skipped")


def _row(node: Node) -> list[str]:
    check, shape = _check(node), shape_text(node.outputs[0].shape)
    name, place = shown(node.op or node.name, 20), site_text(node)
    where = "  ".join(filter(None, [shown(node.scope, 30, "tail"), place]))
    return [f"{SIGNS[check.verdict]} {name}", f"#{node.id}", shape, check_words(check), where]
