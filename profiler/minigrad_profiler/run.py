"""Running a script, unchanged, with an event log.

The script sees the same sys.argv, sys.path[0] and module __main__ as under `python script.py args`.
Its exceptions reach the interpreter, which ends as always (traceback, exit code, the signal after
Ctrl-C). Only our own frames are cut from the traceback.
"""

import atexit
import contextlib
import functools
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minigrad.backends.device import DeviceError
from minigrad.backends.sites import outermost
from minigrad.errors import FormatError
from minigrad.instrument.event_log import event_log
from minigrad.instrument.formats import EventReader
from minigrad.instrument.schedule import OptimizerSteps


class CannotOpen(Exception):
    """The script or the log cannot be opened; the message is one line."""


def run_script(
    script: str,
    args: Sequence[str],
    log_path: str,
    module: bool,
    finished: Callable[[str, int, int, bool], Any],
    watch: contextlib.AbstractContextManager | None = None,
    **options: Any,
) -> None:
    """Run a script, or a module by its name, as __main__, and log its events until the end.

    If the program ends with an error, its log does not replace an earlier one: it gets another
    name.

    options are those of mg.event_log; `watch` is entered around the script (the live view).
    finished(path, events, dropped, failed) is called when the log is closed, after the script's
    threads and its own exit handlers. The path is absolute and holds all that could be written. If
    a write failed, `events` counts those that can be read there.
    """
    try:
        program = _module(script) if module else _file(script)
        sys.argv = [program.path, *args]  # before the log begins: its header names the program
        given = {name: value for name, value in options.items() if value is not None}
        log = event_log(os.path.abspath(log_path), **given)
        log.__enter__()
    except OSError as error:
        where = error.filename or log_path  # the error of a write has no filename
        raise CannotOpen(f"{where}: {error.strerror}") from None
    except DeviceError as error:
        raise CannotOpen(str(error)) from None

    crashed = False

    def close(process: int = os.getpid()) -> None:
        if os.getpid() == process:  # not in a forked child
            if crashed and os.path.exists(log.path):
                log.rename(beside(log.path))
            log.close()
            count = _readable(log.place) if log.failed else log.events
            finished(log.place, count, log.dropped, log.failed)

    atexit.register(close)
    if log.schedule is not None:
        OptimizerSteps(log.step)
    _hide_own_frames()
    main = types.ModuleType("__main__")
    main.__dict__.update(program.names, __builtins__=__builtins__)
    sys.modules["__main__"] = main
    sys.path[0] = program.folder
    outermost.add(id(run_script.__code__))
    try:
        with watch or contextlib.nullcontext():
            exec(program.code(), main.__dict__)
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code not in (None, 0):
            crashed = True
        raise


class Program(NamedTuple):
    """A program to run: its code, its name for Python, and the folder that it imports from."""

    code: Callable[[], Any]
    path: str
    folder: str
    names: dict[str, Any]


def _file(script: str) -> Program:
    with open(script, "rb") as file:
        source = file.read()
    path = os.path.abspath(script)
    code = functools.partial(compile, source, path, "exec")
    return Program(code, script, os.path.dirname(path), {"__file__": path, "__cached__": None})


def _module(name: str) -> Program:
    """A module, or the __main__ of a package, as `python -m name` would run it."""
    folder = sys.path[0] = os.getcwd()
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise CannotOpen(f"{name}: {error}") from None
    loader: Any = None if spec is None else spec.loader
    if spec is None or spec.origin is None or not hasattr(loader, "get_code"):
        raise CannotOpen(f"{name}: there is no such module to run, or it is no Python program")
    names = {
        "__file__": spec.origin,
        "__spec__": spec,
        "__package__": spec.parent,
        "__loader__": loader,
    }
    return Program(functools.partial(loader.get_code, spec.name), spec.origin, folder, names)


def beside(path: str) -> str:
    """run.failed.jsonl of run.jsonl."""
    stem, ending = os.path.splitext(path)
    return f"{stem}.failed{ending}"


def import_optional() -> None:
    """Import the modules that some ops import at their first call, which would include the time."""
    for module in ("scipy.special", "scipy.linalg", "scipy.sparse", "opt_einsum", "threadpoolctl"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


def _readable(log: str) -> int:
    """The number of readable events of a log that was cut off; 0 for a pipe or a device."""
    count = 0
    if os.path.isfile(log):
        with contextlib.suppress(OSError, FormatError), EventReader(log, salvage=True) as reader:
            for _ in reader:
                count += 1
    return count


def _hide_own_frames() -> None:
    """Let tracebacks begin in the script, as they would without the profiler."""
    print_traceback = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        script = sys.modules["__main__"].__dict__
        first = trace
        while first is not None and first.tb_frame.f_globals is not script:
            first = first.tb_next
        if first is None and not isinstance(error, SyntaxError):
            first = trace  # it came from the profiler
        print_traceback(kind, error.with_traceback(first), first)

    sys.excepthook = hook
