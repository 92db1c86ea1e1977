"""K11: hard points: gradients between the one-sided derivatives at kinks; value and gradient as
stated."""

import numpy as np

from ...backends.dtypes import finfo, is_differentiable
from ..case import Context, argument_names, differentiated
from ..errors import DoesNotApply, GradcheckError
from ..function import Function, as_array, as_tensors, results
from ..numeric import normal, one_sided, pack, unpack
from ..spec import OpSpec, Point
from .base import check


@check("K11", "hard points: at kinks between the one-sided derivatives; else as stated", per="op",
       gradient=False, optional=True)  # fmt: skip
def k11(spec: OpSpec, context: Context) -> int:
    if not spec.points:
        raise DoesNotApply("the op names no hard points")
    count = 0
    for point in spec.points:
        if point.value is not None:
            count += value_as_stated(spec, point)
        if point.kink:
            count += between_one_sided(at_point(spec, point), point, context)
        if point.grads is not None:
            count += gradient_as_stated(at_point(spec, point), point)
    return count


def value_as_stated(spec: OpSpec, point: Point) -> int:
    """Every result is the stated value, in the result's dtype."""
    args = tuple(np.asarray(x) if isinstance(x, float | complex) else x for x in point.args)
    found = [as_array(y) for y in results(spec.call(*as_tensors(args), **point.params))]
    stated = point.value if isinstance(point.value, tuple) else (point.value,)
    if len(found) != len(stated):
        raise GradcheckError(f"{point.name!r} states {len(stated)} values; there are {len(found)}")
    for y, value in zip(found, stated, strict=True):
        expected = np.broadcast_to(np.asarray(value).astype(y.dtype), y.shape)
        if not same_to_rounding(y, expected):
            raise GradcheckError(
                f"at {point.name!r} the value is {y.tolist()!r}, stated is {expected.tolist()!r}"
            )
    return len(found)


def at_point(spec: OpSpec, point: Point) -> Function:
    args = tuple(np.asarray(x) if isinstance(x, float | complex) else x for x in point.args)
    positions = differentiated(spec, args)
    return Function(spec.call, args, point.params, positions, argument_names(spec))


def between_one_sided(function: Function, point: Point, context: Context) -> int:
    """⟨g, u⟩ lies between the one-sided derivatives along u, for 40 random u (level full: 200).

    The check takes one result at a time: in a mixture of results with signs, one kink can hide
    another.
    """
    x = pack(function.xs)
    values = function.value(function.xs)
    units = np.eye(pack(values).size)
    total = 200 if context.full else 40
    for i, unit in enumerate(units):
        g = pack(function.vjp(function.xs, unpack(unit, values)))
        for k in range(max(1, total // len(units))):
            u = pack(normal(context.rng(function.names, point.name, i, k), function.xs))

            def along(t: float) -> float:
                return float(unit @ pack(function.value(unpack(x + t * u, function.xs))))

            left, right = one_sided(along)
            slack = 1e-6 * (abs(left) + abs(right)) + 1e-9
            if not min(left, right) - slack <= float(g @ u) <= max(left, right) + slack:
                raise GradcheckError(
                    f"at the kink {point.name!r} the gradient gives {float(g @ u)!r} along a "
                    f"direction where the one-sided derivatives are {left!r} and {right!r}"
                )
    return total


def gradient_as_stated(function: Function, point: Point) -> int:
    """The gradients for a cotangent of ones equal those stated for the point.

    No floating-point warning may occur if all stated values are finite.
    """
    stated = [np.asarray(g) for g in point.grads or () if g is not None]
    finite = all(np.isfinite(g).all() for g in stated)
    with np.errstate(all="raise" if finite else "ignore", under="ignore"):
        try:
            values = function.value(function.xs)
            found = function.vjp(function.xs, [np.ones_like(y) for y in values])
        except FloatingPointError as error:
            raise GradcheckError(f"at {point.name!r}: a warning, {error}") from error
    if len(stated) != len(found):
        raise GradcheckError(
            f"the point {point.name!r} states {len(stated)} gradients; the op has {len(found)}"
        )
    for position, g, expected in zip(function.positions, found, stated, strict=True):
        expected = np.broadcast_to(expected, g.shape)
        if not same_to_rounding(g, expected):
            raise GradcheckError(
                f"at {point.name!r} the gradient of argument {position} is {g.tolist()!r}, the "
                f"stated convention is {expected.tolist()!r}"
            )
    return len(stated)


def same_to_rounding(a: np.ndarray, b: np.ndarray, ulps: int = 4) -> bool:
    """Equal, or within 4 ULP of the larger; NaN equals NaN, infinities by sign."""
    if not is_differentiable(a.dtype):
        return bool((a == b).all())
    eps = float(finfo(a.dtype).eps)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= ulps * eps * np.maximum(np.abs(a), np.abs(b))
        near &= (a == 0) == (b == 0)  # a stated zero is exact
        near &= np.isfinite(a) & np.isfinite(b)  # an infinity is within ∞ ULP of every number
    return bool(((a == b) | near | (np.isnan(a) & np.isnan(b))).all())
