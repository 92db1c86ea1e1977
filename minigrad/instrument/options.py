"""Counts among the options of a profile or an event log."""

from typing import Any


def count(owner: str, name: str, value: Any, least: int = 0) -> int:
    """The option as an int (1e6 is one as well); ValueError for what is no count, or too few."""
    try:
        whole = int(value)
        fits = whole == value and whole >= least
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise ValueError(f"{owner}: {name} must be an integer, {least} or more; got {value!r}")
    return whole
