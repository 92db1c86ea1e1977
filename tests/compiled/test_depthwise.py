"""Compiled depthwise convolution gives what the op's own forwards give."""

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
compiled = pytest.importorskip("minigrad.compiled.depthwise")

SIZES = {1: (37,), 2: (11, 14)}


def rand(*shape, seed=0, dtype="float64"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dims", [1, 2])
def test_the_convolution_and_its_transposes_are_the_ops(dims, dtype):
    channels, tolerance = 3, 2e-5 if dtype == "float32" else 1e-12  # sums of up to 308 products
    x = rand(2, channels, *SIZES[dims], dtype=dtype)
    ways = list(itertools.product((1, 3, 4), (1, 2, 3), (0, 2), (1, 2)))
    if dims == 2:
        ways.append(((2, 3), (3, 1), ((1, 0), (0, 2)), (1, 2)))
    with mg.accelerate(False):
        for k, s, p, d in ways:
            kernel = (k,) * dims if isinstance(k, int) else k
            how = windows("conv", kernel, s, p, d)
            w, b = rand(channels, 1, *kernel, seed=1, dtype=dtype), rand(channels, dtype=dtype)
            a = rand(2, channels, *how.count("conv", SIZES[dims]), seed=2, dtype=dtype)
            both = {"how": how, "groups": channels}
            for name, args, params in (
                ("conv", (x, w, b), both),
                ("conv", (x, w), both),
                ("conv_dx", (a, w), {**both, "size": SIZES[dims]}),
                ("conv_dw", (a, x), both),
            ):
                expected = getattr(op, name)(*args, **params)
                got = getattr(compiled, name)(*args, **params)
                assert got.shape == expected.shape and got.dtype == expected.dtype
                np.testing.assert_allclose(
                    got, expected, rtol=tolerance, atol=tolerance, err_msg=f"{name} {how}"
                )


def test_dense_complex_and_three_dimensional_convolutions_are_left_to_the_op():
    how = windows("conv", (3, 3), 1, 1)
    x, w = rand(2, 4, 8, 8), rand(4, 1, 3, 3)
    assert compiled.conv(x, rand(4, 2, 3, 3), how=how, groups=2) is None
    assert compiled.conv(x, rand(8, 1, 3, 3), how=how, groups=4) is None
    assert compiled.conv(x.astype(complex), w.astype(complex), how=how, groups=4) is None
    cube = windows("conv", (3, 3, 3), 1, 1)
    assert compiled.conv(rand(2, 4, 5, 5, 5), rand(4, 1, 3, 3, 3), how=cube, groups=4) is None


def test_a_nan_reaches_the_windows_that_hold_it_and_no_other():
    x = np.zeros((1, 2, 5, 5))
    x[0, 1, 0, 0] = np.nan
    y = compiled.conv(x, np.ones((2, 1, 3, 3)), how=windows("conv", (3, 3), 1, 1), groups=2)
    assert np.isnan(y[0, 1, :2, :2]).all() and np.isnan(y).sum() == 4


def test_derivatives_of_both_orders_agree_with_finite_differences():
    x, w = rand(4, 8, 32, 33), rand(8, 1, 3, 3, seed=1)
    few = rand(2, seed=2)

    def of_large_images(t):
        y = mg.conv2d(x * t[0] ** 2, w * t[1] + t[1] ** 2, None, 1, 1, 1, 8)
        return (y * y).mean()

    with mg.accelerate(process=False):
        gradcheck(of_large_images, [few])
        gradgradcheck(of_large_images, [few])


def test_no_bit_depends_on_the_number_of_threads():
    x, w = rand(16, 8, 31, 33, dtype="float32"), rand(8, 1, 3, 3, dtype="float32")
    found, before = [], mg.get_num_threads()
    try:
        for threads in (1, 2):
            mg.set_num_threads(threads)
            with mg.accelerate(process=False):
                leaves = [mg.tensor(v, requires_grad=True) for v in (x, w)]
                y = mg.conv2d(*leaves, None, 2, 1, 1, 8)
                (y * y).sum().backward()
                found.append([v.tobytes() for v in (y.numpy(), *(t.grad.numpy() for t in leaves))])
    finally:
        mg.set_num_threads(before)
    assert found[0] == found[1]
