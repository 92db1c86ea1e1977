"""Checkpoints: the same gradients from less memory; a function that differs is noticed."""

import tracemalloc
import weakref
from collections import namedtuple

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine import modes
from minigrad.engine.errors import InPlaceError
from minigrad.errors import CheckpointError

pytestmark = pytest.mark.promise(
    "checkpointing frees memory, repeats random numbers (with other threads running too),"
    " and stops when it has the needed values"
)

checkpoint, checkpoint_sequential = mg.checkpoint, mg.checkpoint_sequential
set_checkpoint_early_stop = mg.set_checkpoint_early_stop


def leaf(values):
    return mg.tensor(values, requires_grad=True)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def both(fn, *xs):
    """Gradients of Σ fn(*xs) without and with a checkpoint."""
    plain = mg.grad(fn(*xs).sum(), list(xs))
    kept = mg.grad(checkpoint(fn, *xs).sum(), list(xs))
    return [g.data for g in plain], [g.data for g in kept]


def test_gradients_are_bit_for_bit_those_without_it(rng):
    x, w = leaf(rng.standard_normal((4, 3))), leaf(rng.standard_normal((3, 3)))
    plain, kept = both(lambda x, w: np.tanh(np.tanh(x @ w) @ w) * np.exp(x), x, w)
    for a, b in zip(plain, kept, strict=True):
        np.testing.assert_array_equal(a, b)


def test_many_arguments_and_several_outputs_come_back(rng):
    x = leaf(rng.standard_normal((3, 3)))

    def fn(x):
        q, r = mg.linalg.qr(x)
        return mg.concatenate([q, r * q, x * 2]).sum(0)

    for create_graph in (False, True):
        plain = mg.grad(fn(x).sum(), x, create_graph=create_graph)
        kept = mg.grad(checkpoint(fn, x).sum(), x, create_graph=create_graph)
        np.testing.assert_allclose(plain.detach().data, kept.detach().data, atol=1e-12)


def test_parameters_of_a_closure_get_gradients_without_a_tracked_argument():
    w = leaf([3.0])
    checkpoint(lambda x: np.exp(x * w), mg.tensor([0.5])).sum().backward()
    np.testing.assert_allclose(w.grad.data, 0.5 * np.exp(1.5))


def test_keyword_arguments_and_nested_results_pass_through():
    x = leaf([1.0, 2.0])
    out = checkpoint(lambda x, *, power: {"y": (x**power, 5)}, x, power=3)
    assert out["y"][1] == 5
    out["y"][0].sum().backward()
    assert x.grad.tolist() == [3, 12]


def test_nothing_is_kept_between_forward_and_backward():
    held = []

    def fn(x):
        h = np.exp(x)
        held.append(weakref.ref(h.data))
        return h * h

    y = checkpoint(fn, leaf([1.0, 2.0]))
    assert held[0]() is None
    y.sum().backward()
    assert len(held) == 2 and held[1]() is None


def test_second_order():
    x = leaf([0.5, 2.0])
    y = checkpoint(lambda x: np.sin(x) * x**3, x)
    g = mg.grad(y.sum(), x, create_graph=True)
    plain = mg.grad((np.sin(x) * x**3).sum(), x, create_graph=True)
    np.testing.assert_allclose(mg.grad(g.sum(), x).data, mg.grad(plain.sum(), x).data)


def test_a_retained_graph_computes_again():
    x, calls = leaf([2.0]), []
    y = checkpoint(lambda x: (calls.append(1), np.exp(x) * x)[1], x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert len(calls) == 3
    np.testing.assert_allclose(x.grad.data, 2 * 3 * np.exp(2))


def test_nested_checkpoints_each_compute_again():
    x, calls = leaf([0.3]), []

    def inner(x):
        calls.append("inner")
        return np.exp(np.sin(x))

    def outer(x):
        calls.append("outer")
        return checkpoint(inner, np.cos(x)) * x

    plain, kept = both(lambda x: np.exp(np.sin(np.cos(x))) * x, x)[0], None
    kept = mg.grad(checkpoint(outer, x).sum(), x)
    np.testing.assert_array_equal(plain[0], kept.data)
    assert calls == ["outer", "inner", "outer", "inner", "inner"]


def test_random_numbers_are_the_same_again_and_the_generators_go_on():
    x = leaf(np.ones(1000))

    def fn(x):
        mask = mg.rand(1000) < 0.5
        return x * mask * np.random.rand(1000) * x

    mg.manual_seed(1)
    np.random.seed(1)
    y = checkpoint(fn, x)
    after = np.random.rand(), mg.rand(1).item()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.data, 2 * y.detach().data)
    later = np.random.rand(), mg.rand(1).item()
    mg.manual_seed(1)
    np.random.seed(1)
    fn(x)
    assert after == (np.random.rand(), mg.rand(1).item())
    assert later == (np.random.rand(), mg.rand(1).item())


