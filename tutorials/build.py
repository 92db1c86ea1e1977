"""Runs the tutorials: NN_name.py, the source, becomes NN_name.ipynb with what its cells print.

    python tutorials/build.py             every tutorial
    python tutorials/build.py 01 13       these
    python tutorials/build.py --check     only say whether each notebook has its script's cells
    python tutorials/build.py --hand-out FOLDER    the students' copies, not run
    python tutorials/build.py --solutions FOLDER   the teachers' copies: solved, and run

A tutorial is a script in jupytext's percent format, so that it can be read, compared and formatted
like any other code; the notebook beside it is made, never edited. Cells that begin with one of
ROLES make up exercises; README.md says how.
"""

import argparse
import base64
import copy
import io
import os
import platform
import re
import shutil
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from PIL import Image
from traitlets.config import Config

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
SECONDS_A_CELL = 600  # a cell that takes longer hangs
ROLES = ("answer", "check", "wrong", "solution")  # `# %% answer` begins an answer's cell
NEEDED = ("exercises.py", "data", "pictures")  # what notebooks use beside themselves


def scripts() -> list[Path]:
    """The tutorials' sources, in the order in which they are read."""
    return sorted(HERE.glob("[0-9][0-9]_*.py"))


def notebook_of(script: Path) -> Path:
    """Where a tutorial's notebook stands: beside its script."""
    return script.with_suffix(".ipynb")


def cells_of(script: Path) -> nbformat.NotebookNode:
    """All cells that a script says, not yet run; the same for the same text."""
    notebook = jupytext.read(script, fmt="py:percent")
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": dict(KERNEL), "language_info": {"name": "python"}}
    )
    for i, cell in enumerate(notebook.cells):
        cell.id = f"cell-{i:02d}"
        if cell.metadata.get("title") in ROLES:
            cell.metadata = nbformat.from_dict({"tags": [cell.metadata["title"]]})
    notebook.nbformat, notebook.nbformat_minor = 4, 5  # since 4.5 cells have ids
    return notebook


def role(cell: nbformat.NotebookNode) -> str:
    """What a cell is in an exercise: one of ROLES, or nothing."""
    return next((tag for tag in cell.metadata.get("tags", []) if tag in ROLES), "")


