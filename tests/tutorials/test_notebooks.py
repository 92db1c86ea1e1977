"""The tutorials run from top to bottom, and the notebooks that ship are what their scripts say."""

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


@pytest.mark.parametrize("script", [runs(script) for script in SCRIPTS[::-1]])
def test_a_tutorial_runs_from_top_to_bottom(script):  # the long ones come last, so begin with them
    assert sources_shown(build.run(script)) == sources_shown(shipped(script)), "run: make tutorials"


@each
def test_a_notebook_has_the_cells_of_its_script(script):
    assert build.same_cells(build.cells_of(script), shipped(script)), "run: make tutorials"


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
def test_a_tutorial_ends_with_exercises_whose_answers_are_asserted(script):
    cells = build.cells_of(script).cells
    [start] = [i for i, cell in enumerate(cells) if "## Exercises" in cell.source.splitlines()]
    answers = [cell for cell in cells[start:] if "solution" in cell.metadata.get("tags", [])]
    assert answers and all("assert" in cell.source for cell in answers)
    assert all(cell.metadata["jupyter"]["source_hidden"] for cell in answers)


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
