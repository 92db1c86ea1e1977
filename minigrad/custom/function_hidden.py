"""Whether a Function's backward (or jvp) depends on what no graph shows: see hidden.py."""

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np

from ..backends.device import array_module, to_host
from ..backends.dtypes import is_differentiable
from ..engine.graph import raw, wrap
from .function_context import own_attributes
from .hidden import SMALL, Run, holds_numbers, read_outside, some
from .hidden import hides as found_hidden
from .shown import as_tensor

Sample = list[tuple[tuple, Any, Callable[[], Any]]]  # shape, dtype, and the array while it lives


def sample_of(arrays: Any, copied: bool) -> Sample:
    """The inputs of a run, for a trial: small ones copied, where it reads something outside.

    Those are needed exactly, as the trial ends with a run that leaves there what it had left.
    """
    return [
        (x.shape, x.dtype, _copy(x) if copied and x.nbytes <= SMALL else ref(x)) for x in arrays
    ]


def _copy(x: Any) -> Callable[[], Any]:
    x = x.copy()
    return lambda: x


def hides(op: Any, ctx: Any, rule: str = "backward") -> bool:
    """Whether what `rule` (backward or jvp) gives for a run depends on its inputs in hiding.

    Found out once for each way of saving.
    """
    if ctx._sample is None:
        return False
    # numbers and texts among the other arguments may choose what the class does
    static = [x if isinstance(x, str | int | float | None) else type(x) for x in op.args]
    key = rule, ctx.saved_roles, *static
    if key not in op.verdicts:
        if not _finds_numbers(op, ctx, rule):
            return False
        points = [_point(ctx._sample)]
        if op.plainly:  # nothing is left outside
            points += [_point(ctx._sample, 0.5, 1.5), _point(ctx._sample, 0.1, 0.6)]

        def run(xs: list) -> Run:
            return _FunctionRun(op, ctx.saved_roles, rule, xs)

        op.verdicts[key] = found_hidden(run, [xs for xs in points if xs is not None])
    return op.verdicts[key]


def _finds_numbers(op: Any, ctx: Any, rule: str) -> bool:
    """Whether anything that rule may read can be a number that was made of the inputs."""
    if any(kind == "output" and i in ctx.constant_outputs for kind, i in ctx.saved_roles):
        return True
    read = [*own_attributes(ctx).values(), *read_outside(getattr(op.function, rule))]
    return any(map(holds_numbers, read))


def _point(sample: Sample, low: float = 0.0, high: float = 0.0) -> list | None:
    """Inputs like those of the run: its own, while they live; with high between these two."""
    rng, found = np.random.default_rng(0), []
    for shape, dtype, alive in sample:
        x = alive()
        if x is None and not (high and is_differentiable(dtype)):
            return None
        if high and is_differentiable(dtype):
            xp = np if x is None else array_module(x)
            x = xp.asarray(rng.uniform(low, high, shape)).astype(dtype)
        found.append(x)
    return found


class _FunctionRun(Run):
    """A run of the class's forward, by a separate call."""

    def __init__(self, op: Any, roles: tuple, rule: str, xs: list):
        self.op, self.rule = type(op)(tuple(op.filled([wrap(x) for x in xs]))), rule
        self.op.needs = op.needs
        y = self.op.forward(*xs)
        self.xs, self.ys = xs, y if isinstance(y, tuple) else (y,)
        self.ctx = ctx = self.op.contexts[-1]
        if ctx.saved_roles != roles:
            raise ValueError("the class does not save the same each time")
        self.values = ctx.looked_up(xs, y)
        self.visible = [
            kind == "input" or kind == "output" and i not in ctx.constant_outputs
            for kind, i in roles
        ]

    def gradients(self, values: Any) -> list:
        backward = self.rule == "backward"
        ctx = self.ctx.at_use(values, self.op.needs, forward=not backward)
        likes = [*self.ys] if backward else self.op.filled(self.xs)
        for position in self.ctx.plain_positions if backward else ():
            likes.insert(position, None)
        gs = [wrap(some(x)) if hasattr(x, "dtype") else None for x in likes]
        given = getattr(self.op.function, self.rule)(ctx, *gs)
        given = given if isinstance(given, tuple | list) else [given]
        return [None if c is None else to_host(raw(as_tensor(c))) for c in given]
