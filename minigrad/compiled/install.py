"""Putting compiled forwards in front of the ops' own while the switch is on."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..custom.implementations import ByDevice
from ..engine import backward
from ..engine.registry import op
from ..fusion import launch as fusion_launch
from ..ops import image_layout
from ..ops.conv import tiles
from ..ops.windows import use_compiled
from ..tape.trace import Traced

ROOMS = "rows norms pooling depthwise".split()  # files of this package that register kernels
LEAST = 1 << 15  # elements: what is smaller NumPy does about as fast as a loop is found and called
joint_vjps: dict[str, Callable] = {}
_ndarray = np.ndarray
_forwards: dict[str, tuple[Callable, int | None]] = {}
_installed: list[tuple[Any, Callable, Callable]] = []  # op, what was put in front, of what


def on_host(name: str, least: int | None = None) -> Callable:
    """Decorator: the compiled forward of an op; None as a result means: the op's own, please.

    least   elements that one of the arrays must have; None: LEAST
    """

    def add(fn: Callable) -> Callable:
        _forwards[name] = fn, least
        return fn

    return add


def vjp_on_host(name: str) -> Callable:
    """Decorator: all contributions of an op at once, fn(plan, saved values by name, g).

    Where one pass gives several gradients. None as a result means: the op's own rules, please.
    """

    def add(fn: Callable) -> Callable:
        joint_vjps[name] = fn
        return fn

    return add


def own_code() -> set[str]:
    """The names of the ops that have compiled code beside that made of their words."""
    for name in [*ROOMS, "elements"]:
        importlib.import_module(f"{__package__}.{name}")
    return {*_forwards, *joint_vjps}


def install() -> None:
    """Give the ops their compiled forwards, and a backward its compiled rules."""
    own_code()
    elements = importlib.import_module(f"{__package__}.elements")
    for name, fn in elements.rows_of_the_table():
        _put_in_front(getattr(op, name), fn, None)
    for name, (fn, least) in _forwards.items():
        _put_in_front(getattr(op, name), fn, least)
    fusion_launch.host = importlib.import_module(f"{__package__}.launch")
    use_compiled(importlib.import_module(f"{__package__}.columns"))
    image_layout.choose(False)
    tiles.use_compiled(importlib.import_module(f"{__package__}.winograd").transforms)
    backward.vjps["cpu"], backward.rule_runners["cpu"] = elements.vjp, elements.apply_rules


def uninstall() -> None:
    """Give them back their own: not one instruction more than before."""
    fusion_launch.host = None
    use_compiled(None)
    image_layout.choose(True)
    tiles.use_compiled(None)
    backward.vjps.pop("cpu", None)
    backward.rule_runners.pop("cpu", None)
    while _installed:  # one is taken off the list when it is done: Ctrl-C may come before
        entry, front, plain = _installed[-1]
        if entry.forward is front:
            entry._set_forward(plain)
        elif isinstance(entry.forward, ByDevice) and entry.forward.general is front:
            entry.forward.general = plain  # it was given one for a device meanwhile
        _installed.pop()


def _put_in_front(entry: Any, fn: Callable, least: int | None) -> None:
    plain, least = entry.forward, LEAST if least is None else least
    if isinstance(plain, ByDevice) and "cpu" in plain.table:
        return  # a user's own implementation

    def forward(*arrays: Any, **params: Any) -> Any:
        for x in arrays:
            if type(x) is _ndarray and x.size >= least:
                y = fn(*arrays, **params)
                if y is not None:
                    return y
                break
            if type(x) is Traced and x.array.size >= least:  # a tape's: a replay makes this call
                return x.trace.call("call", forward, arrays, params, entry.name)
        return plain(*arrays, **params)

    forward.__doc__ = plain.__doc__
    _installed.append((entry, forward, plain))
    entry._set_forward(forward)
