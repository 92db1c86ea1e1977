"""autocast: each op in the precision of its policy, casts recorded, logged and reused."""

import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad import func
from minigrad.amp import is_autocast_enabled
from minigrad.engine import modes

pytestmark = pytest.mark.promise(
    "autocast: policy, recorded casts, backward in the forward's dtypes"
)

BOTH = pytest.mark.parametrize("dtype", [mg.float16, mg.bfloat16])


def leaf(*shape, dtype="float32"):
    values = np.random.default_rng(0).standard_normal(shape)
    return mg.tensor(values, dtype=dtype, requires_grad=True)


@BOTH
def test_matrix_products_run_low_and_sums_and_exponentials_in_float32(dtype):
    x, w, b = leaf(4, 3), leaf(3, 5), leaf(5)
    with mg.autocast(dtype):
        y = x @ w
        assert y.dtype == dtype and mg.einsum("ij,jk->ik", x, w).dtype == dtype
        assert mg.conv1d(leaf(1, 2, 8), leaf(3, 2, 3)).dtype == dtype
        assert mg.addmm(b, x, w).dtype in (dtype, np.float32)
        for z in (y.sum(), y.mean(), np.exp(y), mg.softmax(y), y**2, mg.layer_norm(y, 5)):
            assert z.dtype == np.float32
        assert (y + y).dtype == dtype and mg.relu(y).dtype == dtype
        assert (y + b).dtype == np.float32  # the widest
        assert (y * 2.0).dtype == dtype
        target = mg.tensor([0, 1, 2, 3])
        for loss in (mg.cross_entropy(y, target), mg.mse(y, y), mg.bce_with_logits(y, target=y)):
            assert loss.dtype == np.float32
    assert (x @ w).dtype == np.float32


def test_float16_and_bfloat16_together_become_float32():
    a, b = leaf(3, dtype="float16"), leaf(3, dtype="bfloat16")
    with mg.autocast(mg.float16):
        assert (a + b).dtype == np.float32
        assert mg.concatenate([a, b]).dtype == np.float32


def test_float64_integers_and_complex_are_never_cast():
    x = leaf(3, 3, dtype="float64")
    with mg.autocast(mg.float16) as casting:
        assert (x @ x).dtype == np.float64
        assert (mg.arange(3) @ mg.arange(3)).dtype == np.int64
        assert (x.astype("complex64") @ x.astype("complex64")).dtype == np.complex64
    assert casting.log == []


@BOTH
def test_gradients_come_back_in_the_dtype_of_their_leaves(dtype):
    x, w = leaf(4, 3), leaf(3, 2)
    with mg.autocast(dtype):
        loss = np.tanh(x @ w).sum()
    loss.backward()
    assert x.grad.dtype == w.grad.dtype == np.float32
    exact = mg.grad(np.tanh(x @ w).sum(), [x, w])
    for got, expected in zip((x.grad, w.grad), exact, strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=0.05)


def test_the_log_counts_casts_by_op_and_dtypes():
    x, w = leaf(4, 3), leaf(3, 3)
    with mg.autocast(mg.bfloat16) as casting:
        (x @ w @ w).sum()
    assert [tuple(event) for event in casting.log] == [
        ("matmul", "float32", "bfloat16", 2),  # x, and w once for both of its uses
        ("sum", "bfloat16", "float32", 1),
    ]
    with mg.autocast(mg.bfloat16, cache_enabled=False) as casting:
        (x @ w @ w).sum()
    assert casting.log[0].count == 3


def test_a_weight_changed_inside_is_cast_again():
    x, w = leaf(2, 2), leaf(2, 2)
    optimizer = mg.optim.SGD([w], lr=0.5)
    with mg.autocast(mg.bfloat16):
        first = x.detach() @ w
        first.sum().backward()
        optimizer.step()
        second = x.detach() @ w
    again = (x.astype("bfloat16") @ w.astype("bfloat16")).detach()
    assert second.tolist() == again.tolist() != first.tolist()


def tripled(w):
    w.data *= 3


def written_through_an_old_name(w, array=None):
    array = w.data if array is None else array
    np.multiply(array, 3, out=array)


def rows_exchanged(w):
    w.data[:2] = w.data[1::-1].copy()


CHANGES = {
    "w.data *= 3": tripled,
    "w.data = 3 * w.data": lambda w: setattr(w, "data", 3 * w.data),
    "w.data[...] = 3": lambda w: w.data.fill(3),
    "w.data[0, 0] = 7": lambda w: w.data.__setitem__((0, 0), 7),
    "np.multiply(w.data, 3, out=w.data)": written_through_an_old_name,
    "rows exchanged": rows_exchanged,
    "w.data.sort()": lambda w: w.data.sort(),
    "w.detach()[0] = 7": lambda w: w.detach().__setitem__(0, 7),
    "w.numpy()[0] = 7": lambda w: w.detach().numpy().__setitem__(0, 7),
    "optimizer": lambda w: mg.optim.SGD([w], lr=0.5).step(),
    "init": lambda w: mg.nn.init.normal_(w),
}


