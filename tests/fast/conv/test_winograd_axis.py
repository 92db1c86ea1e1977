"""Winograd's transforms along an axis: as sums and as products they are the same numbers."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minigrad.backends import blas
from minigrad.fast.conv import winograd_axis
from minigrad.fast.conv.winograd_axis import GIVEN, OVERLAPS, RESULTS, SEEN

pytestmark = pytest.mark.promise(
    "products in blocks give the whole product, and Winograd's transforms as products give the sums"
)

TRANSFORMS = [SEEN, GIVEN, RESULTS, OVERLAPS]


def transformed(transform, x, axis, products, monkeypatch):
    monkeypatch.setattr(blas, "packs_no_small_factors", lambda: products)
    shape = list(x.shape)
    shape[axis] = len(transform.matrix)
    y = np.full(shape, np.nan, x.dtype)
    steps = transform.steps(x, axis, y)
    assert (len(steps) == 1) is products
    for function, args in steps:
        function(*args)
    return y


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda transform: transform.name)
@given(st.data())
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sums_and_products_are_the_matrix_times_the_places(transform, monkeypatch, data):
    sizes = data.draw(st.lists(st.integers(1, 4), max_size=3))
    axis = data.draw(st.integers(0, len(sizes)))
    sizes.insert(axis, len(transform.matrix[0]))
    shape = (*sizes, data.draw(st.sampled_from([1, 3, 64, 513])))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    x = np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)
    kept = x.copy()
    products = transformed(transform, x, axis, True, monkeypatch)
    np.testing.assert_array_equal(x, kept)
    sums = transformed(transform, x, axis, False, monkeypatch)
    exact = np.moveaxis(np.tensordot(transform.matrix, x.astype(np.longdouble), (1, axis)), 0, axis)
    bound = 3 * np.finfo(dtype).eps * np.abs(x).max()  # two sums of terms, each of which is exact
    for y in (products, sums):
        assert y.dtype == dtype
        np.testing.assert_allclose(y, exact.astype(np.float64), rtol=0, atol=2 * bound)


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda transform: transform.name)
def test_where_the_products_are_used_they_have_the_bits_of_the_sums(transform, monkeypatch):
    if not blas.packs_no_small_factors():
        pytest.skip("this BLAS has no kernels for small products: sums are used")
    x = np.random.default_rng(0).standard_normal((3, len(transform.matrix[0]), 8, 1024), np.float32)
    forms = [transformed(transform, x, 1, form, monkeypatch) for form in (True, False)]
    np.testing.assert_array_equal(*forms)


def test_a_tile_sees_the_places_from_twice_its_number_on():
    x = np.arange(2 * 10 * 3).reshape(2, 10, 3)
    seen = winograd_axis.seen_by_tiles(x, 0, 1, seen=4, tiles=4)
    assert seen.shape == (4, 2, 4, 3)
    for place in range(4):
        np.testing.assert_array_equal(seen[place], x[:, place : place + 7 : 2])


def test_runs_that_a_small_kernel_does_not_take_are_summed(monkeypatch):
    monkeypatch.setattr(blas, "packs_no_small_factors", lambda: True)
    assert winograd_axis.by_products(np.empty((4, blas.FEW // 16), np.float32))
    assert not winograd_axis.by_products(np.empty((4, blas.FEW // 16 + 1), np.float32))
