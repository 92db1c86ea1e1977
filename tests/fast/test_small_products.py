"""Products in blocks that BLAS multiplies as they lie: what the whole product is."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad.backends import blas
from minigrad.fast import small_products
from minigrad.fast.small_products import SHORT, blocks_for, multiplier, multiply, product_steps

pytestmark = pytest.mark.promise(
    "products in blocks give the whole product, and Winograd's transforms as products give the sums"
)


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    """As where BLAS has kernels for small matrices: blocks are right with any BLAS."""
    monkeypatch.setattr(blas, "packs_no_small_factors", lambda: True)


def matrices(rng, dtype, lead, n, m, transposed):
    shape = (*lead, m, n) if transposed else (*lead, n, m)
    x = rng.standard_normal(shape).astype(dtype)
    return x.swapaxes(-1, -2) if transposed else x


def allowed(a, b):
    """A sum of k terms is off by at most k eps Σ |term|, in whatever order."""
    eps = np.finfo(a.dtype).eps
    return a.shape[-1] * eps * np.max(np.abs(a).astype(np.float64) @ np.abs(b), initial=0)


@given(st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_blocks_are_the_product_for_any_shape_and_layout(data):
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    n, k, m = (data.draw(st.sampled_from([0, 1, 7, 32, 96, 130, 256])) for _ in range(3))
    lead = data.draw(st.sampled_from([(), (2,), (2, 3)]))
    rng = np.random.default_rng(n + k + m)
    a = matrices(rng, dtype, lead, n, k, data.draw(st.booleans()))
    b = matrices(rng, dtype, lead, k, m, data.draw(st.booleans()))
    y = np.full((*lead, n, m), np.nan, dtype)
    multiply(a, b, y)
    np.testing.assert_allclose(y, a.astype(np.float64) @ b, rtol=0, atol=allowed(a, b))


@pytest.mark.parametrize("transposed", [False, True])
def test_large_products_are_cut_into_blocks_that_the_kernels_take(transposed):
    rng = np.random.default_rng(0)
    a = matrices(rng, np.float32, (), 48, 512, False)
    b = matrices(rng, np.float32, (), 512, 96, transposed)
    rows, inner, columns = blocks_for(a, b)
    assert inner == 512 and rows * inner * columns <= small_products.MOST
    assert 48 % rows == 0 and 96 % columns == 0
    if transposed:
        assert rows * columns <= small_products.MOST_TRANSPOSED
    ((function, (blocks, _, y)),) = product_steps(a, b, np.empty((48, 96), np.float32))
    assert function is np.matmul and blocks.shape[-2:] == (rows, inner)
    assert y.shape == (48 // rows, 96 // columns, rows, columns)


@pytest.mark.parametrize(
    "n, k, m, transposed",
    [(32, 32, 32, False), (500, 64, 512, True), (499, 1009, 503, False), (8, 0, 8, False)],
    ids=["small as it is", "short columns", "primes", "nothing"],
)
def test_what_gains_nothing_stays_whole(n, k, m, transposed):
    rng = np.random.default_rng(0)
    a = matrices(rng, np.float32, (), n, k, False)
    b = matrices(rng, np.float32, (), k, m, transposed)
    with blas.one_thread():
        assert blocks_for(a, b) is None


def test_large_products_stay_whole_where_blas_has_more_threads(monkeypatch):
    a = np.ones((256, 256), np.float32)
    monkeypatch.setattr(blas, "on_one_thread", lambda: False)
    assert blocks_for(a, a) is None
    monkeypatch.setattr(blas, "on_one_thread", lambda: True)
    assert blocks_for(a, a) is not None


def test_with_another_blas_all_products_stay_whole(monkeypatch):
    a, b = np.ones((32, 512), np.float32), np.ones((512, 96), np.float32)
    assert blocks_for(a, b) is not None
    monkeypatch.setattr(blas, "packs_no_small_factors", lambda: False)
    assert blocks_for(a, b) is None


def test_integers_and_complex_numbers_stay_whole():
    for dtype in (np.int64, np.complex64):
        assert blocks_for(np.ones((32, 512), dtype), np.ones((512, 96), dtype)) is None


@pytest.mark.parametrize("longest", [SHORT, small_products.LONGEST])
def test_a_long_inner_axis_is_summed_in_parts(longest):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((27, 8192), np.float32), rng.standard_normal((8192, 32), np.float32)
    exact = a.astype(np.float64) @ b
    for left, right, expected in ((a, b, exact), (b.T, a.T, exact.T)):
        y = np.empty(expected.shape, np.float32)
        with blas.one_thread():
            _, inner, _ = blocks_for(left, right, longest)
            multiply(left, right, y, longest)
        assert 8192 % inner == 0 and inner <= longest
        # the terms of each part, and then the parts, as a walk of so many random steps
        steps = np.sqrt(inner * 8192) + 8192 / np.sqrt(inner)
        np.testing.assert_allclose(y, expected, rtol=0, atol=4 * steps * np.finfo("f").eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_middling_layer_has_the_product_of_its_matrices(dtype):
    rng = np.random.default_rng(0)
    x, w = (
        mg.tensor(rng.standard_normal(shape).astype(dtype)) for shape in ((32, 256), (128, 256))
    )
    for t in (x, w):
        t.requires_grad_()
    y = mg.linear(x, w)
    y.backward(mg.ones_like(y))
    ones = np.ones((32, 128))
    exact = [x.data @ w.data.T.astype(np.float64), ones @ w.data, ones.T @ x.data]
    for ours, theirs in zip((y, x.grad, w.grad), exact, strict=True):
        assert ours.dtype == dtype
        eps = np.finfo(dtype).eps
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=0, atol=256 * 4 * 16 * eps)


@pytest.mark.parametrize("shape", [(16, 128, 512), (8, 256, 1024), (16, 512, 128)])
def test_a_product_again_and_again_has_the_blocks_of_one(shape):
    n, k, m = shape
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=s).astype(np.float32) for s in ((n, k), (k, m)))
    once, again = np.empty((n, m), np.float32), np.empty((n, m), np.float32)
    with blas.one_thread():
        multiply(a, b, once)
        multiplier(b, n)(a, again)
    np.testing.assert_array_equal(once, again)


@pytest.mark.parametrize("shape", [(16, 64, 256), (16, 4096, 512), (512, 128, 512)])
def test_small_products_and_those_whose_first_factor_is_divided_stay_whole(shape):
    n, k, m = shape
    with blas.one_thread():
        assert multiplier(np.ones((k, m), np.float32), n) is None