@pytest.mark.parametrize("size", [3, 128])  # 3 x 3: compared byte by byte; 128 x 128: by sums
@pytest.mark.parametrize("how", CHANGES)
def test_a_weight_changed_inside_in_any_way_is_cast_again(how, size):
    x, w = leaf(2, size), leaf(size, size)
    with mg.autocast(mg.bfloat16) as casting:
        first = x.detach() @ w
        first.sum().backward()
        CHANGES[how](w)
        second, third = x.detach() @ w, x.detach() @ w
    again = (x.astype("bfloat16") @ w.astype("bfloat16")).detach()
    assert second.tolist() == third.tolist() == again.tolist() != first.tolist()
    assert casting.log[0].count == 3 + 2  # x three times, w before and after


def test_backward_inside_may_run_for_each_of_several_losses():
    x, w = leaf(2, 2), leaf(2, 2)
    with mg.autocast(mg.bfloat16):
        for _ in range(3):
            (x.detach() @ w).sum().backward()
    assert w.grad.dtype == np.float32


def test_several_losses_of_one_weight_each_have_a_backward_after_the_block():
    x, w = leaf(2, 2), leaf(2, 2)
    with mg.autocast(mg.bfloat16) as casting:
        losses = [(x.detach() @ w).sum() for _ in range(3)]
    for loss in losses:
        loss.backward()
    one = mg.grad((x.detach().astype("bfloat16") @ w.astype("bfloat16")).sum(), w)
    assert w.grad.dtype == np.float32 and w.grad.tolist() == (3 * one).tolist()
    assert casting.log[0].count == 3 + 1  # x each time, w once


def test_a_cast_weight_has_derivatives_of_higher_order():
    w = mg.tensor([[2.0]], dtype="float32", requires_grad=True)
    with mg.autocast(mg.bfloat16):
        y = (w @ w @ w).sum()
    g = mg.grad(y, w, create_graph=True)
    assert (g.item(), mg.grad(g.sum(), w).item()) == (12.0, 12.0)


def test_threads_that_share_an_autocast_share_cast_weights_and_nothing_else():
    shared, w, failed = mg.autocast(mg.bfloat16), leaf(8, 8), []

    def train():
        try:
            for _ in range(200):
                with shared:
                    y = (w.detach() @ w).sum()
                y.backward()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_cast_made_without_recording_is_not_used_with_it():
    x, w = leaf(2, 2), leaf(2, 2)
    with mg.autocast(mg.bfloat16):
        with mg.no_grad():
            x @ w
        (x @ w).sum().backward()
    assert w.grad is not None


def test_cast_weights_are_kept_only_inside():
    w = leaf(2, 2)
    with mg.autocast(mg.bfloat16):
        w @ w
        assert mg.cache_stats()["autocast weights"]["entries"] == 1
    assert mg.cache_stats().get("autocast weights", {"entries": 0})["entries"] == 0


def test_contexts_nest_and_are_restored_on_exceptions():
    x = leaf(2, 2)
    before = modes.active
    with pytest.raises(ZeroDivisionError), mg.autocast(mg.float16):
        with mg.autocast(mg.bfloat16):
            assert (x @ x).dtype == mg.bfloat16
            with mg.autocast(enabled=False):
                assert (x @ x).dtype == np.float32 and not is_autocast_enabled()
        assert (x @ x).dtype == np.float16
        raise ZeroDivisionError
    assert (x @ x).dtype == np.float32 and modes.active == before


def test_it_is_a_decorator_and_thread_local():
    x, seen = leaf(2, 2), []

    @mg.autocast(mg.float16)
    def product():
        thread = threading.Thread(target=lambda: seen.append((x @ x).dtype))
        thread.start()
        thread.join()
        return (x @ x).dtype

    assert product() == np.float16 and seen == [np.float32]


@BOTH
def test_a_backward_runs_in_the_dtypes_of_the_forward(dtype):
    x, w = leaf(3, 3, dtype="float32"), leaf(3, 3)
    y = np.tanh(x @ w).sum()  # outside
    expected = mg.grad(y, [x, w], retain_graph=True)
    with mg.autocast(dtype) as casting:
        inside = mg.grad(y, [x, w], retain_graph=True)
        recorded = mg.grad(y, [x, w], create_graph=True)
    assert casting.log == []
    for got in (inside, recorded):
        assert [g.tolist() for g in got] == [g.tolist() for g in expected]


