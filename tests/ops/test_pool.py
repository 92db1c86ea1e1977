"""Pooling: against PyTorch over its parameters, ties, second order."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad.testing import gradcheck, gradgradcheck

pytestmark = pytest.mark.promise(
    "NaNs are the extremum of their slice, window or pair, and share its gradient (K12)"
)

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


@given(st.integers(0, 99), st.sampled_from(["float32", "float64", "float16"]))
def test_nans_are_the_maximum_of_their_windows_and_share_its_gradient_as_in_max(seed, dtype):
    rng = np.random.default_rng(seed)
    k, stride, pad, dilation = (int(rng.integers(1, n)) for n in (5, 4, 3, 3))
    pad = min(pad, k // 2)
    x = rng.choice([0.0, 1.0, -np.inf, np.inf, np.nan], 17, p=[0.3, 0.3, 0.1, 0.1, 0.2])
    g = rng.integers(1, 9, mg.max_pool1d(x, k, stride, pad, dilation).shape) * 0.25
    a, b = leaf(x.astype(dtype)), leaf(x.astype(dtype))
    y = mg.max_pool1d(a, k, stride, pad, dilation)
    found = mg.grad(y, a, g.astype(dtype)).numpy()
    windows = [
        [j for t in range(k) if 0 <= (j := i * stride - pad + t * dilation) < 17]
        for i in range(len(g))
    ]
    expected = mg.stack([mg.max(b[w]) for w in windows])
    np.testing.assert_array_equal(y.numpy(), expected.numpy())
    np.testing.assert_allclose(found, mg.grad(expected, b, g.astype(dtype)).numpy(), rtol=2e-3)


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


# -- adaptive ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, (3, 2), (1, None)])
@pytest.mark.parametrize("name", ["max", "avg"])
def test_adaptive_pooling_into_tiles_is_pooling(name, size):
    x = rand(2, 3, 6, 8)
    asked = (size, size) if isinstance(size, int) else size
    kernel = tuple(n // (m or n) for n, m in zip(x.shape[2:], asked, strict=True))
    y = getattr(mg, f"adaptive_{name}_pool2d")(mg.tensor(x), size).numpy()
    np.testing.assert_allclose(y, getattr(mg, f"{name}_pool2d")(x, kernel), rtol=1e-12)


# -- what has an order -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(6, 6), (7, 5)])
def test_truth_values_have_a_maximum_as_in_numpy(size):
    x = rand(1, 2, *size) > 0
    for f in (
        lambda x: mg.max_pool2d(x, 3, 1, 1),
        lambda x: mg.max_pool2d(x, size),
        lambda x: mg.adaptive_max_pool2d(x, 4),
        lambda x: mg.fractional_max_pool2d(x, 2, 3, _random_samples=np.full((1, 2, 2), 0.5)),
    ):
        assert f(x).dtype == bool
        np.testing.assert_array_equal(f(x), f(x * 1.0) > 0)
    indices = mg.max_pool2d(x, 3, 1, 1, return_indices=True)[1]
    np.testing.assert_array_equal(indices, mg.max_pool2d(x * 1, 3, 1, 1, return_indices=True)[1])


@pytest.mark.parametrize("name", ["max_pool2d", "adaptive_max_pool2d", "fractional_max_pool2d"])
def test_the_maximum_of_complex_numbers_is_refused_by_name(name):
    with pytest.raises(TypeError, match=f"^{name}: x must be real"):
        getattr(mg, name)(mg.tensor(np.ones((1, 1, 7, 7), complex)), 2, 3)


def test_the_gradient_of_a_maximum_of_long_doubles_goes_to_where_it_was():
    x = mg.tensor([[[[1, 5, 2, 2], [3, 4, 2, 0]]]], dtype=np.longdouble, requires_grad=True)
    mg.max_pool2d(x, 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy()[0, 0], [[0, 1, 1 / 3, 1 / 3], [0, 0, 1 / 3, 0]])
