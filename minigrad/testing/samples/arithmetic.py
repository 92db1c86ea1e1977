"""Samples of minigrad/ops/elementwise/arithmetic.py."""

import numpy as np

from ..spec import ErrorSample, Point, Sample, register_op
from .elements import (
    NUMBERS,
    REAL,
    TWO,
    beside,
    between_halves,
    binary,
    both,
    from_mpmath,
    never_tied,
    several,
    unary,
)

NO_DERIVATIVE = (
    "∂(aᵇ)/∂b does not exist for a negative real base, and is NaN there; the value is finite "
    "at whole b. The points and tests/ops/test_elementwise.py pin the values"
)
shapes_differ = ErrorSample("shapes", (np.ones(3), np.ones(4)), ValueError, r"\(3,\).*\(4,\)")

for name, reference in {"add": np.add, "sub": np.subtract, "mul": np.multiply}.items():
    register_op(name, binary(), reference=reference, dtypes=NUMBERS, errors=[shapes_differ])
register_op(
    "div",
    both(binary(b=(0.5, 2)), beside((-2, 2), (-2, -0.5))),
    reference=np.divide,
    dtypes=NUMBERS,
    errors=[shapes_differ],
)
register_op("neg", unary(), reference=np.negative, dtypes=NUMBERS, mp=lambda x: -x)
register_op("square", unary(), reference=np.square, dtypes=NUMBERS, mp=lambda x: x * x)
register_op(
    "reciprocal", unary(0.5, 2), reference=np.reciprocal, dtypes=NUMBERS, mp=lambda x: 1 / x
)
register_op(
    "sqrt",
    unary(0.5, 2),
    reference=np.sqrt,
    dtypes=NUMBERS,
    mp=from_mpmath("sqrt"),
    points=[Point("0", (0.0,), 0.0, (np.inf,))],
)
register_op(
    "rsqrt",
    unary(0.5, 2),
    reference=lambda x: 1 / np.sqrt(x),
    dtypes=NUMBERS,
    mp=lambda x: 1 / from_mpmath("sqrt")(x),
)
register_op(
    "cbrt",
    both(unary(0.5, 2), beside((-2, -0.5))),
    reference=np.cbrt,
    dtypes=REAL,
    mp=from_mpmath("cbrt"),
)


# -- powers ----------------------------------------------------------------------------------


def whole_exponents(rng, dtype):
    """Bases of both signs with exponents that are integers: no logarithm is taken."""
    a = rng.uniform(0.5, 1.5, (2, 5)) * np.array([[-1], [1]])
    yield Sample("whole exponents", (a.astype(dtype), np.array([-2, 0, 1, 2, 3], np.int8)))


register_op(
    "pow",
    both(binary((0.5, 2), (-2, 2)), whole_exponents),
    reference=np.power,
    dtypes=NUMBERS,
    points=[
        Point("x² at 0", (0.0, 2), 0.0, (0.0,)),
        Point("x¹ at 0", (0.0, 1), 0.0, (1.0,)),
        Point("x⁰ at 0", (0.0, 0), 1.0, (0.0,)),
        Point("x⁰ at 0, array exponent", (0.0, np.array(0.0)), 1.0, (0.0, 0.0)),
        Point("0 to the power 2", (0.0, np.array(2.0)), 0.0, (0.0, 0.0)),
        Point("(−2)³", (-2.0, 3), -8.0, (12.0,)),
        Point("(−2)⁴", (-2.0, 4), 16.0, (-32.0,)),
        Point("(−2)⁻³", (-2.0, -3), -0.125, (-0.1875,)),
        Point("2 as a number to the power 3", (2, np.array(3.0)), 8.0, (8 * np.log(2),)),
        Point("an unsigned 0 less 1 is no large power", (1e3, np.array(0, np.uint8)), 1.0, (0.0,)),
        Point("0 as a number to the power 2", (0, np.array(2.0)), 0.0, (0.0,)),
        Point("0 to the power 1", (0.0, np.array(1.0)), 0.0, (1.0, 0.0)),
        Point("0 to the power 1.5", (0.0, np.array(1.5)), 0.0, (0.0, 0.0)),
    ],
    nan_alone=NO_DERIVATIVE,
)
register_op(
    "float_power",
    binary((0.5, 2), (-2, 2)),
    reference=np.float_power,
    dtypes=("float64", "float32", "complex128"),
    nan_alone=NO_DERIVATIVE,
)


def _power_derivative(a, b, by_a=0, by_b=0):
    log = np.log(a)
    return {
        (1, 0): lambda: b * a ** (b - 1),
        (0, 1): lambda: a**b * log,
        (2, 1): lambda: a ** (b - 2) * (b * (b - 1) * log + 2 * b - 1),
        (1, 2): lambda: a ** (b - 1) * (b * log + 2) * log,
    }[by_a, by_b]()


