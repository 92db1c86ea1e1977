"""Convolutions of images places first: any windows give what they give in rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minigrad as mg
from minigrad.backends import image_layout
from minigrad.backends.image_layout import places_first
from minigrad.fast.conv import im2col_hwnc, im2row, pointwise
from tests.backends.test_image_layout import rand


@st.composite
def convolutions(draw):
    """(x, w, b, options) with one to three spatial axes."""
    dims = draw(st.integers(1, 3))
    kernel = [draw(st.integers(1, 3)) for _ in range(dims)]
    options = {
        "stride": tuple(draw(st.integers(1, 3)) for _ in range(dims)),
        "dilation": tuple(draw(st.integers(1, 2)) for _ in range(dims)),
        "padding": tuple((draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(dims)),
    }
    size = [draw(st.integers(5, 7)) for _ in range(dims)]
    n, c, o = draw(st.integers(2, 20)), draw(st.integers(2, 6)), draw(st.integers(1, 6))
    shapes = (n, c, *size), (o, c, *kernel), (o,)
    return (*(rand(*s, seed=k, dtype=np.float64) for k, s in enumerate(shapes)), options)


@given(convolutions(), st.booleans())
@settings(max_examples=150)
def test_any_windows_give_what_they_give_in_rows(case, first):
    x, w, b, options = case
    fn = {3: mg.conv1d, 4: mg.conv2d, 5: mg.conv3d}[x.ndim]

    def gradients(x):
        leaves = [mg.tensor(a, requires_grad=True) for a in (x, w, b)]
        y = fn(*leaves, **options)
        g = rand(*y.shape, seed=9, dtype=np.float64)
        return y.numpy(), *[a.numpy() for a in mg.grad(y, leaves, mg.tensor(g))]

    exact = gradients(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_layout, "RUN", 1)
        patch.setattr(im2row, "LEAST_IMAGES", 1 if first else 1 << 30)
        patch.setattr(im2row, "BLOCK_BYTES", 1)
        patch.setattr(im2col_hwnc, "BLOCK_BYTES", 1)
        patch.setattr(pointwise, "BLOCK", 1)
        for a, e in zip(gradients(places_first(x)), exact, strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-10, atol=1e-10)
