"""Layers compute and start as PyTorch's do; where PyTorch is not installed, its part is skipped."""

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional as F
from minigrad import nn

pytestmark = pytest.mark.promise(
    "layers, losses, optimizers and schedules compute as PyTorch's on its weights"
)

rng = np.random.default_rng(0)


def same(ours, theirs, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=rtol, atol=atol)


ACTIVATIONS = [
    "ReLU", "ReLU6", "Tanh", "Sigmoid", "LogSigmoid", "SiLU", "Mish", "SELU", "Softsign",
    "Hardsigmoid", "Hardswish", "Tanhshrink", "LeakyReLU", "ELU", "CELU", "GELU", "Hardtanh",
    "Softplus", "Hardshrink", "Softshrink", "PReLU", "GLU", "Softmax2d",
]  # fmt: skip
PAIRS = [
    *[(name, (), {}, (3, 4, 2, 2)) for name in ACTIVATIONS],
    ("Identity", (1, 2), {"any": 3}, (3, 4)),
    ("LeakyReLU", (0.3,), {}, (3, 4)),
    ("ELU", (0.7,), {}, (3, 4)),
    ("CELU", (0.7,), {}, (3, 4)),
    ("GELU", ("tanh",), {}, (3, 4)),
    ("Hardtanh", (-0.5, 0.3), {}, (3, 4)),
    ("Softplus", (2.0,), {}, (3, 4)),
    ("Threshold", (0.1, -3.0), {}, (3, 4)),
    ("PReLU", (4,), {}, (3, 4, 2)),
    ("Softmax", (-1,), {}, (3, 4)),
    ("LogSoftmax", (0,), {}, (3, 4)),
    ("Softmin", (1,), {}, (3, 4)),
    ("Linear", (5, 3), {}, (4, 5)),
    ("Linear", (5, 3, False), {}, (2, 4, 5)),
    ("Conv1d", (2, 3, 3), {"padding": "same", "dilation": 2}, (2, 2, 9)),
    ("Conv1d", (2, 3, 3, 2, 1), {"padding_mode": "reflect"}, (2, 2, 9)),
    ("Conv2d", (2, 3, 3), {}, (2, 2, 7, 6)),
    ("Conv2d", (2, 3, (3, 2), (2, 1), (1, 0)), {"bias": False}, (2, 2, 7, 6)),
    ("Conv2d", (4, 6, 3, 1, 0, 2, 2), {}, (2, 4, 7, 6)),
    ("Conv2d", (2, 3, 3, 1, (1, 2)), {"padding_mode": "circular"}, (2, 2, 7, 6)),
    ("Conv2d", (2, 3, 3), {"padding": "same", "padding_mode": "replicate"}, (2, 2, 7, 6)),
    ("Conv3d", (2, 3, (2, 3, 1), 1, (1, 0, 0)), {}, (2, 2, 4, 5, 3)),
    ("ConvTranspose1d", (4, 6, 3, 2, 1, 1, 2), {}, (2, 4, 5)),
    ("ConvTranspose2d", (2, 3, (3, 2), (2, 3), 1, (1, 2)), {"dilation": 2}, (2, 2, 4, 3)),
    ("ConvTranspose3d", (2, 3, 2, 2), {"bias": False}, (2, 2, 2, 3, 2)),
    ("MaxPool1d", (3, 2, 1), {}, (2, 3, 8)),
    ("MaxPool2d", (2,), {}, (2, 3, 6, 4)),
    ("MaxPool2d", (3, 2, 1), {}, (2, 3, 7, 7)),
    ("MaxPool2d", (2,), {"ceil_mode": True, "dilation": 2}, (2, 3, 8, 7)),
    ("MaxPool3d", ((2, 1, 2),), {}, (2, 3, 4, 3, 5)),
    ("AvgPool1d", (3, 2, 1), {"count_include_pad": False}, (2, 3, 8)),
    ("AvgPool2d", ((3, 2), 2, (1, 0)), {"ceil_mode": True}, (2, 3, 7, 6)),
    ("AvgPool3d", (2,), {}, (2, 3, 4, 4, 5)),
    ("AdaptiveAvgPool1d", (3,), {}, (2, 3, 7)),
    ("AdaptiveAvgPool2d", ((3, None),), {}, (2, 3, 7, 5)),
    ("AdaptiveAvgPool3d", ((3, 2, 2),), {}, (2, 3, 7, 5, 3)),
    ("AdaptiveMaxPool1d", (3,), {}, (2, 3, 7)),
    ("AdaptiveMaxPool2d", ((3, None),), {}, (2, 3, 7, 5)),
    ("AdaptiveMaxPool3d", ((3, 2, 2),), {}, (2, 3, 7, 5, 3)),
    ("LPPool1d", (2, 3), {"ceil_mode": True}, (2, 3, 8)),
    ("LPPool2d", (2, 2, 1), {}, (2, 3, 5, 4)),
    ("LPPool3d", (2, (1, 2, 2)), {}, (2, 3, 2, 4, 4)),
    ("Flatten", (), {}, (2, 3, 4)),
    ("Flatten", (0, 1), {}, (2, 3, 4)),
    ("Unflatten", (1, (2, 3)), {}, (4, 6, 2)),
    ("Unflatten", (-1, (2, 1)), {}, (4, 6, 2)),
    ("Upsample", (), {"scale_factor": 2}, (2, 3, 4)),
    ("Upsample", (), {"size": (5, 7), "mode": "bilinear"}, (2, 3, 4, 4)),
    ("Upsample", ((5, 7, 3), None, "trilinear", True), {}, (2, 3, 4, 4, 2)),
    ("PixelShuffle", (2,), {}, (2, 8, 3, 2)),
    ("PixelUnshuffle", (2,), {}, (2, 2, 6, 4)),
    ("ZeroPad2d", ((1, 2, 0, 3),), {}, (2, 2, 3, 4)),
    ("Dropout", (0.0,), {}, (3, 4)),
    ("AvgPool2d", (2,), {"padding": 1, "divisor_override": 3}, (2, 3, 5, 4)),
    ("AvgPool3d", (2,), {"divisor_override": 5}, (2, 3, 4, 4, 5)),
    ("Upsample", (), {"scale_factor": 1.5, "mode": "bicubic"}, (2, 3, 4, 5)),
    ("UpsamplingBilinear2d", (), {"scale_factor": 2}, (2, 3, 4, 5)),
    ("UpsamplingNearest2d", ((3, 7),), {}, (2, 3, 4, 5)),
    ("ChannelShuffle", (3,), {}, (2, 6, 4)),
    ("LocalResponseNorm", (3,), {"alpha": 0.3, "k": 2.0}, (2, 6, 4)),
    ("LocalResponseNorm", (4,), {"beta": 0.5}, (2, 6, 3, 2)),
    ("ZeroPad1d", ((1, -1),), {}, (2, 3, 4)),
    ("ZeroPad3d", (1,), {}, (2, 2, 3, 4)),
    ("ZeroPad2d", (1,), {}, (3, 4)),
    ("ConstantPad1d", (2, 0.5), {}, (2, 2, 3, 4, 2)),
    ("ConstantPad2d", ((1, 2, 0, 3), 1.5), {}, (2, 2, 3, 4)),
    ("ReflectionPad1d", ((2, 1),), {}, (2, 3, 4)),
    ("ReflectionPad2d", ((1, 2, 1, 0),), {}, (2, 3, 4, 4)),
    ("ReplicationPad2d", ((1, 2, 1, 0),), {}, (2, 3, 4, 4)),
    ("ReplicationPad3d", (1,), {}, (1, 2, 3, 2, 4)),
    ("CircularPad1d", ((2, 1),), {}, (2, 3, 4)),
    ("CircularPad2d", (2,), {}, (2, 3, 4, 4)),
    ("RReLU", (0.0, 0.0), {}, (3, 4)),
    ("Softplus", (2.0, 1.0), {}, (3, 4)),
]


