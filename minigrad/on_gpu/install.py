"""Installs the ops' forwards for a GPU, once."""

import importlib
from collections.abc import Callable

from ..custom.variants import Variant, add
from ..engine.registry import op

_ROOMS = "attention convolution dropout heads losses norms optimizers pooling products rows".split()
_installed: set[str] = set()
forwards: dict[str, Callable] = {}


def on_gpu(name: str) -> Callable:
    """Decorator: the forward of an op for a GPU; where it returns None, the op's own forward runs.

    The function gets the op's own arguments, static ones as keywords.
    """

    def add(fn: Callable) -> Callable:
        forwards[name] = fn
        return fn

    return add


def install() -> None:
    """Add the kernels to the ops, at the first call only."""
    if _installed:
        return
    _installed.add("cuda")
    for name in _ROOMS:
        importlib.import_module(f"{__package__}.{name}")
    importlib.import_module(f"{__package__}.elements").install()
    for name, fn in forwards.items():
        add(getattr(op, name), Variant(fn, "cuda"))
