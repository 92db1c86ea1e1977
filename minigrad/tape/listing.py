"""A tape as text: one line for each op, and for its backward one line for each contribution.

Names: `%3` is the result of entry 3 (`%3.1` the second of several), `w0` a leaf from outside, `c1`
a constant; `g3` and `gw0` are the gradients that belong to them.
"""

import ast
import linecache
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..backends.caches import cached
from ..engine.errors import describe
from ..engine.graph import Leaf, Port
from ..tensor_api.tensor import Tensor
from .record import Entry, Outside, Record, argument_text


def shape_text(x: Any) -> str:
    """`float32[32,32]`."""
    return f"{x.dtype}[{','.join(map(str, x.shape))}]"


def forward_text(tape: Record, limit: int) -> str:
    """The tape, entry by entry; values from outside are declared before their first use."""
    lines, declared = [f"tape of {len(tape):,} ops"], set()
    for i in _shown(len(tape), limit):
        if i is None:
            lines.append(f"  … {len(tape) - 2 * (limit // 2):,} more ops …")
            continue
        entry = tape[i]
        for x in entry.inputs:
            if isinstance(x, Outside) and x not in declared:
                declared.add(x)
                kind = "constant" if x.tensor is None else "leaf"
                lines.append(f"  {f'{x} = {kind}':32} {shape_text(x)}")
        lines.append(f"  {repr(entry):32} {_about(entry)}")
    return "\n".join(lines)


def _about(entry: Entry) -> str:
    shapes = " ".join(map(shape_text, entry.outputs))
    site = entry.site
    line = f"{os.path.basename(site['file'])}:{site['line']}" if site else ""
    return f"{shapes:16}  {line}{'' if entry.node is not None else '  (no gradient)'}".rstrip()


def _shown(count: int, limit: int) -> Iterator[int | None]:
    """The indices that a listing of `limit` lines shows; None where it omits some."""
    if count <= limit:
        yield from range(count)
        return
    yield from range(limit // 2)
    yield None
    yield from range(count - limit // 2, count)


# -- backward --------------------------------------------------------------------------------------


def backward_text(tape: Record, tensors: Tensor | Sequence[Tensor], limit: int) -> str:
    """The steps of a backward from these tensors, in their order."""
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    order = tape.order({root.node: None for root in roots})
    arrived: set[str] = set()
    lines = []
    for root in roots:
        lines.append(f"  {_gradient(tape, root.node)} = its gradient, 1 for a scalar")
        arrived.add(_gradient(tape, root.node))
    shown = set(_shown(len(order), limit))
    for i, vertex in enumerate(order):
        if i in shown:
            lines += _steps(tape, vertex, arrived)
            continue
        if i == limit // 2:
            lines.append(f"  … {len(order) - 2 * (limit // 2):,} more vertices …")
        arrived.update(_gradient(tape, parent) for parent in vertex.parents)
    return "\n".join([f"backward over {len(order):,} vertices", *lines])


def _gradient(tape: Record, vertex: Any) -> str:
    """`g3` for the gradient of %3, `gw0` for the gradient of w0."""
    value = tape.value_of(vertex)
    if value is not None:
        return f"g{value.name}"
    leaf = vertex.tensor() if vertex.__class__ is Leaf else None
    outside = None if leaf is None else tape.find(leaf)
    return f"g_{vertex.number}" if outside is None else f"g{outside}"


def _steps(tape: Record, vertex: Any, arrived: set[str]) -> list[str]:
    """The lines of one vertex: its contributions, or a leaf that is complete."""
    if vertex.__class__ is Leaf:
        name = _gradient(tape, vertex)
        return [f"  {name[1:]}.grad += {name}"]
    if vertex.__class__ is Port:
        return []
    node, values = vertex, tape.outputs_of(vertex)
    entry = tape[values[0].entry]
    names = [f"g{value.name}" for value in values]
    g = names[0] if len(names) == 1 else f"({', '.join(names)})"
    targets = [_gradient(tape, parent) for parent in node.parents]
    if node.plan.joint:
        rules, targets = [node.op.joint], [", ".join(targets)]
    else:
        rules = [node.op.rule_for(node.op.arrays[slot]) for slot in node.plan.slots]
    lines = []
    for rule, target in zip(rules, targets, strict=True):
        sign = "+=" if target in arrived else "="
        arrived.update(target.split(", "))
        lines.append(f"  {target} {sign} {rule_text(rule, _names(entry, g))}")
    return lines


def _names(entry: Entry, g: str) -> Callable[[str], str]:
    """The name of a rule's parameter in the listing of this entry."""
    op, inputs = entry.op, entry.inputs
    ys = entry.outputs
    known = {"g": g, "y": repr(ys[0]) if len(ys) == 1 else f"({', '.join(map(repr, ys))})"}
    if op.variadic:
        known[op.arrays[0]] = f"[{', '.join(map(argument_text, inputs))}]"
        known[f"{op.arrays[0]}_shape"] = str([getattr(x, "shape", ()) for x in inputs])
    else:
        for name, x in zip(op.arrays, inputs, strict=False):
            known[name] = argument_text(x)
            known[f"{name}_shape"] = str(getattr(x, "shape", ()))
    for name, value in {**op.defaults, **entry.params}.items():
        known.setdefault(name, describe(value))
    return lambda name: known.get(name, name)


def rule_text(rule: Any, name_of: Callable[[str], str]) -> str:
    """The rule with the names of a listing: a row of the table as an expression, else as a call."""
    body = _lambda_body(rule.fn)
    if body is None:
        text = f"{rule.fn.__name__}({', '.join(map(name_of, rule.names))})"
        return f"{name_of('g')} * {text}" if rule.partial else text
    expression: Any = ast.parse(body, mode="eval").body
    if rule.partial:
        expression = ast.BinOp(ast.Name("g"), ast.Mult(), expression)
    for part in ast.walk(expression):
        if isinstance(part, ast.Name) and part.id in ("g", *rule.names):
            part.id = name_of(part.id)
    return ast.unparse(expression)


@cached("rules as text", max_entries=1024)
def _lambda_body(fn: Any) -> str | None:
    """The source of a lambda's expression; None for another function, or without a source."""
    code = getattr(fn, "__code__", None)
    if code is None or fn.__name__ != "<lambda>":
        return None
    spans = set(code.co_positions())  # (line, last line, column, last column) of each instruction
    for tree in _lambdas(code.co_filename):
        body = tree.body
        span = (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset)
        if span in spans:
            return ast.unparse(body)
    return None


@cached("lambdas of files", max_entries=64)
def _lambdas(filename: str) -> tuple[ast.Lambda, ...]:
    source = "".join(linecache.getlines(filename))
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ()
    return tuple([part for part in ast.walk(tree) if isinstance(part, ast.Lambda)])
