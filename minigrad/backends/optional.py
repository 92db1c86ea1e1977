"""Optional packages, imported at their first use.

SciPy alone takes as long to import as NumPy and minigrad together.
"""

import os
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

_OFF = ("", "0", "false", "no", "off")


@cache
def optional(name: str) -> ModuleType | None:
    """The module of that name; None if it is not installed (the extra `full` installs it)."""
    try:
        return import_module(name)
    except ImportError:
        return None


def wanted(layer: str) -> bool:
    """Whether minigrad/<layer> is imported: it exists, and MINIGRAD_PLAIN is not set."""
    plain = os.environ.get("MINIGRAD_PLAIN", "0").strip().lower() not in _OFF
    here = [str(Path(__file__).parents[1])]  # not in the folders of an editable install
    return not plain and PathFinder.find_spec(f"minigrad.{layer}", here) is not None
