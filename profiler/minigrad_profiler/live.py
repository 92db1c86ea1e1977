"""A table on the terminal that refreshes while the program runs (needs rich)."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from minigrad.instrument.profile import profile
from minigrad.instrument.table import counted, duration, size


class NoTerminal(Exception):
    """The live view cannot be shown; the message is one line."""


def require_rich() -> None:
    """Raise NoTerminal where rich is not installed."""
    try:
        import rich.live  # noqa: F401
    except ImportError:
        raise NoTerminal(
            "the live view needs rich: pip install '/path/to/the/checkout[profile]', or leave out "
            "--live"
        ) from None


@contextmanager
def live(prof: profile, seconds: float = 0.5, stream: TextIO | None = None) -> Iterator[None]:
    """Show a profile, entered elsewhere, while the block runs.

    The table appears on stderr: stdout keeps the program's own output.
    """
    require_rich()
    from rich.console import Console
    from rich.live import Live

    console = Console(file=stream or sys.stderr)
    done = threading.Event()
    with Live(console=console, auto_refresh=False, redirect_stdout=False) as display:

        def draw() -> None:
            while not done.wait(seconds):
                display.update(_table(prof, console.height), refresh=True)

        thread = threading.Thread(target=draw, name="minigrad live view", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            display.update(_table(prof, console.height), refresh=True)


def _table(prof: profile, height: int) -> Any:
    """The rows that fit on the screen."""
    from rich.markup import escape
    from rich.table import Table

    rows = prof.rows()
    calls, total = sum(row.calls for row in rows), sum(row.total_ns for row in rows)
    title = f"{counted(calls, 'call')}, {duration(total)} in ops, {duration(prof.wall_ns)} wall"
    if prof.memory is not None:
        told = prof.memory.as_dict()
        title += f", {size(told['live'])} alive, {size(told['peak'])} at most"
    table = Table(title=title)
    table.add_column("line" if any(row.site for row in rows) else "op", overflow="ellipsis")
    for name in ("phase", "calls", "total", "per call", "share"):
        table.add_column(name, justify="left" if name == "phase" else "right", no_wrap=True)
    for row in rows[: max(3, height - 7)]:
        table.add_row(
            escape(f"{row.site} {row.op}".strip()),
            row.phase,
            f"{row.calls:,}",
            duration(row.total_ns),
            duration(row.total_ns / row.calls),
            f"{row.share:.1f} %",
        )
    return table
