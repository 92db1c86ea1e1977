"""Samples of minigrad/ops/elementwise/selection.py."""

import numpy as np

from ..spec import Point, Sample, register_op
from .elements import NUMBERS, REAL, TWO, both, never_tied, unary, uniform

nan = np.nan


def conditions(rng, dtype):
    for shapes in TWO:
        a, b = [uniform(rng, s, dtype, -2, 2) for s in shapes]
        shape = np.broadcast_shapes(*shapes)
        yield Sample(f"{shapes[0]} or {shapes[1]}", (rng.random(shape) < 0.5, a, b))
    a, b = uniform(rng, (3,), dtype, -2, 2), uniform(rng, (3,), dtype, -2, 2)
    yield Sample("condition broadcast", (np.array([[True], [False]]), a, b))


def masks(rng, dtype):
    for shape in ((2, 3), (3,), (), (0, 2)):
        x = uniform(rng, shape, dtype, -2, 2)
        yield Sample(f"{shape}", (x, np.asarray(np.arange(x.size).reshape(shape) % 2 == 0)))


register_op(
    "where",
    conditions,
    reference=np.where,
    dtypes=NUMBERS,
    points=[
        Point("infinity not taken", (np.array(True), 1.0, np.array(np.inf)), 1.0, (1.0, 0.0)),
    ],
)
register_op(
    "keep",
    masks,
    reference=lambda x, condition: np.where(condition, x, 0),
    dtypes=NUMBERS,
    points=[Point("infinity dropped", (np.array(-np.inf), np.array(False)), 0.0, (0.0,))],
)

tie = Point("tie", (1.0, 1.0), 1.0, (0.5, 0.5), kink=True)
for name in ("maximum", "minimum", "fmax", "fmin"):
    nans = [Point("two NaN", (nan, nan), nan, (0.5, 0.5))]
    passed_over = name[0] == "f"
    nans += [
        Point("NaN loses", (nan, 2.0), 2.0, (0.0, 1.0))
        if passed_over
        else Point("NaN wins", (nan, 2.0), nan, (1.0, 0.0))
    ]
    register_op(name, never_tied(), reference=getattr(np, name), dtypes=REAL, points=[tie, *nans])


# -- clip ------------------------------------------------------------------------------------


def bounds(rng, dtype):
    """The three arguments as arrays that broadcast; values far enough from their bounds."""
    x = np.array([[-2.1, -0.3, 0.4], [0.2, 1.9, -1.7]]) + rng.uniform(-0.1, 0.1, (2, 3))
    low, high = np.array([-1.0, -1.1, -0.9]), np.array([[1.0], [1.2]])
    yield Sample("array bounds", (x.astype(dtype), low.astype(dtype), high.astype(dtype)))


def numbers(rng, dtype):
    x = np.array([[-2.1, -0.3, 0.4], [0.2, 1.9, -1.7]]) + rng.uniform(-0.1, 0.1, (2, 3))
    yield Sample("both bounds", (x.astype(dtype),), {"min": -1.0, "max": 1.0})
    yield Sample("min alone", (x.astype(dtype),), {"min": -1.0})
    yield Sample("max alone", (x.astype(dtype),), {"max": 1.0})
    yield Sample("0-d", (np.asarray(0.3, dtype),), {"min": -1.0, "max": 1.0})
    yield Sample("empty", (np.zeros((0,), dtype),), {"min": -1.0, "max": 1.0})


register_op(
    "clip",
    both(bounds, numbers),
    reference=np.clip,
    dtypes=("float64", "float32", "float16"),
    points=[
        Point("at the lower bound", (0.0, np.array(0.0), np.array(1.0)), 0.0, (0, 1, 0), kink=True),
        Point("at the upper bound", (1.0, np.array(0.0), np.array(1.0)), 1.0, (0, 0, 1), kink=True),
        Point("at a constant bound", (1.0, 0, 1), 1.0, (0.0,), kink=True),
        Point("bounds that meet", (0.5, np.array(2.0), np.array(2.0)), 2.0, (0, 0, 1)),
        Point("bounds crossed", (0.5, np.array(2.0), np.array(1.0)), 1.0, (0, 0, 1)),
    ],
)

# -- steps and repairs -----------------------------------------------------------------------


def steps(rng, dtype):
    a = np.array([[-1.5, 0.0, 0.7], [0.0, 2.0, -0.3]])
    yield Sample("(2, 3)", (a.astype(dtype), uniform(rng, (3,), dtype, 0, 1)))


register_op(
    "heaviside",
    steps,
    reference=np.heaviside,
    dtypes=REAL,
    zero_gradient=(0,),
    constants=(0,),
    points=[Point("step", (np.array(0.0), np.array(0.5)), 0.5, (1.0,))],
)
register_op(
    "nan_to_num",
    unary(),
    reference=np.nan_to_num,
    dtypes=REAL,
    mp=lambda x: x,
    points=[
        Point("NaN", (np.array([nan, 1.0]),), [0.0, 1.0], (np.array([0.0, 1.0]),)),
        Point("∞", (np.array(np.inf),), 9.0, (0.0,), {"posinf": 9.0}),
        Point(
            "an imaginary part of ∞ alone",
            (np.array(complex(1, np.inf)),),
            1 + 9j,
            (0j,),
            {"posinf": 9.0},
        ),
        Point("−∞", (np.array(-np.inf),), -8.0, (0.0,), {"nan": 1.0, "neginf": -8.0}),
    ],
)
