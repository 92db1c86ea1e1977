"""Ctrl-C, at each place where Python may let it in, leaves no mode on and nothing recording."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends import random
from minigrad.engine import events, modes
from minigrad.engine.backward import running
from minigrad.instrument import sampler
from minigrad.instrument.formats import EventReader
from minigrad.instrument.log_writer import LogWriter

pytestmark = pytest.mark.promise(
    "Ctrl-C, before whichever instruction it comes, leaves no mode, level, setting or "
    "listener on, no lock held, no model half put back"
)

# until one of these has done its work, the mode of a block that is left is still on
_LEAVING = ("__exit__", "leave", "stack", "set", "__setattr__", "<listcomp>")


def interrupted(at, run):
    """Runs with KeyboardInterrupt at the `at`-th place; the function it came to, None: none left.

    The interpreter looks for signals where a Python function begins and behind each call of C.
    """
    left, where, dropped = at, None, []

    def profile(frame, event, _):
        nonlocal left, where
        if event in ("call", "c_return"):
            left -= 1
            if left == 0:
                where = frame.f_code.co_name
                raise KeyboardInterrupt

    # Python lets no error out of what runs where an object dies (the callback of a weak reference):
    # it reports it and goes on
    report, sys.unraisablehook = sys.unraisablehook, lambda it: dropped.append(it.exc_type)
    sys.setprofile(profile)
    try:
        run()
        arrived = where is None or KeyboardInterrupt in dropped
    except KeyboardInterrupt:
        arrived = True
    finally:
        sys.setprofile(None)
        sys.unraisablehook = report
    assert arrived, f"the interrupt in {where} was lost"
    return where


# Seconds that a log waits for its thread, which Ctrl-C may have kept from beginning: in some thirty
# of the places below. A thread that has begun ends at once.
WAIT = 0.1


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """Each test begins, and leaves others, without what an interrupt has left on."""
    monkeypatch.setattr(sampler, "_ENDS", WAIT)
    before = modes.state.all()
    yield
    modes.state.set(before)
    random._here.draws = None
    stop_listening()
    modes.add_level(-modes.levels)
    modes.add_reason(-modes.active)


def stop_listening():
    for listener in events.listeners:
        events.unlisten(listener)


BLOCKS = {
    "no_grad": lambda path: mg.no_grad(),
    "inference_mode": lambda path: mg.inference_mode(),
    "detect_anomaly": lambda path: mg.detect_anomaly(),
    "autocast": lambda path: mg.autocast(mg.float16),
    "Tape": lambda path: mg.Tape(),
    "Session": lambda path: mg.Session(),
    "scope": lambda path: mg.scope("here"),
    "saved_tensors_hooks": lambda path: mg.saved_tensors_hooks(lambda x: x, lambda x: x),
    "profile": lambda path: mg.profile(),
    "event_log": lambda path: mg.event_log(path, memory=True),
    "record_backward": lambda path: mg.record_backward(),
}


def each_interrupt_of(make, path):
    """(whether the block was entered, the function that was interrupted) for each place."""
    with make(path):  # what is compiled or measured once is there: every run has the same places
        pass
    path.unlink(missing_ok=True)
    for at in range(1, 10_000):
        block, entered = make(path), False

        def run(block=block):
            nonlocal entered
            with block:
                entered = True

        where = interrupted(at, run)
        if where is None:
            return
        yield entered, where


@pytest.fixture(scope="module")
def at_every_instruction():
    """What interrupted_instructions.py finds; in a process of its own, since between the
    instructions of `with lock:` it leaves locks that no interrupt of the interpreter's own would.
    """
    command = [sys.executable, "-m", "tests.modes.interrupted_instructions"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def test_no_instruction_is_a_place_where_an_interrupt_leaves_a_mode_on(at_every_instruction):
    assert {name: found["left on"] for name, found in at_every_instruction.items()} == {
        name: {} for name in at_every_instruction
    }
    assert all(found["interrupts"] > 40 for found in at_every_instruction.values())
    assert {*BLOCKS} <= {*at_every_instruction}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_that_could_not_be_entered_leaves_nothing_on(name, tmp_path):
    before, places = modes.state.all(), 0
    for entered, where in each_interrupt_of(BLOCKS[name], tmp_path / "log.jsonl"):
        if entered:
            break
        places += 1
        assert modes.state.all() == before, where
        assert events.listeners == (), where
    assert places > 1


@pytest.mark.parametrize("name", [name for name in BLOCKS if name != "event_log"])
def test_a_block_that_is_left_goes_back_first(name, tmp_path):
    before = modes.state.all()
    for _, where in each_interrupt_of(BLOCKS[name], tmp_path / "log.jsonl"):
        if where not in _LEAVING:
            assert modes.state.all() == before, where
        modes.state.set(before)
        stop_listening()


@pytest.mark.parametrize(
    "name",
    ["no_grad", "inference_mode", "detect_anomaly", "autocast", "Session", "saved_tensors_hooks"],
)
def test_a_mode_goes_back_before_anything_is_called(name, tmp_path):
    before, places = modes.state.all(), 0
    for entered, where in each_interrupt_of(BLOCKS[name], tmp_path / "log.jsonl"):
        if entered and where not in ("__exit__", "leave"):
            places += 1
            modes.state.set({})  # what the next block, or call of set, does
            assert modes.state.all() == before, where
        modes.state.set(before)
        stop_listening()
    assert places


def test_an_op_is_recorded_where_an_interrupt_left_a_mode_half_way_back():
    x = mg.ones(2, requires_grad=True)
    with mg.no_grad():
        pass
    modes.state.__dict__["plain"] = None
    y = (x * 3).sum()
    y.backward()
    assert x.grad.tolist() == [3, 3]


def test_an_event_log_that_could_not_be_opened_leaves_no_file(tmp_path):
    path = tmp_path / "log.jsonl"
    for entered, where in each_interrupt_of(BLOCKS["event_log"], path):
        if entered:
            break
        assert os.listdir(tmp_path) == [], where


def test_an_event_log_that_ctrl_c_meets_anywhere_behind_its_start_takes_its_name(tmp_path):
    path, places = tmp_path / "log.jsonl", 0
    for entered, where in each_interrupt_of(BLOCKS["event_log"], path):
        if entered and where not in ("__exit__", "close"):
            places += 1
            assert os.listdir(tmp_path) == ["log.jsonl"], where
            with EventReader(str(path)) as reader:
                assert list(reader) == [], where
        stop_listening()
        for file in tmp_path.iterdir():
            file.unlink()
    assert places > 50


@pytest.mark.parametrize("step", [(LogWriter, "flush"), (mg.event_log, "_close_device")])
def test_an_event_log_that_is_interrupted_as_it_ends_is_a_whole_file(step, tmp_path, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    path = tmp_path / "log.jsonl"
    with pytest.raises(KeyboardInterrupt), mg.event_log(path):
        mg.ones(3) * 2
        monkeypatch.setattr(*step, interrupt)
    assert os.listdir(tmp_path) == ["log.jsonl"]
    assert json.loads(path.read_text().splitlines()[-1])["kind"] == "end"
    assert events.listeners == ()


def test_a_backward_that_was_interrupted_claims_its_graph_no_longer():
    x = mg.ones(3, requires_grad=True)
    y = (x * x).sum()
    for at in range(1, 10_000):
        where = interrupted(at, lambda: mg.grad(y, x, retain_graph=True, engine="parallel"))
        if where is None:
            break
        assert all(work.ended for work in running), where
    assert at > 50


def recomputed():
    x = mg.ones(3, requires_grad=True)
    mg.checkpoint(lambda x: np.tanh(x) * x, x).sum().backward()


RUNS = {
    "grad": lambda: mg.func.grad(lambda x: (x * x).sum())(mg.ones(3)),
    "jvp": lambda: mg.func.jvp(np.sin, (mg.ones(3),), (mg.ones(3),)),
    "vmap": lambda: mg.func.vmap(lambda x: x * mg.rand(), randomness="different")(mg.ones(3)),
    "hessian": lambda: mg.func.hessian(lambda x: (x * x).sum())(mg.ones(3)),
    "checkpoint": recomputed,
    "autocast": lambda: mg.autocast(mg.float16)(np.matmul)(mg.ones(2, 2), mg.ones(2, 2)),
    "lazy": lambda: mg.func.vmap(mg.nn.LazyLinear(2))(mg.ones(3, 2)),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_was_interrupted_leaves_no_mode_on(name):
    RUNS[name]()  # what is made once is there
    before, left = modes.state.all(), set()
    for at in range(1, 10_000):
        where = interrupted(at, RUNS[name])
        if where is None:
            break
        modes.state.set({})  # what the next block, or call of set, does
        if modes.state.all() != before:
            left.add(where)
        modes.state.set(before)
    assert at > 50
    assert left == set()
