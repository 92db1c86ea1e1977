"""Packages that minigrad can do without, imported at their first use.

SciPy alone takes as long to import as NumPy and minigrad together.
"""

from functools import cache
from importlib import import_module
from types import ModuleType


@cache
def optional(name: str) -> ModuleType | None:
    """The module of that name; None where it is not installed (the extra `full` brings it)."""
    try:
        return import_module(name)
    except ImportError:
        return None
