"""functional_call, stack_module_state, per_sample_grad: modules as functions of their tensors."""

import re
from types import MappingProxyType

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.errors import TransformError
from minigrad.func import functional_call, grad, hessian, per_sample_grad, stack_module_state, vmap

pytestmark = pytest.mark.promise("a module is as before after functional_call")


class Tied(nn.Module):
    """Two layers that share their weight, with a buffer."""

    def __init__(self):
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("offset", mg.ones(3))

    def forward(self, x, scale=1.0):
        return self.second(mg.tanh(self.first(x))) * scale + self.offset


def state_of(module):
    return {path: (id(x), x.tolist()) for path, x in module.state_dict(keep_vars=True).items()}


def test_a_module_computes_with_what_it_is_given_and_is_as_before():
    net, x = Tied(), mg.ones(2, 3)
    before = state_of(net)
    y = functional_call(net, {"offset": mg.zeros(3)}, (x,), {"scale": 2.0})
    np.testing.assert_allclose(y.data, (net(x, 2.0) - 1).data)
    assert state_of(net) == before


def test_it_is_as_before_after_an_exception():
    net = Tied()
    before = state_of(net)
    with pytest.raises(ValueError):
        functional_call(net, {"first.weight": mg.ones(7, 7)}, mg.ones(2, 3))
    assert state_of(net) == before


def test_a_tied_weight_is_replaced_under_all_its_paths():
    net, x, w = Tied(), mg.ones(2, 3), mg.zeros(3, 3)
    both = functional_call(net, {"first.weight": w}, x)
    np.testing.assert_allclose(both.data, np.broadcast_to(net.second.bias.data + 1, (2, 3)))
    one = functional_call(net, {"first.weight": w}, x, tie_weights=False)
    assert not np.allclose(one.data, both.data)
    with pytest.raises(TransformError, match="one tensor"):
        functional_call(net, {"first.weight": w, "second.weight": w + 1}, x)


def test_paths_that_do_not_fit_are_named():
    net, x = Tied(), mg.ones(2, 3)
    before = state_of(net)
    with pytest.raises(TransformError, match="has no .'third.weight'"):
        functional_call(net, {"third.weight": x}, x)
    with pytest.raises(TransformError, match="first.bias.*second.bias"):
        functional_call(net, {"first.weight": mg.zeros(3, 3), "offset": x}, x, strict=True)
    with pytest.raises(TransformError, match="two dicts"):
        functional_call(net, ({"offset": x}, {"offset": x}), x)
    assert state_of(net) == before


def test_gradients_flow_to_what_is_given_to_any_order():
    net, x = Tied(), mg.ones(2, 3)
    values = {path: p.detach() for path, p in net.named_parameters()}
    loss = lambda values: (functional_call(net, values, x) ** 2).sum()
    g = grad(loss)(values)
    loss_of_net = (net(x) ** 2).sum()
    loss_of_net.backward()
    for path, p in net.named_parameters():
        np.testing.assert_allclose(g[path].data, p.grad.data, rtol=1e-6)
    h = hessian(loss)({"first.bias": values["first.bias"]})
    assert h["first.bias"]["first.bias"].shape == (3, 3)


def test_a_buffer_that_the_module_writes_is_the_given_one():
    net = nn.BatchNorm1d(2)
    mean, x = mg.zeros(2), mg.tensor([[1.0, 2.0], [3.0, 4.0]], dtype="float32")
    functional_call(net, {"running_mean": mean.astype("float32")}, x)
    assert net.running_mean.tolist() == [0, 0]


def test_an_ensemble_runs_as_one_batch():
    models = [nn.Linear(3, 2) for _ in range(4)]
    parameters, buffers = stack_module_state(models)
    assert parameters["weight"].shape == (4, 2, 3) and parameters["weight"].is_leaf
    assert parameters["weight"].requires_grad and buffers == {}
    x = mg.ones(5, 3)
    y = vmap(lambda p, b: functional_call(models[0], (p, b), x))(parameters, buffers or {})
    np.testing.assert_allclose(y.data, np.stack([m(x).data for m in models]), rtol=1e-6)


@pytest.mark.parametrize("training", [True, False])
def test_an_ensemble_of_batch_norms_has_running_statistics_of_its_own_each(training):
    models = [nn.BatchNorm1d(2) for _ in range(3)]
    for i, model in enumerate(models):
        model.train(training).running_mean.copy_(np.full(2, i))
    parameters, buffers = stack_module_state(models)
    x = np.random.default_rng(0).normal(size=(3, 4, 2, 5)).astype(np.float32)
    run = lambda p, b, x: functional_call(models[0], (p, b), (x,))
    y = vmap(run)(parameters, buffers, mg.tensor(x))
    alone = [model(mg.tensor(x[i])).data for i, model in enumerate(models)]
    np.testing.assert_allclose(y.data, np.stack(alone), rtol=1e-4, atol=1e-6)
    for name, stacked in buffers.items():
        theirs = [model.state_dict()[name] for model in models]
        np.testing.assert_allclose(stacked.data, np.stack(theirs), rtol=1e-5, err_msg=name)


