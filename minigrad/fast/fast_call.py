"""The fast call of an op: source code generated and compiled for each op.

Nearly every call is plain: no mode, transform or listener is on, and the arguments are tensors, or
arrays and numbers together with a tensor. All that depends on the op alone is then decided once, in
the generated code: the number of inputs, which of them may need a gradient, which values are saved.
For a * b the code is as below; `inspect.getsource(mg.mul.apply)` shows it, for every op. An op with
static parameters has `**params` there, too.

    def apply(x0, x1, /):
        if modes.active:
            return op.instrumented(x0, x1)
        # unwrap
        if isinstance(x0, Tensor):
            data = v0 = x0._data
            n0 = x0.node
        elif type(x0) in weak and isinstance(x1, Tensor) and x1._data.dtype is not bfloat16:
            v0 = x0
            n0 = None
            data = x1._data
        elif type(x0) is ndarray and x0.dtype.kind in KINDS and isinstance(x1, Tensor):
            data = v0 = x0
            n0 = None
        else:
            return general(x0, x1)
        if isinstance(x1, Tensor):
            v1 = x1._data
            if v1.size >= LEAST:
                data = v1
            n1 = x1.node
        ...                                     the same
        if data.size >= LEAST:
            return general(x0, x1)
        # run
        forward = op.reference
        try:
            y = forward(v0, v1)
        except Exception as error:
            raise explain(error, op, (x0, x1), {})
        if type(y) is not ndarray:
            y = as_result(op, y, (x0, x1), {})
        # wrap
        result = new(Tensor)
        result._data = y
        result._grad = None
        # link
        if n0 is not None and n1 is not None:
            node = Node()
            node.plan = plan3
            node.parents = (n0, n1)
            known = n0.shape
            node.saved = (v1, v0)
        elif n0 is not None:
            ...                                 the same with plan1, (n0,) and (v1,); then n1
        else:
            result.node = None
            return result
        node.number = next_number()
        node.op = op
        node.origin = None
        shape = y.shape
        node.shape = known if known == shape else shape
        node.dtype = y.dtype
        result.node = node
        return result

Python calls a local like `forward` at once; for `op.reference(v0, v1)` it would look up a method
first. From LEAST elements on, the call asks the op's variants (custom/variants.py); smaller arrays
go to its own ufunc.

Consecutive nodes of one shape share its tuple: each node of a long chain then has one object less
for Python's cyclic collector to visit.

`instrumented` is the same code for two modes with nearly plain calls: recording is off (no_grad),
or a listener is on (a profile). It reads the thread's state, unless listeners are the only reason
for this call. If there are listeners, it takes the time around NumPy's work, and finally notifies
them:

    def instrumented(x0, x1, /):
        if modes.active == modes.listening:
            recording = True
        else:
            recording = modes.state.plain
            if recording is None or modes.checked or modes.levels:
                return general(x0, x1)
        # unwrap
        ...                                     the same
        # run
        forward = op.reference
        listeners = events.listeners
        try:
            if listeners:
                t0, y, t1 = events.clock(), forward(v0, v1), events.clock()
            else:
                y = forward(v0, v1)
        ...                                     the same
        # link
        if not recording:
            result.node = None
            if listeners and not modes.state.muted:
                events.emit(("forward", "mul", t0, t1, None, (x0, x1), (y,), no_params))
            return result
        if n0 is not None and n1 is not None:
            ...                                 the same, and finally
        if listeners and not events.brief(node, y, t0, t1):
            events.emit(("forward", "mul", t0, t1, node, (x0, x1), (y,), no_params))
        return result

Both give the results of `Primitive.general`, which takes any call; tests compare the three.
"""

from collections.abc import Callable
from itertools import combinations
from types import MappingProxyType
from typing import Any

import numpy as np

from ..backends.dtypes import KINDS, NUMBERS, PLAIN, bfloat16, plain_numbers
from ..backends.source import compiled, in_tuple
from ..custom.variants import Variants
from ..engine import events, modes
from ..engine.errors import RuleError
from ..engine.graph import Node, link, next_number
from ..engine.help import explain
from ..engine.primitive import as_result
from ..tensor_api.tensor import Tensor
from .codegen import known_to_save, saved_values

_KNOWN = {
    "modes": modes, "events": events, "Tensor": Tensor, "Node": Node, "ndarray": np.ndarray,
    "weak": {*NUMBERS}, "bfloat16": bfloat16,
    "new": object.__new__, "next_number": next_number, "link": link, "explain": explain,
    "as_result": as_result, "KINDS": KINDS, "plain_numbers": plain_numbers,
    "PLAIN": PLAIN, "no_params": MappingProxyType({}),
}  # fmt: skip


