"""Samples: whose frames they show, and that nothing of them stays behind."""

import gc
import sys
import threading
import time

import numpy as np

import minigrad as mg
from minigrad.instrument.formats import EventReader
from minigrad.instrument.memory import MemoryTracker
from minigrad.instrument.records import Sample
from minigrad.instrument.sampler import DATA, IMPORT, LIBRARY, OURS, USER, Sampler, kind_of


def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(100))


def samples_of(path):
    with EventReader(str(path)) as reader:
        return [record for record in reader.records() if isinstance(record, Sample)]


def test_python_between_ops_is_seen_at_its_line(tmp_path):
    with mg.event_log(tmp_path / "run.jsonl"):
        busy(0.2)
    seen = samples_of(tmp_path / "run.jsonl")
    functions = [sample.stack[0]["function"] for sample in seen]
    assert functions.count("busy") >= 5 and {sample.doing for sample in seen} <= {
        "python",
        "library",
    }


def test_without_a_period_nothing_is_looked_at(tmp_path):
    with mg.event_log(tmp_path / "run.jsonl", sample_ms=0):
        busy(0.1)
    assert samples_of(tmp_path / "run.jsonl") == []


def threads(expected):
    """How many there are, once there are as many as expected, or after a second."""
    end = time.perf_counter() + 1
    while len(sys._current_frames()) != expected and time.perf_counter() < end:
        time.sleep(0.001)
    return len(sys._current_frames())


def test_an_ended_recording_leaves_nothing_behind(tmp_path):
    count, before = len(sys._current_frames()), (sys.getswitchinterval(), len(gc.callbacks))
    with mg.event_log(tmp_path / "run.jsonl"):
        assert threads(count + 1) == count + 1
    assert threads(count) == count
    assert (sys.getswitchinterval(), len(gc.callbacks)) == before


def test_code_is_ours_a_librarys_or_the_users():
    assert kind_of(mg.__file__, "minigrad") == OURS
    assert kind_of(threading.__file__, "threading") == LIBRARY
    assert kind_of("<frozen importlib._bootstrap>", "importlib._bootstrap") == IMPORT
    assert kind_of("<string>", "namedtuple_Point") == LIBRARY
    assert kind_of(__file__, __name__) == USER


def test_only_a_dataloader_s_own_frames_are_reading_data():
    assert kind_of(mg.__file__, "minigrad.data.loader") == DATA
    assert kind_of(mg.__file__, "minigrad.data.bundled") == OURS  # load_digits()


def test_an_import_belongs_to_the_line_that_asked_for_it(tmp_path, monkeypatch):
    (tmp_path / "slow_to_load.py").write_text("import time\ntime.sleep(0.1)\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def step():
        import slow_to_load  # noqa: F401

    with mg.event_log(tmp_path / "run.jsonl"):
        step()
    (place,) = {
        (sample.stack[0]["function"].rpartition(".")[2], sample.via)
        for sample in samples_of(tmp_path / "run.jsonl")
        if sample.doing == "import"
    }
    assert place == ("step", "slow_to_load")


def test_a_sampler_that_never_should_does_not_start():
    sampler = Sampler(print, id, 0)
    sampler.start()
    assert sampler.taken == 0 and not any(
        thread.name == "minigrad-sampler" for thread in threading.enumerate()
    )


def test_nothing_is_collected_while_frames_are_looked_at(monkeypatch):
    """Python 3.11 may crash where a collection begins as a frame becomes an object."""
    seen = []
    sampler = Sampler([].append, id)
    monkeypatch.setattr(sampler, "described", lambda frame: seen.append(gc.isenabled()))
    sampler._look(0, own=0)
    assert seen and not any(seen) and gc.isenabled()


def test_a_collector_that_the_program_has_switched_off_stays_off():
    gc.disable()
    try:
        Sampler([].append, id)._look(0, own=0)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_memory_that_a_look_alone_kept_is_free_since_the_look_began():
    sampler = Sampler([].append, id)
    before = time.perf_counter_ns()
    assert sampler.freed() >= before  # in a thread of the program: now
    sampler._own, sampler._looked = threading.get_ident(), 7
    assert sampler.freed() == 7


def test_memory_is_never_free_before_its_last_use():
    told, x = [], np.ones(3)
    tracker = MemoryTracker(told.append, 10, freed=lambda: 7)
    tracker.forward("mul", 50, None, (), (x,), (0, None))
    del x
    assert [entry[:3] for entry in told if entry[0] == "release"] == [("release", 0, 51)]
