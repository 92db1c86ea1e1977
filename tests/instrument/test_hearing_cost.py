"""What hearing costs is measured on real ops, without a trace in anybody's record."""

from time import thread_time_ns

import pytest

import minigrad as mg
from minigrad.engine import events
from minigrad.engine.events import capture_stack
from minigrad.instrument.formats import EventReader
from minigrad.instrument.hearing_cost import hearing_cost, marking_cost


def busy(event):
    end = thread_time_ns() + 20_000
    while thread_time_ns() < end:
        pass


def idle():
    """Nothing is done with what was heard."""


def test_a_listener_that_takes_longer_costs_as_much_more():
    nothing, much = hearing_cost(lambda event: None, idle), hearing_cost(busy, idle)
    assert much.each - nothing.each > 15_000


def test_what_a_listener_does_in_the_end_is_counted_unless_it_is_told_elsewhere():
    nothing, told = lambda event: None, [0]

    def settle():
        began = thread_time_ns()
        for _ in range(256):
            busy(None)
        told[0] += thread_time_ns() - began

    counted, apart = (
        hearing_cost(nothing, settle),
        hearing_cost(nothing, settle, apart=lambda: told[0]),
    )
    assert counted.each - apart.each > 15_000


@pytest.mark.parametrize("sort", ["described", "backward"])
def test_each_sort_of_events_is_heard_in_a_measurement_of_its_own(sort):
    def hear(event):
        kind, *_, params = event
        if kind == "backward" if sort == "backward" else params:
            busy(event)

    more = {kind: hearing_cost(hear, idle, sort=kind).each for kind in ("plain", sort)}
    assert more[sort] - more["plain"] > 15_000


def test_afterwards_nobody_listens():
    hearing_cost(lambda event: None, idle)
    assert events.listeners == ()


def test_who_listens_already_hears_nothing_of_it():
    with mg.profile() as prof:
        hearing_cost(lambda event: None, idle)
    assert prof.rows() == []


def test_a_log_tells_its_own_cost_and_how_sure_it_is(tmp_path):
    path = tmp_path / "run.jsonl"
    with mg.event_log(path):
        for _ in range(200):
            mg.ones(3) * 2
    with EventReader(str(path)) as reader:
        assert list(reader) and reader.end["hearing_ns"] > 200 * 100
        assert reader.end["uncertain_ns"] >= 0


def test_a_log_counts_its_events_by_what_they_cost_to_hear(tmp_path):
    with mg.event_log(tmp_path / "run.jsonl") as log:
        x = mg.ones((2, 3), requires_grad=True)
        ((x * x) * 2).sum(axis=1).sum(axis=0).backward()
    assert log._writer.lines.heard["backward"] == 4
    assert log._writer.lines.heard["described"] == 2


def test_a_mark_that_takes_longer_costs_as_much_more():
    def marked(what, name, t0, t1, subject):
        busy(None)

    assert marking_cost(marked, idle) - marking_cost(lambda *mark: None, idle) > 15_000


def test_ops_are_called_from_as_many_frames_as_the_program_has():
    seen = set()

    def hear(event):
        _, _, _, own, *callers = capture_stack(40)
        seen.add(len(callers))

    hearing_cost(hear, idle, stack=40, frames=5)
    assert seen == {5}


def test_a_log_tells_what_its_marks_cost(tmp_path):
    path = tmp_path / "run.jsonl"
    with mg.event_log(path):
        for _ in range(50):
            with mg.scope("part"):
                mg.ones(3) * 2
    with EventReader(str(path)) as reader:
        assert list(reader) and 50 * 100 < reader.end["marking_ns"] < reader.end["recording_ns"]
