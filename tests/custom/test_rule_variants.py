"""Variants of an op's rules: all contributions at once, for one device and from a size on."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.custom.rule_variants import add_to_rules, listed_of_rules, remove_from_rules
from minigrad.custom.variants import Variant
from minigrad.engine import backward

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
        assert on_the_host(mg.exp) == (variant,) and on_the_host(mg.matmul) == ()
    finally:
        remove_from_rules(None, variant)
