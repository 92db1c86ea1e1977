"""Errors in a parallel backward: which one is raised, and what is left unchanged."""

import threading

import pytest

import minigrad as mg
from minigrad.engine.primitive import primitive


def forced(workers=4):
    return {"engine": "parallel", "workers": workers, "min_work": 0}


@primitive
def noticed(x, *, look=None):
    return x * 1.0


@noticed.vjp("x")
def noticed_dx(g, look):
    look()
    return g


def test_the_first_error_by_order_is_raised_and_the_others_attached():
    meeting = threading.Barrier(2, timeout=20)

    def fail(tag):
        def look():
            meeting.wait()
            raise KeyError(tag)

        return look

    x = mg.tensor([1.0], requires_grad=True)
    old, new = noticed(x, look=fail("old")), noticed(x, look=fail("new"))
    for _ in range(10):
        with pytest.raises(KeyError, match="new") as caught:
            mg.grad((old + new).sum(), [x], retain_graph=True, **forced(2))
        assert any("old" in note for note in caught.value.__notes__)
        assert [repr(error) for error in caught.value.also_raised] == ["KeyError('old')"]
        assert any(entry.name == "look" for entry in caught.traceback)


def test_leaves_complete_before_an_error_keep_their_value_and_no_other_is_touched():
    a, b = (mg.tensor([1.0], requires_grad=True) for _ in range(2))
    meeting = threading.Event()
    a.register_post_accumulate_grad_hook(lambda leaf: meeting.set())

    def look():
        assert meeting.wait(20)
        raise ZeroDivisionError

    loss = (noticed(b, look=look) + a * 3.0).sum()
    with pytest.raises(ZeroDivisionError):
        loss.backward(**forced(2))
    assert a.grad.tolist() == [3.0] and b.grad is None


def test_a_backward_over_the_same_nodes_from_a_hook_is_refused():
    x = mg.tensor([1.0], requires_grad=True)
    y = x * 2.0
    loss = (y * y).sum()
    y.register_hook(lambda g: mg.grad(loss, [x], retain_graph=True) and None)
    with pytest.raises(mg.errors.GraphInUseError, match="hook"):
        loss.backward(**forced(2))
