"""Rules in single precision: a rule right in float64 may still be wrong in float32.

This takes no finite differences. They have already confirmed the gradient in double precision. It
is the measure for the one in single precision, within the tolerance that any right rule needs.
"""

from collections.abc import Sequence

import numpy as np

from .errors import GradcheckError
from .function import Arrays, Function
from .numeric import length, normal

_SINGLE = {"f": np.float32, "c": np.complex64}
_WRONG = 0.05  # of the gradient's length: where the value is right, rounding is far smaller
_RIGHT = 1e-3  # of the value's length: with a larger error, gradients may lose all digits
_ZERO = 2e-2  # of all arguments' gradients together: a smaller one may be rounding alone
_SECOND = 0.01  # the distance of the second point from the first, as a share of it


def check_single_precision(function: Function, rng: np.random.Generator, what: str) -> None:
    """The gradient at xs rounded to single precision, and at a point near it: wrong means wrong at
    both.

    At a single point a comparison or a sort may differ from double precision.
    """
    us = normal(rng, function.xs)
    points = [
        function.xs,
        [x + _SECOND * abs(x) * u for x, u in zip(function.xs, us, strict=True)],
    ]
    found = [_first_wrong(function, xs, rng) for xs in points]
    if all(found):
        raise GradcheckError(f"{what}: {found[0]}")


def _first_wrong(function: Function, xs: Arrays, rng: np.random.Generator) -> str:
    """Which argument's gradient is wrong in single precision, and by how much; "" if none is."""
    narrow = [x.astype(_SINGLE[x.dtype.kind]) for x in xs]
    wide = [x.astype(like.dtype) for x, like in zip(narrow, xs, strict=True)]
    try:
        with np.errstate(all="ignore"):
            values, exact_values = function.value(narrow), function.value(wide)
            if not _alike(values, exact_values):
                return ""
            vs = normal(rng, exact_values)
            narrow_vs = [v.astype(y.dtype) for v, y in zip(vs, values, strict=True)]
            found, exact = function.vjp(narrow, narrow_vs), function.vjp(wide, vs)
    except Exception:
        return ""  # fn takes double precision alone
    whole = length(np.array([length(g) for g in exact]))
    terms = length(np.array([length(v * y) for v, y in zip(vs, exact_values, strict=True)]))
    for i, (g, d) in enumerate(zip(found, exact, strict=True)):
        zero = _ZERO * max(whole, terms / max(length(xs[i]), 1e-300))
        error = length(g - d)
        if not error <= _WRONG * max(length(d), zero):
            position = function.positions[i]
            return (
                f"for inputs in single precision the gradient of argument {position} "
                f"({function.names[position]}) is off by {100 * error / max(length(d), zero):.2g} "
                "% from the one in double precision; the value is the same"
            )
    return ""


def _alike(ys: Sequence[np.ndarray], exact: Sequence[np.ndarray]) -> bool:
    """Whether the values in single precision are those in double precision."""
    return all(
        np.isfinite(y).all() and length(y - z) <= _RIGHT * length(z)
        for y, z in zip(ys, exact, strict=True)
    )
