"""The report's figures: they are those of the other views, add up, and stay small and inert."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from minigrad_profiler import compare, report_tables, report_timeline
from minigrad_profiler.cli import main
from minigrad_profiler.memory import story
from minigrad_profiler.report import report_of, write_report
from minigrad_profiler.roofline import Peaks, roofline
from minigrad_profiler.view import BY, summary

import minigrad as mg
from minigrad.errors import FormatError

pytestmark = pytest.mark.promise(
    "the report's totals are those of `view --json`; shares add to 100"
)

PEAKS = Peaks(1e10, 5e9, 1e10)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Two training steps of a small network, with memory and stacks."""
    path = str(tmp_path_factory.mktemp("log") / "run.jsonl")
    with mg.event_log(path, memory=True, stack=4):
        mg.manual_seed(0)
        model = mg.nn.Sequential(mg.nn.Linear(8, 16), mg.nn.Tanh(), mg.nn.Linear(16, 2))
        optimizer = mg.optim.Adam(model.parameters())
        x = mg.tensor(np.ones((4, 8), "float32"))
        for _ in range(2):
            optimizer.zero_grad()
            with mg.scope("loss"):
                loss = (model(x) ** 2).sum()
            loss.backward()
            optimizer.step()
    return path


@pytest.fixture(scope="module")
def report(log):
    return report_of(log, PEAKS)


@pytest.fixture(scope="module")
def data(report):
    return report.data("run")


def column(rows, name):
    return [row[report_tables.COLUMNS.index(name)] for row in rows]


@pytest.mark.parametrize("by", BY)
def test_the_totals_of_each_table_are_those_of_view(log, data, capsys, by):
    assert main(["view", log, "--by", by, "--json"]) == 0
    viewed = json.loads(capsys.readouterr().out)
    rows = data["tables"][by]["rows"]
    names = ("calls", "self", "total", "forward", "backward", "bytes", "flops", "moved")
    theirs = (
        "calls",
        "self_ns",
        "total_ns",
        "forward_ns",
        "backward_ns",
        "bytes",
        "flops",
        "moved",
    )
    for name, other in zip(names, theirs, strict=True):
        assert sum(column(rows, name)) == sum(row[other] for row in viewed["rows"]), name
    assert data["summary"]["events"] == viewed["events"] > 20
    ours = sorted(zip(*[column(rows, name) for name in names], strict=True))
    assert ours == sorted(tuple(row[other] for other in theirs) for row in viewed["rows"])


@pytest.mark.parametrize("by", BY)
def test_percentages_add_to_100_and_self_is_forward_and_backward(data, by):
    rows = data["tables"][by]["rows"]
    assert sum(column(rows, "share")) == pytest.approx(100.0, abs=1e-9)
    both = zip(column(rows, "forward"), column(rows, "backward"), strict=True)
    assert [forward + backward for forward, backward in both] == column(rows, "self")
    assert min(column(rows, "self")) >= 0
    parts = data["summary"]["parts"]
    assert sum(part for _, _, part, _ in parts) == pytest.approx(100.0, abs=1e-9)


def test_one_threads_parts_are_the_whole_recorded_time(data):
    assert sum(time for _, time, _, _ in data["summary"]["parts"]) == data["summary"]["wall"]


def test_the_sums_of_the_flame_graph_are_those_of_the_table(data):
    rows = data["tables"]["op"]["rows"]
    spent, forwards = sum(column(rows, "self")), sum(column(rows, "forward"))
    for by in ("scope", "line", "stack"):
        _, forward, backward, calls, parts = data["flame"][by]
        assert (
            forward == forwards
            and forward + backward == spent
            and calls == data["summary"]["events"]
        )
        assert sum(part[1] + part[2] for part in parts) == spent


def test_memory_is_what_the_memory_command_tells(log, data):
    told = story(log)
    assert data["memory"]["peak"] == told.peak == sum(told.at_peak.values()) > 0
    assert sum(o["bytes"] for o in data["memory"]["owners"]) == told.peak
    assert max(total for _, total, _ in data["memory"]["timeline"]) == told.peak
    assert all(sum(kinds) == total for _, total, kinds in data["memory"]["timeline"])


