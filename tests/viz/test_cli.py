"""The command: exit codes, one line on stderr, nothing half-written."""

import io
import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest
from minigrad_viz.cli import main

BAD = {
    "cut off": lambda d: json.dumps(d.tiny())[:-40],
    "empty": lambda d: "",
    "newer": lambda d: d.tiny() | {"version": [2, 0]},
    "other format": lambda d: {"format": "other", "version": [1, 0]},
    "wrong type": lambda d: d.tiny() | {"nodes": 7},
    "unknown edge": lambda d: d.tiny() | {"roots": [77]},
}

RECORDED = ("time", "norm", "slack")  # what --heat takes from the backward


@pytest.mark.parametrize("ending", ["svg", "html", "png"])
@pytest.mark.parametrize("case", BAD)
def test_a_bad_dump_gives_one_line_and_exit_2_and_writes_nothing(
    case, ending, dumps, save, viz, tmp_path
):
    path, out = save(BAD[case](dumps)), tmp_path / f"o.{ending}"
    out.write_text("what was there")
    code, stdout, err = viz(path, "-o", out)
    assert (code, stdout, err.count("\n")) == (2, "", 1)
    assert err.startswith("minigrad-viz: ") and "graph.json" in err and "Traceback" not in err
    assert out.read_text() == "what was there"
    assert sorted(os.listdir(tmp_path)) == ["graph.json", out.name]


@pytest.mark.parametrize(("words", "name"), [([], "graph.html"), (["step"], "graph-step.html")])
def test_without_o_the_page_lies_beside_the_dump_and_is_named(
    words, name, dumps, save, viz, tmp_path
):
    document = dumps.tiny()
    document["backward"] = dumps.backward(document)
    code, _, err = viz(*words, save(document))
    assert code == 0 and err == f"minigrad-viz: wrote {tmp_path / name}\n"
    assert (tmp_path / name).read_text().startswith("<!DOCTYPE html>")


def test_a_drawing_of_standard_input_needs_a_name(viz):
    code, _, err = viz("-")
    assert code == 2 and "standard input: -o FILE" in err


def test_check_says_so_where_no_rule_was_checked(dumps, save, viz):
    code, out, _ = viz("check", save(dumps.tiny()))
    assert code == 0 and "no node was checked against finite differences" in out


def test_a_newer_dump_names_both_versions(dumps, save, viz, tmp_path):
    _, _, err = viz(save(dumps.tiny() | {"version": [2, 0]}), "-o", tmp_path / "o.svg")
    assert "written by a newer minigrad (format 2.0); this viewer reads 1.x: upgrade" in err


def test_a_dump_beyond_max_bytes_is_refused(dumps, save, viz, tmp_path):
    code, _, err = viz(save(dumps.tiny()), "-o", tmp_path / "o.svg", "--max-bytes", 64)
    assert code == 2 and "larger than 64 bytes" in err


@pytest.mark.parametrize("target", ["nowhere/o.svg", "file/o.svg", "folder.svg"])
def test_a_target_that_cannot_be_written_gives_one_line(target, dumps, save, viz, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.svg").mkdir()
    code, _, err = viz(save(dumps.tiny()), "-o", tmp_path / target)
    assert code == 2 and err.count("\n") == 1 and "cannot be written" in err


def test_a_full_disk_gives_one_line(dumps, save, viz):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    code, _, err = viz(save(dumps.tiny()), "-o", "/dev/full", "--format", "svg")
    assert code == 2 and "No space left" in err and stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_failed_write_leaves_no_part_behind(dumps, save, viz, tmp_path, monkeypatch):
    out = tmp_path / "o.svg"
    out.write_text("what was there")

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fails)
    assert viz(save(dumps.tiny()), "-o", out)[0] == 2
    assert out.read_text() == "what was there"
    assert sorted(os.listdir(tmp_path)) == ["graph.json", "o.svg"]


