"""Lazy modules: they become the layer that a first input or a state asks for; before, errors."""

import copy
import inspect
import pickle

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

rng = np.random.default_rng(0)

CASES = [
    ("Linear", 5, (3,), {}, (4, 2, 5)),
    ("Linear", 5, (3, False), {}, (5,)),
    ("Conv1d", 4, (6, 3), {"padding": "same", "groups": 2}, (2, 4, 7)),
    ("Conv2d", 3, (6, 3, 2), {"bias": False}, (2, 3, 7, 6)),
    ("Conv2d", 3, (6, 3), {"padding": 1, "padding_mode": "circular"}, (2, 3, 5, 6)),
    ("Conv3d", 2, (3, (2, 1, 2)), {}, (1, 2, 4, 3, 5)),
    ("ConvTranspose1d", 4, (6, 3, 2), {}, (2, 4, 5)),
    ("ConvTranspose2d", 3, (2, 3, 2, 1, 1), {}, (2, 3, 4, 5)),
    ("ConvTranspose3d", 2, (3, 2), {}, (1, 2, 3, 2, 3)),
    ("BatchNorm1d", 4, (), {}, (6, 4)),
    ("BatchNorm1d", 4, (1e-3, 0.2), {"affine": False}, (6, 4, 3)),
    ("BatchNorm2d", 3, (), {"track_running_stats": False}, (2, 3, 4, 5)),
    ("BatchNorm3d", 2, (), {}, (3, 2, 2, 3, 2)),
    ("InstanceNorm1d", 4, (1e-5, 0.1, False, False), {}, (2, 4, 5)),
    ("InstanceNorm1d", 4, (1e-3, 0.2, True, False), {}, (2, 4, 5)),
    ("InstanceNorm2d", 3, (), {"affine": True, "track_running_stats": True}, (2, 3, 4, 5)),
    ("InstanceNorm2d", 3, (), {"affine": False, "track_running_stats": True}, (2, 3, 4, 5)),
    ("InstanceNorm3d", 2, (), {"affine": True, "track_running_stats": False}, (3, 2, 2, 3, 2)),
]
NAMES = sorted({name for name, *_ in CASES})


def data(shape):
    return mg.tensor(rng.standard_normal(shape).astype(np.float32))


def network():
    return nn.Sequential(
        nn.LazyConv2d(4, 3, bias=False),
        nn.LazyBatchNorm2d(),
        nn.ReLU(),
        nn.Flatten(),
        nn.LazyLinear(5),
    )


@pytest.mark.parametrize(("name", "features", "args", "options", "shape"), CASES)
def test_a_lazy_layer_becomes_the_layer_of_the_same_seed(name, features, args, options, shape):
    x = data(shape)
    lazy = getattr(nn, f"Lazy{name}")(*args, **options)
    mg.manual_seed(3)
    result = lazy(x)
    mg.manual_seed(3)
    eager = getattr(nn, name)(features, *args, **options)
    assert type(lazy) is type(eager) and repr(lazy) == repr(eager)
    np.testing.assert_array_equal(result.numpy(), eager(x).numpy())
    ours, theirs = lazy.state_dict(), eager.state_dict()
    assert [*ours] == [*theirs]
    for path in ours:
        np.testing.assert_array_equal(ours[path].numpy(), theirs[path].numpy())


