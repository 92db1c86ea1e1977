"""K25 of ops that are not elementwise, continued: other forms that a large call may take.

In single precision and with a graph of its backward. What these are held to is the gradient in
double precision, which finite differences have shown to be right.
"""

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from ..compare import check_direction
from ..errors import GradcheckError, Inconclusive
from ..function import Arrays, Function, Pullback, as_array, is_smooth_array, pulled_back
from ..numeric import length, normal
from ..spec import OpSpec
from .pushed import has_jvp_rule

_SINGLE = {"float64": "float32", "complex128": "complex64"}
_OFF = 6e-4  # of a result's length: what long sums in single precision may round apart
_SMALL = 0.1  # of all lengths together: terms may cancel in one that is smaller
_MOVES = 8  # √n times this what one rounding of the arguments changes, n the longest axis
_NEAR = 2.0**-12  # of a unit: how far finite differences step, as in grown.py
_RECORDED = 1e-9  # of the largest entry: what long sums in double precision may round apart


def require_single_precision(
    spec: OpSpec, function: Function, xs: Arrays, rng: np.random.Generator, what: str
) -> None:
    """Values, gradients and tangents in single precision, of the arguments rounded to it.

    Each may be off by 6e-4 of its length, or of a tenth of all lengths together, and by 8 √n times
    what it changes by in double precision where each argument moves by one rounding, as sums of n
    terms may: of elements that sort or cancel that may be all.
    """
    args = function.args_with(xs)
    if not all(_SINGLE.get(str(x.dtype)) in spec.dtypes for x in args if is_smooth_array(x)):
        return
    single = [x.astype(_SINGLE[str(x.dtype)]) if is_smooth_array(x) else x for x in args]
    narrow = Function(function.fn, single, function.params, function.positions, function.names)
    rounded = _alike(narrow.xs, xs)
    ys, exact_ys = narrow.value_or_refusal(narrow.xs), function.value_or_refusal(rounded)
    if ys is None or exact_ys is None or not all(np.isfinite(y).all() for y in ys):
        return  # beyond its range
    vs, us = normal(rng, exact_ys), normal(rng, xs)
    eps = float(np.finfo(np.float32).eps)
    moved = [x * (1 + eps * np.sign(u)) for x, u in zip(rounded, us, strict=True)]
    moves = _MOVES * max(n for x in args for n in np.shape(x)) ** 0.5
    _require_near(ys, exact_ys, lambda: function.value(moved), moves, f"{what}: result {{}}")
    _require_near(
        narrow.vjp(narrow.xs, _alike(vs, ys)), function.vjp(rounded, vs),
        lambda: function.vjp(moved, vs), moves,
        f"{what}: the gradient of differentiated argument {{}}",
    )  # fmt: skip
    if has_jvp_rule(spec):
        _require_near(
            narrow.jvp(narrow.xs, _alike(us, narrow.xs)), function.jvp(rounded, us),
            lambda: function.jvp(moved, us), moves,
            f"{what}: forward mode, the tangent of result {{}}",
        )  # fmt: skip


def _alike(arrays: Arrays, like: Arrays) -> Arrays:
    return [a.astype(b.dtype) for a, b in zip(arrays, like, strict=True)]


def _require_near(
    found: Arrays, exact: Arrays, moved: Callable[[], Arrays], moves: float, what: str
) -> None:
    """moved: what `exact` is for the moved arguments, asked for only where something is off."""
    sizes = [length(b) for b in exact]
    least = _SMALL * length(np.array(sizes))
    for i, (a, b) in enumerate(zip(found, exact, strict=True)):
        if a.shape != b.shape or not _in_range(a, b):
            continue  # the shape depends on values, or the range ends
        error, size = length(a - b), max(sizes[i], least)
        if error <= _OFF * size:
            continue
        c = moved()[i]
        if b.shape == c.shape and not error <= _OFF * size + moves * length(b - c):
            raise GradcheckError(
                f"{what.format(i)} is off by {100 * error / size:.3g} % in {a.dtype} from that in "
                "double precision, taken as a whole"
            )


def _in_range(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether b, in double precision, is in the range of a's dtype: no ∞, and not all vanishes."""
    if a.dtype.kind not in "fc":
        return True
    limits, largest = np.finfo(a.dtype), float(np.max(np.abs(b), initial=0.0))
    return bool(np.isfinite(a).all()) and (largest == 0 or limits.tiny <= largest <= limits.max)


def require_recorded(
    function: Function, xs: Arrays, rng: np.random.Generator, what: str, differentiate: bool
) -> None:
    """With create_graph the gradient is the same; and, where wanted, its derivative right."""
    leaves, ys = function.record(xs)
    vs = normal(rng, [as_array(y) for y in ys])
    plain = pulled_back(leaves, ys, vs, retain_graph=True)
    recorded = pulled_back(leaves, ys, vs, create_graph=True)
    for i, (g, same) in enumerate(zip(plain, recorded, strict=True)):
        off, size = np.abs(same - g), np.abs(g)
        if not np.max(off, initial=0.0) <= _RECORDED * np.max(size, initial=0.0):
            raise GradcheckError(
                f"{what}: the gradient of differentiated argument {i} is another with "
                "create_graph=True"
            )
    if differentiate:
        point = [*xs, *vs]
        us, ws = [_NEAR * u for u in normal(rng, point)], normal(rng, plain)
        with suppress(Inconclusive):
            check_direction(Pullback(function), point, us, ws, f"{what}: second derivative")