def generated_call(op: Any, name: str) -> Callable:
    """The op's `apply` or `instrumented`."""
    return fast_call(op) if name == "apply" else instrumented_call(op)


def fast_call(op: Any) -> Callable:
    """The op's `apply`.

    An op with several outputs, a variadic op, and one that lacks a rule use `general` itself.
    """
    return _generated(op, "apply", [" if modes.active:", "  return op.instrumented(ARGS)"])


def instrumented_call(op: Any) -> Callable:
    """The op's `instrumented`: its fast call where recording is off or a listener is on."""
    modes_first = [
        " if modes.active == modes.listening:",
        "  recording = True",
        " else:",
        "  recording = modes.state.plain",
        "  if recording is None or modes.checked or modes.levels:",
        "   return general(ARGS)",
    ]
    return _generated(op, "instrumented", modes_first)


def _generated(op: Any, name: str, modes_first: list[str]) -> Callable:
    """The generated call; it begins with `modes_first`, the lines that test the modes."""
    if op.outputs or op.arity < 1:
        return op.general
    tracked = [i for i in range(op.arity) if op.tracked >> i & 1]
    try:
        plans = {slots: op.plan_for(sum(1 << i for i in slots)) for slots in _patterns(tracked)}
    except RuleError:  # raised again by a call that needs a gradient
        return op.general
    instrumented = name == "instrumented"
    count = range(op.arity)
    inputs = ", ".join([f"x{i}" for i in count])
    more, params = (", **params", "params") if op.defaults else ("", "{}")
    args = in_tuple([f"x{i}" for i in count])
    passed = f"{inputs}{more}"
    general = f"return general({passed})"
    lines = [f"def {name}({inputs}, /{more}):"]
    lines += [*[line.replace("ARGS", passed) for line in modes_first], " # unwrap"]
    for i in count:
        lines += [f" {line}" for line in _unwrapped(op, i, i in tracked)]
        lines += [" else:", f"  {general}"]
    looked_at = _looks_at_size(op)
    if looked_at:
        lines += [" if data.size >= LEAST:", f"  {general}"]
    given = ", ".join([f"v{i}" for i in count]) + more
    if op.defaults:
        lines += [" if params:", "  if not PLAIN.issuperset(map(type, params.values())):"]
        lines += ["   params = plain_numbers(params)"]
        lines += ["  op.check_flags(params)"] if op.flags else []
    lines += [" # run", f" forward = op.{'reference' if looked_at else 'forward'}"]
    lines += [f" {line}" for line in _run(f"forward({given})", instrumented)]
    lines += [" except Exception as error:", f"  raise explain(error, op, {args}, {params})"]
    if op.residuals:
        lines += [" y, *residuals = y"]
    lines += [" if type(y) is not ndarray:", f"  y = as_result(op, y, {args}, {params})"]
    lines += [" # wrap", " result = new(Tensor)", " result._data = y", " result._grad = None"]
    told_params = "params" if op.defaults else "no_params"
    event = f'("forward", {op.name!r}, t0, t1, NODE, {args}, (y,), {told_params})'
    told = f"events.emit({event})" if instrumented else ""
    lines += [" # link", *[f" {line}" for line in _linked(op, tracked, plans, told)]]
    known = {**known_to_save(op), **_KNOWN, "op": op, "general": op.general}
    known["LEAST"] = op.forward.least if looked_at else None
    known |= {f"plan{sum(1 << i for i in slots)}": plan for slots, plan in plans.items()}
    lines = [line.replace(" ", "    ", _depth(line)) for line in lines]
    return compiled(name, lines, known, f"<{_FILES[name]} of {op.name}>")


_FILES = {"apply": "fast call", "instrumented": "instrumented call"}


def _looks_at_size(op: Any) -> bool:
    """Whether the call tests the size: a small one then runs the ufunc, without asking variants."""
    ufunc = isinstance(op.reference, np.ufunc) and op.arity <= 2
    return ufunc and isinstance(op.forward, Variants) and op.forward.least > 0


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _patterns(tracked: list[int]) -> list[tuple[int, ...]]:
    """The sets of inputs needing gradients for which code is generated, larger ones first.

    For one or two inputs these are all sets. For three inputs they are the full set and those that
    lack one (a first layer's data needs no gradient, its two parameters do). For more inputs only
    the full set, since there are 2ⁿ − 1.
    """
    n = len(tracked)
    fewest = max(1, n - 1) if n <= 3 else n
    return [slots for many in range(n, fewest - 1, -1) for slots in combinations(tracked, many)]


