"""The graph of the backward itself: rules, cotangents, sums where several arrive."""

import re

import pytest
from minigrad_viz.backward_dag import backward_dag, both
from minigrad_viz.reader import graph_from


@pytest.fixture
def squares(dumps):
    """y = x·x + x, with a recorded backward."""
    dump = dumps.Dump()
    x = dump.leaf((2,), name="x")
    product = dump.op("mul", (2,), x, x, formula="y = a b ;  ga = b, gb = a", scope="part")
    document = dump.done(dump.op("add", (2,), product, x))
    document["backward"] = dumps.backward(document)
    return graph_from(document)


def words(graph):
    return [node.op or node.name for node in graph.nodes]


def test_each_op_has_its_rule_and_each_leaf_its_gradient(squares):
    assert words(backward_dag(squares)) == [
        "seed", "add vjp", "mul vjp", "accumulate", "x.grad"
    ]  # fmt: skip


def test_a_sum_stands_where_several_users_give(squares):
    dag = backward_dag(squares)
    at = words(dag).index("accumulate")
    inputs = [dag.nodes[edge.producer].op for edge in dag.edges if edge.consumer == at]
    assert sorted(inputs) == ["add vjp", "mul vjp", "mul vjp"]


def test_cotangents_have_the_shapes_of_what_they_belong_to(squares):
    dag = backward_dag(squares)
    rule = next(node for node in dag.nodes if node.op == "mul vjp")
    assert [array.shape for array in rule.outputs] == [(2,), (2,)]
    assert rule.rule == "ga = b, gb = a" and rule.scope == "part"


def test_without_steps_rules_stand_in_the_order_of_a_backward(squares):
    recorded = words(backward_dag(squares))
    squares.backward = None
    assert words(backward_dag(squares)) == recorded


def test_an_input_without_gradient_gets_none(dumps):
    dump = dumps.Dump()
    image = dump.leaf((2,), name="image", requires_grad=False)
    product = dump.op("mul", (2,), dump.parameter((2,), "w"), image)
    dag = backward_dag(graph_from(dump.done(product)))
    assert words(dag) == ["seed", "mul vjp", "w.grad"]


def test_the_times_of_the_steps_stand_at_the_rules(squares):
    dag = backward_dag(squares)
    assert {dag.nodes[step.node].op for step in dag.backward.steps} == {"add vjp", "mul vjp"}


def test_the_page_plays_both_side_by_side(recorded, open_page):
    graph = both(graph_from(recorded("convnet")))
    page = open_page(graph, depth=None, size=(1920, 1080), mode="step")
    forward, backward = page.evaluate(
        "['forward', 'backward'].map((name) => app.scene.frames.find((one) => one.scope === name))"
        ".map(({ x, w }) => [x - w / 2, x + w / 2])"
    )
    assert forward[1] < backward[0]
    page.keyboard.press("End")
    rule = "graph.nodes.findIndex(({ op }) => op === 'max_pool vjp')"
    assert page.evaluate(f"app.player.recording.done({rule}, 12)")
    assert not page.evaluate(f"app.player.recording.done({rule}, 3)")


def test_the_command_draws_it_in_every_format(save, viz, tmp_path, recorded):
    dump = save(recorded("convnet"))
    for ending in ("svg", "dot", "mmd", "json"):
        out = tmp_path / f"out.{ending}"
        assert viz(dump, "-o", out, "--backward")[0] == 0
        assert "conv1.weight.grad" in out.read_text()
    code, _, told = viz(dump, "-o", tmp_path / "no.svg", "--backward", "--critical")
    assert code == 2 and re.search("leave --backward out", told)
