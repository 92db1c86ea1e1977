"""A result whose backward is called outside of the compiled function: both are one program."""

import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.engine import modes


def replays(compiled) -> int:
    return sum(store.replays for store in compiled.stores.values())


def batch(seed, n=4):
    draw = np.random.default_rng(seed)
    x = mg.tensor(draw.standard_normal((n, 3)).astype("float32"))
    return x, mg.tensor(draw.integers(0, 2, n))


def trained(decorate, use, steps=6):
    """(what `use(compiled or model, optimizer, x, target)` returned, weights, the compiled)."""
    mg.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Dropout(0.3), nn.Linear(5, 2))
    optimizer = mg.optim.Adam(model.parameters(), lr=0.1)
    compiled = decorate(model)
    seen = []
    for i in range(steps):
        seen.append(use(compiled, optimizer, *batch(i)))
        optimizer.step()
    seen = [y.data.tobytes() if isinstance(y, mg.Tensor) else y for y in seen]
    state = [*model.parameters(), *model.buffers(), mg.rand(2)]
    return seen, [x.data.tobytes() for x in state], compiled


def loss_and_backward(model, optimizer, x, target):
    loss = mg.cross_entropy(model(x), target)
    optimizer.zero_grad()
    loss.backward()
    return loss


def test_a_compiled_model_has_the_bits_of_the_plain_one():
    plain, compiled = (
        trained(lambda m: m, loss_and_backward),
        trained(mg.compile, loss_and_backward),
    )
    assert compiled[:2] == plain[:2]
    assert replays(compiled[2]) >= 3
    assert not modes.active and modes.state.pending is None


def test_a_look_before_the_backward_in_some_calls_leaves_the_others_replayed():
    def use(count):
        def one(model, optimizer, x, target):
            loss = mg.cross_entropy(model(x), target)
            value = loss.item() if next(count) % 4 == 3 else 0.0
            optimizer.zero_grad()
            loss.backward()
            return value

        return one

    plain = trained(lambda m: m, use(iter(range(100))), 16)
    compiled = trained(mg.compile, use(iter(range(100))), 16)
    assert compiled[:2] == plain[:2]
    assert replays(compiled[2]) >= 6


def test_a_look_now_and_then_never_ends_the_replays():
    w = mg.tensor([2.0], requires_grad=True)
    compiled = mg.compile(lambda x: (w * x).sum())
    for i in range(200):
        loss = compiled(mg.tensor([float(i)]))
        if i % 12 == 11:
            assert loss.item() == 2 * i
        w.grad = None
        loss.backward()
        assert w.grad.item() == i
    assert replays(compiled) > 180


@pytest.mark.parametrize("options", [{}, {"retain_graph": True}, {"create_graph": True}])
def test_a_second_backward_is_allowed_where_the_graph_is_kept(options):
    w = mg.tensor([2.0], requires_grad=True)
    compiled = mg.compile(lambda x: (w * w * x).sum())
    for i in range(4):
        w.grad = None
        loss = compiled(mg.tensor([float(i)]))
        loss.backward(**options)
        if not options:
            with pytest.raises(mg.errors.GraphReleasedError):
                loss.backward()
        else:
            loss.backward()
        assert w.grad.item() == 4 * i * (1 + bool(options))
        w.grad = None  # which refers to its graph


def test_two_results_are_differentiated_each_for_itself():
    a, b = (mg.tensor([2.0], requires_grad=True) for _ in range(2))
    compiled = mg.compile(lambda x: ((a * x).sum(), (b * b * x).sum()))
    for i in range(4):
        a.grad = b.grad = None
        first, second = compiled(mg.tensor([float(i)]))
        first.backward()
        assert a.grad.item() == i and b.grad is None
        second.backward()
        assert b.grad.item() == 4 * i


def test_mg_grad_of_a_result_by_another_one_is_right():
    w = mg.tensor([2.0], requires_grad=True)

    @mg.compile
    def compiled(x):
        h = w * x
        return h, (h * h).sum()

    for i in range(4):
        h, loss = compiled(mg.tensor([float(i)]))
        assert mg.grad(loss, h).item() == 4 * i


def test_a_hook_of_a_result_is_called():
    w, called = mg.tensor([2.0], requires_grad=True), []
    compiled = mg.compile(lambda x: w * x)
    for i in range(4):
        y = compiled(mg.tensor([float(i)]))
        y.register_hook(lambda g: called.append(g.item()))
        (y * 3).sum().backward()
    assert called == [3] * 4


def test_a_weight_that_is_written_before_the_backward_counts_as_it_was():
    w = mg.tensor([2.0], requires_grad=True)
    compiled = mg.compile(lambda x: (w + x).sum())
    for i in range(4):
        loss = compiled(mg.tensor([float(i)]))
        with mg.no_grad():
            w[...] = 7.0
        loss.backward()
        assert loss.item() == 2 + i
        with mg.no_grad():
            w[...] = 2.0


@pytest.mark.parametrize("use", ["item", "backward"])
def test_another_thread_may_use_the_result(use):
    w, found = mg.tensor([2.0], requires_grad=True), []
    compiled = mg.compile(lambda x: (w * x).sum())
    for i in range(6):
        w.grad = None
        loss = compiled(mg.tensor([float(i)]))
        if i % 2:
            act = (lambda y: found.append(y.item())) if use == "item" else (lambda y: y.backward())
            thread = threading.Thread(target=act, args=(loss,))
            thread.start()
            thread.join()
        if use == "item" or i % 2 == 0:
            loss.backward()
        assert w.grad.item() == i and loss.item() == 2 * i
    assert not modes.active


@pytest.mark.parametrize(
    "block",
    [mg.Tape, mg.profile, mg.detect_anomaly, lambda: mg.autocast("cpu", dtype="float16")],
    ids=["tape", "profile", "anomaly", "autocast"],
)
def test_a_mode_that_begins_before_the_backward_gets_every_op(block):
    w = mg.tensor([2.0], requires_grad=True)
    compiled = mg.compile(lambda x: w * x)
    for i in range(4):
        w.grad = None
        y = compiled(mg.tensor([float(i)]))
        with block() as entered:
            loss = (y * 2).sum()
            if isinstance(entered, mg.Tape):
                assert len(entered) == 2
        loss.backward()
        assert w.grad.item() == 2 * i


def test_a_result_that_is_dropped_is_forgotten_at_the_next_op():
    w = mg.tensor([2.0], requires_grad=True)
    compiled = mg.compile(lambda x: w * x)
    compiled(mg.tensor([1.0]))
    assert (mg.tensor([1.0]) + 1).item() == 2
    assert not modes.active and modes.state.pending is None
