"""Places of maxima, unpooling, adaptive maxima, pooling by p-norms: PyTorch's, ties, vmap."""

import itertools

import numpy as np
import pytest

import minigrad as mg
from minigrad.func import grad, vmap
from minigrad.testing import gradcheck, gradgradcheck

SIZES = {1: (9,), 2: (9, 8), 3: (6, 5, 7)}
rng = np.random.default_rng(0)


def functional():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    return torch, torch.nn.functional


def with_ties(dims):
    return np.round(rng.standard_normal((2, 3, *SIZES[dims])))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_the_places_of_maxima_are_pytorchs_also_in_ties(dims):
    torch, f = functional()
    ours, theirs = (getattr(m, f"max_pool{dims}d") for m in (mg, f))
    x = with_ties(dims)
    for k, s, p, d, c in itertools.product((2, 3), (None, 1, 2), (0, 1), (1, 2), (False, True)):
        options = {"kernel_size": k, "stride": s, "padding": p, "dilation": d, "ceil_mode": c}
        y, places = ours(x, **options, return_indices=True)
        z, expected = theirs(torch.tensor(x), **options, return_indices=True)
        np.testing.assert_array_equal(y, z.numpy())
        np.testing.assert_array_equal(places, expected.numpy(), err_msg=f"{options}")
        assert places.dtype == np.int64


def test_the_maxima_keep_their_gradient_when_their_places_are_asked_for():
    x = mg.tensor(rng.standard_normal((1, 4, 4)), requires_grad=True)
    y, places = mg.max_pool2d(x, 2, return_indices=True)
    assert not places.requires_grad
    y.backward(np.ones(y.shape))
    picked = np.zeros(16)
    picked[places.numpy().ravel()] = 1
    np.testing.assert_array_equal(x.grad.numpy().ravel(), picked)


def test_a_window_of_minus_infinity_at_the_border_names_a_place_of_x():
    x = np.full((1, 3, 3), -np.inf)
    _, places = mg.max_pool2d(x, 2, 2, 1, return_indices=True)
    np.testing.assert_array_equal(places[0], [[0, 1], [3, 4]])


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_unpooling_is_pytorchs_and_puts_maxima_back(dims):
    torch, f = functional()
    x = rng.standard_normal((2, 3, *SIZES[dims]))
    for k, s in ((2, None), (3, 3), (3, 2)):
        y, places = getattr(mg, f"max_pool{dims}d")(x, k, s, return_indices=True)
        kind = f"max_unpool{dims}d"
        for size in (None, SIZES[dims]) if (k, s) != (3, 2) else (SIZES[dims],):
            expected = None
            try:
                expected = getattr(f, kind)(
                    torch.tensor(y), torch.tensor(places), k, s, output_size=size
                )
            except (ValueError, RuntimeError):
                with pytest.raises(ValueError, match="output_size|places"):
                    getattr(mg, kind)(y, places, k, s, output_size=size)
            if expected is not None:
                found = getattr(mg, kind)(y, places, k, s, output_size=size)
                np.testing.assert_array_equal(found, expected.numpy())


def test_unpooling_gathers_its_gradient():
    x = rng.standard_normal((2, 4, 4))
    y, places = mg.max_pool2d(x, 2, return_indices=True)
    unpool = lambda y: mg.max_unpool2d(y, places, 2)
    assert gradcheck(unpool, (y,))
    leaf, g = mg.tensor(y, requires_grad=True), rng.standard_normal((2, 4, 4))
    found = mg.grad(unpool(leaf), leaf, g).numpy()
    np.testing.assert_array_equal(found.ravel(), np.take_along_axis(
        g.reshape(2, 16), places.reshape(2, 4), 1).ravel())  # fmt: skip


@pytest.mark.parametrize("size", [3, (2, 5), (9, 8), (None, 4), (12, 3)])
def test_adaptive_maxima_are_pytorchs(size):
    torch, f = functional()
    x = rng.standard_normal((2, 3, *SIZES[2]))
    leaf, t = mg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y, places = mg.adaptive_max_pool2d(leaf, size, return_indices=True)
    z, expected = f.adaptive_max_pool2d(t, size, return_indices=True)
    np.testing.assert_array_equal(y.numpy(), z.detach().numpy())
    np.testing.assert_array_equal(places.numpy(), expected.numpy())
    g = rng.standard_normal(y.shape)
    y.backward(g)
    z.backward(torch.tensor(g))
    np.testing.assert_allclose(leaf.grad.numpy(), t.grad.numpy(), atol=1e-12)


