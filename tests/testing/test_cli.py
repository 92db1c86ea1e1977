"""The command minigrad-gradcheck."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import minigrad
from minigrad.testing import cli, selftest
from minigrad.testing.case import Context
from minigrad.testing.report import Report
from minigrad.testing.run import Outcome

OPS = "exp,mul"


def run(*options, **keywords):
    command = [sys.executable, "-m", "minigrad.testing.cli", *options]
    return subprocess.run(command, capture_output=True, text=True, **keywords)


def test_right_ops_exit_with_0_and_a_matrix(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["--ops", OPS]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].split()[:3] == ["op", "K1", "K2"]
    assert "2 ops" in printed
    assert "comparisons" in printed


def test_skips_are_counted_with_their_reason(capsys):
    cli.main(["--ops", "exp", "--checks", "K13,K20"])
    printed = capsys.readouterr().out
    skipped = [line for line in printed.splitlines() if line.startswith("skipped")]
    assert f"{sum(int(line.split('×')[1].split(':')[0]) for line in skipped)} skips" in printed


def test_the_markdown_report_has_a_row_for_each_op(tmp_path):
    path = tmp_path / "report.md"
    assert cli.main(["--ops", OPS, "--report", str(path)]) == 0
    rows = [line for line in path.read_text().splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[:3]] == ["| op", "| exp", "| mul"]
    assert rows[1].count("✓") > 10


def test_the_json_report_is_one_object_a_line(tmp_path):
    path = tmp_path / "report.json"
    cli.main(["--ops", "exp", "--report", str(path)])
    head, *lines = map(json.loads, path.read_text().splitlines())
    assert head["format"] == "minigrad.gradcheck"
    assert {line["status"] for line in lines if "op" in line} <= {"pass", "n/a", "skip"}
    assert head["comparisons"] == sum(line.get("comparisons", 0) for line in lines)


def test_a_wrong_rule_of_a_third_party_exits_with_1(tmp_path):
    (tmp_path / "wrong_rules.py").write_text(
        "import numpy as np\n"
        "from minigrad.testing import register_op\n"
        "from minigrad.testing.plant import make, vectors\n"
        "bad = make('bad', np.sin, {'x': lambda g, x: g * np.sin(x)}, {})\n"
        "register_op('bad', vectors(5), call=bad, reference=np.sin)\n"
    )
    done = run("--import", "wrong_rules", "--ops", "bad,exp", "-j", "2", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "bad, K2 on sample 'shape 5'" in done.stdout
    assert "analytic" in done.stdout and "numeric" in done.stdout
    assert "import wrong_rules  # registers the op" in done.stdout
    assert "failures in 1 op" in done.stdout


def test_the_version_is_told_as_by_the_other_commands(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"minigrad-gradcheck {minigrad.__version__}\n"


@pytest.mark.parametrize(
    "options, text",
    [
        (["--ops", "no_such_op"], "no_such_op"),
        (["--checks", "K99"], "K99"),
        (["--level", "slow"], "slow"),
        (["--import", "no_such_module"], "no_such_module"),
        (["--import", "no_such.py"], "; the module of that file is no_such"),
        (["exp", "tanh"], "unrecognized arguments: exp tanh; ops are named by --ops exp,tanh"),
        (["--ops", "exp", "--quick"], "unrecognized arguments: --quick\n"),
        (["--import", ""], "should be a module's name"),
        (["--import", ".ops"], "should be a module's name"),
        (["--ops", "exp", "--seed", "-1"], "'-1' should be an integer, 0 or more"),
        (["--ops", "exp", "--jobs", "a"], "'a' should be an integer, 0 or more"),
        (["--ops", "mull,exp"], "there is no op 'mull'; is mul meant?"),
        (["--ops", "exp", "--jobs", "-1"], "'-1' should be an integer, 0 or more"),
        (["--ops", "exp", "--report", "/"], "/: is a folder"),
        (["--ops", "exp", "--report", "no/such/folder/r.md"], "no/such/folder"),
    ],
)
def test_wrong_usage_exits_with_2_and_names_it(options, text, capsys):
    assert cli.main(options) == 2
    assert text in capsys.readouterr().err


def test_an_op_named_twice_is_checked_once(capsys):
    assert cli.main(["--ops", "exp,exp", "--checks", "K1"]) == 0
    assert "1 op, 1 check, " in capsys.readouterr().out


def test_list_names_ops_and_checks(capsys):
    assert cli.main(["--list"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert "exp" in printed
    assert any(line.startswith("K10 ") for line in printed)


def test_self_test_prints_the_kill_rate(capsys, monkeypatch):
    monkeypatch.setattr(selftest, "PLANTS", selftest.PLANTS[:5])  # all: in test_planted.py
    assert cli.main(["--self-test"]) == 0
    assert "kill rate 5/5 = 100.0 %" in capsys.readouterr().out


WITH_A_WORD = """
import sys
from minigrad.testing import cli