def test_a_checkpoint_computes_again_under_the_autocast_of_the_forward():
    x, w = leaf(3, 3), leaf(3, 3)

    def block(x):
        return np.tanh(x @ w) @ w

    with mg.autocast(mg.bfloat16):
        w @ w  # so that a cast of w is there already
        with mg.autocast(mg.bfloat16, cache_enabled=False):  # gradients meet in float32 then
            plain = block(x).sum()
        through = mg.checkpoint(block, x).sum()
    expected = mg.grad(plain, [x, w])
    got = mg.grad(through, [x, w])  # outside the context
    assert [g.tolist() for g in got] == [g.tolist() for g in expected]


def test_transforms_work_inside():
    w = leaf(3, 3)
    with mg.autocast(mg.bfloat16):
        g = func.grad(lambda w: np.tanh(w @ w).sum())(w)
        rows = func.vmap(lambda row: row @ w)(mg.ones((2, 3), dtype="float32"))
    assert g.dtype == np.float32 and rows.dtype == mg.bfloat16
    expected = func.grad(lambda w: np.tanh(w @ w).sum())(w)
    np.testing.assert_allclose(g.numpy(), expected.numpy(), atol=0.1)


def test_an_op_may_be_added_to_the_policy():
    x = leaf(3)
    mg.autocast.policy["tanh"] = "low"
    try:
        with mg.autocast(mg.float16):
            assert np.tanh(x).dtype == np.float16
        mg.autocast.policy["tanh"] = "half"
        with mg.autocast(mg.float16), pytest.raises(ValueError, match="may be 'low' or 'float32'"):
            np.tanh(x)
    finally:
        del mg.autocast.policy["tanh"]


def test_the_policy_names_ops_that_exist():
    from minigrad.engine.registry import op

    assert [name for name in mg.autocast.policy if name not in op] == []


def test_other_dtypes_and_devices_are_refused():
    with pytest.raises(ValueError, match="dtype is float16 or bfloat16, got float32"):
        mg.autocast(mg.float32)
    with pytest.raises(ValueError, match="there is no device 'tpu'"):
        mg.autocast(device="tpu")


@pytest.mark.parametrize(
    "args, options",
    [
        (("cpu", mg.float16), {}),
        ((mg.float16, "cpu"), {}),
        (("cpu",), {"dtype": mg.float16}),
        ((), {"device_type": "cpu", "dtype": mg.float16, "cache_enabled": None}),
        (("float16",), {"device": "cpu"}),
    ],
)
def test_the_device_may_be_said_as_in_pytorch(args, options):
    x = leaf(2, 2)
    with mg.autocast(*args, **options) as casting:
        assert (x @ x).dtype == np.float16
    assert casting.device == "cpu" and casting.cache_enabled


def test_a_device_or_dtype_given_twice_is_refused():
    with pytest.raises(TypeError, match="autocast: device is given twice, 'cuda' and 'cpu'"):
        mg.autocast("cpu", device="cuda")
    with pytest.raises(TypeError, match="autocast: dtype is given twice"):
        mg.autocast(mg.float16, mg.bfloat16)
    with pytest.raises(ValueError, match="there is no device 'mps'"):
        mg.autocast("mps", mg.float16)


def test_tensors_of_another_device_are_left_alone():
    x = leaf(2, 2)
    with mg.autocast(mg.float16, device="cuda"):
        assert (x @ x).dtype == np.float32


def test_a_decorated_generator_runs_in_it_and_its_user_does_not():
    @mg.autocast(mg.float16)
    def products(a):
        yield a @ a
        yield a @ a

    a = mg.tensor(np.ones((2, 2), np.float32))
    for y in products(a):
        assert y.dtype == np.float16 and not is_autocast_enabled()


def test_threads_in_one_autocast_keep_their_own_outer_modes():
    shared, entered, left = mg.autocast(mg.float16), threading.Event(), threading.Event()
    found = []

    def other():  # inside no other one; it enters after the main thread, and leaves after it
        with shared:
            entered.set()
            left.wait(10)
        found.append(is_autocast_enabled())

    with mg.autocast(mg.float16) as own:
        with shared:
            thread = threading.Thread(target=other)
            thread.start()
            assert entered.wait(10)
        assert modes.state.autocast is own
        left.set()
        thread.join(10)
    assert found == [False]


@pytest.mark.parametrize("layer", [mg.nn.RNN, mg.nn.LSTM, mg.nn.GRU])
def test_the_steps_of_a_recurrent_layer_stay_in_the_dtype_of_its_weights(layer):
    x, net = mg.randn(40, 2, 3, dtype=mg.float32), layer(3, 4).to(mg.float32)
    with mg.autocast(mg.bfloat16) as casting:
        y = net(x)[0]
    assert y.dtype == np.float32 and {event.op for event in casting.log} >= {"linear"}
    np.testing.assert_allclose(y.detach().numpy(), net(x)[0].detach().numpy(), atol=0.03)
