"""Schedules give PyTorch's learning rates, may be resumed, and say what is wrong."""

import json

import numpy as np
import pytest

import minigrad as mg
from minigrad import optim
from minigrad.optim import lr_scheduler as ours

# schedules are looked at by themselves here: no optimizer is stepped before
pytestmark = [
    pytest.mark.promise(
        "layers, losses, optimizers and schedules compute as PyTorch's on its weights"
    ),
    pytest.mark.filterwarnings("ignore:.*before the first"),
]

CASES = {
    "StepLR": {"step_size": 3, "gamma": 0.5},
    "MultiStepLR": {"milestones": [2, 5, 5, 40], "gamma": 0.5},
    "ConstantLR": {"factor": 0.25, "total_iters": 4},
    "LinearLR": {"start_factor": 0.1, "end_factor": 0.8, "total_iters": 6},
    "LinearLR down to 0": {"start_factor": 1.0, "end_factor": 0.0, "total_iters": 20},
    "ExponentialLR": {"gamma": 0.9},
    "PolynomialLR": {"total_iters": 8, "power": 2.0},
    "CosineAnnealingLR": {"T_max": 7, "eta_min": 0.01},
    "CosineAnnealingWarmRestarts": {"T_0": 3, "T_mult": 2, "eta_min": 0.01},
    "CosineAnnealingWarmRestarts of equal length": {"T_0": 5},
    "LambdaLR": {"lr_lambda": lambda t: 0.95**t},
    "LambdaLR by group": {"lr_lambda": (lambda t: 0.95**t, lambda t: 1 / (1 + t))},
    "MultiplicativeLR": {"lr_lambda": [lambda t: 0.95, lambda t: 1 - 1 / (2 + t)]},
    "OneCycleLR": {"max_lr": 0.7, "total_steps": 55},
    "OneCycleLR by group": {
        "max_lr": [0.7, 0.3], "total_steps": 60, "base_momentum": (0.7, 0.8),
        "max_momentum": [0.9, 0.95], "pct_start": 0.0,
    },
    "OneCycleLR three phases": {
        "max_lr": 0.7, "epochs": 5, "steps_per_epoch": 11, "three_phase": True,
        "anneal_strategy": "linear", "pct_start": 0.4,
    },
    "CyclicLR": {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 7},
    "CyclicLR triangular2": {
        "base_lr": [0.01, 0.02], "max_lr": [0.2, 0.3], "step_size_up": 7, "step_size_down": 3,
        "mode": "triangular2", "base_momentum": 0.7, "max_momentum": 0.99,
    },
    "CyclicLR exp_range": {
        "base_lr": 0.01, "max_lr": 0.2, "step_size_up": 4, "step_size_down": 9,
        "mode": "exp_range", "gamma": 0.97,
    },
    "CyclicLR own function": {
        "base_lr": 0.01, "max_lr": 0.2, "step_size_up": 4, "scale_mode": "iterations",
        "scale_fn": lambda t: 1 / (1 + t), "cycle_momentum": False,
    },
    "SWALR": {"swa_lr": 0.05},
    "SWALR linear": {"swa_lr": [0.05, 0.2], "anneal_epochs": 20, "anneal_strategy": "linear"},
    "SWALR at once": {"swa_lr": 0.05, "anneal_epochs": 0},
}  # fmt: skip


