"""linearize: the derivative of a function at a point, as a linear function that is ready to use."""

from collections.abc import Callable
from typing import Any

import numpy as np

from . import tree
from .forward import paired, transposed_vjp
from .levels import LevelTensor, as_result, new_level
from .reverse import Recorded

__all__ = ["linearize"]


def linearize(fn: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """(y, push): y = fn(*primals) and push(*tangents) = J · tangents, without running fn again.

    fn runs once and is recorded; so is the vjp g ↦ Jᵀg, once, on its graph. Each call of push walks
    the graph of the vjp, at the cost of one tangent pass. The vjp is linear, so its transpose is t
    ↦ Jt. Trees as in jvp. With has_aux, (y, push, aux).
    """
    run = Recorded("linearize", fn, primals, has_aux, lasting=True)
    with new_level(LevelTensor):
        transposed = transposed_vjp(run.ys, run.xs)

    def push(*tangents: Any) -> Any:
        _, ts = paired("the function of linearize", run.inputs, tangents)
        with new_level(LevelTensor):
            pushed = transposed(ts, again=True)
        zeros_where_none = [
            as_result(np.zeros_like(y.data) if t is None else t)
            for y, t in zip(run.ys, pushed, strict=True)
        ]
        return tree.rebuild(run.returned, zeros_where_none)

    return (run.values(), push, run.aux) if has_aux else (run.values(), push)
