"""Runs the commands that pages show and writes what they print: python docs/make_figures.py [page]

A page shows a command as an indented line `$ command`, with its output below. This writes the whole
outputs of a page to docs/outputs/PAGE.txt, and into the page the lines of them that it shows. "…"
stands for lines left out; the part below it begins again at a line that begins alike. Commands run
in order in one folder, which holds the programs of the pages. tests/test_figures.py compares pages
with outputs. `make figures` runs this, and makes the pictures anew.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PAGES = ["first-five-minutes", "profiling"]
SHOWN = re.compile(r"(?m)^    \$ .*\n(?:    .*\n)*")  # a block: a command, its output, the next one


def programs() -> dict[str, str]:
    """The programs that pages run. Those of the first lesson stand on its page."""
    page = (DOCS / "first-five-minutes.md").read_text(encoding="utf-8")
    first, forward = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    second = re.sub(r"    def forward.*?\n\n", lambda _: forward + "\n", first, flags=re.DOTALL)
    slow = (ROOT / "tutorials" / "slow.py").read_text(encoding="utf-8")
    return {"first.py": first, "second.py": second, "slow.py": slow}


def environment() -> dict[str, str]:
    """As a user's shell after `pip install`, with one thread of BLAS and 80 columns."""
    paths = [str(ROOT / folder) for folder in (".", "viz", "profiler")]
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MINIGRAD")}
    return kept | {
        "PYTHONPATH": os.pathsep.join(paths),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "OPENBLAS_NUM_THREADS": "1",
        "COLUMNS": "80",
        "PYTHONUNBUFFERED": "1",  # what a program prints comes before the table, as in a terminal
    }


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Each command of a page or of a file of outputs, with the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def shown(page: str) -> list[tuple[str, list[str]]]:
    """Each command that a page shows, with the lines that it shows of the output."""
    return [
        pair
        for block in SHOWN.findall(page)
        for pair in commands("\n".join(line[4:] for line in block.splitlines()))
    ]


def label(line: str) -> str:
    """How a line begins, up to its first figure or gap: what is the same in each run."""
    return re.split(r"\d|  ", line.strip())[0]


def excerpt(lines: list[str], output: list[str]) -> list[str]:
    """The lines of an output that take the place of those shown."""
    parts: list[list[str]] = [[]]
    for line in lines:
        if line.strip() == "…":
            parts.append([])
        else:
            parts[-1].append(line)
    if len(parts) == 1:
        return output
    new = output[: len(parts[0])]
    for part in parts[1:]:
        new.append("…")
        begins = label(part[0]) if part else ""
        starts = [i for i, line in enumerate(output) if line.strip().startswith(begins)]
        if part and not starts:
            sys.exit(f"no line of the output begins with {begins!r}")
        new += output[starts[0] : starts[0] + len(part)] if part else []
    return new


def main() -> None:
    (DOCS / "outputs").mkdir(exist_ok=True)
    for name in sys.argv[1:] or PAGES:
        path = DOCS / f"{name}.md"
        page, written = path.read_text(encoding="utf-8"), []
        folder = Path(tempfile.mkdtemp())
        for file, text in programs().items():
            (folder / file).write_text(text, encoding="utf-8")

        def rerun(block: re.Match, folder: Path = folder, written: list = written) -> str:
            new = []
            for command, lines in shown(block[0]):
                print("$", command, flush=True)
                done = subprocess.run(
                    command, shell=True, cwd=folder, env=environment(), text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                )  # fmt: skip
                output = [line.rstrip() for line in done.stdout.splitlines() if line.strip()]
                written.extend([f"$ {command}", *output])
                new += [f"$ {command}", *excerpt(lines, output)] if lines else [f"$ {command}"]
            return "".join(f"    {line}".rstrip() + "\n" for line in new)

        page = SHOWN.sub(rerun, page)
        (DOCS / "outputs" / f"{name}.txt").write_text("\n".join(written) + "\n", encoding="utf-8")
        path.write_text(page, encoding="utf-8")
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
