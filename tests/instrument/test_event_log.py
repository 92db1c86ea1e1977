"""The event log: what stands in it, that it is always whole, and that memory stays bounded."""

import json
import os
import threading
import time
from importlib import resources

import jsonschema
import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import events, modes
from minigrad.instrument import event_log, log_lines
from minigrad.instrument.calls import FIELDS
from minigrad.instrument.formats import EventReader
from minigrad.instrument.hearing_cost import Cost
from minigrad.instrument.log_writer import BATCH
from minigrad.modes.scopes import scope

SCHEMA = json.loads(
    resources.files("minigrad.instrument").joinpath("events.schema.json").read_text()
)


def leaf(*shape):
    return mg.tensor(np.linspace(0.1, 1.0, int(np.prod(shape))).reshape(shape), requires_grad=True)


def train(steps=1):
    w, x = leaf(4, 4), leaf(3, 4)
    for _ in range(steps):
        with scope("model"), scope("fc"):
            y = mg.tanh(x @ w)
        y.sum().backward()


def record(path, fn, **options):
    """The events of a call, as read back."""
    with event_log(path, **options):
        fn()
    with EventReader(str(path)) as reader:
        return list(reader)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


def test_every_line_fits_the_schema(path):
    record(path, lambda: train(2))
    validator = jsonschema.Draft202012Validator(SCHEMA)
    lines = path.read_text().splitlines()
    for line in lines:
        validator.validate(json.loads(line))
    assert json.loads(lines[0])["format"] == "minigrad.events"
    end = json.loads(lines[-1])
    assert (end["kind"], end["events"], end["dropped"]) == ("end", 14, 0)


def test_a_backward_event_knows_its_forward_by_number_line_and_scope(path):
    found = record(path, train)
    forward = {event.seq: event for event in found if event.kind == "forward"}
    backward = [event for event in found if event.kind == "backward"]
    assert [event.op for event in backward] == ["sum", "tanh", "matmul"]
    for event in backward:
        twin = forward[event.seq]
        assert (event.op, event.site, event.scope) == (twin.op, twin.site, twin.scope)
    assert {event.op: event.scope for event in backward}["matmul"] == "model/fc"


def test_the_site_is_the_users_line(path):
    def fn():
        leaf(2) * 2

    (event,) = record(path, fn)
    assert event.site["file"] == __file__
    assert event.site["line"] == fn.__code__.co_firstlineno + 1
    assert event.site["function"].endswith("fn")


def test_shapes_dtypes_and_bytes_are_those_of_inputs_and_outputs(path):
    event = record(path, lambda: leaf(3, 1) * mg.tensor(np.ones(4, np.float32)))[0]
    assert event.arrays["inputs"] == [
        {"shape": [3, 1], "dtype": "float64", "bytes": 24},
        {"shape": [4], "dtype": "float32", "bytes": 16},
    ]
    assert event.arrays["outputs"] == [{"shape": [3, 4], "dtype": "float64", "bytes": 96}]
    assert event.bytes == 96


def test_ops_that_are_not_recorded_have_no_number_but_a_line(path):
    def fn():
        with mg.no_grad():
            leaf(2) * 2

    (event,) = record(path, fn)
    assert event.seq is None and event.site["file"] == __file__


def test_a_whole_backward_is_an_event_around_those_of_its_nodes(path):
    found = record(path, train)
    (whole,) = [event for event in found if event.kind == "pass"]
    inside = [event for event in found if event.kind == "backward"]
    assert all(whole.t0 <= event.t0 <= event.t1 <= whole.t1 for event in inside)


def test_a_failed_backward_says_so(path):
    x = leaf(2)
    y = (x * x).sum()

    def fn():
        y.backward()
        y.backward()

    with pytest.raises(RuntimeError), event_log(path):
        fn()
    with EventReader(str(path)) as reader:
        assert [event.op for event in reader if event.kind == "pass"] == ["backward"]


def test_threads_have_names(path):
    def fn():
        worker = threading.Thread(target=train, name="worker-7")
        worker.start()
        worker.join()
        train()

    with event_log(path):
        fn()
    with EventReader(str(path)) as reader:
        threads = {event.thread for event in reader}
        assert len(threads) == 2
        assert "MainThread" in reader.threads.values()


