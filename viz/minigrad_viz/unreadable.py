"""The fault of a file that is no graph dump, in a few words."""

from __future__ import annotations

import json
from typing import Any

from minigrad_viz.escape import shown

_EVENTS = '"minigrad.events"'
_OTHER_TOOL = "it is an event log, which minigrad-profile view shows"


def not_whole(error: Exception, data: bytes | bytearray) -> str:
    """Why json.loads(data) ended in `error`."""
    if not data.strip():
        return "it is empty"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    if _EVENTS.encode() in data[:200]:  # JSON lines, of which the first is a header
        return _OTHER_TOOL
    if isinstance(error, json.JSONDecodeError) and error.pos >= len(error.doc.rstrip()):
        return f"cut off at byte {len(data):,}"
    return shown(str(error), 120)


def not_a_graph(document: Any, wanted: str) -> str:
    """The kind of a JSON document without that format, as far as it is known."""
    if isinstance(document, dict) and document.get("format") == _EVENTS.strip('"'):
        return _OTHER_TOOL
    if isinstance(document, dict) and "traceEvents" in document:
        return "it is a Chrome trace, which ui.perfetto.dev shows"
    return f'no "format": "{wanted}" at the top'