def _unwrapped(op: Any, i: int, tracked: bool) -> list[str]:
    """The lines that take the array v and the node n out of input i."""
    no_node = [f" n{i} = None"] if tracked else []
    looked_at = _looks_at_size(op)
    large = looked_at and i == 0
    lines = [f"if isinstance(x{i}, Tensor):", f" {'data = ' if large else ''}v{i} = x{i}._data"]
    if looked_at and i == 1:
        lines += [" if v1.size >= LEAST:", "  data = v1"]
    lines += [f" n{i} = x{i}.node"] if tracked else []
    if op.kind == "elementwise" and op.arity == 2:  # a number stays weak: not a bfloat16
        other = f"x{1 - i}"
        beside = f"isinstance({other}, Tensor) and {other}._data.dtype is not bfloat16"
        lines += [f"elif type(x{i}) in weak and {beside}:", f" v{i} = x{i}", *no_node]
        lines += [f" data = {other}._data"] if large else []
    elif op.kind == "elementwise" and tracked:  # like clip: the same, next to a NumPy float
        beside = [f"isinstance(x{j}, Tensor) and x{j}._data.dtype.kind in 'fc'"
                  for j in range(op.arity) if j != i and op.tracked >> j & 1]  # fmt: skip
        if beside:
            lines += [f"elif type(x{i}) in weak and ({' or '.join(beside)}):"]
            lines += [f" v{i} = x{i}", *no_node]
    others = [f"isinstance(x{j}, Tensor)" for j in range(op.arity) if j != i]
    if others:  # without a tensor among them the call returns an array
        beside = others[0] if len(others) == 1 else f"({' or '.join(others)})"
        lines += [f"elif type(x{i}) is ndarray and x{i}.dtype.kind in KINDS and {beside}:"]
        lines += [f" {'data = ' if large else ''}v{i} = x{i}", *no_node]
    if op.arrays[i] in op.optional:
        lines += [f"elif x{i} is None:", f" v{i} = None", *no_node]
    return lines


def _run(call: str, instrumented: bool) -> list[str]:
    """The lines that compute y."""
    if not instrumented:
        return ["try:", f" y = {call}"]
    return [
        "listeners = events.listeners",
        "try:",
        " if listeners:",
        f"  t0, y, t1 = events.clock(), {call}, events.clock()",
        " else:",
        f"  y = {call}",
    ]


def _linked(op: Any, tracked: list[int], plans: dict, told: str) -> list[str]:
    """The lines that make a node, if an input needs a gradient, and end the call."""
    without_node = ["result.node = None", *_end(told, "None")]
    if not plans:
        return without_node
    lines = ["if not recording:", *[f" {line}" for line in without_node]] if told else []
    keyword = "if"
    for slots, plan in plans.items():
        needed = " and ".join([f"n{i} is not None" for i in slots])
        lines += [f"{keyword} {needed}:"]
        lines += [" node = Node()", f" node.plan = plan{sum(1 << i for i in slots)}"]
        lines += [f" node.parents = {in_tuple([f'n{i}' for i in slots])}"]
        lines += [f" known = n{slots[0]}.shape"]
        lines += [f" node.saved = {saved_values(op, list(slots), plan.names)}"]
        keyword = "elif"
    if len(tracked) > 2:
        arrays = ", ".join([f"v{i}" for i in range(op.arity)])
        nodes = ", ".join([f"n{i}" if i in tracked else "None" for i in range(op.arity)])
        residuals, params = "residuals" if op.residuals else "()", "params" if op.defaults else "{}"
        lines += ["else:"]
        lines += [f" node = link(op, [{nodes}], [{arrays}, y], {params}, {residuals})"]
        lines += [" if node is None:", *[f"  {line}" for line in without_node]]
        lines += [" known = node.parents[0].shape"]
    else:
        lines += ["else:", *[f" {line}" for line in without_node]]
    lines += ["node.number = next_number()", "node.op = op", "node.origin = None"]
    lines += ["shape = y.shape", "node.shape = known if known == shape else shape"]
    lines += ["node.dtype = y.dtype", "result.node = node"]
    return [*lines, *_end(told, "node")]


def _end(told: str, node: str) -> list[str]:
    """The lines that notify the listeners and return the result."""
    if not told:
        return ["return result"]
    told = told.replace("NODE", node)
    if node == "None":
        return ["if listeners and not modes.state.muted:", f" {told}", "return result"]
    asked = "if listeners and not events.brief(node, y, t0, t1):"
    return [asked, f" {told}", "return result"]
