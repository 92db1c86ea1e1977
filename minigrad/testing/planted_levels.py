"""Wrong rules that are right alone, with create_graph and under one transform: wrong in nests."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np

from ..engine.primitive import Primitive
from ..engine.rule import Rule
from ..func import residuals
from ..func.forward import Dual
from ..func.levels import LevelTensor
from ..tensor_api.tensor import Tensor
from .plant import SINE, Plant, plant, vectors


def _sine_and_slope(x):
    return np.sin(x), np.cos(x)


def _slope(x, slope):
    """The residual if that suffices: plain arrays are never differentiated again."""
    return slope if isinstance(x, np.ndarray) else np.cos(x)


def _by_partial(entry: Primitive) -> Primitive:
    entry.partial("x")(_slope)
    return entry


@contextmanager
def _partials_dropped() -> Iterator[None]:
    """An engine where a twin with residuals returns a partial without the cotangent."""
    right = residuals._of_twin

    def of_twin(op, rule, count):
        return right(op, Rule(rule.fn, rule.names, partial=False), count)

    with mock.patch.object(residuals, "_of_twin", of_twin):
        yield


@contextmanager
def _cotangents_detached() -> Iterator[None]:
    """An engine whose twins with residuals treat their cotangents as constants."""
    right = residuals._of_twin

    def of_twin(op, rule, count):
        made = right(op, rule, count)
        return Rule(lambda g, *rest: made.fn([_detached(c) for c in g], *rest), made.names)

    with mock.patch.object(residuals, "_of_twin", of_twin):
        yield


@contextmanager
def _outputs_detached() -> Iterator[None]:
    """An engine whose twins with residuals pass outputs to rules as constants."""
    right = residuals._of_twin

    def of_twin(op, rule, count):
        made = right(op, rule, count)
        return Rule(lambda g, y, *rest: made.fn(g, [*map(_detached, y)], *rest), made.names)

    with mock.patch.object(residuals, "_of_twin", of_twin):
        yield


def _detached(x):
    return x.detach() if isinstance(x, Tensor) else x


def _two_levels(x):
    """Whether x is a variable of one reverse level that another level above it has recorded."""
    return isinstance(x, LevelTensor) and type(x.data) is Tensor


def _slope_of_a_level(g, x, slope):
    return g * (slope if _two_levels(x) else _slope(x, slope))


def _detached_in_levels(g, x):
    return g * np.cos(x.detach() if _two_levels(x) else x)


def _under_two_duals(x):
    return isinstance(x, Dual) and not isinstance(x.data, LevelTensor)


def _with_jvp(entry: Primitive) -> Primitive:
    wrong = "wrong" in entry.name

    def pushed(x_t, y):
        return x_t * (1 - np.square(y.detach() if wrong and _under_two_duals(y) else y))

    entry.jvp(pushed)
    return entry


def _with_slope_op(entry: Primitive) -> Primitive:
    """The sine's rule by a separate op, whose batch rule is right on arrays alone."""
    wrong = "wrong" in entry.name
    slope = Primitive(np.cos, "slope", ["x"])
    slope.vjp("x")(lambda g, x: -g * np.sin(x))

    def batch(op, xs, batched, params):
        [x] = xs
        return op(x.detach() if wrong and _two_levels(x) else x)

    slope.batch(batch)
    entry.vjp("x")(lambda g, x: g * slope(x))
    entry.batch(lambda op, xs, batched, params: op(*xs))
    return entry


_TANH = {"x": lambda g, y: g * (1 - np.square(y))}
_RESIDUAL = {
    "forward": _sine_and_slope, "residuals": ("slope",), "reference": np.sin,
    "samples": vectors(5),
}  # fmt: skip


LEVELS: list[Plant] = [
    plant(
        "partial dropped", "with a residual, a partial is not multiplied by the cotangent",
        **_RESIDUAL, kind="elementwise", arrays=("x",), right={}, wrong={}, call=_by_partial,
        while_wrong=_partials_dropped,
    ),
    plant(
        "cotangent dropped", "with a residual, the cotangent is a constant in nested levels",
        **_RESIDUAL, right={"x": lambda g, x, slope: g * _slope(x, slope)},
        wrong={"x": lambda g, x, slope: g * _slope(x, slope)}, while_wrong=_cotangents_detached,
    ),
    plant(
        "output a constant", "with a residual, the result is a constant in nested levels",
        forward=lambda x: (np.tanh(x), np.ones_like(x)), residuals=("ones",), reference=np.tanh,
        samples=vectors(5), right=_TANH, wrong=_TANH, while_wrong=_outputs_detached,
    ),
    plant(
        "residual in levels", "a residual that depends on x is used where x is differentiated",
        **_RESIDUAL, right={"x": lambda g, x, slope: g * _slope(x, slope)},
        wrong={"x": _slope_of_a_level},
    ),
    plant(
        "grad of grad", "right with create_graph, detached in func.grad of func.grad",
        forward=np.sin, samples=vectors(5), right=SINE, wrong={"x": _detached_in_levels},
    ),
    plant(
        "jvp of jvp", "a jvp rule leaves out the tangent of the result that it reads",
        forward=np.tanh, samples=vectors(5), right=_TANH, wrong=_TANH, call=_with_jvp,
    ),
    plant(
        "grad of vmap of grad", "a batch rule of a derivative is a constant in nested levels",
        forward=np.sin, samples=vectors(5), arrays=("x",), right={}, wrong={},
        call=_with_slope_op,
    ),
]  # fmt: skip
