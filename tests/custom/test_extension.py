"""Ops get forwards per device, rules and caches of their own; what is missing is an error."""

import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.engine.errors import RuleError
from minigrad.engine.primitive import Primitive
from minigrad.engine.registry import op as registry
from minigrad.errors import ImplementationError
from minigrad.testing import gradcheck

pytestmark = pytest.mark.promise("a missing implementation or rule is an error, never a zero")


@pytest.fixture
def scaled():
    @mg.extension
    def scaled_of_a_test(x, *, scale=1.0):
        """y = scale · x"""

    yield scaled_of_a_test
    del registry.__dict__["scaled_of_a_test"]


def test_a_declared_op_runs_by_the_implementation_of_its_device(scaled):
    @scaled.implementation("cpu")
    def on_cpu(x, *, scale=1.0):
        return x * scale

    @scaled.vjp("x")
    def scaled_dx(g, scale):
        return g * scale

    x = mg.tensor([1.0, 2.0], requires_grad=True)
    scaled(x, scale=3.0).sum().backward()
    assert x.grad.tolist() == [3, 3]
    gradcheck(lambda x: scaled(x, scale=2.0), (x,))
    assert func.grad(lambda x: scaled(x, scale=2.0).sum())(x).tolist() == [2, 2]


def test_a_missing_implementation_is_an_error_that_says_what_there_is(scaled):
    with pytest.raises(ImplementationError, match="no implementation for cpu; it has none at all"):
        scaled(mg.tensor([1.0]))
    scaled.implementation("cuda")(lambda x, *, scale=1.0: x)
    with pytest.raises(ImplementationError, match=r"it has cuda\. Give it one with @scaled_of"):
        scaled(mg.tensor([1.0]))


def test_a_missing_rule_is_an_error_never_a_zero(scaled):
    scaled.implementation("cpu")(lambda x, *, scale=1.0: x * scale)
    x = mg.tensor([1.0], requires_grad=True)
    with pytest.raises(RuleError, match='give it one with @scaled_of_a_test.vjp\\("x"\\)'):
        scaled(x).backward()
    assert x.grad is None


def test_an_op_of_the_library_can_be_given_an_implementation_and_it_back():
    calls = []

    @mg.cbrt.implementation("cpu")
    def counted(x):
        calls.append(x.shape)
        return np.cbrt(x)

    try:
        x = mg.tensor([8.0], requires_grad=True)
        y = mg.cbrt(x)
        y.backward()
        assert calls == [(1,)] and y.item() == 2 and x.grad.item() == pytest.approx(1 / 12)
        assert mg.extensions()["cbrt"]["implementations"] == ["cpu", "any"]
        with pytest.raises(ValueError, match="cbrt has an implementation for cpu already"):
            mg.cbrt.implementation("cpu")(counted)
    finally:
        mg.cbrt.remove_implementation("cpu")
    assert mg.cbrt.reference is np.cbrt and "cbrt" not in mg.extensions()
    with pytest.raises(KeyError, match="cbrt has no implementation for 'cpu'"):
        mg.cbrt.remove_implementation("cpu")


def test_an_implementation_serves_ops_with_residuals_inside_transforms_too():
    x = mg.tensor([[3.0, 1.0, 2.0]])

    def loss(x):
        return mg.prod(x, axis=1).sum()

    before = func.grad(loss)(x).tolist()
    forward, calls = mg.prod.forward, []

    @mg.prod.implementation("cpu")
    def counted(*args, **params):
        calls.append(1)
        return forward(*args, **params)

    try:
        assert func.grad(loss)(x).tolist() == before and calls == [1]
    finally:
        mg.prod.remove_implementation("cpu")


def test_the_list_names_implementations_rules_and_caches(scaled):
    scaled.implementation("cpu")(lambda x, *, scale=1.0: x * scale)
    scaled.vjp("x")(lambda g, scale: g * scale)
    cache = scaled.cache("plans", max_entries=2, max_bytes=1000)
    for i in range(3):
        cache.get_or_make(i, lambda: np.zeros(4))
    listed = mg.extensions()["scaled_of_a_test"]
    assert listed["implementations"] == ["cpu"] and listed["rules"] == ["x"]
    assert listed["caches"]["scaled_of_a_test.plans"] == {
        "entries": 2, "bytes": 64, "hits": 0, "misses": 3, "evictions": 1,
        "max_entries": 2, "max_bytes": 1000,
    }  # fmt: skip
    assert "scaled_of_a_test.plans" in mg.cache_stats()


