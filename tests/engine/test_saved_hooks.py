"""Saved arrays in another form until the backward."""

import os
import threading
from contextlib import nullcontext

import numpy as np
import pytest

import minigrad as mg
from minigrad.core import modes
from minigrad.core.errors import HookError, InPlaceError
from minigrad.core.piecewise import LARGE
from minigrad.core.saving import Saver
from minigrad.engine.checkpoint import checkpoint
from minigrad.engine.saved_hooks import save_on_disk, saved_tensors_hooks


def leaf(values):
    return mg.tensor(values, requires_grad=True)


def test_what_is_saved_is_packed_once_and_unpacked_when_needed():
    x, log = leaf([1.0, 2.0]), []

    def pack(t):
        log.append("pack")
        return t.tolist()

    def unpack(values):
        log.append("unpack")
        return mg.tensor(values)

    with saved_tensors_hooks(pack, unpack):
        y = np.exp(x) * 2.0
    assert log == ["pack"] and modes.active == 0
    y.sum().backward()
    assert log == ["pack", "unpack"]
    np.testing.assert_allclose(x.grad.data, 2 * np.exp([1.0, 2.0]))


def test_activations_may_be_kept_as_float16():
    """In the words of the docstring; masks and indices are kept as they are."""

    def pack(x):
        return x.dtype, x.astype("float16") if x.dtype == "float32" else x

    x = mg.tensor([1.0, 2.0], dtype="float32", requires_grad=True)
    with saved_tensors_hooks(pack, lambda kept: kept[1].astype(kept[0])):
        y = mg.where(x > 1, x * x * x, x)[np.array([0, 1])]
    y.sum().backward()
    assert x.grad.dtype == np.float32
    np.testing.assert_allclose(x.grad.data, [1, 12], rtol=1e-3)


def test_second_order_works_on_what_is_unpacked():
    x = leaf([2.0])
    with saved_tensors_hooks(lambda t: t.numpy().copy(), mg.tensor):
        y = mg.concatenate([x**3, x * x]).sum()
    g = mg.grad(y, x, create_graph=True)
    assert mg.grad(g.sum(), x).tolist() == [14]


def test_an_unpacked_array_of_another_form_is_refused():
    with saved_tensors_hooks(lambda t: t, lambda t: t.astype("float32")):
        y = np.exp(leaf([1.0]))
    with pytest.raises(HookError, match=r"float32 \(1,\) for the saved 'y' of exp"):
        y.sum().backward()


def test_pack_cannot_write_into_what_it_is_shown():
    with (
        saved_tensors_hooks(lambda t: t.zero_(), lambda t: t),
        pytest.raises(ValueError, match="read-only"),
    ):
        np.exp(leaf([1.0]))
    assert modes.state.saving == ()


def test_a_changed_array_is_noticed_behind_the_hooks():
    x, w = leaf([1.0]), mg.tensor([2.0])
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x * w
    w += 1
    with pytest.raises(InPlaceError, match="mul"):
        y.sum().backward()


def test_hooks_may_be_entered_inside_themselves():
    hooks, x = saved_tensors_hooks(lambda t: 3 * t, lambda t: t), leaf([1.0])
    with hooks:
        with hooks:
            y = x * x
        z = x * x
    y.sum().backward()
    z.sum().backward()
    assert x.grad.tolist() == [12] and modes.state.saving == ()


def test_two_threads_may_share_one_object_of_hooks():
    hooks, meeting, left = saved_tensors_hooks(lambda t: t, lambda t: t), threading.Barrier(2), []

    def run(outer):
        with outer:
            with hooks:
                meeting.wait(10)
            left.append(modes.state.saving == ((outer,) if isinstance(outer, Saver) else ()))

    outers = [saved_tensors_hooks(lambda t: t, lambda t: t), nullcontext()]
    threads = [threading.Thread(target=run, args=(outer,)) for outer in outers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert left == [True, True]


def test_the_innermost_hooks_are_used():
    x, log = leaf([1.0]), []

    def named(name):
        return saved_tensors_hooks(lambda t: (log.append(name), t)[1], lambda t: t)

    with named("outer"), named("inner"):
        np.exp(x)
    assert log == ["inner"]


def test_a_checkpoint_inside_keeps_nothing_to_pack():
    x, log = leaf([1.0]), []
    with saved_tensors_hooks(lambda t: (log.append(1), t)[1], lambda t: t):
        y = checkpoint(np.exp, x)
    y.sum().backward()
    assert not log and x.grad.item() == pytest.approx(np.e)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_large_arrays_go_to_disk_and_leave_it(tmp_path, dtype):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    x = mg.ones(100, 50, dtype=dtype, requires_grad=True)
    with save_on_disk(tmp_path, min_bytes=1000):
        y = x * x
    assert len(os.listdir(tmp_path)) == 2
    y.backward(mg.ones_like(y))
    del y
    assert not os.listdir(tmp_path)
    assert (x.grad.data == 2).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_that_drops_its_copy_of_a_graph_leaves_the_files(tmp_path):
    x = leaf(np.ones(1000))
    with save_on_disk(tmp_path, min_bytes=1000):
        y = (x * x).sum()
    child = os.fork()
    if not child:
        del y
        os._exit(0)
    os.waitpid(child, 0)
    y.backward()
    assert (x.grad.data == 2).all()


@pytest.mark.parametrize("engine", ["serial", "parallel"])
@pytest.mark.parametrize("size", [10, LARGE], ids=["small", "large"])
def test_each_value_comes_back_once_however_large(size, engine):
    unpacked = []

    def unpack(x):
        unpacked.append(x)
        return x

    x = mg.tensor(np.ones(size, np.float32), requires_grad=True)
    with mg.saved_tensors_hooks(lambda x: x, unpack):
        y = mg.exp(x) + x * mg.tanh(x)
    y.backward(np.ones(size, np.float32), engine=engine)
    assert len(unpacked) == 4  # of exp its result, of tanh too, of the product both factors
