"""Casts on a GPU: a kernel of wide loads and stores, with the host's bits."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends.dtypes import finfo

on_both = pytest.mark.parametrize("kernels", ["stand-in", "gpu"], indirect=True)
SINGLE = np.dtype(np.float32)
NARROW = [np.dtype(np.float16), mg.bfloat16]
SIZES = [1, 3, 4, 5, 1023, 1024, 1025, 4099]


def awkward(dtype):
    """Ties, overflow, subnormals, infinities and zeros of both signs, and many plain numbers."""
    ties = 1 + np.arange(64) / 4096  # between neighbours of float16 and of bfloat16, and on them
    ends = [0.0, 1e-45, 6e-8, 3e-8, 6e-5, 65504, 65519, 65520, 1e5, 3.3895e38, 3.4e38, np.inf]
    plain = np.random.default_rng(0).standard_normal(2000) * 10.0 ** np.arange(-10, 10).repeat(100)
    with np.errstate(over="ignore"):
        return np.concatenate([ties, -ties, ends, np.negative(ends), plain]).astype(dtype)


def cast(values, dtype):
    return mg.tensor(values, device="cuda").astype(dtype).to("cpu").numpy()


@on_both
@pytest.mark.parametrize("narrow", NARROW, ids=str)
def test_a_cast_to_16_bits_rounds_to_nearest_even_as_on_the_host(kernels, narrow):
    values = awkward(SINGLE)
    with np.errstate(over="ignore"):
        expected = values.astype(narrow)
    found = cast(values, narrow)
    assert found.dtype == narrow
    np.testing.assert_array_equal(found.view(np.uint16), expected.view(np.uint16))


@on_both
@pytest.mark.parametrize("narrow", NARROW, ids=str)
def test_a_cast_back_to_float32_is_exact(kernels, narrow):
    values = np.arange(1 << 16, dtype=np.uint16).view(narrow)  # every number there is
    expected = values.astype(SINGLE)
    np.testing.assert_array_equal(cast(values, SINGLE), expected)


@on_both
@pytest.mark.parametrize("narrow", NARROW, ids=str)
def test_a_cast_keeps_nan(kernels, narrow):
    values = np.array([np.nan, 1, -np.nan, np.inf, np.nan], SINGLE)
    np.testing.assert_array_equal(np.isnan(cast(values, narrow)), np.isnan(values))


@on_both
def test_a_cast_of_any_size_is_one_kernel(kernels):
    for n in SIZES:
        values = np.linspace(-3, 3, n, dtype=np.float32)
        x = mg.tensor(values, device="cuda")
        before = None if kernels is None else len(kernels)
        y = x.astype(mg.bfloat16)
        assert before is None or len(kernels) == before + 1
        np.testing.assert_array_equal(y.to("cpu").numpy(), values.astype(mg.bfloat16))


@on_both
@pytest.mark.parametrize("narrow", NARROW, ids=str)
def test_a_gradient_is_cast_back_by_such_a_kernel(kernels, narrow):
    g = np.linspace(-1, 1, 1001).astype(narrow)
    x = mg.tensor(np.zeros(1001, np.float32), device="cuda", requires_grad=True)
    y, seed = x.astype(narrow), mg.tensor(g, device="cuda")
    before = None if kernels is None else len(kernels)
    y.backward(seed)
    assert before is None or len(kernels) == before + 1
    assert x.grad.dtype == SINGLE
    np.testing.assert_array_equal(x.grad.to("cpu").numpy(), g.astype(np.float32))


@on_both
def test_views_and_complex_numbers_are_cast_too(kernels):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = mg.tensor(values, device="cuda")
    np.testing.assert_array_equal(x.T.astype("float16").to("cpu").numpy(), values.T)
    np.testing.assert_array_equal(x[:, 1::2].astype("float64").to("cpu").numpy(), values[:, 1::2])
    np.testing.assert_array_equal(x.astype("complex64").to("cpu").numpy(), values + 0j)
    np.testing.assert_array_equal(mg.zeros(0, device="cuda").astype("float16").shape, (0,))


@pytest.mark.parametrize("narrow", NARROW, ids=str)
def test_float64_is_rounded_once_on_its_way_to_16_bits(gpu, narrow):
    """1 + half a step + a little: float32 would lose the little, and the tie fall to even, to 1."""
    step = float(finfo(narrow).eps)
    values = np.array([1 + step / 2 + 2.0**-40, 1 + 1.5 * step - 2.0**-40])
    np.testing.assert_array_equal(cast(values, narrow).astype(float), [1 + step, 1 + step])


@on_both
def test_the_gradients_of_a_weight_under_autocast_meet_in_float32(kernels):
    """Two uses of the weight: two casts there, two back, and their sum."""
    w = mg.tensor(np.eye(64, dtype=np.float32), device="cuda", requires_grad=True)
    x = mg.tensor(np.ones((64, 64), np.float32), device="cuda")
    seed = mg.tensor(np.ones((64, 64), mg.bfloat16), device="cuda")
    with mg.autocast(mg.bfloat16, device="cuda") as casting:
        y = mg.matmul(mg.matmul(x, w), w)
    assert sum(event.count for event in casting.log) == 3, "x, and w for each product"
    if kernels is not None:
        kernels.clear()
    y.backward(seed)
    assert w.grad.dtype == SINGLE
    assert kernels is None or sum("float* __restrict__ y0" in source for source in kernels) == 3


@on_both
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_remainder_is_exact_and_of_the_divisors_sign(kernels, dtype):
    a = np.array([5, -5, 5, -5, 1e8, 0, -0.0, 1, -1, np.inf, 1, 6, -6], dtype)
    b = np.array([3, 3, -3, -3, 0.3, 3, 3, np.inf, np.inf, 3, 0, 3, -3], dtype)
    with np.errstate(invalid="ignore"):
        expected = np.remainder(a, b)
    found = (mg.tensor(a, device="cuda") % mg.tensor(b, device="cuda")).to("cpu").numpy()
    np.testing.assert_array_equal(found, expected)
    finite = ~np.isnan(expected)  # the sign of a NaN means nothing
    np.testing.assert_array_equal(np.signbit(found)[finite], np.signbit(expected)[finite])


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_autocast_without_a_device_casts_wherever_the_tensors_are(device, fake):
    x = mg.ones(2, 2, dtype=mg.float32, device=device)
    other = "cuda" if device == "cpu" else "cpu"
    with mg.autocast(mg.bfloat16):
        assert (x @ x).dtype == mg.bfloat16
    with mg.autocast(mg.bfloat16, device=other):
        assert (x @ x).dtype == mg.float32
