"""fingerprint: equal for equal bits in any memory order, another one for any change."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad.backends.fingerprint import fingerprint

SIZES = st.integers(1, 40_000)
DTYPES = st.sampled_from(["float32", "float64", "complex64", "float16", "int8", "bool"])


def values(size, dtype, seed=0):
    return (
        np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 100, size).astype(dtype)
    )


@given(SIZES, DTYPES, st.data())
def test_a_change_of_one_element_anywhere_changes_it(size, dtype, data):
    x = values(size, dtype)
    before = fingerprint(x)
    at = data.draw(st.integers(0, size - 1))
    x[at] = not x[at] if dtype == "bool" else x[at] + 1
    assert fingerprint(x) != before


@given(st.integers(2, 5000), st.integers(1, 40), st.data())
def test_rows_that_change_places_change_it(rows, columns, data):
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    before = fingerprint(x)
    a, b = data.draw(st.lists(st.integers(0, rows - 1), min_size=2, max_size=2, unique=True))
    x[[a, b]] = x[[b, a]]
    assert fingerprint(x) != before


def test_rows_that_change_places_at_the_distance_of_the_sums_change_it():
    x = np.arange(4 * 1532, dtype=np.float32).reshape(1532, 4)
    before = fingerprint(x)
    x[[0, 1021]] = x[[1021, 0]]
    assert fingerprint(x) != before


@given(st.integers(1, 200), st.integers(1, 200), DTYPES)
def test_the_memory_order_does_not_matter(rows, columns, dtype):
    x = values(rows * columns, dtype).reshape(rows, columns)
    spread = np.zeros((rows, 2 * columns), dtype)[:, ::2]
    spread[...] = x
    assert fingerprint(x) == fingerprint(np.asfortranarray(x)) == fingerprint(spread)


def test_dtype_and_shape_count_and_bits_rather_than_numbers():
    x = np.zeros(10_000, np.float32)
    assert fingerprint(x) != fingerprint(x.view(np.int32))
    assert fingerprint(x) != fingerprint(x.reshape(100, 100))
    assert fingerprint(x) != fingerprint(-x)
    assert fingerprint(x * np.nan) == fingerprint(x * np.nan)


def test_it_takes_all_that_tensors_hold():
    for x in (np.zeros(()), np.zeros((0, 3)), np.ones(9999, mg.bfloat16), np.ones(3, object)):
        assert fingerprint(x) == fingerprint(x.copy())
