"""A saved schedule goes on with the options that it was made with, whoever loads it."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import minigrad as mg
from minigrad import optim
from minigrad.optim import lr_scheduler as ours

# schedules are looked at by themselves here: no optimizer is stepped before
pytestmark = [
    pytest.mark.promise(
        "a saved schedule, PyTorch's too, goes on with the options that it was made with",
        "a damaged state of an optimizer, a schedule or averages is one clear error and changes "
        "nothing",
    ),
    pytest.mark.filterwarnings("ignore:.*before the first"),
]


class Decay:
    """A function of the count with a state of its own."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, t):
        return self.rate**t


def sequence(module, opt, name, first, second, milestones):
    made = [getattr(module, kind)(opt, **options) for kind, options in (first, second)]
    if name == "ChainedScheduler":
        return module.ChainedScheduler(made)
    return module.SequentialLR(opt, made, milestones)


# name: (options of the one that is saved, those of the one that loads it)
CASES = {
    "StepLR": ({"step_size": 3, "gamma": 0.5}, {"step_size": 1}),
    "MultiStepLR": ({"milestones": [4, 9, 9, 12], "gamma": 0.5}, {"milestones": [1]}),
    "ConstantLR": ({"factor": 0.25, "total_iters": 9}, {}),
    "LinearLR": ({"start_factor": 0.1, "end_factor": 0.8, "total_iters": 12}, {}),
    "ExponentialLR": ({"gamma": 0.9}, {"gamma": 0.1}),
    "PolynomialLR": ({"total_iters": 15, "power": 2.0}, {}),
    "CosineAnnealingLR": ({"T_max": 17, "eta_min": 0.01}, {"T_max": 5}),
    "CosineAnnealingWarmRestarts": ({"T_0": 3, "T_mult": 2, "eta_min": 0.01}, {"T_0": 7}),
    "LambdaLR": ({"lr_lambda": Decay(0.9)}, {"lr_lambda": Decay(0.5)}),
    "MultiplicativeLR": ({"lr_lambda": Decay(0.99)}, {"lr_lambda": Decay(0.5)}),
    "OneCycleLR": (
        {
            "max_lr": [0.7, 0.3], "total_steps": 60, "pct_start": 0.2, "anneal_strategy": "linear",
            "base_momentum": 0.7, "max_momentum": 0.99, "div_factor": 10, "final_div_factor": 50,
            "three_phase": True,
        },
        {"max_lr": 0.1, "total_steps": 10},
    ),
    "CyclicLR": (
        {
            "base_lr": 0.01, "max_lr": 0.2, "step_size_up": 7, "step_size_down": 3,
            "mode": "exp_range", "gamma": 0.95, "base_momentum": 0.7, "max_momentum": 0.99,
        },
        {"base_lr": 0.1, "max_lr": 0.3, "step_size_up": 2},
    ),
    "CyclicLR without momentum": (
        {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 4, "cycle_momentum": False},
        {"base_lr": 0.1, "max_lr": 0.3, "step_size_up": 2},
    ),
    "SWALR": (
        {"swa_lr": 0.05, "anneal_epochs": 12, "anneal_strategy": "linear"},
        {"swa_lr": 0.5, "anneal_epochs": 1},
    ),
    "SequentialLR": (
        {
            "first": ("ConstantLR", {"factor": 0.1, "total_iters": 4}),
            "second": ("ExponentialLR", {"gamma": 0.9}), "milestones": [8],
        },
        {
            "first": ("ConstantLR", {}),
            "second": ("ExponentialLR", {"gamma": 0.5}), "milestones": [2],
        },
    ),
    "SequentialLR that cycles": (
        {
            "first": ("LambdaLR", {"lr_lambda": lambda t: math.sqrt(1 + t)}),
            "second": ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 3}),
            "milestones": [8],
        },
        {
            "first": ("LambdaLR", {"lr_lambda": lambda t: math.sqrt(1 + t)}),
            "second": ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.3, "step_size_up": 9}),
            "milestones": [2],
        },
    ),
    "ChainedScheduler": (
        {
            "first": ("ConstantLR", {"factor": 0.1, "total_iters": 9}),
            "second": ("ExponentialLR", {"gamma": 0.9}), "milestones": None,
        },
        {
            "first": ("ConstantLR", {}),
            "second": ("ExponentialLR", {"gamma": 0.5}), "milestones": None,
        },
    ),
}  # fmt: skip


