"""The nodes of a recorded backward against finite differences."""

import json
import os
import subprocess
import sys
from importlib import resources

import jsonschema
import numpy as np
import pytest

import minigrad as mg
from minigrad.testing.check_graph import LARGEST

pytestmark = pytest.mark.promise(
    "each node of a recorded backward is checked against finite differences, and no gradient "
    "changes by it"
)

rng = np.random.default_rng(0)


def checks(forward, *arrays, **how):
    """{op: check} of the nodes of one recorded backward."""
    tensors = [mg.tensor(x, requires_grad=True) for x in arrays]
    with mg.record_backward(check=True) as rec:
        forward(*tensors).backward(**how)
    schema = resources.files("minigrad.instrument").joinpath("graph.schema.json").read_text()
    jsonschema.Draft202012Validator(json.loads(schema)).validate(rec.graph)
    return {node["op"]: node["check"] for node in rec.graph["nodes"] if node["op"]}


def verdicts(*call, **how):
    return {op: check["verdict"] for op, check in checks(*call, **how).items()}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex128", "complex64"])
def test_right_rules_are_right_in_every_dtype(dtype):
    a, b = (rng.normal(size=(4, 4)).astype(dtype) for _ in "ab")
    found = checks(lambda a, b: mg.abs(mg.sin(a @ b) * a).sum(), a, b)
    assert {check["verdict"] for check in found.values()} == {"right"}
    assert all(check["error"] <= check["tolerance"] for check in found.values())


def test_a_rule_that_is_wrong_in_one_entry_is_wrong():
    class Cube(mg.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            g = 3 * g * ctx.saved_tensors[0] ** 2
            g[0] = g[0] * 1.01
            return g

    assert verdicts(lambda x: Cube.apply(x).sum(), rng.normal(size=9)) == {
        "Cube": "wrong", "sum": "right",
    }  # fmt: skip


def test_a_rule_that_gives_nan_is_wrong_and_says_so():
    class Bad(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * np.nan

    check = checks(lambda x: Bad.apply(x).sum(), np.ones(3))["Bad"]
    assert check["verdict"] == "wrong" and "error" not in check and "NaN" in check["why"]


def test_a_kink_is_unsure_and_not_wrong():
    assert verdicts(lambda x: mg.relu(x).sum(), np.zeros(3))["relu"] == "unsure"
    assert verdicts(lambda x: mg.relu(x).sum(), np.array([-1.0, 2.0]))["relu"] == "right"


def test_random_ops_are_skipped_and_the_generator_is_left_alone():
    x = mg.tensor(np.ones(50), requires_grad=True)
    results = []
    for check in (False, True):
        mg.manual_seed(3)
        with mg.record_backward(check=check) as rec:
            y = mg.dropout(x * 2)
            y.sum().backward()
        results.append((y.numpy(), mg.rand(3).numpy()))
    assert np.array_equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])
    (dropped,) = [n["check"] for n in rec.graph["nodes"] if n["op"] == "drop"]
    assert dropped["verdict"] == "skipped" and "random" in dropped["why"]


def test_a_function_that_draws_random_numbers_draws_no_more_of_them_for_its_check():
    class Noisy(mg.Function):
        @staticmethod
        def forward(ctx, x):
            return x + mg.rand(*x.shape)

        @staticmethod
        def backward(ctx, g):
            return g

    drawn = []
    for check in (False, True):
        mg.manual_seed(3)
        x = mg.tensor(np.ones(5), requires_grad=True)
        with mg.record_backward(check=check) as rec:
            Noisy.apply(x).sum().backward()
        drawn.append(mg.rand(3).numpy())
    assert np.array_equal(*drawn)
    assert "another result each time" in rec.graph["nodes"][1]["check"]["why"]


def test_nodes_that_are_too_large_or_unknown_are_skipped():
    big = np.ones(LARGEST)
    found = checks(lambda x: mg.sin(x)[:3].sum(), big)
    assert found["sin"]["verdict"] == "skipped" and "larger than" in found["sin"]["why"]
    x = mg.tensor(np.ones(3), requires_grad=True)
    loss = mg.sin(x).sum()
    with mg.record_backward(check=True) as rec:
        loss.backward()
    assert "forward was not recorded" in rec.graph["nodes"][-1]["check"]["why"]


def test_inputs_written_to_after_the_call_are_checked_as_they_were():
    w = mg.tensor(rng.normal(size=4), requires_grad=True)
    x = mg.tensor(rng.normal(size=4))
    with mg.record_backward(check=True) as rec:
        y = mg.sin(x * w)
        z = y.sum()
        buffer = mg.tensor(np.ones(4))
        buffer += 1
        z.backward()
    assert {n["check"]["verdict"] for n in rec.graph["nodes"] if n["op"]} == {"right"}


@pytest.mark.parametrize("engine", ["serial", "parallel", "tape"])
def test_checks_are_made_under_every_engine_and_change_no_gradient(engine):
    arrays = [rng.normal(size=(5, 5)) for _ in range(3)]

    def gradients(check):
        tensors = [mg.tensor(x, requires_grad=True) for x in arrays]
        a, b, c = tensors
        with mg.Tape() as tape, mg.record_backward(check=check) as rec:
            loss = (mg.tanh(a @ b) * mg.exp(c)).sum() + (a * c).mean()
        with rec:
            loss.backward(
                engine=engine, **({"workers": 2, "min_work": 0} if engine == "parallel" else {})
            )
        del tape
        return [t.grad.numpy() for t in tensors], rec.graph

    plain, _ = gradients(False)
    checked, graph = gradients(True)
    assert all(np.array_equal(a, b) for a, b in zip(plain, checked, strict=True))
    assert {n["check"]["verdict"] for n in graph["nodes"] if n["op"]} == {"right"}


def test_several_outputs_and_static_parameters_are_checked():
    def forward(x):
        q, r = mg.linalg.qr(x)
        return (q * 2 + r).sum() + mg.sum(x, axis=1, keepdims=True).max()

    found = verdicts(forward, rng.normal(size=(3, 3)))
    assert found.pop("qr_factors") == "right" and set(found.values()) == {"right"}


def test_the_environment_asks_for_checks_of_an_unchanged_program(tmp_path):
    out = tmp_path / "graph.json"
    program = (
        "import minigrad as mg\nx = mg.tensor([1.0, 2.0], requires_grad=True)\n"
        "(mg.exp(x) * x).sum().backward()\n"
    )
    environment = {**os.environ, "MINIGRAD_GRAPH_OUT": str(out), "MINIGRAD_GRAPH_CHECK": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
    nodes = json.loads(out.read_text())["nodes"]
    assert [n["check"]["verdict"] for n in nodes if n["op"]] == ["right"] * 3


def test_nothing_of_the_harness_is_loaded_without_a_check():
    code = (
        "import minigrad, sys; minigrad.record_backward(); print('minigrad.testing' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stdout == "False\n"