def test_an_exception_still_leaves_a_whole_log(path):
    before = modes.active
    with pytest.raises(KeyError), event_log(path):
        train()
        raise KeyError
    with EventReader(str(path)) as reader:
        assert len(list(reader)) == 7
    assert os.listdir(path.parent) == ["run.jsonl"]
    assert modes.active == before and not events.wants_origin


def test_the_file_has_its_name_only_when_it_is_whole(path):
    with event_log(path):
        train()
        assert os.listdir(path.parent) == ["run.jsonl.partial"]
    assert os.listdir(path.parent) == ["run.jsonl"]


def test_what_is_beyond_the_limit_is_counted(path):
    with event_log(path, max_events=3) as log:
        for _ in range(10):
            leaf(2) * 2
    assert (log.events, log.dropped) == (3, 7)
    with EventReader(str(path)) as reader:
        assert len(list(reader)) == 3 and reader.dropped == 7


def test_short_events_can_be_dropped_and_are_counted(path):
    with event_log(path, min_us=10e6) as log:
        train()
    assert (log.events, log.dropped) == (1, 6)  # the whole backward is kept


def test_no_more_than_a_batch_of_events_waits_in_memory(path):
    x = leaf(2)
    with event_log(path) as log:
        most = 0
        for _ in range(5000):
            x * 2
            most = max(most, len(log._writer.events))
    assert most <= FIELDS * BATCH
    with EventReader(str(path)) as reader:
        assert len(list(reader)) == 5000


def test_names_that_were_forgotten_are_defined_again(path, monkeypatch):
    monkeypatch.setattr(log_lines, "_MOST_NAMES", 3)
    found = record(path, lambda: [leaf(n % 5 + 1) * 2 for n in range(40)])
    assert [event.arrays["outputs"][0]["shape"] for event in found] == [
        [n % 5 + 1] for n in range(40)
    ]


def test_threads_that_write_together_lose_nothing(path):
    def work():
        x = leaf(2)
        for _ in range(1500):
            x * 2

    def fn():
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(record(path, fn)) == 6000


def test_a_log_that_cannot_be_opened_is_an_error_at_once(tmp_path):
    with pytest.raises(FileNotFoundError), event_log(tmp_path / "no" / "run.jsonl"):
        pass


def test_a_full_disk_ends_the_recording_and_not_the_program(path, capsys):
    class Full:
        def write(self, text):
            raise OSError(28, "No space left on device")

    log = event_log(path)
    with log:
        log._writer.file.close()
        log._writer.file = Full()
        for _ in range(3000):
            leaf(2) * 2
        assert log not in events.listeners
    assert "No space left" in capsys.readouterr().err
    assert not path.exists()


def test_a_log_that_is_open_cannot_be_opened_again(path):
    with event_log(path) as log, pytest.raises(RuntimeError, match="open already"):
        log.__enter__()


