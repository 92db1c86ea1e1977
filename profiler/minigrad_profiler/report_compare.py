"""The comparison of engines in the report: from the JSON of `minigrad-profile compare --save`."""

import math
from typing import Any

from minigrad.errors import FormatError
from minigrad.instrument.formats import parse_json
from minigrad.instrument.reading import opened

from .report_log import inert

_MOST_BYTES = 256 << 20
_MOST_BARS = 20_000  # of all runs together
_MOST = 100  # ways, runs, losses


def comparison(path: str) -> dict[str, Any]:
    """The page's part on a comparison; FormatError if the file is not a comparison."""
    try:
        with opened(path) as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from None
    if len(content) > _MOST_BYTES:
        raise FormatError(f"{path}: larger than {_MOST_BYTES:,} bytes")
    document = parse_json(content, path)
    try:
        return _shown(document)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
        raise FormatError(
            f"{path}: no comparison; make one with minigrad-profile compare --save FILE.json"
        ) from None


def _shown(document: Any) -> dict[str, Any]:
    runs = document["runs"][:_MOST]
    shortest, count = 0.0, sum(len(run["bars"]) for run in runs)
    if count > _MOST_BARS:
        spent = sorted(
            _finite(bar["end"]) - _finite(bar["start"]) for r in runs for bar in r["bars"]
        )
        shortest = spent[-_MOST_BARS]
    bounds = document["bounds"]
    return {
        "verdict": inert(str(document["verdict"]), 300),
        "limit": inert(str(document.get("limit", "")), 400),
        "work": _finite(document["work"]),
        "span": _finite(document["span"]),
        "parallelism": _finite(document["parallelism"]),
        "bars": count,
        "shortest": shortest,
        "ways": [_way(way) for way in document["ways"][:_MOST]],
        "runs": [_run(run, bounds.get(str(run["workers"])), shortest) for run in runs],
    }


def _way(way: dict[str, Any]) -> dict[str, Any]:
    low, high = map(_finite, way["quartiles"])
    return {
        "name": inert(way["name"], 60), "median": _finite(way["median"]), "low": low, "high": high,
        "same_bits": bool(way["same_bits"]), "off": _finite(way["largest_difference"]),
    }  # fmt: skip


def _run(run: dict[str, Any], bounds: Any, shortest: float) -> dict[str, Any]:
    bars = [
        [_whole(bar["lane"]), inert(bar["op"], 60), _whole(bar["node"]), _finite(bar["start"]),
         _finite(bar["end"]), bool(bar["critical"])]
        for bar in run["bars"]
        if bar["end"] - bar["start"] >= shortest
    ]  # fmt: skip
    return {
        "name": inert(run["name"], 60), "workers": _whole(run["workers"]),
        "length": _finite(run["length"]), "bars": bars[:_MOST_BARS],
        "losses": {inert(k, 40): _finite(v) for k, v in list(run["losses"].items())[:_MOST]},
        "bounds": None if bounds is None else [_finite(bounds[0]), _finite(bounds[1])],
    }  # fmt: skip


def _finite(value: Any) -> float:
    value = float(value)
    if not math.isfinite(value):
        raise ValueError("not finite")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError("no integer")
    return value
