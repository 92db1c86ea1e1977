"""The Chrome trace: what Perfetto needs of lanes, slices, times and arrows."""

import json
import re
import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import FormatError
from minigrad.instrument import event_log
from minigrad.instrument.chrome import write_chrome


def leaf(*shape):
    return mg.tensor(np.ones(shape), requires_grad=True)


def trace(tmp_path, fn):
    with event_log(tmp_path / "run.jsonl"):
        fn()
    write_chrome(str(tmp_path / "run.jsonl"), str(tmp_path / "trace.json"))
    return json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def two_threads_and_a_second_derivative():
    def work():
        x = leaf(3, 3)
        (g,) = mg.grad((mg.tanh(x) ** 2).sum(), [x], create_graph=True)
        (g * g).sum().backward()

    worker = threading.Thread(target=work, name="worker")
    worker.start()
    work()
    worker.join()


def slices(events):
    """Ops and marks; not the making of the tensors that they are given."""
    found = [event for event in events if event["ph"] == "X"]
    return [event for event in found if not event["name"].startswith("from NumPy")]


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def test_slices_of_a_lane_nest_to_the_nanosecond(tmp_path):
    events = slices(trace(tmp_path, two_threads_and_a_second_derivative))
    for lane in {event["tid"] for event in events}:
        stack = []
        mine = [event for event in events if event["tid"] == lane]
        for event in sorted(mine, key=lambda event: (event["ts"], -event["dur"])):
            start = nanoseconds(event["ts"])
            end = start + nanoseconds(event["dur"])
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or end <= stack[-1]
            stack.append(end)


def test_times_are_printed_with_three_decimals(tmp_path):
    trace(tmp_path, lambda: leaf(2) * 2)
    text = (tmp_path / "trace.json").read_text()
    times = re.findall(r'"(?:ts|dur)":([^,}]+)', text)
    assert times and all(re.fullmatch(r"\d+\.\d{3}", time) for time in times)


def test_lanes_are_numbered_from_1_and_named(tmp_path):
    events = trace(tmp_path, two_threads_and_a_second_derivative)
    assert {event["tid"] for event in slices(events)} == {1, 2}
    named = [event for event in events if event["name"] == "thread_name"]
    assert "MainThread" in {event["args"]["name"] for event in named}
    assert all(0 < event["pid"] < 2**32 for event in events)


def test_an_arrow_leads_from_each_forward_to_its_backward(tmp_path):
    def fn():
        mg.tanh(leaf(3)).sum().backward()

    events = trace(tmp_path, fn)
    place = {id(event): at for at, event in enumerate(events)}
    by_number = {}
    for event in slices(events):
        by_number.setdefault(event["args"].get("Sequence number"), []).append(event)
    starts = [event for event in events if event["ph"] == "s"]
    ends = [event for event in events if event["ph"] == "f"]
    assert len(starts) == len(ends) == 2
    for start, end in zip(starts, ends, strict=True):
        forward, backward = by_number[start["id"]]
        assert start["id"] == end["id"] and start["cat"] == end["cat"]
        assert start["name"] == end["name"] and end["bp"] == "e"
        for arrow, piece in ((start, forward), (end, backward)):
            assert arrow["tid"] == piece["tid"] and place[id(arrow)] > place[id(piece)]
            assert piece["ts"] <= arrow["ts"] <= piece["ts"] + piece["dur"]
        assert backward["name"] == f"{forward['name']}.backward"


def test_a_second_backward_gives_a_second_end_and_no_second_start(tmp_path):
    def fn():
        y = mg.tanh(leaf(3)).sum()
        y.backward(retain_graph=True)
        y.backward()

    events = trace(tmp_path, fn)
    phases = [event["ph"] for event in events if event["ph"] in "sf"]
    assert sorted(phases) == ["f", "f", "f", "f", "s", "s"]


def test_a_backward_whose_forward_came_before_the_log_has_no_arrow(tmp_path):
    y = leaf(3).sum()
    events = trace(tmp_path, y.backward)
    assert [event["ph"] for event in events if event["ph"] in "sf"] == []


