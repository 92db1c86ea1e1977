"""A recorded backward also tells the arrays that its ops read and no gradient flows to."""

import gc
import json
import weakref
from importlib import resources

import jsonschema
import numpy as np

import minigrad as mg
from minigrad import nn
from minigrad.instrument import record_backward

SCHEMA = json.loads(
    resources.files("minigrad.instrument").joinpath("graph.schema.json").read_text()
)


def recorded(run, names=None):
    with record_backward(names) as record:
        run().backward()
    jsonschema.Draft202012Validator(SCHEMA).validate(record.graph)
    return record.graph


def untracked(graph):
    return [node for node in graph["nodes"] if node.get("requires_grad") is False]


def users(graph, node):
    ops = {one["id"]: one["op"] for one in graph["nodes"]}
    ends = [edge for edge in graph["edges"] if edge["producer"] == node["id"]]
    return [(ops[edge["consumer"]], edge["slot"]) for edge in ends]


def test_the_image_that_a_convolution_reads_is_told_with_name_shape_and_dtype():
    conv, x = nn.Conv2d(1, 2, 3), mg.ones(4, 1, 8, 8, dtype="float32")
    graph = recorded(lambda: conv(x).sum(), {"image": x})
    (image,) = untracked(graph)
    assert image["name"] == "image" and image["kind"] == "leaf"
    assert image["shape"] == [4, 1, 8, 8] and image["dtype"] == "float32"
    assert users(graph, image) == [("conv", 0)]


def test_an_array_that_is_read_twice_is_one_input():
    w, x = mg.ones(3, requires_grad=True), mg.ones(3)
    graph = recorded(lambda: (w * x + x).sum())
    (once,) = untracked(graph)
    assert users(graph, once) == [("mul", 1), ("add", 1)]


def test_arrays_of_numpy_and_masks_are_told_and_numbers_are_not():
    w = mg.ones(3, requires_grad=True)
    mask = mg.tensor([True, False, True])
    graph = recorded(lambda: (mg.where(mask, w, 0.0) * np.full(3, 2.0) + 1).sum())
    assert [node["values"] for node in untracked(graph)] == [[1, 0, 1], [2, 2, 2]]


def test_an_input_that_an_op_outside_of_the_graph_made_tells_which():
    w, x = mg.ones(3, requires_grad=True), mg.ones(2, 3)
    assert untracked(recorded(lambda: (w * x[0]).sum()))[0]["source"] == "getitem"


def test_no_gradient_is_sent_to_an_untracked_input():
    w, x = mg.ones(3, requires_grad=True), mg.ones(3)
    graph = recorded(lambda: (w * x).sum())
    ids = {node["id"] for node in untracked(graph)}
    sent = [part["producer"] for step in graph["backward"]["steps"] for part in step["sent"]]
    assert ids and ids.isdisjoint(sent)


def test_recording_keeps_no_array_alive():
    w = mg.ones(3, requires_grad=True)
    with record_backward():
        x = mg.ones(3)
        data = weakref.ref(x.data)
        (w + x).sum().backward()
        del x
        gc.collect()
        assert data() is None


def test_an_array_in_the_place_of_a_freed_one_is_another_input():
    w = mg.ones(3, requires_grad=True)
    graph = recorded(lambda: sum((w + mg.full((3,), float(k)) for k in range(5)), w).sum())
    assert sorted(node["values"][0] for node in untracked(graph)) == [0, 1, 2, 3, 4]
