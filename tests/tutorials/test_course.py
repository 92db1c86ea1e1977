"""The course pack: each answer of the question bank is what the engine says, and the plan
names sections that the notebooks have."""

import ast
import doctest
import re
import subprocess
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad import func, testing
from minigrad.engine.registry import op
from tutorials.course import build

COURSE = build.HERE
KINDS = {"By hand", "What would the engine do?", "Find the bug"}
SESSIONS = build.SESSIONS
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


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The folder that the command writes."""
    folder = tmp_path_factory.mktemp("course")
    command = [sys.executable, str(COURSE / "build.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_each_page_is_one_file_without_network_and_its_links_lead_to_pages(pages):
    names = {path.name for path in pages.iterdir()}
    kinds = ("slides", "questions", "answers", "step")
    assert names == {"index.html", "plan.html"} | {f"{n}-{k}.html" for n in SESSIONS for k in kinds}
    for name in names - {f"{n}-step.html" for n in SESSIONS}:
        text = (pages / name).read_text(encoding="utf-8")
        assert not re.search(r'src="(?!data:)', text)
        assert {link.partition("#")[0] for link in re.findall(r'href="([^"]*)"', text)} <= names


@pytest.mark.parametrize("session", SESSIONS)
def test_a_session_has_six_to_twelve_slides_each_with_a_note(session, pages):
    text = (pages / f"{session}-slides.html").read_text(encoding="utf-8")
    notes = re.findall(r"(?s)<aside>(.*?)</aside>", text)
    assert 6 <= len(notes) == text.count("<section>") <= 12 and all(note.strip() for note in notes)
    assert "data:image/" in text and ".ipynb " not in re.sub("<code>.*?</code>", "", text)


@pytest.mark.parametrize("session", SESSIONS)
def test_the_students_page_has_each_question_and_no_answer(session, pages):
    text = (pages / f"{session}-questions.html").read_text(encoding="utf-8")
    assert text.count("<h3>") == len(questions(session))
    assert "Answer" not in text and "&gt;&gt;&gt;" not in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_slide_fits_on_a_projector(scheme, pages, browser):
    page = browser.new_page(viewport={"width": 1280, "height": 720}, color_scheme=scheme)
    for session in SESSIONS:
        page.goto((pages / f"{session}-slides.html").as_uri())
        hidden = """part => [...document.querySelectorAll(part)].filter(
            box => box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1
        ).map(box => box.textContent)"""
        assert page.evaluate(hidden, "section") == page.evaluate(hidden, "pre") == []
    page.close()


def test_slides_scroll_on_a_phone_and_turn_by_keys(pages, browser):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((pages / "1-slides.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.set_viewport_size({"width": 1280, "height": 720})
    page.keyboard.press("ArrowRight")
    assert page.evaluate("scrollY") == 720
    assert not page.is_visible("aside >> nth=0")
    page.keyboard.press("n")
    assert page.is_visible("aside >> nth=0")
    page.close()


def test_a_quotation_that_no_cell_has_is_an_error():
    with pytest.raises(SystemExit, match="0 cells have 'nowhere'"):
        build.quote("code", "01_scalar_engine.ipynb", "nowhere")
    with pytest.raises(SystemExit, match="shows no picture"):
        build.quote("a picture", "01_scalar_engine.ipynb", "class Value:")
