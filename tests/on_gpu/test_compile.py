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
    assert "a CUDA graph of 1 calls" in step.explain()


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
