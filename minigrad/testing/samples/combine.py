"""Samples of sums of products and other short compositions."""

from itertools import combinations, combinations_with_replacement

import numpy as np

from ..spec import ErrorSample, Point, register_op
from .elements import between_halves
from .forms import COMPLEX, REAL, distinct, near_one, of_several, over

_EXACT = ("float64", "float32")


def _register(name, samples, reference=None, dtypes=REAL, **options):
    register_op(name, samples, reference=reference, dtypes=dtypes, **options)


_register(
    "addcmul",
    of_several([(((2, 3), (2, 3), (3,)), {}), (((3,), (2, 3), (2, 1)), {"value": 0.5})]),
    reference=lambda x, a, b, value=1: x + a * b * value,
    dtypes=COMPLEX,
)
_register(
    "addcdiv",
    of_several([(((2, 3), (2, 3), (3,)), {}), (((3,), (2, 3), (2, 1)), {"value": 2})], near_one),
    reference=lambda x, a, b, value=1: x + a / b * value,
    dtypes=COMPLEX,
)


def _scaled_sum(product):
    """beta x + alpha times the product of the others, and x left out where beta is 0"""

    def reference(x, a, b, beta=1, alpha=1):
        y = alpha * product(a, b)
        return y + (beta * x if beta else np.zeros_like(x))

    return reference


_WHOLE, _PARTS = {"beta": 2, "alpha": 0.5}, {"beta": 0.5, "alpha": 2}
_X_IS_NAN = Point(
    "x does not count",
    (np.full((1, 1), np.nan), np.full((1, 1, 1), 2.0), np.full((1, 1, 1), 3.0)),
    np.full((1, 1, 1), 6.0),
    ([[0.0]], [[[3.0]]], [[[2.0]]]),
    {"beta": 0},
)
_register(
    "addmv",
    of_several([(((2,), (2, 3), (3,)), {}), (((), (2, 3), (3,)), _WHOLE)]),
    reference=_scaled_sum(np.matmul),
)
_register(
    "addr",
    of_several([(((2, 3), (2,), (3,)), {}), (((3,), (2,), (3,)), _PARTS)]),
    reference=_scaled_sum(lambda a, b: a.reshape(-1, 1) * b.reshape(-1)),
)
_register(
    "baddbmm",
    of_several([(((2, 2, 4), (2, 2, 3), (2, 3, 4)), {}), (((4,), (1, 2, 3), (1, 3, 4)), _WHOLE)]),
    reference=_scaled_sum(np.matmul),
    points=[_X_IS_NAN],
)
_register(
    "addbmm",
    of_several([(((2, 4), (2, 2, 3), (2, 3, 4)), {}), (((4,), (2, 2, 3), (2, 3, 4)), _PARTS)]),
    reference=_scaled_sum(lambda a, b: np.einsum("kmn,knp->mp", a, b)),
)


def _slices_within(x, p, axis, maxnorm):
    if not x.ndim:  # a slice of a vector is a number
        return _slices_within(x[None], p, axis, maxnorm)[0]
    y = x.copy()
    slices = np.moveaxis(y, axis, 0)
    for i, part in enumerate(slices):
        size = (np.abs(part).astype(float) ** p).sum() ** (1 / p)
        if size > maxnorm:
            slices[i] *= maxnorm / size
    return y


_register(
    "renorm",
    of_several([(((3, 4), 2.0, 0, 1.0), {}), (((2, 3, 2), 1.0, 1, 50.0), {})], distinct),
    reference=_slices_within,
    dtypes=_EXACT,
)
for _name, _reference in (
    (
        "var_mean",
        lambda x, **o: (x.var(**o), x.mean(o.get("axis"), keepdims=o.get("keepdims", False))),
    ),
    (
        "std_mean",
        lambda x, **o: (x.std(**o), x.mean(o.get("axis"), keepdims=o.get("keepdims", False))),
    ),
):
    _register(
        _name,
        over([((2, 3), {}), ((2, 3, 2), {"axis": 1, "keepdims": True, "ddof": 1})]),
        reference=_reference,
        dtypes=_EXACT,
    )
