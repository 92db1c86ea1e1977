"""What one call must save and how its rules are fed: worked out once per op and input pattern.

The signature is the save list. A rule asks by name for what it needs:

- an input's name, for that input; a `*arrays` op's name, for the list of them
- `y`           the result (a tuple where the op has several outputs)
- `g`           the cotangent of the result (a list, None where an output was not used)
- a residual's name, for something else that the forward returned
- `<input>_shape`, for a shape alone
- a static parameter's name
- `xp`          the array module of the result
- `needs`       in a joint rule: which inputs need a gradient
"""

import linecache
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ..backends.device import array_module
from .caches import report, size_of_value
from .errors import RuleError, describe
from .graph import Node, port_of
from .piecewise import NOTABLE, piecewise
from .registry import op as registry
from .saving import Deferred
from .tensor import raw


class Rule:
    """A derivative function and the names it asks for. A partial is multiplied by g afterwards."""

    __slots__ = ("fn", "names", "partial")

    def __init__(self, fn: Callable, names: tuple[str, ...], partial: bool = False):
        self.fn = fn
        self.names = names
        self.partial = partial


class Plan:
    """For one op and one pattern of inputs that need gradients: what to save, how to pull back.

    names    what `Node.saved` holds, in order
    save     (arrays, params, residuals, pattern) -> the saved values, arrays being [*inputs, y];
             None where nothing is saved
    pull     (g, saved) -> one contribution per needed input: the rules, fed and put side by side
    pull_large   (g, saved, totals), with totals as in piecewise: for elementwise ops; else None
    reached  None; of a part, for each needed input whether its rule runs
    """

    __slots__ = ("op", "slots", "names", "save", "pull", "pull_large", "joint", "reached", "parts")

    def __init__(self, op: Any, pattern: int):
        self.op = op
        self.joint = op.joint is not None
        self.reached: tuple[bool, ...] | None = None
        self.parts: dict[tuple[bool, ...], Plan] = {}
        self.slots = [] if op.variadic else [i for i in range(op.arity) if pattern >> i & 1]
        inputs = [op.arrays[i] for i in self.slots]
        rules = [op.joint] if self.joint else [op.rule_for(name) for name in inputs]
        shortcut = _shortcut(op, inputs)
        if shortcut is not None:
            shortcut = [inputs.index(name) for name in shortcut[0]], shortcut[1]
        asked = rules if shortcut is None else [*rules, shortcut[1]]
        names = dict.fromkeys(name for rule in asked for name in rule.names if name != "g")
        if self.joint:
            names["needs"] = None
        self.names = tuple(names)
        self.save = _save_written_out(op, self.slots, self.names) if names else None
        self.pull, self.pull_large = _pull_written_out(op, rules, shortcut, self.names)

    def part(self, reached: tuple[bool, ...]) -> "Plan":
        """The plan for what this one has saved, without the rules of the parents not `reached`.

        In their places its `pull` gives None. mg.grad takes it, where not all that was recorded
        leads to what is asked for.
        """
        found = self.parts.get(reached)
        if found is None:
            found = Part(self, reached)
            if not self.op.variadic:  # of whose parts there may be any number
                self.parts[reached] = found
        return found

    def feed(self, values: tuple) -> list:
        """What the rules return for (g, *saved), one contribution per needed input."""
        return self.pull(values[0], values[1:])

    def slots_of(self, node: Node) -> list[int]:
        """Which input of the call each of the node's parents was."""
        if not self.op.variadic:
            return self.slots
        saved: Any = node.saved
        needs: Any = (
            saved.needs if isinstance(saved, Deferred) else saved[self.names.index("needs")]
        )
        return [slot for slot, need in enumerate(needs) if need]

    def linked(self, node: Node, tensor: Callable[[Any, Any], Any]) -> list:
        """The node's saved values as tensors in the graph, for a rule that will be recorded.

        An input is linked to its own producer, the result to this node, so that differentiating
        the rule's result reaches them. Residuals and static values stay constants.
        """
        op = self.op
        producers = dict(zip(self.slots_of(node), node.parents, strict=True))
        values = []
        for name, value in zip(self.names, node.saved, strict=True):  # type: ignore[arg-type]
            if name == "y" and op.outputs:
                value = tuple(tensor(y, port_of(node, i, y)) for i, y in enumerate(value))
            elif name == "y":
                value = tensor(value, node)
            elif op.variadic and name == op.arrays[0]:
                value = [
                    tensor(x, producers[i]) if i in producers else x for i, x in enumerate(value)
                ]
            elif name in op.arrays and op.arrays.index(name) in producers:
                value = tensor(value, producers[op.arrays.index(name)])
            values.append(value)
        return values