def test_modules_of_different_forms_are_not_stacked():
    with pytest.raises(TransformError, match="weight has the shapes"):
        stack_module_state([nn.Linear(3, 2), nn.Linear(3, 3)])
    with pytest.raises(TransformError, match="one class"):
        stack_module_state([nn.Linear(3, 2), nn.ReLU()])
    with pytest.raises(TransformError, match="no module"):
        stack_module_state([])
    with pytest.raises(TransformError, match="train"):
        stack_module_state([nn.Linear(3, 2), nn.Linear(3, 2).eval()])
    parts = [nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)) for _ in range(2)]
    parts[1][1].eval()
    with pytest.raises(TransformError, match="'1' is in both"):
        stack_module_state(parts)
    for layers in ([True, False], [False, True]):
        with pytest.raises(TransformError, match="bias has the shapes"):
            stack_module_state([nn.Linear(3, 2, bias=bias) for bias in layers])


@pytest.mark.parametrize("frozen", [(0,), (1,), (0, 2)])
def test_a_parameter_frozen_in_some_modules_only_is_not_stacked(frozen):
    models = [nn.Linear(3, 2) for _ in range(3)]
    for i in frozen:
        models[i].weight.requires_grad_(False)
    with pytest.raises(TransformError, match=re.escape(f"weight is frozen in modules {[*frozen]}")):
        stack_module_state(models)
    for model in models:
        model.weight.requires_grad_(False)
    parameters, _ = stack_module_state(models)
    assert not parameters["weight"].requires_grad and parameters["bias"].requires_grad


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_per_sample_gradients_of_a_module_are_those_of_each_example(chunk_size):
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    rng = np.random.default_rng(0)
    x, target = mg.tensor(rng.normal(size=(5, 1, 4, 4)), dtype="float32"), rng.integers(0, 3, 5)
    gs = per_sample_grad(net, mg.cross_entropy, chunk_size=chunk_size)(x, target)
    for i in range(5):
        net.zero_grad()
        mg.cross_entropy(net(x[i : i + 1]), target[i : i + 1]).backward()
        for path, p in net.named_parameters():
            np.testing.assert_allclose(gs[path].data[i], p.grad.data, rtol=1e-4, atol=1e-6)


def test_per_sample_gradients_of_a_function_have_the_form_of_its_parameters():
    f = lambda p, x, y: ((p["w"] * x).sum() + p["b"] - y) ** 2
    p = {"w": mg.tensor([1.0, 2.0]), "b": mg.tensor(0.5)}
    x, y = mg.tensor([[1.0, 1.0], [2.0, 0.0], [0.0, 1.0]]), mg.zeros(3)
    g = per_sample_grad(f)(p, x, y)
    errors = x.data @ p["w"].data + 0.5
    np.testing.assert_allclose(g["b"].data, 2 * errors)
    np.testing.assert_allclose(g["w"].data, 2 * errors[:, None] * x.data)


def test_frozen_parameters_have_no_per_sample_gradient():
    net = nn.Linear(2, 1)
    net.bias.requires_grad = False
    assert set(per_sample_grad(net, mg.mse)(mg.ones(3, 2), mg.ones(3, 1))) == {"weight"}


def test_dropout_in_a_mapped_model_needs_a_word():
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    with pytest.raises(TransformError, match="randomness"):
        per_sample_grad(net, mg.mse)(mg.ones(3, 2), mg.ones(3, 2))
    per_sample_grad(net, mg.mse, randomness="different")(mg.ones(3, 2), mg.ones(3, 2))


def test_what_is_no_module_and_no_dict_of_tensors_is_refused_with_what_to_pass():
    net = nn.Linear(2, 1)
    with pytest.raises(TypeError, match="functional_call takes a module first.* got 3"):
        functional_call(3, {}, mg.ones(1, 2))
    for given in (net.parameters(), [3]):
        with pytest.raises(TypeError, match=r"path to tensor.*dict\(module.named_parameters"):
            functional_call(net, given, mg.ones(1, 2))
    for argument, message in (
        (net, r"For a module take its parameters.*functional_call\(module, p, x\)"),
        (nn.ParameterDict({"a": np.ones(2)}), "For a module take its parameters"),
        (net.named_parameters(), r"Pass what it gives as a list or dict"),
        (MappingProxyType({"a": mg.ones(2)}), r"Pass it as a dict, dict\(x\)"),
    ):
        with pytest.raises(TypeError, match=message):
            grad(lambda p: mg.ones(()))(argument)
