"""`minigrad-gradcheck program.py`: the program runs, and its rules are checked."""

import pytest

from minigrad.testing.cli import main

OPS = """
import numpy as np
import minigrad as mg

@mg.primitive
def {name}(x):
    return x**3

@{name}.vjp("x")
def rule(g, x):
    return g * {factor} * x**2

class Gate{name}(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * {factor} / 1.5 * ctx.saved_tensors[0]
"""
USE = """
x = mg.tensor(np.linspace(0.5, 1.5, 4), requires_grad=True)
({name}(x) * x).sum().backward()
"""


@pytest.fixture
def checked(tmp_path, capsys, monkeypatch):
    """Exit code and lines of a program's check."""
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    monkeypatch.setattr("sys.argv", ["minigrad-gradcheck"])

    def check(name, text, **values):
        path = tmp_path / f"{name}.py"
        path.write_text(text.format(name=name, **values))
        code = main([str(path)])
        return code, capsys.readouterr().out

    return check


def test_a_wrong_rule_is_named_first_with_the_line_that_called_it(checked):
    code, told = checked("cube_wrong", OPS + USE, factor=2)
    first = told.splitlines()[0]
    assert code == 1 and "cube_wrong: wrong" in first
    assert f"cube_wrong.py:{(OPS + USE).count(chr(10))}:" in first


def test_a_class_that_nothing_called_is_checked_and_named_as_it_is(checked):
    code, told = checked("uncalled", OPS, factor=2)
    assert code == 1 and "Gateuncalled: wrong" in told and "uncalled: wrong" in told


def test_right_rules_pass(checked):
    code, told = checked("cube_right", OPS + USE, factor=3)
    assert code == 0 and "0 wrong" in told


def test_a_file_that_is_not_there_is_a_wrong_call(capsys):
    assert main(["nothing_here.py"]) == 2
    assert "no such file" in capsys.readouterr().err


OVERFLOW = """
import numpy as np
import minigrad as mg

class {name}(mg.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return np.logaddexp(0, x)

    @staticmethod
    def backward(ctx, g):
        e = np.exp(ctx.saved_tensors[0])
        return g * e / (1 + e)

x = mg.tensor(np.linspace(0.5, 1.5, 4), requires_grad=True)
{name}.apply(x).sum().backward()
"""


def test_a_rule_that_is_right_at_the_programs_values_is_tried_at_large_ones(checked):
    code, told = checked("Overflows", OVERFLOW)
    assert code == 1 and told.startswith(
        "Overflows: wrong elsewhere: gradcheck: the gradient holds nan"
    )
