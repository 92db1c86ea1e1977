"""What an optimizer is given: names that it has not are answered with those it has."""

import pytest

import minigrad as mg
from minigrad import optim
from minigrad.errors import StateError

pytestmark = pytest.mark.promise(
    "a class made or used in a wrong way, and a layer given tensors or wrong names, get "
    "an error that names the fix"
)

P = mg.ones(3, requires_grad=True)


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: optim.Adam([P], learning_rate=0.1), "'learning_rate'; here it is lr="),
        (lambda: optim.SGD([P], learning_rate=0.1, foreach=True), "here it is lr="),
        (lambda: optim.Adam([P], beta1=0.9), "Adam: got an .* 'beta1'; here it is betas="),
        (lambda: optim.SGD([P], 0.1, decay=1), "SGD: .*'decay'; its arguments are params, lr, mo"),
        (
            lambda: optim.lr_scheduler.ReduceLROnPlateau(optim.SGD([P], 0.1), verbose=True),
            "ReduceLROnPlateau: .*'verbose'; its arguments are optimizer, mode, ",
        ),
        (lambda: optim.Adam(lr=0.1), "Adam: missing a required argument: 'params'"),
    ],
)
def test_a_name_that_an_optimizer_has_not_is_answered_with_those_it_has(make, said):
    with pytest.raises(TypeError, match=said):
        make()


@pytest.mark.parametrize("betas", [(0.9,), (0.9, 0.99, 0.999), 0.9])
def test_betas_are_two(betas):
    with pytest.raises(TypeError, match="Adam: betas are two decay rates, such as"):
        optim.Adam([P], betas=betas)


def test_a_rate_is_one_number():
    with pytest.raises(TypeError, match="Adam: lr must be a number, 0 or more; got tensor"):
        optim.Adam([P], lr=mg.tensor([0.1, 0.2]))
    assert optim.Adam([P], lr=mg.tensor(0.1)).param_groups[0]["lr"] == 0.1


NOT_NEGATIVE = {
    "Adadelta": "lr rho eps weight_decay",
    "Adafactor": "lr weight_decay",
    "Adagrad": "lr lr_decay weight_decay initial_accumulator_value eps",
    "Adam": "lr eps weight_decay",
    "ASGD": "lr weight_decay",
    "LBFGS": "lr",
    "Lion": "lr weight_decay",
    "Muon": "lr weight_decay momentum eps",
    "NAdam": "lr eps weight_decay momentum_decay",
    "RMSprop": "lr alpha eps weight_decay momentum",
    "Rprop": "lr",
    "SGD": "lr momentum weight_decay",
}


@pytest.mark.parametrize(
    ("kind", "option"),
    [(kind, name) for kind, names in NOT_NEGATIVE.items() for name in names.split()],
)
def test_a_negative_option_is_refused_by_its_name(kind, option):
    with pytest.raises(ValueError, match=f"{kind}: {option} must be .* got -0.5"):
        getattr(optim, kind)([mg.ones(2, 2, requires_grad=True)], **{option: -0.5})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: optim.Adafactor(p, eps=1e-3), "Adafactor: eps are two numbers"),
        (lambda p: optim.Muon(p, ns_coefficients=(1, 2)), "Muon: ns_coefficients are three"),
        (lambda p: optim.Rprop(p, etas=0.5), "Rprop: etas are two factors"),
        (lambda p: optim.Adam(p, betas=("0.9", "0.999")), "Adam: betas are two decay rates"),
    ],
)
def test_an_option_of_several_numbers_says_how_many(make, said):
    with pytest.raises(TypeError, match=said):
        make([mg.ones(2, 2, requires_grad=True)])


OPTIMIZER = optim.SGD([mg.ones(2, requires_grad=True)], lr=0.1)


@pytest.mark.parametrize(
    "loader",
    [
        OPTIMIZER,
        optim.LBFGS([mg.ones(2, requires_grad=True)]),
        optim.EMA([mg.ones(2)]),
        optim.lr_scheduler.StepLR(OPTIMIZER, 3),
        optim.lr_scheduler.ReduceLROnPlateau(OPTIMIZER),
        optim.lr_scheduler.ChainedScheduler([optim.lr_scheduler.StepLR(OPTIMIZER, 3)]),
    ],
    ids=lambda loader: type(loader).__name__,
)
@pytest.mark.parametrize("state", [{"weight": mg.ones(2)}, None])
def test_what_is_no_saved_state_is_answered_with_what_it_holds(loader, state):
    name = type(loader).__name__
    with pytest.raises(StateError, match=f"{name}.load_state_dict: needs what its state_dict"):
        loader.load_state_dict(state)


def test_a_schedule_among_schedules_is_one():
    with pytest.raises(TypeError, match=r"SequentialLR: schedulers\[0\] is no schedule, got 3"):
        optim.lr_scheduler.SequentialLR(OPTIMIZER, [3, 4], [1])


def test_one_cycle_divides_by_no_zero():
    with pytest.raises(ValueError, match="OneCycleLR: div_factor must be above 0, got 0"):
        optim.lr_scheduler.OneCycleLR(OPTIMIZER, 0.1, total_steps=10, div_factor=0)
