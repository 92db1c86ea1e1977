"""Fractional max-pooling: PyTorch's windows for the same numbers; drawing, gradients, vmap."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.func import grad, vmap
from minigrad.testing import gradcheck, gradgradcheck

SIZES = {2: (13, 17), 3: (9, 11, 14)}
rng = np.random.default_rng(0)


def pool(dims):
    return getattr(mg, f"fractional_max_pool{dims}d")


def forms(dims, count):
    """Kernels and sizes that PyTorch takes: in 3-d it wants one place more than is needed."""
    for _ in range(count):
        kernel = tuple(int(k) for k in rng.integers(1, 4, dims))
        ends = [n - k + (dims == 2) for n, k in zip(SIZES[dims], kernel, strict=True)]
        yield kernel, tuple(int(rng.integers(1, end + 1)) for end in ends)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dims", [2, 3])
def test_windows_places_and_gradients_are_pytorchs_for_its_numbers(dims, dtype):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    theirs = getattr(torch.nn.functional, f"fractional_max_pool{dims}d")
    for kernel, size in forms(dims, 20):
        data = rng.standard_normal((2, 3, *SIZES[dims])).astype(dtype)
        samples = rng.random((2, 3, dims)).astype(dtype)
        x, x_torch = mg.tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)
        y, places = pool(dims)(x, kernel, size, None, True, samples)
        z, expected = theirs(
            x_torch, kernel, size, return_indices=True, _random_samples=torch.tensor(samples)
        )
        y.sum().backward()
        z.sum().backward()
        np.testing.assert_array_equal(y.numpy(), z.detach().numpy())
        np.testing.assert_array_equal(places.numpy(), expected.numpy())
        np.testing.assert_array_equal(x.grad.numpy(), x_torch.grad.numpy())
        assert places.dtype == np.int64 and not places.requires_grad


def test_places_of_ties_are_the_first_as_in_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x, samples = np.zeros((1, 1, 7, 6)), np.array([[[0.3, 0.8]]])
    _, places = mg.fractional_max_pool2d(x, 2, 3, None, True, samples)
    _, expected = torch.nn.functional.fractional_max_pool2d(
        torch.tensor(x), 2, 3, return_indices=True, _random_samples=torch.tensor(samples)
    )
    np.testing.assert_array_equal(places, expected.numpy())


def test_a_ratio_asks_for_so_much_of_each_axis_rounded_down():
    x = mg.tensor(rng.standard_normal((2, 3, 13, 17)))
    assert mg.fractional_max_pool2d(x, 2, output_ratio=0.5).shape == (2, 3, 6, 8)
    assert mg.fractional_max_pool2d(x, 2, output_ratio=(0.7, 0.1)).shape == (2, 3, 9, 1)


def test_drawn_windows_repeat_with_the_seed_and_differ_between_planes():
    x = np.broadcast_to(np.arange(40.0), (50, 1, 40))
    results = []
    for seed in (1, 1, 2):
        mg.manual_seed(seed)
        results.append(np.asarray(mg.fractional_max_pool2d(x, (1, 2), (1, 23))))
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0] != results[2]).any()
    assert len(np.unique(results[0], axis=0)) > 10


def test_drawn_windows_begin_at_the_start_and_finish_at_the_end():
    x = mg.tensor(np.broadcast_to(np.arange(40.0), (50, 1, 40)))
    _, places = mg.fractional_max_pool2d(x, (1, 1), (1, 23), return_indices=True)
    places = places.numpy()[:, 0]
    steps = np.diff(places, axis=-1)
    assert (places[:, 0] == 0).all() and (places[:, -1] == 39).all()
    assert set(np.unique(steps[:, :-1])) == {1, 2}  # 39/22 lies between them


def test_derivatives_agree_with_differences():
    x = rng.permutation(60).reshape(2, 5, 6) * 0.1  # no two nearly tie
    samples = rng.random((2, 2))
    f = lambda x: mg.fractional_max_pool2d(x, 2, (3, 4), _random_samples=samples)
    assert gradcheck(f, x) and gradgradcheck(f, x)


def test_indices_lead_back_through_unpooling():
    x = mg.tensor(rng.standard_normal((2, 3, 8, 8)))
    y, places = mg.fractional_max_pool2d(x, 2, 4, return_indices=True)
    back = mg.max_unpool2d(y, places, 2, output_size=(8, 8)).numpy()
    np.testing.assert_array_equal(back[back != 0], x.numpy()[back != 0])
    assert set(y.numpy().ravel()) == set(back[back != 0])


def test_a_nan_is_the_maximum_of_its_windows():
    x = np.zeros((1, 3, 3))
    x[0, 1, 1] = np.nan
    y, places = mg.fractional_max_pool2d(x, 2, 2, None, True, np.zeros((1, 2)))
    assert np.isnan(y).all() and (places == 4).all()


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_under_vmap_examples_share_their_windows_or_have_their_own(randomness):
    x = np.broadcast_to(np.arange(40.0), (30, 1, 1, 40))
    mapped = vmap(lambda x: mg.fractional_max_pool2d(x, 1, (1, 23)), randomness=randomness)
    y = mapped(mg.tensor(x)).numpy()
    assert (len(np.unique(y, axis=0)) == 1) == (randomness == "same")


def test_gradients_under_vmap_are_those_of_each_example():
    x, samples = rng.standard_normal((4, 2, 5, 6)), rng.random((2, 2))
    f = grad(lambda x: (mg.fractional_max_pool2d(x, 2, 3, _random_samples=samples) ** 2).sum())
    each = np.stack([f(mg.tensor(one)).numpy() for one in x])
    np.testing.assert_allclose(vmap(f)(mg.tensor(x)).numpy(), each)


@pytest.mark.parametrize(("dims", "shape"), [(2, (2, 3, 9, 8)), (3, (1, 2, 7, 6, 8))])
def test_the_layers_are_the_function(dims, shape):
    x, samples = mg.tensor(rng.standard_normal(shape)), rng.random((*shape[:2], dims))
    layer = getattr(nn, f"FractionalMaxPool{dims}d")(
        2, output_ratio=0.5, return_indices=True, _random_samples=samples
    )
    expected = pool(dims)(x, 2, None, 0.5, True, samples)
    for ours, theirs in zip(layer(x), expected, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    assert "output_ratio=0.5" in repr(layer)


def test_a_layer_needs_one_of_size_and_ratio():
    for options in ({}, {"output_size": 2, "output_ratio": 0.5}):
        with pytest.raises(ValueError, match="either output_size or output_ratio"):
            nn.FractionalMaxPool2d(2, **options)


@pytest.mark.layer("courtesy")
def test_its_name_in_nn_functional_is_the_same_function():
    in_functional = nn.functional.fractional_max_pool2d
    assert in_functional.__wrapped__ is mg.fractional_max_pool2d.__wrapped__
