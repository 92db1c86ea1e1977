"""Docstrings list their arguments in two columns; a page shows such lines as a list."""

import re

_ENTRY = re.compile(r"^(?P<names>\w[\w., ]*?)\s{2,}(?P<text>\S.*)$")


def listed(text: str) -> str:
    """The text with lines of the form `name   what it is` (and what is indented below) as items."""
    lines, item = [], False
    for line in text.splitlines():
        entry = _ENTRY.match(line)
        if entry:
            lines += [] if item else [""]
            names = ", ".join(f"`{name.strip()}`" for name in entry["names"].split(","))
            lines.append(f"- {names}: {entry['text']}")
            item = True
        elif item and line.startswith(" ") and line.strip():
            lines.append(f"  {line.strip()}")
        else:
            lines += ["", line] if item and line.strip() else [line]
            item = False
    return "\n".join(lines)