def optimizer(kind=None, **options):
    """Two groups, of learning rates 0.5 and 0.1."""
    p, q = (mg.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    return (kind or optim.Adam)([{"params": [p], "lr": 0.5}, {"params": [q]}], lr=0.1, **options)


def rates(opt):
    return [(g["lr"], *g.get("betas", ())[:1], g.get("momentum", 0)) for g in opt.param_groups]


def trace(make, opt, steps=50):
    schedule = make(opt)
    seen = []
    for _ in range(steps):
        seen.append(rates(opt))
        opt.step()
        schedule.step()
    return seen


@pytest.fixture
def theirs():
    """PyTorch's module of schedules, with SWALR, which is elsewhere."""
    pytest.importorskip("torch")
    from torch.optim import lr_scheduler, swa_utils

    return type("schedules", (), {**vars(lr_scheduler), "SWALR": swa_utils.SWALR})


@pytest.fixture
def both():
    """(our optimizer, PyTorch's) with equal groups."""
    torch = pytest.importorskip("torch")

    def make(name="Adam"):
        p, q = (torch.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
        groups = [{"params": [p], "lr": 0.5}, {"params": [q]}]
        return optimizer(getattr(optim, name)), getattr(torch.optim, name)(groups, lr=0.1)

    return make


def made(name):
    """The case as a function of the module and the optimizer."""
    return lambda module, opt: getattr(module, name.split()[0])(opt, **CASES[name])


@pytest.mark.parametrize("kind", ["Adam", "SGD"])
@pytest.mark.parametrize("name", CASES)
def test_rates_equal_pytorchs(name, kind, both, theirs):
    mine, peer = both(kind)
    expected = trace(lambda opt: made(name)(theirs, opt), peer)
    got = trace(lambda opt: made(name)(ours, opt), mine)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore")  # PyTorch's, of step(epoch)
@pytest.mark.parametrize("name", ["StepLR", "CosineAnnealingLR", "LambdaLR", "PolynomialLR"])
def test_a_schedule_may_be_told_its_epoch(both, theirs, name):
    mine, peer = both()
    schedules = [made(name)(module, opt) for module, opt in ((ours, mine), (theirs, peer))]
    for epoch in (None, 4, None, 7, 2, None, 0, None):
        for schedule in schedules:
            schedule.step(*([] if epoch is None else [epoch]))
        np.testing.assert_allclose(rates(mine), rates(peer), rtol=1e-9, atol=1e-12)


def test_warm_restarts_may_be_stepped_by_parts_of_an_epoch(both, theirs):
    mine, peer = both()
    schedules = [module.CosineAnnealingWarmRestarts(opt, T_0=3, T_mult=2)
                 for module, opt in ((ours, mine), (theirs, peer))]  # fmt: skip
    for i in range(50):
        for schedule in schedules:
            schedule.step(*([i / 4] if i < 40 else []))
        np.testing.assert_allclose(rates(mine), rates(peer), rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="epoch must be 0 or more, got -1"):
        schedules[0].step(-1)


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 2},
        {"mode": "max", "patience": 1, "cooldown": 2, "threshold_mode": "abs", "threshold": 0.05},
        {"patience": 0, "factor": 0.5, "min_lr": 0.1},
        {"patience": 1, "factor": 0.5, "min_lr": (0.1, 0.01), "eps": 0.02},
    ],
)
def test_the_plateau_is_noticed_as_pytorch_does(options, both, theirs):
    metrics = 1 + np.round(np.random.default_rng(0).random(50), 1) + 2 / np.arange(1, 51)
    mine, peer = both("SGD")
    plateau, other = (
        kind.ReduceLROnPlateau(opt, **options) for kind, opt in ((ours, mine), (theirs, peer))
    )
    for i, metric in enumerate(metrics):
        if i == 25:
            saved, plateau = other.state_dict(), ours.ReduceLROnPlateau(mine, **options)
            plateau.load_state_dict(saved)
        plateau.step(metric), other.step(metric)
        np.testing.assert_allclose(rates(mine), rates(peer), err_msg=f"step {i}")
    assert rates(mine)[0] != rates(optimizer(optim.SGD))[0], "no plateau was reached"


