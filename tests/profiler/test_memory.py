"""Memory from a log: the peak, whose it was, what waited for a backward, what could go earlier."""

import gc
import json

import numpy as np
import pytest
from minigrad_profiler.cli import main
from minigrad_profiler.memory import story, write_bytes

import minigrad as mg
from minigrad.errors import FormatError
from minigrad.instrument.formats import EventReader, json_text
from minigrad.instrument.records import CATEGORIES, Allocation, Release

pytestmark = pytest.mark.promise("bytes return to zero; the peak is the sum of its owners")

N = 1000
KEPT = ("parameter", "optimizer state")


def recorded(tmp_path, fn, **options):
    path = str(tmp_path / "run.jsonl")
    with mg.event_log(path, memory=True, **options):
        fn()
        gc.collect()
    return path


def training(keep):
    def run():
        model = mg.nn.Sequential(mg.nn.Linear(8, 16), mg.nn.Tanh(), mg.nn.Linear(16, 2))
        optimizer = mg.optim.Adam(model.parameters())
        x = mg.tensor(np.ones((4, 8), "float32"))
        for _ in range(3):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        if keep is not None:
            keep.extend([model, optimizer, x])

    return run


def test_bytes_return_to_zero_when_everything_is_released(tmp_path):
    found = story(recorded(tmp_path, training(None)))
    assert found.at_end == 0 and found.allocations == found.releases > 10
    assert found.peak > 0 and sum(found.at_peak.values()) == found.peak
    assert sum(owner.bytes for owner in found.owners) == found.peak


def test_what_is_kept_is_alive_at_the_end_under_its_category(tmp_path):
    kept = []
    path = recorded(tmp_path, training(kept))
    alive = {}
    with EventReader(path) as reader:
        for record in reader.records():
            if isinstance(record, Allocation):
                alive[record.id] = record
            elif isinstance(record, Release):
                del alive[record.id]
    parameters = sum(p.data.nbytes for p in kept[0].parameters())
    totals = dict.fromkeys(CATEGORIES, 0)
    for record in alive.values():
        totals[record.category] += record.bytes
    assert totals["parameter"] == parameters
    assert totals["input"] == kept[2].data.nbytes
    assert totals["optimizer state"] >= 2 * parameters
    assert story(path).at_end == sum(totals.values())


def chain():
    """Three saved results of 8000 bytes each, then small ones: they only wait for the backward."""
    x = mg.tensor(np.linspace(0.1, 1.0, N), requires_grad=True)
    y = mg.exp(mg.exp(mg.exp(x)))
    loss = y.sum()
    del y
    return loss


def test_saved_results_wait_for_the_backward_alone(tmp_path):
    def run():
        loss = chain()
        big = mg.ones(5 * N) * 2  # the peak comes here
        del big
        loss.backward()

    found = story(recorded(tmp_path, run))
    saved = [owner for owner in found.owners if owner.category == "saved"]
    assert sum(owner.bytes for owner in saved) == 3 * 8 * N
    assert sum(owner.waiting for owner in saved) == 3 * 8 * N
    assert all(owner.op == "exp" and "test_memory.py:" in owner.place for owner in saved)
    assert all(owner.needless == 0 for owner in saved)
    assert all(owner.earliest_ns <= owner.released_ns for owner in saved)


def test_what_is_held_for_nothing_is_named_with_its_line(tmp_path):
    def run():
        hog = mg.ones(4 * N) * 3  # nobody reads it again
        y = mg.ones(6 * N) * 2
        y + 1
        del hog, y

    found = story(recorded(tmp_path, run))
    hog = next(owner for owner in found.owners if owner.needless and owner.op == "mul")
    assert hog.needless == hog.bytes == 4 * 8 * N and hog.earliest_ns < found.peak_ns
    assert found.possible < found.peak


def test_what_training_keeps_for_its_next_step_is_not_held_for_nothing(tmp_path):
    def run():
        model = mg.nn.Linear(100, 50)
        optimizer = mg.optim.Adam(model.parameters())
        model(mg.ones(4, 100)).sum().backward()
        optimizer.step()
        big = mg.ones(50 * N) * 2  # the peak comes here: the log knows of no step behind it
        del big, optimizer

    kept = [o for o in story(recorded(tmp_path, run)).owners if o.category in KEPT]
    assert {owner.category for owner in kept} == set(KEPT)
    assert all(owner.bytes and not owner.needless for owner in kept)


