"""A part of K12: plain, recorded and forward-mode derivatives are equal at awkward numbers.

A rule may take another path to be differentiable again, and forward mode takes that path.
"""

import numpy as np

from ..errors import GradcheckError
from ..function import Arrays, Function, as_array, gradients

_OFF = 64  # roundings


def modes_agree(function: Function, dtype: str) -> int:
    """How many derivatives of an elementwise function were compared, each in both other modes."""
    if not function.xs or not (ys := function.value_or_refusal(function.xs)):
        return 0
    ones, count = [np.ones_like(y) for y in ys], 0
    plain = function.vjp(function.xs, ones)
    leaves, results = function.record(function.xs)
    recorded = gradients(leaves, results, ones, create_graph=True)
    for k, (g, position) in enumerate(zip(plain, function.positions, strict=True)):
        if g.dtype.kind != "f":
            continue
        found = {"with create_graph": np.zeros_like(g) if recorded[k] is None else recorded[k]}
        found["by forward mode"] = _pushed(function, k)[0]
        for way, other in found.items():
            _require_same(as_array(other), g, dtype, f"argument {position}", way, function)
            count += g.size
    return count


def _pushed(function: Function, k: int) -> Arrays:
    """Forward mode by one argument alone: 0 times another's infinite derivative is NaN."""
    position = function.positions[k]
    alone = Function(function.fn, function.args, function.params, [position], function.names)
    return alone.jvp(alone.xs, [np.ones_like(x) for x in alone.xs])


def _require_same(
    found: np.ndarray, g: np.ndarray, dtype: str, what: str, way: str, function: Function
) -> None:
    found = found.astype(g.dtype)  # a tangent has the dtype of the result, which may be wider
    near = np.abs(found - g) <= _OFF * np.finfo(dtype).eps * np.abs(g)
    wrong = ~((found == g) | near | (np.isnan(found) & np.isnan(g)))
    if wrong.any():
        at = int(np.argmax(wrong))
        numbers = [float(x[at]) for x in function.xs if x.dtype.kind == "f"]
        raise GradcheckError(
            f"{dtype}: the derivative by {what} at {numbers} is {g[at]!r}, {way} {found[at]!r}"
        )
