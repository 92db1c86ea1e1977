"""Grids, reads at their places and interpolation: PyTorch's values and gradients."""

import itertools

import numpy as np
import pytest

import minigrad as mg
import minigrad.testing

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F, T = mg.nn.functional, torch.nn.functional
RNG = np.random.default_rng(0)
IMAGES, VOLUMES = RNG.standard_normal((2, 3, 5, 7)), RNG.standard_normal((1, 2, 3, 4, 3))
PLACES = {4: RNG.uniform(-1.4, 1.4, (2, 4, 6, 2)), 5: RNG.uniform(-1.4, 1.4, (1, 2, 3, 4, 3))}


def agree(name, *arrays, **options):
    ours = [mg.tensor(x, requires_grad=True) for x in arrays]
    theirs = [torch.tensor(x, requires_grad=True) for x in arrays]
    y, expected = getattr(F, name)(*ours, **options), getattr(T, name)(*theirs, **options)
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), atol=1e-11)
    g = RNG.standard_normal(y.shape)
    grads = torch.autograd.grad(expected, theirs, torch.tensor(g))
    for gx, e in zip(mg.grad(y, ours, g, allow_unused=True), grads, strict=True):
        np.testing.assert_allclose(0 if gx is None else gx.numpy(), e.numpy(), atol=1e-10)


MODES = [("bilinear", 4), ("nearest", 4), ("bicubic", 4), ("bilinear", 5), ("nearest", 5)]


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize(("mode", "ndim"), MODES)
def test_grid_sample_is_pytorchs(mode, ndim, padding_mode, align_corners):
    x = IMAGES if ndim == 4 else VOLUMES
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    agree("grid_sample", x, PLACES[ndim], **options)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 1, 4, 2, 3)])
def test_affine_grid_is_pytorchs(size, align_corners):
    d = len(size) - 2
    agree("affine_grid", RNG.standard_normal((2, d, d + 1)), size=size, align_corners=align_corners)


@pytest.mark.parametrize("align_corners", [False, True])
def test_the_identity_reads_every_entry(align_corners):
    theta = mg.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]] * 2)
    grid = F.affine_grid(theta, IMAGES.shape, align_corners)
    y = F.grid_sample(IMAGES, grid, align_corners=align_corners)
    np.testing.assert_allclose(y.numpy(), IMAGES, atol=1e-12)


WAYS = [
    {"size": (8, 10)}, {"size": (3, 4)}, {"scale_factor": 2.0}, {"scale_factor": 1.5},
    {"scale_factor": (0.6, 1.3)}, {"scale_factor": 1.5, "recompute_scale_factor": True},
]  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "way"),
    list(itertools.product(["nearest", "nearest-exact", "bilinear", "bicubic", "area"], WAYS)),
)
def test_interpolate_is_pytorchs(mode, way):
    agree("interpolate", IMAGES, mode=mode, **way)
    if mode in ("bilinear", "bicubic"):
        agree("interpolate", IMAGES, mode=mode, align_corners=True, **way)


def test_trilinear_interpolation_is_pytorchs():
    agree("interpolate", VOLUMES, size=(4, 6, 5), mode="trilinear")


def test_a_batch_of_grids_under_vmap_is_one_read_each():
    x, grid = mg.tensor(IMAGES[:, None]), mg.tensor(PLACES[4][:, None])
    y = mg.func.vmap(F.grid_sample)(x, grid)
    np.testing.assert_allclose(y.numpy()[:, 0], F.grid_sample(IMAGES, PLACES[4]))


def test_grids_differentiate_twice():
    def loss(theta):
        grid = F.affine_grid(theta, (2, 3, 4, 4))
        return (F.grid_sample(mg.tensor(IMAGES), grid) ** 2).sum()

    theta = np.array([[[0.7, 0.1, 0.05], [-0.1, 0.6, 0.1]]] * 2)
    assert mg.testing.gradcheck(mg.func.grad(loss), (theta,))


def test_places_outside_read_nothing_of_an_infinite_edge():
    x = np.zeros((1, 2, 3, 3))
    x[:, :, 0] = x[:, :, :, 2] = np.inf
    x = mg.tensor(x, requires_grad=True)
    grid = np.array([[[[-3.0, 0.0], [0.0, 5.0], [-0.9, 0.9]]]])  # the last between the edge and it
    y = F.grid_sample(x, grid)
    y.sum().backward()
    np.testing.assert_array_equal(y.numpy(), np.zeros((1, 2, 1, 3)))
    assert np.isfinite(x.grad.numpy()).all() and x.grad.numpy()[0, 0, 2, 0] > 0


def test_a_place_that_is_nan_gives_nan_there_alone():
    x, grid = mg.tensor(IMAGES, requires_grad=True), PLACES[4].copy()
    whole = F.grid_sample(IMAGES, grid)
    grid[0, 1, 2, 0] = np.nan
    y = F.grid_sample(x, grid).detach().numpy()
    assert np.isnan(y[0, :, 1, 2]).all()
    y[0, :, 1, 2] = whole[0, :, 1, 2]
    np.testing.assert_array_equal(y, whole)


def test_reads_of_many_images_are_those_of_each_alone():
    """More than one block of them, which threads share."""
    x = RNG.standard_normal((24, 3, 80, 70)).astype("float32")
    grid = RNG.uniform(-1.2, 1.2, (24, 60, 50, 2)).astype("float32")
    g = RNG.standard_normal((24, 3, 60, 50)).astype("float32")

    def results(x, grid, g):
        x, grid = (mg.tensor(a, requires_grad=True) for a in (x, grid))
        y = F.grid_sample(x, grid)
        return [a.numpy() for a in (y.detach(), *mg.grad(y, (x, grid), g))]

    before, together = mg.get_num_threads(), []
    try:
        for count in (1, 3):
            mg.set_num_threads(count)
            together.append(results(x, grid, g))
    finally:
        mg.set_num_threads(before)
    alone = [results(*[a[i : i + 1] for a in (x, grid, g)]) for i in range(24)]
    for one, three, *each in zip(*together, *alone, strict=True):
        np.testing.assert_array_equal(one, three)
        np.testing.assert_allclose(one, np.concatenate(each), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e30])
def test_at_an_infinite_place_there_are_zeros_and_no_slope(d, mode, value):
    x = mg.tensor(np.ones((1, 1, *[4] * d)), requires_grad=True)
    places = np.full((1, *[1] * d, d), 0.3)
    places[..., 0] = value
    grid = mg.tensor(places, requires_grad=True)
    y = mg.grid_sample(x, grid, mode=mode)
    gx, ggrid = mg.grad(y.sum(), [x, grid])
    assert y.item() == 0 and not gx.numpy().any() and not ggrid.numpy().any()


def test_reads_of_the_nearest_entry_have_gradient_zero_for_the_grid():
    grid = mg.tensor(np.full((1, 1, 1, 2), 0.3), requires_grad=True)
    y = mg.grid_sample(mg.tensor(np.ones((1, 1, 4, 4))), grid, mode="nearest")
    assert not mg.grad(y.sum(), grid).numpy().any()
