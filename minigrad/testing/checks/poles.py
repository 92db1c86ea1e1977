"""A part of K12: where a derivative grows without end it ends infinite, with its sign, or NaN.

A finite number there says that the value does not depend on the argument, although it depends on it
more than anywhere. An example is the 0 of a rule that avoids a logarithm.
"""

from collections.abc import Iterator

import numpy as np

from ..case import argument_names, differentiated
from ..errors import GradcheckError
from ..function import Arrays, Function, is_smooth_array
from ..spec import OpSpec, Sample

_POINTS = (0.0, 1.0, -1.0, 2.0, -2.0)
_STEPS = (2.0**-16, 2.0**-24, 2.0**-32)  # from the point
_GROWTH = 1.15  # from one step to the next; a logarithm's is 1.5, and 1.33
_LEAST = 8.0
_CONTINUOUS = 1e-2  # tolerated difference between the value at the point and the last before it
# At other numbers, as at (0, 0), a convention may define derivatives without a limit.
_GENERIC = (-2.6, -0.7, 0.3, 1.4)
_OTHERS = (*_GENERIC, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
_MOST_ARGUMENTS = 3


def at_poles(spec: OpSpec, sample: Sample) -> int:
    """How many derivatives that grow without end were followed to the point, from either side.

    If the value is infinite at the point, the check judges derivatives by any argument. If it is
    finite, it judges them only for generic numbers as the other arguments.
    """
    places = [i for i, x in enumerate(sample.args) if is_smooth_array(x)]
    if not 0 < len(places) <= _MOST_ARGUMENTS:
        return 0
    count = 0
    for i in places:
        for point in _POINTS:
            sides = [_side(spec, sample, places, i, point, sign) for sign in (1, -1)]
            for side, other in (sides, sides[::-1]):
                count += _judged(side, other) if side is not None else 0
    return count


class _Side:
    """Value and derivatives at a point, and on the way there from one side."""

    def __init__(self, at: Function, way: list[Arrays], end: Arrays, generic: np.ndarray):
        self.at, self.way, self.end, self.generic = at, way, end, generic

    def grows(self, k: int) -> np.ndarray:
        """Where derivative k grows, and value and derivative are still finite."""
        first, second, third = [found[k] for found in self.way]
        grown = (np.abs(second) > _GROWTH * np.abs(first)) & (
            np.abs(third) > _GROWTH * np.abs(second)
        )
        finite = np.isfinite(third) & np.all([np.isfinite(ys[0]) for ys in self.way], axis=0)
        return grown & finite & (np.abs(third) > _LEAST) & (first * third > 0)

    def sign(self, k: int) -> np.ndarray:
        return np.where(self.grows(k), np.sign(self.way[-1][k]), 0)


def _side(
    spec: OpSpec, sample: Sample, places: list, i: int, point: float, sign: int
) -> _Side | None:
    functions = [
        _with(spec, sample, places, i, x)
        for x in (*[point + sign * step for step in _STEPS], np.copysign(point, point or sign))
    ]
    found = [x for x in map(_value_and_derivatives, functions) if x is not None]
    if len(found) < len(functions) or any(x.dtype.kind != "f" for x in found[-1]):
        return None
    *way, end = found
    generic = np.ones(end[0].shape, bool)
    for place in places:
        if place != i:
            generic &= np.isin(functions[-1].args[place], _GENERIC)
    return _Side(functions[-1], way, end, generic)


def _with(spec: OpSpec, sample: Sample, places: list, i: int, x: float) -> Function:
    """The op with x as argument i, and all combinations of the others' numbers."""
    rows = [[x] if place == i else _OTHERS for place in places]
    grid = [np.asarray(column).reshape(-1) for column in np.meshgrid(*rows, indexing="ij")]
    args = [
        grid[places.index(k)] if k in places
        else np.resize(a, grid[0].shape) if isinstance(a, np.ndarray) else a
        for k, a in enumerate(sample.args)
    ]  # fmt: skip
    positions = differentiated(spec, tuple(args))
    return Function(spec.call, args, sample.params, positions, argument_names(spec))


def _value_and_derivatives(function: Function) -> Arrays | None:
    ys = function.value_or_refusal(function.xs)
    if not ys or not function.xs:
        return None
    return [ys[0], *function.vjp(function.xs, [np.ones_like(ys[0])])]


def _judged(side: _Side, other: _Side | None) -> int:
    count, value = 0, side.end[0]
    last = side.way[-1][0]
    continuous = np.abs(value - last) <= _CONTINUOUS
    judged = (np.isinf(value) & (value * last > 0)) | (side.generic & continuous)
    for k, position in enumerate(side.at.positions):
        g, sign = side.end[k + 1], side.sign(k + 1)
        seen = judged & (sign != 0)
        two_signs = (other.sign(k + 1) if other is not None else 0) * sign < 0
        wrong = seen & (np.isfinite(g) | (np.isinf(g) & (np.sign(g) != sign) & ~two_signs))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise GradcheckError(
                f"the derivative by argument {position} ({side.at.names[position]}) at "
                f"{[*_numbers(side.at, at)]} is {float(g[at])!r}, where the value is "
                f"{float(value[at])!r}; on the way there it is "
                f"{', '.join(f'{float(ys[k + 1][at]):.3g}' for ys in side.way)} and so on"
            )
        count += int(seen.sum())
    return count


def _numbers(function: Function, at: int) -> Iterator[float]:
    for x in function.args:
        if is_smooth_array(x) and x.ndim:
            yield float(x[at])
