"""The command `minigrad-profile`.

Exit codes: 0 done; 1 `diff --fail-over` found something slower; 2 nothing was done, with one line
on stderr that says why; 130 interrupted. `run` leaves the script's own exit code, exceptions and
signals as they are.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import minigrad as mg
from minigrad.core.errors import FormatError
from minigrad.instrument.formats import write_whole
from minigrad.instrument.outputs import writer
from minigrad.instrument.table import show
from minigrad.instrument.terminal import columns, reader_left, require_stderr, require_stdout

from . import __version__, compare_cli, memory, report_cli, roofline
from .arguments import columns_wide, count, in_a_folder, microseconds, not_over, percent, read_again
from .diff import difference
from .live import NoTerminal, live, require_rich
from .merge import merged
from .run import CannotOpen, import_scipy, run_script
from .view import BY, SORT, summary

_EXAMPLES = """examples:
  minigrad-profile run train.py --epochs 1       record into minigrad-profile.jsonl
  minigrad-profile view minigrad-profile.jsonl --by line
  minigrad-profile export minigrad-profile.jsonl --chrome trace.json
                                                 open it at https://ui.perfetto.dev
  minigrad-profile export minigrad-profile.jsonl --speedscope run.speedscope.json
                                                 open it at https://www.speedscope.app
  minigrad-profile run --memory train.py; minigrad-profile memory minigrad-profile.jsonl
  minigrad-profile roofline minigrad-profile.jsonl --svg roofline.svg
  minigrad-profile diff before.jsonl after.jsonl --fail-over 10%
  minigrad-profile compare --save compare.html train.py
  minigrad-profile run --html report.html train.py   everything in one page for a browser
  minigrad-profile advice minigrad-profile.jsonl     what stands out, with its line
"""
_WRITERS: dict[str, str] = {  # the one that needs more of a log than the others do comes first
    "bytes": "speedscope file: bytes that were alive at the peak, by stack",
    "chrome": "Chrome trace, for Perfetto",
    "speedscope": "speedscope file: time",
    "folded": "folded stacks, for flame graphs",
    "html": "report, in one file that needs no network",
}


def _write(name: str, log: str, out: str) -> str | None:
    """Convert a log; says where it was cut off, if it was."""
    write: Any = memory.write_bytes if name == "bytes" else writer(name)
    return write(log, out)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (default: those of the process); the exit code."""
    require_stderr()
    try:
        options = _parser().parse_args(argv)
    except SystemExit as leaving:  # argparse: 0 after --help, 2 after a wrong call
        return leaving.code if isinstance(leaving.code, int) else 2
    if options.command is _run:
        return _run(options)  # what the script raises passes through
    try:
        require_stdout()
        code = options.command(options)
        sys.stdout.flush()
        return code
    except (FormatError, ValueError) as error:
        return _refuse(str(error))
    except BrokenPipeError:
        return reader_left()
    except OSError as error:
        return _refuse(_reason(error))
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)


def _reason(error: OSError) -> str:
    return f"{error.filename or 'standard output'}: {error.strerror or error}"


def _refuse(message: str, code: int = 2) -> int:
    line = "".join(c if c.isprintable() else "?" for c in message)
    print(f"minigrad-profile: {line}", file=sys.stderr)
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
    _add_run(commands.add_parser("run", help="run a script, unchanged, and record its ops"))
    _add_view(commands.add_parser("view", help="show a log as a table"))
    _add_memory(commands.add_parser("memory", help="who was alive at the peak, and why"))
    _add_roofline(commands.add_parser("roofline", help="what each op reached of this machine"))
    _add_diff(commands.add_parser("diff", help="what changed between two logs, beyond noise"))
    _add_export(commands.add_parser("export", help="convert a log for other viewers"))
    _add_merge(commands.add_parser("merge", help="the logs of several ranks as one"))
    report_cli.add_parsers(commands)
    compare_cli.add_parser(commands)
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_run)
    add = parser.add_argument
    add("-o", "--out", default="minigrad-profile.jsonl", metavar="FILE", help="the log")
    add(
        "--format",
        choices=("events", *_WRITERS),
        default="events",
        help="what FILE will hold; bytes and html record memory too",
    )
    add(
        "--min-us",
        type=microseconds,
        default=0.0,
        metavar="X",
        help="drop (and count) shorter events",
    )
    add("--max-events", type=count, metavar="N", help="drop (and count) further events")
    add("--memory", action="store_true", help="also record which arrays live, for `memory`")
    add("--html", metavar="FILE", help="also write a report for a browser; records memory too")
    add("--stack", type=count, default=0, metavar="N", help="keep N frames of the callers")
    add("--sync", action="store_true", help="wait for the GPU after each op (slow)")
    add("--device", action="store_true", help="also when each op ran on the GPU, by stream")
    add("--live", action="store_true", help="show a table that is drawn again twice a second")
    add("--quiet", action="store_true", help="say nothing when the script has ended")
    add("script", help="the Python file to run")
    add("args", nargs=argparse.REMAINDER, help="its arguments")


