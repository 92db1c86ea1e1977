"""Making names from a file inert. Every text that a writer emits passes through here.

`shown` makes a text fit to be looked at; the others quote it for one output language each.
"""

from __future__ import annotations

import html
import json
import math
import unicodedata

# Control, format (direction marks, zero-width), surrogate, private and unassigned characters, and
# line and paragraph separators: none has a glyph, and some change how the rest is read.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SPACES = frozenset("\t\n\v\f\r\x85\u2028\u2029")
_MERMAID_PLAIN = frozenset(" .,:/-_+=*·×…→−")


def shown(text: str, limit: int = 200, keep: str = "head") -> str:
    """`text` on one line, without characters that have no glyph, cut to `limit` with an ellipsis.

    `keep` is "head" or "tail": which end of a text that is too long is kept.
    """
    window = 4 * limit + 16
    cut = len(text) > window
    part = (text[:window] if keep == "head" else text[-window:]) if cut else text
    if not (part.isascii() and part.isprintable()):
        part = "".join(map(_glyph, part))
    part = " ".join(part.split())
    if len(part) <= limit and not cut:
        return part
    return part[: limit - 1] + "…" if keep == "head" else "…" + part[1 - limit :]


def _glyph(char: str) -> str:
    if char in _SPACES:
        return " "
    return "" if unicodedata.category(char) in _UNSEEN else char


def xml(text: str) -> str:
    """`text` as XML character data or the inside of a quoted attribute."""
    return html.escape(text, quote=True)


def dot_string(*lines: str) -> str:
    """A quoted DOT string of these lines; Graphviz reads escapes and entities inside one."""
    return '"' + "\\n".join(map(_dot_line, lines)) + '"'


def _dot_line(text: str) -> str:
    return text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')


def mermaid_string(text: str) -> str:
    """A quoted Mermaid label: all but plain letters and a few signs become entity codes."""
    return '"' + "".join(_mermaid_char(char) for char in text) + '"'


def _mermaid_char(char: str) -> str:
    return char if char.isalnum() or char in _MERMAID_PLAIN else f"#{ord(char)};"


def json_in_script(value: object) -> str:
    """JSON that may stand inside an HTML script element: no `<`, `>` or `&` in it."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def finite(value: float | None) -> float | None:
    """`value`, or None where JSON has no word for it (NaN, infinities)."""
    return value if value is not None and math.isfinite(value) else None