def test_the_limits_of_its_cache_change_while_it_lives(scaled):
    cache = scaled.cache("plans", max_entries=4)
    for i in range(4):
        cache.put(i, i, size=100)
    cache.max_entries = 1
    listed = mg.extensions()["scaled_of_a_test"]["caches"]["scaled_of_a_test.plans"]
    assert (listed["entries"], listed["bytes"], listed["max_entries"]) == (1, 100, 1)


def test_an_unknown_device_is_refused(scaled):
    with pytest.raises(ValueError, match="there is no device 'tpu'"):
        scaled.implementation("tpu")


def test_of_two_threads_that_give_one_implementation_at_once_one_is_refused(monkeypatch, scaled):
    refused, threads = [], []

    def give(factor):
        try:
            scaled.implementation("cpu")(lambda x, *, scale=1.0: x * factor)
        except ValueError:
            refused.append(factor)

    set_forward = scaled._set_forward

    def meanwhile(forward):
        if not threads:
            threads.append(threading.Thread(target=give, args=(2.0,)))
            threads[0].start()
            threads[0].join(timeout=0.2)
        set_forward(forward)

    monkeypatch.setattr(scaled, "_set_forward", meanwhile)
    give(3.0)
    threads[0].join(timeout=10)
    assert refused == [2.0] and scaled(mg.tensor([1.0])).tolist() == [3.0]


def sine_of_ones(**rules):
    """sin at (1, 1), by an op of which rules say otherwise."""
    op = Primitive(rules.get("forward", np.sin), "ours", ["x"])
    op.vjp("x")(rules.get("vjp", lambda g, x: g * np.cos(x)))
    for name in ("jvp", "batch"):
        if name in rules:
            getattr(op, name)(rules[name])
    return op


ONES = np.ones(2)


@pytest.mark.parametrize("returned", [[1.0, 2.0], 0, "no gradient", {}])
@pytest.mark.parametrize("engine", ["serial", "parallel"])
def test_a_rule_that_returns_no_array_is_named(returned, engine):
    op = sine_of_ones(vjp=lambda g, x: returned)
    y = op(mg.tensor(ONES, requires_grad=True)).sum()
    with pytest.raises(RuleError, match=r"the rule of ours returned .* for the input 'x'"):
        y.backward(engine=engine)


def test_an_attribute_error_of_a_rule_that_returns_an_array_stays_what_it_is():
    op = sine_of_ones(vjp=lambda g, x: g.no_such_attribute)
    with pytest.raises(AttributeError, match="no_such_attribute"):
        op(mg.tensor(ONES, requires_grad=True)).sum().backward()


@pytest.mark.parametrize("returned", [[1.0, 2.0], 0.5, np.float64(2)])
def test_a_jvp_rule_whose_tangent_is_not_of_its_results_shape_is_named(returned):
    op = sine_of_ones(jvp=lambda x_t, x: returned)
    with pytest.raises(RuleError, match=r"the jvp rule of ours returned .* of shape \(2,\)"):
        mg.func.jvp(op, (mg.tensor(ONES),), (mg.tensor(ONES),))


def test_a_batch_rule_that_returns_no_array_is_named():
    op = sine_of_ones(batch=lambda op, xs, batched, params: [1.0, 2.0])
    with pytest.raises(RuleError, match="the batch rule of ours returned"):
        mg.func.vmap(op)(mg.tensor(np.ones((2, 2))))


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_forward_that_returns_no_array_is_named(requires_grad):
    op = sine_of_ones(forward=lambda x: [1.0, 2.0])
    with pytest.raises(TypeError, match="the forward of ours returned .* returns an array"):
        op(mg.tensor(ONES, requires_grad=requires_grad))


def test_a_forward_of_several_results_is_told_to_say_how_many():
    op = sine_of_ones(forward=lambda x: (x, x))
    with pytest.raises(TypeError, match="a tuple of 2 with outputs=2"):
        op(mg.tensor(ONES, requires_grad=True))
