"""Variants of an op's rules: all contributions at once, for one device and from a size on."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.custom.rule_variants import (
    add_to_rules,
    listed_of_rules,
    own_rules,
    remove_from_rules,
    vjp_variant,
)
from minigrad.custom.variants import Variant
from minigrad.engine import backward
from minigrad.engine.registry import op as registry
from minigrad.testing.plant import SINE, make

if backward.vjps.get("cpu"):
    pytest.skip("compiled loops are on", allow_module_level=True)


@pytest.fixture
def doubling():
    """Of mul's contributions twice as much, from 4 elements on."""
    variant = Variant(
        lambda plan, values: [2 * c for c in plan.apply_rules(values)], "cpu", least=4
    )
    add_to_rules(mg.mul, variant)
    yield variant
    remove_from_rules(mg.mul, variant)


def on_the_host(op):
    return tuple([v for v in listed_of_rules(op) if v.on == "cpu"])


def gradient_of_product(n):
    x = mg.tensor(np.ones(n, np.float32), requires_grad=True)
    (x * 3.0).sum().backward()
    return x.grad.tolist()


def test_a_node_of_that_size_has_its_contributions_from_the_variant(doubling):
    assert gradient_of_product(4) == [6] * 4 and doubling.calls == 1
    assert gradient_of_product(3) == [3] * 3 and doubling.calls == 1


def test_none_means_that_the_rules_run():
    variant = Variant(lambda plan, values: None, "cpu")
    add_to_rules(mg.mul, variant)
    try:
        assert gradient_of_product(2) == [3, 3] and variant.calls == 0
    finally:
        remove_from_rules(mg.mul, variant)


def test_without_variants_a_backward_runs_the_plain_vjp_again(doubling):
    assert on_the_host(mg.mul) == (doubling,)
    remove_from_rules(mg.mul, doubling)
    try:
        assert "cpu" not in backward.vjps and "cpu" not in backward.rule_runners
        assert gradient_of_product(4) == [3] * 4
    finally:
        add_to_rules(mg.mul, doubling)


def test_a_replay_of_a_tape_asks_the_variant_too(doubling):
    x = mg.tensor(np.ones(4, np.float32), requires_grad=True)
    with mg.Tape() as tape:
        y = (x * 3.0).sum()
    _, gradients = tape.compile(y, [x], [x])(np.ones(4, np.float32))
    assert gradients[0].tolist() == [6] * 4


def test_one_for_every_elementwise_op_serves_ops_that_are_defined_later():
    variant = Variant(lambda plan, values: None, "cpu")
    add_to_rules(None, variant)
    try:
        assert on_the_host(mg.exp) == (variant,) and on_the_host(mg.cumsum) == ()
    finally:
        remove_from_rules(None, variant)


# -- variants of one rule --------------------------------------------------------------------------


def sine_in_front():
    """sin, with a variant of its rule: twice the cotangent where that is positive."""
    op = make("sine", np.sin, SINE, {})

    @vjp_variant(op, "x", name="twice")
    def twice(g, x):
        return 2 * g if (g > 0).all() else None

    return op


def slope(op, g=1.0):
    x = mg.tensor([0.0], requires_grad=True)
    op(x).backward(np.array([g]))
    return x.grad.item()


def test_a_variant_of_a_rule_runs_in_its_place():
    op = sine_in_front()
    assert slope(op) == 2 and listed_of_rules(op)[0].calls == 1


def test_where_it_returns_none_the_own_rule_runs():
    op = sine_in_front()
    assert slope(op, -1.0) == -1 and listed_of_rules(op)[0].calls == 0


def test_the_own_rules_stay_reachable():
    op = sine_in_front()
    with own_rules(op):
        assert slope(op) == 1 and listed_of_rules(op) == ()
    assert slope(op) == 2


def test_a_rule_that_leaves_no_call_is_the_op_s_rule_and_counted_where_it_is_alone():
    op = make("sine", np.sin, SINE, {})

    @vjp_variant(op, "x", always=True)
    def twice(g, x):
        return 2 * g

    (variant,) = listed_of_rules(op)
    assert slope(op) == 2 and variant.calls == 0
    with own_rules(op):
        assert slope(op) == 1
    with own_rules(op, variant):
        assert slope(op) == 2 and variant.calls == 1
    assert slope(op) == 2 and listed_of_rules(op) == (variant,)


def test_one_variant_alone_stands_in_front_of_the_own_rules(doubling):
    [variant] = on_the_host(mg.mul)
    with own_rules(mg.mul):
        assert gradient_of_product(4) == [3] * 4
    with own_rules(mg.mul, variant):
        assert gradient_of_product(4) == [6] * 4


def test_a_joint_variant_of_an_op_with_a_rule_for_each_input_leaves_calls_to_these():
    op = make("times", np.multiply, {"a": lambda g, b: g * b, "b": lambda g, a: g * a}, {})

    @vjp_variant(op)
    def both(g, a, b, needs):
        return (7 * g, 7 * g) if all(needs) else None

    a, b = (mg.tensor([x], requires_grad=True) for x in (2.0, 3.0))
    op(a, b).backward()
    assert (a.grad.item(), b.grad.item()) == (7, 7)
    with own_rules(op):
        op(a, 5.0).backward()
    assert a.grad.item() == 12
    op(a, 5.0).backward()
    assert a.grad.item() == 17
    assert listed_of_rules(op)[0].calls == 1


def test_the_variants_of_fast_keep_the_rule_of_the_table():
    if not listed_of_rules(registry.lstm_scan):
        pytest.skip("fast/ is not installed")
    with own_rules(registry.lstm_scan):
        assert registry.lstm_scan.joint.fn.__module__ == "minigrad.ops.recurrent.lstm"
