"""Every function that fused programs know is NumPy's at ±0, ±∞, NaN and the ends of each dtype."""

import functools
import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad.expressions.dtypes import ufunc_of
from minigrad.expressions.trace import KNOWN, NotFusible, holds_for, trace

DTYPES = "float64 float32 float16 int64 int32 int8 uint64 uint8 bool".split()
MIXED = [("float32", "float64"), ("float32", "int64"), ("int64", "uint64"), ("int8", "uint8"),
         ("bool", "float32"), ("float16", "float32")]  # fmt: skip
WRITTEN_OUT = set(
    "exp expm1 log log1p tanh expit erf erfc ndtr".split()
)  # in compiled/functions.py
# SciPy's ndtr rounds x/√2 before it squares it: at −20 it is off by 1,300 units, the loop by one.
UNITS = dict.fromkeys(WRITTEN_OUT, 8) | {"ndtr": 2048}
ZEROS_OF_EITHER_SIGN = {"fmax", "fmin"}  # NumPy's own depends on where in the array they stand
NUMBERS = {
    "x**2": lambda x: x**2, "x**3": lambda x: x**3, "x**0.5": lambda x: x**0.5,
    "maximum(x, 0)": lambda x: np.maximum(x, 0), "maximum(0, x)": lambda x: np.maximum(0, x),
    "minimum(x, -0.0)": lambda x: np.minimum(x, -0.0), "clip(x, 0, 6)": lambda x: np.clip(x, 0, 6),
    "clip(x, 0, None)": lambda x: np.clip(x, 0, None),
    "clip(x, 1, -1)": lambda x: np.clip(x, 1, -1),
    "clip(x, a_min, a_max)": lambda x: np.clip(x, a_min=-1, a_max=-0.0),
    "clip(x, min, max)": lambda x: np.clip(x, min=0.0, max=np.inf),
    "clip(x, nan, 1)": lambda x: np.clip(x, np.nan, 1), "where": lambda x: np.where(x > 1, x, 0),
    "astype(bool)": lambda x: x.astype(bool), "not": lambda x: ~(x > 0), "1/x": lambda x: 1 / x,
    "sign(x) * 1": lambda x: np.sign(x) * 1, "x + 0": lambda x: x + 0,
}  # fmt: skip


def edges(dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        some = {info.min, info.min + 1, 0, 1, 2, 7, info.max // 2, info.max // 2 + 1, info.max}
        return np.array(sorted(some | ({-1, -2, -7} if dtype.kind == "i" else set())), dtype)
    info = np.finfo(dtype)
    some = [0.0, 1.0, 0.5, 1.5, 2.5, 3.7, 20, 100, 800, info.smallest_normal, info.max, info.eps,
            info.smallest_subnormal, info.max / 4, 2.0**info.nmant - 0.5]  # fmt: skip
    return np.array([np.inf, -np.inf, np.nan, *some, *[-x for x in some]], dtype)


def arguments(*dtypes):
    grid = np.meshgrid(*[edges(dtype) for dtype in dtypes], indexing="ij")
    return [np.resize(x, max(x.size, 137)) for x in grid]  # whole vectors of a loop, and a rest


def of(*dtypes):
    """The functions of so many arguments that are recorded for these dtypes."""
    xs = arguments(*dtypes)
    named = [(name, ufunc_of(name)) for name in sorted(KNOWN)]
    found = [(name, fn) for name, fn in named if fn.nin == len(dtypes)]
    found += NUMBERS.items() if len(dtypes) == 1 and np.dtype(dtypes[0]).kind == "f" else ()
    kinds, shapes = [x.dtype for x in xs], [x.shape for x in xs]
    return xs, [(name, fn) for name, fn in found if holds_for(fn, kinds, shapes)]


def assert_same(name, found, expected, loops=False):
    assert found.dtype == expected.dtype, name
    same = found == expected
    if found.dtype.kind == "f":
        zeros = (found == 0) & (expected == 0)
        if name not in ZEROS_OF_EITHER_SIGN:
            same &= ~zeros | (np.signbit(found) == np.signbit(expected))
        same |= np.isnan(found) & np.isnan(expected)
        units = UNITS.get(name, 2 if "**" in name else 0) if loops else 0
        info = np.finfo(found.dtype)
        with np.errstate(all="ignore"):
            off = abs(found.astype(np.float64) - expected.astype(np.float64))
            near = off <= units * (info.eps * abs(expected) + info.smallest_subnormal)
        same |= near & np.isfinite(found) & np.isfinite(expected)
    at = np.flatnonzero(~same)
    assert not len(at), f"{name} at place {at[0]}: {found[at[0]]!r}, NumPy has {expected[at[0]]!r}"


def numpys(name, fn, xs):
    """NumPy's value; of a function that loops have written out that of float64, rounded."""
    if name not in WRITTEN_OUT or xs[0].dtype.kind != "f":
        return fn(*xs)
    return fn(xs[0].astype(np.float64)).astype(xs[0].dtype)


@pytest.mark.parametrize("dtypes", [*[(x,) for x in DTYPES], *[(x, x) for x in DTYPES], *MIXED])
def test_fused_functions_are_numpys_to_the_bit_and_silent(dtypes):
    xs, named = of(*dtypes)
    for name, fn in named:
        with np.errstate(all="ignore"):
            expected = fn(*xs)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_same(name, mg.fuse(functools.partial(fn))(*xs), expected)


@pytest.mark.parametrize("dtypes", [
    ("float64",), ("float32",), ("bool",), ("float64", "float64"), ("float32", "float32"),
    ("bool", "bool"), ("int64", "int64"), ("bool", "float32"), ("float32", "int64"),
])  # fmt: skip
def test_functions_in_a_compiled_loop_are_numpys(dtypes):
    pytest.importorskip("numba", reason="mg.accelerate compiles with numba")
    from minigrad.compiled import launch
    from minigrad.expressions import loops as writer

    def fits(fn):
        _, [y] = trace(fn, dtypes)
        try:
            writer.row_source(y.program.symbols[: len(dtypes)], [y], layout)
        except NotFusible:
            return False
        return True

    layout = writer.Layout(1, ((True,),) * len(dtypes), False)
    xs, named = of(*dtypes)
    named = [(name, fn) for name, fn in named if fits(fn)]
    ys = launch.run(object(), lambda *xs: [fn(*xs) for _, fn in named], xs)  # all in one loop
    for (name, fn), y in zip(named, ys, strict=True):
        with np.errstate(all="ignore"):
            assert_same(name, y, numpys(name, fn, xs), loops=True)


@pytest.mark.parametrize("n", [(1 << 15) - 1, 1 << 15])
def test_the_sign_of_infinities_is_that_on_both_sides_of_the_switch(n):
    pytest.importorskip("numba", reason="mg.accelerate compiles with numba")
    x = mg.tensor(np.full(n, -np.inf, np.float32), requires_grad=True)
    with mg.accelerate(process=False):
        signs = mg.fuse(lambda a: mg.sign(a) * 1.0)(x)
        (slope,) = mg.grad(mg.abs(x), [x], np.ones(n, np.float32))
    assert (signs.numpy() == -1).all() and (slope.numpy() == -1).all()
