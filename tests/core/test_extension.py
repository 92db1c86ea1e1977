"""Ops get forwards per device, rules and caches of their own; what is missing is an error."""

import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.core.errors import ImplementationError, RuleError
from minigrad.core.registry import op as registry
from minigrad.testing import gradcheck


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
    assert mg.cbrt.forward is np.cbrt and "cbrt" not in mg.extensions()
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

    scaled.forward = lambda x, *, scale=1.0: x  # not one for single devices yet
    monkeypatch.setattr(scaled, "_set_forward", meanwhile)
    give(3.0)
    threads[0].join(timeout=10)
    assert refused == [2.0] and scaled(mg.tensor([1.0])).tolist() == [3.0]
