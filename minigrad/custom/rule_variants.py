"""Seam C, of the rules: variants that compute all contributions of an op's node at once.

Several rules may read the same arrays, or each be a few NumPy calls: one loop or kernel in their
place reads memory once. Such a variant is one of custom/variants.py, whose function is
fn(plan, values) -> contributions, or None for "not this call"; values are (g, *saved). Where no
variant takes a node, the op's rules run.
"""

from typing import Any

from ..backends import device as devices
from ..backends.device import device_of
from ..engine import backward
from .variants import Variant, Variants

_by_device: dict[str, dict[Any, tuple[Variant, ...]]] = {}  # kind of device -> op -> its variants


def add_to_rules(op: Any, variant: Variant) -> None:
    """Put a variant of the op's rules in front of the others for its device.

    op   None: every elementwise op with one result, also those that are defined later
    """
    kind = variant.on
    known = _by_device.setdefault(kind, {})
    known[op] = (variant, *known.get(op, ()))
    if kind not in backward.vjps:
        backward.vjps[kind], backward.rule_runners[kind] = _vjp, run_rules


def remove_from_rules(op: Any, variant: Variant) -> None:
    """Take it away, if it is there; with the last one the device costs a backward nothing more."""
    known = _by_device.get(variant.on, {})
    known[op] = tuple([v for v in known.get(op, ()) if v is not variant])
    if not known[op]:
        del known[op]
    if not known:
        backward.vjps.pop(variant.on, None)
        backward.rule_runners.pop(variant.on, None)


def listed_of_rules(op: Any) -> tuple[Variant, ...]:
    """The variants of an op's rules, in the order in which they are asked, on any device."""
    return tuple([v for known in _by_device.values() for v in _of(op, known)])


def _of(op: Any, known: dict) -> tuple[Variant, ...]:
    found = known.get(op)
    if found is None and op.kind == "elementwise" and not op.outputs:
        found = known.get(None)
    return found or ()


def _vjp(node: Any, g: Any, plan: Any) -> list:
    """backward.array_vjp where some op has variants of its rules."""
    found = _by_variant(plan, g, node.saved)
    return plan.vjp(g, node.saved) if found is None else found


def run_rules(plan: Any, values: tuple) -> list:
    """The same from (g, *saved), of which a tape may follow the arrays."""
    g = values[0]
    if type(g) is not Variants.followed_array:
        found = _by_variant(plan, g, values[1:])
    elif any(g.array.size >= v.least for v in _asked(plan, g.array)):
        return g.trace.call("call", lambda *given: run_rules(plan, given), values, {}, plan.op.name)
    else:
        found = None
    return plan.apply_rules(values) if found is None else found


def _asked(plan: Any, g: Any) -> tuple[Variant, ...]:
    return _of(plan.op, _by_device.get(device_of(g).partition(":")[0], {}))


def _by_variant(plan: Any, g: Any, saved: Any) -> list | None:
    if type(g) in (tuple, list):  # of an op with several results
        return None
    if devices.several and hasattr(g, "device"):
        devices.require_current(device_of(g))
    for variant in _asked(plan, g):
        if g.size >= variant.least:
            found = variant.fn(plan, (g, *saved))
            if found is not None:
                variant.calls += 1
                return found
    return None
