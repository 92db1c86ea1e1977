"""The function that is generated for a plan: rules applied by name, once for each pattern."""

import inspect

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.errors import RuleError
from minigrad.engine.plan import Plans
from minigrad.engine.primitive import Primitive
from minigrad.testing import gradcheck, gradgradcheck

pytestmark = pytest.mark.promise("a plan is its rules, applied by name")


def planned(op, *args, **params):
    return op(*args, **params).node


def leaf(value):
    return mg.tensor(value, requires_grad=True)


def test_a_partial_is_multiplied_by_the_cotangent_and_aligned_with_the_parents():
    node = planned(mg.mul, leaf([2.0]), leaf([3.0]))
    assert [c.tolist() for c in node.plan.vjp(np.array([10.0]), node.saved)] == [[30.0], [20.0]]


def test_only_the_inputs_that_need_a_gradient_get_one():
    node = planned(mg.mul, mg.tensor([2.0]), leaf([3.0]))
    assert [c.tolist() for c in node.plan.vjp(np.array([10.0]), node.saved)] == [[20.0]]


def test_a_complex_cotangent_meets_the_conjugate_of_the_partial():
    node = planned(mg.mul, leaf([1.0 + 0j]), leaf([2.0 + 3.0j]))
    (ga, _) = node.plan.vjp(np.array([1.0 + 1.0j]), node.saved)
    assert ga.tolist() == [(1.0 + 1.0j) * (2.0 - 3.0j)]


def test_what_is_saved_may_be_any_iterable():
    node = planned(mg.mul, leaf([2.0]), leaf([3.0]))
    (ga, _) = node.plan.vjp(np.array([10.0]), iter(node.saved))
    assert ga.tolist() == [30.0]


def test_a_parameter_that_the_call_left_out_is_saved_with_its_default():
    op = Primitive(lambda x, k=3: k * x, "times_k", ["x"], defaults={"k": 3})
    op.vjp("x")(lambda g, k, x_shape: k * g)
    x = leaf([[1.0, 2.0]])
    assert [planned(op, x).saved, planned(op, x, k=5).saved] == [(3, (1, 2)), (5, (1, 2))]


def test_the_shape_of_a_number_beside_a_tensor_is_that_of_a_scalar():
    op = Primitive(lambda a, b: a + b, "adds_number", ["a", "b"])
    op.vjp("a")(lambda g, b_shape: g)
    assert planned(op, leaf([1.0, 2.0]), 3.0).saved == ((),)


def test_a_rule_may_be_the_method_of_an_object():
    class Rules:
        def second(self, g, b):
            return b

    op = Primitive(lambda a, b: a + b, "ruled_by_a_method", ["a", "b"])
    op.vjp("a")(Rules().second)
    node = planned(op, leaf([1.0]), mg.tensor([7.0]))
    assert [c.tolist() for c in node.plan.vjp(np.array([10.0]), node.saved)] == [[7.0]]


def test_a_joint_rule_that_returns_too_few_gradients_is_an_error():
    op = Primitive(lambda a, b: a + b, "forgets_one", ["a", "b"])
    op.vjp(lambda g: (g,))
    y = op(leaf([1.0]), leaf([2.0]))
    with pytest.raises(RuleError, match="for each input, here 2; it returned 1 of them"):
        y.backward()


def test_a_rule_added_later_is_used_by_the_next_call():
    op = Primitive(lambda x: 3 * x, "tripled_later", ["x"])
    op.vjp("x")(lambda g: g)
    x = leaf([1.0])
    op(x)
    op.vjp("x")(lambda g: 3 * g)
    op(x).backward()
    assert x.grad.tolist() == [3.0]


# -- shortcuts: a rule for several inputs at once --------------------------------------------------


@pytest.fixture
def product():
    """a · b · c with a shortcut for a and b, which is not for arrays of one element or tensors."""
    op = Primitive(lambda a, b, c: a * b * c, "product_of_three", ["a", "b", "c"])
    op.vjp("a")(lambda g, b, c: g * b * c)
    op.vjp("b")(lambda g, a, c: g * a * c)
    op.vjp("c")(lambda g, a, b: g * a * b)
    op.calls = []

    @op.vjp("a", "b")
    def together(g, a, b, c):
        if type(g) is not np.ndarray or g.size == 1:
            return None
        op.calls.append(g.size)
        return g * b * c, g * a * c

    return op


