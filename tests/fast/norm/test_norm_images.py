"""Norms of images in both memory orders: one pass for the sums where means are near 0, else two."""

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional as F
from minigrad.backends.image_layout import places_first
from minigrad.fast.norm import images as norms

SHAPE = (16, 24, 9, 10)
EPS = np.finfo(np.float32).eps


@pytest.fixture(params=[places_first, np.ascontiguousarray], ids=["places first", "in rows"])
def images(request, monkeypatch):
    """images(mean, seed, dtype): of standard deviation 1, their channels of the mean ± `mean`."""
    monkeypatch.setattr(norms, "LEAST", 0)

    def make(mean=0.0, seed=0, dtype=np.float32):
        x = np.random.default_rng(seed).standard_normal(SHAPE)
        signs = np.where(np.arange(24) % 2, 1, -1).reshape(1, 24, 1, 1)
        x = request.param((x + mean * signs).astype(dtype))
        assert norms.images(x, (0, 2, 3), (24, 1, 1)) is not None
        return x

    return make


def batch_norm(x, w, b):
    return F.batch_norm(x, None, None, w, b, training=True)


def group_norm(x, w, b):
    return F.group_norm(x, 4, w, b)


def composed(x, w, b, groups=None):
    """The norm of the batch, or of `groups` groups of channels, by means and products."""
    axis = (0, 3, 4) if groups is None else (2, 3, 4)
    a = x.reshape(16, groups or 24, -1, 9, 10)
    centred = a - a.mean(axis, keepdims=True)
    a = centred / mg.sqrt((centred * centred).mean(axis, keepdims=True) + 1e-5)
    return a.reshape(SHAPE) * w.reshape(24, 1, 1) + b.reshape(24, 1, 1)


def value_and_gradients(x, g, norm=batch_norm):
    """The value, and the gradients in x, weight and bias."""
    w, b = (np.linspace(0.5, 2, 24, dtype=x.dtype), np.linspace(-1, 1, 24, dtype=x.dtype))
    xs = [mg.tensor(a, requires_grad=True) for a in (x, w, b)]
    y = norm(*xs)
    return [a.numpy() for a in (y, *mg.grad(y, xs, mg.tensor(g)))]


def exact(x, g, groups=None):
    """The same in float64, in rows and composed."""
    x, g = (np.ascontiguousarray(a, np.float64) for a in (x, g))
    return value_and_gradients(x, g, lambda *xs: composed(*xs, groups))


@pytest.mark.parametrize("mean", [0, 0.5, 1.9, 2.1, 30, 1000])
def test_no_more_digits_are_lost_than_the_means_themselves_lose(mean, images):
    """x of mean m and deviation 1 is known to m eps, and so is what the norm makes of it."""
    x, g = images(mean), images(seed=1)
    for found, right, terms in zip(
        value_and_gradients(x, g), exact(x, g), (1, 1, 1440, 1440), strict=True
    ):
        scale = np.sqrt(terms) * max(1.0, np.abs(right).max())
        np.testing.assert_allclose(found, right, rtol=0, atol=4 * (2 + mean) * EPS * scale)


@pytest.mark.parametrize("mean", [0.5, 30])
def test_many_blocks_give_what_one_block_gives(mean, images, monkeypatch):
    x, g = images(mean, dtype=np.float64), images(seed=1, dtype=np.float64)
    whole = value_and_gradients(x, g)
    monkeypatch.setattr(norms, "BLOCK", 7 * 16 * 24)
    for one, many in zip(whole, value_and_gradients(x, g), strict=True):
        np.testing.assert_allclose(many, one, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("mean", [0.5, 30])
def test_the_bits_do_not_depend_on_the_number_of_threads(mean, images, monkeypatch):
    monkeypatch.setattr(norms, "BLOCK", 7 * 16 * 24)
    x, g, found = images(mean), images(seed=1), []
    before = mg.get_num_threads()
    try:
        for threads in (1, 2, 3):
            mg.set_num_threads(threads)
            found.append([a.tobytes() for a in value_and_gradients(x, g)])
    finally:
        mg.set_num_threads(before)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_a_channel_that_is_constant_is_its_bias_and_others_are_as_they_were(constant, images):
    x, g = images(), images(seed=1)
    others = value_and_gradients(x, g)
    x[:, 5] = constant
    y, gx, gw, gb = value_and_gradients(x, g)
    np.testing.assert_allclose(y[:, 5], np.linspace(-1, 1, 24)[5], atol=1e-5)
    assert np.isfinite(gx).all() and np.isfinite(gw).all()
    for found, before in zip((y, gx, gw, gb), others, strict=True):
        axis = 1 if found.ndim > 1 else 0
        one, other = (np.delete(a, 5, axis) for a in (found, before))
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_what_is_not_finite_stays_in_its_channel(images):
    x, g = images(), images(seed=1)
    x[3, 2, 4, 5], x[1, 7, 0, 0] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        found = value_and_gradients(x, g)
    for a in found[:3]:
        channels = np.moveaxis(a, 1, 0).reshape(24, -1) if a.ndim > 1 else a.reshape(24, 1)
        lost = np.isnan(channels).any(1)
        assert lost[[2, 7]].all() and lost.sum() == 2
    assert np.isfinite(found[3]).all()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("above", [True, False])
def test_an_infinite_cotangent_makes_the_weights_gradient_infinite_and_not_nan(sign, above, images):
    x, g = images(0.5), images(seed=1)
    channel, mean = x[:, 3], x[:, 3].mean()
    assert mean > 0  # Σ g x − mean Σ g would be ∞ − ∞
    suitable = channel > mean if above else (channel > 0) & (channel < mean)
    place = tuple(np.argwhere(suitable)[0])
    g[:, 3][place] = sign * np.inf
    with np.errstate(invalid="ignore"):
        _, _, gw, gb = value_and_gradients(x, g)
    assert gw[3] == (sign if above else -sign) * np.inf and gb[3] == sign * np.inf
    assert np.isfinite(np.delete(gw, 3)).all() and np.isfinite(np.delete(gb, 3)).all()


@pytest.mark.parametrize("mean", [0.5, 30])
def test_a_norm_of_groups_takes_the_same_ways(mean, images):
    x, g = images(mean, dtype=np.float64), images(seed=1, dtype=np.float64)
    for found, right in zip(value_and_gradients(x, g, group_norm), exact(x, g, 4), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-10, atol=1e-10)


def test_large_images_in_rows_are_normalised_so_and_small_ones_are_not():
    x = np.ones((16, 64, 16, 16), np.float32)
    assert norms.images(x, (0, 2, 3), (64, 1, 1)) is not None
    assert norms.images(x[:4].copy(), (0, 2, 3), (64, 1, 1)) is None
    assert norms.images(x, (0, 2, 3), (64, 16, 16)) is None  # a weight for each place


@pytest.mark.parametrize("scale, eps", [(1e15, 1e-5), (1e-15, 0.0)])
@pytest.mark.parametrize("turn", [np.asarray, places_first], ids=["rows", "places first"])
def test_gradients_of_huge_and_tiny_images_are_in_range(scale, eps, turn):
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((2, 8, 16, 64, 32)).astype(np.float32)
    x = turn(x * np.float32(scale))
    found, right = (mg.tensor(x.astype(dtype), requires_grad=True) for dtype in ("f4", "f8"))
    for leaf in (found, right):
        mg.batch_norm(leaf, training=True, eps=eps).backward(g.astype(leaf.dtype))
    np.testing.assert_allclose(
        found.grad.numpy() * scale, right.grad.numpy() * scale, rtol=1e-4, atol=1e-5
    )