def test_the_same_run_twice_agrees_in_counts(tmp_path):
    seen = []
    for name in ("a", "b"):
        found = record(tmp_path / name, lambda: train(3))
        seen.append([(event.kind, event.op, event.bytes, event.scope) for event in found])
    assert seen[0] == seen[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork of POSIX")
def test_a_forked_child_leaves_the_log_to_its_parent(path):
    x = leaf(2)

    def fn():
        x * 2
        if (child := os.fork()) == 0:
            for _ in range(5000):
                x * 3
            os._exit(bool(events.listeners))
        assert os.waitpid(child, 0)[1] == 0
        x * 4

    assert len(record(path, fn)) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork of POSIX")
def test_a_forked_child_that_leaves_the_block_does_not_name_the_log(path):
    with event_log(path, memory=True) as log:
        child = os.fork()
        if child == 0:
            log.close()
            os._exit(path.exists())
        assert os.waitpid(child, 0)[1] == 0 and not path.exists()
        leaf(2) * 2
    with EventReader(str(path)) as reader:
        assert len(list(reader)) == 1


def test_a_full_disk_is_no_error_of_the_program_even_without_a_standard_error(path, monkeypatch):
    class Full:
        def write(self, text):
            raise OSError(28, "No space left on device")

        flush = write

    with event_log(path) as log:
        monkeypatch.setattr(log._writer, "file", Full())
        monkeypatch.setattr("sys.stderr", Full())
        leaf(2) * 2
        log._writer.flush()
        assert log not in events.listeners


def test_a_call_with_very_many_arrays_is_a_line_that_is_read(path):
    def fn():
        parts = mg.split(leaf(30_000), 30_000)
        mg.concatenate(parts).sum().backward()

    found = record(path, fn)
    assert [e.bytes for e in found if e.kind == "forward"] == [240_000, 240_000, 8]
    assert max(len(e.arrays[side]) for e in found for side in ("inputs", "outputs")) == 1000
    validator = jsonschema.Draft202012Validator(
        SCHEMA
    )  # `validate` looks the schema over each time
    for line in path.read_text().splitlines():
        validator.validate(json.loads(line))


def test_names_of_any_length_are_lines_that_are_read(path):
    long = "n" * 2_000_000
    double = mg.elementwise(lambda x: x + x, name=long, dx=lambda: 2)

    def fn():
        with scope(long):
            thread = threading.Thread(target=lambda: double(leaf(2)), name=long)
            thread.start()
            thread.join()
            leaf(2) * 2

    first, second = record(path, fn)
    assert long.startswith(first.op) and second.scope and long.startswith(second.scope)


def test_a_thread_that_ended_before_its_lines_were_written_keeps_its_name(tmp_path):
    path = str(tmp_path / "run.jsonl")
    with mg.event_log(path):
        thread = threading.Thread(target=lambda: mg.ones(3).sum(), name="loader")
        thread.start()
        thread.join()
    with EventReader(path) as reader:
        assert list(reader) and set(reader.threads.values()) == {"MainThread", "loader"}


def test_options_that_are_no_numbers_are_refused(tmp_path):
    path = tmp_path / "run.jsonl"
    assert mg.event_log(path, max_events=1e6).max_events == 1_000_000
    for name, wrong in (("max_events", "a"), ("max_events", -1), ("stack", -1), ("stack", None)):
        with pytest.raises(ValueError, match=f"event_log: {name} must be an integer, 0 or more"):
            mg.event_log(path, **{name: wrong})
    with pytest.raises(ValueError, match="min_us should be microseconds"):
        mg.event_log(path, min_us="a")


def test_threads_one_after_another_have_lanes_and_names_of_their_own(path):
    """The system gives the number of a thread that has ended to the next one."""
    with event_log(path):
        for name in ("first", "second", "third"):
            thread = threading.Thread(target=lambda: mg.ones(3).sum(), name=name)
            thread.start()
            thread.join()
    with EventReader(str(path)) as reader:
        lanes = [reader.threads[event.thread] for event in reader if event.op == "sum"]
    assert lanes == ["first", "second", "third"]


def test_steps_of_a_warm_up_are_heard_and_forgotten(path):
    x = leaf(2)
    with event_log(path, schedule=(0, 1, 1, 1)) as log:
        (x * 2).sum().backward()
        assert events.listeners == (log,)
        log.step()
        (x * 3).sum().backward()
        log.step()
        assert events.listeners == ()
    with EventReader(str(path)) as reader:
        assert [event.op for event in reader] == ["mul", "sum", "sum", "mul", "backward"]


def test_what_closing_takes_is_not_in_the_recorded_time(path, monkeypatch):
    def slow(log):
        time.sleep(0.2)
        return Cost(0.0, 0.0)

    monkeypatch.setattr(event_log, "_hearing_cost", slow)
    began = time.perf_counter_ns()
    with event_log(path):
        leaf(2) * 2
    whole = time.perf_counter_ns() - began
    with EventReader(str(path)) as reader:
        assert list(reader) and reader.end["wall_ns"] <= whole - 200_000_000


def test_a_thread_that_can_be_found_by_number_has_its_name_already(monkeypatch):
    """The sampler numbers a thread, which may ask for its name before the sampler goes on."""
    threads, seen = log_lines.Threads(), []

    def ask_meanwhile():
        seen.append([threads.told(number) for number in threads._given.values()])
        return []

    monkeypatch.setattr(log_lines.threading, "enumerate", ask_meanwhile)
    assert [threads.told(threads.number_of(ident))["name"] for ident in (7, 8)] == [
        "thread 7", "thread 8",
    ]  # fmt: skip
    assert [len(found) for found in seen] == [0, 1]


def test_a_thread_that_asks_as_the_sampler_numbers_it_has_one_number(monkeypatch):
    threads, own = log_lines.Threads(), []

    def ask_meanwhile():
        if not own:
            own.append(None)
            own[0] = threads.here()
        return []

    monkeypatch.setattr(log_lines.threading, "enumerate", ask_meanwhile)
    assert threads.number_of(threading.get_ident()) == own[0] == threads.here()