@pytest.mark.parametrize("wanted, uses", [("ab", 1), ("abc", 1), ("ac", 0), ("bc", 0), ("a", 0)])
def test_a_shortcut_is_taken_where_all_its_inputs_need_gradients(product, wanted, uses):
    a, b, c = (
        mg.tensor([k, 2 * k], requires_grad=n in wanted) for n, k in zip("abc", [2.0, 3.0, 5.0])
    )
    product(a, b, c).sum().backward()
    right = {"a": [15.0, 60.0], "b": [10.0, 40.0], "c": [6.0, 24.0]}
    for name, x in zip("abc", (a, b, c), strict=True):
        assert (x.grad.tolist() if x.requires_grad else right[name]) == right[name]
    assert product.calls == [2] * uses


def test_a_shortcut_that_returns_none_leaves_it_to_the_rules(product):
    a, b, c = leaf([2.0]), leaf([3.0]), mg.tensor([5.0])
    product(a, b, c).backward()
    assert product.calls == [] and (a.grad.tolist(), b.grad.tolist()) == ([15.0], [10.0])


def test_derivatives_of_an_op_with_a_shortcut_agree_with_finite_differences(product):
    xs = [np.array([1.5, -2.0]), np.array([0.5, 3.0]), np.array([2.0, 1.0])]
    assert gradcheck(product, xs) and gradgradcheck(product, xs)
    assert product.calls


def test_a_shortcut_for_an_unknown_input_is_refused(product):
    with pytest.raises(ValueError, match="has no input 'd'; it has"):
        product.vjp("a", "d")


@pytest.mark.layer("fast")
@pytest.mark.parametrize("pattern", [0b01, 0b10, 0b11])
def test_the_source_of_what_is_generated_for_a_plan_can_be_read(pattern):
    plan = mg.mul.plan_for(pattern)
    needed = [f"g * v{i}" for i in range(len(plan.slots))]
    assert f"return [{', '.join(needed)}]" in inspect.getsource(plan.vjp)
    assert inspect.getsource(plan.save).startswith("def save(arrays")


def test_a_plan_serves_its_call_where_another_thread_clears_the_plans_meanwhile():
    class Cleared(Plans):
        def __setitem__(self, pattern, plan):
            super().__setitem__(pattern, plan)
            self.clear()

    op = Primitive(np.negative, "a_negative", ("x",), kind="linear")
    op.vjp("x")(lambda g: -g)
    op.plans = Cleared(op)
    x = leaf([1.0, 2.0])
    op.general(x).sum().backward()
    assert x.grad.tolist() == [-1.0, -1.0]


@pytest.mark.layer("fast")
def test_a_rule_that_is_one_quotient_or_negative_is_written_into_the_plan():
    a, b = leaf([6.0]), leaf([2.0])
    quotient, difference = planned(mg.div, a, mg.tensor([2.0])), planned(mg.sub, a, b)
    assert "return [g / v0]" in inspect.getsource(quotient.plan.vjp)
    assert "return [g, -g]" in inspect.getsource(difference.plan.vjp)
    assert [c.tolist() for c in quotient.plan.vjp(np.array([10.0]), quotient.saved)] == [[5.0]]


@pytest.mark.parametrize(
    ("partial", "expected"),
    [
        (lambda y, b: y / b, 10 * (3 / 2)),
        (lambda b, y: y / b, 10 * (3 / 2)),
        (lambda y: -y, -30.0),
        (lambda b, y: -y, -30.0),
    ],
    ids=["quotient", "the other way", "negative", "of the second"],
)
def test_a_partial_that_is_a_quotient_or_a_negative_keeps_its_meaning(partial, expected):
    op = Primitive(lambda a, b: a + 0 * b, "scaled_by_words", ["a", "b"], kind="elementwise")
    op.partial("a")(partial)
    node = planned(op, leaf([3.0]), mg.tensor([2.0]))
    assert [c.tolist() for c in node.plan.vjp(np.array([10.0]), node.saved)] == [[expected]]


def test_the_partial_of_an_elementwise_op_may_be_given_later():
    op = Primitive(np.sin, "sine_by_its_partial", ["x"], kind="elementwise")
    op.partial("x")(lambda x: np.cos(x))
    x = leaf([0.3, 1.2])
    assert gradcheck(op, x) and gradgradcheck(op, x)


def test_a_partial_of_another_op_is_refused():
    op = Primitive(np.cumsum, "summed_up", ["x"], kind="linear")
    with pytest.raises(ValueError, match=r"is not elementwise.*@summed_up.vjp\('x'\)"):
        op.partial("x")


def test_a_partial_by_an_unknown_input_is_refused():
    op = Primitive(np.sin, "sine_of_x", ["x"], kind="elementwise")
    with pytest.raises(ValueError, match="sine_of_x has no input 'a'; it has \\['x'\\]"):
        op.partial("a")
