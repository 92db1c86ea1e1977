"""Ops whose forward returns more than its result, where a level of a transform records them.

To the level above, a call is the op itself one level down. That has to return the residuals too,
since they are saved above. So the op gets a twin that has them as further outputs.
"""

from typing import Any

import numpy as np

from ..engine.rule import Rule

_ABSENT = np.empty(0, "V1")  # for a residual that is None: an output of an op is an array


def with_residuals(op: Any, args: tuple | list, params: dict) -> tuple:
    """(y, *residuals) of a call of `op` on values of any level; a residual may be None."""
    own = op.derived.get(twin)
    if own is None:
        own = op.derived[twin] = twin(op)
    found = own(*args, **params)
    count = op.outputs or 1
    return (found[:count] if op.outputs else found[0], *map(_present, found[count:]))


def _present(residual: Any) -> Any:
    return None if residual.dtype.kind == "V" else residual


def twin(op: Any) -> Any:
    """`op` with its residuals as further outputs; they are constants, as they are to its rules.

    Its rules are the op's own, applied to the op's own outputs and their cotangents.
    """
    count = op.outputs or 1  # of outputs that are the op's own
    entry = type(op)(
        lambda *arrays, **params: _flat(op, arrays, params), op.name, op.arrays,
        constants=op.constants, optional=op.optional, defaults=op.defaults,
        kind="elementwise" if op.kind == "elementwise" else "",
        outputs=count + len(op.residuals), variadic=op.variadic, differentiable=op.tracked != 0,
    )  # fmt: skip
    entry.called = op.called
    entry.rules = {name: _of_twin(op, rule, count) for name, rule in op.rules.items()}
    entry.joint = _of_twin(op, op.joint, count) if op.joint else None
    entry.batch_rule = op.batch_rule  # it calls the op it is given, and so has all outputs
    return entry


def _flat(op: Any, arrays: tuple, params: dict) -> tuple:
    """(*outputs, *residuals) of the op on arrays."""
    y, *residuals = op.forward(*arrays, **params)
    residuals = [_ABSENT if r is None else r for r in residuals]
    return (*y, *residuals) if op.outputs else (y, *residuals)


def _of_twin(op: Any, rule: Rule, count: int) -> Rule:
    """A rule of the op as one of the twin's, whose y and g are tuples."""
    others = [name for name in rule.names if name not in ("g", "y", *op.residuals)]

    def fn(g: list, y: tuple, *values: Any) -> Any:
        own = [*g[:count]]
        if all(c is None for c in own):  # a residual alone was used, and that has no derivative
            own[0] = np.zeros_like(y[0])
        flip = op.kind == "elementwise" and y[0].dtype.kind == "c"  # see generate_vjp
        if flip:
            own[0] = own[0].conj()
        known = dict(zip(others, values, strict=True))
        known |= zip(op.residuals, map(_present, y[count:]), strict=True)
        known["y"], known["g"] = (y[:count], own) if op.outputs else (y[0], own[0])
        found = rule.apply(known)
        if rule.partial:
            found = known["g"] * found
        if not flip:
            return found
        if isinstance(found, tuple | list):
            return [c if c is None else c.conj() for c in found]
        return found.conj()

    return Rule(fn, ("g", "y", *others))
