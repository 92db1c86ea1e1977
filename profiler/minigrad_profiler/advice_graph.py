"""Findings about graphs: kept over steps, kept by retain_graph, recorded for no backward."""

from minigrad.instrument.records import Sample
from minigrad.instrument.table import counted, duration, size

from .advice_time import NOTED
from .finding import Finding, short
from .names import often, place_of
from .outside import Outside
from .report_log import NO_LINE, Measured

_KEPT = 0.65  # of the run: assumed cost of a kept graph, in memory, to rank findings
_RETAINED = 0.6


def graph_findings(measured: Measured, beside: Outside) -> list[Finding]:
    """All findings about the life of graphs."""
    used = _Used(measured)
    return [
        *_kept(measured, used),
        *_retained(measured, used),
        *_in_vain(measured, used, beside),
    ]


class _Used:
    """Which recorded calls a backward has reached: how often, and when last."""

    def __init__(self, measured: Measured) -> None:
        self.times: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.passes: list[tuple[int, int]] = []
        for thread, lane in measured.lanes.items():
            for seq, t0, t1, key in zip(
                measured.seqs[thread], lane.t0, lane.t1, lane.key, strict=False
            ):
                kind = measured.keys[key].kind
                if kind == "backward" and seq >= 0:
                    self.times[seq] = self.times.get(seq, 0) + 1
                    self.last[seq] = max(self.last.get(seq, 0), t0)
                elif kind == "pass":
                    self.passes.append((t0, t1))


def _kept(measured: Measured, used: _Used) -> list[Finding]:
    """Graphs that outlived their steps, except those that a later backward reached."""
    found: dict[tuple[str, str], Finding] = {}
    for kept in measured.kept:
        later = [n for n in range(kept.first, kept.last + 1) if used.last.get(n, 0) > kept.t]
        if len(later) > 0.1 * max(1, kept.nodes):
            continue
        place, made = place_of(kept.site), place_of(kept.made)
        who = f"the variable {kept.holder} keeps" if kept.holder else "something keeps"
        saved = f" and {size(kept.bytes)} saved for a backward" if kept.bytes else ""
        evidence = (
            f"{who} results with their graphs: {counted(kept.nodes, 'node')}{saved} of "
            f"finished steps stay alive, made at {short(made)}"
        )
        text = (
            "keep loss.item(), or x.detach(), instead of the tensor; update parameters and "
            "evaluate inside `with mg.no_grad():`"
        )
        title = "memory grows: graphs of past steps are kept"
        found[place, made] = Finding("kept graph", title, place, evidence, text, _KEPT, True)
    return list(found.values())[:3]


def _retained(measured: Measured, used: _Used) -> list[Finding]:
    """Backwards that kept their graph although no other backward reached it."""
    places: dict[str, int] = {}
    if any(count > 1 for count in used.times.values()):
        again = {seq for seq, count in used.times.items() if count > 1}
        if len(again) > 0.1 * len(used.times):
            return []
    for mark in measured.marks:
        if mark.what == "retained":
            place = place_of(mark.site)
            places[place] = places.get(place, 0) + 1
    found = []
    for place, count in places.items():
        evidence = (
            f"{often(count)} a backward kept its graph's saved arrays, and no other backward "
            "used them: they stay in memory until the next step replaces them"
        )
        text = "leave out retain_graph=True (and create_graph=True): one backward needs neither"
        title = "the graph is retained after its backward, for nobody"
        found.append(Finding("retained graph", title, place, evidence, text, _RETAINED, True))
    return found


def _in_vain(measured: Measured, used: _Used, beside: Outside) -> list[Finding]:
    """Recorded forward calls that no backward ever reached: an evaluation."""
    spent = calls = 0
    every: dict[str, int] = {}  # line -> time of such calls
    vain: list[tuple[int, int]] = []
    useful: list[tuple[int, int]] = []
    lane, seqs = measured.lanes.get(measured.main), measured.seqs.get(measured.main)
    if lane is None or seqs is None:
        return []
    for seq, t0, t1, key in zip(seqs, lane.t0, lane.t1, lane.key, strict=False):
        call = measured.keys[key]
        if call.kind != "forward" or seq < 0:
            continue
        if seq in used.times:
            useful.append((t0, t1))
        else:
            vain.append((t0, t1))
            spent += t1 - t0
            calls += 1
            every[call.place] = every.get(call.place, 0) + t1 - t0
    around = sum(beside.lines.get(place, 0) for place in every)
    part = (spent + around * calls / max(1, calls + len(useful))) / beside.own
    if not calls or calls < 0.1 * (calls + len(useful)) or calls < 8:
        return []
    place = _caller(measured, vain, useful) or max(every, key=lambda line: every[line])
    evidence = (
        f"{counted(calls, 'forward call')} of {duration(spent)} recorded their nodes, and saved "
        "arrays for a backward, but no backward reached them"
    )
    if place not in every:
        busiest = max(every, key=lambda line: every[line])
        evidence += f"; most of them at {short(busiest)}"
    text = "evaluate inside `with mg.no_grad():`: nothing is recorded and nothing is kept"
    title = f"recorded for no backward: {part:.0%} of the run"
    where = "" if place == NO_LINE else place
    return [Finding("no backward", title, where, evidence, text, part, part > NOTED / 3)]


def _caller(
    measured: Measured, vain: list[tuple[int, int]], useful: list[tuple[int, int]]
) -> str | None:
    """The innermost line that leads to these calls and to no useful one; None if no sample shows
    one."""
    told = [s for s in measured.samples if s.doing == "op"]
    good = {place_of(site) for s in told if _within(s, useful) for site in s.stack}
    counts: dict[str, int] = {}
    for sample in told:
        if not _within(sample, vain):
            continue
        own = [site for site in sample.stack if place_of(site) not in good]
        outer = [site for site in own if not site["function"].endswith((".forward", ".__call__"))]
        for site in (outer or own)[:1]:
            counts[place_of(site)] = counts.get(place_of(site), 0) + 1
    return max(counts, key=lambda place: counts[place], default=None)


def _within(sample: Sample, stretches: list[tuple[int, int]]) -> bool:
    return any(t1 == sample.t for _, t1 in stretches)