@pytest.mark.filterwarnings(
    "ignore:input's size at dim=1:UserWarning"
)  # PyTorch's, of num_features
@pytest.mark.parametrize(("name", "features", "args", "options", "shape"), CASES)
def test_a_lazy_layer_takes_pytorchs_arguments_and_computes_as_it_does(
    name, features, args, options, shape
):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = data(shape)
    theirs = getattr(torch.nn, f"Lazy{name}")(*args, **options)
    theirs(torch.tensor(x.numpy()))
    ours = getattr(nn, f"Lazy{name}")(*args, **options)
    ours(x)
    ours.load_state_dict({path: p.detach().numpy() for path, p in theirs.state_dict().items()})
    expected = theirs(torch.tensor(x.numpy())).detach().numpy()
    np.testing.assert_allclose(ours(x).detach().numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_lazy_layers_signature_is_the_layers_without_its_first_argument(name):
    _, *others = inspect.signature(getattr(nn, name)).parameters
    assert [*inspect.signature(getattr(nn, f"Lazy{name}")).parameters] == others


@pytest.mark.parametrize(
    ("what", "use"),
    [
        ("the", lambda model: model.state_dict()),
        ("SGD: params\\[0\\]: the", lambda model: mg.optim.SGD(model.parameters(), lr=0.1)),
        ("the", lambda model: model[0].weight * 2),
        ("the", lambda model: model[0].weight.shape),
        ("the", lambda model: nn.init.zeros_(model[0].weight)),
        ("the", lambda model: model.summary()),
    ],
)
def test_any_use_of_its_parameters_before_the_first_input_says_what_to_do(what, use):
    pattern = rf"^{what} parameters of LazyConv2d \('0.weight'\).* call the model on one batch"
    with pytest.raises(ValueError, match=pattern):
        use(network())


@pytest.mark.parametrize(("name", "features", "args", "options", "shape"), CASES)
def test_a_state_loaded_before_the_first_input_makes_it_the_layer_of_that_state(
    name, features, args, options, shape
):
    x = data(shape)
    eager = getattr(nn, name)(features, *args, **options)
    expected = eager(x)  # moves the statistics
    lazy = getattr(nn, f"Lazy{name}")(*args, **options)
    lazy.load_state_dict(eager.state_dict())
    assert type(lazy) is (type(eager) if eager.state_dict() else getattr(nn, f"Lazy{name}"))
    for path, value in eager.state_dict().items():
        np.testing.assert_array_equal(lazy.state_dict()[path].numpy(), value.numpy())
    np.testing.assert_array_equal(lazy(x).numpy(), expected.numpy())
    assert repr(lazy) == repr(eager)


def test_a_layer_made_by_a_state_keeps_what_was_asked_for_and_takes_inputs_of_its_size_alone():
    model, full = network().to(np.float64), network()
    full(data((2, 3, 6, 6)))
    model[0].requires_grad_(False)
    matched = model.load_state_dict(full.state_dict())
    assert matched == ([], [])
    assert [p.name for p in model.parameters()] == [path for path, _ in model.named_parameters()]
    assert {p.dtype for p in model.parameters()} == {np.dtype("f8")}
    assert [p.requires_grad for p in model.parameters()] == [False, True, True, True, True]
    with pytest.raises(ValueError, match=r"linear.*\(2, 36\).*\(5, 64\)"):
        model(mg.tensor(rng.standard_normal((2, 3, 5, 5))))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"4.weight": np.ones((7, 64))}, r"4.weight: float64 \(7, 64\) given.*\(5, 64\) needed"),
        ({"0.weight": np.ones(3)}, r"0.weight of shape \(3,\) has too few axes to say how many"),
        ({"0.weight": None}, "missing: 0.weight$"),
    ],
)
def test_a_state_that_does_not_fit_leaves_every_layer_lazy(change, match):
    model, full = network(), network()
    full(data((2, 3, 6, 6)))
    state = {k: v for k, v in {**full.state_dict(), **change}.items() if v is not None}
    with pytest.raises(ValueError, match=match):
        model.load_state_dict(state)
    assert isinstance(model[0], nn.LazyConv2d) and isinstance(model[4], nn.LazyLinear)


def test_a_layer_that_a_state_leaves_out_waits_for_its_input():
    model, full = network(), network()
    full(data((2, 3, 6, 6)))
    state = {path: value for path, value in full.state_dict().items() if path[0] == "4"}
    assert "0.weight" in model.load_state_dict(state, strict=False).missing_keys
    assert isinstance(model[0], nn.LazyConv2d) and type(model[4]) is nn.Linear
    assert model(data((2, 3, 6, 6))).shape == (2, 5)


def test_a_lazy_instance_norm_has_pytorchs_defaults_for_lazy_ones():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    ours, theirs = nn.LazyInstanceNorm2d(), torch.nn.LazyInstanceNorm2d()
    ours(data((2, 3, 4, 5)))
    theirs(torch.zeros(2, 3, 4, 5))
    assert [*ours.state_dict()] == [*theirs.state_dict()]


def test_a_lazy_instance_norm_counts_the_channels_of_one_example_without_a_batch_axis():
    layer = nn.LazyInstanceNorm2d()
    assert layer(data((3, 4, 5))).shape == (3, 4, 5) and layer.num_features == 3


def test_a_norm_without_arrays_has_nothing_to_wait_for():
    layer = nn.LazyInstanceNorm1d(affine=False, track_running_stats=False)
    assert layer.state_dict() == {} and not list(layer.parameters())
    layer.load_state_dict({})
    layer(data((2, 3, 4)))
    assert type(layer) is nn.InstanceNorm1d and layer.num_features == 3


def test_statistics_alone_are_not_saved_before_they_are_there():
    with pytest.raises(ValueError, match="LazyBatchNorm1d"):
        nn.LazyBatchNorm1d(affine=False).state_dict()


def test_after_one_batch_a_model_trains_and_its_state_is_loaded_and_saved():
    model, x = network(), data((2, 3, 6, 6))
    with mg.no_grad():
        model(x)
    optimizer = mg.optim.SGD(model.parameters(), lr=0.1)
    before = model.state_dict()
    (model(x) ** 2).mean().backward()
    optimizer.step()
    assert all((p.numpy() != before[path].numpy()).any() for path, p in model.named_parameters())
    model.load_state_dict(before)
    np.testing.assert_array_equal(model[4].weight.numpy(), before["4.weight"].numpy())