def optimizer():
    groups = [{"params": [mg.ones(2, requires_grad=True)], "lr": lr} for lr in (0.1, 0.02)]
    return optim.SGD(groups, lr=0.1, momentum=0.9)


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def torchs_optimizer(torch):
    groups = [{"params": [torch.ones(2, requires_grad=True)], "lr": lr} for lr in (0.1, 0.02)]
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9)


def schedules_of(torch):
    swa = {"SWALR": torch.optim.swa_utils.SWALR}
    return SimpleNamespace(**vars(torch.optim.lr_scheduler) | swa)


def made(module, name, options, opt):
    name = name.split()[0]
    if "second" in options:
        return sequence(module, opt, name, **options)
    options = {
        key: Decay(value.rate) if isinstance(value, Decay) else value
        for key, value in options.items()
    }
    return getattr(module, name)(opt, **options)


def told(opt):
    return [(group["lr"], group["momentum"]) for group in opt.param_groups]


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_state_brings_its_options(name):
    one, two = optimizer(), optimizer()
    first, second = (
        made(ours, name, options, opt) for options, opt in zip(CASES[name], (one, two))
    )
    for _ in range(6):
        first.step()
    two.load_state_dict(one.state_dict())
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for _ in range(20):
        assert told(two) == told(one)
        first.step(), second.step()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:Detected call of")
def test_a_state_that_pytorch_saved_brings_its_options(name, torch):
    theirs, mine = torchs_optimizer(torch), optimizer()
    saved, own = CASES[name]
    first, second = made(schedules_of(torch), name, saved, theirs), made(ours, name, own, mine)
    for _ in range(6):
        theirs.step(), first.step()
    mine.load_state_dict(theirs.state_dict())
    second.load_state_dict(first.state_dict())
    for _ in range(20):
        np.testing.assert_allclose(told(mine), told(theirs), rtol=1e-9)
        first.step(), second.step()


@pytest.mark.parametrize("name", CASES)
def test_a_state_is_a_copy(name):
    opt = optimizer()
    schedule = made(ours, name, CASES[name][0], opt)
    before = schedule.state_dict()
    text = json.dumps(before)
    for _ in range(12):
        schedule.step()
    assert json.dumps(before) == text
    schedule.load_state_dict(before)
    for _ in range(12):
        schedule.step()
    assert json.dumps(before) == text


# Made by PyTorch 2.13: {name: {"groups": the optimizer's, "state": the schedule's after six steps,
# "rates": (lr, momentum) of each group there and after each of the 20 steps that follow}}
RECORDED = json.loads(Path(__file__).with_name("schedules_of_torch_2_13.json").read_text())


def test_every_case_was_recorded():
    assert RECORDED.keys() == CASES.keys()


@pytest.mark.parametrize("name", RECORDED)
def test_a_state_recorded_from_pytorch_brings_its_options(name):
    recorded, opt = RECORDED[name], optimizer()
    schedule = made(ours, name, CASES[name][1], opt)
    for group, saved in zip(opt.param_groups, recorded["groups"], strict=True):
        group.update(saved)
    schedule.load_state_dict(recorded["state"])
    for rates in recorded["rates"]:
        np.testing.assert_allclose(told(opt), rates, rtol=1e-9)
        schedule.step()


PLATEAU = {"mode": "max", "factor": 0.5, "patience": 1, "threshold": 0.3, "cooldown": 1}
PLATEAU |= {"threshold_mode": "abs", "min_lr": [0.01, 0.004], "eps": 1e-3}
METRICS = [1.0, 1.2, 1.1, 1.5, 1.6, 1.6, 1.7, 1.2, 1.1, 2.3, 2.2, 2.1, 2.0, 1.9, 1.8, 1.7, 1.6]


@pytest.mark.parametrize("saved_by", ["ours", "PyTorch"])
def test_a_loaded_plateau_brings_its_options_and_learning_rates(saved_by, torch):
    theirs = saved_by == "PyTorch"
    one, two = torchs_optimizer(torch) if theirs else optimizer(), optimizer()
    first = (schedules_of(torch) if theirs else ours).ReduceLROnPlateau(one, **PLATEAU)
    second = ours.ReduceLROnPlateau(two, patience=5)
    for metric in METRICS[:6]:
        first.step(metric)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for metric in METRICS[6:]:
        assert told(two) == told(one)
        first.step(metric), second.step(metric)
    assert told(two)[0][0] < 0.1, "no plateau was reached"


