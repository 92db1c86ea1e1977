"""Schedules one after the other, at once, side by side, and beside changes by hand."""

import itertools
import json

import numpy as np
import pytest

import minigrad as mg
from minigrad import optim
from minigrad.optim import lr_scheduler as ours

# schedules are looked at by themselves here: no optimizer is stepped before
pytestmark = pytest.mark.filterwarnings("ignore:.*before the first")

# (the schedule's name, its arguments)
STEP = ("StepLR", {"step_size": 7})
CONSTANT = ("ConstantLR", {"factor": 0.25, "total_iters": 4})
LINEAR = ("LinearLR", {"start_factor": 0.1, "total_iters": 6})
EXPONENTIAL = ("ExponentialLR", {"gamma": 0.9})
POLYNOMIAL = ("PolynomialLR", {"total_iters": 30, "power": 0.5})
COSINE = ("CosineAnnealingLR", {"T_max": 7, "eta_min": 0.01})
LAMBDA = ("LambdaLR", {"lr_lambda": lambda t: 0.95**t})
MULTIPLICATIVE = ("MultiplicativeLR", {"lr_lambda": lambda t: 1 - 1 / (2 + t)})
CYCLE = ("OneCycleLR", {"max_lr": 0.7, "total_steps": 60})
TRIANGLES = ("CyclicLR", {"base_lr": 0.05, "max_lr": 0.4, "step_size_up": 6})
RESTARTS = ("CosineAnnealingWarmRestarts", {"T_0": 5})
SWA = ("SWALR", {"swa_lr": 0.1, "anneal_epochs": 20})
SINGLE = [STEP, CONSTANT, LINEAR, EXPONENTIAL, POLYNOMIAL, COSINE, LAMBDA, MULTIPLICATIVE, CYCLE,
          TRIANGLES, RESTARTS, SWA]  # fmt: skip
PAIRS = list(itertools.permutations(SINGLE, 2))


def sequence(*parts, milestones):
    return "SequentialLR", {"schedulers": parts, "milestones": milestones}


def chain(*parts):
    return "ChainedScheduler", {"schedulers": parts}


JOINED = {
    "warmup": sequence(LINEAR, COSINE, milestones=[4]),
    "three": sequence(CONSTANT, EXPONENTIAL, RESTARTS, milestones=[5, 20]),
    "ended": sequence(POLYNOMIAL, STEP, milestones=[30]),
    "momentum first": sequence(CYCLE, LAMBDA, milestones=[40]),
    "a cycle later, whose first rate is all parts'": sequence(LINEAR, CYCLE, milestones=[5]),
    "products": sequence(MULTIPLICATIVE, EXPONENTIAL, milestones=[10]),
    "weights averaged at the end": sequence(EXPONENTIAL, SWA, milestones=[15]),
    "products at the end": sequence(LINEAR, SWA, MULTIPLICATIVE, milestones=[7, 12]),
    "a cycle, whose base is its own alone": chain(STEP, TRIANGLES, LAMBDA),
    "chain": chain(CONSTANT, COSINE, EXPONENTIAL),
    "chain of a sequence": chain(sequence(LINEAR, COSINE, milestones=[6]), EXPONENTIAL),
}


def names(parts):
    return "-".join(name for name, _ in parts)


def make(module, part, opt):
    name, options = part
    if "schedulers" in options:
        inner = [make(module, other, opt) for other in options["schedulers"]]
        options = {**options, "schedulers": inner}
    return getattr(module, name)(optimizer=opt, **options)


def rates(opt):
    return [(g["lr"], g["betas"][0]) for g in opt.param_groups]


def step_all(opt, schedules):
    opt.step()
    for schedule in schedules:
        schedule.step()


def optimizer(module=optim, tensor=mg.tensor):
    p, q = (tensor([1.0], requires_grad=True) for _ in range(2))
    return module.Adam([{"params": [p], "lr": 0.5}, {"params": [q]}], lr=0.1)


@pytest.fixture
def peer():
    torch = pytest.importorskip("torch")
    return optimizer(torch.optim, torch.tensor)


@pytest.fixture
def theirs():
    """PyTorch's module of schedules, with SWALR, which is elsewhere."""
    pytest.importorskip("torch")
    from torch.optim import lr_scheduler, swa_utils

    return type("schedules", (), {**vars(lr_scheduler), "SWALR": swa_utils.SWALR})


