"""Device times in an event log: beside the host's, a lane for each stream, tied by thread and time.

On the stand-in the device is as slow as it can be: nothing is complete before the host waits.
"""

import json
import sys
from importlib import resources
from time import perf_counter_ns

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import events
from minigrad.instrument.chrome import write_chrome
from minigrad.instrument.formats import EventReader
from minigrad.instrument.records import DeviceEvent, Event

pytestmark = pytest.mark.promise(
    "device times are shown next to the host's; NVTX ranges open and close in pairs"
)

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads(
    resources.files("minigrad.instrument").joinpath("events.schema.json").read_text()
)


@pytest.fixture(params=["fake", "gpu"])
def cupy(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "run.jsonl")


def step(**options):
    x = mg.tensor(np.ones((4, 4)), device="cuda", requires_grad=True)
    parts = [mg.tanh(x * float(i)) for i in range(1, 5)]
    loss = (parts[0] @ parts[1] + parts[2] @ parts[3]).sum()
    loss.backward(**options)
    return loss


def recorded(path, run, **options):
    """(events of the host, those of the device, the reader)"""
    with mg.event_log(path, device=True, **options):
        run()
    with EventReader(path) as reader:
        lines = list(reader.records())
    hosts = [line for line in lines if isinstance(line, Event) and line.kind != "pass"]
    return hosts, [line for line in lines if isinstance(line, DeviceEvent)], reader


def test_every_op_has_its_time_on_the_device(path, cupy):
    hosts, devices, _ = recorded(path, step)
    calls = {(event.thread, event.t0): event for event in hosts}
    ops = [line for line in devices if line.op != "copy"]
    assert len(ops) == len(hosts)
    for line in ops:
        event = calls[line.thread, line.host]
        assert (line.of, line.op, line.seq) == (event.kind, event.op, event.seq)
        assert line.t0 <= line.t1


def test_the_lines_fit_the_schema(path, cupy):
    recorded(path, step, memory=True)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    kinds = set()
    for line in open(path, encoding="utf-8"):
        record = json.loads(line)
        validator.validate(record)
        kinds.add(record.get("kind"))
    assert "device" in kinds


def test_copies_are_lines_too(path, cupy):
    _, devices, _ = recorded(path, lambda: step().item())
    assert {line.of for line in devices if line.op == "copy"} >= {"to host", "to device"}


def test_streams_are_named(path, cupy):
    def run():
        step()
        with mg.cuda.stream(mg.cuda.Stream()):
            step()

    _, devices, reader = recorded(path, run)
    names = [reader.streams[number] for number in {line.stream for line in devices}]
    assert "GPU 0, default stream" in names
    assert sorted(name.startswith("GPU 0, stream 0x") for name in names) == [False, True]


def test_a_short_event_of_the_host_may_be_a_long_one_of_the_device(path, cupy):
    hosts, devices, _ = recorded(path, step, min_us=1e9)
    assert not hosts and devices


def test_a_trace_has_a_lane_for_each_stream_with_arrows_from_the_host(path, tmp_path, cupy):
    _, devices, _ = recorded(path, lambda: step(engine="parallel", workers=3, min_work=0))
    write_chrome(path, tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in trace if e["name"] == "thread_name"}
    slices = [e for e in trace if e["ph"] == "X" and e["cat"] == "kernel"]
    assert len(slices) == sum(line.op != "copy" for line in devices)
    assert all(lanes[e["tid"]].startswith("GPU 0, ") for e in slices)
    starts, ends = (
        {e["id"]: e for e in trace if e["ph"] == phase and e["cat"] == "ac2g"} for phase in "sf"
    )
    assert starts.keys() == ends.keys() and len(starts) == len(devices)
    on_host = {(e["tid"], e["ts"]) for e in trace if e["ph"] == "X" and e["cat"] == "cpu_op"}
    on_device = {(e["tid"], e["ts"]) for e in trace if e["ph"] == "X" and "GPU" in lanes[e["tid"]]}
    assert {(e["tid"], e["ts"]) for e in ends.values()} == on_device
    assert on_host <= {(e["tid"], e["ts"]) for e in starts.values()}


def test_what_the_device_has_not_come_to_is_written_at_the_end(path, fake, monkeypatch):
    module = sys.modules["minigrad.instrument.event_log"]
    monkeypatch.setattr(module, "BATCH", 4)  # written while it runs
    hosts, devices, _ = recorded(path, lambda: [step() for _ in range(5)])
    assert len([line for line in devices if line.op != "copy"]) == len(hosts)


def test_the_clock_is_the_hosts_again_whatever_happened(path, cupy):
    with pytest.raises(ZeroDivisionError), mg.event_log(path, device=True):
        step()
        1 / 0  # noqa: B018
    assert events.clock is perf_counter_ns
    with pytest.raises(OSError), mg.event_log("/no/such/folder/run.jsonl", device=True):
        pass
    assert events.clock is perf_counter_ns
    with mg.DeviceTimes(), pytest.raises(RuntimeError, match="another window is open"):
        mg.event_log(path, device=True).__enter__()
    assert events.clock is perf_counter_ns


def test_without_a_gpu_the_error_says_what_is_missing(path, tmp_path):
    if mg.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(mg.cuda.DeviceError, match="CuPy"):
        mg.event_log(path, device=True).__enter__()
    assert not list(tmp_path.iterdir())
