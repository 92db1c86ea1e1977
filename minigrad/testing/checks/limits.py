"""A part of K12: an elementwise derivative at ±∞, at huge and at subnormal numbers equals its
limit.

No oracle knows the right limit of an op. But if value and derivative stop changing on the way to
such a number, they must keep these values. So the check assumes no convention. An op whose
derivative still changes (√x near 0), or whose value is not finite, may have any.
"""

from collections.abc import Iterator

import numpy as np

from ..case import argument_names, differentiated
from ..errors import GradcheckError
from ..function import Arrays, Function, is_smooth_array
from ..spec import OpSpec, Sample

# (two numbers on the way, the number at its end)
_WAYS = {
    "float64": (((1e100, 1e200), (1e300, np.inf)), ((1e-200, 1e-290), (5e-324,))),
    "float32": (((1e15, 1e25), (1e37, np.inf)), ((1e-20, 1e-35), (1e-45,))),
}
_RESTS = {"float64": 1e-9, "float32": 1e-4}  # tolerance for equal, of the number or of 1
_OTHERS = (-3.7, -1.0, -0.5, 0.5, 1.0, 3.7)  # the other arguments
_MOST_ARGUMENTS = 3


def at_the_ends(spec: OpSpec, sample: Sample, dtype: str) -> int:
    """How many derivatives at the ends of the number line were compared with those before."""
    places = [i for i, x in enumerate(sample.args) if is_smooth_array(x)]
    if not 0 < len(places) <= _MOST_ARGUMENTS:
        return 0
    count = 0
    for i in places:
        for before, end in _ways(dtype):
            functions = [_with(spec, sample, places, i, x, dtype) for x in (*before, end)]
            count += _rests(functions, dtype)
    return count


def _ways(dtype: str) -> Iterator[tuple[tuple[float, ...], float]]:
    for before, ends in _WAYS[dtype]:
        for end in ends:
            for sign in (1, -1):
                yield tuple([sign * x for x in before]), sign * end


def _with(spec: OpSpec, sample: Sample, places: list, i: int, x: float, dtype: str) -> Function:
    """The op with x as argument i, and all combinations of a few numbers as the other arguments."""
    rows = [[x] if place == i else _OTHERS for place in places]
    grid = [np.array(column.reshape(-1), dtype) for column in np.meshgrid(*rows, indexing="ij")]
    args = list(sample.args)
    for k, a in enumerate(args):
        if isinstance(a, np.ndarray):
            args[k] = grid[places.index(k)] if k in places else np.resize(a, grid[0].shape)
    positions = differentiated(spec, tuple(args))
    return Function(spec.call, args, sample.params, positions, argument_names(spec))


def _rests(functions: list[Function], dtype: str) -> int:
    """If value and derivative are equal at two points, the derivative must be equal at a third."""
    found: list[Arrays] = []
    for function in functions:
        ys = function.value_or_refusal(function.xs)
        if not ys or not function.xs:
            return 0
        found.append([ys[0], *function.vjp(function.xs, [np.ones_like(y) for y in ys])])
    first, second, end = found
    near = _RESTS[dtype]
    values_rest = _same(first[0], second[0], near) & _same(second[0], end[0], near)
    count = 0
    for k, position in enumerate(functions[2].positions):
        d, limit, g = first[k + 1], second[k + 1], end[k + 1]
        rests = values_rest & _same(d, limit, near)
        wrong = rests & ~_same(limit, g, 10 * near)
        if wrong.any():
            at = int(np.argmax(wrong))
            where, there = (_point(functions[j], at) for j in (2, 1))
            raise GradcheckError(
                f"{dtype}: the derivative by argument {position} ({functions[2].names[position]}) "
                f"at {where} is {float(g[at])!r}; its limit is {float(limit[at])!r}, its value "
                f"at {there}. From there on neither it nor the value changes. Look for a product "
                "such as 0 · ∞ in the rule, or a square beyond the largest number"
            )
        count += int(rests.sum())
    return count


def _same(a: np.ndarray, b: np.ndarray, near: float) -> np.ndarray:
    """Finite and equal, within a tolerance of their size or of 1."""
    return np.abs(a - b) <= near * np.maximum(1, np.abs(b))


def _point(function: Function, k: int) -> list[float]:
    return [float(x[k]) for x in function.args if is_smooth_array(x) and x.ndim]
