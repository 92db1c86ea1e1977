"""Compiled copies of windows, and their transpose, are NumPy's."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.ops import windows as plain
from minigrad.ops.windows import windows

pytestmark = pytest.mark.promise(
    "compiled pools, depthwise convolution, columns and folds are the ops', with ties, NaN "
    "and odd windows"
)

pytest.importorskip("numba", reason="mg.accelerate compiles with numba")
compiled = pytest.importorskip("minigrad.compiled.columns")

WAYS = [
    windows("conv", (3, 3), 2, 1),
    windows("conv", (3, 3), 1, 1),
    windows("conv", (2, 3), (3, 2), ((1, 0), (0, 2)), (1, 2)),
    windows("conv", (1, 3), (1, 1), 1),
    windows("conv", (5, 5), 3, 0),
]


def images(merged, dtype):
    """(n, groups, c, h, w), or the view (groups, c, n, h, w) of the same, and where kernels go."""
    x = np.random.default_rng(0).standard_normal((4, 2, 5, 13, 16)).astype(dtype)
    return (x.transpose(1, 2, 0, 3, 4), 2) if merged else (x, 3)


@pytest.fixture(autouse=True)
def numpys_own():
    with mg.accelerate(False):
        yield


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("how", WAYS)
def test_columns_are_numpys(how, merged, dtype):
    x, at = images(merged, dtype)
    out = how.count("conv", x.shape[-2:])
    expected = plain.columns(x, how, out, at).copy()
    got = compiled.columns(x, how, out, at)
    if got is None:  # NumPy is as fast at the long runs of stride 1
        assert not merged and set(how.stride) == {1}
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("how", WAYS)
def test_folds_are_numpys(how, merged, dtype):
    x, at = images(merged, dtype)
    out = how.count("conv", x.shape[-2:])
    shape = plain.columns(x, how, out, at).shape
    cols = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    expected = plain.fold(cols, how, x.shape[-2:], at).copy()
    got = compiled.fold(cols, how, x.shape[-2:], at)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("size", [4, 19])  # images multiplied together, and one by one
def test_a_dense_convolution_and_its_gradients_are_the_same_to_rounding(dims, size):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((40, 6) + (size,) * dims), rng.standard_normal((4, 3) + (3,) * dims)
    found = []
    for on in (False, True):
        with mg.accelerate(on):
            leaves = [mg.tensor(v, requires_grad=True) for v in (x, w)]
            y = getattr(mg, f"conv{dims}d")(*leaves, None, 2, 1, 1, 2)
            (y * y).sum().backward()
            found.append([y.numpy(), *(t.grad.numpy() for t in leaves)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