@pytest.mark.parametrize(("name", "args", "options", "shape"), PAIRS)
def test_values_and_gradients_equal_pytorchs_on_the_same_weights(name, args, options, shape):
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.nn, name)(*args, **options)
    ours = getattr(nn, name)(*args, **options)
    ours.load_state_dict({path: p.detach().numpy() for path, p in theirs.state_dict().items()})
    data = rng.standard_normal(shape).astype(np.float32)
    x, x_torch = mg.tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)
    y, y_torch = ours(x), theirs(x_torch)
    assert y.shape == y_torch.shape
    g = rng.standard_normal(y.shape).astype(np.float32)
    y.backward(mg.tensor(g))
    y_torch.backward(torch.tensor(g))
    assert y.dtype == np.float32
    same(y, y_torch)
    same(x.grad, x_torch.grad)
    for p, p_torch in zip(ours.parameters(), theirs.parameters(), strict=True):
        same(p.grad, p_torch.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("dims", "shape"), [(1, (2, 3, 7)), (2, (2, 3, 7, 4)), (3, (1, 2, 4, 5, 4))]
)
def test_unpooling_puts_entries_back_where_pytorch_does(dims, shape):
    torch = pytest.importorskip("torch")
    data = rng.standard_normal(shape)
    results = []
    for lib, x in ((nn, mg.tensor(data)), (torch.nn, torch.tensor(data))):
        pool = getattr(lib, f"MaxPool{dims}d")(2, return_indices=True)
        adaptive = getattr(lib, f"AdaptiveMaxPool{dims}d")(2, return_indices=True)
        y, indices = pool(x)
        unpooled = getattr(lib, f"MaxUnpool{dims}d")(2)(y, indices, output_size=x.shape)
        results.append([np.asarray(r) for r in (y, indices, unpooled, *adaptive(x))])
    for ours, theirs in zip(*results, strict=True):
        assert np.array_equal(ours, theirs)


