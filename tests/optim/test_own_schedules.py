"""Schedules that scripts for PyTorch define by get_lr."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.optim import lr_scheduler as ours

# schedules are looked at by themselves here: no optimizer is stepped before
pytestmark = pytest.mark.filterwarnings("ignore:.*before the first")


def kinds(lib):
    """A closed form with an older base name, and one that goes on from the groups' rates."""

    class Warmup(lib._LRScheduler):
        def __init__(self, optimizer, steps, last_epoch=-1):
            self.steps = steps
            super().__init__(optimizer, last_epoch)

        def get_lr(self):
            share = min((self.last_epoch + 1) / self.steps, 1.0)
            return [base * share for base in self.base_lrs]

    class Shrinking(lib.LRScheduler):
        def get_lr(self):
            if self.last_epoch == 0:
                return [group["lr"] for group in self.optimizer.param_groups]
            return [group["lr"] * 0.9 for group in self.optimizer.param_groups]

    return {
        "closed": lambda opt: [Warmup(opt, 5)],
        "going on": lambda opt: [Shrinking(opt)],
        "beside another": lambda opt: [lib.StepLR(opt, 3), Shrinking(opt)],
        "first of two": lambda opt: [lib.SequentialLR(opt, [Warmup(opt, 4), Shrinking(opt)], [4])],
        "chained": lambda opt: [
            lib.ChainedScheduler([Warmup(opt, 4), lib.ExponentialLR(opt, 0.9)])
        ],
    }


def optimizer(lib):
    p, q = (lib.tensor([1.0], requires_grad=True) for _ in range(2))
    return lib.optim.SGD([{"params": [p], "lr": 0.5}, {"params": [q]}], lr=0.1)


def rates(lib, schedulers, kind, halved_at):
    opt = optimizer(lib)
    schedules, seen = kinds(schedulers)[kind](opt), []
    for i in range(10):
        opt.step()
        if i == halved_at:
            opt.param_groups[0]["lr"] /= 2
        for schedule in schedules:
            schedule.step()
        seen.append(schedules[-1].get_last_lr())
    return seen


@pytest.mark.parametrize("halved_at", [None, 6])
@pytest.mark.parametrize("kind", kinds(ours))
def test_rates_equal_pytorchs(kind, halved_at):
    torch = pytest.importorskip("torch")
    expected = rates(torch, torch.optim.lr_scheduler, kind, halved_at)
    np.testing.assert_allclose(rates(mg, ours, kind, halved_at), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["closed", "going on"])
def test_a_saved_one_goes_on(kind):
    first, second = optimizer(mg), optimizer(mg)
    (schedule,), (other,) = kinds(ours)[kind](first), kinds(ours)[kind](second)
    for _ in range(3):
        schedule.step()
    other.load_state_dict(schedule.state_dict())
    for each in (schedule, other):
        each.step()
    assert other.get_last_lr() == schedule.get_last_lr()
