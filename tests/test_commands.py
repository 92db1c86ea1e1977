"""The installed commands: what happens before their packages are loaded."""

import importlib
import os
import re
import subprocess
import sys

import pytest


def run(code, *args):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("command", ["profile", "gradcheck"])
def test_an_interrupt_while_a_command_loads_is_one_line(command):
    interrupted = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'minigrad.ops': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        f"import minigrad_commands; sys.exit(minigrad_commands.{command}())\n"
    )
    done = run(interrupted)
    assert done.returncode == 130 and done.stderr == f"minigrad-{command}: interrupted\n"


@pytest.mark.parametrize("command", ["profile", "gradcheck"])
def test_a_command_has_the_exit_code_of_its_tool(command):
    done = run(f"import sys, minigrad_commands; sys.exit(minigrad_commands.{command}())", "--no")
    assert done.returncode == 2 and f"minigrad-{command}" in done.stderr


@pytest.mark.parametrize("tool", ["minigrad_viz", "minigrad_profiler"])
def test_each_command_of_a_tool_says_what_it_does(tool, capsys):
    cli = importlib.import_module(f"{tool}.cli")
    assert cli.main(["--help"]) == 0
    commands = re.findall(r"^    (\w+) +\w", capsys.readouterr().out, re.M)
    assert len(commands) >= 5
    for name in commands:
        assert cli.main([name, "--help"]) == 0
        usage, description, arguments, *_ = capsys.readouterr().out.split("\n\n")
        assert usage.startswith("usage:") and arguments.startswith("positional arguments:")
        assert description[0].isupper() and description.endswith("."), name


@pytest.mark.parametrize("tool", ["minigrad_viz", "minigrad_profiler"])
def test_no_line_of_a_help_text_is_wider_than_a_terminal(tool, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert importlib.import_module(f"{tool}.cli").main(["--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
