"""A schedule stepped before its optimizer's first step is told so; no other order is."""

import copy
import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad import optim
from minigrad.amp import GradScaler
from minigrad.optim import lr_scheduler as schedules

MAKE = {
    "LambdaLR": lambda o: schedules.LambdaLR(o, lambda t: 0.9**t),
    "MultiplicativeLR": lambda o: schedules.MultiplicativeLR(o, lambda t: 0.9),
    "StepLR": lambda o: schedules.StepLR(o, 1),
    "MultiStepLR": lambda o: schedules.MultiStepLR(o, [1]),
    "ConstantLR": schedules.ConstantLR,
    "LinearLR": schedules.LinearLR,
    "ExponentialLR": lambda o: schedules.ExponentialLR(o, 0.9),
    "PolynomialLR": schedules.PolynomialLR,
    "CosineAnnealingLR": lambda o: schedules.CosineAnnealingLR(o, 10),
    "CosineAnnealingWarmRestarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 10),
    "CyclicLR": lambda o: schedules.CyclicLR(o, 0.01, 0.1),
    "OneCycleLR": lambda o: schedules.OneCycleLR(o, 0.1, total_steps=10),
    "SWALR": lambda o: schedules.SWALR(o, 0.01),
    "ReduceLROnPlateau": schedules.ReduceLROnPlateau,
    "ChainedScheduler": lambda o: schedules.ChainedScheduler(
        [schedules.ConstantLR(o), schedules.ExponentialLR(o, 0.9)]
    ),
    "SequentialLR": lambda o: schedules.SequentialLR(
        o, [schedules.ConstantLR(o), schedules.ExponentialLR(o, 0.9)], [3]
    ),
}


def made(name="StepLR", kind=optim.SGD):
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    x.grad = np.ones(2)
    optimizer = kind([x], lr=0.1, momentum=0.9) if kind is optim.SGD else kind([x], lr=0.1)
    return optimizer, MAKE[name](optimizer)


def step(schedule):
    schedule.step(*[1.0] * isinstance(schedule, schedules.ReduceLROnPlateau))


def test_every_schedule_of_the_module_is_tried_here():
    assert {*MAKE, "LRScheduler"} == {*schedules.__all__}


@pytest.mark.parametrize("name", MAKE)
def test_a_schedule_that_is_stepped_first_warns_once_with_the_users_line(name):
    _, schedule = made(name)
    with pytest.warns(UserWarning, match=rf"^{name}.step\(\) before the first SGD.step") as seen:
        step(schedule)
    assert len(seen) == 1 and seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(schedule)


@pytest.mark.parametrize("name", MAKE)
def test_after_the_optimizer_nothing_is_said(name):
    optimizer, schedule = made(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            optimizer.step()
            step(schedule)


def nothing_said(schedule):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(schedule)


@pytest.mark.parametrize("name", MAKE)
def test_a_run_that_goes_on_from_a_saved_state_may_begin_with_either(name):
    optimizer, schedule = made(name)
    optimizer.step()
    step(schedule)
    for load_optimizer, load_schedule in ((True, True), (True, False), (False, True)):
        new, again = made(name)
        if load_optimizer:
            new.load_state_dict(optimizer.state_dict())
        if load_schedule:
            again.load_state_dict(schedule.state_dict())
        nothing_said(again)


def test_one_made_with_last_epoch_goes_on():
    optimizer, _ = made()
    nothing_said(schedules.StepLR(optimizer, 1, last_epoch=0))


def test_a_step_that_the_scaler_left_out_counts():
    optimizer, schedule = made()
    optimizer.param_groups[0]["params"][0].grad = np.array([np.inf, 1.0])
    scaler = GradScaler()
    scaler.step(optimizer)
    scaler.update()
    assert optimizer.param_groups[0]["params"][0].tolist() == [1, 2]
    nothing_said(schedule)


def test_a_step_without_gradients_and_one_with_a_closure_count():
    for optimizer, schedule in (made(), made(kind=optim.LBFGS)):
        x = optimizer.param_groups[0]["params"][0]
        x.grad = None
        optimizer.step(lambda x=x: (x * x).sum())
        nothing_said(schedule)


def test_a_copy_of_an_optimizer_has_taken_its_steps():
    optimizer, _ = made()
    optimizer.step()
    nothing_said(schedules.StepLR(copy.deepcopy(optimizer), 1))


def test_an_optimizer_that_has_a_step_of_the_users_is_left_alone():
    class Own:
        def step(self):
            """Never comes to Optimizer.step."""

    class Mixed(Own, optim.SGD):
        pass

    nothing_said(made(kind=lambda *args, **kwargs: Mixed(*args, **kwargs))[1])
    optimizer, schedule = made()
    optimizer.step = lambda: None
    nothing_said(schedule)


def test_a_count_that_is_given_skips_nothing():
    _, schedule = made("CosineAnnealingWarmRestarts")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step(0.0)
