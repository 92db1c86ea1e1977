"""The command `minigrad-profile`.

Exit codes: 0 done; 1 `diff --fail-over` found a row that became slower; 2 nothing done, one line on
stderr says why; 130 interrupted. `run` leaves the script's own exit code, exceptions and signals as
they are.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import minigrad as mg
from minigrad.errors import FormatError
from minigrad.instrument.formats import write_whole
from minigrad.instrument.outputs import writer
from minigrad.instrument.table import counted, show
from minigrad.instrument.terminal import reader_left, require_stderr, require_stdout

from . import __version__, compare_cli, memory, parsers, report_cli, roofline
from .arguments import a_script, in_a_folder, not_over, read_again
from .diff import ENOUGH, difference
from .live import NoTerminal, live, require_rich
from .merge import merged
from .parsers import WRITERS
from .remarks import cut_off, remark, wrote
from .run import CannotOpen, import_optional, run_script
from .runs import logs_of_runs
from .view import summary

_EXAMPLES = """examples (LOG is minigrad-profile.jsonl, which `run` writes):
  minigrad-profile run train.py --epochs 1   record into LOG
  minigrad-profile run --html report.html train.py
                                             all in one page for a browser
  minigrad-profile advice LOG                the findings, each with its line
  minigrad-profile view LOG --by line        where the time goes
  minigrad-profile run --memory train.py; minigrad-profile memory LOG
                                             where the bytes go
  minigrad-profile roofline LOG --svg roofline.svg
  minigrad-profile diff --runs 5 --fail-over 10% before.py after.py
  minigrad-profile compare --save compare.html train.py
                                             serial, parallel and tape
  minigrad-profile export LOG --chrome trace.json
                                             for https://ui.perfetto.dev
  minigrad-profile export LOG --speedscope run.speedscope.json
                                             for https://www.speedscope.app
"""


def _write(name: str, log: str, out: str) -> str | None:
    """Convert a log; if it was cut off, return where."""
    write: Any = memory.write_bytes if name == "bytes" else writer(name)
    return write(log, out)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (default: those of the process) and return the exit
    code."""
    require_stderr()
    first = next(iter(sys.argv[1:] if argv is None else argv), "")
    meant = {".py": "run", ".jsonl": "view"}.get(os.path.splitext(first)[1])
    if meant:
        return _refuse(f"say what to do with {first}: minigrad-profile {meant} {first}")
    try:
        options = _parser().parse_args(argv)
    except SystemExit as leaving:  # argparse: 0 after --help, 2 after a wrong call
        return leaving.code if isinstance(leaving.code, int) else 2
    if options.command is _run:
        return _run(options)  # exceptions of the script pass through
    try:
        require_stdout()
        code = options.command(options)
        sys.stdout.flush()
        return code
    except (FormatError, ValueError) as error:
        return _refuse(str(error))
    except RecursionError:  # from a field of the log that no writer nests
        return _refuse("a field of the log is nested too deeply")
    except BrokenPipeError:
        return reader_left()
    except OSError as error:
        return _refuse(_reason(error))
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)


def _reason(error: OSError) -> str:
    return f"{error.filename or 'standard output'}: {error.strerror or error}"