def test_a_bilinear_form_equals_pytorchs():
    torch = pytest.importorskip("torch")
    theirs, ours = torch.nn.Bilinear(3, 4, 5), nn.Bilinear(3, 4, 5)
    ours.load_state_dict({path: p.detach().numpy() for path, p in theirs.state_dict().items()})
    a, b = rng.standard_normal((2, 6, 3), "f4"), rng.standard_normal((2, 6, 4), "f4")
    y, y_torch = ours(mg.tensor(a), mg.tensor(b)), theirs(torch.tensor(a), torch.tensor(b))
    same(y, y_torch)
    y.sum().backward(), y_torch.sum().backward()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        same(p.grad, q.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("Dropout1d", (50, 40, 3)),
        ("Dropout2d", (50, 40, 2, 2)),
        ("Dropout3d", (50, 40, 2, 1, 3)),
    ],
)
def test_channel_dropout_keeps_or_drops_channels_whole(name, shape):
    y = getattr(nn, name)(0.3, generator=np.random.default_rng(0))(mg.ones(shape)).numpy()
    channels = y.reshape(2000, -1)
    assert (channels == channels[:, :1]).all()
    assert abs((channels[:, 0] == 0).mean() - 0.3) < 5 * (0.3 * 0.7 / 2000) ** 0.5
    assert np.allclose(channels[channels != 0], 1 / 0.7)