def test_bounds_are_those_of_the_roofline(log, report):
    theirs = {(p.name, p.phase): p.bound for p in roofline(log, "op", PEAKS).points}
    ours = {
        (line.name, phase): line.bound(phase)
        for line in report.tables["op"]
        for phase in ("forward", "backward")
        if line.points[phase].calls
    }
    assert ours == theirs and "overhead" in ours.values()


def test_every_event_has_a_bar_and_backward_bars_know_their_forward(log, data):
    (lane,) = data["timeline"]["lanes"]
    bars = [lane["bars"][i : i + 4] for i in range(0, len(lane["bars"]), 4)]
    assert len(bars) == summary(log).events and lane["rest"] == 0
    kinds = {True: set(), False: set()}
    for _, _, call, seq in bars:
        if seq >= 0:
            kinds[data["timeline"]["calls"][call][0] == "forward"].add(seq)
    assert kinds[False] <= kinds[True] and len(kinds[False]) >= 8


def test_another_process_is_drawn_below_at_its_own_time(tmp_path):
    first = made_up(tmp_path / "rank0.jsonl", 4)
    second = Path(made_up(tmp_path / "rank1.jsonl", 3))
    second.write_text(second.read_text().replace('"base_unix_ns": 0', '"base_unix_ns": 5000'))
    data = report_of(first, PEAKS, also=[str(second)]).data("ranks")["timeline"]
    names = [lane["name"] for lane in data["lanes"]]
    assert names == ["rank0.jsonl: thread", "rank1.jsonl: thread"]
    assert [lane["bars"][0] for lane in data["lanes"]] == [0, 5000] and data["span"] == 5290
    seqs = [lane["bars"][3::4] for lane in data["lanes"]]
    assert seqs[0] == [0, 1, 2, 3] and not {*seqs[0]} & {*seqs[1]}


def test_ranks_are_laid_on_one_another_where_their_barrier_let_them_go(tmp_path):
    paths = []
    for rank, began in enumerate((100, 700)):
        path = Path(made_up(tmp_path / f"run.rank-{rank}.jsonl", 12))
        mark = {"kind": "mark", "what": "rank", "name": str(rank), "t0": 0, "t1": began,
                "thread": 0}  # fmt: skip
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines[:-1], json.dumps(mark), lines[-1]]) + "\n")
        paths.append(str(path))
    drawn = report_of(paths[0], PEAKS, also=paths[1:]).data("ranks")["timeline"]["lanes"]
    assert [lane["name"] for lane in drawn] == ["rank 0: thread", "rank 1: thread"]
    assert [lane["bars"][0] for lane in drawn] == [600, 0]


def test_the_guide_has_every_command(capsys):
    assert main(["--help"]) == 0
    commands = re.findall(r"^    (\w+)  ", capsys.readouterr().out, re.M)
    assert {"run", "view", "report", "advice", "compare"} <= {*commands}
    text = (ROOT / "docs" / "profiling.md").read_text()
    assert [name for name in commands if f"minigrad-profile {name}" not in text] == []


# -- bounds ----------------------------------------------------------------------------------------


