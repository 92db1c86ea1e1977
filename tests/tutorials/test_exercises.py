"""A check of an exercise says right, wrong with a hint, or not answered yet, and never raises."""

import pytest

from tutorials.exercises import exercise

pytestmark = pytest.mark.promise("every tutorial runs, and its notebook is made from its script")


def said(answer, capsys):
    namespace = {"exercise": exercise} | ({} if answer is None else {"twice": answer})
    text = "@exercise(2)\ndef check(twice):\n    assert twice(3) == 6, 'Add x to itself.'\n"
    exec(text, namespace)
    return capsys.readouterr().out


def test_a_right_answer_is_right(capsys):
    assert said(lambda x: x + x, capsys) == "Exercise 2: right.\n"


def test_a_wrong_answer_gets_the_hint_of_the_assertion(capsys):
    assert said(lambda x: x * x, capsys) == "Exercise 2: not right yet. Add x to itself.\n"


def test_an_answer_that_raises_is_wrong_and_told_what_it_raised(capsys):
    assert "not right yet. The check raises ZeroDivisionError" in said(lambda x: x / 0, capsys)


def empty(x): ...


def empty_but_explained(x):
    """Twice x."""


@pytest.mark.parametrize("answer", [..., empty, empty_but_explained, None])
def test_dots_an_empty_function_and_no_answer_at_all_are_not_answered_yet(answer, capsys):
    assert said(answer, capsys) == "Exercise 2: not answered yet.\n"


def test_a_function_that_returns_a_constant_is_an_answer(capsys):
    assert "not right yet" in said(lambda x: 5, capsys)
