"""Optimizers step as PyTorch's do, in place, and can be saved and resumed."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim

SETTINGS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.2}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05, "betas": (0.7, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
]


def leaf(data, dtype=np.float64):
    return mg.tensor(np.asarray(data, dtype), requires_grad=True)


def step_with(optimizer, p, g):
    p.grad = mg.tensor(g)
    optimizer.step()


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_ten_steps_equal_pytorchs(name, options):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    start = rng.standard_normal((3, 4))
    p, p_torch = leaf(start), torch.tensor(start, requires_grad=True)
    ours = getattr(optim, name)([p], **options)
    theirs = getattr(torch.optim, name)([p_torch], **options)
    for _ in range(10):
        g = rng.standard_normal((3, 4))
        p_torch.grad = torch.tensor(g)
        theirs.step()
        step_with(ours, p, g)
        assert np.array_equal(p.grad.numpy(), g), "a step must leave the gradient as it was"
    np.testing.assert_allclose(p.data, p_torch.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_a_step_writes_into_the_parameters_own_memory(name, options):
    p = leaf(np.ones(5), np.float32)
    memory = p.data
    step_with(getattr(optim, name)([p], **options), p, np.ones(5, np.float32))
    assert p.data is memory and p.data.dtype == np.float32
    assert p.is_leaf and p.requires_grad


def test_parameters_without_gradient_stay():
    p, q = leaf([1.0]), leaf([1.0])
    optimizer = optim.SGD([p, q], lr=0.5, weight_decay=1.0)
    step_with(optimizer, p, np.ones(1))
    assert p.item() == 0.0 and q.item() == 1.0


def test_groups_have_options_of_their_own():
    p, q = leaf([1.0]), leaf([1.0])
    optimizer = optim.SGD([{"params": [p]}, {"params": q, "lr": 0.25}], lr=0.5)
    p.grad = q.grad = mg.ones(1)
    optimizer.step()
    assert (p.item(), q.item()) == (0.5, 0.75)
    optimizer.param_groups[0]["lr"] = 0.0
    optimizer.step()
    assert (p.item(), q.item()) == (0.5, 0.5)


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_a_resumed_run_goes_on_as_if_never_stopped(name, options):
    rng = np.random.default_rng(1)
    gradients = rng.standard_normal((6, 3))
    p = leaf(np.ones(3))
    optimizer = getattr(optim, name)([p], **options)
    for g in gradients[:3]:
        step_with(optimizer, p, g)
    q = leaf(p.data)
    resumed = getattr(optim, name)([q])
    resumed.load_state_dict(optimizer.state_dict())
    for g in gradients[3:]:
        step_with(optimizer, p, g)
        step_with(resumed, q, g)
    assert np.array_equal(p.data, q.data)


def test_loading_refuses_other_groups():
    saved = optim.Adam([leaf([1.0]), leaf([1.0])]).state_dict()
    with pytest.raises(ValueError, match=r"groups of \[2\] parameters given, groups of \[1\]"):
        optim.Adam([leaf([1.0])]).load_state_dict(saved)


def test_loading_refuses_state_of_another_shape():
    p = leaf([1.0, 2.0])
    optimizer = optim.Adam([p])
    step_with(optimizer, p, np.ones(2))
    with pytest.raises(ValueError, match=r"exp_avg of parameter 0 has shape \(2,\).*\(1,\)"):
        optim.Adam([leaf([1.0])]).load_state_dict(optimizer.state_dict())


def test_zero_grad_forgets_or_zeroes():
    p = leaf([1.0])
    optimizer = optim.SGD([p])
    p.grad = mg.ones(1)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.item() == 0
    optimizer.zero_grad()
    assert p.grad is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.SGD([]), "SGD got no parameters"),
        (lambda: optim.SGD([leaf([1.0]) * 2]), r"params\[0\] is the result of <mul"),
        (lambda: optim.SGD([leaf([1.0])], lr=-1), "lr must be 0 or more, got -1"),
        (lambda: optim.SGD([leaf([1.0])], nesterov=True), "nesterov needs a momentum"),
        (lambda: optim.Adam([leaf([1.0])], betas=(0.9, 1.0)), r"betas must be in \[0, 1\)"),
        (lambda: optim.Adam([leaf([1.0])], eps=float("nan")), "eps must be 0 or more, got nan"),
    ],
)
def test_wrong_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_parameter_given_twice_is_refused():
    p = leaf([1.0])
    with pytest.raises(ValueError, match=r"params\[1\] is given twice"):
        optim.SGD([p, p])


def test_named_parameters_are_refused_with_a_hint():
    with pytest.raises(TypeError, match=r"not a tensor; pass model.parameters\(\)"):
        optim.SGD(nn.Linear(1, 1).named_parameters())


def test_an_unknown_option_of_a_group_is_refused():
    with pytest.raises(TypeError, match=r"no option \['rate'\]; its options are \['lr'"):
        optim.SGD([{"params": [leaf([1.0])], "rate": 1}])


def test_adam_fits_a_line():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 2)).astype(np.float32)
    target = mg.tensor(x @ np.array([[2.0], [-3.0]], np.float32) + 0.5)
    mg.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        error = model(mg.tensor(x)) - target
        (error * error).mean().backward()
        optimizer.step()
    np.testing.assert_allclose(model.weight.data, [[2.0, -3.0]], atol=0.02)
    np.testing.assert_allclose(model.bias.data, [0.5], atol=0.02)
