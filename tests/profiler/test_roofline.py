"""The roofline: points against peaks, badges, the pictures."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from minigrad_profiler.calling import _measured, calling
from minigrad_profiler.cli import main
from minigrad_profiler.roofline import (
    Calls,
    Peaks,
    Point,
    Roofline,
    _apart,
    measured_peaks,
    roofline,
)

import minigrad as mg
from minigrad.engine import events

PEAKS = Peaks(float32=2e11, float64=1e11, bandwidth=1e10)


@pytest.fixture
def log(tmp_path):
    path = str(tmp_path / "run.jsonl")
    a = mg.tensor(np.ones((64, 64)), requires_grad=True)
    with mg.event_log(path):
        (mg.tanh(a @ a) + 1).sum().backward()
    return path


def test_a_row_has_the_sums_of_its_calls(log):
    found = roofline(log, peaks=PEAKS)
    point = next(p for p in found.points if (p.name, p.phase) == ("matmul", "forward"))
    assert (point.calls, point.flops, point.moved) == (1, 2 * 64**3, 3 * 8 * 64**2)
    assert point.compute_ns == pytest.approx(1e9 * 2 * 64**3 / PEAKS.float64)
    assert point.memory_ns == pytest.approx(1e9 * 3 * 8 * 64**2 / PEAKS.bandwidth)


@pytest.mark.parametrize(
    ("dtype", "peak"),
    [("float64", 1e11), ("complex128", 1e11), ("float32", 2e11), ("float16", 2e11)],
)
def test_each_dtype_has_the_peak_of_its_width(dtype, peak):
    assert PEAKS.flops(dtype) == peak


@pytest.mark.parametrize(
    ("point", "bound"),
    [
        (Point("a", "forward", 1, 100, 8, 150, 100.0, 10.0), "compute"),
        (Point("a", "forward", 1, 10, 80, 150, 10.0, 100.0), "memory"),
        (Point("a", "forward", 1, 10, 80, 390, 10.0, 100.0, calling_ns=110), "memory"),
        (Point("a", "forward", 1, 10, 80, 390, 10.0, 100.0, calling_ns=140), "overhead"),
        (Point("a", "forward", 1, 10, 80, 401, 10.0, 100.0, calling_ns=110), ""),
        (Point("a", "forward", 1, 10, 80, 9000, 10.0, 100.0, quiet_ns=150), "memory"),
        (Point("a", "forward", 1, 0, 0, 400, calling_ns=300), "overhead"),
        (Point("a", "forward", 1, 0, 0, 400_000, calling_ns=300), ""),
        (Point("a", "forward", 1, 0, 0, 400, unknown=1), ""),
    ],
)
def test_the_badge_says_what_the_time_is_spent_on(point, bound):
    assert point.bound == bound


CACHED = Peaks(2e11, 1e11, 1e10, caches=((1 << 15, 8e10), (1 << 20, 4e10)))


@pytest.mark.parametrize(
    ("moved", "speed"), [(0, 8e10), (1 << 15, 8e10), (1 << 20, 4e10), (1 << 21, 1e10)]
)
def test_arrays_that_fit_a_cache_come_from_there(moved, speed):
    assert CACHED.traffic(moved) == speed and CACHED.cached == 8e10


def test_a_roof_that_was_not_measured_for_caches_is_that_of_memory():
    assert PEAKS.traffic(10) == PEAKS.cached == PEAKS.bandwidth


def calls_of(n, own_ns, flops=0, moved=0, op="mul"):
    return Calls(op, flops, moved, "float32", n, own_ns, own_ns // n)


@pytest.mark.parametrize("own_ns", [6_500, 7_500])
def test_an_op_at_its_roof_does_not_exceed_it(own_ns):
    point = Point("mul", "forward")
    point.add(calls_of(10, own_ns, moved=60_000), CACHED)  # 7.5 µs at best
    assert point.roof_ns == pytest.approx(own_ns) and not point.elsewhere


def test_work_that_another_op_does_is_left_out_and_told(tmp_path):
    point = Point("sub", "backward")
    point.add(calls_of(10, 1_000_000, 5, 1_000), CACHED)
    point.add(calls_of(2, 1_000, 5, 1 << 24), CACHED)
    assert (point.calls, point.elsewhere, point.moved) == (12, 2, 10_000)
    assert point.roof_ns < point.self_ns
    text = " ".join(Roofline([point], CACHED, "op").text().split())
    assert "sub backward: 2 calls are left out, since blocks of another op do their work" in text


def test_ops_in_the_cache_stay_below_the_roof_and_are_not_bound_by_calls(tmp_path):
    path = str(tmp_path / "run.jsonl")
    x = mg.tensor(np.ones(100_000, np.float32))
    with mg.event_log(path):
        for _ in range(30):
            mg.exp(x * x)
    for point in roofline(path).points:
        assert not point.elsewhere and point.roof_ns <= point.self_ns
        assert point.bound != "overhead" and point.calling_ns < point.quiet_ns / 4


def test_the_cost_of_a_call_is_that_of_the_op_on_a_few_elements():
    assert 0 < calling("add", "forward") < calling("softmax", "forward")
    assert calling("softmax", "backward") > calling("add", "backward") > 0
    for unknown in ("an op of the user's", "reshape"):
        assert calling(unknown, "forward") == calling("softmax", "forward")


def test_measuring_calls_leaves_modes_and_listeners_alone():
    _measured.cache_clear()
    with mg.no_grad():
        assert calling("mul", "backward") > 0
        assert not mg.is_grad_enabled() and not events.listeners


def test_the_peaks_of_this_machine_are_measured_once_and_make_sense():
    peaks = measured_peaks()
    assert measured_peaks() is peaks
    assert 1e8 < peaks.float64 <= 2 * peaks.float32 and 1e8 < peaks.bandwidth < 1e13
    sizes, speeds = zip(*peaks.caches, strict=True)
    assert list(sizes) == sorted(sizes) and speeds[-1] >= peaks.bandwidth
    for few in (
        [s for n, s in peaks.caches if n < 1 << 23],
        [s for n, s in peaks.caches if n >= 1 << 23],
    ):
        assert few == sorted(few, reverse=True)


def test_the_text_fits_its_width_and_names_the_points(log):
    for width in (80, 200):
        text = roofline(log, peaks=PEAKS).text(width)
        assert all(len(line) <= width for line in text.splitlines())
        assert "matmul forward" in text and "200 GFLOP/s float32" in text


def test_the_svg_is_well_formed_and_inert(log):
    found = roofline(log, peaks=PEAKS)
    found.points[0].name = '</text><script>alert("x")</script>'
    root = ElementTree.fromstring(found.svg())
    assert root.tag.endswith("svg")
    assert not [e for e in root.iter() if e.tag.endswith("script")]


def test_the_command_writes_svg_and_json(log, tmp_path, capsys):
    out = str(tmp_path / "roof.svg")
    assert main(["roofline", log, "--svg", out, "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["format"] == "minigrad.roofline" and out in captured.err
    assert {row["bound"] for row in document["rows"]} <= {"compute", "memory", "overhead", ""}


def test_a_log_without_any_op_has_an_empty_picture(tmp_path):
    path = str(tmp_path / "run.jsonl")
    with mg.event_log(path):
        pass
    found = roofline(path, peaks=PEAKS)
    assert found.points == [] and "no op" in found.text()
    ElementTree.fromstring(found.svg())


def test_the_legend_tells_forward_from_backward_behind_a_long_name(log, tmp_path):
    long = tmp_path / "long.jsonl"
    text = Path(log).read_text()
    long.write_text(text.replace('"op":"matmul"', f'"op":"{"long_name_" * 9}"'))
    picture = " ".join(roofline(str(long), peaks=PEAKS).picture())
    assert "…ong_name_long_name_ forward" in picture and "…ong_name_long_name_ backward" in picture


def test_no_label_of_the_picture_overprints_another():
    dots = [(100 + 3 * i, 200 + 2 * i) for i in range(8)]
    names = [(x, y, f"matmul {i}") for i, (x, y) in enumerate(dots)]
    placed = list(_apart(names, dots, [(90.0, 150.0, 300.0, 190.0)]))
    boxes = []
    for x, y, anchor, name in placed:
        start = x - (6.5 * len(name) if anchor == "end" else 0)
        boxes.append((start, y - 9, start + 6.5 * len(name), y + 2))
    for i, a in enumerate(boxes):
        assert not (a[1] < 190 and a[3] > 150 and a[0] < 300 and a[2] > 90)
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    assert 0 < len(placed) < len(names)  # crowded: some are left out, their dots have titles