def compare(parts, peer, theirs, by_hand=()):
    """50 steps of ours and PyTorch's; by_hand: steps at which the first group's lr is halved."""
    mine = optimizer()
    first = [make(ours, part, mine) for part in parts]
    second = [make(theirs, part, peer) for part in parts]
    for i in range(50):
        np.testing.assert_allclose(
            rates(mine), rates(peer), rtol=1e-8, atol=1e-12, err_msg=f"step {i}"
        )
        for opt, schedules in ((mine, first), (peer, second)):
            if i in by_hand:
                opt.param_groups[0]["lr"] /= 2
            step_all(opt, schedules)


@pytest.mark.parametrize("name", JOINED)
def test_joined_schedules_equal_pytorchs(name, peer, theirs):
    compare([JOINED[name]], peer, theirs)


@pytest.mark.parametrize("parts", PAIRS, ids=names)
def test_schedules_stepped_side_by_side_equal_pytorchs(parts, peer, theirs):
    compare(parts, peer, theirs)


@pytest.mark.parametrize("parts", PAIRS, ids=names)
def test_chained_schedules_equal_pytorchs(parts, peer, theirs):
    compare([chain(*parts)], peer, theirs)


@pytest.mark.parametrize("part", [*SINGLE, *JOINED.values()], ids=lambda part: part[0])
def test_a_change_by_hand_lasts_where_it_does_in_pytorch(part, peer, theirs):
    compare([part], peer, theirs, by_hand=(3, 11, 12))


JOINED_TWICE = [[part] for part in JOINED.values()] + [[LINEAR, EXPONENTIAL], [COSINE, CONSTANT]]


@pytest.mark.parametrize("saved_by", ["ours", "PyTorch"])
@pytest.mark.parametrize("parts", JOINED_TWICE, ids=names)
def test_saved_schedules_go_on_where_they_were(parts, saved_by, peer, theirs):
    module, opt = (theirs, peer) if saved_by == "PyTorch" else (ours, optimizer())
    first = [make(module, part, opt) for part in parts]
    for _ in range(17):
        step_all(opt, first)
    mine = optimizer()
    second = [make(ours, part, mine) for part in parts]
    for schedule, saved in zip(second, [schedule.state_dict() for schedule in first], strict=True):
        schedule.load_state_dict(json.loads(json.dumps(saved)) if saved_by == "ours" else saved)
    for group, saved in zip(mine.param_groups, opt.param_groups, strict=True):
        group["betas"] = saved["betas"]  # which the optimizer's state carries
    for _ in range(20):
        np.testing.assert_allclose(rates(mine), rates(opt), rtol=1e-8, atol=1e-12)
        step_all(opt, first), step_all(mine, second)


def test_a_cycle_inside_a_sequence_moves_the_momentum_too():
    opt = optimizer()
    schedule = make(ours, sequence(LAMBDA, CYCLE, milestones=[3]), opt)
    seen = []
    for _ in range(20):
        seen.append(opt.param_groups[0]["betas"][0])
        schedule.step()
    assert seen[3] == 0.95 and seen[19] < 0.87


def test_a_chain_inside_a_sequence_scales_the_rate_at_its_start():
    opt = optimizer()
    schedule = make(ours, sequence(STEP, chain(CONSTANT, EXPONENTIAL), milestones=[2]), opt)
    seen = []
    for _ in range(8):
        seen.append(opt.param_groups[1]["lr"])
        schedule.step()
    factors = [1, 1, *[0.25 * 0.9**t for t in range(4)], 0.9**4, 0.9**5]
    np.testing.assert_allclose(seen, 0.1 * np.array(factors))


def test_schedules_that_do_not_belong_together_are_refused():
    one, other = optimizer(), optimizer()
    first, second = ours.ExponentialLR(one, 0.9), ours.ExponentialLR(other, 0.9)
    plateau = ours.ReduceLROnPlateau(one)
    for module in (
        lambda parts: ours.SequentialLR(one, parts, [3]),
        lambda parts: ours.ChainedScheduler(parts, one),
    ):
        with pytest.raises(ValueError, match=r"schedulers\[1\] belongs to another optimizer"):
            module([first, second])
        with pytest.raises(ValueError, match=r"schedulers\[1\] is ReduceLROnPlateau"):
            module([first, plateau])
        with pytest.raises(ValueError, match="got no schedules"):
            module([])
    with pytest.raises(ValueError, match="2 schedules need 1 milestones, got 2"):
        ours.SequentialLR(one, [first, first], [3, 4])
