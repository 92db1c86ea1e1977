"""Dumps of compiled functions: each step is a node, each fused kernel a scope."""

import json
from importlib import resources

import jsonschema
import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

SCHEMA = json.loads(
    resources.files("minigrad.instrument").joinpath("graph.schema.json").read_text()
)


def model_step():
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    optimizer = mg.optim.Adam(model.parameters(), lr=1e-2)

    @mg.compile
    def step(x, target):
        optimizer.zero_grad()
        h = model(x)
        h = mg.tanh(h) * h + h / 2
        loss = mg.cross_entropy(h, target)
        loss.backward()
        optimizer.step()
        return loss

    rng = np.random.default_rng(0)
    x = mg.tensor(rng.normal(size=(8, 6)).astype("float32"))
    target = mg.tensor(rng.integers(0, 3, 8))
    for _ in range(2):
        step(x, target)
    return step


def dumped(step, path):
    step.dump_graph(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document


def test_a_dump_has_every_step_with_its_line_and_every_gradient(tmp_path):
    step = model_step()
    document = dumped(step, tmp_path / "step.json")
    nodes = {node["id"]: node for node in document["nodes"]}
    assert len(nodes) == len(document["nodes"])
    ops = [node for node in nodes.values() if node["kind"] == "op"]
    first = step.fn.__code__.co_firstlineno
    lines = {node["site"]["line"] - first for node in ops if node["site"]}
    assert lines == {3, 4, 5} and {node["site"]["file"] for node in ops if node["site"]} == {
        __file__
    }
    names = {node["name"] for node in nodes.values() if node["kind"] == "parameter"}
    assert len(names) == 4
    given = " ".join(nodes[root]["formula"] for root in document["roots"])
    assert all(f"gives {name}.grad" in given for name in names)
    untracked = [node for node in nodes.values() if not node.get("requires_grad", True)]
    assert {(8, 6), (8,)} <= {tuple(node["shape"]) for node in untracked}
    assert all(node["id"] < 0 for node in untracked)


def test_what_a_step_reads_comes_before_it(tmp_path):
    document = dumped(model_step(), tmp_path / "step.json")
    seq = {node["id"]: node["seq"] for node in document["nodes"]}
    assert document["edges"]
    assert all(seq[edge["producer"]] < seq[edge["consumer"]] for edge in document["edges"])


def test_a_fused_kernel_is_a_scope_around_its_steps(tmp_path, loops):
    step = model_step()
    document = dumped(step, tmp_path / "step.json")
    scopes = {node["scope"] for node in document["nodes"]} - {""}
    kernels = [
        [node["op"].partition(":")[0] for node in document["nodes"] if node["scope"] == scope]
        for scope in sorted(scopes)
    ]
    assert scopes and all(scope.startswith("kernel ") for scope in scopes)
    assert any({"tanh", "mul", "div", "add"} <= {*ops} for ops in kernels)
    assert any("tanh.backward" in ops for ops in kernels)
    assert step.explain().count("one of ") == len(scopes)
    assert all(f"one of {len(ops)} steps" in step.explain() for ops in kernels)


def test_calls_that_run_in_blocks_are_a_scope(tmp_path):
    @mg.compile
    def step(x):
        return (mg.tanh(x) * x + 1).sum()

    x = mg.tensor(np.linspace(0, 1, 1 << 18))
    step(x)
    document = dumped(step, tmp_path / "step.json")
    framed = [node["op"] for node in document["nodes"] if node["scope"] == "blocks 1"]
    assert framed == ["tanh", "mul: multiply", "add"]


def test_several_programs_have_a_scope_each(tmp_path):
    step = mg.compile(lambda x: (x * 2).exp())
    for n in (2, 3):
        step(mg.tensor(np.ones(n)))
    document = dumped(step, tmp_path / "step.json")
    assert {node["scope"] for node in document["nodes"]} == {"program 1", "program 2"}
    assert len({node["id"] for node in document["nodes"]}) == len(document["nodes"]) == 6


def test_without_a_program_and_for_a_picture_it_says_what_to_do(tmp_path):
    step = mg.compile(lambda x: x * 2)
    with pytest.raises(ValueError, match=r"has no program yet\. Call it first"):
        step.dump_graph(tmp_path / "step.json")
    step(mg.tensor([1.0]))
    with pytest.raises(ValueError, match="written as JSON, not as a picture"):
        step.dump_graph(tmp_path / "step.svg")
    assert not [*tmp_path.iterdir()]
