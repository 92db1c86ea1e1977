"""Forward mode for every check of reverse rules, for ops with their own jvp rule.

Forward mode of other ops uses their reverse rules, so there is nothing to compare.
"""

from collections.abc import Iterator

import numpy as np

from ..case import primitive_of
from ..errors import GradcheckError, Skipped
from ..function import Arrays, Function
from ..layouts import layouts
from ..numeric import pack
from ..spec import OpSpec

_AGREE = 1e-12  # relative to the size of the terms: without finite differences


def has_jvp_rule(spec: OpSpec) -> bool:
    primitive = primitive_of(spec)
    return primitive is not None and primitive.jvp_rule is not None


def require_modes_agree(
    spec: OpSpec, function: Function, xs: Arrays, us: Arrays, vs: Arrays, what: str
) -> None:
    """⟨v, Ju⟩ = ⟨Jᵀv, u⟩, also for arrays without elements: there a rule must not fail."""
    if not has_jvp_rule(spec):
        return
    try:
        tangents = function.jvp(xs, us)
    except (GradcheckError, Skipped):
        raise
    except Exception as error:
        raise GradcheckError(f"{what}: forward mode raises {error!r}") from error
    equal_sums(pack(vs) * pack(tangents), pack(function.vjp(xs, vs)) * pack(us),
               f"{what}: ⟨v, Ju⟩ by forward mode and ⟨Jᵀv, u⟩")  # fmt: skip


def equal_sums(a: np.ndarray, b: np.ndarray, what: str) -> None:
    """Two sums of products are equal, relative to the size of their terms."""
    left, right = float(np.sum(a)), float(np.sum(b))
    size = float(np.sum(np.abs(a)) + np.sum(np.abs(b)))
    if not abs(left - right) <= _AGREE * size:
        raise GradcheckError(f"{what} differ: {left!r} and {right!r}, terms of size {size:.3g}")


def require_linear_in_tangent(spec: OpSpec, function: Function, us: Arrays) -> None:
    """K4 and K5 for a tangent: linearity, and independence of its memory.

    An op declared linear is its own jvp rule: it must be that at any size of tangents.
    """
    if not has_jvp_rule(spec):
        if "linear" in kind_of(spec):
            _require_homogeneous(function, us, function.jvp(function.xs, us), spec)
        return
    xs, ones = function.xs, [np.ones_like(u) for u in us]
    of_us, of_ones = function.jvp(xs, us), function.jvp(xs, ones)
    for a, b in ((-1.75, 1.0), (2.0**100, 0.0), (2.0**-100, 0.0), (0.0, 0.0)):
        found = function.jvp(xs, [a * u + b for u in us])
        expected = [a * t + b * s for t, s in zip(of_us, of_ones, strict=True)]
        sizes = [abs(a) * np.abs(t) + b * np.abs(s) for t, s in zip(of_us, of_ones, strict=True)]
        _require_near(found, expected, sizes, "is not linear in the tangent")
    _require_not_swallowed(function, ones, of_us)
    for name, moved in _laid_out(us):
        _require_near(function.jvp(xs, moved), of_us, [np.abs(t) for t in of_us],
                      f"is another for a tangent in memory {name}")  # fmt: skip


def kind_of(spec: OpSpec) -> str:
    """The declared kind of the op: "linear", "multilinear" ... ; "" for a composite."""
    primitive = primitive_of(spec)
    return "" if primitive is None else primitive.kind


def _require_homogeneous(function: Function, us: Arrays, of_us: Arrays, spec: OpSpec) -> None:
    large = 2.0**100
    found = [t / large for t in function.jvp(function.xs, [large * u for u in us])]
    _require_near(found, of_us, [np.abs(t) for t in of_us], "is not linear in the tangent, "
                  f"which is the op itself where kind={kind_of(spec)!r}")  # fmt: skip


def _require_not_swallowed(function: Function, ones: Arrays, of_us: Arrays) -> None:
    """NaN in a tangent must reach each result that depends on it."""
    for i, (t, one) in enumerate(zip(function.jvp(function.xs, [u * np.nan for u in ones]), of_us)):
        has_a_say = np.abs(one) > 1e-12 * np.max(np.abs(one), initial=0.0)
        if (np.isfinite(t) & has_a_say).any():
            raise GradcheckError(f"forward mode: a tangent of NaN gives a finite one of result {i}")


def _laid_out(us: Arrays) -> Iterator[tuple[str, Arrays]]:
    for i, u in enumerate(us):
        for name, other in layouts(u):
            yield name, [*us[:i], other, *us[i + 1 :]]


def _require_near(found: Arrays, expected: Arrays, sizes: Arrays, what: str) -> None:
    for i, (t, exact, size) in enumerate(zip(found, expected, sizes, strict=True)):
        slack = _AGREE * (size + np.max(size, initial=0.0))
        if not (np.abs(t - exact) <= slack).all():
            raise GradcheckError(f"forward mode: the tangent of result {i} {what}")
