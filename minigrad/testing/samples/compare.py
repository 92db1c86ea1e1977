"""Samples of minigrad/ops/elementwise/compare.py."""

import numpy as np

from ..spec import Point, Sample, register_op
from .elements import NUMBERS, REAL, TWO, between_halves, unary

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
LOGIC = ("logical_and", "logical_or", "logical_xor")
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift")


def few_values(rng, dtype):
    """Values with many equal ones, and many 0."""
    for shapes in TWO:
        args = [np.asarray(rng.integers(-1, 2, s)).astype(dtype) for s in shapes]
        yield Sample(f"{shapes[0]} with {shapes[1]}", tuple(args))


def one_of_few(rng, dtype):
    for shape in ((2, 3), ()):
        yield Sample(f"{shape}", (np.asarray(rng.integers(-1, 2, shape)).astype(dtype),))


def integers(rng, dtype):
    for shapes in TWO:
        args = [np.asarray(rng.integers(0, 7, s)) for s in shapes]
        yield Sample(f"{shapes[0]} with {shapes[1]}", tuple(args))


def one_integer(rng, dtype):
    yield Sample("(2, 3)", (rng.integers(-7, 7, (2, 3)),))
    yield Sample("bool", (rng.random((3,)) < 0.5,))


for name in (*COMPARISONS, *LOGIC):
    dtypes = NUMBERS if name in ("equal", "not_equal") else REAL
    register_op(name, few_values, reference=getattr(np, name), dtypes=dtypes)
for name in BITS:
    register_op(name, integers, reference=getattr(np, name), dtypes=("float64",))
register_op("bitwise_invert", one_integer, reference=np.invert, dtypes=("float64",))
register_op("logical_not", one_of_few, reference=np.logical_not, dtypes=NUMBERS)
for name in ("isfinite", "isinf", "isnan"):
    register_op(name, unary(), reference=getattr(np, name), dtypes=NUMBERS)
register_op("signbit", unary(), reference=np.signbit, dtypes=REAL)
register_op("nextafter", few_values, reference=np.nextafter, zero_gradient=(1,))
register_op(
    "isclose", few_values, reference=np.isclose,
    points=[
        Point("a share of the second", (1.0, 1.1), True, params={"rtol": 0.095, "atol": 0.0}),
        Point("NaN is near nothing", (np.nan, np.nan), False),
        Point("NaN is near NaN", (np.nan, np.nan), True, params={"equal_nan": True}),
    ],
)  # fmt: skip


def _as_array(truth):
    """As an array, for the harness: allclose returns a Python bool."""
    return np.asarray(truth)


def _on_tensors(name):
    from ...engine.registry import op
    from ...tensor_api.tensor import Tensor

    return lambda a, b: Tensor(_as_array(getattr(op, name)(a, b)))


register_op("allclose", few_values, call=_on_tensors("allclose"), reference=np.allclose,
            differentiable=False, skips={"K14": "it returns a Python bool"})  # fmt: skip
register_op(
    "array_equal", few_values, reference=np.array_equal,
    points=[Point("NaN equals NaN", (np.nan, np.nan), True, params={"equal_nan": True})],
)  # fmt: skip

# -- rounding --------------------------------------------------------------------------------

for name in ("floor", "ceil", "trunc", "rint", "fix"):
    register_op(
        name, between_halves(), reference=getattr(np, name), dtypes=REAL, zero_gradient=True
    )


def decimals(rng, dtype):
    """Near k · 10^−places, away from the jumps half-way between."""
    for shape, places in (((2, 3), 0), ((3,), 1), ((), -1)):
        x = (rng.integers(-40, 40, shape) + rng.uniform(-0.4, 0.4, shape)) * 10.0**-places
        yield Sample(f"{places} decimals", (np.asarray(x).astype(dtype),), {"decimals": places})


register_op(
    "round", decimals, reference=np.round, dtypes=("float64", "float32"), zero_gradient=True
)
