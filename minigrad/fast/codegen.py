"""The two functions of a plan, `save` and `vjp`, as Python source generated for one op.

CPython specialises bytecode for the types it meets: each plan therefore gets its own code.
Generated code also needs no loop over rules, no look-up of names and no check that could be made
earlier. Small calls gain by that. For large arrays `vjp` calls a BlockedVjp (blocked_vjp.py), which
runs the op's own rules, and compiles nothing.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ..backends.blocks import NOTABLE
from ..backends.device import array_module
from ..backends.source import UNNAMED, compiled, in_tuple
from ..engine import rule as seam
from ..engine.graph import raw
from ..engine.rule import BEHIND, Rule, needed
from .blocked_vjp import FREE, BlockedVjp


def generate_save(
    op: Any, slots: list[int], names: tuple[str, ...], file: str = UNNAMED
) -> Callable:
    """The function `save` of a plan. For a @ b, where both need a gradient, it is

        def save(arrays, params, residuals, pattern):
            [v0, v1, y] = arrays
            return (v1, v0.shape, v0, v1.shape)

    and a static parameter is params.get("axis", default_axis).
    """
    inputs = "*arrays" if op.variadic else ", ".join([f"v{i}" for i in range(op.arity)])
    lines = [
        "def save(arrays, params, residuals, pattern):",
        f" [{inputs}, y] = arrays",
        f" return {saved_values(op, slots, names)}",
    ]
    return compiled("save", lines, known_to_save(op), file)


_KNOWN: dict[str, Any] = {"array_module": array_module, "raw": raw, "shape_of": np.shape}
_KNOWN["behind_of"] = lambda xs: seam.outside.values(xs)
_KNOWN["first"] = lambda y: y[0] if isinstance(y, tuple) else y


def known_to_save(op: Any) -> dict[str, Any]:
    """The global names in `saved_values`."""
    return _KNOWN | {f"default_{name}": value for name, value in op.defaults.items()}


def saved_values(op: Any, slots: list[int], names: tuple[str, ...]) -> str:
    """The source of the tuple that is saved, from inputs v0, v1 … (`arrays`, if variadic) and y."""
    value = {"y": "y", "xp": "array_module(raw(first(y)))"}
    value[BEHIND] = f"behind_of({in_tuple([f'v{i}' for i in range(op.arity)] or ['arrays'])})"
    for i, name in enumerate(op.residuals):
        value[name] = f"residuals[{i}]"
    for name in op.defaults:
        value[name] = f"params.get({name!r}, default_{name})"
    if op.variadic:
        (name,) = op.arrays
        value[name] = "tuple(arrays)"
        value[f"{name}_shape"] = "[shape_of(x) for x in arrays]"
        value["needs"] = "[pattern >> i & 1 == 1 for i in range(len(arrays))]"
    else:
        for i, name in enumerate(op.arrays):
            value[name] = f"v{i}"
            # an input that needs a gradient is an array; the others may be Python numbers
            sure = i in slots
            value[f"{name}_shape"] = f"v{i}.shape" if sure else f"shape_of(v{i})"
        value["needs"] = str([i in slots for i in range(op.arity)])
    return in_tuple([value[name] for name in names])


def generate_vjp(
    op: Any,
    rules: list[Rule | None],
    shortcut: tuple | None,
    names: tuple[str, ...],
    file: str = UNNAMED,
) -> tuple[Callable, Callable | None]:
    """(vjp, blocked_vjp) of a plan, generated for this op.

    For a * b, whose rules are da = lambda b: b and db = lambda a: a, it is

        def vjp(g, saved):
            [v0, v1] = saved
            if g.dtype.kind == "c":
                g = g.conj()
                return [multiply(g, v0).conj(), multiply(g, v1).conj()]
            if g.size >= NOTABLE:
                return blocked_vjp(g, [v0, v1])
            return [g * v0, g * v1]

    A rule with a computation appears as rule0(v0, …) instead of v0, and a missing rule as None. A
    shortcut for the inputs 0 and 1 comes before the last line:

            several = shortcut(g, v0, v1)
            if several is not None:
                [c0, c1] = several
                return [c0, c1]

    The rows of the table give p·g, and the gradient of a real loss is conj(p)·g = conj(p·conj(g)):
    one row serves real and complex numbers. For large temporary arrays NumPy computes g * p as p *
    g, whose last bits differ where both are complex. multiply(g, p) keeps the order: the bits then
    do not depend on the size. A backward calls `vjp` once per node; looking up names there would
    cost more than most rules.
    """
    value = {"g": "g"} | {name: f"v{i}" for i, name in enumerate(names)}
    known: dict[str, Any] = {"needed": needed}
    saved = [value[name] for name in names]
    blocked_vjp = None
    calls, conjugates = ["None"] * len(rules), ["None"] * len(rules)
    for i, rule in enumerate(rules):
        if rule is None:
            continue
        known[f"rule{i}"] = rule.run
        given = [value[name] for name in rule.names]
        call = _in_words(op, rule, given) or f"rule{i}({', '.join(given)})"
        factor = f"({call})" if " / " in call else call
        calls[i] = f"g * {factor}" if rule.partial else call
        conjugates[i] = f"multiply(g, {call}).conj()" if rule.partial else f"({call}).conj()"
    lines = ["def vjp(g, saved):", f" [{', '.join(saved)}] = saved"]
    if op.joint is not None:
        lines.append(f" return needed({calls[0]}, {value['needs']})")
    else:
        if op.kind == "elementwise" and not op.outputs:
            lines.append(' if g.dtype.kind == "c":')
            lines.append("  g = g.conj()")
            lines.append(f"  return [{', '.join(conjugates)}]")
            known["multiply"] = np.multiply
            cut = not any(name.endswith("_shape") for name in names)  # a block has another shape
            if cut and not FREE.keys() >= {*calls}:
                blocked_vjp = BlockedVjp(rules, calls, names)
                known |= {"NOTABLE": NOTABLE, "blocked_vjp": blocked_vjp}
                lines.append(" if g.size >= NOTABLE:")
                lines.append(f"  return blocked_vjp(g, [{', '.join(saved)}])")
        if shortcut is not None:
            positions, rule = shortcut
            known["shortcut"] = rule.run
            given = ", ".join([value[name] for name in rule.names])
            found = {i: f"c{i}" for i in positions}
            lines.append(f" several = shortcut({given})")
            lines.append(" if several is not None:")
            lines.append(f"  [{', '.join(found.values())}] = several")
            lines.append(f"  return [{', '.join(found.get(i, c) for i, c in enumerate(calls))}]")
        lines.append(f" return [{', '.join(calls)}]")
    return compiled("vjp", lines, known, file), blocked_vjp


class _Word:
    """A stand-in for an array, with a name: arithmetic with it writes source."""

    __slots__ = ("text",)
    __array_ufunc__ = None

    def __init__(self, text: str):
        self.text = text

    def __neg__(self) -> "_Word":
        return _Word(f"-{self.text}")

    def __truediv__(self, other: Any) -> "_Word":
        if type(other) is not _Word or " " in self.text + other.text:
            return NotImplemented
        return _Word(f"{self.text} / {other.text}")

    def __bool__(self) -> bool:
        raise TypeError("a rule's stand-in for an array has no truth value")

    __eq__ = __ne__ = __hash__ = __bool__  # type: ignore[assignment]


def _in_words(op: Any, rule: Rule, given: list[str]) -> str | None:
    """The source of the result of a rule like `lambda b: b` or `lambda g, b: g / b`; else None.

    The rule is called once, with `_Word`s for its arguments. One call is enough for a rule that
    reads only arrays that always exist, and no other name: no call, no attribute, hence no side
    effect.
    """
    always = {"g", "y", *op.arrays} - op.optional
    if op.variadic or op.outputs or not always.issuperset(rule.names):
        return None
    if type(rule.fn) is not FunctionType or rule.fn.__code__.co_names or rule.fn.__closure__:
        return None
    try:
        found = rule.fn(*map(_Word, given))
    except Exception:  # arithmetic that a word lacks, or an error raised by the rule
        return None
    return found.text if type(found) is _Word else None
