"""The command `minigrad-profile`.

Exit codes: 0 done; 2 nothing was done, with one line on stderr that says why; 130 interrupted.
`run` leaves the script's own exit code, exceptions and signals as they are.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence

from minigrad.core.errors import FormatError
from minigrad.instrument.chrome import write_chrome
from minigrad.instrument.speedscope import write_folded, write_speedscope
from minigrad.instrument.table import show

from . import __version__
from .run import CannotOpen, run_script
from .view import BY, SORT, summary

_EXAMPLES = """examples:
  minigrad-profile run train.py --epochs 1       record into minigrad-profile.jsonl
  minigrad-profile view minigrad-profile.jsonl --by line
  minigrad-profile export minigrad-profile.jsonl --chrome trace.json
                                                 open it at https://ui.perfetto.dev
  minigrad-profile export minigrad-profile.jsonl --speedscope run.speedscope.json
                                                 open it at https://www.speedscope.app
"""
_WRITERS: dict[str, Callable[[str, str], None]] = {
    "chrome": write_chrome,
    "speedscope": write_speedscope,
    "folded": write_folded,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (default: those of the process); the exit code."""
    try:
        options = _parser().parse_args(argv)
    except SystemExit as leaving:  # argparse: 0 after --help, 2 after a wrong call
        return leaving.code if isinstance(leaving.code, int) else 2
    if options.command is _run:
        return _run(options)  # what the script raises passes through
    try:
        return options.command(options)
    except FormatError as error:
        return _refuse(str(error))
    except BrokenPipeError:
        # The reader of our output left; keep the interpreter from saying so at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _refuse(f"{error.filename or ''}: {error.strerror or error}")
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)


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
    _add_export(commands.add_parser("export", help="convert a log for other viewers"))
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_run)
    add = parser.add_argument
    add("-o", "--out", default="minigrad-profile.jsonl", metavar="FILE", help="the log")
    add("--format", choices=("events", *_WRITERS), default="events", help="what FILE will hold")
    add("--min-us", type=float, default=0.0, metavar="X", help="drop (and count) shorter events")
    add("--max-events", type=int, metavar="N", help="drop (and count) further events")
    add("--quiet", action="store_true", help="say nothing when the script has ended")
    add("script", help="the Python file to run")
    add("args", nargs=argparse.REMAINDER, help="its arguments")


def _add_view(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_view)
    add = parser.add_argument
    add("log", help="an event log")
    add("--by", choices=list(BY), default="op", help="what a row stands for (default: op)")
    add("--sort", choices=list(SORT), default="self", help="default: self, the row's own time")
    add("--top", type=int, default=40, metavar="N", help="rows to show (default: 40; 0: all)")
    add("--json", action="store_true", help="all rows as JSON")


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_export)
    parser.add_argument("log", help="an event log")
    parser.add_argument("--chrome", metavar="FILE", help="Chrome trace, for Perfetto")
    parser.add_argument("--speedscope", metavar="FILE", help="speedscope file")
    parser.add_argument("--folded", metavar="FILE", help="folded stacks, for flame graphs")


def _run(options: argparse.Namespace) -> int:
    if not os.path.isfile(options.script):
        return _refuse(f"{options.script}: there is no such file to run")

    def finished(log: str, events: int, dropped: int) -> None:
        made = options.out
        if options.format != "events":
            with _complaining():
                _WRITERS[options.format](log, made)
            with contextlib.suppress(OSError):
                os.unlink(log)
        if not options.quiet:
            lost = f" ({dropped:,} more were dropped)" if dropped else ""
            hint = f"; minigrad-profile view {made}" if made == log else ""
            print(f"minigrad-profile: {events:,} events in {made}{lost}{hint}", file=sys.stderr)

    log = options.out if options.format == "events" else f"{options.out}.{os.getpid()}.jsonl"
    try:
        run_script(options.script, options.args, log, options.min_us, options.max_events, finished)
    except CannotOpen as error:
        return _refuse(str(error))
    return 0


@contextlib.contextmanager
def _complaining() -> Iterator[None]:
    try:
        yield
    except (OSError, FormatError) as error:
        _refuse(str(error))


def _view(options: argparse.Namespace) -> int:
    result = summary(options.log, options.by, options.sort)
    if options.json:
        print(result.json())
    else:
        show(result.table(options.top), sys.stdout)
    return 0


def _export(options: argparse.Namespace) -> int:
    wanted = {name: getattr(options, name) for name in _WRITERS if getattr(options, name)}
    if not wanted:
        return _refuse("say what to write: --chrome, --speedscope or --folded FILE")
    for name, path in wanted.items():
        _WRITERS[name](options.log, path)
        print(f"minigrad-profile: wrote {path}", file=sys.stderr)
    return 0