def test_its_parameters_have_their_paths_as_names():
    model = network()
    model(data((2, 3, 6, 6)))
    assert [p.name for p in model.parameters()] == [path for path, _ in model.named_parameters()]


def test_a_dtype_asked_for_before_the_first_input_holds():
    model = network().to(np.float64)
    y = model(mg.tensor(rng.standard_normal((2, 3, 6, 6))))
    assert y.dtype == np.float64 and {p.dtype for p in model.parameters()} == {np.dtype("f8")}


def test_modes_and_frozen_parameters_stay_as_they_were_set():
    model = network().eval().requires_grad_(False)
    model(data((2, 3, 6, 6)))
    assert not any(module.training for module in model.modules())
    assert not any(p.requires_grad for p in model.parameters())
    assert all(model[1].running_mean == 0)


def test_hooks_stay_and_see_the_layer_that_it_has_become():
    layer, seen = nn.LazyLinear(3), []
    layer.register_forward_hook(lambda module, args, result: seen.append(type(module)))
    layer(data((2, 5)))
    layer(data((2, 5)))
    assert seen == [nn.Linear, nn.Linear]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_a_copy_is_lazy_too_and_learns_its_own_size(copied):
    layer = nn.LazyLinear(3)
    twin = copied(layer)
    twin(data((2, 7)))
    layer(data((2, 5)))
    assert (layer.in_features, twin.in_features) == (5, 7)


@pytest.mark.parametrize(
    ("layer", "shape", "match"),
    [
        (lambda: nn.LazyConv2d(4, 3), (3, 5), r"LazyConv2d: x must be \(n, c, \*size\).*\(3, 5\)"),
        (lambda: nn.LazyBatchNorm2d(), (3, 5), r"x must have 4 axes, got shape \(3, 5\)"),
        (lambda: nn.LazyInstanceNorm2d(affine=True), (3, 5), r"3 or 4 axes, got shape \(3, 5\)"),
        (lambda: nn.LazyLinear(3), (), "LazyLinear: x must have an axis of features"),
        (lambda: nn.LazyConv1d(4, 3, groups=2), (2, 3, 5), "groups=2 must divide in_channels=3"),
    ],
)
def test_an_input_that_does_not_fit_leaves_the_layer_lazy(layer, shape, match):
    layer = layer()
    with pytest.raises(ValueError, match=match):
        layer(data(shape))
    assert isinstance(layer.weight, nn.UninitializedParameter)


def test_a_second_input_of_another_size_is_the_layers_error():
    layer = nn.LazyLinear(3)
    layer(data((2, 5)))
    with pytest.raises(ValueError, match="5"):
        layer(data((2, 6)))


def test_parameters_from_outside_before_the_first_input_are_refused():
    with pytest.raises(ValueError, match="LazyLinear: parameters are given to it before"):
        mg.func.functional_call(nn.LazyLinear(3), {"weight": np.ones((3, 5))}, data((2, 5)))


def test_a_first_input_inside_a_transform_or_without_recording_makes_parameters_that_learn():
    x = data((2, 5))
    for first in (mg.func.vmap, mg.func.grad, lambda f: mg.inference_mode()(f)):
        layer = nn.LazyLinear(3)
        first(lambda x, layer=layer: layer(x).sum())(x)
        layer(x).sum().backward()
        assert layer.weight.grad.shape == (3, 5)


def test_wrong_arguments_are_refused_when_the_layer_is_made():
    with pytest.raises(TypeError, match=r"LazyConv2d\(out_channels.*missing .*'kernel_size'"):
        nn.LazyConv2d(3)
    with pytest.raises(TypeError, match=r"LazyLinear\(out_features.*'in_features'"):
        nn.LazyLinear(3, in_features=5)


def test_its_text_shows_what_is_known():
    assert repr(nn.LazyConv2d(8, 3, bias=False)) == (
        "LazyConv2d(out_channels=8, kernel_size=3, bias=False)"
    )
    assert repr(nn.LazyLinear(3).weight) == "<uninitialized parameter 'weight' of LazyLinear>"


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_the_first_call_of_a_lazy_transposed_convolution_takes_the_size_of_its_result(dims):
    x, size = mg.ones((1, 2, *(4,) * dims), dtype="float32"), [8] * dims
    lazy = getattr(nn, f"LazyConvTranspose{dims}d")(3, 2, stride=2, padding=0)
    assert lazy(x, output_size=[9] * dims).shape == (1, 3, *(9,) * dims)
    assert lazy(x, output_size=size).shape == (1, 3, *size)