def _refuse(message: str, code: int = 2) -> int:
    remark(message)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="minigrad-profile",
        description="Where a minigrad program spends its time, forward and backward.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"minigrad-profile {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (command, add_arguments, brief, description) in _commands().items():
        added = commands.add_parser(name, help=brief, description=description)
        added.set_defaults(command=command)
        add_arguments(added)
    return parser


def _commands() -> dict[str, tuple[Callable, Callable, str, str]]:
    """{command: (its function, the adder of its arguments, a line of --help, its own --help)}."""
    return {
        "run": (
            _run,
            parsers.add_run,
            "run a script, unchanged, and record its ops",
            "Run a script with its arguments and record each op, forward and backward, into an "
            "event log, which the other commands read. Options of this command come before the "
            "script.",
        ),
        "view": (
            _view,
            parsers.add_view,
            "show a log as a table",
            "Show a log as a table: calls, forward, backward and own time of each op, shape, "
            "source line, scope or thread.",
        ),
        "memory": (
            _memory,
            parsers.add_memory,
            "who was alive at the peak, and why",
            "Show which arrays were alive at the peak: the line that made each, its purpose, "
            "and since when it waited for the backward. The log must come from `run "
            "--memory`.",
        ),
        "roofline": (
            _roofline,
            parsers.add_roofline,
            "each op's speed against this machine's peaks",
            "Compare each op's speed with the peaks of this machine (operations a second, "
            "bytes a second), which the command measures first.",
        ),
        "diff": (
            _diff,
            parsers.add_diff,
            "changes between two programs, beyond noise",
            "Show which rows became faster or slower from A to B, by more than the noise between "
            "runs. A and B are two programs, run in turns (--runs 5), or logs of several runs.",
        ),
        "export": (
            _export,
            parsers.add_export,
            "convert a log for other viewers",
            "Write a log in the formats of other viewers: Perfetto, speedscope.app, flame graphs.",
        ),
        "merge": (
            _merge,
            parsers.add_merge,
            "the logs of several ranks as one",
            "Show the logs of several ranks (mg.distributed.event_log) as one table, on one clock.",
        ),
        "report": (
            report_cli.report,
            parsers.add_report,
            "everything in one HTML file, for a browser",
            "Write one HTML page that needs no network: findings, tables, timeline, flame "
            "graph, memory, roofline, source.",
        ),
        "advice": (
            report_cli.advice,
            parsers.add_advice,
            "the findings in a log, each with its line",
            "List the findings in a log, each with its line and a remedy. Examples are a slow "
            "line, a memory hog, float64 made by accident, many tiny ops, an unused gradient.",
        ),
        "compare": (
            compare_cli.compare,
            parsers.add_compare,
            "one backward of a script by every engine",
            "Run a script up to one of its backwards and run that one with every engine in turn. "
            "Print whether the gradients have the same bits, times, bounds, and a Gantt chart.",
        ),
    }


def _merge(options: argparse.Namespace) -> int:
    not_over(options.chrome, *options.logs)
    for log in options.logs if options.chrome else ():
        read_again(log, "--chrome reads each log once more")
    result = merged(options.logs)
    for rank in result.ranks:
        cut_off(rank.cut)
    for note in result.notes():
        remark(note)
    if options.chrome:
        result.write_chrome(options.chrome)
        wrote(options.chrome)
    print(result.json() if options.json else result.text())
    return 0


# Options that few scripts have: after the script they go to it, and have no effect here.
_MISPLACED = {"--html", "--memory", "--stack", "--live", "--sync", "--min-us", "--max-events"}


def _run(options: argparse.Namespace) -> int:
    try:
        if not options.module:
            a_script(options.script)
        not_over(options.out, options.script)
        not_over(options.html, options.script, options.out)
        in_a_folder(options.html)
        if options.live:
            require_rich()  # before a new log replaces an old one
        import_optional()
    except (ValueError, NoTerminal) as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)
    log = options.out if options.format == "events" else f"{options.out}.{os.getpid()}.jsonl"
    aim = os.path.realpath(log)
    out, html = os.path.abspath(options.out), options.html and os.path.abspath(options.html)

    def finished(place: str, events: int, dropped: int, failed: bool) -> None:
        """`place`: where the log is; the script may have changed the folder."""
        made = log if place == aim else place
        if html:
            with _complaining(options.html):
                _write("html", place, html)
                if not options.quiet:
                    wrote(options.html)
        if options.format != "events":
            with _complaining(options.out):
                _write(options.format, place, out)
                made = options.out
                os.unlink(place)
            if made != options.out:  # nothing is lost: the log stays
                remark(f"the events are kept in {made}")
        if not options.quiet:
            lost = f" ({dropped:,} more were dropped)" if dropped else ""
            is_log = options.format == "events" or made != options.out
            hint = f"; minigrad-profile view {made}" if is_log else ""
            said = f"{counted(events, 'event')} in"
            if failed:
                said = f"the log is incomplete: {events:,} events are safe in"
            remark(f"{said} {made}{lost}{hint}")
            given = dict.fromkeys(argument.partition("=")[0] for argument in options.args)
            for option in [name for name in given if name in _MISPLACED]:
                remark(
                    f"{option} went to {options.script}; options of `run` come before the script"
                )

    try:
        run_script(
            options.script, options.args, log, options.module, finished,
            _live(options) if options.live else None,
            min_us=options.min_us, max_events=options.max_events, stack=options.stack,
            memory=_needs_memory(options), sync=options.sync,
            device=options.device, schedule=options.schedule,
        )  # fmt: skip
    except CannotOpen as error:
        return _refuse(str(error))
    return 0


