"""Compiled pooling gives what the ops' own forwards give."""

import itertools

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.ops.windows import windows
from minigrad.testing import gradcheck, gradgradcheck

pytestmark = pytest.mark.promise(
    "compiled pools, depthwise convolution, columns and folds are the ops', with ties, NaN "
    "and odd windows"
)

pytest.importorskip("numba", reason="mg.accelerate compiles with numba")
compiled = pytest.importorskip("minigrad.compiled.pooling")

SIZES = {1: (3, 5, 37), 2: (2, 3, 11, 14)}  # odd and even, rows that fill no vector


def images(shape, dtype="float64"):
    """With ties, which quantised values and the zeros of a relu have."""
    x = np.random.default_rng(0).standard_normal(shape)
    return np.maximum(np.round(2 * x), 0).astype(dtype)


def every_way(dims):
    """Windows that overlap, touch, leave gaps, are dilated, hang over the border."""
    for k, s, p, d in itertools.product((1, 2, 3, 5), (1, 2, 3), (0, 1), (1, 2)):
        how = windows("pool", (k,) * dims, (s,) * dims, p, d)
        if 2 * p <= k and not (how.tiling and dims == 2 and k > 2):
            yield how
    if dims == 2:
        yield windows("pool", (2, 3), (3, 1), ((1, 0), (0, 1)), (1, 2))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dims", [1, 2])
def test_the_maximum_and_its_gradient_are_the_ops(dims, dtype):
    x = images(SIZES[dims], dtype)
    tolerance = 1e-6 if dtype == "float32" else 1e-14
    with mg.accelerate(False):
        for how in every_way(dims):
            y = op.max_pool(x, how=how)
            np.testing.assert_array_equal(compiled.max_pool(x, how=how)[0], y, err_msg=str(how))
            a = np.random.default_rng(1).standard_normal(y.shape).astype(dtype)
            np.testing.assert_allclose(
                compiled.max_pool_dx(a, x, y, how=how), op.max_pool_dx(a, x, y, how=how),
                rtol=tolerance, atol=tolerance, err_msg=str(how),
            )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dims", [1, 2])
def test_the_sum_and_its_gradient_are_the_ops(dims, dtype):
    x = images(SIZES[dims], dtype)
    tolerance = 1e-6 if dtype == "float32" else 1e-14
    with mg.accelerate(False):
        for how in every_way(dims):
            y = op.sum_pool(x, how=how, divisor=3)
            got = compiled.sum_pool(x, how=how, divisor=3)
            np.testing.assert_allclose(got, y, rtol=tolerance, err_msg=str(how))
            params = {"size": x.shape[-dims:], "how": how, "divisor": 3}
            np.testing.assert_allclose(
                compiled.sum_pool_dx(y, **params), op.sum_pool_dx(y, **params),
                rtol=tolerance, err_msg=str(how),
            )  # fmt: skip


def test_nans_are_the_maximum_of_their_window_and_share_its_gradient():
    x = np.zeros((1, 4, 4))
    x[0, 1, 1], x[0, 0, 0], x[0, 3, 3] = np.nan, np.nan, -np.inf
    how = windows("pool", (2, 2), (2, 2))
    y, _ = compiled.max_pool(x, how=how)
    np.testing.assert_array_equal(y, [[[np.nan, 0], [0, 0]]])
    gx = compiled.max_pool_dx(np.ones_like(y), x, y, how=how)
    np.testing.assert_array_equal(gx[0, :2, :2], [[0.5, 0], [0, 0.5]])
    assert np.isfinite(gx).all()


def test_windows_that_may_hold_padding_leave_a_nan_to_the_op():
    x, how = np.full((1, 3, 3), np.nan), windows("pool", (3, 3), (1, 1), 1)
    y, _ = compiled.max_pool(x, how=how)
    assert compiled.max_pool_dx(np.ones_like(y), x, y, how=how) is None


def test_an_infinite_gradient_reaches_only_the_maximum():
    x = np.array([[[1.0, 2.0, 3.0, 0.0], [0.0, 1.0, 0.0, 0.0]]])
    how = windows("pool", (2, 2), (2, 2))
    gx = compiled.max_pool_dx(np.array([[[np.inf, 1.0]]]), x, np.array([[[2.0, 3.0]]]), how=how)
    np.testing.assert_array_equal(gx, [[[0, np.inf, 1, 0], [0, 0, 0, 0]]])


@pytest.mark.parametrize(
    ("kernel", "left"), [((2, 2), False), ((1, 6), False), ((3, 2), True), ((12, 12), True)]
)
def test_most_tiles_are_left_to_other_forms(kernel, left):
    x, how = images((2, 12, 12)), windows("pool", kernel, kernel)
    y, sums = op.max_pool(x, how=how), op.sum_pool(x, how=how)
    found = [
        compiled.max_pool(x, how=how),
        compiled.max_pool_dx(y, x, y, how=how),
        compiled.sum_pool(x, how=how),
        compiled.sum_pool_dx(sums, size=(12, 12), how=how),
    ]
    assert [z is None for z in found] == [left] * 4


def test_what_is_not_float_or_not_contiguous_is_left_to_the_op():
    how = windows("pool", (2, 2), (2, 2))
    x = images((2, 8, 8))
    for other in (x.astype(np.int64), x.astype(np.float16), x.astype(complex), x[:, ::2], x[:0]):
        assert compiled.max_pool(other, how=how) is None
    assert compiled.max_pool(x, how=windows("pool", (2, 2, 2), (2, 2, 2))) is None


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
def test_derivatives_of_both_orders_agree_with_finite_differences(name):
    fn, x = getattr(mg, name), np.random.default_rng(0).permutation(1 << 15) / 100.0
    few = np.random.default_rng(1).standard_normal(3)

    def of_large_images(t):
        y = fn(mg.tensor(x.reshape(8, 64, 64)) + t[0] ** 2 * t[1] + t[2], 3, 2, 1)
        return (y * y).mean()

    with mg.accelerate(process=False):
        gradcheck(of_large_images, [few])
        gradgradcheck(of_large_images, [few])


def test_no_bit_depends_on_the_number_of_threads():
    x, found, before = images((16, 8, 31, 33), "float32"), [], mg.get_num_threads()
    try:
        for threads in (1, 2):
            mg.set_num_threads(threads)
            with mg.accelerate(process=False):
                t = mg.tensor(x, requires_grad=True)
                y = mg.max_pool2d(t, 3, 2, 1)
                (mg.avg_pool2d(y, 3, 1, 1) ** 2).sum().backward()
                found.append((y.numpy().tobytes(), t.grad.numpy().tobytes()))
    finally:
        mg.set_num_threads(before)
    assert found[0] == found[1]


def test_gradients_of_other_windows_than_the_images_are_refused_before_anything_is_written(
    all_sizes,
):
    """The loops would write beyond the end of the array, and the process end later."""
    how = windows("pool", (2, 2), (2, 2), 0, 1)
    many, few = mg.ones((1, 8, 90, 91)), mg.ones((1, 8, 4, 6))
    for call in (
        lambda: op.sum_pool_dx(many, size=(4, 6), how=how),
        lambda: op.max_pool_dx(many, few, many, how=how),
        lambda: op.conv_dx(many, mg.ones((8, 1, 2, 2)), size=(4, 6), how=how, groups=8),
        lambda: op.conv_dw(many, few, how=how, groups=8),
    ):
        with pytest.raises(ValueError):
            call()
