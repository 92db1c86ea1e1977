"""Seam C, of the rules: variants of them, for which the op's own rules stay the reference.

A variant of a node computes all its contributions at once. Several rules may read the same arrays,
or each be a few NumPy calls: one loop or kernel in their place reads memory once. Such a variant is
one of custom/variants.py, whose function is fn(plan, values) -> contributions, or None for "not
this call"; values are (g, *saved). Where no variant takes a node, the op's rules run.

A variant of one rule is a rule itself, which asks by name for what it reads:

    @vjp_variant(softmax, "x")
    def softmax_gx_in_place(g, y, axis): ...
"""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from ..backends.device import kind_of
from ..backends.leaving import contextmanager
from ..engine import backward
from ..engine.rule import Rule, argument_names
from .variants import Variant, Variants, unbounded

_by_device: dict[str, dict[Any, tuple[Variant, ...]]] = {}  # kind of device -> op -> its variants


def add_to_rules(op: Any, variant: Variant) -> None:
    """Put a variant of the op's rules before the others for its device.

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


class VjpVariant(Variant):
    """A rule that is asked before an op's own ones; None as its result leaves the call to them.

    inputs   whose rule it is, as op.vjp is given them: none for a joint one, several for a shortcut
    devices  whose arrays it takes
    always   it leaves no call: it is the op's rule itself, and nothing is counted
    """

    def __init__(
        self, op: Any, inputs: tuple[str, ...], fn: Callable, name: str, devices: tuple,
        always: bool = False, least: int = 0,
    ):  # fmt: skip
        super().__init__(fn, devices[0], least=least, name=name)
        self.op, self.inputs, self.devices, self.always = op, inputs, devices, always
        table, key = self._at()
        self.own: Any = table.get(key) if inputs else op.joint or dict(op.rules)

    def install(self, counted: bool = False) -> None:
        """Put it before the op's own rules. counted: also one that leaves no call."""
        if self.always and not counted:
            self.fn.in_front = self  # type: ignore[attr-defined]
            self.op.vjp(*self.inputs)(self.fn)
            return
        names = argument_names(self.fn)

        @wraps(self.fn)
        def run(*values: Any) -> Any:
            found = self.fn(*values)
            if found is None:
                return self._by_own_rules(dict(zip(names, values, strict=True)))
            self.calls += 1
            return found

        run.in_front = self  # type: ignore[attr-defined]
        self.op.vjp(*self.inputs)(run)

    def uninstall(self) -> None:
        """Give the op its own rules back."""
        table, key = self._at()
        if not self.inputs:
            self.op.joint = self.own if isinstance(self.own, Rule) else None
        elif self.own is None:
            table.pop(key)
        else:
            table[key] = self.own
        self.op.plans.clear()

    def _at(self) -> tuple[dict, Any]:
        if len(self.inputs) == 1:
            return self.op.rules, self.inputs[0]
        return self.op.shortcuts, self.inputs

    def _by_own_rules(self, known: dict[str, Any]) -> Any:
        own = self.own
        if not isinstance(own, dict):
            return own and own.apply(known)
        each = zip(self.op.arrays, known["needs"], strict=True)
        return [own[name].apply(known) if need else None for name, need in each]


def vjp_variant(
    op: Any, *inputs: str, name: str = "rules in place", on: tuple[str, ...] = ("cpu", "cuda"),
    always: bool = False, least: int = 0,
) -> Callable:  # fmt: skip
    """Decorator: a rule tried before the op's own for these inputs, as in @op.vjp(*inputs).

    It asks by name for all that the own rules ask for; where it returns None these run. One that
    never does is `always` the rule: in a small backward the question would be seen. least: elements
    below which it returns None, so that K34 compares it among so many.
    """

    def add(fn: Callable) -> Callable:
        VjpVariant(op, inputs, fn, name, on, always, least).install()
        return fn

    return add


def listed_of_rules(op: Any) -> tuple[Variant, ...]:
    """The variants of an op's rules, in the order in which they are asked, on any device."""
    return (*[v for known in _by_device.values() for v in _of(op, known)], *_in_front_of(op))


def _in_front_of(op: Any) -> list[VjpVariant]:
    rules = (op.joint, *op.rules.values(), *op.shortcuts.values())
    return [rule.fn.in_front for rule in rules if hasattr(getattr(rule, "fn", None), "in_front")]


@contextmanager
def own_rules(op: Any, variant: Variant | None = None) -> Iterator[None]:
    """The op's own rules alone, or with this one variant of them; other ops have none of nodes."""
    tables: list[Any] = [_by_device, backward.vjps, backward.rule_runners]
    before, in_front = [dict(table) for table in tables], _in_front_of(op)
    for table in tables:
        table.clear()
    for other in in_front:
        other.uninstall()
    try:
        if isinstance(variant, VjpVariant):
            variant.install(counted=True)
        elif variant is not None:
            add_to_rules(op, variant)
        yield
    finally:
        if isinstance(variant, VjpVariant):
            variant.uninstall()
        for other in reversed(in_front):
            other.install()
        for table, entries in zip(tables, before):
            table.clear()
            table.update(entries)


def _of(op: Any, known: dict) -> tuple[Variant, ...]:
    """The variants of an op's rules, in their order, among those known for one kind of device."""
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
    elif any(g.array.size >= v.least for v in _of(plan.op, _by_device.get(kind_of(g.array), {}))):
        return g.trace.call("call", lambda *given: run_rules(plan, given), values, {}, plan.op.name)
    else:
        found = None
    return plan.apply_rules(values) if found is None else found


def _by_variant(plan: Any, g: Any, saved: Any) -> list | None:
    if type(g) in (tuple, list):  # of an op with several results
        return None
    for variant in _of(plan.op, _by_device.get(kind_of(g), {})):
        if g.size >= variant.least or unbounded and variant.is_unbounded():
            found = variant.fn(plan, (g, *saved))
            if found is not None:
                variant.calls += 1
                return found
    return None
