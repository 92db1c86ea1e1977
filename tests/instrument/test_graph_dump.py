"""Graph dumps: nodes, edges, saved arrays, and the recorded backward."""

import json
import math
from importlib import resources

import jsonschema
import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.events import listen, unlisten
from minigrad.engine.primitive import Primitive, primitive
from minigrad.instrument import dump_graph, graph_dict, record_backward
from minigrad.instrument.formats import read_graph
from minigrad.modes.scopes import scope

SCHEMA = json.loads(
    resources.files("minigrad.instrument").joinpath("graph.schema.json").read_text()
)


def valid(document):
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    json.dumps(document, allow_nan=False)
    return document


def leaf(*shape, dtype=np.float64):
    data = np.linspace(0.1, 1.0, int(np.prod(shape)), dtype=dtype).reshape(shape)
    return mg.tensor(data, requires_grad=True)


def by_op(document):
    return {node["op"]: node for node in document["nodes"] if node["op"]}


def edges(document):
    names = {node["id"]: node["op"] or node["kind"] for node in document["nodes"]}
    return [
        (names[edge["producer"]], edge["output"], names[edge["consumer"]], edge["slot"])
        for edge in document["edges"]
    ]


def twins() -> Primitive:
    """y₀ = x, y₁ = 2 x: an op of two outputs."""
    entry = Primitive(lambda x: (x * 1, x * 2), "twins", ["x"], outputs=2)

    @entry.vjp("x")
    def twins_dx(g, x_shape):
        first, second = g
        return (0 if first is None else first) + (0 if second is None else 2 * second)

    return entry


def test_a_node_tells_op_shape_dtype_bytes_and_formula():
    document = valid(graph_dict(mg.tanh(leaf(2, 3, dtype=np.float32)).sum()))
    tanh = by_op(document)["tanh"]
    assert (tanh["shape"], tanh["dtype"], tanh["bytes"]) == ([2, 3], "float32", 24)
    assert tanh["formula"].startswith("y = tanh x")
    assert document["roots"] == [by_op(document)["sum"]["id"]]
    assert document["backward"] is None and document["device"] == "cpu"


def test_edges_lead_from_producer_to_the_slot_of_the_consumer():
    x = leaf(3)
    document = valid(graph_dict((x * mg.tanh(x)).sum()))
    assert sorted(edges(document)) == [
        ("leaf", 0, "mul", 0), ("leaf", 0, "tanh", 0), ("mul", 0, "sum", 0), ("tanh", 0, "mul", 1),
    ]  # fmt: skip


def test_a_constant_argument_leaves_its_slot_empty():
    document = valid(graph_dict((2.0 / leaf(3)).sum()))
    assert ("leaf", 0, "div", 1) in edges(document)


def test_variadic_ops_tell_which_argument_came_from_where():
    x, y = leaf(2), leaf(2)
    document = valid(graph_dict(mg.concatenate([mg.tensor([1.0]), x, y]).sum()))
    slots = [edge[3] for edge in edges(document) if edge[2].startswith("concatenate")]
    assert sorted(slots) == [1, 2]


def test_outputs_of_one_op_are_told_apart():
    first, second = twins()(leaf(3))
    document = valid(graph_dict((first * mg.tanh(second)).sum()))
    assert [array["shape"] for array in by_op(document)["twins"]["outputs"]] == [[3], [3]]
    assert ("twins", 0, "mul", 0) in edges(document) and ("twins", 1, "tanh", 0) in edges(document)
    assert all(node["op"] != "Port" for node in document["nodes"])


def test_an_output_can_be_a_root():
    _, second = twins()(leaf())
    document = valid(graph_dict(second))
    assert document["roots"] == [by_op(document)["twins"]["id"]]


def test_saved_arrays_and_parameters_are_listed():
    x, w = leaf(2, 3), leaf(3, 4)
    document = valid(graph_dict((x @ w).sum(axis=1).sum()))
    saved = by_op(document)["matmul"]["saved"]
    assert {array["name"]: array["shape"] for array in saved} == {"a": [2, 3], "b": [3, 4]}
    assert {array["name"]: array["bytes"] for array in saved} == {"a": 48, "b": 96}


def test_the_array_module_that_a_rule_asks_for_is_no_saved_array():
    y = mg.zeros((2, 2))
    y[0] = leaf(2)  # the rule for the value asks for `xp`, and numpy has a shape and a dtype too
    assert by_op(valid(graph_dict(y)))["setitem"]["saved"] == []


