"""`minigrad-profile report` and `minigrad-profile advice`."""

import argparse
import sys
from typing import Any

from minigrad.instrument.formats import write_whole
from minigrad.instrument.terminal import columns

from .arguments import columns_wide, not_over
from .report import report_of
from .report_advice import as_json, as_text


def add_parsers(commands: Any) -> None:
    """Add both commands."""
    parser = commands.add_parser("report", help="everything in one HTML file, for a browser")
    parser.set_defaults(command=_report)
    add = parser.add_argument
    add("log", help="an event log; recorded with --memory it tells more")
    add("-o", "--out", metavar="FILE", help="default: the log's name with .html")
    add("--compare", metavar="JSON", help="what minigrad-profile compare --save FILE.json wrote")
    add("--also", action="append", default=[], metavar="LOG", help="draw another process's lanes")
    add("--no-source", action="store_true", help="do not put the text of the program into it")
    add("--title", default="minigrad profile", help="of the page")

    parser = commands.add_parser("advice", help="what stands out in a log, with its line")
    parser.set_defaults(command=_advice)
    parser.add_argument("log", help="an event log; recorded with --memory it tells more")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--width", type=columns_wide, default=max(60, columns()), metavar="N", help="columns"
    )


def _report(options: argparse.Namespace) -> int:
    out = options.out or f"{options.log.removesuffix('.jsonl')}.html"
    not_over(out, options.log, *options.also, *filter(None, [options.compare]))
    found = report_of(options.log, also=options.also)
    for log in (found.measured, *found.others):
        _noted(log.cut)
    write_whole(out, found.page(options.title, options.compare, not options.no_source))
    print(f"minigrad-profile: wrote {out}", file=sys.stderr)
    return 0


def _advice(options: argparse.Namespace) -> int:
    found = report_of(options.log)
    _noted(found.measured.cut)
    print(as_json(found.findings) if options.json else as_text(found.findings, options.width))
    return 0


def _noted(cut: str | None) -> None:
    if cut:
        line = "".join(c if c.isprintable() else "?" for c in cut)
        print(f"minigrad-profile: {line}; what follows is what was there", file=sys.stderr)
