"""The options and files of each command."""

import argparse

from minigrad.instrument.terminal import columns, count

from .arguments import columns_wide, microseconds, percent, schedule
from .view import BY, SORT

WRITERS: dict[str, str] = {  # first the one that needs more of a log than the others
    "bytes": "speedscope file: bytes that were alive at the peak, by stack",
    "chrome": "Chrome trace, for Perfetto",
    "speedscope": "speedscope file: time",
    "folded": "folded stacks, for flame graphs",
    "html": "report, in one file that needs no network",
}


def add_run(parser: argparse.ArgumentParser) -> None:
    """The arguments of `run`."""
    add = parser.add_argument
    add(
        "-o",
        "--out",
        default="minigrad-profile.jsonl",
        metavar="FILE",
        help="the log (default: minigrad-profile.jsonl)",
    )
    add(
        "--format",
        choices=("events", *WRITERS),
        default="events",
        help="format of FILE; bytes and html also record memory",
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
    add(
        "--schedule",
        type=schedule,
        metavar="W,U,A[,N]",
        help="skip W steps, warm up for U, record A; N times (default: until the end). A step "
        "ends with a step of the first optimizer",
    )
    add("--device", action="store_true", help="also record when each op ran on the GPU, by stream")
    add("--live", action="store_true", help="show a table that refreshes twice a second")
    add("--quiet", action="store_true", help="say nothing when the script has ended")
    add("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    add("script", help="the Python file to run")
    add("args", nargs=argparse.REMAINDER, help="its arguments")


def add_view(parser: argparse.ArgumentParser) -> None:
    """The arguments of `view`."""
    add = parser.add_argument
    add("log", help="an event log")
    add("--by", choices=list(BY), default="op", help="the group of a row (default: op)")
    add("--sort", choices=list(SORT), default="self", help="default: self, the row's own time")
    add("--top", type=count, default=40, metavar="N", help="rows to show (default: 40; 0: all)")
    add("--marks", action="store_true", help="show scopes, steps, optimizer steps and hooks")
    add("--json", action="store_true", help="all rows as JSON")
    add_width(parser)


def add_memory(parser: argparse.ArgumentParser) -> None:
    """The arguments of `memory`."""
    parser.add_argument("log", help="an event log recorded with --memory")
    parser.add_argument("--top", type=count, default=20, metavar="N", help="owners (default: 20)")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    add_width(parser)


def add_roofline(parser: argparse.ArgumentParser) -> None:
    """The arguments of `roofline`."""
    parser.add_argument("log", help="an event log, recorded on this machine")
    parser.add_argument(
        "--by", choices=list(BY), default="op", help="the group of a row (default: op)"
    )
    parser.add_argument("--top", type=count, default=20, metavar="N", help="rows (default: 20)")
    parser.add_argument("--svg", metavar="FILE", help="draw it into this file too")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    add_width(parser)


def add_diff(parser: argparse.ArgumentParser) -> None:
    """The arguments of `diff`."""
    add = parser.add_argument
    add("before", metavar="A", help="an event log; with --runs a program")
    add("after", metavar="B", help="an event log of the same program, changed; or that program")
    add(
        "--runs",
        type=count,
        metavar="N",
        help="run both programs N times in turns and compare those runs (5 is a good number). They "
        "run up to three times as often while a row of weight would not show a change of 10%%",
    )
    add("--also-a", action="append", default=[], metavar="LOG", help="another run of A")
    add("--also-b", action="append", default=[], metavar="LOG", help="another run of B")
    add("--fail-over", type=percent, metavar="P%", help="exit code 1 if slower by more")
    add("--top", type=count, default=20, metavar="N", help="rows to show (default: 20)")
    add("--json", action="store_true", help="all rows as JSON")
    add_width(parser)


def add_export(parser: argparse.ArgumentParser) -> None:
    """The arguments of `export`."""
    parser.add_argument("log", help="an event log")
    for name, what in WRITERS.items():
        parser.add_argument(f"--{name}", metavar="FILE", help=what)


def add_merge(parser: argparse.ArgumentParser) -> None:
    """The arguments of `merge`."""
    parser.add_argument("logs", nargs="+", metavar="LOG", help="one log a rank")
    parser.add_argument("--chrome", metavar="FILE", help="write one trace, for Perfetto")
    parser.add_argument("--json", action="store_true", help="the table as JSON")


def add_report(parser: argparse.ArgumentParser) -> None:
    """The arguments of `report`."""
    add = parser.add_argument
    add("log", help="an event log; recorded with --memory it tells more")
    add("-o", "--out", metavar="FILE", help="default: the log's name with .html")
    add("--compare", metavar="JSON", help="a file from minigrad-profile compare --save FILE.json")
    add(
        "--also",
        action="append",
        default=[],
        metavar="LOG",
        help="draw the lanes of another rank's log too",
    )
    add("--no-source", action="store_true", help="do not put the text of the program into it")
    add(
        "--source",
        action="append",
        default=[],
        metavar="PATH",
        help="show this file, or those in this folder, even if changed since the log was written",
    )
    add("--title", help="heading of the page (default: the program's name)")


def add_advice(parser: argparse.ArgumentParser) -> None:
    """The arguments of `advice`."""
    parser.add_argument("log", help="an event log; recorded with --memory it tells more")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    add_width(parser)


def add_compare(parser: argparse.ArgumentParser) -> None:
    """The arguments of `compare`."""
    add = parser.add_argument
    add(
        "--backward",
        type=int,
        default=1,
        metavar="N",
        help="compare on the script's N-th backward, where the script then ends (default: 1)",
    )
    add("--workers", metavar="P,P", help="workers to try (default: 1,2,4 ... cores)")
    add("--repeats", type=int, default=7, metavar="N", help="how often each is timed (default: 7)")
    add("--json", action="store_true", help="all figures as JSON, on stdout")
    add(
        "--save",
        action="append",
        default=[],
        metavar="FILE",
        help="also write FILE.html, .svg or .json",
    )
    add_width(parser)
    add("script", help="the Python file to run")
    add("args", nargs=argparse.REMAINDER, help="its arguments")


def add_width(parser: argparse.ArgumentParser) -> None:
    """The argument for the width of a command's tables and sentences."""
    parser.add_argument(
        "--width",
        type=columns_wide,
        default=max(60, columns()),
        metavar="N",
        help="columns to fill (default: those of the terminal)",
    )