def test_the_modes_of_the_forward_hold_again():
    x, seen = leaf([1.0]), []

    def fn(x):
        seen.append(mg.is_grad_enabled())
        with mg.no_grad():
            seen.append((x * 2).requires_grad)
        return np.exp(x)

    y = checkpoint(fn, x).sum()
    with mg.no_grad():
        y.backward()
        assert not mg.is_grad_enabled()
    assert seen == [True, False] * 2 and modes.active == 0


def test_under_no_grad_it_is_a_plain_call():
    with mg.no_grad():
        assert not checkpoint(np.exp, leaf([1.0])).requires_grad


@pytest.mark.parametrize(
    ("again", "message"),
    [
        (lambda x: np.sin(x) * x, r"op 0 was exp .* and is sin"),
        (lambda x: np.exp(x), r"1 recorded ops in place of 2"),
        (lambda x: np.exp(x) * x * x, r"a further op mul after all 2"),
        (lambda x: np.exp(x[:1]) * x, r"op 0 was exp"),
    ],
)
def test_a_function_that_differs_is_an_error(again, message):
    x, calls = leaf([1.0, 2.0]), []

    def fn(x):
        calls.append(1)
        return np.exp(x) * x if len(calls) == 1 else again(x)

    with set_checkpoint_early_stop(False):
        y = checkpoint(fn, x).sum()
    with pytest.raises(CheckpointError, match=message):
        y.backward()
    assert x.grad is None and modes.active == 0 and modes.state.saving == ()


def checkpointed(x, *, power=2):
    return checkpoint(lambda x, *, power: np.sin(x) ** power * x, x, power=power)


def plain(x, *, power=2):
    return np.sin(x) ** power * x


def test_inside_transforms_the_derivatives_are_right():
    x, t = mg.tensor([0.3, 0.7, 1.1]), mg.tensor([1.0, -2.0, 0.5])
    func = mg.func

    def every(fn):
        y, vjp_fn = func.vjp(fn, x)
        return [
            func.grad(lambda x: fn(x, power=3).sum())(x),
            y,
            *vjp_fn(t),
            *func.jvp(fn, (x,), (t,)),
            func.vmap(fn)(x),
            func.vmap(func.grad(fn))(x),
            func.jvp(func.grad(lambda x: fn(x).sum()), (x,), (t,))[1],
            func.jacobian(fn)(x),
            func.hessian(lambda x: fn(x).sum())(x),
        ]

    for a, b in zip(every(checkpointed), every(plain), strict=True):
        np.testing.assert_allclose(a.detach().data, b.detach().data, rtol=1e-12)


def test_transforms_inside_a_checkpoint():
    x = leaf([0.3, 0.7])

    def fn(x):
        return mg.func.grad(lambda x: (np.sin(x) * x).sum())(x) * x

    a = mg.grad(fn(x).sum(), x)
    b = mg.grad(checkpoint(fn, x).sum(), x)
    np.testing.assert_array_equal(a.data, b.data)


def test_an_argument_changed_in_between_is_an_error():
    x, c = leaf([1.0]), mg.tensor([2.0])
    y = checkpoint(lambda x, c: x * c, x, c).sum()
    c += 1
    with pytest.raises(InPlaceError, match="checkpoint"):
        y.backward()


def test_a_tracked_argument_cannot_be_changed_in_between():
    x = leaf([1.0])
    h = x * 2
    y = checkpoint(np.exp, h)
    with pytest.raises(InPlaceError, match="shares its memory"):
        h += 1
    del h
    y.sum().backward()
    np.testing.assert_allclose(x.grad.data, 2 * np.exp(2))


def layers(count, width):
    rng = np.random.default_rng(0)
    weights = [leaf(rng.standard_normal((width, width)) / np.sqrt(width)) for _ in range(count)]
    return weights, [lambda x, w=w: np.tanh(x @ w) for w in weights]


def peak(run, weights):
    """Bytes at the peak of a forward and backward, less those of the weights' gradients."""
    tracemalloc.start()
    run().sum().backward()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most - sum(w.grad.nbytes for w in weights)


def test_peak_memory_grows_as_the_square_root_of_the_depth():
    batch, width = 1024, 8
    x = mg.tensor(np.ones((batch, width)))
    sizes = {}
    for n in (16, 64, 144):
        weights, stack = layers(n, width)
        root = int(np.sqrt(n))
        sizes[n] = peak(lambda: checkpoint_sequential(stack, root, x), weights)
    activation = batch * width * 8
    assert sizes[144] < 4 * np.sqrt(144) * activation  # without: 144 activations and more
    assert sizes[64] / sizes[16] < 2.6 and sizes[144] / sizes[16] < 3.9  # √: 2 and 3; n: 4 and 9