@pytest.mark.parametrize("kind", [nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_alpha_dropout_keeps_mean_and_variance(kind):
    layer = kind(0.3, generator=np.random.default_rng(0))
    x = mg.tensor(np.random.default_rng(1).standard_normal((1000, 100)))
    assert layer.eval()(x) is x
    y = layer.train()(x).numpy()
    assert abs(y.mean()) < 0.02 and abs(y.var() - 1) < 0.02


@pytest.mark.parametrize("layer", [nn.Linear(50, 400), nn.Conv2d(2, 400, 5)])
def test_weights_start_uniform_within_one_over_the_root_of_fan_in(layer):
    w = layer.weight.detach().numpy()
    bound = 50**-0.5
    assert w.dtype == np.float32
    assert 0.99 * bound < np.abs(w).max() <= bound * (1 + 1e-6)
    assert abs(w.mean()) < 0.02 * bound  # 20,000 draws: standard error 0.004 bound
    assert abs(w.std() - bound / 3**0.5) < 0.02 * bound
    assert np.abs(layer.bias.detach().numpy()).max() <= bound * (1 + 1e-6)


def test_the_same_seed_gives_the_same_weights():
    mg.manual_seed(3)
    one = nn.Linear(3, 2).weight.detach().numpy()
    mg.manual_seed(3)
    assert np.array_equal(one, nn.Linear(3, 2).weight.detach().numpy())


def test_layers_take_a_dtype():
    assert nn.Linear(2, 2, dtype=np.float64).weight.dtype == np.float64


def test_dropout_drops_a_share_p_and_keeps_the_mean():
    n, p = 100_000, 0.3
    layer = nn.Dropout(p, generator=np.random.default_rng(1))
    y = layer(mg.ones(n, dtype="float32")).numpy()
    kept = y != 0
    assert y.dtype == np.float32
    assert np.allclose(y[kept], 1 / (1 - p))
    assert abs(kept.mean() - (1 - p)) < 5 * (p * (1 - p) / n) ** 0.5


def test_dropouts_gradient_has_the_mask_of_its_forward():
    x = mg.ones(1000, requires_grad=True)
    y = nn.Dropout(0.5)(x)
    y.sum().backward()
    assert np.array_equal(x.grad.numpy(), y.detach().numpy())


def test_dropout_is_the_identity_in_evaluation():
    x = mg.ones(5)
    assert nn.Dropout(0.5).eval()(x) is x


def test_dropout_of_everything_gives_zeros_even_for_infinities():
    y = nn.Dropout(1.0)(mg.full((3,), np.inf))
    assert np.array_equal(y.numpy(), np.zeros(3))


def test_dropout_draws_from_its_own_generator_alone():
    mg.manual_seed(0)
    before = mg.generator().bit_generator.state
    layer = nn.Dropout(0.5, generator=np.random.default_rng(0))
    layer(mg.ones(10))
    assert mg.generator().bit_generator.state == before


def test_dropout_refuses_what_is_no_probability():
    with pytest.raises(ValueError, match="probability from 0 to 1, got 1.5"):
        nn.Dropout(1.5)


@pytest.mark.parametrize(
    ("name", "args"),
    [("ReLU", ()), ("SiLU", ()), ("LeakyReLU", (0.2,)), ("ELU", (0.7,)), ("Hardtanh", (-1, 1)),
     ("Threshold", (0.1, 2.0)), ("RReLU", (0.1, 0.2))],
)  # fmt: skip
def test_inplace_is_taken_and_leaves_x_as_it_is(name, args):
    data = rng.standard_normal((3, 4))
    x = mg.tensor(data)
    y = getattr(nn, name)(*args, inplace=True).eval()(x)
    np.testing.assert_array_equal(x.numpy(), data)
    np.testing.assert_array_equal(y.numpy(), getattr(nn, name)(*args).eval()(x).numpy())


def test_cosines_and_distances_of_vectors_are_pytorchs():
    torch = pytest.importorskip("torch")
    a, b = rng.standard_normal((2, 3, 5))
    for name, args in (("CosineSimilarity", (1,)), ("PairwiseDistance", (3.0, 1e-6, True))):
        ours = getattr(nn, name)(*args)(mg.tensor(a), mg.tensor(b))
        theirs = getattr(torch.nn, name)(*args)(torch.tensor(a), torch.tensor(b))
        np.testing.assert_allclose(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize(
    "layer", [nn.Flatten(0, 3), nn.Flatten(-4), nn.Flatten(2, 1), nn.Unflatten(3, (2, 2))]
)
def test_axes_that_are_not_there_are_refused(layer):
    with pytest.raises(ValueError, match="out of bounds|comes after"):
        layer(mg.ones(2, 3, 4))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.RReLU(0.5, 0.1), "lower=0.5 must not be above upper=0.1"),
        (lambda: nn.CELU(0.0)(mg.ones(2)), "celu: alpha must not be 0"),
        (lambda: nn.ConstantPad2d((-2, -2, 0, 0), 1.0)(mg.ones(1, 3, 3)), "cuts off more than x"),
        (lambda: F.pad(mg.ones(1, 3, 3), (-5, 3)), "cuts off more than x"),
    ],
)
def test_numbers_that_would_give_wrong_results_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("name", ["FractionalMaxPool2d", "FractionalMaxPool3d"])
def test_the_samples_of_a_fractional_pool_are_saved_and_loaded_as_pytorchs(name):
    torch = pytest.importorskip("torch")
    dims = int(name[-2])
    samples = [np.random.default_rng(seed).random((1, 3, dims)) for seed in (0, 1)]
    theirs = getattr(torch.nn, name)(2, 2, _random_samples=torch.tensor(samples[0]))
    ours = getattr(nn, name)(2, 2, _random_samples=samples[1])
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    x = np.random.default_rng(2).random((3, *[6] * dims))  # without a batch
    np.testing.assert_array_equal(ours(mg.tensor(x)).numpy(), theirs(torch.tensor(x)).numpy())
    assert not getattr(nn, name)(2, 2).state_dict()