register_op(
    "power_derivative",
    both(*[
        binary((0.5, 2), (-2, 2), by_a=m, by_b=n) for m, n in ((1, 0), (0, 1), (2, 1), (1, 2))
    ]),
    reference=_power_derivative,
    dtypes=NUMBERS,
    points=[
        Point(f"0 to the power {b}, {orders}", (0.0, np.array(b)), y, None, orders)
        for b, orders, y in (
            (-1.0, {"by_b": 2}, np.inf), (0.0, {"by_b": 2}, 0.0), (0.5, {"by_b": 2}, 0.0),
            (-1.0, {"by_a": 1, "by_b": 1}, np.inf), (0.0, {"by_a": 1, "by_b": 1}, np.inf),
            (0.5, {"by_a": 1, "by_b": 1}, -np.inf), (1.0, {"by_a": 1, "by_b": 1}, -np.inf),
            (1.5, {"by_a": 1, "by_b": 1}, 0.0), (0.5, {"by_a": 2}, -np.inf),
            (1.0, {"by_a": 2}, 0.0), (2.0, {"by_a": 2}, 2.0), (0.0, {"by_a": 2}, 0.0),
            (1.0, {"by_a": 1}, 1.0),
        )
    ],
    nan_alone=NO_DERIVATIVE,
)  # fmt: skip

# -- division with a whole quotient ----------------------------------------------------------


def quotients(rng, dtype):
    """a near 1.3 (k + ½) and b near ±1.3: a/b keeps 0.15 from whole numbers, where it jumps."""
    for shapes in TWO:
        a = rng.integers(-4, 4, shapes[0]) + rng.uniform(0.35, 0.65, shapes[0])
        b = rng.uniform(0.95, 1.05, shapes[1]) * rng.choice([-1, 1], shapes[1])
        args = np.asarray(1.3 * a).astype(dtype), np.asarray(1.3 * b).astype(dtype)
        yield Sample(f"{shapes[0]} with {shapes[1]}", args)


register_op("floor_divide", quotients, reference=np.floor_divide, dtypes=REAL, zero_gradient=True)
register_op("remainder", quotients, reference=np.remainder, dtypes=REAL)
register_op("fmod", quotients, reference=np.fmod, dtypes=REAL)
register_op("divmod", quotients, reference=np.divmod, dtypes=REAL)
register_op("modf", between_halves(), reference=np.modf, dtypes=REAL)

# -- signs, angles, combinations -------------------------------------------------------------

register_op(
    "sign",
    unary(),
    reference=np.sign,
    dtypes=NUMBERS,
    points=[Point("0", (0.0,), 0.0, (0.0,))],
)
register_op(
    "hypot_slope",
    binary((0.3, 2), (-2, -0.3)),
    reference=lambda a, b: np.where((a == 0) & (b == 0), 0, a / np.hypot(a, b)),
    dtypes=REAL,
    points=[Point("the origin", (0.0, np.array(0.0)), 0.0, (0.0, 0.0))],
)
register_op(
    "copysign",
    never_tied(),
    reference=np.copysign,
    dtypes=REAL,
    zero_gradient=(1,),
    points=[Point("0", (0.0, np.array(-1.0)), -0.0, (0.0, 0.0), kink=True)],
)
register_op(
    "hypot",
    binary(),
    reference=np.hypot,
    dtypes=REAL,
    points=[
        Point("origin", (0.0, 0.0), 0.0, (0.0, 0.0), kink=True),
        Point("squares overflow", (3e200, 4e200), 5e200, (0.6, 0.8)),
        Point("squares vanish", (3e-200, 4e-200), 5e-200, (0.6, 0.8)),
    ],
)
register_op(
    "arctan2",
    both(binary((0.5, 2), (-2, 2)), beside((-2, -0.5), (-2, 2))),
    reference=np.arctan2,
    dtypes=REAL,
    points=[
        Point("origin", (0.0, 0.0), 0.0, (0.0, 0.0)),
        Point("squares overflow", (1e200, 1e200), np.pi / 4, (5e-201, -5e-201)),
        Point("squares vanish", (1e-200, 1e-200), np.pi / 4, (5e199, -5e199)),
    ],
)
register_op("deg2rad", unary(-200, 200), reference=np.deg2rad, mp=from_mpmath("radians"))
register_op("rad2deg", unary(), reference=np.rad2deg, mp=from_mpmath("degrees"))
register_op(
    "fma",
    several((-2, 2), (-2, 2), (-2, 2)),
    reference=lambda a, b, c: a * b + c,
    dtypes=NUMBERS,
)


def _lerp(a, b, weight):
    """Computed from the nearer end."""
    return np.where(np.abs(weight) < 0.5, a + weight * (b - a), b - (1 - weight) * (b - a))


register_op(
    "lerp",
    several((-2, 2), (-2, 2), (0, 1)),
    reference=_lerp,
    dtypes=NUMBERS,
)
