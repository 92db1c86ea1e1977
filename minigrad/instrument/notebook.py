"""The forms in which a notebook shows things: pictures by the viewer, tables as text.

Pictures need the viewer (minigrad_viz); where it is not installed there are none. Nothing here
raises: a notebook that fails while it prints a value hides the value.
"""

import html
import importlib
from typing import Any


def viewer_forms(graph: Any, *kinds: str, **how: Any) -> dict[str, str]:
    """The viewer's output for a dump, by MIME type (all, or these); {} where it is missing."""
    try:
        shown = importlib.import_module("minigrad_viz").show(graph, **how)
        return shown._repr_mimebundle_(include=kinds or None)
    except Exception:
        return {}


def bundle_of_text(text: str) -> dict[str, str]:
    """A table as a notebook shows it: in the terminal's own columns."""
    return {"text/plain": text, "text/html": f"<pre>{html.escape(text)}</pre>"}
