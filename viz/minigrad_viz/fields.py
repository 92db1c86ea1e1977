"""Fields of a `minigrad.graph` file: each kind of value is checked here, for reader.py.

A kind takes a raw value and gives the checked one, or raises TypeError with what was expected.
`field` and `optional` look a key up, apply a kind, and tell where in the dump a wrong value is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minigrad_viz.errors import ViewerError
from minigrad_viz.escape import shown
from minigrad_viz.graph import Array, Check, Gradient, Histogram, Numbers, Site

_LONGEST_TEXT = 4096  # of a text kept in memory; writers cut further
_LARGEST = 2**63 - 1
_MOST_NUMBERS = 16
_MOST_BINS = 64
_VERDICTS = ("right", "wrong", "unsure", "skipped")
_NOT_FINITE = ("nan", "inf", "-inf")


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST


def is_count(value: Any) -> bool:
    return is_whole(value) and value >= 0


def whole(value: Any) -> int:
    if not is_whole(value):
        raise TypeError("an integer")
    return value


def count(value: Any) -> int:
    if not is_count(value):
        raise TypeError("an integer from 0 on")
    return value


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number")
    return float(min(max(value, -_LARGEST), _LARGEST)) if isinstance(value, int) else value


def truth(value: Any) -> bool:
    """A boolean."""
    if not isinstance(value, bool):
        raise TypeError("true or false")
    return value


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text")
    return value if len(value) <= _LONGEST_TEXT else value[: _LONGEST_TEXT - 1] + "…"


def numbers(value: Any) -> Numbers:
    if not isinstance(value, list) or len(value) > _MOST_NUMBERS:
        raise TypeError(f"a list of at most {_MOST_NUMBERS} numbers")
    return tuple([item if item in _NOT_FINITE else _finite_or_word(item) for item in value])


def _finite_or_word(value: Any) -> float | str:
    found = number(value)
    return found if math.isfinite(found) else str(found)


def gradient(value: Any) -> Gradient:
    if not isinstance(value, dict):
        raise TypeError("an object with grad_norm and nonfinite")
    return Gradient(
        norm=optional(value, "grad_norm", number, None, "a gradient"),
        nonfinite=optional(value, "nonfinite", text, None, "a gradient"),
        values=optional(value, "values", numbers, None, "a gradient"),
        histogram=optional(value, "histogram", histogram, None, "a gradient"),
    )


def histogram(value: Any) -> Histogram:
    counts = value.get("counts") if isinstance(value, dict) else None
    if not isinstance(counts, list) or len(counts) > _MOST_BINS or not all(map(is_count, counts)):
        raise TypeError(f"an object with least, most and counts of at most {_MOST_BINS} bins")
    return Histogram(
        least=field(value, "least", number, "a histogram"),
        most=field(value, "most", number, "a histogram"),
        counts=tuple(counts),
    )


def check(value: Any) -> Check:
    if not isinstance(value, dict) or value.get("verdict") not in _VERDICTS:
        raise TypeError(f"an object with a verdict, one of {', '.join(_VERDICTS)}")
    return Check(
        verdict=value["verdict"],
        error=optional(value, "error", number, None, "a check"),
        tolerance=optional(value, "tolerance", number, None, "a check"),
        why=optional(value, "why", text, "", "a check"),
    )


def texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise TypeError("an object of texts")
    return {text(key): text(v) for key, v in value.items()}


def site(value: Any) -> Site:
    if not isinstance(value, dict):
        raise TypeError("an object with file, line and function")
    return Site(
        file=field(value, "file", text, "a site"),
        line=field(value, "line", count, "a site"),
        function=optional(value, "function", text, "", "a site"),
        text=optional(value, "text", text, "", "a site"),
    )


def arrays(value: Any) -> tuple[Array, ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise TypeError("a list of objects")
    return tuple(array(item, "an array") for item in value)


def array(record: dict, where: str) -> Array:
    shape = record.get("shape")
    if not isinstance(shape, list) or len(shape) > 64 or not all(map(is_count, shape)):
        raise wrong(where, '"shape"', "a list of integers", shape)
    return Array(
        shape=tuple(shape),
        dtype=field(record, "dtype", text, where),
        bytes=optional(record, "bytes", count, 0, where),
        name=optional(record, "name", text, "", where),
        buffer=optional(record, "buffer", count, None, where),
    )


def field(record: dict, key: str, kind: Callable[[Any], Any], where: str) -> Any:
    if key not in record:
        raise ViewerError(f'{where}: "{key}" is missing')
    try:
        return kind(record[key])
    except TypeError as expected:
        raise wrong(where, f'"{key}"', str(expected), record[key]) from None


def optional(record: dict, key: str, kind: Callable[[Any], Any], default: Any, where: str) -> Any:
    return default if record.get(key) is None else field(record, key, kind, where)


def list_field(document: dict, key: str) -> list:
    value = document.get(key)
    if not isinstance(value, list):
        raise wrong("the dump", f'"{key}"', "a list", value)
    return value


def wrong(where: str, what: str, expected: str, found: Any) -> ViewerError:
    return ViewerError(f"{where}: {what} should be {expected}, found {described(found)}")


def described(found: Any) -> str:
    """A short word for a wrong value; a container is named, never printed: it may be huge."""
    if isinstance(found, list | dict):
        return "a list" if isinstance(found, list) else "an object"
    return "nothing" if found is None else shown(repr(found)[:400], 40)
