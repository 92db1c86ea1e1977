"""Schedules give PyTorch's learning rates, may be resumed, and say what is wrong."""

import json

import numpy as np
import pytest

import minigrad as mg
from minigrad import optim
from minigrad.optim import lr_scheduler as ours

CASES = {
    "StepLR": {"step_size": 3, "gamma": 0.5},
    "MultiStepLR": {"milestones": [2, 5, 5, 9], "gamma": 0.5},
    "ConstantLR": {"factor": 0.25, "total_iters": 4},
    "LinearLR": {"start_factor": 0.1, "end_factor": 0.8, "total_iters": 6},
    "ExponentialLR": {"gamma": 0.9},
    "PolynomialLR": {"total_iters": 8, "power": 2.0},
    "CosineAnnealingLR": {"T_max": 7, "eta_min": 0.01},
    "CosineAnnealingWarmRestarts": {"T_0": 3, "T_mult": 2, "eta_min": 0.01},
    "LambdaLR": {"lr_lambda": lambda t: 0.95**t},
    "OneCycleLR": {"max_lr": 0.7, "total_steps": 20},
    "OneCycleLR three phases": {
        "max_lr": 0.7, "epochs": 2, "steps_per_epoch": 10, "three_phase": True,
        "anneal_strategy": "linear", "pct_start": 0.4,
    },
}  # fmt: skip


def optimizer(kind=None, **options):
    p = mg.tensor([1.0, 2.0], requires_grad=True)
    return (kind or optim.Adam)([{"params": [p], "lr": 0.5}], lr=0.1, **options)


def trace(make, kind, steps=18):
    opt = kind
    schedule = make(opt)
    rates = []
    for _ in range(steps):
        group = opt.param_groups[0]
        rates.append((group["lr"], *group.get("betas", ())[:1]))
        opt.step()
        schedule.step()
    return rates


@pytest.fixture
def both():
    """(our optimizer, PyTorch's) with equal groups."""
    torch = pytest.importorskip("torch")

    def make(name="Adam"):
        p = torch.tensor([1.0, 2.0], requires_grad=True)
        theirs = getattr(torch.optim, name)([{"params": [p], "lr": 0.5}], lr=0.1)
        return optimizer(getattr(optim, name)), theirs

    return make


@pytest.mark.parametrize("name", CASES)
def test_rates_equal_pytorchs(name, both):
    from torch.optim import lr_scheduler as theirs

    mine, peer = both()
    kind, options = name.split()[0], CASES[name]
    expected = trace(lambda opt: getattr(theirs, kind)(opt, **options), peer)
    got = trace(lambda opt: getattr(ours, kind)(opt, **options), mine)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def composed(module, opt):
    warm = module.LinearLR(opt, start_factor=0.1, total_iters=6)
    return module.SequentialLR(opt, [warm, module.CosineAnnealingLR(opt, T_max=10)], [4])


def chained(module, opt):
    warm = module.ConstantLR(opt, factor=0.1, total_iters=3)
    return module.ChainedScheduler([warm, module.ExponentialLR(opt, gamma=0.9)])


@pytest.mark.parametrize("make", [composed, chained])
def test_schedules_compose_as_pytorchs_do(make, both):
    from torch.optim import lr_scheduler as theirs

    mine, peer = both()
    expected = trace(lambda opt: make(theirs, opt), peer, 13)
    got = trace(lambda opt: make(ours, opt), mine, 13)
    np.testing.assert_allclose(got, expected, rtol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 2},
        {"mode": "max", "patience": 1, "cooldown": 2, "threshold_mode": "abs", "threshold": 0.05},
        {"patience": 0, "factor": 0.5, "min_lr": 0.1},
    ],
)
def test_the_plateau_is_noticed_as_pytorch_does(options, both):
    from torch.optim import lr_scheduler as theirs

    metrics = [3.0, 2.0, 2.1, 2.2, 2.0, 1.9999, 2.5, 1.0, 1.0, 1.0, 1.0, 1.5, 1.5, 1.5, 1.5]
    mine, peer = both("SGD")
    ours_, theirs_ = (
        kind.ReduceLROnPlateau(opt, **options) for kind, opt in ((ours, mine), (theirs, peer))
    )
    for metric in metrics:
        ours_.step(metric), theirs_.step(metric)
        assert np.isclose(mine.param_groups[0]["lr"], peer.param_groups[0]["lr"]), metric


@pytest.mark.parametrize("name", CASES)
def test_a_saved_schedule_goes_on_where_it_was(name):
    kind, options = getattr(ours, name.split()[0]), CASES[name]
    one, two = optimizer(), optimizer()
    first, second = kind(one, **options), kind(two, **options)
    for _ in range(5):
        first.step()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert two.param_groups[0]["lr"] == one.param_groups[0]["lr"]
    first.step(), second.step()
    assert two.param_groups[0]["lr"] == one.param_groups[0]["lr"]


def test_a_cycle_that_is_over_says_so():
    schedule = ours.OneCycleLR(optimizer(), max_lr=1.0, total_steps=2)
    schedule.step(), schedule.step()
    with pytest.raises(ValueError, match="step 3 of 2"):
        schedule.step()


def test_a_model_in_place_of_an_optimizer_is_refused():
    with pytest.raises(TypeError, match="StepLR takes an optimizer, got 3"):
        ours.StepLR(3, step_size=1)