_register(
    "aminmax",
    over([((2, 3), {}), ((2, 3), {"axis": 1, "keepdims": True})], distinct),
    reference=lambda x, **o: (x.min(**o), x.max(**o)),
)


def _kth(x, k, axis=-1, keepdims=False):
    where = [k - 1] if keepdims else k - 1
    return np.sort(x, axis).take(where, axis), np.argsort(x, axis).take(where, axis)


_register(
    "kthvalue",
    of_several(
        [
            (((2, 5), 2), {}),
            (((4, 3), 4), {"axis": 0}),
            (((4, 3), 1), {"axis": 0, "keepdims": True}),
        ],
        distinct,
    ),
    reference=_kth,
    errors=[
        ErrorSample(
            f"rank {k}", (np.ones(3), k), ValueError, f"k must lie between 1 and 3, .* got {k}"
        )
        for k in (0, 4)
    ],
)


def _most_frequent(x, axis=-1, keepdims=False):
    """The smallest of the most frequent entries, and its last position."""
    rows = np.moveaxis(x, axis, -1)
    values, places = np.empty(rows.shape[:-1], x.dtype), np.empty(rows.shape[:-1], int)
    for i in np.ndindex(*rows.shape[:-1]):
        found, counts = np.unique(rows[i], return_counts=True)
        values[i] = found[counts.argmax()]
        places[i] = max(k for k, value in enumerate(rows[i]) if value == values[i])
    if keepdims:
        return np.expand_dims(values, axis), np.expand_dims(places, axis)
    return values, places


_register(
    "mode",
    over([((2, 5), {}), ((4, 3), {"axis": 0, "keepdims": True})], distinct),
    reference=_most_frequent,
    points=[
        Point(
            "most frequent of each row",
            (np.array([[2.0, 1, 2, 1, 3], [5, 4, 5, 4, 4]]),),
            ([1.0, 4.0], [3, 4]),
            ([[0.0, 0, 0, 1, 0], [0, 0, 0, 0, 1]],),
        ),
    ],
)


def _polar(r, angle):
    y = np.empty(np.broadcast(r, angle).shape, np.result_type(r, angle, np.complex64))
    y.real, y.imag = r * np.cos(angle), r * np.sin(angle)
    return y


_register(
    "polar",
    of_several([(((2, 3), (3,)), {})]),
    dtypes=_EXACT,
    reference=_polar,
)
_register(
    "view_as_complex",
    over([((3, 2), {}), ((2,), {})]),
    dtypes=_EXACT,
    reference=lambda x: np.ascontiguousarray(x).view(np.result_type(x, np.complex64))[..., 0],
    skips={"K17": "the reference takes any even last axis"},
    errors=[ErrorSample("three parts", (np.ones(3),), ValueError, r"must be real \(…, 2\)")],
)
_register(
    "view_as_real",
    over([((3,), {}), ((2, 1), {})]),
    dtypes=("complex128", "complex64"),
    reference=lambda x: np.stack([x.real, x.imag], -1),
    errors=[ErrorSample("real", (np.ones(3),), TypeError, "x must be complex, got float64")],
)
_register("frac", between_halves(), reference=lambda x: x - np.trunc(x))


def _positive(rng, dtype, shape):
    a = rng.standard_normal(shape)
    return (a @ a.swapaxes(-1, -2) + np.eye(shape[-1])).astype(dtype)


_register(
    "logdet",
    over([((3, 3), {}), ((2, 2, 2), {})], _positive),
    dtypes=_EXACT,
    reference=lambda a: np.linalg.slogdet(a)[1],
    nan_alone="a matrix with an infinite entry has no determinant",
)


def _merged(x, start=0, end=-1):
    """The axes start … end merged two at a time."""
    if not x.ndim:
        return x[None]
    start, end = (range(x.ndim)[i] for i in (start, end))
    for _ in range(end - start):
        parts = np.moveaxis(x, start, 0)
        x = (
            np.concatenate(list(parts), start)
            if len(parts)
            else x.reshape(*x.shape[:start], 0, *x.shape[start + 2 :])
        )
    return x


