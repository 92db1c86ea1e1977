"""Saved arrays in another form until the backward."""

import os
import threading
from contextlib import nullcontext

import numpy as np
import pytest

import minigrad as mg
from minigrad.backends.blocks import LARGE
from minigrad.engine import modes
from minigrad.engine.errors import InPlaceError
from minigrad.errors import HookError
from minigrad.modes.checkpoint import checkpoint
from minigrad.modes.saved_hooks import save_on_disk, saved_tensors_hooks
from minigrad.modes.saving import Saver

pytestmark = pytest.mark.promise(
    "checkpointing frees memory, repeats random numbers (with other threads running too),"
    " and stops when it has the needed values"
)


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
    assert len(unpacked) == 5  # of exp its result, of tanh both, of the product both factors


def squared_sum(change):
    """The gradient of Σ y², y = 3x, where y is changed before the backward."""
    x = leaf([1.0, 2.0])
    y = x * 3.0
    loss = (y * y).sum()
    change(y)
    loss.backward()
    return x.grad.tolist()


def times_two(y):
    y *= 2.0


@mg.no_grad()
def untracked(y):
    y[0] = 7.0


def numpys(y):
    y.data[...] = 0.0


@pytest.mark.parametrize("change", [times_two, untracked, numpys])
def test_in_allow_mutation_on_saved_tensors_gradients_are_those_of_the_values_at_the_call(change):
    with mg.allow_mutation_on_saved_tensors():
        assert squared_sum(change) == [18.0, 36.0]


def test_a_change_that_is_allowed_has_its_own_gradient():
    x = leaf([1.0, 2.0])
    with mg.allow_mutation_on_saved_tensors():
        y = np.exp(x)
        loss = (y * y).sum()
        y *= x
        loss = loss + y.sum()
    loss.backward()  # the block may be over
    e, v = np.exp(x.detach().numpy()), x.detach().numpy()
    np.testing.assert_allclose(x.grad, 2 * e * e + e + v * e)


def test_a_parameter_may_be_stepped_between_forward_and_backward():
    w, x = leaf([3.0]), leaf([2.0])
    with mg.allow_mutation_on_saved_tensors():
        y = w * x
        w.grad = np.ones(1)
        mg.optim.SGD([w], lr=1.0).step()
        y.backward()
    assert w.tolist() == [2.0] and x.grad.tolist() == [3.0]


def test_second_derivatives_see_the_values_at_the_call_too():
    x = leaf([2.0])
    with mg.allow_mutation_on_saved_tensors():
        a = x * 1.0
        y = a**3
        untracked(a)
        g = mg.grad(y, x, create_graph=True)
        assert mg.grad(g, x).tolist() == [12.0]


def test_outside_the_block_a_change_is_an_error_as_ever():
    with pytest.raises(InPlaceError):
        squared_sum(untracked)


@pytest.mark.parametrize(
    "entered",
    [
        lambda: saved_tensors_hooks(lambda x: x, lambda x: x),
        save_on_disk,
        mg.save_on_cpu,
        mg.allow_mutation_on_saved_tensors,
    ],
)
def test_where_hooks_are_disabled_entering_them_is_an_error_with_the_given_text(entered):
    with mg.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="^not here$"), entered():
            pass
        with mg.disable_saved_tensors_hooks("nor here"):
            with pytest.raises(RuntimeError, match="^nor here$"), entered():
                pass
        x = leaf([2.0])
        checkpoint(lambda x: x * x, x).backward()
        assert x.grad.tolist() == [4.0]
    with entered(), pytest.raises(RuntimeError, match="^not here$"):
        with mg.disable_saved_tensors_hooks("not here"):
            pass
    assert modes.state.no_hooks is None and modes.state.saving == () and modes.active == 0


def test_disabling_hooks_is_of_one_thread_and_also_a_decorator():
    entered = []

    def enter():
        with mg.save_on_cpu():
            entered.append(threading.current_thread())

    with mg.disable_saved_tensors_hooks("not here"):
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
    assert entered == [thread]
    with pytest.raises(RuntimeError, match="not here"):
        mg.disable_saved_tensors_hooks("not here")(enter)()
    with pytest.raises(TypeError, match="the text of the error"):
        mg.disable_saved_tensors_hooks(enter)


@pytest.mark.parametrize("pin_memory", [False, True])
def test_save_on_cpu_leaves_what_is_on_the_host_where_it_is(pin_memory):
    x = leaf([1.0, 2.0])
    with mg.save_on_cpu(pin_memory):
        y = x * 1.0
        z = (y * y).sum()
    saved = [entry.packed[0] for entry in z.node.parents[0].saved.values]
    assert all(array.base is y.data or array is y.data for array in saved)
    z.backward()
    assert x.grad.tolist() == [2.0, 4.0]
    with pytest.raises(ValueError, match="device_type is 'cuda', got 'xpu'"):
        mg.save_on_cpu(device_type="xpu")


COPIES = {
    "C": lambda x: np.array(x.data, order="C"),
    "F": lambda x: np.array(x.data, order="F"),
    "reversed": lambda x: np.array(x.data[::-1], order="F")[::-1],
    "tensor": lambda x: x.copy().data,
    "list": lambda x: np.array(x.data.tolist(), x.dtype),
}
LAYOUTS = {
    "C": lambda x: x,
    "transposed": lambda x: x.T,
    "every second": lambda x: mg.concatenate([x, x], 1)[:, ::2],
    "reversed": lambda x: mg.flip(x, 0),
    "broadcast": lambda x: mg.broadcast_to(x[:1], x.shape) + 0 * x.T,
}
RULES = {
    "products": lambda x, w: np.tanh(x @ w) @ x.T,
    "sums of powers": lambda x, w: (x**3 * w).sum(0) * np.exp(x * 0.1).sum(1),
    "norms": lambda x, w: mg.layer_norm(x * w, x.shape[-1]) * mg.softmax(x, 0),
    "einsum": lambda x, w: mg.einsum("ij,kj,ik->ik", x, w, x * w),
    "logsumexp": lambda x, w: mg.logsumexp(x * w, 0) + mg.std(x, 1),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_hooks_that_copy_in_another_memory_order_change_no_bit(layout, rule):
    draw = np.random.default_rng(0)
    x = mg.tensor(draw.standard_normal((37, 37)).astype(np.float32), requires_grad=True)
    w = mg.tensor(draw.standard_normal((37, 37)).astype(np.float32).T, requires_grad=True)

    def gradients():
        return [g.tolist() for g in mg.grad(RULES[rule](LAYOUTS[layout](x), w).sum(), [x, w])]

    expected = gradients()
    for name, copied in COPIES.items():
        with mg.saved_tensors_hooks(copied, mg.tensor):
            assert gradients() == expected, name
