"""Optimizers step as PyTorch's do, in place, and can be saved and resumed."""

import copy

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn, optim

pytestmark = pytest.mark.promise(
    "layers, losses, optimizers and schedules compute as PyTorch's on its weights"
)

SETTINGS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.2, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05, "betas": (0.7, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "amsgrad": True, "maximize": True}),
    ("AdamW", {"lr": 0.05}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "momentum_decay": 0.1}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.05}),
    ("RAdam", {"lr": 0.05, "betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.05, "alpha": 0.8, "weight_decay": 0.1, "momentum": 0.9}),
    ("RMSprop", {"lr": 0.05, "centered": True, "momentum": 0.5, "maximize": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 1}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.1, "lambd": 0.3, "alpha": 0.6, "t0": 5, "weight_decay": 0.1}),
    ("ASGD", {"lr": 0.1, "t0": 0, "maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.3, 1.7), "step_sizes": (0.05, 0.2), "maximize": True}),
]
ALL = [*SETTINGS, ("Lion", {}), ("Lion", {"lr": 0.1, "betas": (0.8, 0.9), "weight_decay": 0.1})]


def leaf(data, dtype=np.float64):
    return mg.tensor(np.asarray(data, dtype), requires_grad=True)


def step_with(optimizer, p, g):
    p.grad = mg.tensor(g)
    optimizer.step()


@pytest.fixture
def torch():
    """PyTorch with states in float64: it keeps NAdam's product and ASGD's rates as tensors."""
    torch = pytest.importorskip("torch")
    torch.set_default_dtype(torch.float64)
    yield torch
    torch.set_default_dtype(torch.float32)


def step_both(ours, theirs, p, p_torch, g, torch):
    p_torch.grad = torch.tensor(g)
    theirs.step()
    step_with(ours, p, g)


@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_twenty_five_steps_equal_pytorchs(name, options, torch):
    rng = np.random.default_rng(0)
    start = rng.standard_normal((3, 4))
    p, p_torch = leaf(start), torch.tensor(start, requires_grad=True)
    ours = getattr(optim, name)([p], **options)
    theirs = getattr(torch.optim, name)([p_torch], **options)
    for _ in range(25):
        g = rng.standard_normal((3, 4))
        step_both(ours, theirs, p, p_torch, g, torch)
        assert np.array_equal(p.grad.numpy(), g), "a step must leave the gradient as it was"
    np.testing.assert_allclose(p.data, p_torch.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize(("name", "options"), SETTINGS)
def test_a_run_that_pytorch_began_goes_on(name, options, dtype, torch):
    rng = np.random.default_rng(0)
    gradients = rng.standard_normal((12, 3)).astype(dtype) * (1 + 1j if dtype is complex else 1)
    p_torch = torch.tensor(gradients[0], requires_grad=True)
    theirs = getattr(torch.optim, name)([p_torch], **options)
    for g in gradients[:6]:
        p_torch.grad = torch.tensor(g)
        theirs.step()
    p = leaf(p_torch.detach().numpy().copy(), dtype)
    ours = getattr(optim, name)([p])
    ours.load_state_dict(theirs.state_dict())
    for g in gradients[6:]:
        step_both(ours, theirs, p, p_torch, g, torch)
    np.testing.assert_allclose(p.data, p_torch.detach().numpy(), rtol=1e-12)


def test_the_rates_of_asgd_follow_a_schedule_as_pytorchs_do(torch):
    p, p_torch = leaf(np.ones(3)), torch.ones(3, requires_grad=True)
    ours, theirs = optim.ASGD([p], lr=0.5), torch.optim.ASGD([p_torch], lr=0.5)
    for i in range(20):
        for optimizer in (ours, theirs):
            optimizer.param_groups[0]["lr"] = 0.5 / (i + 1)
        step_both(ours, theirs, p, p_torch, np.full(3, 0.1 * i), torch)
    np.testing.assert_allclose(p.data, p_torch.detach().numpy(), rtol=1e-12)


def test_parameters_with_rates_of_their_own_share_no_pack(torch):
    """Both have made two steps when they meet, but the last ones with different learning rates."""
    pairs = [(leaf(np.ones(2)), torch.ones(2, requires_grad=True)) for _ in range(2)]
    ours = optim.ASGD([p for p, _ in pairs], lr=0.5)
    theirs = torch.optim.ASGD([p for _, p in pairs], lr=0.5)
    for i, which in enumerate([(0, 1), (0,), (1,), (0, 1), (0, 1)]):
        for place, (p, p_torch) in enumerate(pairs):
            p.grad = mg.ones(2, dtype=mg.float64) if place in which else None
            p_torch.grad = torch.ones(2) if place in which else None
        for optimizer in (ours, theirs):
            optimizer.param_groups[0]["lr"] = 0.5 / (i + 1)
            optimizer.step()
    for p, p_torch in pairs:
        np.testing.assert_allclose(p.data, p_torch.detach().numpy(), rtol=1e-12)
    assert pairs[0][0].data[0] != pairs[1][0].data[0]


@pytest.mark.parametrize("loaded", [False, True])
def test_momentum_switched_on_later_begins_as_pytorchs_does(loaded, torch):
    rng = np.random.default_rng(0)
    p, p_torch = leaf([1.0, -2.0]), torch.tensor([1.0, -2.0], dtype=torch.float64)
    p_torch.requires_grad_()
    ours = optim.SGD([p], lr=0.1, dampening=0.5)
    theirs = torch.optim.SGD([p_torch], lr=0.1, dampening=0.5)
    for step in range(6):
        momentum = {2: 0.9, 4: 0.0, 5: 0.5}.get(step, ours.param_groups[0]["momentum"])
        if loaded:
            ours.load_state_dict(theirs.state_dict())
        ours.param_groups[0]["momentum"] = theirs.param_groups[0]["momentum"] = momentum
        step_both(ours, theirs, p, p_torch, rng.standard_normal(2), torch)
        np.testing.assert_allclose(p.data, p_torch.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "RMSprop", "Lion"])
def test_choices_of_an_implementation_are_taken_and_change_nothing(name):
    plain, chosen = leaf([1.0, -2.0]), leaf([1.0, -2.0])
    step_with(getattr(optim, name)([plain]), plain, np.ones(2))
    step_with(getattr(optim, name)([chosen], foreach=False, fused=True), chosen, np.ones(2))
    assert plain.tolist() == chosen.tolist()
    with pytest.raises(TypeError, match="differentiable"):
        getattr(optim, name)([plain], differentiable=True)


@pytest.mark.parametrize(("name", "options"), ALL)
def test_a_step_writes_into_the_parameters_own_memory(name, options):
    p = leaf(np.ones(5), np.float32)
    memory = p.data
    step_with(getattr(optim, name)([p], **options), p, np.ones(5, np.float32))
    assert p.data is memory and p.data.dtype == np.float32
    assert p.is_leaf and p.requires_grad


@pytest.mark.parametrize(("name", "options"), ALL)
def test_large_and_strided_parameters_step_like_small_ones(name, options):
    rng = np.random.default_rng(0)
    start, gradients = rng.standard_normal((60, 5000)), rng.standard_normal((3, 60, 5000))
    whole = leaf(start)  # in blocks, on threads
    turned = leaf(start.T.copy())
    rows = [leaf(start[0, i : i + 100]) for i in range(0, 5000, 100)]  # fifty in one pack
    apart = [getattr(optim, name)(p, **options) for p in (whole, turned, rows)]
    for g in gradients:
        step_with(apart[0], whole, g)
        step_with(apart[1], turned, g.T)
        for i, p in enumerate(rows):
            p.grad = mg.tensor(g[0, 100 * i : 100 * (i + 1)])
        apart[2].step()
    assert not np.array_equal(whole.data, start)
    assert np.array_equal(whole.data, turned.data.T)
    assert np.array_equal(whole.data[0], np.concatenate([p.data for p in rows]))


def test_lion_follows_the_paper():
    rng = np.random.default_rng(0)
    x, m = rng.standard_normal(50), np.zeros(50)
    p = leaf(x)
    optimizer = optim.Lion([p], lr=0.01, betas=(0.9, 0.99), weight_decay=0.1)
    for _ in range(12):
        g = rng.standard_normal(50)
        step_with(optimizer, p, g)
        update = np.sign(0.9 * m + 0.1 * g)
        x = x - 0.01 * (update + 0.1 * x)
        m = 0.99 * m + 0.01 * g
    np.testing.assert_allclose(p.data, x, rtol=1e-12)


def test_a_pack_follows_parameters_that_come_and_go():
    rng = np.random.default_rng(0)
    together, apart = [leaf(np.ones(3)) for _ in range(4)], [leaf(np.ones(3)) for _ in range(4)]
    one, others = optim.Adam(together), [optim.Adam([p]) for p in apart]
    for step in range(8):
        for i, (p, q) in enumerate(zip(together, apart, strict=True)):
            g = rng.standard_normal(3)
            p.grad = q.grad = None if (step, i) in ((2, 1), (3, 1), (5, 0)) else mg.tensor(g)
        one.step()
        for other in others:
            other.step()
    for p, q in zip(together, apart, strict=True):
        assert np.array_equal(p.data, q.data)


@pytest.mark.parametrize("name", ["SGD", "Adam", "ASGD", "Rprop"])
def test_complex_parameters_step_as_pytorchs_do(name, torch):
    rng = np.random.default_rng(0)
    start = rng.standard_normal((3, 2)) + 1j * rng.standard_normal((3, 2))
    p, p_torch = leaf(start, np.complex128), torch.tensor(start, requires_grad=True)
    ours = getattr(optim, name)([p], lr=0.1)
    theirs = getattr(torch.optim, name)([p_torch], lr=0.1)
    for _ in range(20):
        g = rng.standard_normal((3, 2)) + 1j * rng.standard_normal((3, 2))
        step_both(ours, theirs, p, p_torch, g, torch)
    np.testing.assert_allclose(p.data, p_torch.detach().numpy(), rtol=1e-12)


def test_the_average_of_asgd_is_that_of_the_parameters_from_step_t0_plus_2_on():
    rng = np.random.default_rng(0)
    p, seen = leaf(np.ones(3)), []
    optimizer = optim.ASGD([p], lr=0.1, t0=2)
    for _ in range(10):
        step_with(optimizer, p, rng.standard_normal(3))
        seen.append(p.data.copy())
    (state,) = optimizer.state_dict()["state"].values()
    np.testing.assert_allclose(state["ax"], np.mean(seen[3:], axis=0))


def test_rprop_stays_where_the_gradient_turns_and_halves_its_step():
    p = leaf([0.0])
    optimizer = optim.Rprop([p], lr=1.0)
    places = []
    for g in (1.0, 1.0, -1.0, -1.0):
        step_with(optimizer, p, np.array([g]))
        places.append(p.item())
    np.testing.assert_allclose(places, [-1, -2.2, -2.2, -1.6])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_parameters_step_in_float32(dtype):
    p, q = leaf([1.0, -2.0], np.float32), mg.tensor([1.0, -2.0], dtype=dtype, requires_grad=True)
    fine, coarse = optim.Adam([p], lr=0.1), optim.Adam([q], lr=0.1)
    for _ in range(3):
        p.grad = mg.tensor([1e-6, 0.5], dtype=mg.float32)
        q.grad = mg.tensor([1e-6, 0.5], dtype=dtype)
        fine.step(), coarse.step()
    assert q.dtype == mg.zeros(1, dtype=dtype).dtype
    np.testing.assert_allclose(q.data.astype(np.float32), p.data, rtol=0.02)


def test_a_step_is_a_write_that_a_waiting_backward_notices():
    p = leaf(np.ones(3))
    optimizer = optim.SGD([p])
    y = (p * p).sum()
    step_with(optimizer, p, np.ones(3))
    with pytest.raises(mg.errors.InPlaceError, match=r"SGD.step\(\)"):
        y.backward()


def test_a_closure_is_called_with_gradients_on_and_its_loss_returned():
    p = leaf([3.0])
    optimizer = optim.SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with mg.no_grad():
        assert optimizer.step(closure).item() == 9
    assert p.item() == 0


def test_a_copied_optimizer_steps_its_own_parameters():
    p = leaf(np.ones(3))
    optimizer = optim.Adam([p], lr=0.1)
    step_with(optimizer, p, np.ones(3))
    twin, q = copy.deepcopy((optimizer, p))
    step_with(twin, q, np.full(3, -1.0))
    step_with(optimizer, p, np.full(3, -1.0))
    assert np.array_equal(p.data, q.data) and p.data is not q.data


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


@pytest.mark.parametrize(("name", "options"), ALL)
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
        (lambda: optim.SGD([]), "SGD got no parameters.*attributes that are nn.Parameter"),
        (lambda: optim.SGD([leaf([1.0]) * 2]), r"params\[0\] is the result of <mul"),
        (lambda: optim.SGD([leaf([1.0])], lr=-1), "lr must be 0 or more, got -1"),
        (lambda: optim.SGD([leaf([1.0])], nesterov=True), "nesterov needs a momentum"),
        (lambda: optim.Adam([leaf([1.0])], betas=(0.9, 1.0)), r"betas must be in \[0, 1\)"),
        (lambda: optim.Adam([leaf([1.0])], eps=float("nan")), "eps must be 0 or more, got nan"),
        (lambda: optim.ASGD([leaf([1.0])], weight_decay=-1), "weight_decay must be 0 or more"),
        (lambda: optim.Rprop([leaf([1.0])], etas=(1.2, 0.5)), "above 1.*got .1.2, 0.5"),
        (lambda: optim.Rprop([leaf([1.0])], step_sizes=(1, 0)), "least, largest.*got .1, 0"),
    ],
)
def test_wrong_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_parameter_given_twice_is_refused():
    p = leaf([1.0])
    with pytest.raises(ValueError, match=r"params\[1\] is given twice"):
        optim.SGD([p, p])


def test_an_option_of_a_group_that_is_spelt_wrong_is_refused():
    for wrong, right in (("momentun", "momentum"), ("weight_decy", "weight_decay")):
        with pytest.raises(TypeError, match=f"no option '{wrong}'; it has '{right}'"):
            optim.SGD([{"params": [leaf([1.0])], wrong: 1}])


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
