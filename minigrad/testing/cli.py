"""minigrad-gradcheck: every check on every op, with a matrix at the end.

Exit code 0: all passed. 1: something failed. 2: wrong usage, or a process was killed. 130:
interrupted, after a report of the finished checks.
"""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from difflib import get_close_matches
from multiprocessing import active_children, get_context
from pathlib import Path
from time import perf_counter
from typing import Any

from ..backends import blas
from ..backends.pool import get_num_threads, set_num_threads
from ..data.workers import ctrl_c_held_back, end_with_parent, hear_of_deaths
from ..instrument.table import cells
from ..instrument.terminal import (
    columns,
    count,
    folded,
    reader_left,
    require_stderr,
    require_stdout,
)
from ..version import __version__
from .case import Context
from .checks import CHECKS, Check
from .progress import progress
from .report import Report, failures_of_ops, matrix, write
from .run import Outcome, check_ops, op_names
from .spec import specs

_MANY = 40  # from so many ops on, starting other processes pays


def parser() -> argparse.ArgumentParser:
    usage = argparse.ArgumentParser(
        prog="minigrad-gradcheck",
        description="Check the derivative rules of every op against finite differences, NumPy, "
        "mpmath and each other. With the name of a program, minigrad-gradcheck FILE.py, run it "
        "and check the rules of the ops in its backwards, and of the ops that it defines.",
    )
    usage.add_argument("--version", action="version", version=f"minigrad-gradcheck {__version__}")
    usage.add_argument("--ops", help="names, separated by commas (default: every op)")
    usage.add_argument("--checks", help="ids, separated by commas, e.g. K2,K10 (default: all)")
    usage.add_argument(
        "--level",
        choices=("fast", "full"),
        default="fast",
        help="full: more samples and directions (default: fast)",
    )
    usage.add_argument("--seed", type=count, default=0, help="of samples and directions")
    usage.add_argument("--report", metavar="PATH", help="write .md (a matrix) or .json (lines)")
    usage.add_argument("--import", dest="modules", action="append", default=[], metavar="MODULE",
                       help="a module that registers your ops; may be repeated")  # fmt: skip
    usage.add_argument(
        "-j", "--jobs", type=count, help="processes (default: one a core for many ops, else one)"
    )
    usage.add_argument("--list", action="store_true", help="list ops and checks, check nothing")
    usage.add_argument(
        "--programs",
        type=count,
        metavar="N",
        help="instead of checking ops, draw N random programs (--seed selects them). Run each "
        "in every engine, mode, nesting of transforms, replay and compiled form, and compare. "
        "Shrink programs that disagree to a few lines",
    )
    usage.add_argument(
        "--variants",
        action="store_true",
        help="compare each variant of each op, including those of mg.accelerate, with the "
        "op's own form (K34), and print a table",
    )
    usage.add_argument(
        "--self-test",
        action="store_true",
        help="plant wrong rules and count those caught; with "
        "--level full also mutate every op's own rules",
    )
    return usage


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    require_stderr()
    usage = parser()
    try:
        options, rest = usage.parse_known_args(argv)
        if len(rest) == 1 and rest[0].endswith(".py"):
            return _check_file(rest[0])
        if rest:
            bare = not any(name.startswith("-") for name in rest)
            meant = f"; ops are named by --ops {','.join(rest)}" if bare else ""
            usage.error(f"unrecognized arguments: {' '.join(rest)}{meant}")
    except SystemExit as stop:
        return 2 if stop.code else 0
    try:
        require_stdout()
        if options.programs is not None:
            code = _programs(options)
        elif options.variants:
            code = _variants(options)
        else:
            code = _self_test(options) if options.self_test else _run(options)
        sys.stdout.flush()
        return code
    except _UsageError as error:
        print(f"minigrad-gradcheck: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return reader_left()
    except OSError as error:
        where = error.filename or "standard output"
        print(f"minigrad-gradcheck: {where}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("minigrad-gradcheck: interrupted", file=sys.stderr)
        return 130


class _UsageError(Exception):
    pass


def _check_file(path: str) -> int:
    from .of_file import check_file

    if not os.path.isfile(path):
        print(f"minigrad-gradcheck: {path}: there is no such file", file=sys.stderr)
        return 2
    return check_file(path)


def _self_test(options: argparse.Namespace) -> int:
    from .selftest import run_self_test

    return run_self_test(options.seed, options.level)


def _programs(options: argparse.Namespace) -> int:
    if options.programs < 1:
        raise _UsageError("--programs 0: should be a number of programs, 1 or more")
    from .programs.run import check_part, parts, print_tallies

    tasks = parts(options.programs, options.seed)
    tallies = _spread(options.jobs or 1, options.modules, check_part, tasks)
    return print_tallies(tallies, options.seed)


def _variants(options: argparse.Namespace) -> int:
    _import(options.modules)
    names = [name for name in _chosen(options.ops, op_names(), "op") if name in specs]
    from .parity import parities_of, print_parities, with_variants

    if options.ops is not None:
        names = with_variants(names)
    start = perf_counter()
    tasks = [(name, options.level, options.seed) for name in names]
    found = [
        *progress(
            _spread(options.jobs or 1, options.modules, parities_of, tasks), len(names), "variants"
        )
    ]
    return print_parities(found, perf_counter() - start)


def _run(options: argparse.Namespace) -> int:
    _import(options.modules)
    names = _chosen(options.ops, op_names(), "op")
    checks = [c for c in CHECKS if c.id in _chosen(options.checks, [c.id for c in CHECKS], "check")]
    if options.list:
        _list(names, checks)
        return 0
    if options.report and not Path(options.report).absolute().parent.is_dir():
        raise _UsageError(f"--report: there is no folder {Path(options.report).parent}")
    if options.report and Path(options.report).is_dir():
        raise _UsageError(f"--report {options.report}: is a folder")
    report = Report(options.level, options.seed)
    start = perf_counter()
    try:
        for outcomes, context in progress(
            _checked(options, names, checks), len(names), "gradcheck"
        ):
            report.outcomes += outcomes
            report.notes |= context.notes
            for text in failures_of_ops(outcomes):
                print(folded(text), flush=True)
    except KeyboardInterrupt:
        report.cut_off_from = len(names)
    report.seconds = perf_counter() - start
    _print_result(report)
    if report.cut_off_from is not None:
        unwritten = "; no report was written" if options.report else ""
        print(f"minigrad-gradcheck: interrupted{unwritten}", file=sys.stderr)
        return 130
    if options.report:
        write(report, options.report)
        print(f"wrote {options.report}")
    return 1 if report.failed or not report.outcomes else 0


def _import(modules: Sequence[str]) -> None:
    sys.path.insert(0, "")  # as python -m does: modules in the current folder are found
    for module in modules:
        if not module or module.startswith("."):
            raise _UsageError(f"--import {module!r}: should be a module's name, such as ops or a.b")
        try:
            importlib.import_module(module)
        except ImportError as error:
            name = module.removesuffix(".py")
            meant = f"; the module of that file is {name}" if name != module else ""
            raise _UsageError(f"--import {module}: {error}{meant}") from error


def _chosen(given: str | None, known: Sequence[str], what: str) -> list[str]:
    if given is None:
        return list(known)
    names = list(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        near = [name for bad in unknown for name in get_close_matches(bad, known, 1)]
        meant = f"; is {', '.join(near)} meant?" if near else ""
        raise _UsageError(f"there is no {what} {', '.join(unknown) or given!r}{meant}; see --list")
    return names


def _list(names: Sequence[str], checks: Sequence[Check]) -> None:
    for check in checks:
        print(f"{check.id:4} {check.title}")
    for name in names:
        print(name if name in specs else f"{name} (no samples)")


def _checked(
    options: argparse.Namespace, names: Sequence[str], checks: Sequence[Check]
) -> Iterator[tuple[list[Outcome], Context]]:
    """Each op's outcomes, in order."""
    ids = [check.id for check in checks]
    tasks = [(name, ids, options.level, options.seed) for name in names]
    jobs = options.jobs or (1 if len(names) < _MANY else min(os.cpu_count() or 1, 8))
    yield from _spread(jobs, options.modules, check_one_op, tasks)


def _spread(
    jobs: int, modules: Sequence[str], check: Callable[[tuple], Any], tasks: Sequence[tuple]
) -> Iterator[Any]:
    """check(task) of each, in order, by this process or by several."""
    if jobs == 1:
        yield from map(check, tasks)
        return
    others = active_children()
    pool = ProcessPoolExecutor(
        jobs, get_context("spawn"), initializer=_prepare, initargs=(modules, jobs)
    )
    try:
        with _unheard(signal.SIGINT):
            results = [pool.submit(check, task) for task in tasks]  # starts the processes
            hear_of_deaths(pool)
        yield from map(_received, tasks, results)
    except BaseException:  # their checks can take minutes, and their results are lost
        # Do not cancel them: in CPython 3.11 that makes the pool's thread fail when it reports
        # them as lost.
        for process in {*active_children()}.difference(others):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True)


def _received(task: tuple, result: Future) -> Any:
    """The results of a process for one op, or for some programs."""
    try:
        return result.result()
    except BrokenExecutor:
        raise _UsageError(
            f"a process has ended before the checks of {task[0]} and later ones "
            "(killed, perhaps for its memory); -j 1 makes the checks in this process"
        ) from None


@contextmanager
def _unheard(signum: signal.Signals) -> Iterator[None]:
    """Hold Ctrl-C back; processes started inside never receive it.

    The mask covers only this thread. If the system gives the signal to another, such as one of
    BLAS's, Python raises it here, in the middle of starting a process.
    """
    with ctrl_c_held_back():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signum])
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare(modules: Sequence[str], jobs: int) -> None:
    """A new process, one of `jobs`, knows the same ops and takes its share of the processors. Large
    products on all processors in each process would wait for one another. Two threads remain in any
    case: then the shared paths of threads run too."""
    end_with_parent()
    share = max(1, (os.cpu_count() or 1) // jobs)
    blas.limit(share)
    set_num_threads(min(get_num_threads(), max(2, share)))
    _import(modules)
    op_names()


def check_one_op(task: tuple[str, list[str], str, int]) -> tuple[list[Outcome], Context]:
    """All chosen checks of one op. At module level, since another process receives it."""
    name, ids, level, seed = task
    context = Context(level, seed)
    outcomes = list(check_ops([name], context, [check for check in CHECKS if check.id in ids]))
    context.cache.clear()  # the caller does not need the samples
    return outcomes, context


def _print_result(report: Report) -> None:
    """The matrix, the skips and the last line, on stdout."""
    if report.outcomes:
        _print_matrix(report)
    for (check, reason), times in sorted(report.skips.items()):
        print(folded(f"skipped {check} ×{times}: {reason}"))
    print(report.summary(), flush=True)


def _print_matrix(report: Report) -> None:
    rows = matrix(report.outcomes)
    widths = [max(cells(row[i]) for row in rows) for i in range(len(rows[0]))]
    if sum(widths) + len(widths) - 1 > columns():
        _print_narrow(rows, widths)
        return
    for row in rows:
        first, *rest = row
        signs = [cell.rjust(width) for cell, width in zip(rest, widths[1:])]
        print(" ".join([_padded(first, widths[0]), *signs]).rstrip())


def _print_narrow(rows: list[list[str]], widths: list[int]) -> None:
    """The matrix with a column for each check, under its number, read downwards."""
    first, *checks, last = rows[0]
    tens, units = (
        "".join(part) for part in zip(*[f"{c.lstrip('K'):>2}" for c in checks], strict=True)
    )
    print(f"{first:{widths[0]}} {tens} {last}\n{'K':>{widths[0]}} {units}")
    for name, *signs, comparisons in rows[1:]:
        print(f"{_padded(name, widths[0])} {''.join(signs)} {comparisons:>{widths[-1]}}")


def _padded(name: str, width: int) -> str:
    return name + " " * (width - cells(name))


if __name__ == "__main__":
    sys.exit(main())
