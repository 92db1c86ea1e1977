"""Schedules take in the groups that an optimizer is given later, when a layer is unfrozen, say."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import optim
from minigrad.optim import lr_scheduler as ours

# schedules are looked at by themselves here: no optimizer is stepped before
pytestmark = pytest.mark.filterwarnings("ignore:.*before the first")

SCALED = {  # those that scale the lr there is, for which PyTorch takes groups in too
    "StepLR": {"step_size": 2, "gamma": 0.5},
    "MultiStepLR": {"milestones": [2, 4], "gamma": 0.5},
    "ConstantLR": {"factor": 0.25, "total_iters": 4},
    "LinearLR": {"start_factor": 0.1, "total_iters": 6},
    "ExponentialLR": {"gamma": 0.9},
    "PolynomialLR": {"total_iters": 20, "power": 2.0},
}


def rates(name, options, module, optimizers, tensor):
    """The rates of a group from the start and of one that comes after three steps."""
    optimizer = optimizers.SGD([tensor([1.0], requires_grad=True)], lr=0.5)
    schedule, seen = getattr(module, name)(optimizer, **options), []
    for t in range(8):
        if t == 3:
            optimizer.add_param_group({"params": [tensor([2.0], requires_grad=True)], "lr": 0.1})
        optimizer.step()
        schedule.step(*([1.0] if name == "ReduceLROnPlateau" else []))
        seen.extend(group["lr"] for group in optimizer.param_groups)
    return seen


@pytest.mark.parametrize("name", [*SCALED, "ReduceLROnPlateau"])
def test_a_later_group_is_scaled_as_pytorch_does(name):
    torch = pytest.importorskip("torch")
    options = SCALED.get(name, {"patience": 1, "factor": 0.5, "min_lr": 0.02})
    expected = rates(name, options, torch.optim.lr_scheduler, torch.optim, torch.tensor)
    found = rates(name, options, ours, optim, mg.tensor)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "options", "last"),
    [
        ("LambdaLR", {"lr_lambda": lambda t: 1 / (1 + t)}, 0.1 / 9),
        ("MultiplicativeLR", {"lr_lambda": lambda t: 0.5}, 0.1 * 0.5**5),
        ("CosineAnnealingWarmRestarts", {"T_0": 8}, 0.1),
        ("CyclicLR", {"base_lr": 0.2, "max_lr": 1, "step_size_up": 4, "cycle_momentum": False},
         0.2),
        ("OneCycleLR", {"max_lr": 1.0, "total_steps": 9, "cycle_momentum": False}, 4e-6),
        ("SWALR", {"swa_lr": 0.05, "anneal_epochs": 6}, 0.05),
    ],
)  # fmt: skip
def test_a_later_group_is_scheduled_from_its_own_rate_or_by_the_cycles(name, options, last):
    assert rates(name, options, ours, optim, mg.tensor)[-1] == pytest.approx(last)


def test_a_sequence_takes_a_later_group_into_all_its_parts():
    optimizer = optim.SGD([mg.tensor([1.0], requires_grad=True)], lr=0.5)
    parts = [ours.LinearLR(optimizer, 0.5, 1.0, 4), ours.StepLR(optimizer, 1, 0.1)]
    schedule = ours.SequentialLR(optimizer, parts, milestones=[4])
    optimizer.add_param_group({"params": [mg.tensor([1.0], requires_grad=True)], "lr": 0.1})
    for _ in range(5):
        schedule.step()
    assert schedule.get_last_lr() == pytest.approx([0.05, 0.01])


def test_values_given_by_group_ask_for_a_new_schedule():
    with pytest.raises(ValueError, match="2 groups by now, and lr_lambda was given for 1; make"):
        rates("LambdaLR", {"lr_lambda": [lambda t: 1.0]}, ours, optim, mg.tensor)