def test_views_count_once(tmp_path):
    def run():
        x = mg.ones(N)
        y = x * 2
        views = [y.reshape(10, 100).T, y[5:], y, mg.sliding_window_view(y, 100)]
        del views

    assert story(recorded(tmp_path, run)).peak == 2 * 8 * N


def test_the_timeline_never_exceeds_the_peak_and_reaches_it(tmp_path):
    found = story(recorded(tmp_path, training(None)))
    assert max(total for _, total, _ in found.timeline) == found.peak
    for _, total, by_category in found.timeline:
        assert total == sum(by_category.values()) and min([0, *by_category.values()]) >= 0


def test_the_profile_counts_the_same_peak(tmp_path):
    # One after the other: the log's writer may hold an array for a moment, which a profile counts.
    path = str(tmp_path / "run.jsonl")
    with mg.event_log(path, memory=True):
        training(None)()
    with mg.profile(memory=True) as prof:
        training(None)()
    told = prof.memory.as_dict()
    assert told["peak"] == story(path).peak and told["live"] == 0
    assert sum(told["at_peak"].values()) == told["peak"]
    assert "memory at its peak" in prof.table()


def test_the_command_fits_its_width_and_gives_json(tmp_path, capsys):
    path = recorded(tmp_path, training(None))
    for width in ("80", "200"):
        assert main(["memory", path, "--width", width]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("peak ") and all(len(line) <= int(width) for line in lines)
    assert main(["memory", path, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "minigrad.memory" and document["peak"] == story(path).peak


def test_a_log_without_memory_says_how_to_record_it(tmp_path, capsys):
    with mg.event_log(str(tmp_path / "run.jsonl")):
        mg.ones(2) * 2
    assert main(["memory", str(tmp_path / "run.jsonl")]) == 2
    assert "run --memory" in capsys.readouterr().err


def test_memory_released_twice_or_never_held_is_a_clear_error(tmp_path):
    path = recorded(tmp_path, chain)
    lines = open(path, encoding="utf-8").read().splitlines(keepends=True)
    release = {"kind": "release", "id": 9999, "t": 1, "used": 1, "used_forward": 1}
    with open(path, "w", encoding="utf-8") as file:
        file.writelines([*lines[:-1], json_text(release) + "\n", lines[-1]])
    with pytest.raises(FormatError, match="released without being held"):
        story(path)


def test_arrays_beyond_the_bound_are_counted(tmp_path):
    found = story(recorded(tmp_path, training(None), max_events=5))
    assert found.untracked > 0 and "not followed" in found.text()


def test_the_bytes_at_the_peak_become_a_speedscope_file(tmp_path):
    path = recorded(tmp_path, training(None))
    write_bytes(path, str(tmp_path / "bytes.json"))
    document = json.loads((tmp_path / "bytes.json").read_text())
    profile = document["profiles"][0]
    assert profile["type"] == "sampled" and profile["unit"] == "bytes"
    assert len(profile["samples"]) == len(profile["weights"])
    assert sum(profile["weights"]) == story(path).peak == profile["endValue"]
    frames = document["shared"]["frames"]
    assert all(0 <= frame < len(frames) for stack in profile["samples"] for frame in stack)


def test_a_log_without_arrays_names_no_kinds_at_its_peak(tmp_path):
    log = str(tmp_path / "run.jsonl")
    with mg.event_log(log, memory=True):
        pass
    assert "at the peak" not in story(log).text()


def test_arrays_of_any_size_have_a_chart(tmp_path, capsys):
    path = recorded(tmp_path, training(None))
    lines = [json.loads(line) for line in open(path)]
    for line in lines:
        if line.get("kind") == "alloc":
            line["bytes"] = (2**63 - 1) // sum(other.get("kind") == "alloc" for other in lines)
    (tmp_path / "huge.jsonl").write_text("".join(json_text(line) + "\n" for line in lines))
    assert main(["memory", str(tmp_path / "huge.jsonl")]) == 0
    assert "█" in capsys.readouterr().out
