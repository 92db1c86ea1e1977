"""Random programs: every way of running one agrees, and a planted fault is found and cut down."""

import pickle
import re
from contextlib import contextmanager
from functools import partial
from unittest import mock

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import backward
from minigrad.engine.backward import engines
from minigrad.engine.plan import Rule
from minigrad.engine.registry import op
from minigrad.func.levels import LevelTensor
from minigrad.fusion.fuse import _Pullback
from minigrad.tape.program import Program
from minigrad.testing import cli
from minigrad.testing.errors import GradcheckError
from minigrad.testing.programs import compare, ways
from minigrad.testing.programs.draw import draw
from minigrad.testing.programs.run import SELDOM, Tally, check_programs
from minigrad.testing.programs.ways import NAMES

pytestmark = pytest.mark.promise(
    "random programs agree in every engine, mode, nesting, replay and compiled form"
)

COUNT = 150  # programs of each seed; .ci/run takes others for every commit


@pytest.mark.parametrize("seed", range(4))
def test_every_way_of_running_random_programs_agrees(seed):
    tally = Tally()
    found = [str(failure) for failure in check_programs(COUNT, seed, tally=tally)]
    assert not found, "\n".join(found)
    assert tally.programs == COUNT
    assert set(tally.comparisons) == set(NAMES)


def test_a_program_is_the_same_for_the_same_seed_and_number():
    assert [draw(3, i).text("tape") for i in range(20)] == [
        draw(3, i).text("tape") for i in range(20)
    ]
    assert draw(3, 1).text("tape") != draw(4, 1).text("tape")


def test_a_convolution_is_drawn_whose_kernel_fits_the_padded_input():
    program = draw(311, 126)  # had a kernel of 10 for 5 + 4 elements
    assert any("conv1d" in line.form for line in program.lines)
    program.function(*[mg.tensor(x) for x in program.xs])


def test_every_way_is_run_often_enough_to_matter():
    assert set(SELDOM) <= set(NAMES)
    assert max(SELDOM.values()) <= COUNT


def first_failure(seed=0, count=400):
    failure = next(check_programs(count, seed), None)
    assert failure is not None, "the planted fault was not found"
    return failure


def require_small(failure):
    """At most six lines, leaves and all; and what is printed shows the failure by itself."""
    assert len(failure.shrunk.leaves) + len(failure.shrunk.lines) <= 6, str(failure)
    with pytest.raises(GradcheckError):
        exec(failure.shrunk.text(failure.way), {})


@contextmanager
def planted_rule(monkeypatch, entry, name, wrong):
    """The op's rule is wrong(right rule, *its arguments) inside."""
    right = entry.rules[name]
    rule = Rule(partial(wrong, right.fn), right.names, right.partial)
    monkeypatch.setitem(entry.rules, name, rule)
    entry.plans.clear()
    try:
        yield
    finally:
        monkeypatch.undo()
        entry.plans.clear()


def test_a_rule_that_is_wrong_for_a_broadcast_argument_is_found_and_cut_down(monkeypatch):
    def wrong(right, g, y, b):
        return right(g, y, b) * (1.01 if y.shape != b.shape else 1.0)

    with planted_rule(monkeypatch, op.div, "b", wrong):
        failure = first_failure()
        require_small(failure)
        assert len(failure.shrunk.lines) <= 2


def test_a_rule_that_is_wrong_inside_two_transforms_alone_is_found_and_cut_down(monkeypatch):
    def wrong(right, y):
        inside = isinstance(y, LevelTensor) and isinstance(y.data, LevelTensor)
        return right(y) * (1.01 if inside else 1.0)

    with planted_rule(monkeypatch, op.exp, "x", wrong):
        failure = first_failure()
        assert failure.way in ("second order", "nestings", "vmap of the gradient")
        require_small(failure)


def test_a_rule_without_its_conjugate_is_found_and_cut_down(monkeypatch):
    wrong = lambda right, g, b, a_shape: right(g, b.conj(), a_shape)
    with planted_rule(monkeypatch, op.matmul, "a", wrong):
        failure = first_failure()
        assert any(x.dtype.kind == "c" for x in failure.program.xs)
        require_small(failure)