check_one_op = cli.check_one_op

def check(task):
    print("checking", flush=True)
    return check_one_op(task)

cli.check_one_op = check
sys.exit(cli.main(sys.argv[1:]))
"""


def test_an_interrupt_exits_with_130_and_leaves_no_report(tmp_path):
    command = [sys.executable, "-c", WITH_A_WORD, "--level", "full", "-j", "1"]
    command += ["--report", str(tmp_path / "report.md")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.stdout.readline() not in ("checking\n", ""):
        pass
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert error == "minigrad-gradcheck: interrupted; no report was written\n"
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_tells_what_it_has_checked(capsys, monkeypatch):
    def check(task):
        if task[0] == "mul":
            raise KeyboardInterrupt
        return check_one_op(task)

    check_one_op = cli.check_one_op
    monkeypatch.setattr(cli, "check_one_op", check)
    assert cli.main(["--ops", "exp,mul,add"]) == 130
    *_, row, last = [x for x in capsys.readouterr().out.splitlines() if not x.startswith("skip")]
    assert row.startswith("exp ")
    assert last.startswith("1 of 3 ops, ") and last.endswith("interrupted: nothing had failed")


def test_an_interrupted_self_test_tells_its_rate_so_far(capsys, monkeypatch):
    def judge(plant, seed):
        if plant is selftest.PLANTS[1]:
            raise KeyboardInterrupt
        return selftest.Verdict(plant, ("K2",), ())

    monkeypatch.setattr(selftest, "judge", judge)
    assert cli.main(["--self-test"]) == 130
    assert ": kill rate 1/1 = 100.0 %" in capsys.readouterr().out


def test_an_interrupt_ends_the_processes_at_once_and_in_silence(tmp_path):
    (tmp_path / "slow_ops.py").write_text(
        "import multiprocessing, pathlib, time\n"
        "if multiprocessing.parent_process():  # not in the first process\n"
        "    pathlib.Path('started').touch()\n"
        "    time.sleep(600)\n"
    )
    assert interrupted_once_started(tmp_path, "slow_ops") == (
        130, "minigrad-gradcheck: interrupted\n"
    )  # fmt: skip


def interrupted_once_started(folder, module, *options):
    """(exit code, error text) of the command, with Ctrl-C when the file `started` is there."""
    command = [sys.executable, "-m", "minigrad.testing.cli", "--import", module, "-j", "2"]
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        start_new_session=True,
    )
    while not (folder / "started").exists() and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    try:
        _, error = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, error


def test_an_interrupt_ends_the_command_where_a_process_was_sending_its_result(tmp_path):
    (tmp_path / "half.py").write_text(
        "import multiprocessing, os, pathlib, struct, time\n"
        "from multiprocessing.queues import SimpleQueue\n"
        "def begin_to_send(self, result):\n"
        "    os.write(self._writer.fileno(), struct.pack('!i', 1000) + b'its beginning')\n"
        "    pathlib.Path('started').touch()\n"
        "    time.sleep(600)\n"
        "if multiprocessing.parent_process():  # not in the first process\n"
        "    SimpleQueue.put = begin_to_send\n"
    )
    code, error = interrupted_once_started(tmp_path, "half", "--ops", "exp,mul")
    assert (code, error) == (130, "minigrad-gradcheck: interrupted\n")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_processes_end_when_the_command_was_killed(tmp_path):
    (tmp_path / "idle.py").write_text(
        "import multiprocessing, os, pathlib, time\n"
        "if multiprocessing.parent_process():  # not in the first process\n"
        "    pathlib.Path(f'pid{os.getpid()}').touch()\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-m", "minigrad.testing.cli", "--import", "idle", "-j", "2"]
    process = subprocess.Popen(command, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while len(found := list(tmp_path.glob("pid*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    pids = [int(path.name[3:]) for path in found]
    while any(map(runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(pids) == 2 and not any(map(runs, pids))


def runs(pid):
    """Whether there is a process of this number that has not ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # one that nobody has waited for