def test_sequential_gives_the_gradients_of_the_plain_stack():
    weights, stack = layers(7, 4)
    x = mg.tensor(np.ones((2, 4)))
    y = x
    for layer in stack:
        y = layer(y)
    plain = mg.grad(y.sum(), weights)
    for segments in (1, 3, 7):
        kept = mg.grad(checkpoint_sequential(stack, segments, x).sum(), weights)
        assert all((a.data == b.data).all() for a, b in zip(plain, kept, strict=True))


def test_a_wrong_number_of_segments_is_refused():
    with pytest.raises(ValueError, match="0 segments of 2 layers"):
        checkpoint_sequential([np.exp, np.exp], 0, leaf([1.0]))


@pytest.mark.parametrize("change", ["argument", "captured", "constant"])
def test_a_changed_input_that_no_rule_has_saved_is_an_error_too(change):
    """tanh and add save no input, but the second run would start from other values."""
    x, b = mg.tensor([0.5], requires_grad=True), mg.tensor([0.25], requires_grad=True)
    c = mg.tensor([1.0])
    y = mg.checkpoint(lambda x: np.tanh(np.tanh(x) + b + c), x)
    with mg.no_grad():
        {"argument": x, "captured": b, "constant": c}[change].zero_()
    with pytest.raises(mg.errors.InPlaceError, match="changed in place"):
        y.backward()
    assert x.grad is None and b.grad is None


def test_a_buffer_may_be_written_more_often_than_writes_are_remembered():
    buffer, w = mg.tensor(np.zeros(3)), leaf([1.0, 2.0, 3.0])

    def fn(w):
        for _ in range(100):
            buffer.fill_(2.0)
        return (w * buffer).sum()

    mg.checkpoint(fn, w).backward()
    np.testing.assert_array_equal(w.grad.numpy(), 2.0)


Pair = namedtuple("Pair", "w b")


def squares_its_first(pair):
    pair.w[0] = pair.w[0] * pair.w[0]  # what the caller's tensor is from then on
    return np.sin(pair.w)


def test_a_tensor_of_the_caller_that_the_function_changes_is_noticed():
    x = leaf([2.0, 3.0])
    y = checkpoint(squares_its_first, Pair(x * 1, 0))
    with pytest.raises(CheckpointError, match="op 0, getitem, computes with another tensor"):
        y.sum().backward()
    assert x.grad is None
    a = x * 1
    copied = checkpoint(lambda: squares_its_first(Pair(a.copy(), 0)))
    copied.sum().backward()
    np.testing.assert_allclose(x.grad, [4 * np.cos(4.0), np.cos(3.0)])


def test_a_state_that_goes_on_after_the_function_is_noticed():
    class Recurrent:
        h = mg.zeros(2)

        def step(self, x):
            self.h = np.tanh(self.h + x)
            return self.h * x

    x, net = leaf([1.0, 2.0]), Recurrent()
    y = checkpoint(net.step, x) + checkpoint(net.step, x)
    with pytest.raises(CheckpointError, match="op 0, add, computes with another tensor"):
        y.sum().backward()


def test_a_loop_variable_that_the_function_reads_is_noticed_and_an_argument_is_right():
    def through(ws, block):
        y = mg.ones(2)
        for w in ws:
            y = block(y, w)
        return y.sum()

    ws = [leaf([2.0, 3.0]), leaf([5.0, 7.0])]
    plain = mg.grad(through(ws, lambda y, w: np.tanh(y * w)), ws)
    kept = mg.grad(through(ws, lambda y, w: checkpoint(lambda y, w: np.tanh(y * w), y, w)), ws)
    assert [g.tolist() for g in kept] == [g.tolist() for g in plain]
    y = mg.ones(2)
    for w in ws:
        y = checkpoint(lambda y: np.tanh(y * w), y)
    with pytest.raises(CheckpointError, match="a loop's variable, of which the last value counts"):
        y.sum().backward()


def test_a_parameter_frozen_before_the_backward_is_noticed():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = checkpoint(lambda x: np.tanh(x * w), x)
    w.requires_grad = False
    with pytest.raises(CheckpointError, match="computes with another tensor"):
        y.sum().backward()


def test_a_lazy_layer_may_make_its_parameters_inside():
    layer, x = mg.nn.LazyLinear(2), mg.ones(3, 4, dtype="float32")
    checkpoint(lambda x: np.tanh(layer(x)), x).sum().backward()
    assert layer.weight.grad.shape == (2, 4)


def test_what_the_function_overwrites_after_it_was_saved_is_an_error_as_without_a_checkpoint():
    def f(x):
        buffer = mg.tensor([3.0, 4.0])
        y = np.tanh(x * buffer)
        buffer[0] = 100.0
        return y * 2.0 * buffer

    for call in (
        f,
        lambda x: checkpoint(f, x),
        lambda x: checkpoint(lambda x: checkpoint(f, x), x),
    ):
        x = leaf([1.0, 2.0])
        y = call(x).sum()
        with pytest.raises(InPlaceError, match="mul: its argument 'b' .* was changed in place"):
            y.backward()
        assert x.grad is None