def test_a_softplus_shows_the_threshold_it_was_given():
    assert repr(nn.Softplus(2.0, 1.0)) == "Softplus(beta=2.0, threshold=1.0)"
    assert repr(nn.Softplus()) == "Softplus(beta=1.0)"


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("CELU", {"alpha": 0.5, "inplace": True}),
        ("ConstantPad1d", {"padding": (2, 2), "value": 3.5}),
        ("Dropout", {"p": 0.25, "inplace": True}),
        ("ELU", {"alpha": 0.5, "inplace": True}),
        ("Hardtanh", {"min_val": -2.0, "max_val": 3.0, "inplace": True}),
        ("LeakyReLU", {"negative_slope": 0.5, "inplace": True}),
        ("PReLU", {"num_parameters": 3, "init": 0.5}),
        ("ReLU", {"inplace": True}),
        ("RReLU", {"lower": 0.25, "upper": 0.5, "inplace": True}),
        ("Threshold", {"threshold": 0.5, "value": 2.0, "inplace": True}),
    ],
)
def test_a_layer_keeps_what_it_was_made_with_under_the_names_of_the_arguments(kind, given):
    layer = getattr(nn, kind)(**given)
    assert {name: getattr(layer, name) for name in given} == given


@pytest.mark.parametrize("kind", ["ZeroPad2d", "ReflectionPad1d", "ReplicationPad3d"])
def test_padding_that_is_not_in_pairs_is_refused(kind):
    with pytest.raises(ValueError, match=rf"{kind}: padding is one width, or \(left, right\)"):
        getattr(nn, kind)((1, 2, 3))


@pytest.mark.parametrize(
    ("kind", "axes"), [("ZeroPad2d", "at least 2"), ("ReflectionPad1d", "2 or 3")]
)
def test_padding_of_too_few_axes_is_refused(kind, axes):
    with pytest.raises(ValueError, match=f"{kind}: x must have {axes} axes, got shape .4,."):
        getattr(nn, kind)(1)(mg.ones(4))
