"""The course pack: each answer of the question bank is what the engine says, and the plan
names sections that the notebooks have."""

import ast
import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import minigrad as mg
from minigrad import func, testing
from minigrad.engine.registry import op

COURSE = Path(__file__).resolve().parents[2] / "tutorials" / "course"
KINDS = {"By hand", "What would the engine do?", "Find the bug"}
SESSIONS = range(1, 9)
NAMES = {"mg": mg, "np": np, "func": func} | {
    name: getattr(testing, name) for name in ("gradcheck", "gradgradcheck", "jvpcheck")
}


def questions(session):
    """(number, kind, text) of each question of a session."""
    page = (COURSE / "questions" / f"{session}.md").read_text(encoding="utf-8")
    parts = re.split(r"(?m)^### (\S+) (.*)\n", page)[1:]
    return list(zip(parts[::3], parts[1::3], parts[2::3]))


EACH = [pytest.param(q, id=q[0]) for session in SESSIONS for q in questions(session)]


@pytest.fixture
def own_ops():
    """Ops that a test registers are gone after it."""
    before = dict(op.__dict__)
    yield
    for name in op.__dict__.keys() - before:
        del op.__dict__[name]


def is_value(text):
    """Whether a piece of code in an answer is a number, a list, an error: what a program prints."""
    try:
        ast.literal_eval(text.replace("nan", "0"))
    except (SyntaxError, ValueError):
        return text.endswith("Error")
    return True


@pytest.mark.parametrize("question", EACH)
def test_an_answer_is_what_its_program_prints(question, own_ops):
    number, _, text = question
    [answer] = re.findall(r"(?m)^\*\*Answer: .*", text)
    [program] = re.findall(r"(?ms)^```pycon\n(.*?)^```", text)
    example = doctest.DocTestParser().get_doctest(program, dict(NAMES), number, None, None)
    report = []
    assert not doctest.DocTestRunner().run(example, out=report.append).failed, "".join(report)
    printed = "".join(step.want for step in example.examples)
    stated = [part for part in re.findall(r"`([^`]+)`", answer) if is_value(part)]
    assert stated and [part for part in stated if part not in printed] == []


def test_the_bank_is_numbered_and_has_all_kinds_in_each_session():
    assert len(EACH) >= 60
    for session in SESSIONS:
        numbers, kinds, _ = zip(*questions(session))
        assert numbers == tuple(f"{session}.{i}" for i in range(1, len(numbers) + 1))
        assert set(kinds) == KINDS


def plans():
    """(name, text) of each session of the plan."""
    parts = re.split(r"(?m)^## (Session .*)\n", (COURSE / "plan.md").read_text(encoding="utf-8"))
    return list(zip(parts[1::2], parts[2::2]))


@pytest.mark.parametrize("session, plan", [pytest.param(*p, id=p[0]) for p in plans()])
def test_a_session_fills_90_minutes_with_sections_of_its_notebook(session, plan):
    [notebook] = re.findall(r"\(\.\./(\w+)\.ipynb\)", plan)
    script = (COURSE.parent / f"{notebook}.py").read_text(encoding="utf-8")
    headings = set(re.findall(r"(?m)^# ##+ (.*)$", script))
    rows = re.findall(r"(?m)^\| (\d+) \| (.*) \|(.*)\|$", plan)
    minutes = [int(minute) for minute, _, _ in rows]
    assert minutes[0] == 0 and minutes == sorted(set(minutes)) and 75 <= minutes[-1] < 90
    assert {section.strip(' "') for _, _, section in rows} - {""} <= headings
    bank = {number for p in EACH for number in [p.values[0][0]]}
    assert set(re.findall(r"\b\d\.\d+\b", re.sub(r"\$.*?\$|`.*?`", "", plan))) <= bank


def test_the_plan_has_eight_sessions():
    assert [name.split(":")[0] for name, _ in plans()] == [f"Session {i}" for i in SESSIONS]
