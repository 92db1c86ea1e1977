"""Functions of each element, and the operators, agree with NumPy's."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad.array_api as xp
from tests.array_api.oracle import (
    ALL,
    BITS,
    INEXACT,
    NUMERIC,
    ONE,
    REAL,
    TWO,
    WHOLE,
    arrays,
    assert_same,
    compare,
    few,
    outcome,
    several,
    to_tensors,
)

pytestmark = [
    pytest.mark.promise("the array API standard"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

OPERATORS = {
    "add": NUMERIC, "sub": NUMERIC, "mul": NUMERIC, "truediv": INEXACT, "floordiv": REAL,
    "mod": REAL, "pow": NUMERIC, "and_": BITS, "or_": BITS, "xor": BITS, "lshift": WHOLE,
    "rshift": WHOLE, "eq": ALL, "ne": ALL, "lt": REAL, "le": REAL, "gt": REAL, "ge": REAL,
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_array_agree(name):
    given(arrays(ONE[name]))(few(lambda x: compare(name, x)))()


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_arrays_agree(name):
    given(several(TWO[name], 2))(few(lambda xs: compare(name, *xs)))()


def numbers(dtypes):
    """Python numbers of the kind of some dtypes."""
    kinds = {"b": st.booleans(), "i": st.integers(-9, 9), "u": st.integers(0, 9),
             "f": st.floats(width=32), "c": st.complex_numbers(max_magnitude=9)}  # fmt: skip
    return kinds[np.dtype(dtypes[0]).kind]


@pytest.mark.parametrize("name", TWO)
def test_one_of_two_arrays_may_be_a_python_number(name):
    @given(st.data())
    @few
    def check(data):
        dtype = [data.draw(st.sampled_from(TWO[name]))]
        x, number = data.draw(arrays(dtype)), data.draw(numbers(dtype))
        compare(name, x, number)
        compare(name, number, x)

    check()


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_agree_forwards_reflected_and_in_place(name):
    plain = getattr(operator, name)
    in_place = getattr(operator, f"i{name.rstrip('_')}", plain)

    @given(st.data())
    @few
    def check(data):
        dtype = [data.draw(st.sampled_from(OPERATORS[name]))]
        a, b = data.draw(several(dtype, 2))
        number = data.draw(numbers(dtype))
        for f, x, y in (
            (plain, a, b),
            (plain, a, number),
            (plain, number, a),
            (in_place, a, number),
        ):
            theirs = outcome(lambda: f(x if f is plain else x.copy(), y))
            assert_same(outcome(lambda: f(to_tensors(x), to_tensors(y))), theirs)

    check()


@pytest.mark.parametrize(
    ("name", "dtypes"), [("neg", NUMERIC), ("pos", NUMERIC), ("invert", BITS), ("abs", NUMERIC)]
)
def test_operators_of_one_tensor_agree(name, dtypes):
    f = getattr(operator, name)
    given(arrays(dtypes))(
        few(lambda x: assert_same(outcome(lambda: f(to_tensors(x))), outcome(lambda: f(x))))
    )()


@pytest.mark.parametrize("number", [bool, int, float, complex, operator.index])
def test_a_tensor_of_one_element_becomes_a_python_number(number):
    for dtype in ALL:
        x = np.asarray(1, dtype)
        ours, theirs = outcome(lambda: number(xp.asarray(x))), outcome(lambda: number(x))
        assert type(ours) is type(theirs)
        assert isinstance(theirs, Exception) or ours == theirs
