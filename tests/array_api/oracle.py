"""What the tests of minigrad.array_api share: NumPy as the oracle, and what to draw.

NumPy's main namespace implements the same standard: on random arrays of every dtype both give the
same values, dtype and shape, or both refuse.
"""

import operator

import hypothesis.extra.numpy as hnp
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import minigrad as mg
import minigrad.array_api as xp

few = settings(max_examples=12, derandomize=True)
more = settings(max_examples=40, derandomize=True)

BOOL, FLOAT, COMPLEX = ["bool"], ["float32", "float64"], ["complex64", "complex128"]
SIGNED, UNSIGNED = [["int8", "int16", "int32", "int64"], ["uint8", "uint16", "uint32", "uint64"]]
WHOLE = SIGNED + UNSIGNED
BITS, REAL, INEXACT = BOOL + WHOLE, WHOLE + FLOAT, FLOAT + COMPLEX
NUMERIC = WHOLE + INEXACT
ALL = BOOL + NUMERIC

ONE = {
    "abs": NUMERIC, "acos": INEXACT, "acosh": INEXACT, "asin": INEXACT, "asinh": INEXACT,
    "atan": INEXACT, "atanh": INEXACT, "bitwise_invert": BITS, "ceil": REAL, "conj": NUMERIC,
    "cos": INEXACT, "cosh": INEXACT, "exp": INEXACT, "expm1": INEXACT, "floor": REAL,
    "imag": NUMERIC, "isfinite": NUMERIC, "isinf": NUMERIC, "isnan": NUMERIC, "log": INEXACT,
    "log10": INEXACT, "log1p": INEXACT, "log2": INEXACT, "logical_not": BOOL,
    "negative": NUMERIC, "positive": NUMERIC, "real": NUMERIC, "reciprocal": INEXACT,
    "round": NUMERIC, "sign": NUMERIC, "signbit": FLOAT, "sin": INEXACT, "sinh": INEXACT,
    "sqrt": INEXACT, "square": NUMERIC, "tan": INEXACT, "tanh": INEXACT, "trunc": REAL,
}  # fmt: skip
TWO = {
    "add": NUMERIC, "atan2": FLOAT, "bitwise_and": BITS, "bitwise_left_shift": WHOLE,
    "bitwise_or": BITS, "bitwise_right_shift": WHOLE, "bitwise_xor": BITS, "copysign": FLOAT,
    "divide": INEXACT, "equal": ALL, "floor_divide": REAL, "greater": REAL,
    "greater_equal": REAL, "hypot": FLOAT, "less": REAL, "less_equal": REAL, "logaddexp": FLOAT,
    "logical_and": BOOL, "logical_or": BOOL, "logical_xor": BOOL, "maximum": REAL,
    "minimum": REAL, "multiply": NUMERIC, "nextafter": FLOAT, "not_equal": ALL, "pow": NUMERIC,
    "remainder": REAL, "subtract": NUMERIC,
}  # fmt: skip


def shapes(**options):
    return hnp.array_shapes(
        **({"min_dims": 0, "max_dims": 3, "min_side": 0, "max_side": 3} | options)
    )


def arrays(dtypes, shape=None, **elements):
    shape = shapes() if shape is None else shape
    return st.sampled_from(dtypes).flatmap(
        lambda dtype: hnp.arrays(dtype, shape, elements=elements or None)
    )


def several(dtypes, count):
    """Arrays of dtypes of one list whose shapes broadcast."""
    return hnp.mutually_broadcastable_shapes(num_shapes=count, max_dims=3, max_side=3).flatmap(
        lambda found: st.tuples(*[arrays(dtypes, shape) for shape in found.input_shapes])
    )


ERRORS = (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError)


def outcome(call):
    with np.errstate(all="ignore"):
        try:
            return call()
        except ERRORS as error:
            return error


def assert_same(ours, theirs, rtol=0.0):
    """The same tree of values, dtypes and shapes; or errors of one kind."""
    if isinstance(theirs, Exception):
        kind = next(kind for kind in ERRORS if isinstance(theirs, kind))
        assert isinstance(ours, kind), f"NumPy raised {theirs!r}, got {ours!r}"
        return
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b, rtol)
        return
    assert isinstance(ours, mg.Tensor), ours
    y, expected = ours.numpy(), np.asarray(theirs)
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(y, expected, rtol=rtol, atol=rtol)
    if not rtol and expected.dtype.kind == "f":
        np.testing.assert_array_equal(
            np.signbit(y) | np.isnan(y), np.signbit(expected) | np.isnan(expected)
        )


def to_tensors(value):
    if isinstance(value, np.ndarray):
        return xp.asarray(value.copy())
    return type(value)(map(to_tensors, value)) if isinstance(value, tuple | list) else value


def compare(name, *args, rtol=0.0, **options):
    """xp.name and np.name on the same arguments."""
    find = operator.attrgetter(name)
    ours = outcome(lambda: find(xp)(*map(to_tensors, args), **options))
    theirs = outcome(lambda: find(np)(*args, **options))
    if name == "logaddexp":  # NumPy's is off by an ULP in places where ours is right
        rtol = 2 * float(np.finfo(np.asarray(theirs).dtype).eps)
    assert_same(ours, theirs, rtol)


def axes(x, many=True):
    one = st.integers(-x.ndim, x.ndim - 1) if x.ndim else st.none()
    several_axes = hnp.valid_tuple_axes(x.ndim) if many else st.nothing()
    return st.none() | one | several_axes
