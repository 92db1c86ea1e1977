"""Losses, gradients and parameters that are not finite: a step goes back, or says so."""

import inspect
import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad import optim

pytestmark = pytest.mark.promise(
    "LBFGS goes back to the last finite loss; an optimizer that writes NaN says so"
)

OPTIMIZERS = [
    name
    for name, kind in vars(optim).items()
    if inspect.isclass(kind) and issubclass(kind, optim.Optimizer) and kind is not optim.Optimizer
]
WITHOUT_CLOSURE = [name for name in OPTIMIZERS if name != "LBFGS"]
SEARCHES = [None, "strong_wolfe"]


def entropy(x):
    return (x * mg.log(x)).sum()


def barrier(x):
    return (x - mg.sqrt(x - 0.3)).sum()


def closure_of(optimizer, x, f, evaluated=None):
    def closure():
        optimizer.zero_grad()
        with np.errstate(all="ignore"):
            loss = f(x)
            loss.backward()
        if evaluated is not None:
            evaluated.append(x.numpy().copy())
        return loss

    return closure


@pytest.mark.parametrize("options", [{}, {"max_iter": 1}, {"max_iter": 3}])
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("f, minimum", [(entropy, np.exp(-1)), (barrier, 0.55)])
def test_lbfgs_steps_back_to_where_the_loss_is_finite(search, options, f, minimum):
    x = mg.tensor([0.5, 2.0], requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn=search, **options)
    for _ in range(60):
        optimizer.step(closure_of(optimizer, x, f))
    np.testing.assert_allclose(x.numpy(), minimum, rtol=1e-4)


@pytest.mark.parametrize("search", SEARCHES)
def test_lbfgs_with_steps_far_too_long_stays_where_the_loss_is_finite(search):
    x = mg.tensor([0.5, 2.0], requires_grad=True)
    optimizer = optim.LBFGS([x], lr=10.0, line_search_fn=search)
    for _ in range(10):
        optimizer.step(closure_of(optimizer, x, entropy))
    assert np.isfinite(x.numpy()).all() and (search is None or (x.numpy() < 0.4).all())


@pytest.mark.parametrize("search", SEARCHES)
def test_lbfgs_that_meets_no_finite_loss_stays_at_the_last_one_and_warns(search):
    x, start = mg.tensor([1.0, -2.0], requires_grad=True), np.array([1.0, -2.0])

    def f(x):
        return (x * x).sum() if np.array_equal(x.numpy(), start) else (x * np.nan).sum()

    optimizer = optim.LBFGS([x], line_search_fn=search)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        optimizer.step(closure_of(optimizer, x, f))
    np.testing.assert_array_equal(x.numpy(), start)
    if search is None:  # a line search ends at its start, which is a step of length 0
        assert "is not finite along the direction of the step" in str(told[-1].message)


@pytest.mark.parametrize("search", SEARCHES)
def test_lbfgs_leaves_parameters_alone_whose_loss_is_not_finite(search):
    x = mg.tensor([-1.0, 2.0], requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn=search)
    with pytest.warns(RuntimeWarning, match="at the parameters given, which stay as they are"):
        optimizer.step(closure_of(optimizer, x, entropy))
    assert x.tolist() == [-1.0, 2.0]


def test_a_step_that_was_not_evaluated_is_taken_back_by_the_next_after_a_reload():
    x = mg.tensor([0.5, 2.0], requires_grad=True)
    optimizer = optim.LBFGS([x], max_iter=1, lr=30.0)
    optimizer.step(closure_of(optimizer, x, entropy))
    assert (x.numpy() < 0).any()
    resumed = optim.LBFGS([x], max_iter=1, lr=30.0)
    resumed.load_state_dict(optimizer.state_dict())
    points = []
    resumed.step(closure_of(resumed, x, entropy, points))
    assert (points[0] < 0).any() and (points[-1] > 0).all()


@pytest.mark.parametrize("size", [3, 1 << 14, (1 << 17) + 5])
@pytest.mark.parametrize("name", WITHOUT_CLOSURE)
def test_an_optimizer_that_writes_a_nan_warns_once(name, size):
    shape = (size, 1) if name == "Muon" else (size,)
    x, other = (mg.tensor(np.ones(shape, np.float32), requires_grad=True) for _ in range(2))
    optimizer = getattr(optim, name)([x, other])
    told = []
    for step in range(4):
        x.grad = mg.tensor(np.full(shape, 0.1 if step < 1 else np.nan, np.float32))
        other.grad = mg.tensor(np.full(shape, 0.1, np.float32))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            optimizer.step()
        told.append([str(warning.message) for warning in caught])
    assert not told[0] and not told[2] and not told[3]
    [message] = told[1]
    assert message.startswith(f"{name}.step(): parameters hold NaN or infinite numbers now")


def test_large_finite_parameters_are_no_cause_for_a_warning():
    x = mg.tensor(np.full(5, 1e30, np.float32), requires_grad=True)
    x.grad = mg.tensor(np.ones(5, np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optim.SGD([x], lr=0.1).step()


def test_each_part_of_a_large_parameter_is_looked_at_in_turn():
    values = np.ones(1 << 18, np.float32)
    values[-1] = np.nan
    x = mg.tensor(values, requires_grad=True)
    optimizer = optim.SGD([x], lr=0.1)
    with pytest.warns(RuntimeWarning, match="parameters hold NaN"):
        for _ in range(4):
            x.grad = mg.tensor(np.zeros(1 << 18, np.float32))
            optimizer.step()