def test_static_parameters_are_shown_as_text():
    document = valid(graph_dict(leaf(5)[1:3].sum()))
    assert by_op(document)["getitem"]["params"]["index"] == "slice(1, 3, None)"


def test_a_parameter_whose_repr_fails_is_named_by_its_type():
    class Shy:
        def __repr__(self):
            raise RuntimeError

    @primitive(name="shy_op_of_a_test")
    def shy(x, *, mood=None):
        return x * 1

    @shy.vjp("x")
    def shy_dx(g, mood):
        return g

    document = valid(graph_dict(shy(leaf(), mood=Shy())))
    assert by_op(document)["shy_op_of_a_test"]["params"] == {"mood": "<Shy>"}


def test_parameters_are_told_from_leaves_and_have_names():
    class Weight(mg.Tensor):
        is_parameter = True
        name = "fc.weight"

    w = Weight(np.ones(3), requires_grad=True)
    document = valid(graph_dict((leaf(3) * w).sum()))
    kinds = {node["kind"]: node["name"] for node in document["nodes"] if not node["op"]}
    assert kinds == {"leaf": None, "parameter": "fc.weight"}


def test_sites_and_scopes_are_there_when_somebody_listened_for_them():
    def deaf(event):
        pass

    listen(deaf, origin=True)
    try:
        with scope("model"), scope("act"):
            y = mg.tanh(leaf(2))
        y = y.sum()
    finally:
        unlisten(deaf)
    nodes = by_op(valid(graph_dict(y)))
    assert nodes["tanh"]["scope"] == "model/act" and nodes["sum"]["scope"] == ""
    assert nodes["tanh"]["site"]["file"] == __file__


def test_without_a_listener_the_site_is_null():
    assert by_op(graph_dict(leaf(2).sum()))["sum"]["site"] is None


def test_a_leaf_that_the_user_dropped_is_still_drawn():
    y = leaf(4).sum()
    kinds = [node["kind"] for node in valid(graph_dict(y))["nodes"]]
    assert kinds == ["leaf", "op"]


def test_several_roots_share_one_graph():
    x = leaf(2)
    y = mg.tanh(x)
    document = valid(graph_dict([y.sum(), (y * 2).sum()]))
    assert len(document["roots"]) == 2
    assert [node["op"] for node in document["nodes"]].count("tanh") == 1


def test_a_value_without_a_graph_is_an_error_that_says_what_to_do():
    with pytest.raises(ValueError, match="requires_grad=True"):
        graph_dict(mg.tensor([1.0]))


def test_a_dump_can_be_read_back(tmp_path):
    y = mg.tanh(leaf(3)).sum()
    dump_graph(y, tmp_path / "g.json")
    assert read_graph(str(tmp_path / "g.json")) == graph_dict(y)
    assert [path.name for path in tmp_path.iterdir()] == ["g.json"]


def test_a_graph_of_100_000_nodes_needs_no_recursion():
    x = y = leaf(2)
    for _ in range(100_000):
        y = y + x
    document = graph_dict(y)
    assert len(document["nodes"]) == 100_001 and len(document["edges"]) == 200_000


# -- the recorded backward -------------------------------------------------------------------------


def test_steps_are_recorded_in_the_order_in_which_they_ran():
    with record_backward() as rec:
        x = leaf(3)
        (x * mg.tanh(x)).sum().backward()
    document = valid(rec.graph)
    ops = {node["id"]: node["op"] for node in document["nodes"]}
    steps = document["backward"]["steps"]
    assert [ops[step["node"]] for step in steps] == ["sum", "mul", "tanh"]
    assert [step["order"] for step in steps] == [0, 1, 2]
    assert [step["contributions"] for step in steps] == [1, 2, 1]
    assert all(a["t1"] <= b["t0"] for a, b in zip(steps, steps[1:]))
    assert (document["backward"]["engine"], document["backward"]["workers"]) == ("serial", 1)


def test_the_norm_is_that_of_the_cotangent_that_arrived():
    with record_backward() as rec:
        mg.tanh(leaf(4)).backward(np.array([3.0, 4.0, 0.0, 0.0]))
    (step,) = rec.graph["backward"]["steps"]
    assert (step["grad_norm"], step["nonfinite"]) == (5.0, None)