def _needs_memory(options: argparse.Namespace) -> bool:
    """Whether the log records the lives of arrays: on request, or for an output that needs them."""
    return options.memory or bool(options.html) or options.format in ("bytes", "html")


@contextlib.contextmanager
def _live(options: argparse.Namespace) -> Iterator[None]:
    prof = mg.profile(memory=options.memory)
    with prof, live(prof):
        yield


@contextlib.contextmanager
def _complaining(wanted: str) -> Iterator[None]:
    """Say in one line why a file was not written after the script."""
    try:
        yield
    except KeyboardInterrupt:  # the script, which would handle it, has ended
        remark(f"interrupted, {wanted} was not written")
    except OSError as error:
        remark(_reason(error))
    except ValueError as error:
        remark(str(error))


def _view(options: argparse.Namespace) -> int:
    result = summary(options.log, options.by, options.sort)
    cut_off(result.cut)
    if options.json:
        print(result.json())
    elif options.marks:
        show(f"marks\n{result.marks_table(options.width)}", sys.stdout)
    else:
        show(result.table(options.top, options.width), sys.stdout)
    return 0


def _memory(options: argparse.Namespace) -> int:
    result = memory.story(options.log)
    cut_off(result.cut)
    print(result.json() if options.json else result.text(options.width, options.top))
    return 0


def _roofline(options: argparse.Namespace) -> int:
    not_over(options.svg, options.log)
    result = roofline.roofline(options.log, options.by)
    cut_off(result.cut)
    if options.svg:
        write_whole(options.svg, result.svg())
        wrote(options.svg)
    print(result.json() if options.json else result.text(options.width, options.top))
    return 0


def _diff(options: argparse.Namespace) -> int:
    if options.runs:
        if options.also_a or options.also_b:
            return _refuse("--runs takes two programs; --also-a and --also-b go with logs")
        with logs_of_runs(options.before, options.after, options.runs) as logs:
            for before, after in logs:
                result = difference(before, after)
                if result.tells_enough:
                    break
    else:
        result = difference([options.before, *options.also_a], [options.after, *options.also_b])
    for note in result.notes:
        remark(note)
    print(result.json() if options.json else result.text(options.width, options.top))
    if options.fail_over is None:
        return 0
    total = result.total
    for log, calls in ((options.before, total.calls_before), (options.after, total.calls_after)):
        if not calls:  # an empty log does not mean that the program is as fast as before
            return _refuse(f"{log}: no events, so --fail-over has nothing to compare")
    if not result.firm:
        return _refuse(
            f"--fail-over needs {ENOUGH} runs of each side or more: --runs 5 with two programs, or "
            "--also-a and --also-b with further logs"
        )
    failures = result.failures(options.fail_over)
    for change in failures:
        part = change.delta_ns / change.before_ns if change.before_ns else 0
        remark(f"{change.name}: slower by {part:.1%}, more than {options.fail_over:.0%}")
    return 1 if failures else 0


def _export(options: argparse.Namespace) -> int:
    wanted = {name: getattr(options, name) for name in WRITERS if getattr(options, name)}
    if not wanted:
        return _refuse(f"say what to write: {', '.join(f'--{name}' for name in WRITERS)} FILE")
    if len(wanted) > 1:
        read_again(options.log, "it is read for each file that is written")
    paths = list(wanted.values())
    for i, path in enumerate(paths):
        not_over(path, options.log, *paths[:i])
    for name, path in wanted.items():
        cut_off(_write(name, options.log, path))
        wrote(path)
    return 0