def _add_view(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_view)
    add = parser.add_argument
    add("log", help="an event log")
    add("--by", choices=list(BY), default="op", help="what a row stands for (default: op)")
    add("--sort", choices=list(SORT), default="self", help="default: self, the row's own time")
    add("--top", type=count, default=40, metavar="N", help="rows to show (default: 40; 0: all)")
    add("--marks", action="store_true", help="show scopes, steps, optimizer steps and hooks")
    add("--json", action="store_true", help="all rows as JSON")
    _add_width(parser)


def _add_width(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--width",
        type=columns_wide,
        default=max(60, columns()),
        metavar="N",
        help="columns to fill",
    )


def _add_memory(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_memory)
    parser.add_argument("log", help="an event log recorded with --memory")
    parser.add_argument("--top", type=count, default=20, metavar="N", help="owners (default: 20)")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    _add_width(parser)


def _add_roofline(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_roofline)
    parser.add_argument("log", help="an event log, recorded on this machine")
    parser.add_argument("--by", choices=list(BY), default="op", help="what a row stands for")
    parser.add_argument("--top", type=count, default=20, metavar="N", help="rows (default: 20)")
    parser.add_argument("--svg", metavar="FILE", help="draw it into this file too")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    _add_width(parser)


def _add_diff(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_diff)
    add = parser.add_argument
    add("before", metavar="A", help="an event log")
    add("after", metavar="B", help="an event log of the same program, changed")
    add("--also-a", action="append", default=[], metavar="LOG", help="another run of A")
    add("--also-b", action="append", default=[], metavar="LOG", help="another run of B")
    add("--fail-over", type=percent, metavar="P%", help="exit code 1 if slower by more than this")
    add("--top", type=count, default=20, metavar="N", help="rows to show (default: 20)")
    add("--json", action="store_true", help="all rows as JSON")
    _add_width(parser)


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_export)
    parser.add_argument("log", help="an event log")
    for name, what in _WRITERS.items():
        parser.add_argument(f"--{name}", metavar="FILE", help=what)


def _add_merge(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_merge)
    parser.add_argument("logs", nargs="+", metavar="LOG", help="one log a rank")
    parser.add_argument("--chrome", metavar="FILE", help="write one trace, for Perfetto")
    parser.add_argument("--json", action="store_true", help="the table as JSON")


def _merge(options: argparse.Namespace) -> int:
    not_over(options.chrome, *options.logs)
    for log in options.logs if options.chrome else ():
        read_again(log, "--chrome reads each log once more")
    result = merged(options.logs)
    for rank in result.ranks:
        _noted(rank.cut)
    for note in result.notes():
        _refuse(note)
    if options.chrome:
        result.write_chrome(options.chrome)
        print(f"minigrad-profile: wrote {options.chrome}", file=sys.stderr)
    print(result.json() if options.json else result.text())
    return 0


