"""FLOPs of a node, forward and backward, from what the node itself still knows.

A node keeps its parents, the values for its rules and the shape of its result. Where that leaves an
input or a parameter unknown that the count reads, there is no number rather than a wrong one.
"""

from collections.abc import Sequence
from typing import Any

from ..engine.graph import raw
from ..ops import work

Counts = tuple[int | None, int | None]


def flops_of(node: Any, slots: Sequence[int], counted: dict) -> Counts:
    """(FLOPs of the forward, FLOPs of the backward); `slots` says which input each parent was.

    counted: what elementwise ops of the same result came to before; nothing else counts there.
    """
    if node.op.kind != "elementwise" or isinstance(node.dtype, tuple):
        return _counts(node, slots)
    key = node.op, node.plan, node.shape, node.dtype
    if key not in counted:
        counted[key] = _counts(node, slots)
    return counted[key]


def _counts(node: Any, slots: Sequence[int]) -> Counts:
    try:
        known = dict(zip(node.plan.names, node.saved or (), strict=False))
        if any(name not in known for name in work.needed_params(node.op.name)):
            return None, None
        inputs, outputs = _inputs(node, slots, known), _outputs(node)
        params = {name: known[name] for name in node.op.defaults if name in known}
        forward = work.of(node.op, inputs, outputs, params).flops
        return forward, work.of_backward(node.op, inputs, outputs, params, slots).flops
    except Exception:  # an op that the table cannot read, such as one just defined
        return None, None


def _inputs(node: Any, slots: Sequence[int], known: dict[str, Any]) -> list:
    """The inputs as the counts read them; an error where one is not known."""
    parents = {slot: _described(parent) for slot, parent in zip(slots, node.parents, strict=True)}
    if node.op.variadic:
        shapes = known.get(f"{node.op.arrays[0]}_shape") or known.get(node.op.arrays[0])
        return [parents[slot] for slot in range(len(shapes or parents))]
    inputs = []
    for slot, name in enumerate(node.op.arrays):
        if slot in parents:
            inputs.append(parents[slot])
        elif hasattr(known.get(name), "dtype"):
            inputs.append(_described(raw(known[name])))
        elif f"{name}_shape" in known:
            inputs.append(tuple(known[f"{name}_shape"]))
        elif node.op.kind == "elementwise" or name in node.op.optional:
            inputs.append(None)  # the counts read the result alone, or the input may be missing
        else:
            raise LookupError(name)
    return inputs


def _outputs(node: Any) -> list:
    if isinstance(node.dtype, tuple):
        return [_array(*output) for output in zip(node.shape, node.dtype, strict=True)]
    return [_array(node.shape, node.dtype)]


def _described(x: Any) -> work.Array:
    return _array(x.shape, x.dtype)


def _array(shape: tuple, dtype: Any) -> work.Array:
    size = 1
    for n in shape:
        size *= n
    return work.Array(shape, dtype, size * dtype.itemsize)
