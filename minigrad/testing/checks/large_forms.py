"""K25 of ops that are not elementwise, continued: other forms that a large call may take.

These are single and half precision, and a graph of the backward. The measure is the gradient in
double precision, which finite differences have confirmed.
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
_HALF = {"float64": "float16"}
_OFF = 6e-4  # of a result's length: rounding of long sums in single precision
_OFF_HALF = 4e-3  # the same for float16, whose sums are in float32: some eight roundings of results
_SMALL = 0.1  # of all lengths together: terms may cancel in a smaller one
_MOVES = 8  # times √n times the change by one rounding of the arguments, n the longest axis
_NEAR = 2.0**-12  # of a unit: the step of finite differences, as in grown.py
_RECORDED = 1e-9  # of the largest entry: rounding of long sums in double precision


def require_single_precision(
    spec: OpSpec, function: Function, xs: Arrays, rng: np.random.Generator, what: str
) -> None:
    """Values, gradients and tangents in single precision, of the arguments rounded to it.

    Each may be off by 6e-4 of its length, or of a tenth of all lengths together. As for sums of n
    terms, it may also be off by 8 √n times its change in double precision by one rounding of each
    argument. For elements that sort or cancel, that may be the whole value.
    """
    if _takes(spec, function, xs, _SINGLE):
        moves = _MOVES * max(n for x in function.args for n in np.shape(x)) ** 0.5
        _require_narrow(spec, function, xs, rng, what, _SINGLE, _OFF, moves)


def require_half_precision(
    spec: OpSpec, function: Function, xs: Arrays, rng: np.random.Generator, what: str
) -> None:
    """The same in float16, with a stricter bound: sums are made in float32, so n makes no
    difference.

    Each may be off by 4e-3 of its length, and by 8 times its change when each argument moves by one
    rounding.
    """
    if _takes(spec, function, xs, _HALF):
        _require_narrow(spec, function, xs, rng, what, _HALF, _OFF_HALF, _MOVES)


def _takes(spec: OpSpec, function: Function, xs: Arrays, narrow: dict[str, str]) -> bool:
    args = function.args_with(xs)
    return all(narrow.get(str(x.dtype)) in spec.dtypes for x in args if is_smooth_array(x))


def _require_narrow(
    spec: OpSpec, function: Function, xs: Arrays, rng: np.random.Generator, what: str,
    dtypes: dict[str, str], off: float, moves: float,
) -> None:  # fmt: skip
    """off, moves: the tolerance, as a share of the length and as a number of roundings of
    arguments."""
    args = function.args_with(xs)
    with np.errstate(over="ignore"):
        narrowed = [x.astype(dtypes[str(x.dtype)]) if is_smooth_array(x) else x for x in args]
    narrow = Function(function.fn, narrowed, function.params, function.positions, function.names)
    rounded = _alike(narrow.xs, xs)
    if not all(np.isfinite(x).all() for x in rounded):
        return  # beyond its range
    ys, exact_ys = narrow.value_or_refusal(narrow.xs), function.value_or_refusal(rounded)
    if ys is None or exact_ys is None or not all(np.isfinite(y).all() for y in ys):
        return
    vs, us = normal(rng, exact_ys), normal(rng, xs)
    eps = max(float(np.finfo(x.dtype).eps) for x in narrow.xs)
    moved = [x * (1 + eps * np.sign(u)) for x, u in zip(rounded, us, strict=True)]
    _require_near(ys, exact_ys, lambda: function.value(moved), off, moves, f"{what}: result {{}}")
    vs = _alike(_alike(vs, ys), vs)
    _require_near(
        narrow.vjp(narrow.xs, _alike(vs, ys)), function.vjp(rounded, vs),
        lambda: function.vjp(moved, vs), off, moves,
        f"{what}: the gradient of differentiated argument {{}}",
    )  # fmt: skip
    if has_jvp_rule(spec):
        us = _alike(_alike(us, narrow.xs), us)
        _require_near(
            narrow.jvp(narrow.xs, _alike(us, narrow.xs)), function.jvp(rounded, us),
            lambda: function.jvp(moved, us), off, moves,
            f"{what}: forward mode, the tangent of result {{}}",
        )  # fmt: skip


def _alike(arrays: Arrays, like: Arrays) -> Arrays:
    return [a.astype(b.dtype) for a, b in zip(arrays, like, strict=True)]


def _require_near(
    found: Arrays, exact: Arrays, moved: Callable[[], Arrays], off: float, moves: float, what: str
) -> None:
    """moved: returns `exact` for the moved arguments, called only if a value is off."""
    sizes = [length(b) for b in exact]
    least = _SMALL * length(np.array(sizes))
    for i, (a, b) in enumerate(zip(found, exact, strict=True)):
        if a.shape != b.shape or not _in_range(a, b):
            continue  # the shape depends on values, or the range ends
        error, size = length(a - b), max(sizes[i], least)
        if error <= off * size:
            continue
        c = moved()[i]
        if b.shape == c.shape and not error <= off * size + moves * length(b - c):
            raise GradcheckError(
                f"{what.format(i)} is off by {100 * error / size:.3g} % in {a.dtype} from that in "
                "double precision, taken as a whole"
            )


def _in_range(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether b, in double precision, is in the range of a's dtype: no ∞, and not all values
    vanish."""
    if a.dtype.kind not in "fc":
        return True
    limits, largest = np.finfo(a.dtype), float(np.max(np.abs(b), initial=0.0))
    return bool(np.isfinite(a).all()) and (largest == 0 or limits.tiny <= largest <= limits.max)


def require_recorded(
    function: Function, xs: Arrays, rng: np.random.Generator, what: str, differentiate: bool
) -> None:
    """With create_graph the gradient is the same; and, on request, its derivative is right."""
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
