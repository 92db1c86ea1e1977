"""Which rules are written into generated code as words, and which are called there."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.primitive import Primitive
from minigrad.fast.codegen import _in_words


def op_with(rule, *, optional=()):
    """An op of a and b, with this rule for a."""
    made = Primitive(np.add, "an_op", ["a", "b"], optional=optional, defaults={"k": None})
    made.vjp("a")(rule)
    return made


def words(rule, **options):
    op = op_with(rule, **options)
    return _in_words(op, op.rules["a"], list(op.rules["a"].names))


@pytest.mark.parametrize(
    ("rule", "source"),
    [(lambda g: g, "g"), (lambda g: -g, "-g"), (lambda g, b: g / b, "g / b"), (lambda y: y, "y")],
)
def test_a_rule_of_one_step_is_written_as_words(rule, source):
    assert words(rule) == source


@pytest.mark.parametrize(
    "rule",
    [
        lambda g, b: g * b,
        lambda g, b: g / (g / b),
        lambda g, b: g if b else -g,
        lambda g, b: g if b == 0 else -g,
        lambda g, b: g if b > 0 else -g,
        lambda g, b: np.add(g, 0),
        lambda g: 1 / 0,
        lambda g, k: g if k is None else -g,
    ],
)
def test_a_rule_that_does_more_is_called(rule):
    assert words(rule) is None


def test_a_rule_that_reads_an_optional_array_may_choose_and_is_called():
    def rule(g, b):
        return g if b is None else -g

    assert words(rule) == "-g"
    assert words(rule, optional=["b"]) is None


def test_a_rule_with_side_effects_runs_once_for_each_backward():
    calls = []
    note = calls.append

    def rule(g):
        note(g)
        return g

    made = op_with(rule)
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    y = made(x, 1.0)
    assert not calls
    mg.grad(y, x, mg.tensor([1.0, 1.0]))
    assert len(calls) == 1
