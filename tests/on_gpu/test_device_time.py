"""Times on the device: one pair of marks an op, read at the end, and copies as events."""

import json

import numpy as np
import pytest

import minigrad as mg


def test_ops_and_copies_have_their_times(gpu, tmp_path):
    x = mg.tensor(np.ones((2048, 2048), np.float32), device="cuda", requires_grad=True)
    mg.softmax(x @ x).sum().backward()
    with mg.DeviceTimes() as times:
        y = mg.softmax(x @ x)
        y.sum().backward()
        y.detach().to("cpu")
    found = {(span.kind, span.op) for span in times.spans}
    for op in ("matmul", "softmax", "sum"):
        assert ("forward", op) in found and ("backward", op) in found
    assert ("to host", "copy") in found
    # 2 · 2048³ operations take more than 100 µs of the device, and far less of the host
    product = next(s for s in times.spans if (s.kind, s.op) == ("forward", "matmul"))
    assert product.time > 100
    assert "matmul (forward)" in str(times)
    times.write_chrome(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    lanes = {e["args"]["name"] for e in trace if e["ph"] == "M"}
    assert "copies" in lanes and len(lanes) == 2


def test_streams_are_lanes(gpu):
    x = mg.tensor(np.ones((64, 64), np.float32), device="cuda")
    with mg.DeviceTimes() as times:
        mg.tanh(x)
        with mg.cuda.stream(mg.cuda.Stream()):
            mg.tanh(x)
    assert len({span.stream for span in times.spans}) == 2


def test_two_windows_at_once_are_refused_and_the_clock_comes_back(gpu):
    from time import perf_counter_ns

    from minigrad.engine import events

    with mg.DeviceTimes(), pytest.raises(RuntimeError, match="another window"):
        mg.DeviceTimes().__enter__()
    assert events.clock is perf_counter_ns and not events.listeners