def made_up(path, count, **names):
    """A log of `count` events, of which each tenth is long; names: of op, file and thread, and the
    digest of that file."""
    op, file, thread = (names.get(key, key) for key in ("op", "file", "thread"))
    lines = [
        {"format": "minigrad.events", "version": [1, 1], "minigrad": "0", "python": "3", "numpy":
         "2", "cupy": None, "device": "cpu", "clock": "perf_counter_ns", "pid": 1, "base_ns": 0,
         "base_unix_ns": 0, "min_ns": 0, "max_events": count},
        {"kind": "define", "what": "thread", "id": 0, "name": thread},
    ]  # fmt: skip
    lines += [
        {"kind": "define", "what": "site", "id": 1 + i, "file": file, "line": i, "function": "f"}
        for i in range(min(count, 3000))
    ]
    if names.get("digest"):
        source = {"file": file, "sha256": names["digest"]}
        lines.append({"kind": "define", "what": "source", "id": 1, **source})
    lines += [
        {"kind": "forward", "op": op, "t0": 100 * i, "t1": 100 * i + (90 if i % 10 else 99),
         "thread": 0, "seq": i, "site": 1 + i % 3000}
        for i in range(count)
    ]  # fmt: skip
    lines.append({"kind": "end", "events": count, "dropped": 0})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_a_long_log_makes_a_small_page_that_counts_what_it_leaves_out(tmp_path, monkeypatch):
    monkeypatch.setattr(report_timeline, "MOST_EVENTS", 3_500)
    monkeypatch.setattr(report_tables, "MOST_ROWS", 100)
    report = report_of(made_up(tmp_path / "long.jsonl", 30_000), PEAKS)
    data = report.data("long")
    (lane,) = data["timeline"]["lanes"]
    drawn = len(lane["bars"]) // 4
    assert drawn == 3_000 and drawn + lane["rest"] == 30_000  # one in ten is longer
    assert data["timeline"]["shortest"] == 90 and 0 < max(lane["busy"]) <= 100
    table = data["tables"]["line"]
    assert len(table["rows"]) == 101 and table["rest"] == 2_900
    assert table["rows"][-1][0] == "(2,900 more rows)"
    assert sum(column(table["rows"], "calls")) == 30_000
    assert sum(column(table["rows"], "share")) == pytest.approx(100, abs=1e-6)
    assert len(report.page("long")) < 1_500_000


HOSTILE = "</script><script>alert(1)</script><!-- %%DATA%% \u202e\x1b[31m"


def test_hostile_names_are_data_not_markup(tmp_path):
    names = {"op": HOSTILE, "file": HOSTILE, "thread": HOSTILE}
    out = tmp_path / "r.html"
    write_report(made_up(tmp_path / "bad.jsonl", 20, **names), str(out), title=HOSTILE)
    page = out.read_text()
    assert page.count("</script>") == 2 and "\u202e" not in page and "\x1b" not in page
    content = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert content and not set("<>&") & set(content[1])
    assert json.loads(content[1])["tables"]["op"]["rows"][0][0].startswith("</script>")


def test_a_cut_off_log_is_reported_up_to_the_cut_and_a_damaged_one_not_at_all(tmp_path, capsys):
    path = Path(made_up(tmp_path / "cut.jsonl", 500))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert main(["report", str(path), "-o", str(tmp_path / "cut.html")]) == 0
    assert "cut off after" in capsys.readouterr().err
    assert "cut off after" in (tmp_path / "cut.html").read_text()
    path.write_bytes(whole.replace(b'"kind": "forward"', b'"kind": "forward" x', 1))
    assert main(["report", str(path), "-o", str(tmp_path / "no.html")]) == 2
    assert not (tmp_path / "no.html").exists()
    assert capsys.readouterr().err.count("\n") == 1


def test_the_log_itself_is_never_overwritten(tmp_path, capsys):
    path = made_up(tmp_path / "run.jsonl", 5)
    before = Path(path).read_bytes()
    assert main(["report", path, "-o", path]) == 2
    assert Path(path).read_bytes() == before and "another file" in capsys.readouterr().err


# -- source and comparison -------------------------------------------------------------------------


def test_the_source_stands_beside_its_time(tmp_path):
    script = tmp_path / "prog.py"
    script.write_text("import minigrad as mg\nx = mg.ones(3, requires_grad=True)\n"
                      "y = (x * 2).sum()  # <b>\ny.backward()\n")  # fmt: skip
    log, out = tmp_path / "p.jsonl", tmp_path / "p.html"
    run = [sys.executable, "-m", "minigrad_profiler", "run", "--html", str(out), "-o", str(log)]
    done = subprocess.run([*run, str(script)], capture_output=True, text=True, timeout=120,
                          cwd=tmp_path, env=environment())  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"wrote {out}" in done.stderr
    (source,) = report_of(str(log), PEAKS).data("p")["source"]
    assert source["file"].endswith("prog.py") and source["note"] == ""
    assert source["lines"][2] == "y = (x * 2).sum()  # <b>"
    assert source["hot"][3][0] > 0 and source["hot"][3][1] > 0 and source["hot"][4][2] > 0
    (left_out,) = report_of(str(log), PEAKS).data("p", source=False)["source"]
    assert left_out["lines"] == [] and left_out["note"] == "left out"


