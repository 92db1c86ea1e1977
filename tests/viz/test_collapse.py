"""Folding scopes and hiding nodes keeps the counts honest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minigrad_viz.collapse import group_nodes
from minigrad_viz.reader import graph_from, read

import minigrad as mg


def names(groups):
    return [group.name for group in groups if group.kind == "scope"]


@settings(max_examples=40)
@given(depth=st.none() | st.integers(0, 4), limit=st.integers(0, 60), seed=st.integers(0, 5))
def test_every_node_stands_in_exactly_one_box(dumps, depth, limit, seed):
    graph = graph_from(dumps.wide_random(60, 5, seed))
    groups = group_nodes(graph, depth=depth, max_nodes=limit)
    members = sorted(at for group in groups for at in group.members)
    assert members == list(range(60))
    assert not limit or len(groups) <= limit


def test_depth_folds_scopes_and_takes_their_parameters_along(dumps):
    graph = graph_from(dumps.convnet())
    groups = group_nodes(graph, depth=1)
    assert names(groups) == ["model"]
    folded = next(group for group in groups if group.kind == "scope")
    assert len(folded.members) == 14 + 8
    outside = {graph.nodes[at].name or graph.nodes[at].op for g in groups for at in g.members} - {
        graph.nodes[at].name or graph.nodes[at].op for at in folded.members
    }
    assert outside == {"images", "labels", "cross_entropy"}


def test_a_scope_of_one_node_stays_that_node(dumps):
    assert "model/act1" not in names(group_nodes(graph_from(dumps.convnet()), depth=2))


def test_a_named_scope_folds_alone(dumps):
    assert names(group_nodes(graph_from(dumps.convnet()), closed=["model/conv2"])) == [
        "model/conv2"
    ]


def test_a_limit_folds_scopes_before_it_hides_nodes(dumps):
    graph = graph_from(dumps.convnet())
    groups = group_nodes(graph, max_nodes=16)
    assert not any(group.kind == "hidden" for group in groups)
    assert names(groups)


def test_what_does_not_fit_is_hidden_and_counted(dumps, picture):
    drawn = picture(dumps.deep_chain(100), max_nodes=10)
    assert len(drawn.boxes) == 10
    hidden = next(box for box in drawn.boxes if box.kind == "hidden")
    assert hidden.title == f"{103 - 9} hidden" and hidden.members == 103 - 9
    assert drawn.boxes[-1].root


@pytest.mark.parametrize("limit", [1, 2])
def test_the_smallest_limits_work(dumps, picture, limit):
    assert len(picture(dumps.deep_chain(20), max_nodes=limit).boxes) == limit


def test_links_between_folded_scopes_say_how_many_arrays_they_carry(dumps, picture):
    drawn = picture(dumps.wide_random(200, 8), depth=1)
    assert any(link.tensors > 1 and "arrays" in link.label for link in drawn.links)
    assert sum(box.members for box in drawn.boxes) == 200


def test_a_kernel_of_a_compiled_step_is_a_box_to_open(tmp_path):
    @mg.compile
    def step(x):
        loss = (mg.tanh(x) * x + 1).sum()
        loss.backward()
        return loss

    step(mg.tensor(np.linspace(0, 1, 1 << 18), requires_grad=True))
    step.dump_graph(tmp_path / "step.json")
    graph = read(str(tmp_path / "step.json"))
    line = step.fn.__code__.co_firstlineno + 2
    assert {node.site.line for node in graph.nodes if node.site} == {line}
    kernel, *_ = [group for group in group_nodes(graph, depth=1) if group.kind == "scope"]
    assert kernel.name == "blocks 1"
    assert [graph.nodes[at].op for at in kernel.members] == ["tanh", "mul: multiply", "add"]
