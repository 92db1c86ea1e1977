"""A progress bar on a terminal if rich is installed; nothing elsewhere."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def progress(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """The items; a bar on stderr counts them as they are consumed."""
    if not sys.stderr.isatty():
        yield from items
        return
    try:
        from rich.console import Console
        from rich.progress import track
    except ImportError:
        yield from items
        return
    console = Console(stderr=True)
    yield from track(items, what, total, console=console, transient=True)