class Part(Plan):
    """A plan without some of its rules: see Plan.part."""

    __slots__ = ()

    def __init__(self, whole: Plan, reached: tuple[bool, ...]):
        self.op, self.joint, self.slots = whole.op, whole.joint, whole.slots
        self.names, self.save = whole.names, whole.save
        self.reached, self.parts = reached, {}
        if self.joint:
            self.pull, self.pull_large = _joint_part(whole, reached), None
            return
        inputs = [self.op.arrays[i] for i in self.slots]
        rules = [
            self.op.rule_for(name) if wanted else None
            for name, wanted in zip(inputs, reached, strict=True)
        ]
        shortcut = _shortcut(self.op, [n for n, rule in zip(inputs, rules) if rule is not None])
        if shortcut is not None:
            several, rule = shortcut
            known = {"g", *self.names}.issuperset(rule.names)
            shortcut = ([inputs.index(name) for name in several], rule) if known else None
        self.pull, self.pull_large = _pull_written_out(self.op, rules, shortcut, self.names)


def _joint_part(whole: Plan, reached: tuple[bool, ...]) -> Callable:
    """`pull` of a part where one rule gives all gradients: it is told that fewer are needed."""
    at = whole.names.index("needs")

    def pull(g: Any, saved: Any) -> list:
        values, flags = [*saved], iter(reached)
        values[at] = [need and next(flags) for need in values[at]]
        found = iter(whole.pull(g, values))
        return [next(found) if wanted else None for wanted in reached]

    return pull


class Plans(dict):
    """The plans of an op by pattern. Cleared where its forward or a rule changes, and with them
    goes what else was made of these: its plain call and the twin with residuals.
    """

    def __init__(self, op: Any):
        self.op = weakref.ref(op)  # an op may be made for one call, and is to go with it

    def clear(self) -> None:
        super().clear()
        for name in ("apply", "with_residuals"):
            self.op().__dict__.pop(name, None)


def _measure() -> tuple[int, int]:
    """How many plans the registered ops have made, and their bytes."""
    wholes = [plan for op in registry for plan in getattr(op, "plans", {}).values()]
    plans = [plan for whole in wholes for plan in (whole, *whole.parts.values())]
    return len(plans), sum(size_of_value([plan.names, plan]) for plan in plans)


report("plans of ops", _measure)  # an op of n inputs makes at most 2ⁿ − 1, a variadic one 1


def compiled(
    name: str, lines: list[str], known: dict[str, Any], file: str = "<written out>"
) -> Callable:
    """The function of this name that the lines define; `known` are its globals.

    `file`: a name of its own, under which inspect.getsource and tracebacks find the lines.
    """
    known["__name__"] = __name__  # its frames are the library's: ops it calls are on a user's line
    text = "\n".join(lines) + "\n"
    exec(compile(text, file, "exec"), known)
    if file != "<written out>":
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    return known[name]


def _save_written_out(op: Any, slots: list[int], names: tuple[str, ...]) -> Callable:
    """The function `save` of a plan. For a @ b, both of which need a gradient, it is

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
    return compiled("save", lines, known_to_save(op))


_KNOWN = {"array_module": array_module, "raw": raw, "shape_of": np.shape}
_KNOWN["first"] = lambda y: y[0] if isinstance(y, tuple) else y


def known_to_save(op: Any) -> dict[str, Any]:
    """The global names in `saved_values`."""
    return _KNOWN | {f"default_{name}": value for name, value in op.defaults.items()}


def saved_values(op: Any, slots: list[int], names: tuple[str, ...]) -> str:
    """The tuple of what is saved, as Python: of inputs v0, v1 … (`arrays`, if variadic) and y."""
    value = {"y": "y", "xp": "array_module(raw(first(y)))"}
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
            # an input that needs a gradient is an array; of the others some may be numbers
            sure = i in slots
            value[f"{name}_shape"] = f"v{i}.shape" if sure else f"shape_of(v{i})"
        value["needs"] = str([i in slots for i in range(op.arity)])
    return in_tuple([value[name] for name in names])


def in_tuple(parts: list[str]) -> str:
    """The text of a tuple of these."""
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _shortcut(op: Any, inputs: list[str]) -> tuple[tuple[str, ...], Rule] | None:
    """The op's first rule for several of these inputs together, and which of them those are."""
    return next((found for found in op.shortcuts.items() if {*found[0]} <= {*inputs}), None)


