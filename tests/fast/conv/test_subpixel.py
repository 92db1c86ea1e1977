"""The transpose of strided convolutions phase by phase: what sums over the windows give."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends.image_layout import lies_places_first, places_first
from minigrad.fast.conv import subpixel
from minigrad.ops.conv import primitives
from minigrad.ops.windows import windows

pytestmark = pytest.mark.promise(
    "both ways of the direct convolution, and its transpose by phases, are PyTorch's; a "
    "NaN or ∞ stays where it was"
)

N, OUTPUTS, CHANNELS = 20, 14, 13

# kernel, stride, padding, and how much larger the image is than the least that has these windows
CASES = {
    "4 × 4, 2": ((4, 4), 2, 1, 0),
    "no padding": ((4, 4), 2, 0, 0),
    "much padding": ((4, 4), 2, (3, 5), 0),
    "uneven padding": ((4, 4), 2, ((0, 2), (3, 1)), 0),
    "an image beyond its windows": ((4, 4), 2, 1, 1),
    "unlike axes": ((4, 6), (2, 3), (1, 2), (1, 2)),
    "one axis alone": ((3, 4), (1, 2), 1, 0),
    "1-d": ((8,), 4, 2, 3),
    "3-d": ((2, 4, 4), (1, 2, 2), (0, 1, 1), 0),
    "padded kernel": ((3, 3), 2, 1, 1),
    "a kernel smaller than the stride": ((2, 3), (3, 2), 1, (2, 1)),
}


@pytest.fixture
def always(monkeypatch):
    """Also where the kernel needs many zeros; the calls of this form."""
    monkeypatch.setattr(subpixel, "MOST_ZEROS", 100)
    calls, plain = [], subpixel.transposed
    monkeypatch.setattr(subpixel, "transposed", lambda *args: (calls.append(1), plain(*args)))
    return calls


def drawn(case, dtype=np.float64):
    kernel, stride, padding, more = CASES[case]
    how, dims = windows("conv", kernel, stride, padding), len(kernel)
    out = (5, 4, 3)[:dims]
    more = (more,) * dims if isinstance(more, int) else more
    size = tuple(
        s * (n - 1) + k - sum(p) + m
        for n, k, s, p, m in zip(out, kernel, how.stride, how.padding, more, strict=True)
    )
    assert how.count("conv", size) == out
    rng = np.random.default_rng(len(case))
    a, w = rng.normal(size=(N, OUTPUTS, *out)), rng.normal(size=(OUTPUTS, CHANNELS, *kernel))
    return a.astype(dtype), w.astype(dtype), how, size


@pytest.mark.parametrize("turn", [np.asarray, places_first], ids=["rows", "places first"])
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_sum_over_the_windows(case, turn, always, monkeypatch):
    a, w, how, size = drawn(case)
    found = primitives.conv_dx(turn(a), w, size=size, how=how)
    assert always == [1] and found.shape == (N, CHANNELS, *size)
    assert lies_places_first(found) if turn is places_first else found.flags.c_contiguous
    monkeypatch.setattr(subpixel, "suits", lambda *_: False)
    expected = primitives.conv_dx(a, w, size=size, how=how)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_some_images_at_a_time_give_the_whole(always, monkeypatch):
    a, w, how, size = drawn("4 × 4, 2", np.float32)
    whole = primitives.conv_dx(a, w, size=size, how=how)
    monkeypatch.setattr("minigrad.fast.conv.im2col_hwnc.BLOCK_BYTES", 1)
    parts = primitives.conv_dx(a, w, size=size, how=how)
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "kernel, stride, images, takes",
    [
        ((4, 4), 2, 64, True),
        ((5, 5), 2, 64, False),  # 1.44 times its places
        ((3, 3), 1, 64, False),
        ((2, 2), 2, 64, False),  # nothing to be added up
        ((4, 4), 2, 2, False),  # short runs
    ],
)
def test_it_is_for_many_images_and_kernels_of_nearly_whole_phases(kernel, stride, images, takes):
    how = windows("conv", kernel, stride)
    a, w = np.ones((images, 8, 5, 5)), np.ones((8, 8, *kernel))
    assert subpixel.suits(how, 1, a, 8, w) == takes


def test_an_infinite_entry_shows_where_its_window_is_alone():
    kernel, stride = (5, 3), (3, 1)  # the first axis is filled up to two whole phases
    a, w = np.ones((64, 8, 5, 5)), np.ones((8, 8, *kernel))
    assert subpixel.suits(windows("conv", kernel, stride), 1, a, 8, w)
    a[3, 2, 1, 1] = np.inf
    y = mg.conv_transpose2d(a, w, None, stride)
    rows, columns = slice(3, 8), slice(1, 4)
    assert np.isinf(y[3, :, rows, columns]).all()
    y[3, :, rows, columns] = 0
    assert np.isfinite(y).all()


def test_a_transposed_convolution_and_its_gradients_are_pytorchs():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=(32, 12, 5, 6)), rng.normal(size=(12, 10, 4, 4)), rng.normal(size=10)
    ours = [mg.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    y = mg.conv_transpose2d(*ours, 2, 1)
    expected = torch.nn.functional.conv_transpose2d(*theirs, 2, 1)
    np.testing.assert_allclose(y.numpy(), expected.detach().numpy(), atol=1e-12)
    (y * y).sum().backward()
    (expected * expected).sum().backward()
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.grad.numpy(), other.grad.numpy(), rtol=1e-10, atol=1e-9)
