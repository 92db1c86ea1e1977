"""What a recorded backward tells of the gradients: contributions, totals, `.grad`, memory."""

import json
from importlib import resources

import jsonschema
import numpy as np
import pytest

import minigrad as mg
from minigrad.instrument import graph_dict, record_backward

SCHEMA = json.loads(
    resources.files("minigrad.instrument").joinpath("graph.schema.json").read_text()
)


def record(forward, retain_graph=None, **arrays):
    """(dump, tensors) of one backward of forward(**tensors), valid by the schema."""
    tensors = {name: mg.tensor(np.array(x), requires_grad=True) for name, x in arrays.items()}
    with record_backward(tensors) as rec:
        forward(**tensors).backward(retain_graph=retain_graph)
    jsonschema.Draft202012Validator(SCHEMA).validate(rec.graph)
    json.dumps(rec.graph, allow_nan=False)
    return rec.graph, tensors


def named(document, name):
    return next(node for node in document["nodes"] if node["name"] == name)


def sent_to(document, name):
    """The contributions to a named node, in the order of the steps."""
    wanted, steps = named(document, name)["id"], document["backward"]["steps"]
    return [part for step in steps for part in step["sent"] if part["producer"] == wanted]


def test_each_step_tells_what_it_gave_to_each_input():
    document, _ = record(lambda a, b: a * b, a=2.0, b=-3.0)
    (step,) = document["backward"]["steps"]
    given = {part["slot"]: part["values"] for part in step["sent"]}
    assert given == {0: [-3.0], 1: [2.0]}
    assert step["values"] == [1.0] and step["grad_norm"] == 1.0


def test_contributions_are_told_as_they_arrive_summed_over_broadcast_axes():
    document, _ = record(lambda x, b: (x + b).sum(), x=np.ones((5, 3)), b=np.zeros(3))
    (part,) = sent_to(document, "b")
    assert (part["shape"], part["bytes"], part["values"]) == ([3], 24, [5.0, 5.0, 5.0])
    (part,) = sent_to(document, "x")
    assert part["shape"] == [5, 3] and part["grad_norm"] == pytest.approx(np.sqrt(15))


def test_contributions_of_both_slots_of_one_input_are_told_apart():
    document, _ = record(lambda a: a * a, a=3.0)
    assert [(part["slot"], part["values"]) for part in sent_to(document, "a")] == [
        (0, [3.0]),
        (1, [3.0]),
    ]


def test_contributions_add_up_to_the_gradient_of_the_leaf():
    document, tensors = record(lambda a: mg.tanh(a * a) + a * 0.5, a=0.7)
    total = sum(part["values"][0] for part in sent_to(document, "a"))
    assert total == pytest.approx(tensors["a"].grad.item(), rel=1e-15)
    assert named(document, "a")["grad"]["values"] == [tensors["a"].grad.item()]


def test_a_leaf_tells_its_grad_before_and_after():
    a = mg.tensor(2.0, requires_grad=True)
    (a * 5).backward()
    with record_backward({"a": a}) as rec:
        (a * a).backward()
    leaf = named(rec.graph, "a")
    assert (leaf["grad_before"]["values"], leaf["grad"]["values"]) == ([5.0], [9.0])


def test_a_leaf_that_received_nothing_tells_no_grad():
    a, b = (mg.tensor(2.0, requires_grad=True) for _ in "ab")
    b.grad = mg.tensor(1.0)
    with record_backward({"a": a, "b": b}) as rec:
        mg.grad(a * b, a)
    assert "grad" not in named(rec.graph, "b") and "grad" not in named(rec.graph, "a")


def test_small_results_of_the_forward_are_told():
    document, _ = record(lambda a: mg.exp(a) * 2.0, a=0.0)
    values = {node["op"]: node["values"] for node in document["nodes"]}
    assert values == {None: [0.0], "exp": [1.0], "mul": [2.0]}


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_numbers_that_are_not_finite_are_words():
    document, _ = record(lambda a: mg.log(a), a=0.0)
    (step,) = document["backward"]["steps"]
    assert step["sent"][0]["values"] == ["inf"] and step["sent"][0]["nonfinite"] == "inf"


def test_the_text_of_the_users_line_is_told():
    def forward(a):
        return mg.sin(a)  # this very line

    document, _ = record(forward, a=1.0)
    site = document["nodes"][-1]["site"]
    assert site["text"] == "return mg.sin(a)  # this very line"


def test_arrays_that_show_the_same_memory_have_one_number():
    document, _ = record(lambda x: (mg.exp(x) * mg.tanh(x)).sum(), x=np.ones(20))
    exp, mul = (next(n for n in document["nodes"] if n["op"] == op) for op in ("exp", "mul"))
    buffers = {array["name"]: array["buffer"] for array in mul["saved"]}
    assert exp["saved"][0]["buffer"] == buffers["a"] != buffers["b"]
    assert named(document, "x")["buffer"] not in buffers.values()


def test_the_dump_tells_whether_saved_arrays_were_released():
    assert record(lambda a: a * a, a=1.0)[0]["backward"]["released"] is True
    assert record(lambda a: a * a, True, a=1.0)[0]["backward"]["released"] is False


def test_a_dump_without_backward_names_tensors_and_tells_the_root():
    a = mg.tensor(2.0, requires_grad=True)
    b = a * 3
    document = graph_dict(b, {"a": a, "b": b})
    assert named(document, "a")["values"] == [2.0] and named(document, "b")["values"] == [6.0]


def test_a_parameter_tells_how_its_values_and_its_gradient_are_spread():
    w = mg.tensor(np.arange(100.0), requires_grad=True)
    with mg.record_backward() as record:
        (w * w).sum().backward()
    (leaf,) = [node for node in record.graph["nodes"] if node["kind"] != "op"]
    assert (leaf["histogram"]["least"], leaf["histogram"]["most"]) == (0.0, 99.0)
    assert (leaf["grad"]["histogram"]["least"], leaf["grad"]["histogram"]["most"]) == (0.0, 198.0)
    assert "nonfinite" not in leaf


def test_a_parameter_that_holds_nan_says_so():
    w = mg.tensor(np.array([1.0, np.nan]), requires_grad=True)
    with mg.record_backward() as record:
        (w * 2.0).sum().backward()
    (leaf,) = [node for node in record.graph["nodes"] if node["kind"] != "op"]
    assert leaf["nonfinite"] == "nan"