@pytest.mark.parametrize("name", CASES)
def test_a_saved_schedule_goes_on_where_it_was(name):
    one, two = optimizer(), optimizer()
    first, second = made(name)(ours, one), made(name)(ours, two)
    for _ in range(5):
        first.step()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert rates(two) == rates(one)
    first.step(), second.step()
    assert rates(two) == rates(one)


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_that_pytorch_saved_goes_on(name, both, theirs):
    mine, peer = both()
    first, second = made(name)(theirs, peer), made(name)(ours, mine)
    for _ in range(17):
        first.step()
    second.load_state_dict(first.state_dict())
    for _ in range(20):
        first.step(), second.step()
        np.testing.assert_allclose(rates(mine), rates(peer), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_made_anew_with_last_epoch_is_where_it_would_be(name):
    one, two = optimizer(), optimizer()
    first = made(name)(ours, one)
    for _ in range(5):
        first.step()
    two.load_state_dict(one.state_dict())
    kind = getattr(ours, name.split()[0])
    second = kind(two, **CASES[name], last_epoch=4)
    assert second.last_epoch == 5 and rates(two) == rates(one)
    first.step(), second.step()
    assert rates(two) == rates(one)


def test_last_epoch_needs_the_rate_at_the_start():
    with pytest.raises(KeyError, match="group 0 has no 'initial_lr' to go on from"):
        ours.StepLR(optimizer(), step_size=1, last_epoch=3)


def test_a_cycle_that_is_over_says_so():
    schedule = ours.OneCycleLR(optimizer(), max_lr=1.0, total_steps=2)
    schedule.step(), schedule.step()
    with pytest.raises(ValueError, match="step 3 of 2"):
        schedule.step()


def test_a_model_in_place_of_an_optimizer_is_refused():
    with pytest.raises(TypeError, match="StepLR takes an optimizer, got 3"):
        ours.StepLR(3, step_size=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda opt: ours.LambdaLR(opt, [abs] * 3), "LambdaLR: 3 values of lr_lambda for 2 groups"),
        (lambda opt: ours.MultiplicativeLR(opt, [abs]), "MultiplicativeLR: 1 values of lr_lambda"),
        (lambda opt: ours.ConstantLR(opt, factor=2), "factor must be from 0 to 1, got 2"),
        (
            lambda opt: ours.LinearLR(opt, start_factor=0),
            r"start_factor must be in \(0, 1\].*got 0",
        ),
        (lambda opt: ours.LinearLR(opt, total_iters=0), "total_iters must be 1 or more, got 0"),
        (lambda opt: ours.PolynomialLR(opt, total_iters=0), "total_iters must be 1 or more"),
        (lambda opt: ours.CosineAnnealingWarmRestarts(opt, 0), "T_0 and T_mult must be 1 or more"),
        (lambda opt: ours.CyclicLR(opt, 0.1, 0.2, mode="square"), "mode is 'triangular'.*'square'"),
        (lambda opt: ours.CyclicLR(opt, 0.1, (0.2,)), "1 values of max_lr for 2 groups"),
        (lambda opt: ours.OneCycleLR(opt, 0.1), "give total_steps, or epochs and steps_per_epoch"),
        (lambda opt: ours.OneCycleLR(opt, 0.1, 10, pct_start=2), "pct_start from 0 to 1; got 10"),
        (lambda opt: ours.OneCycleLR(opt, 0.1, 0), "at least one step"),
        (lambda opt: ours.SWALR(opt, 0.1, anneal_strategy="exp"), "'cos' or 'linear', got 'exp'"),
        (lambda opt: ours.SWALR(opt, 0.1, anneal_epochs=-1), "anneal_epochs must be 0 or more"),
        (lambda opt: ours.ReduceLROnPlateau(opt, min_lr=[0.1]), "1 values of min_lr for 2 groups"),
    ],
)
def test_wrong_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make(optimizer())


@pytest.mark.parametrize("name", ["OneCycleLR", "CyclicLR"])
def test_a_momentum_to_cycle_must_be_there(name):
    with pytest.raises(ValueError, match=f"{name}: no momentum to cycle; pass cycle_momentum=Fals"):
        made(name)(ours, optimizer(optim.Adagrad))


def test_a_top_in_the_first_step_is_there_at_once():
    opt = optimizer()
    ours.OneCycleLR(opt, max_lr=1.0, total_steps=10, pct_start=0.1)
    assert opt.param_groups[0]["lr"] == 1.0


def test_a_plateau_counts_on_from_the_epoch_that_it_is_told(both):
    plateau = ours.ReduceLROnPlateau(both()[0])
    plateau.step(1.0, 7)
    plateau.step(1.0)
    assert plateau.last_epoch == 8


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda o: ours.StepLR(o, 0), "StepLR: step_size must be above 0, got 0"),
        (lambda o: ours.StepLR(o, "3"), "StepLR: step_size must be a number, .* got '3'"),
        (lambda o: ours.CosineAnnealingLR(o, 0), "CosineAnnealingLR: T_max must be above 0, got"),
        (lambda o: ours.CyclicLR(o, 0.1, 1, 0), "CyclicLR: step_size_up must be above 0, got 0"),
        (lambda o: ours.MultiStepLR(o, 3), r"counts of steps, such as \[30, 80\]; got 3"),
        (lambda o: ours.LambdaLR(o, 0.9), "LambdaLR: lr_lambda is a function .*; got 0.9"),
    ],
)
def test_a_length_that_no_schedule_can_have_is_named(make, said):
    with pytest.raises((TypeError, ValueError), match=said):
        make(optimizer())


def test_a_plateau_schedule_says_whether_it_cools_down():
    optimizer = mg.optim.SGD([mg.zeros(1, requires_grad=True)], lr=1.0)
    schedule = mg.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, cooldown=1)
    seen = []
    for metric in (1.0, 1.0, 1.0):
        schedule.step(metric)
        seen.append(schedule.in_cooldown)
    assert seen == [False, True, False]


def test_a_constant_of_no_steps_leaves_the_learning_rates():
    opt = optimizer()
    schedule = ours.ConstantLR(opt, factor=0.25, total_iters=0)
    for _ in range(3):
        assert [lr for lr, *_ in rates(opt)] == [0.5, 0.1]
        opt.step()
        schedule.step()