_register(
    "flatten",
    over([((2, 3, 2), {"start": 1}), ((2, 3, 2), {"end": -2}), ((), {})]),
    reference=_merged,
    errors=[
        ErrorSample(
            "backwards",
            (np.ones((2, 2)),),
            ValueError,
            "start=1 comes after axis end=0",
            {"start": 1, "end": 0},
        ),
    ],
)


def _split_in(x, axis, sizes):
    """One axis split by NumPy, given the other axes' lengths."""
    axis = range(x.ndim)[axis]
    sizes = np.empty(x.shape[axis]).reshape(sizes).shape  # resolves a −1
    return np.moveaxis(
        np.moveaxis(x, axis, 0).reshape(*sizes, *x.shape[:axis], *x.shape[axis + 1 :]),
        range(len(sizes)),
        range(axis, axis + len(sizes)),
    )


_register(
    "unflatten",
    over(
        [
            ((6, 2), {"axis": 0, "sizes": (2, 3)}),
            ((2, 6), {"axis": -1, "sizes": (3, -1)}),
            ((0, 6), {"axis": 1, "sizes": (3, -1)}),
        ]
    ),
    reference=_split_in,
    errors=[
        ErrorSample(
            "two sizes left open",
            (np.ones(6),),
            ValueError,
            r"unflatten: only one of the sizes may be -1, got \(-1, -1\)",
            {"axis": 0, "sizes": (-1, -1)},
        ),
        ErrorSample(
            "sizes that no empty axis makes up for",
            (np.ones((2, 0)),),
            ValueError,
            r"unflatten: sizes \(2, 3\) do not multiply to 2, the length of axis 0 of x \(2, 0\)",
            {"axis": 0, "sizes": (2, 3)},
        ),
    ],
)


def _blocks(*xs):
    xs = [np.atleast_2d(x) for x in xs]
    if any(x.ndim != 2 for x in xs):
        raise ValueError("matrices alone")  # others would broadcast below
    y = np.zeros(np.sum([x.shape for x in xs], 0), np.result_type(*xs))
    i = j = 0
    for x in xs:
        y[i : i + x.shape[0], j : j + x.shape[1]] = x
        i, j = i + x.shape[0], j + x.shape[1]
    return y


_register(
    "block_diag",
    of_several([(((2, 3), (1, 2)), {}), (((2,), (), (2, 2)), {})]),
    reference=_blocks,
    dtypes=COMPLEX,
)
_register(
    "cartesian_prod",
    of_several([(((2,), (3,)), {}), (((2,),), {}), (((2,), (1,), (2,)), {})]),
    reference=lambda *xs: (
        np.stack([a.ravel() for a in np.meshgrid(*xs, indexing="ij")], 1) if len(xs) > 1 else xs[0]
    ),
)
_register(
    "combinations",
    over([((4,), {}), ((4,), {"r": 3}), ((3,), {"with_replacement": True})]),
    reference=lambda x, r=2, with_replacement=False: np.array(
        list((combinations_with_replacement if with_replacement else combinations)(x, r))
    ),
    skips={"K17": "without entries the reference has no rows with a length"},
    errors=[ErrorSample("a matrix", (np.ones((2, 2)),), ValueError, "must be a vector")],
)


def _trapezoids(y, x=None, dx=1.0, axis=-1):
    y = np.moveaxis(y, axis, -1)
    dx = dx if x is None else np.diff(x if x.ndim == 1 else np.moveaxis(x, axis, -1))
    return np.moveaxis(np.cumsum(dx * (y[..., 1:] + y[..., :-1]) / 2, -1), -1, axis)


_register(
    "cumulative_trapezoid",
    of_several(
        [
            (((2, 4),), {"dx": 0.5}),
            (((4, 2),), {"axis": 0}),
            (((2, 4, 2), (4,)), {"axis": 1}),
            (((2, 4, 3), (2, 4, 3)), {"axis": 1}),
        ]
    ),
    reference=_trapezoids,
    dtypes=_EXACT,
)
