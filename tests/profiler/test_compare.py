"""compare measures every engine on one graph, and its figures agree with each other."""

import importlib
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minigrad_profiler import cli, compare, compare_cli, compare_view, gantt
from minigrad_profiler.compare import Times, _timed
from minigrad_profiler.compare_model import Model
from minigrad_profiler.compare_runs import Bar, Run, Spent, as_it_was, split

import minigrad as mg
from minigrad.backends import processors

pytestmark = pytest.mark.promise("compare's bounds, slack and losses agree with each other")


def wide_graph(members=4):
    x = mg.tensor(np.ones((8, 16), np.float32))
    ws = [
        mg.tensor(np.full((16, 16), 0.1 * i, np.float32), requires_grad=True)
        for i in range(members)
    ]
    return ws, sum(mg.tanh(x @ w).sum() for w in ws)


@pytest.fixture(scope="module")
def found():
    _, loss = wide_graph()
    return compare(loss, workers=[1, 2], repeats=3)


@st.composite
def models(draw):
    count = draw(st.integers(1, 12))
    costs = draw(st.lists(st.floats(0, 10), min_size=count, max_size=count))
    parents = [
        sorted(draw(st.sets(st.integers(i + 1, count - 1)))) if i + 1 < count else []
        for i in range(count)
    ]
    return Model([draw(st.sampled_from("ab")) for _ in range(count)], costs, parents)


@settings(max_examples=60)
@given(models(), st.integers(1, 5))
def test_a_greedy_schedule_lies_within_its_bounds(model, workers):
    low, high = model.bounds(workers)
    assert low - 1e-9 <= model.scheduled(workers) <= high + 1e-9
    assert model.scheduled(1) == pytest.approx(model.work)
    assert model.scheduled(100) == pytest.approx(model.span)


@settings(max_examples=60)
@given(models(), st.data())
def test_slack_is_how_much_longer_a_node_may_take(model, data):
    slack, span = model.slack(), model.span
    assert min(slack) == pytest.approx(0, abs=1e-9)
    i = data.draw(st.integers(0, len(slack) - 1))
    longer = [c + slack[i] * (j == i) for j, c in enumerate(model.costs)]
    assert Model(model.ops, longer, model.parents).span == pytest.approx(span)
    longer[i] += 1.0
    assert Model(model.ops, longer, model.parents).span == pytest.approx(span + 1.0)


def test_a_free_op_costs_nothing_and_half_an_op_half():
    model = Model(["a", "b", "a"], [2.0, 3.0, 4.0], [[1], [2], []])
    assert (model.work, model.span) == (9.0, 9.0)
    assert model.with_op("a", 0.0).work == 3.0 and model.with_op("a", 0.5).span == 6.0
    assert model.by_op() == {"a": 6.0, "b": 3.0}


def test_every_engine_gives_the_same_bits_at_one_blas_thread(found):
    names = [way.name for way in found.ways]
    assert names[:3] == ["serial", "parallel, 1 worker", "parallel, 2 workers"]
    assert all(way.same_bits for way in found.ways if not way.name.startswith("serial, BLAS"))
    assert all(len(way.seen) == 3 and way.median > 0 for way in found.ways)


def test_grad_is_not_touched_and_the_graph_still_works():
    ws, loss = wide_graph(2)
    compare(loss, workers=[2], repeats=1)
    assert ws[0].grad is None
    loss.backward()
    assert ws[0].grad is not None


def test_a_tape_is_compared_where_one_has_recorded_the_loss():
    with mg.Tape() as tape:
        _, loss = wide_graph()
    found = compare(loss, workers=[2], repeats=1)
    assert found.way("tape").same_bits and not found.missing
    del tape


def one_run(spent, workers=2, length=100.0, bars=()):
    return Run("parallel", workers, length, list(bars), spent)


CHAIN = Model(["exp"], [90.0], [[]])


@pytest.mark.parametrize(
    ("cause", "spent"),
    [
        ("no processor", Spent(200, 100, cpu=90, computed=120, queued=80)),
        ("lock", Spent(200, 100, cpu=90, computed=120)),
        ("dependency", Spent(200, 100, cpu=90, computed=120, waited=80)),
        ("imbalance", Spent(200, 100, cpu=90, computed=120, over=80)),
        ("slower", Spent(200, 100, cpu=170, computed=200)),
        ("scheduling", Spent(200, 100, cpu=90, computed=200)),
    ],
)
def test_time_is_charged_to_what_took_it(cause, spent, monkeypatch):
    monkeypatch.setattr(processors, "queued", lambda: 0)
    parts = split(one_run(spent), CHAIN)
    assert parts.pop("work") == 90 and sum(parts.values()) == pytest.approx(110)
    assert max(parts, key=lambda name: parts[name]) == cause and parts[cause] >= 80


