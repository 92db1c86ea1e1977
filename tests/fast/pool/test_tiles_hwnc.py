"""Max pooling by tiles of images places first: the gradient is that of images in rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad.backends.image_layout import lies_places_first, places_first
from minigrad.fast.pool import forms, tiles_hwnc
from minigrad.ops.windows import windows

POOLS = {1: mg.max_pool1d, 2: mg.max_pool2d, 3: mg.max_pool3d}


@pytest.fixture
def calls(monkeypatch):
    counted = []
    shares = tiles_hwnc.shares
    monkeypatch.setattr(tiles_hwnc, "shares", lambda *args: counted.append(1) or shares(*args))
    return counted


def gradient(x, g, kernel):
    leaf = mg.tensor(x, requires_grad=True)
    y = POOLS[len(kernel)](leaf, kernel)
    y.backward(mg.tensor(g))
    return leaf.grad.numpy()


@st.composite
def tiled(draw):
    """(images, a cotangent, kernel): whole numbers, so that many tie, some NaN and infinite."""
    kernel = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    count = [draw(st.integers(1, 4)) for _ in kernel]
    n, channels = draw(st.integers(1, 3)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    size = [k * m for k, m in zip(kernel, count, strict=True)]
    x = rng.choice(
        [0, 1, 2, -np.inf, np.inf, np.nan], (n, channels, *size), p=[0.3] * 3 + [1 / 30] * 3
    )
    g = rng.choice([1, -3, 0, np.inf, np.nan], (n, channels, *count))
    return x.astype(dtype), g.astype(dtype), kernel


@given(tiled(), st.sampled_from([1, 1 << 19]))
def test_ties_and_nans_share_as_in_rows(case, block):
    x, g, kernel = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "IMAGES", block)
        found = gradient(places_first(x), places_first(g), kernel)
    np.testing.assert_array_equal(found, gradient(x, g, kernel))


def test_it_is_taken_for_images_places_first_alone(calls):
    x, g = np.zeros((2, 3, 4, 4), np.float32), np.ones((2, 3, 2, 2), np.float32)
    gradient(x, g, (2, 2))
    assert not calls
    gradient(places_first(x), g, (2, 2))
    assert calls


@pytest.mark.parametrize(
    "how",
    [
        windows("pool", (2, 2), 1, 0),
        windows("pool", (3, 3), 3, 1),
        windows("pool", (3, 2), (3, 2), 0),  # 8 is no multiple of 3
    ],
)
def test_windows_that_do_not_tile_the_image_are_left_alone(how):
    x = places_first(np.zeros((2, 3, 8, 8)))
    assert lies_places_first(x) and not tiles_hwnc.suits(how, x, x)
    assert tiles_hwnc.suits(windows("pool", (2, 2), 2, 0), x, x)
