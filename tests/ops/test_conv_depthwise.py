"""A kernel of its own for every channel: what the convolution of a block-diagonal weight gives."""

import numpy as np
import pytest

import minigrad as mg

rng = np.random.default_rng(0)
CONVOLUTIONS = [mg.conv1d, mg.conv2d, mg.conv3d]
SIZES = [(9,), (9, 8), (6, 7, 5)]


def dense(w):
    """(C, 1, ...) as (C, C, ...) with zeros between channels."""
    return w * mg.reshape(mg.eye(w.shape[0]), shape=(*w.shape[:1], -1, *(1,) * (w.ndim - 2)))


def derivatives(op, xs, g):
    xs = [mg.tensor(x, requires_grad=True) for x in xs]
    y = op(*xs)
    first = mg.grad(y, xs, mg.tensor(g), create_graph=True)
    squares = sum(mg.sum(c * c) for c in first)
    second = mg.grad(squares, xs[:2], mg.ones_like(squares))
    return [t.detach().numpy() for t in (y, *first, *second)]


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [0, 1, [(0, 2)]])
@pytest.mark.parametrize("dilation", [1, 2])
def test_depthwise_equals_a_dense_convolution(dims, stride, padding, dilation):
    padding = padding * dims if isinstance(padding, list) else padding
    conv, how = CONVOLUTIONS[dims - 1], (stride, padding, dilation)
    xs = [rng.standard_normal(s) for s in ((5, 3, *SIZES[dims - 1]), (3, 1, *(2,) * dims), (3,))]
    g = rng.standard_normal(conv(*xs, *how, 3).shape)
    ours = derivatives(lambda x, w, b: conv(x, w, b, *how, 3), xs, g)
    theirs = derivatives(lambda x, w, b: conv(x, dense(w), b, *how, 1), xs, g)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_complex_images_and_kernels_have_conjugate_gradients():
    xs = [rng.standard_normal(s) + 1j * rng.standard_normal(s) for s in ((2, 3, 6), (3, 1, 2))]
    g = rng.standard_normal((2, 3, 5)) + 1j * rng.standard_normal((2, 3, 5))
    for a, b in zip(
        derivatives(lambda x, w: mg.conv1d(x, w, None, 1, 0, 1, 3), xs, g)[:3],
        derivatives(lambda x, w: mg.conv1d(x, dense(w)), xs, g)[:3],
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_a_batch_of_no_image_has_gradients_of_its_shape():
    x, w = mg.zeros((0, 3, 5), requires_grad=True), mg.ones((3, 1, 2), requires_grad=True)
    y = mg.conv1d(x, w, None, 1, 0, 1, 3)
    y.backward(np.zeros((0, 3, 4)))
    assert x.grad.shape == (0, 3, 5)
    np.testing.assert_array_equal(w.grad.numpy(), np.zeros((3, 1, 2)))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("stride, padding, dilation", [(1, 0, 1), (1, 1, 2), (2, 1, 1)])
def test_the_weights_gradient_has_what_is_not_finite_where_a_window_sees_it(
    value, stride, padding, dilation
):
    # in the last column, where the run of one row of an image ends and the next begins
    x, w = rng.standard_normal((4, 3, 6, 7)), mg.ones((3, 1, 3, 3), requires_grad=True)
    x[1, 2, 3, -1] = value
    y = mg.conv2d(x, w, None, stride, padding, dilation, 3)
    y.backward(rng.uniform(1, 2, y.shape))
    seen = mg.ones((3, 1, 3, 3), requires_grad=True)
    mg.conv2d(~np.isfinite(x) * 1.0, seen, None, stride, padding, dilation, 3).sum().backward()
    np.testing.assert_array_equal(np.isfinite(w.grad.numpy()), seen.grad.numpy() == 0)