def _pull_written_out(
    op: Any, rules: list[Rule | None], shortcut: tuple | None, names: tuple[str, ...]
) -> tuple[Callable, Callable | None]:
    """`pull` of a plan, as Python would be written for this op alone, and compiled; `pull_large`.

    For a * b, whose rules are da = lambda b: b and db = lambda a: a, it is

        def pull(g, saved):
            [v0, v1] = saved
            if g.dtype.kind == "c":
                g = g.conj()
                return [(g * v0).conj(), (g * v1).conj()]
            if g.size >= NOTABLE:
                return pull_large(g, [v0, v1])
            return [g * v0, g * v1]

    and for a rule that computes something, rule0(v0, …) stands in place of v0; for one that is None
    the whole contribution is None. A shortcut for the
    inputs 0 and 1 comes before the last line, as

            several = shortcut(g, v0, v1)
            if several is not None:
                [c0, c1] = several
                return [c0, c1]

    The rows of the table give p·g; the gradient of a real loss is conj(p)·g = conj(p·conj(g)), so
    each row is read once for real and complex numbers alike. A backward calls `pull` once a node:
    to look the names up there would cost more than most rules.
    """
    value = {"g": "g"} | {name: f"v{i}" for i, name in enumerate(names)}
    known: dict[str, Any] = {"needed": _needed}
    saved = [value[name] for name in names]
    pull_large = None
    calls: list[str] = []
    for i, rule in enumerate(rules):
        if rule is None:
            calls.append("None")
            continue
        known[f"rule{i}"] = rule.fn
        given = [value[name] for name in rule.names]
        passed = _passed_on(rule.fn)
        call = f"rule{i}({', '.join(given)})" if passed is None else given[passed]
        calls.append(f"g * {call}" if rule.partial else call)
    lines = ["def pull(g, saved):", f" [{', '.join(saved)}] = saved"]
    if op.joint is not None:
        lines.append(f" return needed({calls[0]}, {value['needs']})")
    else:
        if op.kind == "elementwise":
            lines.append(' if g.dtype.kind == "c":')
            lines.append("  g = g.conj()")
            conjugates = [call if call == "None" else f"({call}).conj()" for call in calls]
            lines.append(f"  return [{', '.join(conjugates)}]")
            cut = not any(name.endswith("_shape") for name in names)  # blocks have another shape
            if cut and any(call not in _FREE for call in calls):
                pull_large = _in_blocks(calls, value, known)
                known |= {"NOTABLE": NOTABLE, "pull_large": pull_large}
                lines.append(" if g.size >= NOTABLE:")
                lines.append(f"  return pull_large(g, [{', '.join(saved)}])")
        if shortcut is not None:
            places, rule = shortcut
            known["shortcut"] = rule.fn
            given = ", ".join([value[name] for name in rule.names])
            found = {i: f"c{i}" for i in places}
            lines.append(f" several = shortcut({given})")
            lines.append(" if several is not None:")
            lines.append(f"  [{', '.join(found.values())}] = several")
            lines.append(f"  return [{', '.join(found.get(i, c) for i, c in enumerate(calls))}]")
        lines.append(f" return [{', '.join(calls)}]")
    return compiled("pull", lines, known), pull_large


_FREE = ("g", "None")  # contributions that take no work


def _in_blocks(calls: list[str], value: dict[str, str], known: dict[str, Any]) -> Callable:
    """`pull_large` of an elementwise op; what is g stays g, and is not added.

    For a * b it is

        def pull_large(g, saved, totals=(None, None)):
            [v0, v1] = saved
            [t0, t1] = totals
            [y0, y1] = piecewise(contributions, (g, v0, v1), {}, fill, totals=[t0, t1])
            return [y0, y1]

        def contributions(g, v0, v1):
            return [g * v0, g * v1]

        def fill(ys, g, v0, v1):
            multiply(g, v0, ys[0])
            multiply(g, v1, ys[1])
    """
    names = ", ".join(value.values())
    made = [i for i, call in enumerate(calls) if call not in _FREE]
    known = {**known, "multiply": np.multiply, "piecewise": piecewise}
    lines = [f"def contributions({names}):", f" return [{', '.join([calls[i] for i in made])}]"]
    known["contributions"] = compiled("contributions", lines, dict(known))
    lines = [f"def fill(ys, {names}):"]
    for place, i in enumerate(made):
        product = calls[i].startswith("g * ")
        lines.append(
            f" multiply(g, {calls[i].removeprefix('g * ')}, ys[{place}])"
            if product
            else f" ys[{place}][...] = {calls[i]}"
        )
    known["fill"] = compiled("fill", lines, dict(known))
    results = ", ".join([f"y{i}" for i in made])
    saved = ", ".join([v for v in value.values() if v != "g"])
    lines = [
        f"def pull_large(g, saved, totals={(None,) * len(calls)}):",
        f" [{saved}] = saved",
        f" [{', '.join([f't{i}' for i in range(len(calls))])}] = totals",
        f" totals = [{', '.join([f't{i}' for i in made])}]",
        f" [{results}] = piecewise(contributions, ({names},), {{}}, fill, totals=totals)",
        f" return [{', '.join([f'y{i}' if i in made else call for i, call in enumerate(calls)])}]",
    ]
    return compiled("pull_large", lines, known)


def _passed_on(fn: Callable) -> int | None:
    """Which of its arguments a rule such as `lambda b: b` returns as it is; None: it computes."""
    if not isinstance(fn, FunctionType):  # a bound method's code counts its object, too
        return None
    code = fn.__code__
    names = code.co_varnames[: code.co_argcount]
    for i, name in enumerate(names):
        if code.co_code == eval(f"lambda {', '.join(names)}: {name}").__code__.co_code:
            return i
    return None


def _needed(given: Any, needs: list[bool]) -> list:
    """What a joint rule returned, without the places of inputs that need no gradient."""
    try:
        return [c for c, need in zip(given, needs, strict=True) if need]
    except (TypeError, ValueError):
        count = f"{len(given)} of them" if isinstance(given, tuple | list) else describe(given)
        raise RuleError(
            "a joint rule (@op.vjp without a name) returns a tuple of one gradient for each input, "
            f"here {len(needs)}; it returned {count}. A rule for one input is @op.vjp(its name)"
        ) from None
