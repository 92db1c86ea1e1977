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
    dtypes=COMPLEX,
)
_register(
    "addcdiv",
    of_several([(((2, 3), (2, 3), (3,)), {}), (((3,), (2, 3), (2, 1)), {"value": 2})], near_one),
    dtypes=COMPLEX,
)
_SCALED = {"beta": 0.5, "alpha": 2.0}
_register("addmv", of_several([(((2,), (2, 3), (3,)), {}), (((), (2, 3), (3,)), _SCALED)]))
_register("addr", of_several([(((2, 3), (2,), (3,)), {}), (((3,), (2,), (3,)), _SCALED)]))
_register(
    "baddbmm",
    of_several([(((2, 2, 4), (2, 2, 3), (2, 3, 4)), {}), (((4,), (1, 2, 3), (1, 3, 4)), _SCALED)]),
)
_register(
    "addbmm",
    of_several([(((2, 4), (2, 2, 3), (2, 3, 4)), {}), (((4,), (2, 2, 3), (2, 3, 4)), _SCALED)]),
)
_register(
    "renorm",
    of_several([(((3, 4), 2.0, 0, 1.0), {}), (((2, 3, 2), 1.0, 1, 50.0), {})], distinct),
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
            (((4, 3), 2), {"axis": 0, "keepdims": True}),
        ],
        distinct,
    ),
    reference=_kth,
    errors=[
        ErrorSample("rank 0", (np.ones(3), 0), ValueError, "k must lie between 1 and 3, .* got 0")
    ],
)
_register(
    "mode",
    over([((2, 5), {}), ((4, 3), {"axis": 0, "keepdims": True})], distinct),
    points=[
        Point("most frequent", (np.array([2.0, 1, 2, 1, 3]),), (1.0, 3), None),
    ],
)
_register(
    "polar",
    of_several([(((2, 3), (3,)), {})]),
    dtypes=_EXACT,
    reference=lambda r, t: r * np.cos(t) + 1j * (r * np.sin(t)),
)
_register(
    "view_as_complex",
    over([((3, 2), {}), ((2,), {})]),
    dtypes=_EXACT,
    reference=lambda x: x[..., 0] + 1j * x[..., 1],
    skips={"K17": "the reference takes any last axis"},
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
    skips={"K12": "a matrix with an infinite entry has no determinant"},
)
_register(
    "flatten",
    over([((2, 3, 2), {"start": 1}), ((2, 3, 2), {"end": -2}), ((), {})]),
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
_register(
    "unflatten",
    over([((6, 2), {"axis": 0, "sizes": (2, 3)}), ((2, 6), {"axis": -1, "sizes": (3, -1)})]),
)


def _blocks(*xs):
    xs = [np.atleast_2d(x) for x in xs]
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
    of_several([(((2,), (3,)), {}), (((2,),), {})]),
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
    skips={"K17": "the reference of no entries has no rows to see their length by"},
    errors=[ErrorSample("a matrix", (np.ones((2, 2)),), ValueError, "must be a vector")],
)


def _trapezoids(y, x=None, dx=1.0, axis=-1):
    y = np.moveaxis(y, axis, -1)
    dx = dx if x is None else np.diff(x)
    return np.moveaxis(np.cumsum(dx * (y[..., 1:] + y[..., :-1]) / 2, -1), -1, axis)


_register(
    "cumulative_trapezoid",
    of_several([(((2, 4),), {"dx": 0.5}), (((4, 2),), {"axis": 0}), (((2, 4), (4,)), {})]),
    reference=_trapezoids,
    dtypes=_EXACT,
)