def test_a_process_that_was_killed_is_one_line_and_exit_code_2(tmp_path):
    (tmp_path / "deadly.py").write_text(
        "import multiprocessing, os, signal\n"
        "if multiprocessing.parent_process():  # not in the first process\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-m", "minigrad.testing.cli", "--import", "deadly", "--ops", "exp"]
    done = subprocess.run(
        [*command, "-j", "2"], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.startswith(
        "minigrad-gradcheck: a process has ended before the checks of exp"
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["-j", "--seed"])
def test_a_negative_count_is_wrong_usage(option, capsys):
    assert cli.main(["--ops", "exp", option, "-3"]) == 2
    assert "'-3' should be an integer, 0 or more" in capsys.readouterr().err


@pytest.mark.parametrize("width", [80, 200])
def test_the_matrix_fits_the_terminal(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    assert cli.main(["--ops", "exp,softmax"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    head, row = lines[0], next(line for line in lines if line.startswith("exp"))
    if width == 200:
        assert head.split()[:3] == ["op", "K1", "K2"] and row.split()[:2] == ["exp", "✓"]
        return
    units = lines[1]
    at = units.index("1")  # K1's column; K27's is the last of them
    assert (head[at + 26], units[at + 26]) == ("2", "7") and set(row[at : at + 27]) <= set("✓·")


WRONG = Outcome(
    "softmax", "K10", "fail",
    failures=[(
        "rows",
        "second derivative: along a random direction u and for a random cotangent v, (Jᵀv)·u is "
        "-3.028858609295625 but finite differences give v·(Ju) = -2.858062763921247\n"
        "wrong entry: argument 0 (x) at index [4]: analytic 0.0, numeric -0.5301396242272250001",
        "    run_check('softmax', 'K10', sample='a name so long that the line is no longer short')",
    )],
)  # fmt: skip


def printed_failure(monkeypatch, capsys, columns):
    def one_failure(task):
        return [WRONG], Context()

    monkeypatch.setattr(cli, "check_one_op", one_failure)
    monkeypatch.setenv("COLUMNS", columns)
    assert cli.main(["--ops", "softmax"]) == 1
    text = capsys.readouterr().out
    return text[: text.index("\nop ")].splitlines()


@pytest.mark.parametrize("width", [80, 200])
def test_failures_are_folded_between_words_to_fit_the_terminal(width, monkeypatch, capsys):
    lines = printed_failure(monkeypatch, capsys, str(width))
    code = [line for line in lines if line.lstrip().startswith("run_check")]
    assert code == [WRONG.failures[0][2]]  # which is to be copied: whole, however long
    told = [line for line in lines if line not in code]
    assert width - 25 < max(map(len, told)) <= width
    assert " ".join(" ".join(told).split()).endswith(
        " ".join(f"softmax, K10 on sample 'rows': {WRONG.failures[0][1]} again:".split())
    )


def test_the_first_line_of_a_failure_names_op_check_and_sample_and_the_rest_is_indented(
    monkeypatch, capsys
):
    lines = printed_failure(monkeypatch, capsys, "80")
    first, *rest = lines[next(i for i, x in enumerate(lines) if "on sample" in x) :]
    assert first.startswith("softmax, K10 on sample 'rows': second derivative")
    assert all(line.startswith("  ") for line in rest)


def test_in_a_pipe_each_failure_is_one_line_for_grep(monkeypatch, capsys):
    lines = printed_failure(monkeypatch, capsys, "")
    message, entry = WRONG.failures[0][1].split("\n")
    assert f"softmax, K10 on sample 'rows': {message}" in lines and f"  {entry}" in lines


@pytest.mark.parametrize("width", [60, 200])
def test_names_that_fill_two_columns_a_letter_keep_the_matrix_aligned(width, monkeypatch, capsys):
    outcomes = [Outcome(op, f"K{n}", "pass", 1) for op in ("exp", "名前") for n in range(1, 30)]
    monkeypatch.setenv("COLUMNS", str(width))
    cli._print_matrix(Report("fast", 0, outcomes))
    first, second = capsys.readouterr().out.splitlines()[-2:]
    assert first.index("✓") == second.index("✓") + 2


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_that_another_thread_is_given_waits_until_the_processes_have_started():
    end, reached = threading.Event(), False
    other = threading.Thread(target=end.wait)
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt), cli._unheard(signal.SIGINT):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
            reached = True
    finally:
        end.set()
    assert reached
