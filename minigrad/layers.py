"""Code lines of each layer, and what each may have: python -m minigrad.layers

A code line holds a token that is neither a comment nor a docstring. A layer stands in front of none
before it; `fast` and `courtesy` stand in front of nothing (ARCHITECTURE.md, "Seams"). The files of
the engine are to be read in the order of READING, and each imports only files before it.
(a * b).sum() and its backward enter the walk; MINIGRAD_PLAIN=1 gives that of a reader.
"""

import ast
import io
import sys
import tokenize
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LAYERS = (
    "backends", "engine", "tensor_api", "modes", "custom", "ops", "special", "stats", "func",
    "expressions", "tape", "parallel", "fast", "courtesy", "fusion", "compiled", "on_gpu", "replay",
    "instrument", "nn", "optim", "amp", "data", "io", "distributed", "array_api", "testing",
)  # fmt: skip
READING = (
    "registry", "graph", "errors", "help", "modes", "events", "rule", "plan", "primitive",
    "versions", "backward",
)  # fmt: skip
# Code lines. fast/: 2,100, 330 for pooling's forms, 660 for the norms', 160 for attention's,
# 400 for recurrent networks' in place, 510 for elementwise ops in place, 300 for softmax and losses
# on classes, 220 for reductions', 330 for matrix products' and distances',
# 200 for sums of rows and small products, 20 for reshapes, 240 for sums at an index and weighted
# reads, 160 for shifted images, 100 for windows as columns: these came there from ops/.
BUDGETS = {"engine": 1500, "fast": 5630, "courtesy": 800}
LONGEST = 400  # code lines of a file
BODIES = {("engine/primitive.py", "general"): 30, ("engine/backward.py", "run"): 40}
WALK = 500  # code lines of the bodies that the walk enters
WALK_FILES = 8  # in so many files

_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(source: str) -> set[int]:
    """The numbers of the lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for part in ast.walk(ast.parse(source)):
        if not isinstance(part, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(part) is not None:
            text = part.body[0]
            lines.difference_update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return lines


def lines_of(layer: str) -> dict[str, int]:
    """The code lines of each file of a layer."""
    files = sorted((HERE / layer).rglob("*.py"))
    return {
        str(file.relative_to(HERE / layer)): len(code_lines(file.read_text(encoding="utf-8")))
        for file in files
    }


def lines_of_body(file: str, function: str) -> int:
    """The code lines of a function of a file, its signature among them."""
    source = (HERE / file).read_text(encoding="utf-8")
    found = [
        part
        for part in ast.walk(ast.parse(source))
        if isinstance(part, ast.FunctionDef) and part.name == function
    ]
    (body,) = found
    return len(code_lines(source) & {*range(body.lineno, (body.end_lineno or 0) + 1)})


def walk() -> dict[str, int]:
    """The code lines of the bodies that (a * b).sum() and its backward enter, by file."""
    from . import ones

    a, b = ones(3, 4, requires_grad=True), ones(3, 4, requires_grad=True)
    entered = bodies_entered(lambda: (a * b).sum().backward())
    return {file: len(lines) for file, lines in entered.items() if file != "layers.py"}


def bodies_entered(run: Callable[[], object]) -> dict[str, set[int]]:
    """The lines of the bodies of this package that the second of two calls enters, by file."""
    run()  # what is made once is there
    entered: dict[str, set[int]] = {}

    def enter(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(HERE)):
            body = {line for *_, line in code.co_lines() if line not in (None, code.co_firstlineno)}
            file = str(Path(code.co_filename).relative_to(HERE))
            # of a lambda the only line is the first
            entered[file] = entered.get(file, set()) | (body or {code.co_firstlineno})

    before = sys.getprofile()
    sys.setprofile(enter)
    try:
        run()
    finally:
        sys.setprofile(before)
    return entered


def main() -> None:
    """Print the layers' lines, then those of the engine's files, of its two main bodies, and of the
    walk.
    """
    print(f"{'layer':14}{'files':>6}{'code lines':>12}{'budget':>8}{'longest file':>14}")
    for layer in LAYERS:
        counts = lines_of(layer)
        if counts:  # fast and courtesy may have been deleted
            budget = BUDGETS.get(layer, "")
            total, longest = sum(counts.values()), max(counts.values())
            print(f"{layer:14}{len(counts):6}{total:12,}{budget:>8}{longest:14}")
    print("\nengine/, in reading order")
    counts = lines_of("engine")
    for name in READING:
        print(f"  {f'{name}.py':20}{counts[f'{name}.py']:6}")
    for (file, function), budget in BODIES.items():
        print(f"{file}: {function} {lines_of_body(file, function)} of {budget}")
    entered = walk()
    print(f"\nthe walk: {sum(entered.values())} of {WALK} in {len(entered)} of {WALK_FILES} files")
    for file, count in entered.items():
        print(f"  {file:34}{count:4}")


if __name__ == "__main__":
    from .instrument.terminal import reader_left

    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # | head
        sys.exit(reader_left())
