"""NVTX ranges: named, nested, closed whatever happens, and clear about what is missing."""

import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import events, modes

pytestmark = pytest.mark.promise(
    "device times are shown next to the host's; NVTX ranges open and close in pairs"
)


@pytest.fixture
def nvtx(fake):
    """What the stand-in's NVTX has been told: ranges, closed."""
    return sys.modules["stand_in_streams"]


def leaf():
    return mg.tensor(np.ones(3), device="cuda", requires_grad=True)


def names(nvtx):
    return [name for _, name in nvtx.ranges]


def test_forward_and_backward_have_ranges_of_the_ops_names(nvtx):
    x = leaf()
    with mg.cuda.nvtx():
        y = mg.tanh(x)
        y.sum().backward()
    backward = f"tanh.backward #{y.node.number}"
    found = names(nvtx)
    assert found[:2] == ["tanh", "sum"] and backward in found
    assert sorted(nvtx.closed) == sorted(found)


def test_the_scope_stands_behind_the_name(nvtx):
    with mg.cuda.nvtx(), mg.scope("encoder"):
        mg.tanh(leaf())
    assert "tanh [encoder]" in names(nvtx)


def test_an_op_that_raises_leaves_no_range_open_above_later_ones(nvtx):
    with mg.cuda.nvtx():
        with pytest.raises(ValueError):
            leaf() @ mg.tensor(np.ones((2, 2)), device="cuda")
        mg.tanh(leaf())
    assert (0, "tanh") in nvtx.ranges
    assert sorted(nvtx.closed) == sorted(names(nvtx))


@mg.primitive
def fails_in_backward(x):
    return x * 1.0


fails_in_backward.vjp("x")(lambda g: 1 / 0)


def test_a_rule_that_raises_closes_its_range(nvtx):
    with mg.cuda.nvtx():
        with pytest.raises(ZeroDivisionError):
            fails_in_backward(leaf()).sum().backward()
        mg.tanh(leaf())
    assert (0, "tanh") in nvtx.ranges
    assert sorted(nvtx.closed) == sorted(names(nvtx))


def test_transforms_and_functions_open_and_close_in_pairs(nvtx):
    x = leaf()
    with mg.cuda.nvtx():
        mg.func.grad(lambda x: mg.tanh(x).sum())(x)
        mg.checkpoint(lambda x: mg.tanh(x).sum(), x).backward()
        mg.grad(mg.tanh(x).sum(), x, create_graph=True)
    assert nvtx.ranges and sorted(nvtx.closed) == sorted(names(nvtx))


def test_workers_open_and_close_their_own_ranges(nvtx):
    xs = [leaf() for _ in range(6)]
    with mg.cuda.nvtx():
        loss = sum((mg.tanh(x).sum() for x in xs[1:]), mg.tanh(xs[0]).sum())
        loss.backward(engine="parallel", workers=3, min_work=0)
    assert sum(name.startswith("tanh.backward") for name in names(nvtx)) == 6
    assert sorted(nvtx.closed) == sorted(names(nvtx))


def test_afterwards_ops_pay_nothing_for_it(nvtx):
    before = modes.active, modes.checked
    with mg.cuda.nvtx(), pytest.raises(RuntimeError, match="on already"):
        mg.cuda.nvtx().__enter__()
    assert (modes.active, modes.checked) == before
    assert events.opening is events.around is None and not events.listeners


def test_a_cupy_without_nvtx_is_said(fake, monkeypatch):
    monkeypatch.setattr(fake.cuda, "nvtx", type("Unavailable", (), {"available": False})())
    with pytest.raises(mg.cuda.DeviceError, match=r"built without it.*event_log"):
        mg.cuda.nvtx().__enter__()
    assert events.opening is None and not events.listeners
