"""The command `minigrad-viz`.

Exit codes: 0 done; 1 done, but with another format than asked for, a difference, or another hash; 2
nothing was done, and one line on stderr says why; 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence

from minigrad_viz import __version__, commands, raster
from minigrad_viz.diff import SLOWER
from minigrad_viz.errors import ViewerError
from minigrad_viz.heat import HEATS
from minigrad_viz.reader import MAX_BYTES
from minigrad_viz.render import FORMATS, USUAL_LIMIT

_COMMANDS = ("render", "step", "diff", "check", "info")
_EXAMPLES = """examples:
  minigrad-viz graph.json                    interactive page graph.html
  minigrad-viz graph.json -o graph.svg --depth 2
                                             one box a scope, 2 levels down
  minigrad-viz step graph.json -o step.html  plays the recorded backward
  minigrad-viz graph.json -o hot.svg --heat time --critical
  minigrad-viz graph.json -o back.svg --backward
                                             rules and cotangents
  minigrad-viz graph.json -o part.svg --focus conv2.weight --radius 3
  minigrad-viz diff before.json after.json   what appeared, went or slowed
  minigrad-viz check graph.json --hash HASH  exit 1 if the structure is another
  minigrad-viz check graph.json --badges     exit 1 if a rule is wrong,
                                             2 if none was checked
  minigrad-viz info graph.json               counts, sizes, frequent ops
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with these arguments (default: those of the process); the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stderr is None:  # closed: what is printed there would stand in standard output
        sys.stderr = open(os.devnull, "w")
    if arguments and arguments[0] not in (*_COMMANDS, "-h", "--help", "--version"):
        arguments.insert(0, "render")
    try:
        options = _parser().parse_args(arguments)
        with _collector_paused():
            return options.run(options)
    except SystemExit as leaving:  # argparse: 0 after --help, 2 after a wrong call
        return leaving.code if isinstance(leaving.code, int) else 2
    except ViewerError as error:
        return _refuse(str(error))
    except MemoryError:
        return _refuse("not enough memory for this graph; try --depth 1 or a smaller --max-nodes")
    except BrokenPipeError:
        # The reader of our output left; keep the interpreter from saying so at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("minigrad-viz: interrupted, nothing was written", file=sys.stderr)
        return 130


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Nothing here makes reference cycles; the collector would walk a large graph in vain."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _refuse(message: str) -> int:
    print(f"minigrad-viz: {message}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="minigrad-viz",
        description="Draws the graphs that minigrad dumps (MINIGRAD_GRAPH_OUT=graph.json).",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"minigrad-viz {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (add_arguments, brief, description) in _commands().items():
        add_arguments(subparsers.add_parser(name, help=brief, description=description))
    return parser


def _commands() -> dict[str, tuple[Callable[[argparse.ArgumentParser], None], str, str]]:
    """{command: (what adds its arguments, a line in the list of commands, what --help says)}."""
    return {
        "render": (
            _add_render,
            "draw a graph (also without this word)",
            "Draw a graph dump as an interactive page (.html), a picture (.svg, .png, .pdf), text "
            "for other tools (.dot, .mmd) or boxes with their places (.json): the ending of FILE "
            "chooses. Write it with or without the word `render`.",
        ),
        "step": (
            _add_step,
            "a page that plays the recorded backward",
            "Write a page that plays the backward step by step: which gradient travels where, what "
            "is added, what is released. MINIGRAD_GRAPH_OUT and mg.record_backward() record "
            "backwards; mg.dump_graph writes the graph alone.",
        ),
        "diff": (
            _add_diff,
            "compare two graphs, or two runs of one",
            "Tell what appeared, went, changed its shape or became slower from A to B. The exit "
            "code is 1 if the structures differ.",
        ),
        "check": (
            _add_check,
            "tell the structural hash, and what finite differences say",
            "Tell whether a dump is whole, its structural hash (of ops, parameters, shapes, "
            "dtypes, scopes and links, not of values or times), and what finite differences say "
            "of each node's rule, where mg.record_backward(check=True) or MINIGRAD_GRAPH_CHECK=1 "
            "compared them. The exit code is 1 if a rule is wrong or the hash is not --hash.",
        ),
        "info": (
            _add_info,
            "print statistics of a graph",
            "Print counts, sizes, FLOPs, the most frequent ops and scopes, work and span.",
        ),
    }


def _add_render(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=commands.render_dump)
    _add_input(parser)
    add = parser.add_argument
    add(
        "-o",
        "--out",
        metavar="FILE",
        help="where to write (default: GRAPH's name with .html); - is standard output",
    )
    add("--format", choices=FORMATS, help="default: the ending of FILE")
    add("--title", default="", help="heading of the picture (default: the name of the dump)")
    add("--depth", type=_count, metavar="N", help="fold scopes N levels down into one box each")
    add("--collapse", action="append", default=[], metavar="SCOPE", help="fold this scope")
    add("--fold-repeats", action="store_true", help="one box for the copies of a repeated part")
    help_text = "draw the backward's own graph: rules and cotangents (a page shows both)"
    add("--backward", action="store_true", help=help_text)
    add("--focus", default="", metavar="NODE", help="only what is near this node (name or #id)")
    add("--radius", type=_count, default=3, metavar="N", help="how near: links (default 3)")
    add("--heat", choices=HEATS, default="", help="colour the boxes by this")
    add("--critical", action="store_true", help="mark the critical path of the backward")
    add("--check", action="store_true", help="exit 1 if a badge says that a rule is wrong")
    usual = ", ".join(f"{form} {most:,}" for form, most in USUAL_LIMIT.items() if most)
    help_text = f"draw at most N boxes (0: no limit; default: {usual})"
    add("--max-nodes", type=_count, metavar="N", help=help_text)
    add(
        "--engine",
        choices=("auto", "builtin", *raster.ENGINES),
        default="auto",
        help="who lays the graph out: ours (auto, builtin) or Graphviz (dot, pygraphviz)",
    )
    add(
        "--time-limit",
        type=_seconds,
        default=10.0,
        metavar="S",
        help="seconds given to Graphviz (default 10)",
    )
    help_text = "boxes given to Graphviz (default 1,500)"
    add("--layout-limit", type=_count, default=1_500, metavar="N", help=help_text)


def _add_step(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=commands.step)
    _add_input(parser)
    add = parser.add_argument
    add(
        "-o",
        "--out",
        metavar="FILE",
        help="the page (default: GRAPH's name with -step.html); - is standard output",
    )
    add("--title", default="", help="heading of the page (default: the name of the dump)")
    add("--depth", type=_count, metavar="N", help="fold scopes N levels down into one box each")


def _add_diff(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=commands.diff)
    add = parser.add_argument
    add("dump", metavar="A", help="the graph before")
    add("other", metavar="B", help="the graph after")
    add("-o", "--out", metavar="FILE", help="also draw B, marked; the ending is the format")
    add("--json", action="store_true", help="print everything as JSON")
    add("--slower", type=_factor, default=SLOWER, metavar="F",
        help=f"a node is slower from this factor on (default {SLOWER})")  # fmt: skip
    _add_max_bytes(parser)


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=commands.check)
    _add_input(parser)
    parser.add_argument("--hash", metavar="HASH", help="exit 1 if the structural hash differs")
    help_text = "exit 2 if no node was checked against finite differences"
    parser.add_argument("--badges", action="store_true", help=help_text)


def _add_info(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=commands.info)
    _add_input(parser)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dump", metavar="GRAPH", help="a graph dump; - is standard input")
    _add_max_bytes(parser)


def _add_max_bytes(parser: argparse.ArgumentParser) -> None:
    help_text = f"refuse larger dumps (default {MAX_BYTES:,})"
    parser.add_argument("--max-bytes", type=_count, default=MAX_BYTES, metavar="N", help=help_text)


def _count(text: str) -> int:
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} should be an integer, 0 or more")
    return int(text)


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} should be a number above 0")
    return value


def _seconds(text: str) -> float:
    return min(_factor(text), 1e6)  # the longest wait of the system's clocks