def test_a_worker_that_did_not_come_is_charged_to_scheduling_not_to_the_graph():
    parts = split(one_run(Spent(90, 90, cpu=80, computed=90), workers=4), CHAIN)
    assert parts["scheduling"] == 10 + 3 * 90 + 10 and parts["imbalance"] == 3 * 10


def test_where_waits_for_a_processor_are_not_counted_no_lock_is_blamed(monkeypatch):
    monkeypatch.setattr(processors, "queued", lambda: None)
    parts = split(one_run(Spent(200, 100, cpu=90, computed=120)), CHAIN)
    assert parts["lock or processor"] == 80 and not {"lock", "no processor"} & set(parts)


def test_no_share_is_counted_twice_where_clocks_disagree():
    parts = split(one_run(Spent(101, 99, 95, 30, queued=90, over=3), workers=1), CHAIN)
    assert min(parts.values()) >= 0 and sum(parts.values()) == pytest.approx(100)


def test_the_serial_engine_waits_for_no_lock(found):
    assert found.runs[0].losses.get("lock", 0.0) == 0


def test_what_was_recorded_lies_within_its_bounds():
    """Two nodes of 40 ms after one of 20, with 10 ms before them where one thread is at work."""
    model = Model(["a", "b", "b"], [10.0, 30.0, 30.0], [[1, 2], [], []])
    bars = [Bar(0, "a", 0, 10, 30), Bar(0, "b", 1, 30, 70), Bar(1, "b", 2, 30, 70)]
    run = one_run(Spent(120, 60, cpu=100, computed=100, waited=20), 2, 70.0, bars)
    run.losses = split(run, model)
    run.work, run.span = as_it_was(run, model, [0, 1, 2])
    assert run.losses["imbalance"] == 10  # the other worker was not there yet
    assert (run.work, run.span) == (110.0, 70.0)
    assert max(run.work / 2, run.span) <= run.length <= run.work / 2 + run.span


def test_no_recorded_run_beats_the_least_that_the_graph_allows(found):
    for run in found.runs:
        low, high = found.bounds(run)
        assert low <= run.length + 1e-6 and low <= high


def test_the_losses_of_a_run_add_up_to_its_workers_time(found):
    for run in found.runs:
        assert sum(run.losses.values()) == pytest.approx(run.workers * run.length)


def test_each_node_has_one_bar_in_each_run_and_bars_of_a_worker_do_not_overlap(found):
    nodes = sorted(n for n, op in zip(found.numbers, found.model.ops, strict=True) if op)
    for run in found.runs:
        assert sorted(bar.node for bar in run.bars) == nodes
        for lane in {bar.lane for bar in run.bars}:
            bars = sorted((b.start, b.end) for b in run.bars if b.lane == lane)
            assert all(a[1] <= b[0] for a, b in zip(bars, bars[1:], strict=False))


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_text_keeps_to_the_width_and_needs_no_colour(found, width):
    text = compare_view.text(found, width)
    assert max(map(len, text.splitlines())) <= width and "\x1b" not in text
    for part in ("parallelism", "slack", "w1", "matmul", "quartiles", "T∞"):
        assert part in text
    assert found.verdict() in " ".join(text.split())


def test_colour_changes_nothing_but_colour(found):
    coloured = compare_view.text(found, colour=True)
    assert "\x1b[97;48;2;68;119;170m" in coloured  # the dearest op's, #4477aa
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == compare_view.text(found)


