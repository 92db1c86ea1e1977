"""Normalisation layers: PyTorch's state, values, gradients and running statistics."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

rng = np.random.default_rng(0)
CASES = {
    "BatchNorm1d": ((4,), {}, (5, 4)),
    "BatchNorm1d of sequences": ((4,), {"affine": False}, (5, 4, 3)),
    "BatchNorm2d": ((4,), {"momentum": None}, (5, 4, 2, 3)),
    "BatchNorm2d without statistics": ((4,), {"track_running_stats": False}, (5, 4, 2, 3)),
    "BatchNorm3d": ((4,), {"eps": 0.1}, (2, 4, 2, 3, 2)),
    "InstanceNorm1d": ((4,), {}, (4, 3)),
    "InstanceNorm2d": ((4,), {"affine": True, "track_running_stats": True}, (5, 4, 2, 3)),
    "LayerNorm": (((4, 3),), {}, (2, 4, 3)),
    "LayerNorm without bias": ((3,), {"bias": False}, (2, 4, 3)),
    "RMSNorm": ((3,), {}, (2, 4, 3)),
    "GroupNorm": ((2, 4), {}, (2, 4, 3)),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_the_layer_is_pytorch_s(name, training):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    args, params, shape = CASES[name]
    kind = name.split()[0]
    theirs = getattr(torch.nn, kind)(*args, **params, dtype=torch.float64)
    ours = getattr(nn, kind)(*args, **params, dtype=np.float64)
    for p in theirs.parameters():
        torch.nn.init.normal_(p)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    for _ in range(2):  # two batches, so that running statistics have moved before the second
        x = rng.standard_normal(shape)
        a, b = mg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        ours.train(), theirs.train()
        y, z = ours(a), theirs(b)
    if not training:
        y, z = ours.eval()(a), theirs.eval()(b)
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=1e-10, atol=1e-12)
    v = rng.standard_normal(shape)
    y.backward(v)
    z.backward(torch.tensor(v))
    pairs = [(a, b), *zip(ours.parameters(), theirs.parameters(), strict=True)]
    for p, q in pairs:
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-9, atol=1e-11)
    for p, q in zip(ours.buffers(), theirs.buffers(), strict=True):
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-10)


@pytest.mark.parametrize(
    "name, args, options",
    [
        ("BatchNorm2d", (4,), {}),
        ("InstanceNorm2d", (4,), {"affine": True}),
        ("GroupNorm", (2, 4), {}),
    ],
)
def test_a_layer_may_have_a_weight_and_no_bias(name, args, options):
    """The bias of a layer that has one begins as zeros."""
    x = mg.tensor(rng.standard_normal((3, 4, 2, 3)), dtype=np.float32)
    with_bias = getattr(nn, name)(*args, **options)
    without = getattr(nn, name)(*args, **options, bias=False)
    assert [name for name, _ in without.named_parameters()] == ["weight"]
    np.testing.assert_array_equal(without(x).numpy(), with_bias(x).numpy())


def test_a_wrong_number_of_axes_names_the_layer_and_the_shape():
    with pytest.raises(ValueError, match=r"BatchNorm2d: x must have 4 axes, got shape \(2, 3\)"):
        nn.BatchNorm2d(3)(mg.ones(2, 3))


@pytest.mark.parametrize(
    ("layer", "shape", "said"),
    [
        (nn.BatchNorm2d(4), (2, 3, 5, 5), "BatchNorm2d: x (2, 3, 5, 5) has 3 channels (axis 1)"),
        (nn.BatchNorm1d(4), (2, 3), "made for num_features=4; make it as BatchNorm1d(3)"),
        (nn.InstanceNorm2d(4, affine=True), (3, 5, 5), "has 3 channels (axis 0), and this layer"),
        (nn.InstanceNorm1d(4, track_running_stats=True), (2, 3, 5), "num_features=4"),
        (nn.GroupNorm(2, 4), (2, 6, 5), "num_channels=4; make it as GroupNorm(2, 6)"),
    ],
)
def test_wrong_channels_name_the_layer_and_its_argument(layer, shape, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        layer(mg.ones(*shape))
    assert getattr(layer, "num_batches_tracked", None) is None or not layer.num_batches_tracked


def test_norms_without_arrays_take_any_channels():
    assert nn.InstanceNorm2d(4)(mg.ones(3, 5, 5)).shape == (3, 5, 5)
    plain = nn.BatchNorm2d(4, affine=False, track_running_stats=False)
    assert plain(mg.ones(2, 3, 5, 5)).shape == (2, 3, 5, 5)


def test_groups_must_divide_the_channels():
    with pytest.raises(ValueError, match="num_groups=3 must divide num_channels=4"):
        nn.GroupNorm(3, 4)


def test_running_statistics_are_state_and_no_parameters():
    layer = nn.BatchNorm1d(3)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    assert {"running_mean", "running_var", "num_batches_tracked"} <= layer.state_dict().keys()
    layer(mg.ones(2, 3, dtype=np.float32))
    assert int(layer.num_batches_tracked) == 1


def test_an_empty_batch_leaves_the_running_statistics():
    layer = nn.BatchNorm1d(2)
    layer(mg.rand(4, 2, 3))
    before = layer.running_mean.numpy().copy(), layer.running_var.numpy().copy()
    layer(mg.zeros(0, 2, 3))
    np.testing.assert_array_equal((layer.running_mean.numpy(), layer.running_var.numpy()), before)


@pytest.mark.parametrize("shape", [(0, 6, 3), (2, 0, 3), (0, 4, 3, 3)])
def test_local_response_norm_of_nothing_is_nothing(shape):
    assert nn.LocalResponseNorm(2)(mg.zeros(*shape)).shape == shape


@pytest.mark.parametrize("affine", [True, False])
def test_each_norm_says_whether_it_learns_under_pytorch_s_name(affine):
    for layer in (nn.LayerNorm(4, 1e-5, affine), nn.RMSNorm(4, None, affine)):
        assert layer.elementwise_affine is affine
    for layer in (nn.GroupNorm(2, 4, 1e-5, affine), nn.BatchNorm1d(4, affine=affine)):
        assert layer.affine is affine


def test_local_response_norm_of_float16_squares_beyond_65504():
    x = np.full((1, 3, 2), 300.0)
    layer = nn.LocalResponseNorm(3, alpha=0.1)
    y = layer(mg.tensor(x, dtype="float16"))
    assert y.dtype == np.float16
    np.testing.assert_allclose(y.numpy(), layer(mg.tensor(x)).numpy(), rtol=1e-3)
