"""mg.compile on a GPU: the numbers of the plain step, on new batches, as a CUDA graph."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

pytestmark = pytest.mark.promise("a compiled step gives the eager numbers (on a GPU)")


def perceptron():
    return nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5)), (16, 20)


def normalised():
    return nn.Sequential(nn.Linear(20, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 5)), (
        16,
        20,
    )


def dropped():
    return nn.Sequential(nn.Linear(20, 32), nn.Dropout(0.3), nn.Linear(32, 5)), (16, 20)


def convnet():
    layers = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(8 * 16, 5)), (16, 3, 8, 8)


def transformer():
    block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return nn.Sequential(block, nn.Flatten(), nn.Linear(96, 5)), (16, 6, 16)


def trained(make, decorate, steps=6):
    """(the losses, the weights and buffers) after some steps with batches of their own."""
    mg.manual_seed(0)
    model, shape = make()
    model.to(device="cuda")
    optimizer = mg.optim.Adam(model.parameters(), lr=1e-2)

    def step(x, target):
        optimizer.zero_grad()
        loss = mg.cross_entropy(model(x), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    fn, draw, losses = decorate(step), np.random.default_rng(1), []
    for _ in range(steps):
        x = mg.tensor(draw.standard_normal(shape).astype("float32"), device="cuda")
        losses.append(fn(x, mg.tensor(draw.integers(0, 5, shape[0]), device="cuda")).item())
    state = [x.detach().to("cpu").data for x in (*model.parameters(), *model.buffers())]
    return losses, state, fn


@pytest.mark.parametrize("make", [perceptron, normalised, dropped, convnet, transformer])
def test_a_compiled_step_gives_the_numbers_of_the_plain_one(gpu, make):
    losses, state, _ = trained(make, lambda fn: fn)
    found, compiled_state, step = trained(make, mg.compile)
    # cuDNN adds the gradients of a convolution's weights in another order in each run
    off = 1e-3 if make is convnet else 1e-6
    np.testing.assert_allclose(found, losses, rtol=off)
    for x, y in zip(compiled_state, state, strict=True):
        np.testing.assert_allclose(x, y, rtol=off, atol=off)
    (store,) = step.stores.values()
    assert store.replays == 5


def test_a_step_without_draws_is_one_cuda_graph(gpu):
    *_, step = trained(transformer, mg.compile)
    assert "a CUDA graph of" in step.explain()


def test_results_that_were_kept_do_not_change(gpu):
    w = mg.tensor([2.0], device="cuda", requires_grad=True)

    @mg.compile
    def step(x):
        w.grad = None
        y = w * x
        y.sum().backward()
        return y.detach(), w.grad

    made = [step(mg.tensor([float(i)], device="cuda")) for i in range(5)]
    assert [(y.item(), g.item()) for y, g in made] == [(2.0 * i, i) for i in range(5)]


def test_a_result_that_is_kept_stays_what_it_is(gpu):
    """A graph writes to the same memory; what somebody holds is not written over."""
    x = mg.tensor(np.arange(6.0).reshape(2, 3), device="cuda", requires_grad=True)

    @mg.compile
    def step(y):
        x.grad = None
        loss = (mg.tanh(x) * y).sum()
        loss.backward()
        return loss

    kept = []
    for i in range(6):
        loss = step(mg.tensor(np.full((2, 3), float(i)), device="cuda"))
        kept.append((i, loss, x.grad, x.grad.data[0]))  # a result, a gradient, a view of it
    slope = 1 - np.tanh(np.arange(6.0).reshape(2, 3)) ** 2
    for i, loss, g, row in kept:
        np.testing.assert_allclose(loss.item(), i * np.tanh(np.arange(6.0)).sum(), rtol=1e-6)
        np.testing.assert_allclose(g.numpy(), i * slope, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(row.get(), i * slope[0], rtol=1e-6, atol=1e-9)


def two_gradients():
    """(step, its leaves): step(y) gives Σ y (a + b²), and the leaves their gradients."""
    a, b = (mg.tensor(np.arange(4.0), device="cuda", requires_grad=True) for _ in "ab")

    @mg.compile
    def step(y):
        a.grad = b.grad = None
        loss = ((a + b * b) * y).sum()
        loss.backward()
        return loss

    return step, (a, b)


def test_only_a_result_that_is_kept_is_copied(gpu):
    step, _ = two_gradients()
    losses = [step(mg.tensor(np.full(4, float(i)), device="cuda")) for i in range(8)]
    assert [loss.item() for loss in losses] == [20.0 * i for i in range(8)]
    (store,) = step.stores.values()
    (graph,) = store.programs(0)[0].runner.calls
    assert len(graph.copied) == 1


@pytest.mark.parametrize("seed", range(4))
def test_results_that_are_kept_in_some_calls_stay_what_they_are(gpu, seed):
    step, (a, b) = two_gradients()
    draw, kept = np.random.default_rng(seed), []
    for i in range(12):
        loss = step(mg.tensor(np.full(4, float(i)), device="cuda"))
        made = [(loss, 20.0 * i), (a.grad, np.full(4, i)), (b.grad, 2.0 * i * np.arange(4))]
        kept += [made[k] for k in np.flatnonzero(draw.random(3) < 0.3)]
    for x, expected in kept:
        np.testing.assert_array_equal(x.detach().to("cpu").numpy(), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_a_chain_with_its_derivative_is_one_kernel(gpu, dtype):
    values = np.random.default_rng(0).standard_normal((96, 160))

    def trained(decorate):
        x = mg.tensor(values, device="cuda").to(dtype).detach().requires_grad_()
        scale = mg.tensor(np.linspace(0.5, 1.5, 160), device="cuda").to(dtype)

        @decorate
        def step():
            x.grad = None
            loss = (mg.gelu(x) * mg.tanh(x * scale) + x / 2).sum()
            loss.backward()
            return loss

        for _ in range(4):
            loss = step()
        return step, loss.numpy().astype(float), x.grad.numpy().astype(float)

    _, loss, g = trained(lambda fn: fn)
    step, fused_loss, fused_g = trained(mg.compile)
    off = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "float64": 1e-13}[dtype]
    np.testing.assert_allclose(fused_g, g, rtol=off, atol=off)
    np.testing.assert_allclose(fused_loss, loss, rtol=off, atol=off * values.size**0.5)
    assert "gelu + tanh" in step.explain().replace("mul + ", "")


def test_a_backward_outside_of_the_compiled_model_is_replayed_with_it(gpu):
    def trained(decorate):
        mg.manual_seed(0)
        net, shape = perceptron()
        net.to(device="cuda")
        model, optimizer = decorate(net), mg.optim.SGD(net.parameters(), lr=0.1)
        losses = []
        for i in range(6):
            draw = np.random.default_rng(i)
            x = mg.tensor(draw.standard_normal(shape).astype("float32"), device="cuda")
            target = mg.tensor(draw.integers(0, 5, shape[0]), device="cuda")
            optimizer.zero_grad()
            loss = mg.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, model

    losses, _ = trained(lambda net: net)
    found, model = trained(mg.compile)
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    # recorded once, and once for each of the two arrays that turn out to be others at each call
    assert sum(store.replays for store in model.stores.values()) == 3
