"""Sums and maxima along rows, by whichever way: what NumPy's own reductions give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.fast.row_sums import (
    FEW,
    FEW_MAXIMA,
    LEAST_FOLDED,
    LEAST_ROWS,
    folds,
    largest_over,
    on_each_row,
    rows_along,
    sum_of_each_row,
    sum_of_product,
    sum_of_rows,
    sum_over,
)

pytestmark = pytest.mark.promise(
    "reductions along rows are NumPy's but for rounding, and a row's bits depend on no other row"
)

AXES = [(1,), (2,), (1, 2), (0, 1, 2), (0,), (0, 2), ()]


def numbers(shape: tuple, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


@given(st.sampled_from(AXES), st.tuples(*[st.integers(1, 40)] * 3), st.booleans())
def test_the_largest_keeps_the_axes_and_is_numpys(axis, shape, many):
    x = np.repeat(numbers(shape), 1 + FEW_MAXIMA // 8 if many else 1, axis=0)
    np.testing.assert_array_equal(largest_over(x, axis), x.max(axis, keepdims=True))


@pytest.mark.parametrize("rows", [4, FEW_MAXIMA])
def test_a_row_with_nan_has_the_maximum_nan_and_no_other_row_has(rows):
    x = numbers((rows, 7))
    x[1, 3] = np.nan
    top = largest_over(x, (1,))
    assert np.isnan(top[1]) and np.isnan(top).sum() == 1


@pytest.mark.parametrize("rows", [4, FEW_MAXIMA])
def test_a_transposed_array_has_the_maxima_of_its_columns(rows):
    x = numbers((7, rows)).T
    np.testing.assert_array_equal(largest_over(x, (1,)), x.max(1, keepdims=True))


@pytest.mark.parametrize("shape", [(200, 7), (3, 100, 24), (4, 24)])
def test_sums_of_short_rows_are_numpys_but_for_rounding(shape):
    x, axis = numbers(shape), (len(shape) - 1,)
    for a in (x, x[..., ::-1], np.asfortranarray(x)):
        expected = a.sum(-1, keepdims=True, dtype=np.float64)
        sums = sum_over(a, axis, x.dtype)
        assert sums.dtype == x.dtype and sums.shape == expected.shape
        np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("axis", AXES[:-1])
def test_sums_keep_the_axes_and_are_numpys_but_for_rounding(axis):
    x = numbers((30, 20, 50), np.float64)
    expected = x.sum(axis, keepdims=True)
    np.testing.assert_allclose(sum_over(x, axis, np.dtype(float)), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("shape", [(4096, 10), (8192, 64), (300, 1000), (257, 33), (1024, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_many_short_rows_are_added_up_together(shape, dtype):
    x = numbers(shape, dtype)
    assert folds(x) == (x.size >= FEW and shape[0] >= LEAST_FOLDED)
    total, exact = sum_of_rows(x), x.sum(0, dtype=np.result_type(dtype, np.float64))
    assert total.shape == exact.shape and total.dtype == dtype
    np.testing.assert_allclose(total, exact, rtol=0, atol=64 * len(x) ** 0.5 * np.finfo(dtype).eps)


def test_few_long_rows_whole_numbers_and_gaps_are_left_to_numpy():
    for x in (numbers((100, 1000)), np.ones((4096, 10), int), numbers((4096, 20))[:, ::2]):
        assert not folds(x)


@pytest.mark.parametrize("axis, shape", [(0, (4096, 10)), ((0, 1), (64, 64, 10)), ((0,), (512, 8))])
@pytest.mark.parametrize("keepdims", [False, True])
def test_a_sum_over_the_leading_axes_is_numpys_but_for_rounding(axis, shape, keepdims):
    x = numbers(shape)
    total = mg.sum(mg.tensor(x), axis=axis, keepdims=keepdims)
    exact = x.sum(axis, dtype=np.float64, keepdims=keepdims)
    assert total.shape == exact.shape
    np.testing.assert_allclose(total.numpy(), exact, rtol=0, atol=1e-4)


@pytest.mark.parametrize("places_first", [False, True])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_of_channels_are_numpys_in_both_orders_of_memory(places_first, keepdims):
    x = numbers((32, 16, 12, 10))
    if places_first:
        x = np.ascontiguousarray(x.transpose(2, 3, 0, 1)).transpose(2, 3, 0, 1)
    total = mg.sum(mg.tensor(x), axis=(0, 2, 3), keepdims=keepdims)
    exact = x.sum((0, 2, 3), dtype=np.float64, keepdims=keepdims)
    assert total.shape == exact.shape
    np.testing.assert_allclose(total.numpy(), exact, rtol=0, atol=1e-4)


# -- reductions of users along rows ----------------------------------------------------------

REDUCTIONS = ["sum", "mean", "max", "min", "var", "std"]


@given(
    st.sampled_from(REDUCTIONS),
    st.sampled_from([(-1,), (2,), (1, 2), (-1, -2)]),
    st.tuples(st.integers(1, 40), st.integers(1, 12), st.integers(1, 600)),
    st.booleans(),
    st.sampled_from([np.float32, np.float64]),
)
def test_a_reduction_along_the_last_axes_is_numpys_but_for_rounding(
    name, axis, shape, keepdims, dtype
):
    x = numbers(shape, dtype)
    axis = axis[0] if len(axis) == 1 else axis
    y = getattr(op, name)(x, axis=axis, keepdims=keepdims)
    expected = getattr(np, name)(x.astype(np.longdouble), axis=axis, keepdims=keepdims)
    assert y.dtype == dtype and y.shape == expected.shape
    atol = np.finfo(dtype).eps * 50 * abs(x).max() * (shape[1] * shape[2]) ** 0.5
    np.testing.assert_allclose(y, expected.astype(dtype), rtol=0, atol=atol)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_row_that_is_not_finite_touches_no_other_row(name):
    x = numbers((FEW, 7))
    clean = getattr(op, name)(x, axis=-1)
    x[3, 2], x[5, 1] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        y, expected = getattr(op, name)(x, axis=-1), getattr(np, name)(x, axis=-1)
    np.testing.assert_allclose(y[3:6], expected[3:6], rtol=1e-5)
    rest = np.r_[0:3, 4, 6:FEW]
    np.testing.assert_array_equal(y[rest], clean[rest])


@pytest.mark.parametrize("m", [1, 20, 64, 257, 1000, 4099])
def test_the_sum_of_a_row_does_not_depend_on_the_rows_beside_it(m):
    rows = numbers((300, m))
    sums = sum_of_each_row(rows)
    assert sums.flags.owndata
    parts = [sum_of_each_row(rows[i : i + 7].copy()) for i in range(0, 300, 7)]
    np.testing.assert_array_equal(sums, np.concatenate(parts))


@pytest.mark.parametrize("m", [100, 256])
def test_sums_of_rows_are_as_exact_as_numpys(m):
    x = numbers((2000, m))
    exact = x.astype(np.longdouble).sum(1)

    def error(sums):
        return float(np.sqrt(((sums - exact) ** 2).mean()))

    assert error(sum_of_each_row(x)) < 1.3 * error(x.sum(1))


@pytest.mark.parametrize(
    "x, axis",
    [
        (numbers((FEW, 2)), 0), (numbers((FEW, 2)), None), (numbers((FEW, 2)).T, -1),
        (numbers((8, FEW, 2)), (0, 2)), (numbers((FEW, 2)), ()), (numbers((9, 4)), -1),
        (numbers((LEAST_ROWS - 1, FEW)), -1), (np.ones((FEW, 2), int), -1),
    ],
    ids=["columns", "all", "another order", "apart", "none", "small", "few rows", "integers"],
)  # fmt: skip
def test_other_reductions_have_no_such_rows(x, axis):
    assert rows_along(x, axis) is None
    np.testing.assert_allclose(op.mean(x, axis=axis), np.mean(x, axis=axis), atol=1e-5)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_list_of_axes_is_an_error_as_in_numpy_and_an_axis_beyond_the_last_is_named(name):
    with pytest.raises(TypeError):
        getattr(op, name)(numbers((FEW, 2, 2)), axis=[1, 2])
    with pytest.raises(IndexError, match="axis 3"):
        getattr(op, name)(numbers((FEW, 2, 2)), axis=3)


def test_a_tape_replays_the_bits_of_a_sum_of_rows():
    x = mg.tensor(numbers((FEW, 20)), requires_grad=True)
    with mg.Tape() as tape:
        y = (x.sum(-1) * x.max(-1) + x.var(-1)).mean()
    program = tape.compile(y, inputs=[x], wrt=x)
    other = numbers((FEW, 20)) * 3 + 1
    value, g = program(other)
    t = mg.tensor(other, requires_grad=True)
    y = (t.sum(-1) * t.max(-1) + t.var(-1)).mean()
    y.backward()
    assert value == y.numpy() and t.grad is not None
    np.testing.assert_array_equal(g, t.grad.numpy())


@pytest.mark.parametrize("shape", [(1 << 14, 10), (2048, 64), (512, 512), (3, 1 << 16), (7, 5)])
@pytest.mark.parametrize("function", [np.add, np.multiply])
def test_a_function_of_each_row_and_one_is_that_of_the_broadcast_row(shape, function):
    a, row = numbers(shape), numbers(shape[-1:])
    expected = function(a, row)
    on_each_row(function, a, row)
    np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [100, 9_000, 300_001])
def test_a_sum_of_products_does_not_tell_how_many_threads_blas_has(n, dtype):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    x, y = numbers((n,), dtype), numbers((n, 2), dtype)[:, 1].copy()
    sums = []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads):
            sums.append(sum_of_product(x, y, (0,)))
    np.testing.assert_array_equal(*sums)
    np.testing.assert_allclose(sums[0], [np.sum(x * y)], rtol=1e-4, atol=n * 1e-7)
