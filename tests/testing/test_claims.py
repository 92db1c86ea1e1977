"""What an op claims to be, and what the reports say of it: no gradient, linear, a cause first."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import GradcheckError, OpSpec, gradcheck, specs
from minigrad.testing.case import Context
from minigrad.testing.checks import CHECKS
from minigrad.testing.plant import make, pairs, vectors
from minigrad.testing.report import Report, failures, failures_of_ops
from minigrad.testing.run import Outcome, check_spec

BY_ID = {check.id: check for check in CHECKS}
BY_A = {"a": lambda g, b: g * b}
PAIR = pairs(((4,), (4,)))


def found(check, op, samples, **fields):
    """The message of a failing check of an op, "" where it passes."""
    fields.setdefault("dtypes", ("float64",))
    spec = OpSpec("op", op, None, samples, **fields)
    [outcome] = check_spec(spec, Context(), [BY_ID[check]])
    return outcome.failures[0][1] if outcome.status == "fail" else ""


def test_an_argument_declared_constant_that_the_result_depends_on_fails():
    product = make("op", np.multiply, BY_A, {"arrays": ("a", "b"), "constants": ("b",)})
    assert "depends on argument 1 smoothly" in found("K3", product, PAIR)


def test_a_spec_may_say_that_an_argument_shall_have_no_gradient():
    product = make("op", np.multiply, BY_A, {"arrays": ("a", "b"), "constants": ("b",)})
    assert not found("K3", product, PAIR, constants=(1,))


def test_a_smooth_op_declared_to_have_no_derivative_fails():
    sine = make("op", np.sin, {}, {"arrays": ("x",), "differentiable": False})
    assert "declare that it has none: differentiable=False" in found("K3", sine, vectors(4))


def test_steps_may_be_declared_to_have_no_derivative():
    floor = make("op", np.floor, {}, {"arrays": ("x",), "differentiable": False})
    assert not found("K3", floor, vectors(4))


def test_an_op_said_to_be_linear_must_be_so_for_large_tangents():
    cut = make("op", lambda x: np.clip(x, -10, 10), {"x": lambda g: g}, {"kind": "linear"})
    assert "the op itself where kind='linear'" in found("K4", cut, vectors(4))


def test_the_report_says_what_forward_mode_is_for_the_kind_of_op():
    affine = make("op", lambda x: 2 * x + 1, {"x": lambda g: 2 * g}, {"kind": "linear"})
    assert "Of kind='linear' forward mode is the op itself" in found("K10", affine, vectors(4))


class Product(mg.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a


@pytest.mark.parametrize("check", ["K10", "K20", "K23"])
def test_a_function_of_two_arguments_is_given_tensors_where_one_alone_moves(check):
    assert not found(check, Product.apply, PAIR)


def test_a_rule_that_is_wrong_once_is_said_not_to_repeat():
    calls = []

    def rule(g, x):
        calls.append(1)
        return g * np.cos(x) * (1.01 if len(calls) == 1 else 1.0)

    assert "a rule does not repeat" in found("K2", make("op", np.sin, {"x": rule}, {}), vectors(4))


def test_gradcheck_says_that_a_function_does_not_repeat():
    calls = []

    def sine(x):
        y = x.sin()
        y.register_hook(lambda g: (calls.append(1), g * (1.01 if len(calls) == 3 else 1.0))[1])
        return y

    with pytest.raises(GradcheckError, match="made again.*a rule does not repeat"):
        gradcheck(sine, np.array([0.3, 1.2, -0.7]))


def test_an_argument_changed_by_the_forward_is_not_laid_to_the_backward():
    def forward(x):
        y = np.sin(x)
        x[...] = -x
        return y

    op = make("op", forward, {"x": lambda g, x: g * np.cos(x)}, {})
    assert "argument 0 was changed in place by the call itself" in found("K7", op, vectors(4))


def test_a_result_that_the_next_call_changes_is_named():
    kept = np.empty(4)
    op = make("op", lambda x: np.sin(x, out=kept), {"x": lambda g, x: g * np.cos(x)}, {})
    assert "the next call changes result 0 of one call" in found("K24", op, vectors(4))


def test_failures_of_a_layout_name_the_gradient():
    def rule(g, x):
        return g * np.cos(x) * (1.0 if x.flags.c_contiguous else 1.01)

    op = make("op", np.sin, {"x": rule}, {})
    assert "the gradient of argument 0, argument 0 sliced" in found("K6", op, vectors(4))


def test_failures_at_a_large_size_name_the_gradient_and_the_place():
    def rule(g, x):
        return g * np.cos(x) * (1.01 if x.size > 1000 else 1.0)

    op = make("op", np.sin, {"x": rule}, {"kind": "elementwise"})
    words = found("K25", op, vectors(4))
    assert words.startswith("the gradient of argument 0 is ")
    assert "at [0] among 524,297 elements" in words


def test_failures_on_the_grid_name_the_argument_as_the_op_does():
    rules = {"angle": lambda g, angle: g * np.cos(angle) * np.where(angle > 3, 1.01, 1.0)}
    op = make("op", np.sin, rules, {"kind": "elementwise"})
    assert "by argument 0 (angle)" in found("K27", op, vectors(4))


def test_a_gradient_wrong_at_the_samples_is_told_once_with_the_line_of_its_rule():
    def halved(g, x):
        return g * np.cos(x) / 2

    op = make("halved", np.sin, {"x": halved}, {})
    spec = OpSpec("halved", op, np.sin, vectors(5), dtypes=("float64",))
    specs["halved"] = spec
    try:
        outcomes = [*check_spec(spec, Context())]
        head, first, same = failures_of_ops(outcomes)
    finally:
        del specs["halved"]
    place = f"{__file__}:{halved.__code__.co_firstlineno}"
    assert (
        head == f"halved fails 7 checks: K2, K3, K17, K24, K25, K27, K28\n  the rule for x: {place}"
    )
    assert first.startswith("halved, K2 on sample 'shape 5': Jacobian: 5 of 25 entries")
    assert same == "  the same in K3, K17, K24, K25, K27, K28"


def test_a_gradient_that_is_nan_at_the_samples_is_told_once():
    outcomes = [
        Outcome("a", "K2", "fail", failures=[("one", "Jacobian: 5 of 5 entries are wrong", "")]),
        Outcome("a", "K3", "fail", failures=[("one", "the gradient holds nan", "")]),
        Outcome("a", "K17", "fail", failures=[("", "sizes (2,): the gradient holds nan", "")]),
    ]
    assert failures_of_ops(outcomes)[2:] == ["  the same in K3, K17"]


def test_words_that_several_checks_say_are_printed_once():
    outcomes = [
        Outcome("a", check, "fail", failures=[("one", told, "")])
        for check, told in (("K2", "raises"), ("K4", "differs"), ("K7", "raises"))
    ]
    assert failures_of_ops(outcomes) == [
        "a fails 3 checks: K7, K2, K4",
        "a, K7 on sample 'one': raises",
        "  the same in K2",
        "  other failures of this op may follow from it: mend it first",
        "a, K4 on sample 'one': differs",
    ]


def test_failures_that_name_a_cause_come_first_in_each_op():
    outcomes = [
        Outcome(name, check, status)
        for name in ("a", "b")
        for check, status in (("K2", "fail"), ("K4", "pass"), ("K7", "fail"), ("K10", "fail"))
    ]
    order = [(outcome.op, outcome.check) for outcome in failures(outcomes)]
    assert order == [(name, check) for name in ("a", "b") for check in ("K7", "K2", "K10")]
    assert Report("fast", 0, outcomes).failed == failures(outcomes)


@pytest.mark.parametrize("wrong", [1, 5])
def test_an_op_of_any_number_of_arguments_is_checked_with_other_numbers_of_them(wrong):
    def rule(g, xs, needs):
        ends = np.cumsum([0, *[x.shape[0] for x in xs]])
        factor = 1.01 if len(xs) == wrong else 1.0
        return [factor * g[ends[i] : ends[i + 1]] for i in range(len(xs))]

    options = {"arrays": ("xs",), "variadic": True}
    joined = make("op", lambda *xs: np.concatenate(xs), {"joint": rule}, options)
    assert f"{wrong} arguments: along a random direction" in found("K17", joined, PAIR)
