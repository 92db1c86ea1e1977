"""Seam E: help in errors. The engine says what failed and for which call; courtesy/ explains more.

Each name here has a plain form. courtesy/ replaces them by better ones (`install`), and minigrad
imports courtesy/ first, before any module that imports these names. Without courtesy/ errors keep
their classes, and a note of the call replaces the explanation. tensor_api/help.py has the same for
functions that call the engine.
"""

from collections.abc import Callable
from typing import Any

from ..backends.device import as_operand
from .errors import call_text, refuse_left_behind


def explain(error: Exception, op: Any, args: tuple, params: dict) -> Exception:
    """The error of a call of an op, as the doorway raises it: with a note of the innermost call."""
    refuse_left_behind(op, args)
    if not getattr(error, "explained", False):
        error.add_note(f"in {call_text(op, args, params)}")
        error.explained = True  # type: ignore[attr-defined]
    return error


def operand(x: Any, op: Any, args: tuple, params: dict) -> Any:
    """An argument that is not a tensor, as a plain array of numbers."""
    try:
        return as_operand(x)
    except (TypeError, ValueError) as error:
        raise explain(error, op, args, params) from None


def signature_error(
    error: TypeError, fn: Callable, args: tuple, given: dict, called: str = ""
) -> TypeError:
    """The error of a call fn(*args, **given) that does not fit its signature."""
    return error


def held(called: str, name: str, value: Any, kind: Any) -> None:
    """A look at an option that is not of its kind, where NumPy would take anything in silence."""


def install(**better: Any) -> None:
    """Put these in the places of the names above."""
    globals().update(better)
