"""The environment switches: instruments for a program that is not changed.

MINIGRAD_PROFILE=1            table to stderr when the program ends, also by an exception
MINIGRAD_PROFILE_EVERY=N      table after every N ops, counting from zero each time
MINIGRAD_PROFILE_OUT=path     into this file instead; {n} stands for the table's number
MINIGRAD_PROFILE_FORMAT=...   table, json, events, chrome, speedscope, joined by commas
MINIGRAD_PROFILE_MIN_US=x     event logs drop (and count) shorter events
MINIGRAD_PROFILE_MAX_EVENTS=n event logs drop (and count) further events
MINIGRAD_GRAPH_OUT=path       the graph of each backward; {n} stands for its number

Setting _EVERY, _OUT or _FORMAT switches the profile on unless MINIGRAD_PROFILE=0. A value that
makes no sense gives one line on stderr and is ignored.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

_OFF = ("", "0", "false", "no", "off")
_ON = ("1", "true", "yes", "on")


_started = False


def start() -> None:
    """Read the environment, once, and start what it asks for. A second call does nothing."""
    global _started
    if not _started and any(name.startswith("MINIGRAD_") for name in os.environ):
        from .switches import start_switches

        _started = True
        start_switches()


def complain(message: str) -> None:
    """One line on stderr; never an error, even where there is no stderr."""
    if sys.stderr is not None:
        try:
            print(f"minigrad: {message}", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            pass


def switch(name: str) -> bool | None:
    """True, False, or None where the variable is not set or makes no sense."""
    text = os.environ.get(name)
    if text is None:
        return None
    if text.strip().lower() in _OFF:
        return False
    if text.strip().lower() in _ON:
        return True
    complain(f"{name}={text!r} is ignored: say 1 or 0")
    return None


def number(name: str, kind: Callable[[str], Any], least: Any, what: str) -> Any:
    """The variable as a number, or None where it is not set or makes no sense."""
    text = os.environ.get(name)
    if not text:
        return None
    try:
        value = kind(text)
        if not least <= value < float("inf"):
            raise ValueError
    except ValueError:
        complain(f"{name}={text!r} is ignored: it should be {what}")
        return None
    return value
