"""Reading one environment variable: a value that makes no sense costs one line, never an error."""

import os
import sys
from collections.abc import Callable
from typing import Any

_OFF = ("", "0", "false", "no", "off")
_ON = ("1", "true", "yes", "on")


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
