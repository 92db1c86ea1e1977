"""Runs the tutorials: NN_name.py, the source, becomes NN_name.ipynb with what its cells print.

    python tutorials/build.py             every tutorial
    python tutorials/build.py 01 13       these
    python tutorials/build.py --check     only say whether each notebook has its script's cells

A tutorial is a script in jupytext's percent format, so that it can be read, compared and formatted
like any other code; the notebook beside it is made, never edited.
"""

import argparse
import base64
import io
import os
import platform
import re
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


def scripts() -> list[Path]:
    """The tutorials' sources, in the order in which they are read."""
    return sorted(HERE.glob("[0-9][0-9]_*.py"))


def notebook_of(script: Path) -> Path:
    """Where a tutorial's notebook stands: beside its script."""
    return script.with_suffix(".ipynb")


def cells_of(script: Path) -> nbformat.NotebookNode:
    """The notebook that a script says, not yet run; the same for the same text."""
    notebook = jupytext.read(script, fmt="py:percent")
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": dict(KERNEL), "language_info": {"name": "python"}}
    )
    for i, cell in enumerate(notebook.cells):
        cell.id = f"cell-{i:02d}"
    notebook.nbformat, notebook.nbformat_minor = 4, 5  # since 4.5 cells have ids
    return notebook


def same_cells(a: nbformat.NotebookNode, b: nbformat.NotebookNode) -> bool:
    """Whether two notebooks have the same text and marks; what they printed may differ."""

    def told(notebook: nbformat.NotebookNode) -> list:
        return [(cell.cell_type, cell.source, dict(cell.metadata)) for cell in notebook.cells]

    return told(a) == told(b)


def run(script: Path, seconds_a_cell: int = SECONDS_A_CELL) -> nbformat.NotebookNode:
    """The notebook of a script, run from top to bottom in a fresh kernel; raises where a cell does.

    The kernel's folder is tutorials/, so that a notebook finds data/ wherever it was started from.
    """
    notebook = cells_of(script)
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


def _write(script: Path, notebook: nbformat.NotebookNode) -> None:
    """Whole or not at all: a notebook half-written would be lost work to a reader."""
    target = notebook_of(script)
    part = target.with_suffix(".part")
    nbformat.write(notebook, part)
    part.replace(target)


def main(argv: list[str] | None = None) -> int:
    """Build or check the tutorials named; the exit code is 1 where one fails."""
    usage = argparse.ArgumentParser(description="Run the tutorials and write their notebooks.")
    usage.add_argument("numbers", nargs="*", help="01 13 ...: only these (default: all)")
    usage.add_argument("--check", action="store_true", help="compare the cells, run nothing")
    options = usage.parse_args(argv)
    failed = False
    for script in _chosen([name.removesuffix(".py") for name in options.numbers]):
        start, trouble = perf_counter(), ""
        if options.check:
            target = notebook_of(script)
            if not target.exists() or not same_cells(cells_of(script), nbformat.read(target, 4)):
                trouble = "is not what its script says: run make tutorials"
        else:
            try:
                _write(script, run(script))
            except CellExecutionError as error:
                trouble = re.sub(r"\x1b\[[\d;]*m", "", str(error))  # without colours
        failed = failed or bool(trouble)
        print(f"{script.stem:32s} {perf_counter() - start:6.1f} s  {trouble or 'done'}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