def test_the_text_needs_numpy_alone(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert "quartiles" in compare_view.text(found)


def test_json_svg_and_html_are_whole(found, tmp_path):
    for suffix in ("json", "svg", "html"):
        found.save(str(tmp_path / f"c.{suffix}"))
    data = json.loads((tmp_path / "c.json").read_text())
    assert data["work"] == pytest.approx(sum(node["ms"] for node in data["nodes"]))
    assert data["parallelism"] == pytest.approx(data["work"] / data["span"])
    root = ET.fromstring((tmp_path / "c.svg").read_text())
    titles = [e.text for e in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 1 + sum(len(run.bars) for run in found.runs)
    assert "<svg" in (tmp_path / "c.html").read_text()
    with pytest.raises(ValueError, match="html"):
        found.save(str(tmp_path / "c.png"))


def test_an_op_named_like_markup_is_shown_as_text(found):
    bar = found.runs[0].bars[0]
    name, bar.op = bar.op, "<script>"
    try:
        assert "<script>" not in gantt.svg(found.runs)
    finally:
        bar.op = name


def test_no_way_always_runs_after_the_same_other_one(monkeypatch):
    module = importlib.import_module("minigrad_profiler.compare")
    monkeypatch.setattr(module, "sleep", lambda seconds: None)
    ran = []
    ways = [(Times(name, []), {"name": name}, name != "c") for name in "abc"]
    _timed(lambda name: ran.append(name) or [], ways, 12)
    pairs = set(zip(ran, ran[1:], strict=False))
    assert {("a", "b"), ("c", "b"), ("b", "a"), ("c", "a")} <= pairs
    assert [len(times.seen) for times, _, _ in ways] == [12] * 3


def test_a_loss_without_leaves_is_refused():
    with pytest.raises(ValueError, match="requires a gradient"):
        compare(mg.tensor([1.0]).sum())


SCRIPT = """
import sys
import numpy as np
import minigrad as mg
assert sys.argv[1:] == ["--n", "3"] and __name__ == "__main__"
for step in range(3):
    w = mg.tensor(np.ones((4, 4)), requires_grad=True)
    loss = (w @ w).sum() + step
    loss.backward()
    print("step", step)
"""


def test_the_command_compares_the_nth_backward_of_a_script(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "minigrad_profiler", "compare", "--backward", "2",
               "--repeats", "2", "--workers", "2", "--json", str(script), "--n", "3"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "step 0" in done.stderr  # standard output is for the JSON alone
    figures = done.stdout
    assert [way["same_bits"] for way in json.loads(figures)["ways"]][:2] == [True, True]


def test_an_unchanged_script_is_compared_with_a_tape_too(tmp_path):
    """Also one that writes into what a tape around it would keep."""
    script = tmp_path / "train.py"
    script.write_text(
        "import minigrad as mg\n"
        "y, w = mg.ones(3) * 1, mg.ones(3, requires_grad=True)\n"
        "print((y * w).sum().item())\ny += 1\n"
        "(mg.exp(y * w) + mg.linalg.qr(mg.eye(3) * w)[1]).sum().backward()\n"
    )
    found = compare_cli.compare_script(str(script), [], repeats=1)
    assert found.way("tape").same_bits and found.missing == []


def test_a_script_that_goes_elsewhere_takes_nothing_along(tmp_path, monkeypatch, capsys):
    """Neither the files that were asked for nor what is printed, whatever it does to both."""
    script, other = tmp_path / "train.py", tmp_path / "other"
    other.mkdir()
    script.write_text(
        f"import os, sys, minigrad as mg\nos.chdir({str(other)!r})\n"
        "sys.stdout = open('script.log', 'w')\n"
        "x = mg.ones(3, requires_grad=True)\n(x * 2).sum().backward()\n"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["compare", "--repeats", "1", "--save", "made.json", str(script)]) == 0
    assert "serial" in capsys.readouterr().out and os.getcwd() == str(tmp_path)
    assert (tmp_path / "made.json").exists()
    assert [file.name for file in other.iterdir()] == ["script.log"]
    assert not (other / "script.log").read_text()


def test_a_comparison_is_not_saved_over_its_script_or_another(tmp_path, capsys):
    script = tmp_path / "train.json"
    script.write_text("")
    made = str(tmp_path / "made.json")
    for saves in ([str(script)], [made, made]):
        options = [part for path in saves for part in ("--save", path)]
        assert cli.main(["compare", *options, str(script)]) == 2
        assert "would replace" in capsys.readouterr().err


def test_an_error_of_the_script_comes_with_its_traceback(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text("import minigrad\nint('x')\n")
    assert cli.main(["compare", str(script)]) == 1
    error = capsys.readouterr().err
    assert "train.py" in error and "line 2" in error and "ValueError" in error


def test_wrong_calls_are_one_line(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text("import minigrad\n")
    for arguments, said in (
        (["nowhere.py"], "no such file"),
        ([str(script)], "ended before its backward number 1"),
        (["--workers", "2,x", str(script)], "1,2,4"),
        (["--save", "c.png", str(script)], "name the file"),
        (["--backward", "0", str(script)], "1 or more"),
    ):
        assert cli.main(["compare", *arguments]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1


def test_a_comparison_that_has_no_folder_to_lie_in_is_refused_before_the_script_runs(
    tmp_path, capsys
):
    (tmp_path / "s.py").write_text("raise SystemExit('it ran')")
    out = str(tmp_path / "no" / "c.json")
    assert cli.main(["compare", "--save", out, str(tmp_path / "s.py")]) == 2
    assert "there is no such folder" in capsys.readouterr().err


def test_long_names_of_ops_do_not_lie_on_each_other_in_the_legend(found):
    bar = found.runs[0].bars[0]
    name, bar.op = bar.op, "long_name_" * 9
    try:
        root = ET.fromstring(gantt.svg(found.runs))
    finally:
        bar.op = name
    texts = [e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert not any("long_name_" * 3 in text for text in texts)


def test_the_chart_is_dark_where_the_system_is(found):
    chart = gantt.svg(found.runs)
    style = re.search(r"<style>(.*)</style>", chart)[1]
    light, _, dark = style.partition("@media(prefers-color-scheme:dark)")
    for look in (".gantt{background:", ".gantt text{fill:", ".gantt .lane{fill:"):
        assert look in light and look in dark
    assert "class='lane'" in chart and "#eee" not in chart.replace(style, "")
