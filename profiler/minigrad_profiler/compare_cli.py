"""`minigrad-profile compare script.py`: the engines side by side on one backward of a script."""

import argparse
import importlib
import json
import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout, suppress
from typing import Any

from .arguments import a_script, in_a_folder, not_over
from .remarks import wrote

_MOST_WORKERS = 1_024  # each is a thread


def compare(options: argparse.Namespace) -> int:
    """Compare, print and save."""
    from .compare_view import text

    a_script(options.script)
    if options.backward < 1:
        raise ValueError(f"--backward is 1 or more, got {options.backward}")
    if options.repeats < 1:
        raise ValueError(f"--repeats is 1 or more, got {options.repeats}")
    for number, path in enumerate(options.save):
        if not path.endswith((".html", ".svg", ".json")):
            raise ValueError(f"--save {path}: name the file .html, .svg or .json")
        in_a_folder(path)
        not_over(path, options.script, *options.save[:number])
    counts = _counts(options.workers)
    saves = [(path, os.path.abspath(path)) for path in options.save]  # the script may go elsewhere
    printed = redirect_stdout(sys.stderr) if options.json else nullcontext()
    try:
        with printed:  # standard output is for the JSON alone
            found = compare_script(
                options.script, options.args, options.backward, counts, options.repeats
            )
    except Exception:  # from the script: its traceback helps most
        traceback.print_exc()
        return 1
    if found is None:
        raise ValueError(f"{options.script} ended before its backward number {options.backward}")
    if options.json:
        print(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(text(found, max(60, options.width), colour), end="")
    for path, place in saves:
        found.save(place)
        wrote(path)
    return 0


def _counts(given: str | None) -> list[int] | None:
    """The numbers in "1,2,4"."""
    if given is None:
        return None
    parts = given.split(",")
    if not all(part.strip().isdecimal() and 0 < int(part) <= _MOST_WORKERS for part in parts):
        raise ValueError(
            f"--workers is a list such as 1,2,4, each at most {_MOST_WORKERS:,}, got {given!r}"
        )
    return [int(part) for part in parts]


def compare_script(
    script: str,
    args: Sequence[str],
    which: int = 1,
    workers: Sequence[int] | None = None,
    repeats: int = 7,
) -> Any:
    """Run a script up to its `which`-th backward and compare the engines on it; None: too few
    backwards.

    The script ends there. Exceptions that it raises before reach the caller.
    """
    from .compare import compare

    api: Any = importlib.import_module("minigrad.tensor_api.derivatives")
    original, found, count = api.differentiate, [], 0

    def watched(tensors: Any, gradients: Any, *rest: Any, **named: Any) -> Any:
        nonlocal count
        recorded = rest[3] if len(rest) > 3 else named.get("create_graph")
        count += not recorded
        if count == which and not recorded and not found:
            api.differentiate = original
            found.append(compare(tensors, gradients, workers, repeats))
            raise _Enough
        return original(tensors, gradients, *rest, **named)

    api.differentiate = watched  # grad and backward look it up there
    argv, path, streams, folder = sys.argv, list(sys.path), (sys.stdout, sys.stderr), os.getcwd()
    sys.argv, sys.path[0] = [script, *args], os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(script, run_name="__main__")
    except (_Enough, SystemExit):  # a script may exit: `found` says whether it got that far
        pass
    finally:
        api.differentiate = original
        sys.argv, sys.path[:] = argv, path
        sys.stdout, sys.stderr = streams  # our messages are not for the script's file
        with suppress(OSError):
            os.chdir(folder)
    return found[0] if found else None


class _Enough(BaseException):
    """The requested backward has been compared: the script need not go on."""
