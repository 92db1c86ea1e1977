"""`minigrad-profile run`: an unchanged script behaves as it would without it."""

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import minigrad as mg
from minigrad.instrument.formats import EventReader

ROOT = Path(__file__).parents[2]
TRAIN = """
import minigrad as mg
x = mg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
mg.tanh(x @ x).sum().backward()
"""


def environment():
    paths = os.pathsep.join(str(ROOT / folder) for folder in (".", "viz", "profiler"))
    clean = {name: value for name, value in os.environ.items() if "MINIGRAD" not in name}
    return {**clean, "PYTHONPATH": paths}


def start(folder, *command):
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )


def both_ways(tmp_path, code, *args):
    """The script run by Python, then by the profiler."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "script.py").write_text(code, encoding="utf-8")
    plain = start(tmp_path, "sub/script.py", *args)
    options = ("-m", "minigrad_profiler", "run", "--quiet", "-o", "log.jsonl")
    return plain, start(tmp_path, *options, "sub/script.py", *args)


def events(tmp_path, name="log.jsonl"):
    with EventReader(str(tmp_path / name)) as reader:
        return list(reader)


def same(plain, profiled):
    assert (profiled.returncode, profiled.stdout) == (plain.returncode, plain.stdout)
    assert profiled.stderr == plain.stderr


def test_a_script_finds_what_python_gives_it(tmp_path):
    code = TRAIN + (
        "import sys, os, pickle\n"
        "class Thing: pass\n"
        "print(__name__, __file__, sys.argv, sys.path[0])\n"
        "print(type(pickle.loads(pickle.dumps(Thing()))))\n"
        "print(sys.modules['__main__'].Thing is Thing, __doc__, __spec__, __package__)\n"
    )
    plain, profiled = both_ways(tmp_path, code, "--out", "-o", "--", "a b", "view")
    same(plain, profiled)
    assert [event.kind for event in events(tmp_path)].count("forward") == 3


def test_modules_beside_the_script_can_be_imported(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "helper.py").write_text("value = 7")
    (tmp_path / "sub" / "script.py").write_text(TRAIN + "import helper; print(helper.value)")
    done = start(tmp_path, "-m", "minigrad_profiler", "run", "sub/script.py")
    assert done.stdout == "7\n" and "minigrad-profile.jsonl" in done.stderr


@pytest.mark.parametrize("ending", ["sys.exit(3)", "sys.exit('gone')", "sys.exit()", "exit(4)"])
def test_exit_codes_are_the_scripts_own(tmp_path, ending):
    same(*both_ways(tmp_path, TRAIN + "import sys\n" + ending))
    assert len(events(tmp_path)) == 7


def test_an_exception_ends_it_with_the_same_traceback(tmp_path):
    code = TRAIN + "def f(): raise KeyError('lost')\ntry:\n    1 / 0\nexcept Exception:\n    f()\n"
    plain, profiled = both_ways(tmp_path, code)
    same(plain, profiled)
    assert "KeyError: 'lost'" in profiled.stderr and len(events(tmp_path)) == 7


def test_a_syntax_error_is_the_scripts_own(tmp_path):
    plain, profiled = both_ways(tmp_path, "def f(:\n")
    assert profiled.returncode == plain.returncode == 1
    assert "SyntaxError" in profiled.stderr and "minigrad_profiler" not in profiled.stderr
    assert events(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_it_as_it_ends_python_and_the_log_is_whole(tmp_path):
    code = TRAIN + "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n"
    plain, profiled = both_ways(tmp_path, code)
    same(plain, profiled)
    assert profiled.returncode == -signal.SIGINT and len(events(tmp_path)) == 7


@pytest.mark.parametrize("options", [["--html", "r.html"], ["--format", "chrome", "-o", "r.html"]])
def test_ctrl_c_while_a_file_is_made_of_the_log_is_one_line_and_the_log_stays(tmp_path, options):
    (tmp_path / "script.py").write_text(
        "import minigrad as mg\n"
        "from minigrad.instrument import formats\n"
        "def interrupted(self): raise KeyboardInterrupt\n"
        "formats.EventReader.records = interrupted\n"
        "mg.ones(3).sum()\n"
    )
    done = start(tmp_path, "-m", "minigrad_profiler", "run", *options, "script.py")
    lines = done.stderr.splitlines()
    assert lines[0] == "minigrad-profile: interrupted, r.html was not written"
    logs = list(tmp_path.glob("*.jsonl"))
    assert len(logs) == 1 and logs[0].name in lines[-1] and not (tmp_path / "r.html").exists()
    assert "Traceback" not in done.stderr


def test_threads_and_exit_handlers_that_outlive_the_script_are_in_the_log(tmp_path):
    code = TRAIN + (
        "import atexit, threading, time\n"
        "atexit.register(lambda: x + 1)\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), x - 1)).start()\n"
    )
    both_ways(tmp_path, code)
    assert {"add", "sub"} <= {event.op for event in events(tmp_path)}


def test_lines_are_those_of_the_script(tmp_path):
    both_ways(tmp_path, TRAIN)
    lines = {event.op: event.site["line"] for event in events(tmp_path) if event.site}
    assert lines["matmul"] == 4


@pytest.mark.parametrize("wanted", ["chrome", "speedscope"])
def test_the_log_can_be_converted_at_once(tmp_path, wanted):
    (tmp_path / "script.py").write_text(TRAIN)
    done = start(
        tmp_path, "-m", "minigrad_profiler", "run", "--format", wanted, "-o", "t.json", "script.py"
    )
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(tmp_path)) == ["script.py", "t.json"]
    json.loads((tmp_path / "t.json").read_text())


def test_a_script_that_is_not_there_is_one_line(tmp_path):
    done = start(tmp_path, "-m", "minigrad_profiler", "run", "missing.py")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "missing.py" in done.stderr


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_log_in_the_place_of_the_script_is_one_line(tmp_path, command):
    (tmp_path / "log.jsonl").write_text("{}", encoding="utf-8")
    done = start(tmp_path, "-m", "minigrad_profiler", command, "log.jsonl")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no Python program; minigrad-profile view log.jsonl" in done.stderr


def test_an_option_behind_the_script_is_the_scripts_and_is_said_to_be(tmp_path):
    (tmp_path / "script.py").write_text("import sys; print(sys.argv[1:])", encoding="utf-8")
    done = start(tmp_path, "-m", "minigrad_profiler", "run", "script.py", "--html", "r.html")
    assert done.stdout.strip() == "['--html', 'r.html']"
    assert "--html went to script.py; options of `run` come before the script" in done.stderr


def test_a_log_that_cannot_be_written_is_one_line_and_the_script_does_not_run(tmp_path):
    (tmp_path / "script.py").write_text("print('ran')")
    done = start(tmp_path, "-m", "minigrad_profiler", "run", "-o", "no/log.jsonl", "script.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "no/log.jsonl" in done.stderr


def test_a_log_on_a_full_disk_is_one_line_that_names_it(tmp_path):
    (tmp_path / "script.py").write_text("print('ran')")
    done = start(tmp_path, "-m", "minigrad_profiler", "run", "-o", "/dev/full", "script.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "minigrad-profile: /dev/full: No space left on device\n"


def test_a_report_that_cannot_be_written_is_one_line_and_the_script_does_not_run(tmp_path):
    (tmp_path / "s.py").write_text("print('ran')")
    done = start(tmp_path, "-m", "minigrad_profiler", "run", "--html", "no/r.html", "s.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "minigrad-profile: no/r.html: there is no such folder to write it into\n"


def test_a_live_view_without_rich_is_one_line_and_an_earlier_log_stays(tmp_path):
    (tmp_path / "s.py").write_text("raise SystemExit('it ran')")
    (tmp_path / "minigrad-profile.jsonl").write_text("an earlier log")
    (tmp_path / "rich.py").write_text("raise ImportError")
    done = start(tmp_path, "-m", "minigrad_profiler", "run", "--live", "s.py")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "rich" in done.stderr
    assert (tmp_path / "minigrad-profile.jsonl").read_text() == "an earlier log"


def test_device_times_without_a_device_are_one_line_and_the_script_does_not_run(tmp_path):
    if mg.cuda.is_available():
        pytest.skip("there is a GPU here")
    (tmp_path / "script.py").write_text("print('ran')")
    done = start(tmp_path, "-m", "minigrad_profiler", "run", "--device", "script.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "needs" in done.stderr
    assert os.listdir(tmp_path) == ["script.py"]


@pytest.mark.parametrize("out, wanted", [("log.jsonl", "events"), ("log.json", "chrome")])
def test_the_files_lie_where_the_run_began_whatever_folder_the_script_goes_to(
    tmp_path, out, wanted
):
    code = f"{TRAIN}import os; os.mkdir('sub'); os.chdir('sub')\n"
    (tmp_path / "script.py").write_text(code)
    options = ["-o", out, "--format", wanted, "--html", "page.html"]
    done = start(tmp_path, "-m", "minigrad_profiler", "run", *options, "script.py")
    assert (
        done.returncode == 0 and done.stderr.splitlines()[0] == "minigrad-profile: wrote page.html"
    )
    assert sorted(os.listdir(tmp_path)) == sorted(["script.py", "sub", out, "page.html"])
    assert os.listdir(tmp_path / "sub") == []


@pytest.mark.parametrize("option", ["-o", "--html"])
def test_a_script_is_not_replaced_by_its_own_log(tmp_path, option):
    (tmp_path / "script.py").write_text(TRAIN)
    done = start(tmp_path, "-m", "minigrad_profiler", "run", option, "./script.py", "script.py")
    assert done.returncode == 2 and "would replace script.py itself" in done.stderr
    assert (tmp_path / "script.py").read_text() == TRAIN and os.listdir(tmp_path) == ["script.py"]


def test_a_log_that_fills_the_disk_says_how_many_of_its_events_are_safe(tmp_path):
    pytest.importorskip("resource", reason="limits of POSIX")
    (tmp_path / "script.py").write_text(
        "import resource, minigrad as mg\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "for _ in range(4000): mg.ones(3).sum()\n"
        "print('ran to its end')\n"
    )
    done = start(tmp_path, "-m", "minigrad_profiler", "run", "-o", "log.jsonl", "script.py")
    assert (done.returncode, done.stdout) == (0, "ran to its end\n")
    with EventReader(str(tmp_path / "log.jsonl.partial"), salvage=True) as reader:
        kept = len(list(reader))
    assert 0 < kept < 4000 and os.listdir(tmp_path).count("log.jsonl") == 0
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"minigrad-profile: the log is incomplete: {kept:,} events are safe in ")


def test_the_first_op_that_needs_scipy_is_not_charged_with_its_import(tmp_path):
    pytest.importorskip("scipy")
    (tmp_path / "script.py").write_text(
        "import sys, minigrad as mg\nprint('scipy.special' in sys.modules)\nmg.erfinv(mg.ones(3))\n"
    )
    done = start(tmp_path, "-m", "minigrad_profiler", "run", "script.py")
    assert done.stdout == "True\n"


def test_a_full_standard_output_is_named_as_such(tmp_path):
    (tmp_path / "script.py").write_text(TRAIN)
    start(tmp_path, "-m", "minigrad_profiler", "run", "-o", "log.jsonl", "script.py")
    command = [sys.executable, "-m", "minigrad_profiler", "view", str(tmp_path / "log.jsonl")]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, env=environment(), text=True, timeout=60
        )
    assert done.returncode == 2
    assert done.stderr == "minigrad-profile: standard output: No space left on device\n"


@pytest.mark.parametrize("name", ["bytes", "html"])
def test_a_format_that_shows_memory_records_it(tmp_path, name):
    (tmp_path / "script.py").write_text(TRAIN, encoding="utf-8")
    options = ("-m", "minigrad_profiler", "run", "--format", name, "-o", "made")
    done = start(tmp_path, *options, "script.py")
    assert done.stderr.endswith(" events in made\n")
    assert sorted(os.listdir(tmp_path)) == ["made", "script.py"]
    assert '"memory":null' not in (tmp_path / "made").read_text(encoding="utf-8").replace(" ", "")


def test_a_schedule_records_some_steps_of_an_unchanged_script(tmp_path):
    code = (
        "import minigrad as mg\n"
        "model = mg.nn.Linear(2, 2)\n"
        "optimizer = mg.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(8):\n"
        "    model(mg.ones((1, 2))).sum().backward()\n"
        "    optimizer.step()\n"
    )
    (tmp_path / "script.py").write_text(code)
    start(tmp_path, "-m", "minigrad_profiler", "run", "--schedule", "2,1,3,1", "script.py")
    found = events(tmp_path, "minigrad-profile.jsonl")
    assert [event.kind for event in found].count("pass") == 3


def test_a_module_runs_as_python_m_would_run_it(tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "part.py").write_text("word = 'part'")
    (tmp_path / "pack" / "__main__.py").write_text(
        TRAIN + "from .part import word\nimport sys\n"
        "print(word, __name__, __package__, __spec__.name, sys.argv[1:], sys.path[0])\n"
    )
    plain = start(tmp_path, "-m", "pack", "-x")
    profiled = start(tmp_path, "-m", "minigrad_profiler", "run", "--quiet", "-m", "pack", "-x")
    same(plain, profiled)
    assert [e.kind for e in events(tmp_path, "minigrad-profile.jsonl")].count("forward") == 3


def test_a_module_that_is_not_there_is_said_in_one_line(tmp_path):
    done = start(tmp_path, "-m", "minigrad_profiler", "run", "-m", "no.such.module")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "no.such" in done.stderr


def test_a_crashed_run_does_not_replace_the_log_of_a_good_one(tmp_path):
    (tmp_path / "script.py").write_text(TRAIN)
    command = ("-m", "minigrad_profiler", "run", "script.py")
    start(tmp_path, *command)
    good = (tmp_path / "minigrad-profile.jsonl").read_bytes()
    (tmp_path / "script.py").write_text("import minigrad as mg\nmg.ones(2) + 1\nraise KeyError\n")
    done = start(tmp_path, *command)
    assert "minigrad-profile.failed.jsonl" in done.stderr
    assert (tmp_path / "minigrad-profile.jsonl").read_bytes() == good
    assert len(events(tmp_path, "minigrad-profile.failed.jsonl")) == 1


def test_files_that_end_in_gz_are_compressed_and_read(tmp_path):
    (tmp_path / "script.py").write_text(TRAIN)
    tool = ("-m", "minigrad_profiler")
    start(tmp_path, *tool, "run", "script.py")
    log = (tmp_path / "minigrad-profile.jsonl").read_bytes()
    (tmp_path / "log.json.gz").write_bytes(gzip.compress(log))
    plain = start(tmp_path, *tool, "view", "--json", "minigrad-profile.jsonl")
    assert start(tmp_path, *tool, "view", "--json", "log.json.gz").stdout == plain.stdout
    start(tmp_path, *tool, "export", "log.json.gz", "--chrome", "trace.json.gz")
    trace = json.loads(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    assert trace["traceEvents"]
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(log)[:-40])
    cut = start(tmp_path, *tool, "view", "cut.json.gz")
    assert "cut off" in cut.stderr and "Traceback" not in cut.stderr
