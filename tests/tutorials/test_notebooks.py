"""The tutorials run from top to bottom, and the notebooks that ship are what their scripts say."""

import ast
import base64
import io
import platform
import re
import tempfile
from pathlib import Path

import nbformat
import numpy as np
import pytest
from PIL import Image

from tutorials import build

pytestmark = pytest.mark.promise("every tutorial runs, and its notebook is made from its script")

SCRIPTS = build.scripts()
each = pytest.mark.parametrize("script", SCRIPTS, ids=[script.stem for script in SCRIPTS])
LARGEST_PICTURE = 60 * 1024
LARGEST_NOTEBOOK = 1024 * 1024


def shipped(script):
    return nbformat.read(build.notebook_of(script), 4)


def outputs(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def checks(notebook):
    return [cell for cell in notebook.cells if build.role(cell) == "check"]


def sources_shown(notebook):
    """What cells print that open the source; blanks, numbers and units of time left out."""
    shown = [cell for cell in code(notebook) if "inspect.get" in cell.source]
    printed = ["".join(o.get("text", "") for o in cell.outputs) for cell in shown]
    return [re.sub(r"[\d.,\s]+(?:[nmµ]?s\b)?", " ", text) for text in printed]


OF_FAST = ("02_tensors_and_broadcasting", "03_graphs")  # a call's source, sums made in place


def runs(script):
    return pytest.param(
        script, id=script.stem, marks=pytest.mark.layer("fast") if script.stem in OF_FAST else ()
    )


def verdicts(cells):
    """What checks printed, without the number of the exercise."""
    printed = [output["text"] for cell in cells for output in cell.outputs if "text" in output]
    return [re.sub(r"^Exercise \d+: ", "", text).rstrip() for text in printed]


@pytest.mark.parametrize("script", [runs(script) for script in SCRIPTS[::-1]])
def test_a_tutorial_runs_and_its_checks_tell_right_answers_from_wrong_ones(
    script, tmp_path, monkeypatch
):
    ran = build.run(script)  # one run for all: it takes long; the longest scripts begin
    students, teachers = build.handout(ran), build.solved(ran)
    assert sources_shown(students) == sources_shown(shipped(script)), "run: make tutorials"
    assert set(verdicts(checks(students))) <= {"not answered yet."}
    assert set(verdicts(checks(teachers))) <= {"right."}
    assert len(verdicts(checks(students))) == len(verdicts(checks(teachers)))
    for answer, check in build.trials(ran, "wrong"):
        [verdict] = verdicts([check])
        assert re.match(r"not right yet\. \S", verdict), f"no hint for\n{answer.source}\n{verdict}"
        assert "The check raises" not in verdict, f"no hint for\n{answer.source}\n{verdict}"
    monkeypatch.setattr(build, "run", lambda script: ran)  # the command writes this run, no second
    assert build.main(["--solutions", str(tmp_path), script.stem]) == 0
    written = nbformat.read(tmp_path / build.notebook_of(script).name, 4)
    nbformat.validate(written)
    solutions = [answer.source for answer, check in build.trials(ran, "solution")]
    assert [cell.source for cell in written.cells if build.role(cell) == "solution"] == solutions
    assert not [cell for cell in written.cells if build.role(cell) in ("answer", "wrong")]
    assert set(verdicts(checks(written))) == {"right."}
    assert all((tmp_path / name).exists() for name in build.NEEDED)


@pytest.fixture(scope="module")
def hand_outs(tmp_path_factory):
    """The students' copies of all tutorials, as `make tutorials-handout` writes them."""
    folder = tmp_path_factory.mktemp("hand-out")
    assert build.main(["--hand-out", str(folder)]) == 0
    return folder


def is_open(statement):
    """Whether a statement of an answer's cell leaves the answer to the student."""
    if isinstance(statement, ast.Assign):
        return isinstance(statement.value, ast.Constant) and statement.value.value is ...
    if not isinstance(statement, ast.FunctionDef):
        return False
    values = [getattr(line, "value", None) for line in statement.body]
    return all(isinstance(value, ast.Constant) for value in values)  # dots, or words that explain


@each
def test_a_students_copy_has_empty_answers_and_no_solution(script, hand_outs):
    notebook = nbformat.read(hand_outs / build.notebook_of(script).name, 4)
    nbformat.validate(notebook)
    assert not outputs(notebook) and all((hand_outs / name).exists() for name in build.NEEDED)
    own = build.cells_of(script).cells
    answers = [cell for cell in notebook.cells if build.role(cell) == "answer"]
    assert len(answers) == len([cell for cell in own if build.role(cell) == "answer"]) >= 3
    for cell in answers:
        assert all(map(is_open, ast.parse(cell.source).body)), cell.source
    hidden = [cell.source for cell in own if build.role(cell) in ("wrong", "solution")]
    shown = [cell.source for cell in notebook.cells]
    if (hand_outs / script.name).exists():  # a tutorial that runs itself has its script beside it
        shown.append((hand_outs / script.name).read_text(encoding="utf-8"))
    assert not [source for source in hidden for text in shown if source in text]


@each
def test_a_notebook_has_the_cells_of_its_script(script):
    students = build.handout(build.with_trials(build.cells_of(script)))
    assert build.same_cells(students, shipped(script)), "run: make tutorials"


@each
def test_a_notebook_was_run_whole_and_in_order(script):
    notebook = shipped(script)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in code(notebook)]
    assert counts == list(range(1, len(counts) + 1))
    assert not [output for output in outputs(notebook) if output.output_type == "error"]