def _run(options: argparse.Namespace) -> int:
    if not os.path.isfile(options.script):
        return _refuse(f"{options.script}: there is no such file to run")
    try:
        not_over(options.out, options.script)
        not_over(options.html, options.script, options.out)
        in_a_folder(options.html)
        if options.live:
            require_rich()  # before a new log takes the place of an old one
        import_scipy()
    except (ValueError, NoTerminal) as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)
    log = options.out if options.format == "events" else f"{options.out}.{os.getpid()}.jsonl"
    aim = os.path.realpath(log)
    out, html = os.path.abspath(options.out), options.html and os.path.abspath(options.html)

    def finished(place: str, events: int, dropped: int, failed: bool) -> None:
        """`place`: where the log is; the script may have gone to another folder."""
        made = log if place == aim else place
        if html:
            with _complaining(options.html):
                _write("html", place, html)
                if not options.quiet:
                    print(f"minigrad-profile: wrote {options.html}", file=sys.stderr)
        if options.format != "events":
            with _complaining(options.out):
                _write(options.format, place, out)
                made = options.out
                os.unlink(place)
            if made != options.out:  # nothing is lost: the log stays
                _refuse(f"the events are kept in {made}")
        if not options.quiet:
            lost = f" ({dropped:,} more were dropped)" if dropped else ""
            is_log = options.format == "events" or made != options.out
            hint = f"; minigrad-profile view {made}" if is_log else ""
            said = f"{events:,} events in"
            if failed:
                said = f"the log is incomplete: {events:,} events are safe in"
            print(f"minigrad-profile: {said} {made}{lost}{hint}", file=sys.stderr)

    try:
        run_script(
            options.script, options.args, log, finished, _live(options) if options.live else None,
            min_us=options.min_us, max_events=options.max_events, stack=options.stack,
            memory=_needs_memory(options), sync=options.sync,
            device=options.device,
        )  # fmt: skip
    except CannotOpen as error:
        return _refuse(str(error))
    return 0


def _needs_memory(options: argparse.Namespace) -> bool:
    """Whether the log is to hold which arrays live: asked for, or read by what is made of it."""
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
    except KeyboardInterrupt:  # the script has ended, and with it the one to pass it on to
        _refuse(f"interrupted, {wanted} was not written")
    except OSError as error:
        _refuse(_reason(error))
    except ValueError as error:
        _refuse(str(error))


def _noted(cut: str | None) -> None:
    """Say that a log was cut off."""
    if cut:
        _refuse(f"{cut}; what follows is what was there")


def _view(options: argparse.Namespace) -> int:
    result = summary(options.log, options.by, options.sort)
    _noted(result.cut)
    if options.json:
        print(result.json())
    elif options.marks:
        show(f"marks\n{result.marks_table(options.width)}", sys.stdout)
    else:
        show(result.table(options.top, options.width), sys.stdout)
    return 0


def _memory(options: argparse.Namespace) -> int:
    result = memory.story(options.log)
    _noted(result.cut)
    print(result.json() if options.json else result.text(options.width, options.top))
    return 0


def _roofline(options: argparse.Namespace) -> int:
    not_over(options.svg, options.log)
    result = roofline.roofline(options.log, options.by)
    _noted(result.cut)
    if options.svg:
        write_whole(options.svg, result.svg())
        print(f"minigrad-profile: wrote {options.svg}", file=sys.stderr)
    print(result.json() if options.json else result.text(options.width, options.top))
    return 0


def _diff(options: argparse.Namespace) -> int:
    result = difference([options.before, *options.also_a], [options.after, *options.also_b])
    for note in result.notes:
        _refuse(note)
    print(result.json() if options.json else result.text(options.width, options.top))
    if options.fail_over is None:
        return 0
    failures = result.failures(options.fail_over)
    for change in failures:
        part = change.delta_ns / change.before_ns if change.before_ns else 0
        _refuse(f"{change.name}: slower by {part:.1%}, more than {options.fail_over:.0%}")
    return 1 if failures else 0


def _export(options: argparse.Namespace) -> int:
    wanted = {name: getattr(options, name) for name in _WRITERS if getattr(options, name)}
    if not wanted:
        return _refuse(f"say what to write: {', '.join(f'--{name}' for name in _WRITERS)} FILE")
    if len(wanted) > 1:
        read_again(options.log, "it is read for each file that is written")
    paths = list(wanted.values())
    for i, path in enumerate(paths):
        not_over(path, options.log, *paths[:i])
    for name, path in wanted.items():
        _noted(_write(name, options.log, path))
        print(f"minigrad-profile: wrote {path}", file=sys.stderr)
    return 0
