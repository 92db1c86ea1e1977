"""Adaptive pooling and upsampling: PyTorch's values and gradients for sizes that do not divide."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck

RNG = np.random.default_rng(0)


def agree(ours, theirs, x):
    torch = pytest.importorskip("torch")
    xm, xt = mg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y, yt = ours(xm), theirs(xt)
    np.testing.assert_allclose(y.numpy(), yt.detach().numpy(), atol=1e-12)
    g = RNG.standard_normal(y.shape)
    (expected,) = torch.autograd.grad(yt, xt, torch.tensor(g))
    np.testing.assert_allclose(mg.grad(y, xm, g).numpy(), expected.numpy(), atol=1e-12)


@pytest.mark.parametrize("size", [1, 3, 5, 7, (2, 6)])
def test_adaptive_avg_pool2d_is_pytorchs(size):
    f = pytest.importorskip("torch").nn.functional
    x = RNG.standard_normal((2, 3, 5, 7))
    agree(lambda x: mg.adaptive_avg_pool2d(x, size), lambda x: f.adaptive_avg_pool2d(x, size), x)


@pytest.mark.parametrize("size", [1, 4, 9, 12])
def test_adaptive_avg_pool1d_is_pytorchs(size):
    f = pytest.importorskip("torch").nn.functional
    x = RNG.standard_normal((2, 3, 9))
    agree(lambda x: mg.adaptive_avg_pool1d(x, size), lambda x: f.adaptive_avg_pool1d(x, size), x)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_shows_in_the_windows_that_hold_it_alone(value):
    x = np.ones((2, 7, 9), "f")
    x[1, 3, 4] = value
    y = mg.adaptive_avg_pool2d(x, (3, 4))
    windows = np.zeros((2, 3, 4), bool)
    windows[1, 1, 1:3] = True  # rows 2, 3, 4; columns 2 to 4 and 4 to 6
    np.testing.assert_array_equal(y, np.where(windows, value, 1))


def test_an_infinite_cotangent_goes_to_its_own_window_alone():
    x, g = mg.tensor(np.ones((1, 5)), requires_grad=True), np.array([[np.inf, 1.0]])
    gx = mg.grad(mg.adaptive_avg_pool1d(x, 2), x, g).numpy()
    np.testing.assert_allclose(gx, [[np.inf, np.inf, np.inf, 1 / 3, 1 / 3]])


@pytest.mark.parametrize("size", [(8, 10), (7, 3), (4, 5)])
@pytest.mark.parametrize("options", [
    {"mode": "nearest"}, {"mode": "bilinear"}, {"mode": "bilinear", "align_corners": True},
])  # fmt: skip
def test_upsampling_to_a_size_is_pytorchs(size, options):
    f = pytest.importorskip("torch").nn.functional
    x = RNG.standard_normal((2, 3, 4, 5))
    theirs = options if options["mode"] != "nearest" else {"mode": "nearest"}
    agree(lambda x: mg.upsample(x, size, **options), lambda x: f.interpolate(x, size, **theirs), x)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("options", [
    {"size": (1, 2)}, {"size": (3, 4)}, {"size": (2, 20)}, {"size": (15, 3)}, {"size": (9, 23)},
    {"size": (7, 5)}, {"scale_factor": 0.37}, {"scale_factor": (1.3, 0.6)}, {"scale_factor": 2},
    {"scale_factor": 0.6, "recompute_scale_factor": True},
], ids=str)  # fmt: skip
def test_antialiased_images_are_pytorchs(options, mode, align_corners):
    f = pytest.importorskip("torch").nn.functional
    options = {**options, "mode": mode, "align_corners": align_corners, "antialias": True}
    x = RNG.standard_normal((2, 3, 7, 9))
    agree(lambda x: mg.upsample(x, **options), lambda x: f.interpolate(x, **options), x)


@pytest.mark.parametrize("mode", ["linear", "bicubic"])
def test_an_antialiased_constant_stays_as_it_is(mode):
    x = np.full((1, 1, 10), 3.0)
    for size in (1, 3, 9, 25):
        y = mg.upsample(x, size, mode=mode, antialias=True)
        np.testing.assert_allclose(y, np.full((1, 1, size), 3.0), rtol=1e-14)


def test_images_enlarged_bilinearly_need_no_antialias():
    x, options = RNG.standard_normal((1, 2, 4, 5)), {"scale_factor": 2, "mode": "bilinear"}
    smooth = mg.upsample(x, antialias=True, **options)
    np.testing.assert_allclose(smooth, mg.upsample(x, **options), rtol=1e-13, atol=1e-14)


def test_second_order():
    assert gradcheck(
        lambda x: mg.upsample(x * x, scale_factor=2, mode="bilinear"),
        (RNG.standard_normal((1, 1, 2, 3)),),
    )


@pytest.mark.parametrize("scale", [1.1, 1.2, 1.3, 0.9, (2.4, 1.1)])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_an_axis_that_keeps_its_length_under_a_scale_is_as_in_pytorch(mode, scale):
    """Where the scale is not the ratio of the lengths, each mode has a rule of its own.

    Values alone: of 'bicubic' and some 'nearest' PyTorch's backward copies where its forward
    resamples.
    """
    torch = pytest.importorskip("torch")
    for shape in ((3, 3), (5, 3), (2, 6), (4, 5)):
        x, how = RNG.standard_normal((1, 2, *shape)), {"scale_factor": scale, "mode": mode}
        expected = torch.nn.functional.interpolate(torch.tensor(x), **how)
        np.testing.assert_allclose(mg.upsample(x, **how), expected.numpy(), atol=1e-12)
        assert gradcheck(lambda x, how=how: mg.upsample(x, **how), x)


@pytest.mark.parametrize("mode, dims", [("nearest", 1), ("nearest", 3), ("trilinear", 3)])
def test_so_is_one_of_images_in_one_and_three_dimensions(mode, dims):
    torch = pytest.importorskip("torch")
    x, how = RNG.standard_normal((1, 2, *(3, 5, 2)[:dims])), {"scale_factor": 1.3, "mode": mode}
    expected = torch.nn.functional.interpolate(torch.tensor(x), **how)
    np.testing.assert_allclose(mg.upsample(x, **how), expected.numpy(), atol=1e-12)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_the_nearest_entry_is_the_one_of_whole_numbers_at_every_length(mode):
    half = int(mode == "nearest-exact")
    for old in range(1, 60):
        x = mg.arange(float(old))[None, None]
        for new in (old + 1, 43, 49, 77, 86, 98, 107):
            y = mg.upsample(x, new, mode=mode)[0, 0].numpy().astype(int)
            np.testing.assert_array_equal(y, (2 * np.arange(new) + half) * old // (2 * new))


def test_the_nearest_entry_by_a_scale_is_the_one_of_whole_numbers():
    for tenths in (3, 7, 11, 13, 17, 29):
        y = mg.upsample(mg.arange(100.0)[None, None], scale_factor=tenths / 10)[0, 0].numpy()
        np.testing.assert_array_equal(y, np.arange(y.size) * 10 // tenths)


@pytest.mark.parametrize("option", ["align_corners", "antialias"])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "area"])
def test_modes_that_do_not_interpolate_refuse_options_of_those_that_do(mode, option):
    with pytest.raises(ValueError, match=f"{option} is for the modes linear, .* {mode!r}; leave"):
        mg.upsample(np.ones((1, 1, 4, 4)), size=2, mode=mode, **{option: True})


@pytest.mark.parametrize("options", [{}, {"align_corners": True}, {"antialias": True}])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_16_bit_images_are_rounded_once(mode, options):
    x = RNG.standard_normal((1, 2, 7, 7)).astype(np.float16)
    y = mg.upsample(x, (16, 5), mode=mode, **options)
    exact = mg.upsample(x.astype(np.float32), (16, 5), mode=mode, **options)
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y, exact.astype(np.float16))


@pytest.mark.parametrize("dtype", [np.float16, mg.bfloat16], ids=str)
@pytest.mark.parametrize("size", [(3, 3), (2, 5)])
def test_means_of_16_bit_floats_are_rounded_once(dtype, size):
    x = (RNG.random((4, 3, 7, 10)) + 1).astype(dtype)
    y, exact = (mg.adaptive_avg_pool2d(a, size) for a in (x, x.astype(float)))
    assert y.dtype == dtype
    step = 2.0**-10 if dtype == np.float16 else 2.0**-7  # from one number to the next, from 1 to 2
    np.testing.assert_allclose(y.astype(float), exact, rtol=0, atol=0.501 * step)


@pytest.mark.parametrize("kind", ["avg", "max"])
def test_no_size_leaves_an_image_as_it_is(kind):
    x = RNG.random((2, 3, 4, 5))
    pool, layer = f"adaptive_{kind}_pool2d", getattr(mg.nn, f"Adaptive{kind.title()}Pool2d")
    for size in (None, (None, None), (None, 5)):
        np.testing.assert_array_equal(getattr(mg, pool)(x, size), x)
        np.testing.assert_array_equal(layer(size)(mg.tensor(x)).numpy(), x)
    for size in ((2,), (2, 2, 2)):
        with pytest.raises(ValueError, match=f"{pool}: output size must be an int ≥ 1, or 2"):
            layer(size)(mg.tensor(x))