@each
def test_a_tutorial_prints_versions_shows_a_picture_and_opens_the_source(script):
    notebook = shipped(script)
    assert "mg.show_versions()" in code(notebook)[0].source
    assert any("inspect.getsource" in cell.source for cell in code(notebook))
    kinds = {kind for output in outputs(notebook) for kind in output.get("data", {})}
    assert kinds & {"image/png", "image/svg+xml"}


@each
def test_a_tutorial_ends_with_exercises_that_have_an_answer_cell_a_check_and_a_solution(script):
    cells = build.cells_of(script).cells
    [start] = [i for i, cell in enumerate(cells) if "## Exercises" in cell.source.splitlines()]
    text = "\n".join(cell.source for cell in cells[start:])
    asked = [int(number) for number in re.findall(r"^### Exercise (\d+)$", text, re.M)]
    assert asked == list(range(1, len(asked) + 1)) and len(asked) >= 3
    assert asked == [int(number) for number in re.findall(r"^@exercise\((\d+)\)$", text, re.M)]
    roles = "".join(f"{build.role(cell)} " for cell in cells if build.role(cell))
    one = "answer check (wrong )+solution "
    assert re.fullmatch(f"({one}){{{len(asked)}}}", roles)


@each
def test_a_notebook_is_small_and_names_nothing_of_the_machine_that_made_it(script):
    text = build.notebook_of(script).read_text(encoding="utf-8")
    assert len(text) < LARGEST_NOTEBOOK
    for word in (tempfile.gettempdir() + "/", str(Path.home()) + "/", str(build.ROOT) + "/"):
        assert word not in text
    assert platform.platform() not in text
    for output in outputs(shipped(script)):
        picture = output.get("data", {}).get("image/png", "")
        assert len(base64.b64decode(picture)) <= LARGEST_PICTURE


def test_cleaning_replaces_paths():
    path = f"{build.ROOT}/minigrad/engine/graph.py:3"
    assert build.cleaned(path) == "minigrad/engine/graph.py:3"
    cell = f"{tempfile.gettempdir()}/ipykernel_123/4567890.py:1: Warning"
    assert build.cleaned(cell) == "cell:1: Warning"
    output = {"data": {"text/plain": [path]}, "metadata": {}}
    assert build.cleaned(output)["data"] == {"text/plain": ["minigrad/engine/graph.py:3"]}


def test_pictures_become_smaller_and_stay_the_same_to_the_eye():
    grey = np.add.outer(np.arange(200), np.arange(300)).astype(np.uint8) // 4 * 4
    large = io.BytesIO()
    Image.fromarray(grey).convert("RGBA").save(large, "PNG", compress_level=0)
    output = {"data": {"image/png": base64.b64encode(large.getvalue()).decode()}}
    small = base64.b64decode(build.cleaned(output)["data"]["image/png"])
    assert len(small) < len(large.getvalue()) / 10
    shown = np.asarray(Image.open(io.BytesIO(small)).convert("L")).astype(int)
    assert abs(shown - grey).max() <= 4


def test_a_cell_that_raises_is_an_error_and_leaves_the_old_notebook(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "HERE", tmp_path)
    (tmp_path / "00_broken.py").write_text("# %%\n1 / 0\n")
    (tmp_path / "00_broken.ipynb").write_text("old")
    assert build.main(["00"]) == 1
    assert (tmp_path / "00_broken.ipynb").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00_broken.ipynb", "00_broken.py"]


def test_check_tells_a_notebook_that_is_older_than_its_script(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build, "HERE", tmp_path)
    script = tmp_path / "00_small.py"
    script.write_text("# %%\n1 + 1\n")
    assert build.main(["00"]) == 0
    assert build.main(["--check"]) == 0
    script.write_text("# %%\n1 + 2\n")
    assert build.main(["--check"]) == 1
    assert "run make tutorials" in capsys.readouterr().out


EXERCISE = """# %% answer
twice = ...

# %% check
from exercises import exercise

@exercise(1)
def check(twice):
    assert twice(2) == 4, "Multiply."

# %% wrong
twice = lambda x: x * x * x

# %% solution
twice = lambda x: x * 2
"""


def sources(notebook):
    return [cell.source for cell in notebook.cells]


def test_a_hand_out_has_the_answer_cell_and_the_teachers_copy_the_solution(tmp_path, monkeypatch):
    (tmp_path / "exercises.py").write_text((build.HERE / "exercises.py").read_text())
    monkeypatch.setattr(build, "HERE", tmp_path)
    (tmp_path / "00_small.py").write_text(EXERCISE)
    assert build.main(["--hand-out", str(tmp_path / "students")]) == 0
    assert build.main(["--solutions", str(tmp_path / "teachers")]) == 0
    students, teachers = (
        nbformat.read(tmp_path / who / "00_small.ipynb", 4) for who in ("students", "teachers")
    )
    assert sources(students)[0] == "twice = ..." and not outputs(students)
    assert sources(teachers)[0] == "twice = lambda x: x * 2"
    assert sources(teachers)[1] == sources(students)[1]
    assert [cell.execution_count for cell in code(teachers)] == [1, 2]
    assert verdicts(code(teachers)) == ["right."]
    assert (tmp_path / "students" / "exercises.py").exists()
