"""Depthwise convolution as products with banded matrices: what passes over shifted images give."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.fast.conv import banded, depthwise
from minigrad.ops.conv import primitives
from minigrad.ops.windows import windows

pytestmark = pytest.mark.promise(
    "blocks give what one piece gives; gelu's last digits; depthwise equals dense, as "
    "products with banded matrices too"
)

KERNELS = {2: (3, 2), 3: (2, 1, 3)}
SIZES = {2: (9, 11), 3: (4, 6, 9)}


def three(x, w, b, how):
    """A depthwise convolution and its gradients in x and w, for a fixed cotangent."""
    y = primitives.conv(x, w, b, how=how, groups=len(w))
    g = np.random.default_rng(7).normal(size=y.shape).astype(y.dtype)
    gx = primitives.conv_dx(g, w, size=x.shape[2:], how=how, groups=len(w))
    return y, gx, primitives.conv_dw(g, x, how=how, groups=len(w))


def by_passes(monkeypatch, *call):
    with monkeypatch.context() as patched:
        for name in ("suits", "suits_transposed", "suits_weight"):
            patched.setattr(banded, name, lambda *_: False)
        return three(*call)


@pytest.fixture
def always(monkeypatch):
    """This form for images of any size; the list of what was asked of it."""
    monkeypatch.setattr(banded, "LEAST", 1)
    monkeypatch.setattr(banded, "_longest_of_weight", lambda places: 1 << 20)
    ran = []
    for name in ("forward", "transposed", "of_weight"):
        plain = getattr(banded, name)
        noted = lambda *args, plain=plain, name=name: (ran.append(name), plain(*args))[1]
        monkeypatch.setattr(banded, name, noted)
    return ran


def drawn(dims, dtype=np.float64, n=2, channels=3):
    rng = np.random.default_rng(dims)
    shapes = (n, channels, *SIZES[dims]), (channels, 1, *KERNELS[dims]), (channels,)
    return [rng.normal(size=s).astype(dtype) for s in shapes]


@pytest.mark.parametrize("tile", [2, 4, 16])
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [0, 1, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_it_is_the_sum_over_the_places_of_the_kernel(
    dims, stride, padding, dilation, tile, always, monkeypatch
):
    monkeypatch.setattr(banded, "TILE", tile)
    how = windows("conv", KERNELS[dims], stride, padding, dilation)
    found = three(*drawn(dims), how)
    assert {*always} == {"forward", "transposed", "of_weight"}
    for a, b in zip(found, by_passes(monkeypatch, *drawn(dims), how), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_an_image_larger_than_its_windows_has_zeros_behind_them(always, monkeypatch):
    """The transposed convolution's output padding."""
    rng = np.random.default_rng(0)
    a, w = rng.normal(size=(2, 3, 5, 6)), rng.normal(size=(3, 1, 3, 3))
    x = [mg.tensor(v, requires_grad=True) for v in (a, w)]
    y = mg.conv_transpose2d(*x, None, 2, 1, 1, 3)
    assert "transposed" in always
    monkeypatch.setattr(banded, "suits_transposed", lambda *_: False)
    expected = mg.conv_transpose2d(*x, None, 2, 1, 1, 3)
    np.testing.assert_allclose(y.numpy(), expected.numpy(), atol=1e-12)


@pytest.mark.parametrize("block", [1, 5000])
def test_pieces_of_images_and_channels_give_the_whole(block, always, monkeypatch):
    how = windows("conv", KERNELS[2], padding=1)
    whole = three(*drawn(2, n=5, channels=4), how)
    monkeypatch.setattr(banded, "BLOCK_BYTES", block)
    for a, b in zip(three(*drawn(2, n=5, channels=4), how), whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("at", ["x", "w"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_does_not_spread(at, value, stride, always, monkeypatch):
    x, w, b = drawn(2)
    (x if at == "x" else w)[1, 0, 1, 1] = value
    how = windows("conv", KERNELS[2], stride, 1)
    found = three(x, w, b, how)
    with np.errstate(invalid="ignore"):
        expected = by_passes(monkeypatch, x, w, b, how)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_float32_stays_within_its_rounding(always):
    how = windows("conv", KERNELS[2], padding=1)
    exact = three(*drawn(2, n=8), how)
    found = three(*[a.astype(np.float32) for a in drawn(2, n=8)], how)
    for a, b in zip(found, exact, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_the_bits_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    shapes = (16, 32, 14, 14), (32, 1, 5, 5), (32,)
    arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
    how = windows("conv", (5, 5), padding=2)
    threads = mg.get_num_threads()
    try:
        mg.set_num_threads(1)
        alone = three(*arrays, how)
        mg.set_num_threads(2)
        shared = three(*arrays, how)
    finally:
        mg.set_num_threads(threads)
    for a, b in zip(alone, shared, strict=True):
        np.testing.assert_array_equal(a, b)


def test_it_is_for_short_rows_or_large_kernels():
    def takes(size, kernel):
        x, w = np.ones((2, 3, 200, size), np.float32), np.ones((3, 1, kernel, kernel), np.float32)
        how = windows("conv", (kernel, kernel), padding=kernel // 2)
        return banded.suits(how, x, w, (200, size))

    assert takes(20, 3) and takes(100, 5) and not takes(24, 3)
    whole, large = np.ones((1, 2, 16, 2048), np.float32), windows("conv", (9, 9), padding=4)
    w = np.ones((2, 1, 9, 9), np.float32)
    assert banded.suits(large, whole, w, (16, 2048))
    assert not banded.suits(large, whole, w, (2048, 2048))  # 450 MB of columns
    assert not depthwise.is_depthwise(np.ones((2, 3, 8, 8)), 3, 6, 3)


@pytest.mark.parametrize("kernel, size, pays", [(3, 10, 1), (3, 14, 0), (5, 14, 1), (5, 28, 0)])
def test_gradients_of_weights_take_it_for_shorter_rows(kernel, size, pays):
    a = np.ones((2, 3, 300, size), np.float32)
    how = windows("conv", (kernel, kernel), padding=kernel // 2)
    assert banded.suits_weight(how, a, a) == bool(pays)
    assert banded.suits_transposed(how, a, np.ones((3, 1, kernel, kernel), np.float32), a.shape[2:])