def test_a_fraction_of_an_epoch_that_pytorch_saved_is_gone_on_from(torch):
    theirs, mine = torchs_optimizer(torch), optimizer()
    first = schedules_of(torch).CosineAnnealingWarmRestarts(theirs, 3, 2)
    second = ours.CosineAnnealingWarmRestarts(mine, 5)
    theirs.step(), first.step(4.25)
    second.load_state_dict(first.state_dict())
    for _ in range(9):
        np.testing.assert_allclose(told(mine), told(theirs), rtol=1e-9)
        first.step(), second.step()


class Own(ours.LRScheduler):
    """One of a user's, which holds more than numbers."""

    def __init__(self, opt, warm, model=None, best=None):
        self.warm, self.model, self.seen, self.best = warm, model, [], best
        super().__init__(opt)

    def lr(self, base, t):
        return base * min(1.0, (t + 1) / self.warm)

    def step(self):
        self.seen.append(len(self.seen))
        self.found = {"at": (1, 2)}
        super().step()


def test_a_users_schedule_is_saved_with_its_attributes_but_no_objects():
    model, other = mg.nn.Linear(2, 2), mg.nn.Linear(2, 2)
    first, second = Own(optimizer(), 8, model, best=math.inf), Own(optimizer(), 2, other)
    first.step(), first.step()
    second.load_state_dict(first.state_dict())
    assert (second.warm, second.seen, second.best) == (8, [0, 1], math.inf)
    assert second.found == {"at": (1, 2)} and second.model is other
    assert second.get_last_lr() == first.get_last_lr()


def test_a_state_replaces_no_optimizer_and_no_method():
    schedule = ours.StepLR(optimizer(), 3)
    optimizer_of, step = schedule.optimizer, schedule.step
    state = {**schedule.state_dict(), "optimizer": 1, "step": 2, "lr": 3, "schedulers": [4]}
    schedule.load_state_dict(state)
    assert schedule.optimizer is optimizer_of and schedule.step == step
    assert not schedule.schedulers and callable(schedule.lr)


def test_a_state_of_other_groups_or_parts_changes_nothing():
    one = optim.SGD([mg.ones(2, requires_grad=True)], lr=0.1, momentum=0.9)
    schedule = ours.CyclicLR(one, 0.01, 0.2)
    state = {**schedule.state_dict(), "max_lrs": [0.1, 0.2]}
    with pytest.raises(ValueError, match="2 values of max_lrs given, 1 needed"):
        schedule.load_state_dict(state)
    assert schedule.state_dict()["max_lrs"] == [0.2]
    parts = made(ours, "ChainedScheduler", CASES["ChainedScheduler"][0], optimizer())
    with pytest.raises(ValueError, match="1 schedules given, 2 needed"):
        parts.load_state_dict({**parts.state_dict(), "_schedulers": [{"last_epoch": 1}]})


def test_a_state_from_before_options_were_saved_goes_on_with_the_schedules_own():
    opt = optimizer()
    schedule = ours.StepLR(opt, 2, gamma=0.5)
    schedule.load_state_dict({"last_epoch": 5, "base_lrs": [0.1, 0.02], "_last_lr": [0.025, 0.005]})
    schedule.step()
    np.testing.assert_allclose(schedule.get_last_lr(), [0.0125, 0.0025])


def test_a_group_added_after_loading_is_scheduled_by_the_loaded_options():
    opt = optimizer()
    schedule = ours.SWALR(opt, 0.5, anneal_epochs=1)
    schedule.load_state_dict(ours.SWALR(optimizer(), 0.05, anneal_epochs=4).state_dict())
    opt.add_param_group({"params": [mg.ones(1, requires_grad=True)], "lr": 0.3})
    for _ in range(4):
        schedule.step()
    np.testing.assert_allclose(schedule.get_last_lr(), 0.05)


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_state_changes_neither_schedule_nor_learning_rates(name):
    schedule = made(ours, name, CASES[name][0], optimizer())
    before = repr((schedule.state_dict(), schedule.optimizer.param_groups))
    damaged = 0
    for key in schedule.state_dict():
        state = {**schedule.state_dict(), "last_epoch": 3, key: [["x"]]}
        try:
            schedule.load_state_dict(state)
        except ValueError as error:
            assert "load_state_dict" in str(error)
            assert repr((schedule.state_dict(), schedule.optimizer.param_groups)) == before
            damaged += 1
        else:  # a text is as good as another where nothing is reckoned with it
            schedule = made(ours, name, CASES[name][0], optimizer())
    assert damaged
