"""A tape can be read: one line an op, and one line a contribution on the way back."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.tape.listing import rule_text

pytestmark = pytest.mark.promise(
    "the tape gives the serial engine's bits, order and hooks; it can be read, bounded (K13)"
)


def small():
    x = mg.tensor(np.ones((2, 2), dtype=np.float32), requires_grad=True)
    w = mg.tensor(np.ones((2, 2), dtype=np.float32), requires_grad=True)
    c = mg.tensor(np.ones(2, dtype=np.float32))
    with mg.Tape() as tape:
        y = (np.tanh(x @ w) * c + 2.0).sum(axis=0).sum()
    return tape, y


def words(text):
    return [line.split() for line in text.splitlines()]


def test_each_op_has_a_line_with_arguments_shape_and_source():
    tape, _ = small()
    site = "test_tape_listing.py:19"
    assert words(str(tape)) == [
        "tape of 6 ops".split(),
        "w0 = leaf float32[2,2]".split(),
        "w1 = leaf float32[2,2]".split(),
        f"%0 = matmul(w0, w1) float32[2,2] {site}".split(),
        f"%1 = tanh(%0) float32[2,2] {site}".split(),
        "c2 = constant float32[2]".split(),
        f"%2 = mul(%1, c2) float32[2,2] {site}".split(),
        f"%3 = add(%2, 2.0) float32[2,2] {site}".split(),
        f"%4 = sum(%3, axis=0) float32[2] {site}".split(),
        f"%5 = sum(%4) float32[] {site}".split(),
    ]


def test_the_way_back_shows_the_rules_with_the_names_of_the_tape():
    tape, y = small()
    lines = [line.strip() for line in tape.backward_listing(y).splitlines()]
    assert lines == [
        "backward over 8 vertices",
        "g5 = its gradient, 1 for a scalar",
        "g4 = sum_dx(g5, (2,), None, False)",
        "g3 = sum_dx(g4, (2, 2), 0, False)",
        "g2 = g3",
        "g1 = g2 * c2",
        "g0 = g1 * _tanh_dx(%0, %1)",
        "gw0 = matmul_da(g0, w1, (2, 2))",
        "gw1 = matmul_db(g0, w0, (2, 2))",
        "w1.grad += gw1",
        "w0.grad += gw0",
    ]


def test_a_second_contribution_is_added():
    x = mg.tensor(3.0, requires_grad=True)
    with mg.Tape() as tape:
        y = x * x
    lines = [line.strip() for line in tape.backward_listing(y).splitlines()]
    assert lines[2:4] == ["gw0 = g0 * w0", "gw0 += g0 * w0"]


def test_several_outputs_and_joint_rules():
    x = mg.tensor(np.eye(2), requires_grad=True)
    with mg.Tape() as tape:
        u, s, vt = mg.linalg.svd(x)
        y = s.sum()
    assert "%0.0, %0.1, %0.2 = svd_factors(w0" in str(tape)
    assert "g0.1 = sum_dx(g1" in tape.backward_listing(y)


def test_ops_without_a_gradient_are_marked():
    with mg.Tape() as tape:
        np.exp(mg.tensor(1.0))
    assert "(no gradient)" in str(tape)


def test_a_long_tape_is_shown_by_its_head_and_tail():
    x = mg.tensor(1.0, requires_grad=True)
    with mg.Tape() as tape:
        y = x
        for _ in range(1000):
            y = y * 2.0
    text = tape.listing(limit=6)
    assert "%2 = mul" in text and "%3 = mul" not in text and "%997 = mul" in text
    assert "994 more ops" in text and len(str(tape)) < 8_000
    back = tape.backward_listing(y, limit=6)
    assert "995 more vertices" in back and "g998 = g999 * 2.0" in back and "gw0 = g0 * 2.0" in back


def test_a_rule_without_source_is_shown_as_a_call():
    made = eval("lambda g, a: g * a")  # no file to read it from
    rule = mg.engine.plan.Rule(made, ("g", "a"))
    assert rule_text(rule, {"g": "g3", "a": "%1"}.get) == "<lambda>(g3, %1)"


@pytest.mark.parametrize("limit", range(2, 12))
def test_a_long_way_back_says_how_many_vertices_it_leaves_out(limit):
    """Also where the first of them is a leaf."""
    leaves = [mg.ones(3, requires_grad=True) for _ in range(8)]
    with mg.Tape() as tape:
        y = np.prod(leaves[0]) + sum(x.sum() for x in leaves[1:])
    lines = tape.backward_listing(y, limit=limit).splitlines()
    vertices = len(tape.order({y.node: None}))
    assert f"  … {vertices - 2 * (limit // 2)} more vertices …" in lines
