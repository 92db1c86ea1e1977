"""Winograd's convolution with compiled transforms is NumPy's, to rounding."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad.backends.window_kernels import use_compiled
from minigrad.fast.conv import winograd, winograd_tiles
from minigrad.ops.windows import windows

pytest.importorskip("numba", reason="mg.accelerate compiles with numba")
compiled = pytest.importorskip("minigrad.compiled.winograd")


@pytest.fixture(autouse=True)
def numpys_own():
    with mg.accelerate(False):
        yield


def three(x, w, b, g, how):
    """y, gx, gw as the family finds them; where it leaves images, zeros."""
    y, gx = np.zeros_like(g), np.zeros_like(x)
    left = winograd.forward(x, w, b, how, y)
    winograd.transposed(g, w, how, gx)
    return y, gx, winograd.of_weight(g, x, how), left


def both(x, w, b, padding, limit):
    """three() by NumPy's transforms and by the compiled ones, in pieces of `limit` bytes."""
    how = windows("conv", (3, 3), 1, padding)
    size = how.count("conv", x.shape[2:])
    g = np.random.default_rng(3).standard_normal((len(x), len(w), *size)).astype(x.dtype)
    expected = three(x, w, b, g, how)
    try:
        transforms = {**vars(compiled.transforms), "block_bytes": limit}
        use_compiled(SimpleNamespace(winograd=SimpleNamespace(**transforms)))
        return expected, three(x, w, b, g, how)
    finally:
        use_compiled(None)


def leaves(n, inputs, outputs, size, dtype):
    rng = np.random.default_rng(0)
    shapes = (n, inputs, *size), (outputs, inputs, 3, 3), (outputs,)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@settings(max_examples=60)
@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 4),
    st.tuples(st.integers(3, 9), st.integers(3, 9)),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.sampled_from([1, 4000, 1 << 20]),
)
def test_value_and_gradients_are_numpys(n, inputs, outputs, size, padding, limit):
    x, w, b = leaves(n, inputs, outputs, size, np.float64)
    (*expected, _), (*got, _) = both(x, w, b, padding, limit)
    for a, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12)


def test_they_are_in_float32_too_and_without_a_bias():
    x, w, _ = leaves(4, 16, 24, (12, 17), np.float32)
    (*expected, _), (*got, _) = both(x, w, None, 1, 1 << 20)
    for a, e in zip(got, expected, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, e, rtol=1e-5, atol=1e-5 * abs(e).max())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_images_that_are_not_finite_are_left_to_the_direct_form(value):
    x, w, b = leaves(8, 2, 3, (6, 6), np.float64)
    x[5, 0, 2, 2] = value
    (*_, expected), (_, _, gw, left) = both(x, w, b, 1, 1)
    assert left and all(part.start <= 5 < part.stop for part in left)
    assert gw is None and expected


def test_they_are_used_while_the_switch_is_on_and_no_longer():
    with mg.accelerate(process=False):
        assert winograd_tiles.transforms(np.ones((2, 2, 4, 4))) is compiled.transforms
        assert winograd_tiles.transforms(np.ones((2, 2, 4, 4, 4))) is winograd_tiles._channels_first
    assert winograd_tiles.transforms(np.ones((2, 2, 4, 4))) is winograd_tiles._channels_first


def test_a_result_does_not_depend_on_the_number_of_threads():
    found = []
    x, w, b = (mg.tensor(v, requires_grad=True) for v in leaves(16, 16, 16, (16, 16), np.float32))
    before = mg.get_num_threads()
    try:
        for threads in (1, 2, 5):
            mg.set_num_threads(threads)
            with mg.accelerate(process=False):
                y = mg.conv2d(x, w, b, padding=1)
                gradients = mg.grad((y * y).sum(), [x, w, b])
            found.append([y.numpy(), *(g.numpy() for g in gradients)])
    finally:
        mg.set_num_threads(before)
    for other in found[1:]:
        for a, e in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(a, e)


def test_16_bits_are_transformed_in_32_and_their_bias_with_them():
    x, w, b = (v.astype(np.float16) for v in leaves(16, 16, 16, (11, 12), np.float64))
    expected = mg.conv2d(x, w, b, padding=1)
    with mg.accelerate(process=False):
        y = mg.conv2d(x, w, b, padding=1)
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, expected, rtol=2e-3, atol=2e-3)  # two units of float16
