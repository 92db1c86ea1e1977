"""The roofline: points against peaks, badges, the pictures."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from minigrad_profiler.cli import main
from minigrad_profiler.roofline import Peaks, Point, measured_peaks, roofline

import minigrad as mg

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
        (Point("a", "forward", 1, 10, 80, 401, 10.0, 100.0), "overhead"),
        (Point("a", "forward", 1, 10, 80, 401_000, 10.0, 100.0), ""),
        (Point("a", "forward", 9, 10, 80, 401_000, 10.0, 100.0), "overhead"),
        (Point("a", "forward", 1, 0, 0, 400), "overhead"),
        (Point("a", "forward", 1, 0, 0, 400, unknown=1), ""),
    ],
)
def test_the_badge_says_what_the_time_is_spent_on(point, bound):
    assert point.bound == bound


def test_the_peaks_of_this_machine_are_measured_once_and_make_sense():
    peaks = measured_peaks()
    assert measured_peaks() is peaks
    assert 1e8 < peaks.float64 <= 2 * peaks.float32 and 1e8 < peaks.bandwidth < 1e13


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
    assert "… forward" in picture and "… backward" in picture
