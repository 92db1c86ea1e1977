"""no_grad and its family: thread-local, nested, restored."""

import threading

import pytest

import minigrad as mg
from minigrad.core import modes


@pytest.fixture
def x():
    return mg.tensor([1.0], requires_grad=True)


def test_no_grad_records_nothing(x):
    with mg.no_grad():
        y = x * 2
    assert not y.requires_grad and (x * 2).requires_grad


def test_enable_grad_records_inside_no_grad(x):
    with mg.no_grad(), mg.enable_grad():
        assert (x * 2).requires_grad


def test_set_grad_enabled_takes_a_value(x):
    with mg.set_grad_enabled(False):
        assert not (x * 2).requires_grad


def test_modes_are_restored_after_an_exception(x):
    with pytest.raises(KeyError), mg.no_grad():
        raise KeyError
    assert mg.is_grad_enabled() and (x * 2).requires_grad and modes.active == 0


def test_no_grad_is_also_a_decorator_and_may_recurse(x):
    @mg.no_grad()
    def countdown(n):
        return x * n if n == 0 else countdown(n - 1)

    assert not countdown(3).requires_grad
    assert mg.is_grad_enabled()


def test_one_thread_does_not_change_another(x):
    inside, leave, seen = threading.Event(), threading.Event(), []

    def other():
        with mg.no_grad():
            inside.set()
            leave.wait(5)
            seen.append((x * 2).requires_grad)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(5)
    assert (x * 2).requires_grad
    leave.set()
    thread.join()
    assert seen == [False]


def test_inference_mode_records_nothing_and_is_restored(x):
    with pytest.raises(KeyError), modes.inference_mode():
        assert modes.is_inference_mode_enabled() and not (x * 2).requires_grad
        raise KeyError
    assert not modes.is_inference_mode_enabled() and (x * 2).requires_grad


def test_inference_mode_refuses_to_record(x):
    y = (x * 2).sum()
    with modes.inference_mode():
        with pytest.raises(RuntimeError, match="inside inference_mode"), mg.enable_grad():
            pass
        with pytest.raises(RuntimeError, match="inside inference_mode"):
            mg.func.grad(lambda x: (x * x).sum())(x)
        with modes.inference_mode():
            pass
        assert modes.is_inference_mode_enabled()
        y.backward()
    assert x.grad.tolist() == [2] and modes.active == 0


def test_inference_mode_is_also_a_decorator(x):
    assert not modes.inference_mode()(lambda: x * 2)().requires_grad
