"""Gradients that cannot be differentiated again: where one tries, it is an error, never a zero."""

from typing import Any

import numpy as np

from ..backends.device import array_module
from ..engine.errors import RuleError
from ..engine.graph import raw
from ..engine.registry import op as ops
from ..tensor_api.tensor import Tensor
from .shown import as_tensor


def sealed(primitive: Any, name: str, what: str, c: Any, behind: tuple) -> Tensor:
    """c times a 1 that depends on `behind`, by an op whose derivative is the RuleError `what`.

    c's dependence on g stays as the rule recorded it. As a factor the 1 is in later results too: in
    a tangent of forward mode, to which c's value does not matter. The argument primitive is the
    class of ops, which imports this file.
    """
    seal = primitive(lambda *xs: xs[0], name, ["xs"], variadic=True)

    @seal.vjp
    def refuse(g: Any) -> Any:
        raise RuleError(what, op=name.partition(".")[0])

    @seal.batch
    def keep(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
        size = next(x.shape[0] for x, b in zip(xs, batched, strict=True) if b)
        return op(xs[0] if batched[0] else batch_in_front(xs[0], None, size), *xs[1:])

    return as_tensor(c) * seal(array_module(raw(c)).ones((), raw(c).dtype), *behind)


def stand_in(vertex: Any) -> np.ndarray:
    """A broadcast zero of the shape and dtype of a vertex in the graph."""
    return np.broadcast_to(np.zeros((), vertex.dtype), vertex.shape)


def batch_in_front(y: Any, axis: int | None, size: int) -> Any:
    """y with its batch axis in front; where it has none, the same for every example."""
    if axis is None:
        return ops.broadcast_to(y, shape=(size, *y.shape))
    return y if axis == 0 else ops.moveaxis(y, source=axis, destination=0)
