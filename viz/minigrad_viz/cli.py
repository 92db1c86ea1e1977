"""The command `minigrad-viz`.

Exit codes: 0 done; 1 done, but in another format than asked for; 2 nothing was written, with one
line on stderr that says why; 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import sys
from collections.abc import Iterator, Sequence

from minigrad_viz import __version__, raster
from minigrad_viz.errors import ViewerError
from minigrad_viz.escape import shown
from minigrad_viz.files import write_whole
from minigrad_viz.page import page_text
from minigrad_viz.reader import MAX_BYTES, read
from minigrad_viz.render import FORMATS, Options, format_of, render
from minigrad_viz.stats import statistics, statistics_text

_COMMANDS = ("render", "step", "info")
_EXAMPLES = """examples:
  minigrad-viz graph.json -o graph.html          interactive page, one file, works offline
  minigrad-viz graph.json -o graph.svg --depth 2 one box for each scope two levels down
  minigrad-viz step graph.json -o step.html      plays the recorded backward, step by step
  minigrad-viz info graph.json                   counts, sizes, the most frequent operations
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with these arguments (default: those of the process); the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
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
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_render(commands.add_parser("render", help="draw a graph (also without this word)"))
    _add_step(commands.add_parser("step", help="a page that plays the recorded backward"))
    _add_info(commands.add_parser("info", help="print statistics of a graph"))
    return parser


def _add_render(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_render)
    _add_input(parser)
    add = parser.add_argument
    add("-o", "--out", required=True, metavar="FILE", help="where to write; - is standard output")
    add("--format", choices=FORMATS, help="default: the ending of FILE")
    add("--title", default="", help="heading of the picture (default: the name of the dump)")
    add("--depth", type=_count, metavar="N", help="fold scopes N levels down into one box each")
    add("--collapse", action="append", default=[], metavar="SCOPE", help="fold this scope")
    add("--max-nodes", type=_count, metavar="N", help="draw at most N boxes (0: no limit)")
    add(
        "--engine",
        choices=("auto", "builtin", *raster.ENGINES),
        default="auto",
        help="who lays the graph out: ours (auto, builtin) or Graphviz (dot, pygraphviz)",
    )
    add("--time-limit", type=float, default=10.0, metavar="S", help="seconds given to Graphviz")
    add("--layout-limit", type=_count, default=1_500, metavar="N", help="boxes given to Graphviz")


def _add_step(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_step)
    _add_input(parser)
    add = parser.add_argument
    add("-o", "--out", required=True, metavar="FILE", help="the page; - is standard output")
    add("--title", default="", help="heading of the page (default: the name of the dump)")
    add("--depth", type=_count, metavar="N", help="fold scopes N levels down into one box each")


def _add_info(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_info)
    _add_input(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dump", metavar="GRAPH", help="a graph dump; - is standard input")
    help_text = f"refuse larger dumps (default {MAX_BYTES:,})"
    parser.add_argument("--max-bytes", type=_count, default=MAX_BYTES, metavar="N", help=help_text)


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("should be 0 or more")
    return value


def _render(options: argparse.Namespace) -> int:
    wanted = format_of(options.out, options.format)
    graph = read(options.dump, options.max_bytes)
    drawing = render(
        graph,
        Options(
            format=wanted,
            title=options.title or shown(os.path.basename(options.dump), 60, "tail"),
            engine=options.engine,
            depth=options.depth,
            collapse=tuple(options.collapse),
            max_nodes=options.max_nodes,
            layout_limit=options.layout_limit,
            time_limit=options.time_limit,
        ),
    )
    out = options.out
    if drawing.format != wanted:
        out = _other_name(out, drawing.format, drawing.notes)
    write_whole(out, drawing.data)
    for note in drawing.notes:
        print(f"minigrad-viz: {note}", file=sys.stderr)
    return 0 if drawing.format == wanted else 1


def _step(options: argparse.Namespace) -> int:
    graph = read(options.dump, options.max_bytes)
    if graph.backward is None or not graph.backward.steps:
        raise ViewerError(
            f"{shown(options.dump, 120, 'tail')}: holds no recorded backward; record one with "
            "`with mg.record_backward() as rec: loss.backward()`, or MINIGRAD_GRAPH_OUT=graph.json"
        )
    title = options.title or shown(os.path.basename(options.dump), 60, "tail")
    page = page_text(graph, title, options.depth, mode="step")
    write_whole(options.out, page.encode("utf-8"))
    return 0


def _other_name(out: str, ending: str, notes: list[str]) -> str:
    """Where a result in another format goes: beside the wanted file, never over something."""
    other = f"{os.path.splitext(out)[0]}.{ending}"
    if out == "-" or os.path.exists(other):
        raise ViewerError("; ".join(notes))
    notes.append(f"wrote {shown(other, 120, 'tail')} instead")
    return other


def _info(options: argparse.Namespace) -> int:
    numbers = statistics(read(options.dump, options.max_bytes))
    text = json.dumps(numbers, indent=1) + "\n" if options.json else statistics_text(numbers)
    write_whole("-", text.encode("utf-8"))
    return 0
