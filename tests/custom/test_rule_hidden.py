"""A user's op whose rule reads what no graph shows: its second derivative is no silent 0."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.custom.shown import is_own
from minigrad.engine.errors import RuleError
from minigrad.engine.registry import numpy_table
from minigrad.engine.registry import op as registry
from minigrad.engine.rule import BEHIND
from minigrad.testing import gradgradcheck

pytestmark = pytest.mark.promise(
    "a Function is an op like any other, and a fast call gives the doorway's results. A "
    "second derivative that it lacks raises, also where no graph shows it"
)

WINDOW = np.array([0.25, 0.5, 0.25])
LEFT = {}
NAME = "reads_something_else"


@pytest.fixture(autouse=True)
def registries_as_before():
    before = dict(numpy_table)
    yield
    registry.__dict__.pop(NAME, None)
    numpy_table.clear()
    numpy_table.update(before)


def left_in_a_dict():
    @mg.primitive(name=NAME)
    def op(x):
        LEFT["e"] = np.exp(x)
        return LEFT["e"]

    op.vjp("x")(lambda g: g * LEFT["e"])
    return op


def left_in_a_closure():
    e = None

    @mg.primitive(name=NAME)
    def op(x):
        nonlocal e
        e = np.exp(x)
        return e + 0.0

    op.vjp("x")(lambda g: g * e)
    return op


def pushed_and_popped():
    stack = []

    @mg.primitive(name=NAME)
    def op(x):
        stack.append(np.exp(x))
        return np.exp(x)

    op.vjp("x")(lambda g: g * stack.pop())
    op.stack = stack
    return op


def made_before():
    e = np.exp(0.5)
    op = mg.primitive(lambda x: np.exp(x), name=NAME)
    op.vjp("x")(lambda g: g * e)
    return op


def partly_shown():
    @mg.primitive(name=NAME)
    def op(x):
        LEFT["half"] = np.exp(x / 2)
        return np.exp(x)

    op.vjp("x")(lambda g, x: g * np.exp(x / 2) * LEFT["half"])
    return op


def of_a_row():
    op = mg.elementwise(np.exp, name=NAME, dx=lambda g: g * LEFT["e"])
    LEFT["e"] = np.exp(0.5)
    return op


def with_a_joint_rule():
    op = left_in_a_dict()
    op.rules.clear()
    op.vjp(lambda g: (g * LEFT["e"],))
    return op


makers = pytest.mark.parametrize(
    "make",
    [left_in_a_dict, left_in_a_closure, pushed_and_popped, made_before, partly_shown, of_a_row,
     with_a_joint_rule],
)  # fmt: skip


@makers
def test_the_first_derivative_is_right_and_the_second_an_error(make):
    op, x = make(), mg.tensor(0.5, requires_grad=True)
    (g,) = mg.grad(op(x), [x], create_graph=True)
    assert g.item() == pytest.approx(np.exp(0.5), rel=1e-14)
    with pytest.raises(RuleError, match=f"{NAME}: its rule cannot be differentiated"):
        mg.grad(g, [x])


@makers
@pytest.mark.parametrize(
    "second", [lambda f: func.grad(func.grad(f)), lambda f: func.jacfwd(func.grad(f))]
)
def test_so_it_is_in_transforms(make, second):
    if make is pushed_and_popped and second is not None:
        make = left_in_a_dict  # what pops has one backward for each forward; a transform has not
    with pytest.raises(RuleError, match="cannot be differentiated"):
        second(make())(mg.tensor(0.5))


def test_the_trial_leaves_a_stack_as_it_was():
    op = pushed_and_popped()
    x, y = (mg.tensor(value, requires_grad=True) for value in (0.5, 1.0))
    a, b = op(x), op(y)
    mg.grad(b, [y], create_graph=True)
    mg.grad(a, [x], create_graph=True)
    assert op.stack == []


def scaled(w):
    op = mg.primitive(lambda x: x * w, name=NAME)
    op.vjp("x")(lambda g: g * w)
    return op


def straight_through():
    op = mg.primitive(lambda x: np.round(x * 4) / WINDOW.size, name=NAME)
    op.vjp("x")(lambda g: g * WINDOW.size)
    return op


def masked():
    @mg.primitive(name=NAME)
    def op(x):
        LEFT["mask"] = (x > 0) * 1.0
        return x * LEFT["mask"]

    op.vjp("x")(lambda g: g * LEFT["mask"])
    return op


@pytest.mark.parametrize("make", [lambda: scaled(WINDOW), straight_through, masked])
@pytest.mark.parametrize("values", [[0.5, -1.0, 2.0], [0.0, 0.0, 0.0]])
def test_a_constant_outside_is_one_to_the_second_derivative(make, values):
    op, x = make(), mg.tensor(values, requires_grad=True)
    (g,) = mg.grad((op(x) ** 2).sum(), [x], create_graph=True)
    mg.grad(g.sum(), [x])


def test_a_rule_that_reads_inputs_beside_a_closure_has_its_second_derivative():
    def power(n):
        op = mg.primitive(lambda x: x**n, name=NAME)
        op.vjp("x")(lambda g, x: g * n * x ** (n - 1))
        return op

    assert gradgradcheck(power(3.0), (WINDOW,))


def test_an_argument_that_is_a_number_has_no_part_in_it():
    LEFT["w"] = 3.0
    op = mg.elementwise(
        lambda x, a: 3.0 * a * x * x,
        name=NAME,
        dx=lambda x, a: 2 * LEFT["w"] * a * x,
        da=lambda x: LEFT["w"] * x * x,
    )
    x = mg.tensor([1.0, 2.0], requires_grad=True)
    slope = mg.grad(op(x, 0.5).sum(), x, create_graph=True)
    assert mg.grad(slope.sum(), x).tolist() == [3.0, 3.0]


def test_what_is_saved_for_a_trial_does_not_forbid_a_change_of_the_input():
    op, x = scaled(2.0), mg.tensor([1.0, 2.0], requires_grad=True)
    a = x * 1.0
    y = op(a)
    with mg.no_grad():
        a[0] = 5.0
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_large_arrays_go_the_same_way_as_those_of_other_ops():
    LEFT["w"] = 2.0
    op = mg.elementwise(np.square, name=NAME, dx=lambda x: LEFT["w"] * x)
    x = mg.tensor(np.linspace(-1.0, 1.0, 3_000_000), requires_grad=True)
    (op(x) + op(x * 2.0)).sum().backward()
    np.testing.assert_allclose(x.grad, 10 * x.detach().numpy())


def test_no_op_of_the_library_saves_anything_for_it():
    rules = [rule.fn for entry in registry for rule in getattr(entry, "rules", {}).values()]
    assert sum(map(is_own, rules)) > 300
    plans = [mg.exp.plan_for(1), mg.mul.plan_for(3), mg.matmul.plan_for(1), mg.softmax.plan_for(1)]
    assert not any(BEHIND in plan.names for plan in plans)


def test_a_rule_that_reads_no_numbers_outside_runs_once():
    ran = []
    op = mg.primitive(lambda x: x * x, name=NAME)
    op.vjp("x")(lambda g, x: (ran.append("x"), 2 * g * x)[1])
    x = mg.tensor([3.0], requires_grad=True)
    (g,) = mg.grad(op(x), [x], create_graph=True)
    assert mg.grad(g, [x])[0].tolist() == [2.0] and ran == ["x"]
