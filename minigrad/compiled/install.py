"""Installs compiled forwards in front of the ops' own while the switch is on."""

import importlib
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from ..backends import image_layout
from ..backends.window_kernels import use_compiled
from ..custom.rule_variants import add_to_rules, remove_from_rules
from ..custom.variants import Variant, add, remove
from ..engine.registry import op
from ..fusion import launch as fusion_launch
from ..fusion import rules

ROOMS = "rows norms pooling depthwise".split()  # modules that register kernels
LEAST = 1 << 15  # elements: for fewer, NumPy is about as fast as finding a loop
_joint_rules: dict[str, Callable] = {}
_forwards: dict[str, tuple[Callable, int | None]] = {}
_launching: set[str] = set()  # ops whose forward computes by fusion/launch.py
_installed: list[tuple[Callable, Any, Variant]] = []  # (removing function, op, variant)


def on_host(name: str, least: int | None = None, launches: bool = False) -> Callable:
    """Decorator: the compiled forward of an op; a result None means: use the op's own.

    least     elements that one of the arrays must have; None: LEAST
    launches  it computes by fusion/launch.py
    """

    def add(fn: Callable) -> Callable:
        _forwards[name] = fn, least
        if launches:
            _launching.add(name)
        return fn

    return add


def vjp_on_host(name: str) -> Callable:
    """Decorator: all contributions of an op at once, fn(plan, values); values are (g, *saved).

    This is for ops where one pass gives several gradients. A result None means: use the op's own
    rules.
    """

    def add(fn: Callable) -> Callable:
        _joint_rules[name] = fn
        return fn

    return add


def own_code() -> set[str]:
    """The names of the ops with hand-written compiled code."""
    for name in [*ROOMS, "elements"]:
        importlib.import_module(f"{__package__}.{name}")
    return {*_forwards, *_joint_rules}


def install() -> None:
    """Install the compiled forwards of ops, and the compiled rules of a backward."""
    own_code()
    elements = importlib.import_module(f"{__package__}.elements")
    for entry in rules.elementwise_ops():
        _put_in_front(entry, partial(rules.fused_forward, entry), LEAST, True, "loop")
    _put_in_front_of_rules(None, elements.contributions_of, True)
    for name, (fn, least) in _forwards.items():
        least = LEAST if least is None else least
        _put_in_front(getattr(op, name), fn, least, name in _launching)
    for name, fn in _joint_rules.items():
        _put_in_front_of_rules(getattr(op, name), fn)
    fusion_launch.host = importlib.import_module(f"{__package__}.launch")
    columns, winograd = (
        importlib.import_module(f"{__package__}.{name}") for name in ("columns", "winograd")
    )
    kernels = {"columns": columns.columns, "fold": columns.fold, "winograd": winograd.transforms}
    use_compiled(SimpleNamespace(**kernels))
    image_layout.choose(False)


def uninstall() -> None:
    """Remove them all: calls then take the same instructions as before."""
    fusion_launch.host = None
    use_compiled(None)
    image_layout.choose(True)
    while _installed:  # an entry leaves the list last: Ctrl-C may come earlier
        take_away, entry, variant = _installed[-1]
        take_away(entry, variant)
        _installed.pop()


def _put_in_front(entry: Any, fn: Callable, least: int, launches: bool, name: str = "") -> None:
    variant = Variant(fn, "cpu", least=least, name=name, launches=launches)
    _installed.append((remove, entry, variant))
    add(entry, variant)


def _put_in_front_of_rules(entry: Any, fn: Callable, launches: bool = False) -> None:
    variant = Variant(fn, "cpu", least=LEAST, name="loop of the rules", launches=launches)
    _installed.append((remove_from_rules, entry, variant))
    add_to_rules(entry, variant)