def test_the_norm_of_a_float16_cotangent_does_not_overflow():
    with record_backward() as rec:
        y = mg.tanh(leaf(4, dtype=np.float16))
        y.backward(np.full(4, 60_000, np.float16))
    assert math.isclose(rec.graph["backward"]["steps"][0]["grad_norm"], 120_000, rel_tol=1e-3)


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "inf")])
def test_a_cotangent_that_is_not_finite_is_flagged_and_the_json_stays_json(bad, word, tmp_path):
    with record_backward() as rec:
        (leaf(3) * 2).backward(np.array([1.0, bad, 1.0]))
    step = valid(rec.graph)["backward"]["steps"][0]
    assert (step["grad_norm"], step["nonfinite"]) == (None, word)
    rec.save(tmp_path / "g.json")
    assert "NaN" not in (tmp_path / "g.json").read_text()


def test_cotangents_of_several_outputs_count_together():
    with record_backward() as rec:
        first, second = twins()(leaf(2))
        mg.backward([first, second], [np.array([3.0, 0.0]), np.array([0.0, 4.0])])
    assert [step["grad_norm"] for step in valid(rec.graph)["backward"]["steps"]] == [5.0]


def test_saved_arrays_are_in_the_recording_though_backward_frees_them():
    with record_backward() as rec:
        mg.tanh(leaf(3)).sum().backward()
    assert [value["name"] for value in by_op(rec.graph)["tanh"]["saved"]] == ["x", "y"]


def test_a_backward_that_fails_is_recorded_as_far_as_it_came():
    entry = Primitive(lambda x: x * 1, "broken", ["x"])

    @entry.vjp("x")
    def broken_dx(g):
        raise ArithmeticError

    with record_backward() as rec, pytest.raises(ArithmeticError):
        entry(leaf(3)).sum().backward()
    assert len(valid(rec.graph)["backward"]["steps"]) == 1


def test_a_backward_under_create_graph_is_recorded():
    with record_backward() as rec:
        x = leaf(3)
        mg.grad((x * x).sum(), x, create_graph=True)
    ops = {node["id"]: node["op"] for node in valid(rec.graph)["nodes"]}
    assert [ops[step["node"]] for step in rec.graph["backward"]["steps"]] == ["sum", "mul"]


def test_saving_without_a_backward_says_what_to_do(tmp_path):
    with record_backward() as rec:
        pass
    with pytest.raises(RuntimeError, match="dump_graph"):
        rec.save(tmp_path / "g.json")


def test_a_dump_under_a_pictures_name_is_refused_with_how_to_draw_it(tmp_path):
    y = mg.tensor([1.0], requires_grad=True).exp()
    with pytest.raises(ValueError, match=r"g\.json, and draw that by minigrad-viz .*g\.json -o "):
        dump_graph(y, tmp_path / "g.svg")
    with pytest.raises(TypeError, match="tensors come first"):
        dump_graph("g.json", y)
    assert not [*tmp_path.iterdir()]


def test_what_is_no_tensor_and_names_that_name_none_are_told_by_the_function_called(tmp_path):
    y = mg.tensor([1.0], requires_grad=True) * 3
    path = tmp_path / "graph.json"
    for wrong in (3, [3], []):
        with pytest.raises(TypeError, match="^dump_graph takes a tensor or a list of tensors"):
            dump_graph(wrong, path)
    with pytest.raises(ValueError, match="^dump_graph: there is no graph"):
        dump_graph(mg.tensor(1.0), path)
    assert not path.exists()
    with pytest.raises(TypeError, match="^graph_text takes a tensor"):
        mg.graph_text(3)
    for names in (3, {"a": 3}):
        with pytest.raises(TypeError, match="^graph_dict: names says what to call"):
            graph_dict(y, names)
        with pytest.raises(TypeError, match="^record_backward: names says"):
            record_backward(names=names)


def test_products_of_one_shape_count_the_operations_of_their_own_sums():
    short, long = (leaf(2, n) @ leaf(n, 2) for n in (3, 50))
    document = graph_dict((short + long).sum())
    flops = sorted(node["flops"] for node in document["nodes"] if node["op"] == "matmul")
    assert flops == [2 * 4 * 3, 2 * 4 * 50]


def test_an_elementwise_op_counts_its_result_where_an_input_is_not_known():
    document = graph_dict((leaf(2, 3) + np.ones(3)).sum())
    assert by_op(document)["add"]["flops"] == 6
