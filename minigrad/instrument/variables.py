"""Reading one environment variable: a value that makes no sense costs one line, never an error."""

import os
import sys
from collections.abc import Callable
from typing import Any

PREFIX = "MINIGRAD_"
_KNOWN = (
    "ACCELERATE", "COMPILE_LOG", "DISTRIBUTED_OVERLAP", "DISTRIBUTED_TIMEOUT", "GRAPH_CHECK",
    "GRAPH_OUT", "KEEP_APART", "NUM_THREADS", "PLAIN", "PROFILE", "PROFILE_DEVICE", "PROFILE_EVERY",
    "PROFILE_FORMAT", "PROFILE_MAX_EVENTS", "PROFILE_MEMORY", "PROFILE_MIN_US", "PROFILE_OUT",
    "PROFILE_SCHEDULE", "PROFILE_SECTIONS", "PROFILE_STACK", "PROFILE_SYNC",
)  # fmt: skip
_ALIKE = 0.7  # of two names, from which one is taken for the other misspelt
_OFF = ("", "0", "false", "no", "off")
_ON = ("1", "true", "yes", "on")


def complain(message: str) -> None:
    """One line on stderr; never an error, even where there is no stderr."""
    if sys.stderr is not None:
        try:
            print(f"minigrad: {message}", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            pass


def complain_of_misspelt() -> None:
    """One line for each variable that does nothing and is nearly one that would.

    Names that are like none of ours are left alone: they may be the program's own.
    """
    from difflib import get_close_matches  # of no use where no variable of ours is set

    for name in sorted(os.environ):
        prefix, own = name[: len(PREFIX)], name[len(PREFIX) :]
        if prefix.upper() != PREFIX or (prefix == PREFIX and own in _KNOWN):
            continue
        if meant := get_close_matches(own.upper(), _KNOWN, 1, _ALIKE):
            complain(f"{name} is not known and does nothing: is {PREFIX}{meant[0]} meant?")


def switch(name: str, *words: str) -> Any:
    """True, False, one of the words that it may also be, or None where the variable is not set or
    makes no sense.
    """
    text = os.environ.get(name)
    if text is None:
        return None
    given = text.strip().lower()
    if given in _OFF:
        return False
    if given in _ON:
        return True
    if given in words:
        return given
    complain(f"{name}={text!r} is ignored: say {', '.join(['1', *words])} or 0")
    return None


def number(
    name: str, kind: Callable[[str], Any], least: Any, what: str, below: float = 2**63
) -> Any:
    """The variable as a number, or None where it is not set or makes no sense."""
    text = os.environ.get(name)
    if not text:
        return None
    try:
        value = kind(text)
        if not least <= value < below:
            raise ValueError
    except ValueError:
        complain(f"{name}={text!r} is ignored: it should be {what}")
        return None
    return value