def test_a_new_file_gets_usual_permissions_and_an_old_one_keeps_its_own(dumps, save, viz, tmp_path):
    path, new, old = save(dumps.tiny()), tmp_path / "new.svg", tmp_path / "old.svg"
    old.write_text("")
    old.chmod(0o600)
    viz(path, "-o", new)
    viz(path, "-o", old)
    assert stat.S_IMODE(new.stat().st_mode) == stat.S_IMODE(path.stat().st_mode)
    assert stat.S_IMODE(old.stat().st_mode) == 0o600


def test_a_link_is_followed_and_not_replaced(dumps, save, viz, tmp_path):
    real, link = tmp_path / "real.svg", tmp_path / "link.svg"
    real.write_text("")
    link.symlink_to(real)
    assert viz(save(dumps.tiny()), "-o", link)[0] == 0
    assert link.is_symlink() and real.stat().st_size > 0


def test_the_output_can_be_a_pipe(dumps, save, capfdbinary):
    from minigrad_viz.cli import main

    assert main([str(save(dumps.tiny())), "-o", "-", "--format", "mmd"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"flowchart TD")


@pytest.mark.parametrize("arguments", [[], ["g.json"], ["g.json", "-o", "x.bmp"], ["info"]])
def test_a_wrong_call_gives_exit_2(arguments, viz):
    assert viz(*arguments)[0] == 2


def test_help_and_version_give_exit_0(viz):
    assert "render" in viz("--help")[1]
    assert viz("--version")[1].startswith("minigrad-viz ")


def test_info_counts_what_is_there(dumps, save, viz):
    code, out, _ = viz("info", save(dumps.convnet()))
    assert code == 0
    assert "25 nodes (15 ops, 8 parameters, 2 inputs)" in out
    assert "backward      15 steps in 14.9 ms" in out


def test_info_as_json_holds_the_same_numbers(dumps, save, viz):
    numbers = json.loads(viz("info", save(dumps.convnet()), "--json")[1])
    assert numbers["nodes"] == 25 and numbers["depth"] == 16
    assert numbers["ops"]["relu"] == 3 and numbers["scopes"]["model/conv1"] == 2


def test_an_interrupt_gives_exit_130_and_leaves_nothing(dumps, save, tmp_path):
    path = save(dumps.tiny())
    slow = (
        "import sys, time, minigrad_viz.cli as cli\n"
        "def render(*_): print('drawing', flush=True); time.sleep(30)\n"
        "cli.commands.render = render\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", slow, str(path), "-o", str(tmp_path / "o.svg")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    )
    assert run.stdout.readline() == "drawing\n"
    time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=20)
    assert run.returncode == 130 and err == "minigrad-viz: interrupted, nothing was written\n"
    assert os.listdir(tmp_path) == ["graph.json"]


def test_the_viewer_never_imports_the_engine():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, minigrad_viz.cli; print('minigrad' in sys.modules)"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


def test_the_guide_names_every_command_and_option():
    from pathlib import Path

    import minigrad_viz.cli as cli

    guide = (Path(__file__).parents[2] / "docs" / "viewer.md").read_text()
    parser = cli._parser()
    (commands,) = [action for action in parser._actions if action.choices]
    for name in commands.choices:
        assert f"minigrad-viz {name}" in guide or name == "render"
    named = {option for action in commands.choices["render"]._actions
             for option in action.option_strings if option.startswith("--")}  # fmt: skip
    known = {"--help", "--out", "--format", "--title", "--max-bytes"}  # -o and words of --help
    assert [option for option in sorted(named - known) if option not in guide] == []


def test_the_guides_pictures_exist():
    import re
    from pathlib import Path

    docs = Path(__file__).parents[2] / "docs"
    for picture in re.findall(r"\((pictures/[^)]+)\)", (docs / "viewer.md").read_text()):
        assert (docs / picture).stat().st_size < 2_000_000


@pytest.mark.parametrize("command", ["render", "step", "diff"])
def test_no_dump_is_replaced_by_its_picture(command, dumps, save, viz, tmp_path):
    path = save(dumps.tiny())
    before = path.read_bytes()
    link = tmp_path / "link.json"
    link.symlink_to(path)
    others = [path] if command == "diff" else []
    code, _, err = viz(command, path, *others, "-o", link)
    assert code == 2 and "would replace the dump itself" in err
    assert path.read_bytes() == before and link.is_symlink()