def test_slices_tell_shapes_types_and_line(tmp_path):
    (piece,) = slices(trace(tmp_path, lambda: leaf(2, 3) * 2))
    args = piece["args"]
    assert args["Input Dims"][0] == args["Output Dims"][0] == [2, 3]
    assert args["Input type"][0] == "float64" and __file__ in args["Call stack"]


def test_names_that_need_escapes_stay_names(tmp_path):
    with event_log(tmp_path / "run.jsonl") as log:
        log.hear(("forward", 'a"\\\n\x01</script>', 5, 9, None, (), (), {}))
    write_chrome(str(tmp_path / "run.jsonl"), str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert slices(events)[0]["name"] == 'a"\\\n\x01</script>'


def training(log):
    model = mg.nn.Sequential(mg.nn.Linear(3, 3), mg.nn.Tanh())
    optimizer = mg.optim.SGD(model.parameters(), lr=0.1)
    with mg.scope("epoch"):
        for _ in range(3):
            loss = model(leaf(2, 3).detach()).sum()
            loss.register_hook(lambda g: g * 1)
            loss.backward()
            optimizer.step()
            log.step()


@pytest.fixture
def whole(tmp_path):
    with event_log(tmp_path / "run.jsonl", memory=True, stack=3) as log:
        training(log)
    write_chrome(str(tmp_path / "run.jsonl"), str(tmp_path / "trace.json"))
    return json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_scopes_steps_and_optimizers_nest_with_the_ops(whole):
    names = {event["name"] for event in slices(whole)}
    assert {"epoch", "epoch/Sequential", "SGD", "ProfilerStep#0", "linear.backward"} <= names
    for lane in {event["tid"] for event in slices(whole)}:
        stack = []
        mine = [event for event in slices(whole) if event["tid"] == lane]
        for event in sorted(mine, key=lambda event: (event["ts"], -event["dur"])):
            start = nanoseconds(event["ts"])
            end = start + nanoseconds(event["dur"])
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or end <= stack[-1]
            stack.append(end)


def test_a_counter_shows_the_bytes_alive_by_category(whole):
    counters = [event for event in whole if event["ph"] == "C"]
    assert counters == sorted(counters, key=lambda event: event["ts"])
    assert all(n >= 0 for event in counters for n in event["args"].values())
    itemsize = mg.nn.Linear(1, 1).weight.dtype.itemsize
    assert max(event["args"]["parameter"] for event in counters) == itemsize * (9 + 3)
    assert counters[-1]["args"]["parameter"] == 0  # the model is gone


def test_the_callers_stand_in_the_call_stack_outermost_first(whole):
    found = next(e for e in slices(whole) if e["name"] == "linear")
    places = found["args"]["Call stack"].split(";")
    assert len(places) == 3 and places[-1].endswith("training")
    assert found["args"]["FLOP"] == 2 * 2 * 9 + 6 and found["args"]["Bytes moved"] > 0


def test_a_damaged_log_leaves_no_half_trace(tmp_path):
    with event_log(tmp_path / "run.jsonl"):
        leaf(2) * 2
    text = (tmp_path / "run.jsonl").read_text()
    (tmp_path / "bad.jsonl").write_text(text[:-40] + "\n")
    with pytest.raises(FormatError, match="not whole JSON"):
        write_chrome(str(tmp_path / "bad.jsonl"), str(tmp_path / "trace.json"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl", "run.jsonl"]


def test_a_log_that_was_cut_off_becomes_a_trace_that_ends_there(tmp_path):
    with event_log(tmp_path / "run.jsonl"):
        leaf(2) * 2
    text = (tmp_path / "run.jsonl").read_text()
    (tmp_path / "cut.jsonl").write_text(text[:-40])
    note = write_chrome(str(tmp_path / "cut.jsonl"), str(tmp_path / "trace.json"))
    assert "cut off after 1 events" in note
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in slices(events)] == ["mul"]
