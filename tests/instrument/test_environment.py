"""The environment switches, on programs that do not know of them."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from minigrad.instrument import variables

ROOT = Path(__file__).parents[2]
TRAIN = """
import sys
import minigrad as mg
x = mg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
for _ in range(3):
    mg.tanh(x @ x).sum().backward()
"""


def run(code, tmp_path, expect=0, **env):
    """Run a program in tmp_path under these variables; its (stdout, stderr)."""
    clean = {name: value for name, value in os.environ.items() if "MINIGRAD" not in name}
    paths = os.pathsep.join(str(ROOT / folder) for folder in (".", "viz", "profiler"))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**clean, "PYTHONPATH": paths, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == expect, done.stderr
    return done.stdout, done.stderr


def test_without_variables_nothing_happens(tmp_path):
    code = TRAIN + (
        "from minigrad.engine import modes, events\n"
        "assert modes.active == 0 and not events.listeners\n"
        "assert 'minigrad.instrument.switches' not in sys.modules\n"
    )
    assert run(code, tmp_path) == ("", "")


def test_the_table_goes_to_stderr_at_the_end(tmp_path):
    out, err = run(TRAIN + "print('done')", tmp_path, MINIGRAD_PROFILE="1")
    assert out == "done\n"
    assert "minigrad profile: 18 calls" in err
    assert "matmul" in err and "forward" in err and "backward" in err and "100.0 %" in err
    assert all(len(line) <= 80 for line in err.splitlines())


def test_the_table_comes_after_an_exception_too(tmp_path):
    _, err = run(TRAIN + "raise KeyError('lost')", tmp_path, 1, MINIGRAD_PROFILE="1")
    assert err.index("KeyError: 'lost'") < err.index("minigrad profile: 18 calls")


def test_the_table_comes_after_sys_exit_and_the_exit_code_stays(tmp_path):
    _, err = run(TRAIN + "sys.exit(7)", tmp_path, 7, MINIGRAD_PROFILE="1")
    assert "minigrad profile: 18 calls" in err


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_the_table_comes_after_ctrl_c(tmp_path):
    code = TRAIN + "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(9)"
    _, err = run(code, tmp_path, -signal.SIGINT, MINIGRAD_PROFILE="1")
    assert "KeyboardInterrupt" in err and "minigrad profile: 18 calls" in err


def test_a_closed_stderr_breaks_nothing(tmp_path):
    run(TRAIN + "sys.stderr.close()", tmp_path, MINIGRAD_PROFILE="1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_prints_no_second_table(tmp_path):
    code = TRAIN + "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n"
    _, err = run(code, tmp_path, MINIGRAD_PROFILE="1")
    assert err.count("minigrad profile:") == 1


def test_every_n_ops_a_table_is_printed_and_counting_starts_again(tmp_path):
    _, err = run(TRAIN, tmp_path, MINIGRAD_PROFILE_EVERY="5")
    titles = [line for line in err.splitlines() if line.startswith("minigrad profile:")]
    assert [title.split()[2] for title in titles] == ["5", "5", "5", "3"]


def test_the_table_can_go_to_a_file(tmp_path):
    _, err = run(TRAIN, tmp_path, MINIGRAD_PROFILE_OUT="prof.txt")
    assert err == ""
    assert "minigrad profile: 18 calls" in (tmp_path / "prof.txt").read_text(encoding="utf-8")
    assert os.listdir(tmp_path) == ["prof.txt"]  # and nothing half-written beside it


def test_tables_of_windows_can_go_to_files_of_their_own(tmp_path):
    run(TRAIN, tmp_path, MINIGRAD_PROFILE_EVERY="10", MINIGRAD_PROFILE_OUT="prof{n}.json")
    counts = [json.loads((tmp_path / f"prof{n}.json").read_text())["calls"] for n in (1, 2)]
    assert counts == [10, 8]


def test_the_files_made_of_the_one_log_have_the_first_number(tmp_path):
    run(
        TRAIN,
        tmp_path,
        MINIGRAD_PROFILE_EVERY="10",
        MINIGRAD_PROFILE_OUT="prof{n}.txt",
        MINIGRAD_PROFILE_FORMAT="table,events,chrome",
    )
    names = ["prof1.jsonl", "prof1.trace.json", "prof1.txt", "prof2.txt"]
    assert sorted(os.listdir(tmp_path)) == names


def test_the_ending_of_the_file_chooses_the_format(tmp_path):
    run(TRAIN, tmp_path, MINIGRAD_PROFILE_OUT="prof.json")
    assert json.loads((tmp_path / "prof.json").read_text())["calls"] == 18


def test_several_formats_each_get_their_ending(tmp_path):
    wanted = "table,json,events,chrome,speedscope"
    run(TRAIN, tmp_path, MINIGRAD_PROFILE_OUT="p.txt", MINIGRAD_PROFILE_FORMAT=wanted)
    assert sorted(os.listdir(tmp_path)) == [
        "p.json", "p.jsonl", "p.speedscope.json", "p.trace.json", "p.txt",
    ]  # fmt: skip


def test_a_trace_alone_leaves_no_log_behind(tmp_path):
    run(TRAIN + "raise SystemExit(3)", tmp_path, 3, MINIGRAD_PROFILE_OUT="run.trace.json")
    assert os.listdir(tmp_path) == ["run.trace.json"]
    assert json.loads((tmp_path / "run.trace.json").read_text())["traceEvents"]


def test_an_event_log_is_whole_after_an_exception_and_counts_what_it_dropped(tmp_path):
    run(
        TRAIN + "raise KeyError",
        tmp_path,
        1,
        MINIGRAD_PROFILE_OUT="run.jsonl",
        MINIGRAD_PROFILE_MAX_EVENTS="4",
    )
    assert os.listdir(tmp_path) == ["run.jsonl"]
    end = json.loads((tmp_path / "run.jsonl").read_text().splitlines()[-1])
    assert (end["kind"], end["events"], end["dropped"]) == ("end", 4, 18 + 3 - 4)  # 3 backwards


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("MINIGRAD_PROFILE", "maybe", "1 or 0"),
        ("MINIGRAD_PROFILE_EVERY", "often", "a number of ops"),
        ("MINIGRAD_PROFILE_EVERY", "-1", "a number of ops"),
        ("MINIGRAD_PROFILE_FORMAT", "pdf", "there are table, json"),
    ],
)
def test_a_bad_value_is_one_line_and_ignored(name, value, what, tmp_path):
    out, err = run(TRAIN + "print('done')", tmp_path, **{name: value})
    assert out == "done\n"
    assert len(err.splitlines()) == 1 and name in err and value in err and what in err


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("MINIGRAD_PROFIL", "MINIGRAD_PROFILE"),
        ("MINIGRAD_PROFILE_MEM", "MINIGRAD_PROFILE_MEMORY"),
        ("MINIGRAD_GRAPH", "MINIGRAD_GRAPH_OUT"),
        ("MINIGRAD_THREADS", "MINIGRAD_NUM_THREADS"),
        ("minigrad_profile", "MINIGRAD_PROFILE"),
        ("MINIGRAD_GRAPH_CHECK", "MINIGRAD_GRAPH_OUT"),
    ],
)
def test_a_variable_that_does_nothing_is_one_line_naming_the_one_meant(name, meant, tmp_path):
    out, err = run(TRAIN + "print('done')", tmp_path, **{name: "1"})
    assert out == "done\n"
    assert len(err.splitlines()) == 1 and name in err and meant in err


def test_a_variable_like_none_of_ours_is_left_alone(tmp_path):
    assert run(TRAIN, tmp_path, MINIGRAD_HOME="/data", MINIGRAD_CASE="7") == ("", "")


def test_every_variable_that_the_source_reads_is_known():
    sources = [p.read_text("utf-8") for p in (ROOT / "minigrad").rglob("*.py")]
    named = {name for text in sources for name in re.findall(r'"MINIGRAD_([A-Z_]+)"', text)}
    assert named == set(variables._KNOWN)


def test_profile_0_wins_over_the_other_variables(tmp_path):
    run(TRAIN, tmp_path, MINIGRAD_PROFILE="0", MINIGRAD_PROFILE_OUT="prof.txt")
    assert os.listdir(tmp_path) == []


def test_a_file_that_cannot_be_written_is_one_line(tmp_path):
    _, err = run(TRAIN, tmp_path, MINIGRAD_PROFILE_OUT="no/such/folder/prof.txt")
    assert len(err.splitlines()) == 1 and "could not be written" in err


def test_a_format_that_needs_a_file_says_so(tmp_path):
    _, err = run(TRAIN, tmp_path, MINIGRAD_PROFILE_FORMAT="chrome")
    assert "set MINIGRAD_PROFILE_OUT" in err.splitlines()[0]


def test_the_graph_of_the_latest_backward_is_in_the_file(tmp_path):
    run(TRAIN, tmp_path, MINIGRAD_GRAPH_OUT="graph.json")
    assert os.listdir(tmp_path) == ["graph.json"]
    graph = json.loads((tmp_path / "graph.json").read_text())
    assert [node["op"] for node in graph["nodes"]] == [None, "matmul", "tanh", "sum"]
    assert len(graph["backward"]["steps"]) == 3


@pytest.mark.parametrize("name", ["graph.svg", "graph-{n}.PNG", "graph.mmd"])
def test_a_graph_under_the_name_of_a_picture_is_told_how_to_draw_it(name, tmp_path):
    _, err = run(TRAIN, tmp_path, MINIGRAD_GRAPH_OUT=name)
    assert os.listdir(tmp_path) == []
    assert len(err.splitlines()) == 1 and f"minigrad-viz {name[:-4]}.json -o {name}" in err


def test_each_backward_can_have_a_file_of_its_own(tmp_path):
    run(TRAIN, tmp_path, MINIGRAD_GRAPH_OUT="graph-{n}.json")
    assert sorted(os.listdir(tmp_path)) == ["graph-1.json", "graph-2.json", "graph-3.json"]


def test_a_graph_that_cannot_be_written_warns_once_and_breaks_nothing(tmp_path):
    out, err = run(TRAIN + "print(x.grad.shape)", tmp_path, MINIGRAD_GRAPH_OUT="no/graph.json")
    assert out == "(2, 2)\n"
    assert len(err.splitlines()) == 1 and "MINIGRAD_GRAPH_OUT" in err


def test_a_graph_file_survives_a_failing_backward(tmp_path):
    code = TRAIN + (
        "import numpy as np\n"
        "from minigrad.engine.primitive import primitive\n"
        "@primitive\n"
        "def broken(x): return x * 1\n"
        "@broken.vjp('x')\n"
        "def broken_dx(g): raise ArithmeticError('as planned')\n"
        "broken(mg.tanh(x)).sum().backward()\n"
    )
    _, err = run(code, tmp_path, 1, MINIGRAD_GRAPH_OUT="graph.json")
    assert "as planned" in err
    graph = json.loads((tmp_path / "graph.json").read_text())
    ops = {node["id"]: node["op"] for node in graph["nodes"]}
    assert [ops[step["node"]] for step in graph["backward"]["steps"]] == ["sum"]
