"""The engines that must give the same bits: each runs a backward of recorded results.

An engine here is a function (leaves, results, cotangents) -> gradients as arrays. Those that this
version of minigrad does not have are named in `missing`.
"""

import inspect
from collections.abc import Callable

from ..engine import api
from .function import pulled_back

Engine = Callable[..., list]


def available() -> tuple[dict[str, Engine], list[str]]:
    """({name: engine}, names of those that are not there)."""
    engines: dict[str, Engine] = {"serial": pulled_back}
    missing = []
    options = inspect.signature(api.grad).parameters
    if "engine" in options:
        engines["tape"] = _with(engine="tape")
        for workers in (1, 2, 4, 8):
            engines[f"{workers} workers"] = _with(engine="parallel", workers=workers)
    else:
        missing += ["tape", "parallel"]
    return engines, missing


def _with(**options: object) -> Engine:
    return lambda leaves, ys, vs: pulled_back(leaves, ys, vs, **options)