def test_adaptive_pooling_in_one_and_three_dimensions_is_pytorchs():
    torch, f = functional()
    for dims, size in ((1, 4), (3, (2, 3, 5))):
        x = rng.standard_normal((2, 3, *SIZES[dims]))
        for name in (f"adaptive_max_pool{dims}d", f"adaptive_avg_pool{dims}d"):
            expected = getattr(f, name)(torch.tensor(x), size).numpy()
            np.testing.assert_allclose(getattr(mg, name)(x, size), expected, rtol=1e-12)


def test_ties_of_an_adaptive_window_share_equally():
    x = mg.tensor(np.zeros((3, 3)), requires_grad=True)
    mg.adaptive_max_pool2d(x, 2).backward(np.ones((2, 2)))
    np.testing.assert_allclose(x.grad.numpy(), np.outer([1, 2, 1], [1, 2, 1]) / 4)


@pytest.mark.parametrize("p", [1, 2, 4.0])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pooling_by_norms_is_pytorchs(dims, p):
    torch, f = functional()
    ours, theirs = (getattr(m, f"lp_pool{dims}d") for m in (mg, f))
    x = rng.standard_normal((2, 3, *SIZES[dims]))
    for k, s, c in itertools.product((2, 3), (None, 1), (False, True)):
        leaf, t = mg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        y, z = ours(leaf, p, k, s, c), theirs(t, p, k, s, c)
        np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=1e-10)
        g = rng.standard_normal(y.shape)
        y.backward(g)
        z.backward(torch.tensor(g))
        np.testing.assert_allclose(leaf.grad.numpy(), t.grad.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("norm_type", [0, -1, np.inf, np.nan])
def test_norm_pooling_needs_a_positive_finite_norm(norm_type):
    with pytest.raises(ValueError, match=r"must be positive and finite, got .*max_pool2d\(mg.abs"):
        mg.lp_pool2d(mg.ones((1, 4, 4)), norm_type, 2)


def test_an_error_of_pooling_by_norms_is_its_own():
    with pytest.raises(ValueError, match=r"^lp_pool1d.*the kernel \(9,\)"):
        mg.lp_pool1d(mg.ones((2, 5)), 2, 9)


def test_norms_of_large_float16_windows_do_not_overflow():
    x = mg.tensor(np.full((1, 4, 4), 300.0), np.float16, requires_grad=True)
    y = mg.lp_pool2d(x, 2, 2)
    y.backward(np.ones(y.shape, np.float16))
    np.testing.assert_array_equal(y.numpy(), np.full((1, 2, 2), 600, np.float16))
    np.testing.assert_allclose(x.grad.numpy(), np.full((1, 4, 4), 0.5), rtol=1e-3)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: mg.adaptive_max_pool2d(x, 3),
        lambda x: mg.lp_pool2d(mg.abs(x) + 1, 3, 2),
        lambda x: mg.max_unpool2d(*mg.max_pool2d(x, 2, return_indices=True), 2),
    ],
    ids=["adaptive", "p-norm", "unpool"],
)
@pytest.mark.filterwarnings("error")
def test_second_order_and_vmap(function):
    xs = rng.standard_normal((3, 2, 4, 6))
    assert gradcheck(function, (xs[0],)) and gradgradcheck(function, (xs[0],))
    f = grad(lambda x: mg.sum(function(x) ** 2))
    mapped = vmap(f)(xs).numpy()
    for x, g in zip(xs, mapped, strict=True):
        np.testing.assert_allclose(g, f(x).numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "n"), [(2, 2, 1, 12), (3, 2, 1, 11), (4, 3, 2, 12)]
)
def test_the_size_that_unpooling_goes_back_to_leaves_the_padding_out(kernel, stride, padding, n):
    torch = pytest.importorskip("torch")
    x = np.arange(1.0, 2 * n + 1).reshape(1, 2, n)
    functional = torch.nn.functional
    values, places = functional.max_pool1d(
        torch.tensor(x), kernel, stride, padding, return_indices=True
    )
    expected = functional.max_unpool1d(values, places, kernel, stride, padding)
    found = mg.max_unpool1d(
        mg.tensor(values.numpy()), places.numpy(), kernel, stride=stride, padding=padding
    )
    np.testing.assert_array_equal(found.data, expected.numpy())


def test_a_size_that_is_no_size_is_refused_by_name():
    x, places = np.ones((1, 1, 2, 2)), np.zeros((1, 1, 2, 2), int)
    with pytest.raises(ValueError, match=r"max_unpool2d: padding .* leaves nothing of the result"):
        mg.max_unpool2d(x, places, 2, padding=2)
    for size in ((4.0, 4.0), (4,), -4):
        with pytest.raises(ValueError, match="max_unpool2d: output_size must be an int ≥ 1"):
            mg.max_unpool2d(x, places, 2, output_size=size)
    whole = mg.max_unpool2d(x, places, 2, output_size=(1, 1, 5, 5))
    np.testing.assert_array_equal(mg.max_unpool2d(x, places, 2, output_size=5), whole)