def handout(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """What students get: the notebook without trials of its checks."""
    return _with_cells(notebook, notebook.cells[: _first_trial(notebook.cells)])


def with_trials(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The hand-out, then for each exercise its wrong answers and its solution, each checked.

    One run of it shows the hand-out as students find it, and what the checks say of answers.
    """
    shown = [cell for cell in notebook.cells if role(cell) not in ("wrong", "solution")]
    trials, check = [], nbformat.NotebookNode()
    for cell in notebook.cells:
        if role(cell) == "check":
            check = cell
        elif role(cell) in ("wrong", "solution"):
            again = copy.deepcopy(check)
            again.id = f"{cell.id}-check"
            trials += [cell, again]
    return _with_cells(notebook, shown + trials)


def trials(notebook: nbformat.NotebookNode, kind: str) -> list[tuple]:
    """Of a notebook with trials: each answer of a kind ("wrong" or "solution"), and its check."""
    pairs = zip(notebook.cells, notebook.cells[1:])
    return [(cell, check) for cell, check in pairs if role(cell) == kind]


def solved(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """What teachers get of a notebook with trials: each solution in the place of the answer."""
    found = iter([cell for pair in trials(notebook, "solution") for cell in pair])
    shown = notebook.cells[: _first_trial(notebook.cells)]
    cells = [next(found) if role(cell) in ("answer", "check") else cell for cell in shown]
    return _with_cells(notebook, cells)


def _first_trial(cells: list) -> int:
    kinds = [role(cell) for cell in cells]
    return min((kinds.index(kind) for kind in ("wrong", "solution") if kind in kinds),
               default=len(cells))  # fmt: skip


def _with_cells(notebook: nbformat.NotebookNode, cells: list) -> nbformat.NotebookNode:
    """A copy of a notebook that has these cells, counted from 1."""
    made = copy.deepcopy(notebook)
    made.cells = copy.deepcopy(cells)
    run = [cell for cell in made.cells if cell.get("execution_count")]
    for count, cell in enumerate(run, 1):
        for part in (cell, *cell.outputs):
            if "execution_count" in part:
                part.execution_count = count
    return made


def same_cells(a: nbformat.NotebookNode, b: nbformat.NotebookNode) -> bool:
    """Whether two notebooks have the same text and marks; what they printed may differ."""

    def told(notebook: nbformat.NotebookNode) -> list:
        return [(cell.cell_type, cell.source, dict(cell.metadata)) for cell in notebook.cells]

    return told(a) == told(b)


def run(script: Path, seconds_a_cell: int = SECONDS_A_CELL) -> nbformat.NotebookNode:
    """A script's notebook with trials, run in a fresh kernel; raises where a cell does.

    The kernel's folder is tutorials/, so that a notebook finds data/ wherever it was started from.
    """
    notebook = with_trials(cells_of(script))
    paths = [str(ROOT), str(ROOT / "viz"), str(ROOT / "profiler")]
    before = os.environ.get("PYTHONPATH")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths + ([before] if before else [])),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # a debugger's warning
    }
    with tempfile.TemporaryDirectory(prefix="nb") as folder:
        config = Config()
        if os.name == "posix":  # sockets in a folder of ours: kernels side by side share no port
            config.KernelManager.transport = "ipc"
            config.KernelManager.ip = os.path.join(folder, "k")
        client = NotebookClient(
            notebook, timeout=seconds_a_cell, kernel_name=KERNEL["name"], record_timing=False,
            coalesce_streams=True, resources={"metadata": {"path": str(HERE)}}, config=config,
        )  # fmt: skip
        client.execute(env=environment)
    notebook.metadata["language_info"] = {"name": "python"}  # the kernel tells its version here
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [cleaned(output) for output in cell.outputs]
    return notebook


# What differs from machine to machine and says nothing to a reader, and what stands in its place.
_PRIVATE = [
    (re.escape(platform.platform()), platform.system()),
    (re.escape(str(ROOT)) + "/?", ""),
    (re.escape(sys.prefix) + r"/lib/python[\d.]+/site-packages/", ""),
    (re.escape(str(Path(tempfile.gettempdir()) / "ipykernel_")) + r"\d+/", ""),
    (r"\b\d{5,}\.py\b", "cell"),  # the name that a kernel gives to a cell's code
    (re.escape(tempfile.gettempdir()) + r"/tmp\w+", "folder"),
]


def cleaned(output: Any) -> Any:
    """An output, or a part of one, without paths and names of this machine; pictures small."""
    if isinstance(output, str):
        for pattern, instead in _PRIVATE:
            output = re.sub(pattern, instead, output)
        return output
    if isinstance(output, list):
        return [cleaned(part) for part in output]
    if isinstance(output, dict):
        return nbformat.from_dict(
            {k: smaller(v) if k == "image/png" else cleaned(v) for k, v in output.items()}
        )
    return output


def smaller(picture: str) -> str:
    """A PNG (base64) in a palette of 128 colours, if that is smaller: plots lose nothing by it."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    kept = io.BytesIO()
    image.quantize(128).save(kept, "PNG", optimize=True)
    return min(picture, base64.b64encode(kept.getvalue()).decode() + "\n", key=len)


def _chosen(numbers: list[str]) -> list[Path]:
    found = [s for s in scripts() if not numbers or any(s.name.startswith(n) for n in numbers)]
    missing = [n for n in numbers if not any(s.name.startswith(n) for s in found)]
    if missing:
        raise SystemExit(f"there is no tutorial {', '.join(missing)} in {HERE}")
    return found


def _write(target: Path, notebook: nbformat.NotebookNode) -> None:
    """Whole or not at all: a notebook half-written would be lost work to a reader."""
    part = target.with_suffix(".part")
    nbformat.write(notebook, part)
    part.replace(target)


def write_for_class(folder: Path, script: Path, notebook: nbformat.NotebookNode) -> None:
    """Write a notebook into a folder, with all that notebooks use beside themselves."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NEEDED:
        if (HERE / name).is_dir():
            shutil.copytree(HERE / name, folder / name, dirs_exist_ok=True)
        elif (HERE / name).exists():
            shutil.copy(HERE / name, folder)
    _write(folder / notebook_of(script).name, notebook)
    if any(f'"{script.name}"' in cell.source for cell in notebook.cells):  # it runs itself
        jupytext.write(notebook, folder / script.name, fmt="py:percent")


def build(script: Path, options: argparse.Namespace) -> str:
    """Build or check one tutorial; returns what went wrong, or nothing."""
    beside = notebook_of(script)
    if options.check:
        expected = handout(with_trials(cells_of(script)))
        fresh = beside.exists() and same_cells(expected, nbformat.read(beside, 4))
        return "" if fresh else "is not what its script says: run make tutorials"
    try:
        if options.hand_out:
            write_for_class(options.hand_out, script, handout(with_trials(cells_of(script))))
        elif options.solutions:
            write_for_class(options.solutions, script, solved(run(script)))
        else:
            _write(beside, handout(run(script)))
    except CellExecutionError as error:
        return re.sub(r"\x1b\[[\d;]*m", "", str(error))  # without colours
    return ""


def main(argv: list[str] | None = None) -> int:
    """Build or check the tutorials named; the exit code is 1 where one fails."""
    usage = argparse.ArgumentParser(description="Run the tutorials and write their notebooks.")
    usage.add_argument("numbers", nargs="*", help="01 13 ...: only these (default: all)")
    usage.add_argument("--check", action="store_true", help="compare the cells, run nothing")
    usage.add_argument("--hand-out", type=Path, metavar="FOLDER", help="write students' copies")
    usage.add_argument("--solutions", type=Path, metavar="FOLDER", help="write teachers' copies")
    options = usage.parse_args(argv)
    failed = False
    for script in _chosen([name.removesuffix(".py") for name in options.numbers]):
        start = perf_counter()
        trouble = build(script, options)
        failed = failed or bool(trouble)
        print(f"{script.stem:32s} {perf_counter() - start:6.1f} s  {trouble or 'done'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
