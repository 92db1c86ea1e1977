"""The engine's own time in a call, by section; off, nothing of it is there."""

import inspect

import numpy as np
import pytest

import minigrad as mg
from minigrad.custom.function_call import FunctionCall
from minigrad.engine.primitive import Primitive
from minigrad.instrument import sections

pytestmark = pytest.mark.promise(
    "an op's time is split into the engine's sections and the forward; off, nothing of it is there"
)


class Twice(mg.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def leaf(*shape):
    return mg.tensor(np.linspace(0.1, 1.0, int(np.prod(shape))).reshape(shape), requires_grad=True)


# an op with a generated call, one with several results, one that is variadic, one with static
# parameters, a transform, and one with three inputs of which one needs a gradient
CALLS = {
    "mul": lambda x: x * x,
    "qr_factors": lambda x: mg.linalg.qr(x),
    "concatenate_arrays": lambda x: mg.concatenate([x, x]),
    "sum": lambda x: x.sum(axis=0),
    "where": lambda x: mg.where(x.data > 0.5, x, 0.0),
    "exp": lambda x: mg.func.grad(lambda t: mg.exp(t).sum())(x),
}


@pytest.fixture
def heard():
    seen = []
    hear = lambda op, spans: seen.append((op, spans))
    with mg.profile():
        sections.listen(hear)
        try:
            yield seen
        finally:
            sections.unlisten(hear)


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("name", CALLS)
def test_the_sections_of_a_call_follow_each_other(name, recorded, heard):
    with mg.set_grad_enabled(recorded):
        CALLS[name](leaf(3, 3))
    spans = next(spans for op, spans in heard if op == name)
    assert {section for section, _, _ in spans} == set(sections.NAMES)
    assert [section for section, _, _ in spans][:3] == ["scan", "unwrap", "forward"]
    times = [t for _, t0, t1 in spans for t in (t0, t1)]
    assert times == sorted(times)


@pytest.mark.parametrize("name", CALLS)
def test_calls_give_the_same_with_clocks(name):
    x = leaf(3, 3)
    plain = CALLS[name](x)
    with mg.profile(sections=True):
        timed = CALLS[name](x)
    for a, b in zip(mg.func.tree_leaves(plain), mg.func.tree_leaves(timed), strict=True):
        assert np.array_equal(a.data, b.data) and (a.node is None) == (b.node is None)


def test_each_call_is_told_once_and_that_of_a_function_too(heard):
    x = leaf(3)
    for _ in range(3):
        Twice.apply(x)
        x + x
    assert [op for op, _ in heard] == ["Twice", "add"] * 3


def test_an_error_is_that_of_the_plain_call(heard):
    with pytest.raises(ValueError, match=r"mul\(a: float64 \(3,\), b: float64 \(2,\)\)"):
        leaf(3) * leaf(2)
    assert heard == []


def test_off_nothing_of_it_is_there():
    general, instrumented = Primitive.__dict__["general"], Primitive.__dict__["instrumented"]
    apply = inspect.getsource(mg.mul.apply)
    x = leaf(3)
    for _ in range(2):
        with mg.profile(sections=True), mg.profile(sections=True):
            x * x, mg.concatenate([x, x]), mg.linalg.qr(leaf(3, 3))
            assert "clock()" in inspect.getsource(mg.mul.instrumented)
    assert Primitive.__dict__["general"] is FunctionCall.__dict__["apply"] is general
    assert Primitive.__dict__["instrumented"] is instrumented
    with mg.profile():
        x * x
    assert "s_scan" not in inspect.getsource(mg.mul.instrumented)
    assert inspect.getsource(mg.mul.apply) == apply
    assert mg.concatenate([x, x]).shape == (6,) and sections.hearing == ()


def test_a_listener_that_is_unknown_is_ignored():
    sections.unlisten(print)
    assert Primitive.__dict__["general"] is sections._general
