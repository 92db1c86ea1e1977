"""What goes from one device to another: states of models and optimizers, values that are written.

Each runs on the stand-in of CuPy, and where there is a GPU on that.
"""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim

both = pytest.mark.parametrize("where", ["fake", "gpu"])
ways = pytest.mark.parametrize("source, target", [("cpu", "cuda"), ("cuda", "cpu")])


def small_model(device):
    # the same weights in each run: Muon's step makes the roundings of a small singular value large
    mg.manual_seed(0)
    # without the bias, whose gradient is rounding alone: Adam would make steps of it
    return nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.Linear(4, 2)).to(
        device=device
    )


def on_host(state):
    return {path: mg.as_tensor(value).to("cpu").numpy() for path, value in state.items()}


def stepped(model, make, count=1):
    """An optimizer of the model after some steps."""
    optimizer = make(model.parameters())
    for _ in range(count):
        step(model, optimizer)
    return optimizer


def step(model, optimizer):
    optimizer.zero_grad()
    x = mg.linspace(-1, 1, 15, device=model[0].weight.device).reshape(5, 3)
    mg.sum(model(x) ** 2).backward()
    optimizer.step()


@both
@ways
@pytest.mark.parametrize("assign", [False, True])
def test_a_model_takes_the_state_of_one_on_another_device(where, source, target, assign, request):
    request.getfixturevalue(where)
    theirs, ours = small_model(source), small_model(target)
    ours.load_state_dict(theirs.state_dict(), assign=assign)
    for path, value in on_host(theirs.state_dict()).items():
        np.testing.assert_array_equal(on_host(ours.state_dict())[path], value)
    where_now = source if assign else target  # with assign the arrays themselves are taken
    assert ours[0].weight.device.startswith(where_now)


MAKES = {
    "SGD": lambda params: optim.SGD(params, lr=0.1, momentum=0.9),
    "Adam": lambda params: optim.Adam(params, lr=0.1),
    "Adagrad": lambda params: optim.Adagrad(params, lr=0.1),
    "Muon": lambda params: optim.Muon([p for p in params if p.ndim == 2], lr=0.1),
}


@both
@ways
@pytest.mark.parametrize("name", MAKES)
def test_an_optimizer_goes_on_from_a_state_of_another_device(where, source, target, name, request):
    request.getfixturevalue(where)
    theirs, ours = small_model(source), small_model(target)
    ours.load_state_dict(theirs.state_dict())
    first = stepped(theirs, MAKES[name], 2)
    second = MAKES[name](ours.parameters())
    second.load_state_dict(first.state_dict())
    ours.load_state_dict(theirs.state_dict())
    for model, optimizer in ((theirs, first), (ours, second)):
        step(model, optimizer)
    for path, value in on_host(theirs.state_dict()).items():
        np.testing.assert_allclose(on_host(ours.state_dict())[path], value, 1e-5, 1e-6)


@both
@ways
@pytest.mark.parametrize("name", MAKES)
def test_an_optimizers_state_follows_a_model_that_moves(where, source, target, name, request):
    request.getfixturevalue(where)
    stays, moves = small_model("cpu"), small_model(source)
    stays.load_state_dict(moves.state_dict())
    kept, followed = stepped(stays, MAKES[name]), stepped(moves, MAKES[name])
    moves.to(device=target)
    step(stays, kept), step(moves, followed)
    for path, value in on_host(stays.state_dict()).items():
        np.testing.assert_allclose(on_host(moves.state_dict())[path], value, 1e-5, 1e-6)


VALUES = {
    "a tensor": lambda device: mg.tensor([5.0, 6.0], device=device),
    "an array": lambda device: mg.tensor([5.0, 6.0], device=device).data,
    "a list": lambda device: [5.0, 6.0],
}


@both
@ways
@pytest.mark.parametrize("value", VALUES)
def test_a_write_takes_values_from_another_device(where, source, target, value, request):
    request.getfixturevalue(where)
    x = mg.zeros(3, device=target)
    x[1:] = VALUES[value](source)
    assert x.device.startswith(target)
    assert x.tolist() == [0, 5, 6]
    y = mg.zeros(2, device=target)
    y.copy_(VALUES[value](source))
    assert y.tolist() == [5, 6]


@both
@ways
def test_the_gradient_of_a_value_that_is_written_comes_home(where, source, target, request):
    request.getfixturevalue(where)
    value = mg.tensor([5.0, 6.0], device=source, requires_grad=True)
    x = mg.zeros(3, device=target)
    x[1:] = value
    (x * mg.tensor([1.0, 2.0, 3.0], device=target)).sum().backward()
    assert value.grad.device.startswith(source)
    assert value.grad.tolist() == [2, 3]


@both
@pytest.mark.parametrize("pin_memory", [False, True])
def test_in_save_on_cpu_what_nodes_save_lies_on_the_host_until_the_backward(
    where, pin_memory, request
):
    request.getfixturevalue(where)
    x = mg.tensor([[0.5, -1.0], [2.0, 3.0]], device="cuda", requires_grad=True)
    with mg.save_on_cpu(pin_memory):
        y = mg.exp(x).T
    (kept,) = y.node.parents[0].saved.values
    assert type(kept.packed[0]) is np.ndarray and kept.packed[1] == x.device
    y.sum().backward()
    assert x.grad.device == x.device
    np.testing.assert_allclose(x.grad.to("cpu").numpy(), np.exp(x.detach().to("cpu").numpy()))


@both
def test_on_a_gpu_too_saved_tensors_may_be_changed_where_that_is_allowed(where, request):
    request.getfixturevalue(where)
    x = mg.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    with mg.allow_mutation_on_saved_tensors():
        y = x * 3.0
        loss = (y * y).sum()
        y.data[...] = 0.0
    loss.backward()
    assert x.grad.tolist() == [18.0, 36.0]