def environment():
    paths = [str(ROOT), str(ROOT / "viz"), str(ROOT / "profiler")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}


def test_a_log_cannot_bring_other_files_into_the_report(tmp_path):
    (tmp_path / "secret.txt").write_text("password\n")
    (tmp_path / "secret.py").write_text("password = 1\n")
    (tmp_path / "link.py").symlink_to(tmp_path / "secret.py")
    (tmp_path / "folder.py").mkdir()
    for name in ("secret.txt", "secret.py", "link.py", "folder.py", "gone.py"):
        for digest in (None, "0" * 64):
            log = made_up(tmp_path / "bad.jsonl", 3, file=str(tmp_path / name), digest=digest)
            (source,) = report_of(log, PEAKS).data("bad")["source"]
            assert source["lines"] == [] and source["note"]


@pytest.mark.parametrize("pointed", ["a.py", "."])
@pytest.mark.parametrize("digest, note", [("0" * 64, "changed since"), (None, "no digest")])
def test_a_file_of_another_text_is_shown_with_a_warning_where_the_user_points(
    tmp_path, pointed, digest, note
):
    (tmp_path / "a.py").write_text("x\ny\nz\n")
    log = made_up(tmp_path / "old.jsonl", 3, file=str(tmp_path / "a.py"), digest=digest)
    (source,) = report_of(log, PEAKS).data("old")["source"]
    assert source["lines"] == [] and note in source["note"] and "--source" in source["note"]
    out = tmp_path / "old.html"
    command = ["report", log, "-o", str(out), "--source", str(tmp_path / pointed)]
    assert main(command) == 0 and '"lines":["x","y","z"]' in out.read_text().replace(" ", "")
    command[-1] = str(tmp_path / "a")  # the beginning of a name is no folder
    assert main(command) == 0 and '"lines":[]' in out.read_text().replace(" ", "")


def test_a_comparison_is_taken_in_and_a_false_one_refused(tmp_path, log, report):
    x = mg.ones(20, 20, requires_grad=True)
    path = tmp_path / "compare.json"
    found = compare((x @ x).sum(), repeats=1, workers=[2])
    found.save(str(path))
    shown = report.data("run", str(path))["compare"]
    assert (shown["verdict"], shown["limit"]) == (found.verdict(), found.limit())
    assert len(shown["runs"]) == len(found.runs)
    assert sum(len(run["bars"]) for run in shown["runs"]) == shown["bars"]
    document = json.loads(path.read_text())
    for change in (
        {"runs": 3},
        {"work": "many"},
        {"work": 1e999},
        {"work": 10**400},
        {"ways": [{}]},
        {"bounds": []},
    ):
        path.write_text(json.dumps(document | change))
        with pytest.raises(FormatError):
            report.data("run", str(path))
    path.write_text("[" * 10_000)
    with pytest.raises(FormatError):
        report.data("run", str(path))


def test_the_profile_switch_writes_the_report(tmp_path):
    out = tmp_path / "r.html"
    with mg.profile(out=out, memory=True):
        mg.ones(3, requires_grad=True).sum().backward()
    page = out.read_text()
    assert page.startswith("<!DOCTYPE html>") and '"peak":' in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.html"]


def test_the_source_of_a_notebooks_cells_is_shown_when_the_notebook_is_gone(tmp_path, capsys):
    shells = pytest.importorskip("IPython.core.interactiveshell")
    path = str(tmp_path / "run.jsonl")
    try:
        shell = shells.InteractiveShell.instance()
        shell.user_ns["path"] = path
        shell.run_cell("import minigrad as mg", store_history=True)
        cell = "with mg.event_log(path):\n    mg.ones(3) * 2"
        shell.run_cell(cell, store_history=True)
    finally:
        shells.InteractiveShell.clear_instance()
    report = report_of(path, PEAKS)
    (shown,) = report.data("run")["source"]
    assert shown["lines"] == cell.splitlines() and "2" in map(str, shown["hot"])
    assert [f.code for f in report.findings if f.place == "In[2]:2"] == ["mg.ones(3) * 2"]
    assert main(["advice", path]) == 0 and "   > mg.ones(3) * 2\n" in capsys.readouterr().out
    assert "mg.ones(3) * 2" not in report.page("run", source=False)