def test_a_wrong_gradient_of_a_fused_function_is_found_and_cut_down(monkeypatch):
    right = _Pullback._forward

    def wrong(self, *arrays):
        ys = right(self, *arrays)
        return tuple(y * y.dtype.type(1.01) for y in ys) if isinstance(ys, tuple) else ys * 1.01

    monkeypatch.setattr(_Pullback, "_forward", wrong)
    failure = first_failure()
    assert "mg.fuse" in failure.shrunk.source
    require_small(failure)


def test_a_replay_that_keeps_a_buffer_of_the_call_before_is_found_and_cut_down(monkeypatch):
    right = Program.__call__
    kept = {}

    def stale(self, *inputs):
        return kept.setdefault(id(self), (self, right(self, *inputs)))[1]

    monkeypatch.setattr(Program, "__call__", stale)
    failure = first_failure()
    assert failure.way == "replayed twice"
    require_small(failure)


def test_a_replay_at_the_values_that_were_recorded_is_found_and_cut_down(monkeypatch):
    right = Program.__call__
    baked = lambda self, *inputs: right(self, *[x.array for x in self._inputs])
    monkeypatch.setattr(Program, "__call__", baked)
    failure = first_failure()
    assert failure.way == "replayed tape"
    require_small(failure)


def walk_that_adds_by(add):
    def walk(work):
        with mock.patch.object(backward, "add_into", add):
            backward.walk(work)

    return walk


def test_an_engine_that_adds_in_another_order_is_found_and_cut_down(monkeypatch):
    arrived = {}

    def reversed_sums(cotangents, parent, c):
        terms = arrived.setdefault(parent, [cotangents[parent]])
        terms.append(c)
        total = terms[-1]
        for term in terms[-2::-1]:
            total = total + term
        cotangents[parent] = total

    monkeypatch.setitem(engines, "parallel", walk_that_adds_by(reversed_sums))
    failure = first_failure()
    assert "workers" in failure.way
    require_small(failure)


def test_an_engine_that_drops_a_contribution_is_found_and_cut_down(monkeypatch):
    dropped = lambda cotangents, parent, c: None
    monkeypatch.setitem(engines, "parallel", walk_that_adds_by(dropped))
    failure = first_failure()
    assert "workers" in failure.way
    require_small(failure)


def test_the_command_exits_with_0_and_counts_what_it_has_compared(capsys):
    assert cli.main(["--programs", "20", "--seed", "5"]) == 0
    assert "20 programs of seed 5, " in capsys.readouterr().out


def test_without_numba_no_program_is_wrong_for_want_of_compiled_loops(monkeypatch):
    monkeypatch.setattr(ways, "optional", lambda name: None)
    tally = Tally()
    assert list(check_programs(1, 0, tally=tally)) == []
    assert tally.refused["accelerate"] == 1


def test_the_command_exits_with_1_and_prints_the_program_and_its_seed(capsys, monkeypatch):
    monkeypatch.setattr(Program, "__call__", lambda self, *inputs: 1 / 0)
    assert cli.main(["--programs", "3", "--seed", "5"]) == 1
    printed = capsys.readouterr().out
    assert "of seed 5" in printed
    assert "def program(" in printed


def test_several_processes_find_what_one_does(capsys):
    assert cli.main(["--programs", "45", "--seed", "6", "-j", "2"]) == 0
    several = capsys.readouterr().out
    assert cli.main(["--programs", "45", "--seed", "6"]) == 0
    without_time = lambda text: re.sub(r"[\d.]+ s", "", text)
    assert without_time(several) == without_time(capsys.readouterr().out)


def test_a_failure_can_be_sent_by_another_process(monkeypatch):
    monkeypatch.setattr(Program, "__call__", lambda self, *inputs: 1 / 0)
    failure = first_failure()
    assert str(pickle.loads(pickle.dumps(failure))) == str(failure)


def test_programs_in_a_number_that_is_none_are_wrong_usage(capsys):
    assert cli.main(["--programs", "0"]) == 2
    assert "--programs" in capsys.readouterr().err


def test_a_way_that_there_is_not_is_told_those_that_there_are():
    with pytest.raises(ValueError, match="tape"):
        compare("no such way", mg.sin, [np.ones(3)])
