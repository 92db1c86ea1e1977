"""Pooling: against PyTorch over its parameters, ties, second order."""

import itertools

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck, gradgradcheck

SIZES = {1: (9,), 2: (9, 8), 3: (6, 5, 7)}


def rand(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def leaf(x):
    return mg.tensor(x, requires_grad=True)


def agree(ours, theirs, x, options):
    torch = pytest.importorskip("torch")
    xm, xt = leaf(x), torch.tensor(x, requires_grad=True)
    y, yt = ours(xm, **options), theirs(xt, **options)
    np.testing.assert_allclose(y.numpy(), yt.detach().numpy(), atol=1e-12, err_msg=f"{options}")
    g = rand(*y.shape, seed=1)
    (expected,) = torch.autograd.grad(yt, xt, torch.tensor(g))
    np.testing.assert_allclose(
        mg.grad(y, xm, g).numpy(), expected.numpy(), atol=1e-12, err_msg=f"{options}"
    )


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_max_pool_is_pytorchs(dims):
    torch = pytest.importorskip("torch")
    ours, theirs = (getattr(m, f"max_pool{dims}d") for m in (mg, torch.nn.functional))
    x = rand(2, 3, *SIZES[dims])
    for k, s, p, d, c in itertools.product((2, 3), (None, 1, 2), (0, 1), (1, 2), (False, True)):
        options = {"kernel_size": k, "stride": s, "padding": p, "dilation": d, "ceil_mode": c}
        agree(ours, theirs, x, options)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_avg_pool_is_pytorchs(dims):
    torch = pytest.importorskip("torch")
    ours, theirs = (getattr(m, f"avg_pool{dims}d") for m in (mg, torch.nn.functional))
    x = rand(2, 3, *SIZES[dims])
    for k, s, p, c, i in itertools.product((2, 3), (None, 1, 2), (0, 1), *[(False, True)] * 2):
        options = {"kernel_size": k, "stride": s, "padding": p, "ceil_mode": c}
        agree(ours, theirs, x, {**options, "count_include_pad": i})


def test_ties_of_a_window_share_its_gradient():
    x = leaf(np.array([[1.0, 1.0], [1.0, 0.0]]))
    mg.max_pool2d(x, 2).backward(np.array([[3.0]]))
    np.testing.assert_allclose(x.grad.numpy(), [[1.0, 1.0], [1.0, 0.0]], rtol=1e-15)


def test_more_ties_than_a_byte_counts_share_a_gradient_too():
    x = leaf(np.zeros((1, 16, 16)))
    mg.max_pool2d(x, 16).backward(np.array([[[1.0]]]))
    np.testing.assert_array_equal(x.grad.numpy(), np.full((1, 16, 16), 1 / 256))


def test_an_infinite_gradient_reaches_only_the_maximum():
    x = leaf(np.array([[2.0, 1.0]]))
    mg.max_pool2d(x, (1, 2)).backward(np.array([[np.inf]]))
    np.testing.assert_array_equal(x.grad.numpy(), [[np.inf, 0.0]])


def test_a_nan_is_the_maximum_and_has_no_gradient():
    x = leaf(np.array([[np.nan, 1.0]]))
    y = mg.max_pool2d(x, (1, 2))
    y.backward(np.ones((1, 1)))
    assert np.isnan(y.numpy()).all()
    np.testing.assert_array_equal(x.grad.numpy(), [[0.0, 0.0]])


def test_integers_are_pooled():
    np.testing.assert_array_equal(mg.max_pool2d(-np.ones((2, 2), int), 2, padding=1), -1)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: mg.max_pool2d(x, 2),
        lambda x: mg.max_pool2d(x, 3, 2, 1),
        lambda x: mg.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    ],
    ids=["windows that touch", "windows that overlap", "mean"],
)
def test_second_order_agrees_with_finite_differences(fn):
    x = np.random.default_rng(3).permutation(24).reshape(1, 4, 6) * 0.3
    assert gradcheck(fn, (x,))
    assert gradgradcheck(lambda x: fn(x * x), (x,))


def test_an_overlapping_float16_mean_adds_up_in_float32():
    y = mg.avg_pool1d(mg.tensor(np.full(5000, 16, np.float16)), 4999, 1)
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y.numpy(), [16.0, 16.0])


def test_with_ceil_mode_a_last_window_may_hang_over_an_image_smaller_than_itself():
    x = mg.tensor([[[3.0, 5.0]]], requires_grad=True)
    y = mg.max_pool1d(x, 3, 2, ceil_mode=True)
    assert y.tolist() == [[[5]]] and mg.avg_pool1d(x, 3, 2, ceil_mode=True).tolist() == [[[4]]]
    assert mg.grad(y.sum(), x).tolist() == [[[0, 1]]]
    with pytest.raises(ValueError, match="larger than the padded input"):
        mg.max_pool1d(x, 3, 2)
