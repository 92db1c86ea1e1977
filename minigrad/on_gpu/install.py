"""Giving the ops their forwards for a GPU, once."""

import importlib
from collections.abc import Callable
from typing import Any

from ..engine import backward
from ..engine.registry import op
from ..fusion.rules import fused_vjp, run_fused_rules

_ROOMS = "attention convolution dropout losses norms optimizers pooling products rows".split()
_installed: set[str] = set()
forwards: dict[str, Callable] = {}


def on_gpu(name: str) -> Callable:
    """Decorator: the forward of an op for a GPU; None as a result means: the op's own, please.

    The function gets the op's own arguments, static ones by name.
    """

    def add(fn: Callable) -> Callable:
        forwards[name] = fn
        return fn

    return add


def install() -> None:
    """Give the ops their kernels."""
    if _installed:
        return
    _installed.add("cuda")
    for name in _ROOMS:
        importlib.import_module(f"{__package__}.{name}")
    importlib.import_module(f"{__package__}.elements").install()
    for name, fn in forwards.items():
        entry = getattr(op, name)
        entry.implementation("cuda")(_with_fallback(fn, entry.forward))
    backward.vjps["cuda"], backward.rule_runners["cuda"] = fused_vjp, run_fused_rules


def _with_fallback(fn: Callable, plain: Callable) -> Callable:
    def forward(*arrays: Any, **params: Any) -> Any:
        y = fn(*arrays, **params)
        return plain(*arrays, **params) if y is None else y

    return forward
