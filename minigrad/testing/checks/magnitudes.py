"""A part of K15: an elementwise rule in float32 far from 1, against the same rule in float64.

There x² is infinite or 0 in float32, although x and the right result are ordinary numbers.
"""

import numpy as np

from ..case import Case, argument_names, differentiated, is_elementwise
from ..errors import GradcheckError
from ..function import Function, is_smooth_array
from .forward import widened

_SIZES = (1e-30, 1e-15, 1e-6, 1.5, 1e6, 1e15, 1e30)
_SIZES_OF_TWO = (1e-30, 1e-15, 1e-6, 1.5, 1e6, 1e30)
_NEAR, _FLOOR = 1e-3, 1e-5  # of a derivative; of 1: gross errors alone
_LARGEST = 1e36  # of a value or derivative within the range of float32


def of_magnitudes(case: Case) -> int:
    """How many partials were compared, all combinations of one or two arguments."""
    args = case.sample.args
    places = [i for i, x in enumerate(args) if is_smooth_array(x)]
    if case.dtype != "float32" or not is_elementwise(case.spec) or not 0 < len(places) < 3:
        return 0
    if not case.is_first_of_its_kind:
        return 0
    sizes = _SIZES if len(places) == 1 else _SIZES_OF_TWO
    row = np.array([s * v for v in sizes for s in (1, -1)], np.float32)
    grid = [x.reshape(-1) for x in np.meshgrid(*[row] * len(places), indexing="ij")]
    given = [
        grid[places.index(i)] if i in places else np.resize(x, grid[0].size) if np.ndim(x) else x
        for i, x in enumerate(args)
    ]
    positions, params = differentiated(case.spec, tuple(given)), case.sample.params
    names = argument_names(case.spec)
    narrow = Function(case.spec.call, given, params, positions, names)
    wide = Function(case.spec.call, [widened(x) for x in given], params, positions, names)
    y, exact_y = narrow.value(narrow.xs)[0], wide.value(wide.xs)[0]
    found = narrow.vjp(narrow.xs, [np.ones_like(y)])
    exact, rounded = (
        wide.vjp([x * (1 + t) for x in wide.xs], [np.ones_like(exact_y)])
        for t in (0.0, np.finfo(np.float32).eps)
    )
    count = 0
    for place, g, d, other in zip(positions, found, exact, rounded, strict=True):
        judged = (np.abs(d) < _LARGEST) & (np.abs(exact_y) < _LARGEST)
        judged &= np.abs(other - d) <= _NEAR * np.abs(d)  # not where rounding of x has an effect
        wrong = judged & ~(np.abs(g - d) <= _NEAR * np.abs(d) + _FLOOR)
        if wrong.any():
            k = int(np.argmax(wrong))
            point = [float(x[k]) for x in narrow.xs]
            near_one = np.all([np.abs(x) == 1.5 for x in narrow.xs], axis=0)
            why = "an intermediate number is beyond the range of float32"
            if (wrong & near_one).any():
                why = "the rule differs in float32, near 1 as well as far from it"
            raise GradcheckError(
                f"the gradient of argument {place} ({narrow.names[place]}) at {point} is {g[k]!r} "
                f"in float32, {d[k]!r} in double precision: {why} "
                f"({int(wrong.sum())} of {int(judged.sum())} points)"
            )
        count += int(judged.sum())
    return count
