"""`minigrad-profile report` and `minigrad-profile advice`."""

import argparse

from minigrad.instrument.formats import write_whole

from .arguments import not_over
from .remarks import cut_off, wrote
from .report import report_of
from .report_advice import as_json, as_text


def report(options: argparse.Namespace) -> int:
    """Write the page."""
    out = options.out or f"{options.log.removesuffix('.jsonl')}.html"
    not_over(out, options.log, *options.also, *filter(None, [options.compare]))
    found = report_of(options.log, also=options.also)
    for log in (found.measured, *found.others):
        cut_off(log.cut)
    write_whole(
        out,
        found.page(
            options.title or found.title, options.compare, not options.no_source, options.source
        ),
    )
    wrote(out)
    return 0


def advice(options: argparse.Namespace) -> int:
    """Print the findings."""
    found = report_of(options.log)
    cut_off(found.measured.cut)
    print(as_json(found.findings) if options.json else as_text(found.findings, options.width))
    return 0