@pytest.mark.parametrize("limit", [10**12, 10**20])
def test_a_limit_beyond_all_memory_takes_none(limit, dumps, save, viz):
    code, out, err = viz("info", save(dumps.tiny()), "--max-bytes", limit)
    assert code == 0 and "node" in out and err == ""


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "one"])
@pytest.mark.parametrize("option", ["--time-limit", "--slower"])
def test_a_number_that_makes_no_sense_is_a_wrong_call(option, value, dumps, save, viz, tmp_path):
    path = save(dumps.tiny())
    command = ["diff", path, path] if option == "--slower" else [path, "-o", tmp_path / "o.png"]
    code, _, err = viz(*command, f"{option}={value}")
    assert code == 2 and "should be a number above 0" in err and "Traceback" not in err


@pytest.mark.parametrize("value", ["-1", "a", "1.5"])
def test_a_count_that_is_none_is_a_wrong_call(value, dumps, save, viz, tmp_path):
    code, _, err = viz(save(dumps.tiny()), "-o", tmp_path / "o.svg", f"--depth={value}")
    assert code == 2 and f"--depth: '{value}' should be an integer, 0 or more" in err


def test_graphviz_may_be_given_more_time_than_a_clock_can_tell(dumps, save, viz, tmp_path):
    code, _, _ = viz(save(dumps.tiny()), "-o", tmp_path / "o.svg", "--time-limit", "1e300")
    assert code == 0


@pytest.mark.parametrize(
    "command", [["step"], ["render", "--critical"], *(["render", "--heat", by] for by in RECORDED)]
)
def test_a_backward_without_a_step_is_not_taken_for_one_that_was_not_recorded(
    command, dumps, save, viz, tmp_path
):
    backward = {"engine": "serial", "workers": 1, "steps": [], "released": False}
    dump = save(dumps.tiny() | {"backward": backward})
    code, _, err = viz(*command, dump, "-o", tmp_path / "o.html")
    assert code == 2 and "backward ran no op" in err and err.count("\n") == 1


@pytest.mark.parametrize("work", ["NaN", "Infinity", "1e308"])
def test_info_is_json_whatever_numbers_a_dump_holds(work, dumps, save, viz):
    document = dumps.tiny()
    for node in document["nodes"]:
        node.update(flops="WORK", backward_flops="WORK")
    path = save(json.dumps(document).replace('"WORK"', work))
    code, out, _ = viz("info", path, "--json")
    assert code == 0 and json.loads(out, parse_constant=pytest.fail)["flops"] == 0


def test_an_interrupt_while_the_command_loads_is_one_line_too():
    interrupted = (
        "import runpy, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'minigrad_viz.reader': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
        "runpy.run_module('minigrad_viz', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", interrupted],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 130
    assert done.stderr == "minigrad-viz: interrupted, nothing was written\n"


def test_a_full_standard_output_is_named_as_such(dumps, save):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "minigrad_viz", "info", str(save(dumps.tiny()))]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, env=env, text=True, timeout=60
        )
    assert done.returncode == 2
    assert done.stderr.startswith("minigrad-viz: standard output: cannot be written")


def test_statistics_go_to_a_standard_output_that_takes_text_alone(dumps, save, monkeypatch):
    screen = io.StringIO()  # as a notebook's, it has no buffer
    monkeypatch.setattr(sys, "stdout", screen)
    assert main(["info", str(save(dumps.tiny()))]) == 0
    assert "nodes" in screen.getvalue()


def test_the_next_drawing_removes_what_a_kill_left_and_nothing_else(dumps, save, tmp_path):
    dump, out = save(dumps.tiny()), tmp_path / "out" / "g.svg"
    out.parent.mkdir()
    left, young = (out.parent / f".g.svg.{digit * 12}.part" for digit in "ab")
    left.write_text("half a drawing")
    young.touch()  # of somebody who is about to write
    other = out.parent / ".g.svg.part"
    other.write_text("the user's")
    assert main([str(dump), "-o", str(out)]) == 0
    assert sorted(out.parent.iterdir()) == sorted([out, young, other])
