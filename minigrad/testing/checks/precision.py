"""K15 and K16: rules in single and half precision; values and derivatives at 50 digits."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..case import DOUBLE, Case, Context, is_elementwise, primitive_of
from ..errors import DoesNotApply, GradcheckError, Skipped
from ..function import Arrays, Function, Pullback
from ..numeric import length, normal, pack
from ..spec import OpSpec
from .base import check
from .forward import widened
from .magnitudes import of_magnitudes
from .mixed import of_mixed_dtypes
from .roundings import along_itself, coarsest, size_of_terms, summed

# mpmath differentiates by differences at twice the digits: 50 digits of expm1(−600) = −1 + 10⁻²⁶¹
# would leave no digit
_DIGITS = 320
_SECOND = 400  # ε of a second derivative's length; right rules are off by 40 at most
_SMALL = 0.02  # of all second derivatives together, or of the direction: less may be rounding


@check("K15", "rules in narrow and mixed dtypes against the double-precision rule", per="every",
       optional=True)  # fmt: skip
def k15(case: Case) -> int:
    """≤ 4 ULP of max(|d|, 1), times √n if n terms were summed; cotangents of ±1.

    That leaves small entries of 16 bits much room, so the whole must also be within 5 % along d. A
    complex product has twice a real one's rounding (Brent, Percival and Zimmermann 2007: √5 ULP/2),
    hence 8 ULP there.
    """
    function = case.function()
    if not function.xs or not (values := function.value(function.xs)):
        raise DoesNotApply("a sample without a gradient")
    count = of_mixed_dtypes(case) + of_magnitudes(case)
    if case.dtype in DOUBLE:
        return count
    wide_args = [widened(x) for x in case.sample.args]
    wide = Function(function.fn, wide_args, function.params, function.positions)
    rng = case.rng("K15")
    vs = [rng.choice([-1.0, 1.0], y.shape).astype(y.dtype) for y in values]
    wide_vs = [widened(v) for v in vs]
    if [y.shape for y in wide.value(wide.xs)] != [v.shape for v in wide_vs]:
        raise DoesNotApply("a result whose shape depends on the dtype")
    narrow = function.vjp(function.xs, vs)
    exact = wide.vjp(wide.xs, wide_vs)
    for i, (g, d) in enumerate(zip(narrow, exact, strict=True)):
        ulps = 8 if any(x.dtype.kind == "c" for x in (d, *wide_vs)) else 4
        eps = ulps * coarsest(case)
        allowed = eps * size_of_terms(case, wide, wide_vs, i, d)
        wrong = ~(np.abs(widened(g) - d) <= allowed)
        if wrong.any():
            where = tuple(int(k) for k in np.argwhere(np.atleast_1d(wrong))[0])[: g.ndim]
            raise GradcheckError(
                f"the gradient of argument {i} at {list(where)} is {g[where]!r} in {g.dtype}, "
                f"{d[where]!r} in double precision ({int(wrong.sum())} of {wrong.size} are off)"
            )
        terms = summed(case, g, vs) if is_elementwise(case.spec) else 1.0  # else only a bound
        along_itself(g, d, eps * terms**0.5, f"the gradient of argument {i}")
    if case.primitive is not None and case.primitive.jvp_rule is not None:
        forward_mode(case, function, wide)
    if case.context.full or case.is_first_of_its_kind:
        count += second_order(case, function, wide, values)
    return count + sum(g.size for g in narrow)


def forward_mode(case: Case, function: Function, wide: Function) -> None:
    """The same for tangents of ±1 in forward mode: the reverse rules say nothing about a jvp
    rule."""
    rng = case.rng("K15", "jvp")
    us = [rng.choice([-1.0, 1.0], x.shape).astype(x.dtype) for x in function.xs]
    exact = wide.jvp(wide.xs, [widened(u) for u in us])
    eps = 8 * coarsest(case) * np.sqrt(sum(u.size for u in us))
    for i, (t, d) in enumerate(zip(function.jvp(function.xs, us), exact, strict=True)):
        if not (np.abs(widened(t) - d) <= eps * np.maximum(np.abs(d), 1)).all():
            raise GradcheckError(
                f"forward mode: the tangent of result {i} in {t.dtype} is off by "
                f"{float(np.max(np.abs(widened(t) - d))):.3g} from that in double precision"
            )
        along_itself(t, d, 8 * coarsest(case), f"forward mode: the tangent of result {i}")


def second_order(case: Case, function: Function, wide: Function, values: Arrays) -> int:
    """The gradient of the gradient, by x and by the cotangent, as a whole for each; returns their
    number.

    Parts far smaller than all together, or than the direction, may be mere rounding: their
    tolerance is a share of the larger one.
    """
    rng = case.rng("K15", "second order")
    point, ws = [*function.xs, *normal(rng, values)], normal(rng, function.xs)
    found = Pullback(function).vjp(point, ws)
    exact = Pullback(wide).vjp([widened(x) for x in point], [widened(w) for w in ws])
    sizes = [length(np.abs(d)) for d in exact]
    least = _SMALL * max(length(np.array(sizes)), length(pack(ws)))
    for i, (g, d, size) in enumerate(zip(found, exact, sizes, strict=True)):
        allowed = _SECOND * coarsest(case) * max(size, least)
        error = length(np.abs(widened(g) - d))
        if not error <= allowed:
            names = Pullback(function).names
            raise GradcheckError(
                f"the second derivative by {names[min(i, len(names) - 1)]} in {g.dtype} is off by "
                f"{error:.3g} from that in double precision, which is of length {size:.3g}"
            )
    return len(found)


# Ops whose derivative must be accurate relative to itself in the tails as well.
_RELATIVE = {"expm1", "log1p", "sigmoid", "softplus"}


@check("K16", "unary ops against mpmath at 50 digits", per="op", optional=True)
def k16(spec: OpSpec, context: Context) -> int:
    """On a logarithmic grid: values ≤ 4 ULP; derivatives ≤ 8 ε max(|d|, 1).

    If the spec gives a reason, values may also be off by the effect of one ULP of x, |f'(x)|
    ULP(x). Derivatives may be off by |f''(x)| ULP(x).
    """
    if spec.mp is None:
        if is_unary_row(spec):
            raise Skipped("a unary elementwise op whose samples give no mp= function")
        raise DoesNotApply("not a unary elementwise op")
    points = list(grid(spec.mp, context))
    if not points:
        raise DoesNotApply("mpmath's function is real nowhere on the grid")
    x = np.array([p[0] for p in points])
    exact = np.array([p[1] for p in points])
    slopes = np.array([p[2] for p in points])
    function = Function(spec.call, [x])
    y = function.value([x])[0]
    d = function.vjp([x], [np.ones_like(y)])[0]
    eps = np.finfo(np.float64).eps
    floor = 0.0 if spec.name in _RELATIVE else 1.0
    allowed = 4 * np.spacing(np.abs(exact))
    if spec.conditioned:
        allowed += np.abs(slopes) * np.spacing(np.abs(x))
    _within(x, y, exact, allowed, "value")
    of_slopes = 8 * eps * np.maximum(np.abs(slopes), floor)
    if spec.conditioned:
        off = ~(np.abs(d - slopes) <= of_slopes)
        of_slopes[off] += [bend_of(spec.mp, z) * np.spacing(abs(z)) for z in x[off]]
    _within(x, d, slopes, of_slopes, "derivative")
    return 2 * len(points)


def bend_of(f: Any, x: float) -> float:
    """|f''(x)| by mpmath."""
    import mpmath

    with mpmath.workdps(_DIGITS):
        return float(abs(mpmath.diff(f, mpmath.mpf(x), 2)))


def is_unary_row(spec: OpSpec) -> bool:
    """Whether K16 covers the op: one argument, with a derivative to check."""
    primitive = primitive_of(spec)
    one = primitive is not None and len(primitive.arrays) == 1 and primitive.tracked != 0
    return one and is_elementwise(spec) and not spec.zero_gradient


def grid(f: Any, context: Context) -> Iterator[tuple[float, float, float]]:
    """(x, f(x), f'(x)) for ±2^k (1 + r) where f is real and fits a float64, both ways."""
    try:
        import mpmath
        from mpmath.libmp import NoConvergence
    except ImportError:
        raise Skipped("mpmath is not installed") from None
    rng = context.rng("grid")
    exponents = np.linspace(-60, 20, 161 if context.full else 17)
    for x in (s * float(2.0**k * (1 + rng.random())) for k in exponents for s in (1, -1)):
        try:
            with mpmath.workdps(_DIGITS):
                y, d = f(mpmath.mpf(x)), mpmath.diff(f, mpmath.mpf(x))
        except (ArithmeticError, ValueError, NoConvergence):
            continue
        real = [z for z in (y, d) if not isinstance(z, mpmath.mpc) and mpmath.isfinite(z)]
        if len(real) == 2 and all(z == 0 or 1e-290 < abs(z) < 1e290 for z in real):
            yield x, float(y), float(d)


def _within(x: np.ndarray, a: np.ndarray, b: np.ndarray, allowed: np.ndarray, what: str) -> None:
    wrong = ~(np.abs(a - b) <= allowed)
    if wrong.any():
        i = int(np.argmax(np.where(wrong, np.abs(a - b) / allowed, 0)))
        raise GradcheckError(
            f"the {what} at {float(x[i])!r} is {float(a[i])!r}, mpmath gives {float(b[i])!r}: "
            f"{abs(a[i] - b[i]) / allowed[i]:.3g} times the tolerance "
            f"({int(wrong.sum())} of {len(x)} points)"
        )
