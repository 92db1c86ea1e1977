"""The fast call of a Function: source code generated for one kind of call, as for an op.

A call is plain while no mode, transform or listener is on (fast_call.py). For forward(ctx, x, n) of
a class with one result, called with a tensor x, the code is

    def call(args):
        [x0, x1] = args
        if modes.active or x0.level:
            return kind(args).run()
        call = new(kind)
        call.counts = (getrefcount(x0._data),)
        call.given = (x0,)
        v0, n0 = x0._data, x0.node
        pattern = (n0 is not None) << 0
        call.needs = kind.needed(pattern)[1]
        call.args = [None, x1]
        if type(x1) in (list, tuple):
            call.refuse_tensors(1)
        # run
        t0 = new(Tensor)
        t0._data, t0.node, t0._grad = v0, None, None
        call.contexts = (ctx := Context(call, (t0,)),)
        before = versions.last_write
        try:
            y = inside_forward(function.forward, ctx, t0, x1)
            roles = ctx.alone((t0,), y) if versions.last_write == before else None
            if roles is None:
                return call.ended(ctx, (t0,), (v0,), before, y)
        except Exception as error:
            raise explain(error, call, call.given, {})
        # wrap
        ctx.saved_roles, ctx._saved, ctx._inputs, ctx._given = roles, (), (), ()
        call.given, call.is_over = (), True
        y = y._data
        result = new(Tensor)
        result._data, result.node, result._grad = y, None, None
        # link
        if pattern:
            ctx._sample = sample_of((v0,), True)        only where the class may read other names
            node = Node() node.plan = plan = FunctionPlan(call, pattern) node.parents = (n0,)
            node.saved = plan.save((v0, y), {}, (), pattern) node.number, node.op, node.origin =
            next_number(), call, None node.shape, node.dtype = y.shape, y.dtype result.node = node
        return result

It replaces the slow path where forward has only saved arguments and its one result. In all other
cases `FunctionCall.ended` continues.
"""

from collections.abc import Callable
from sys import getrefcount
from typing import Any

from ..backends.source import compiled, in_tuple
from ..custom.function_context import Context
from ..custom.function_hidden import sample_of
from ..custom.function_plan import FunctionPlan
from ..engine import modes, versions
from ..engine.graph import Node, next_number
from ..engine.help import explain
from ..modes.recording import inside_forward
from ..tensor_api.tensor import Tensor

_KNOWN = {
    "modes": modes, "versions": versions, "Tensor": Tensor, "Node": Node, "Context": Context,
    "FunctionPlan": FunctionPlan, "new": object.__new__, "next_number": next_number,
    "explain": explain, "getrefcount": getrefcount, "inside_forward": inside_forward,
    "sample_of": sample_of,
}  # fmt: skip


def fast_call(kind: Any) -> Callable[[tuple], Any]:
    """The function that runs calls of this kind, given their arguments."""
    positions, count = kind.positions, len(kind.args)
    if not positions:
        return lambda args: kind(args).run()

    def each(template: str) -> str:
        return in_tuple([template.format(i=i) for i in positions])

    everything = ", ".join([f"x{i}" for i in range(count)])
    handed = ", ".join([f"t{i}" if i in positions else f"x{i}" for i in range(count)])
    levels = " or ".join(["modes.active", *[f"x{i}.level" for i in positions]])
    needed = " | ".join([f"(n{i} is not None) << {bit}" for bit, i in enumerate(positions)])
    full = (1 << len(positions)) - 1
    lines = ["def call(args):", f" [{everything}] = args"]
    lines += [f" if {levels}:", "  return kind(args).run()", " call = new(kind)"]
    lines += [f" call.counts = {each('getrefcount(x{i}._data)')}", f" call.given = {each('x{i}')}"]
    lines += [f" v{i}, n{i} = x{i}._data, x{i}.node" for i in positions]
    lines += [f" pattern = {needed}", " call.needs = kind.needed(pattern)[1]"]
    if kind.others:
        kept = ", ".join(["None" if i in positions else f"x{i}" for i in range(count)])
        lines += [f" call.args = [{kept}]"]
    for i in kind.others:
        lines += [f" if type(x{i}) in (list, tuple):", f"  call.refuse_tensors({i})"]
    for i in positions:
        lines += [f" t{i} = new(Tensor)", f" t{i}._data, t{i}.node, t{i}._grad = v{i}, None, None"]
    inputs, arrays = each("t{i}"), each("v{i}")
    forward = "call._with_setup" if kind.sets_up else "function.forward"
    lines += [f" call.contexts = (ctx := Context(call, {inputs}),)"]
    lines += [" before = versions.last_write", " try:"]
    lines += [f"  y = inside_forward({forward}, ctx, {handed})"]
    lines += [f"  roles = ctx.alone({inputs}, y) if versions.last_write == before else None"]
    lines += ["  if roles is None:"]
    lines += [f"   return call.ended(ctx, {inputs}, {arrays}, before, y)"]
    lines += [" except Exception as error:", "  raise explain(error, call, call.given, {})"]
    lines += [" ctx.saved_roles, ctx._saved, ctx._inputs, ctx._given = roles, (), (), ()"]
    lines += [" call.given, call.is_over = (), True", " y = y._data", " result = new(Tensor)"]
    lines += [" result._data, result.node, result._grad = y, None, None", " if pattern:"]
    if not kind.plainly:
        lines += [f"  ctx._sample = sample_of({arrays}, True)"]
    some = f"tuple([n for n in {each('n{i}')} if n is not None])"
    parents = each("n{i}") if full == 1 else f"{each('n{i}')} if pattern == {full} else {some}"
    lines += ["  node = Node()", "  node.plan = plan = FunctionPlan(call, pattern)"]
    lines += [f"  node.parents = {parents}"]
    saved = in_tuple([*[f"v{i}" for i in positions], "y"])
    lines += [f"  node.saved = plan.save({saved}, {{}}, (), pattern)"]
    lines += ["  node.number, node.op, node.origin = next_number(), call, None"]
    lines += ["  node.shape, node.dtype = y.shape, y.dtype", "  result.node = node"]
    lines += [" return result"]
    known = _KNOWN | {"kind": kind, "function": kind.function}
    file = f"<fast call of {kind.function.__name__}>"
    return compiled("call", lines, known, file, unique=False)  # classes may share a name
