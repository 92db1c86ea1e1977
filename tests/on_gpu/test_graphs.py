"""A training step as a CUDA graph: the numbers of the eager step, on new inputs too."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.errors import TapeError

pytestmark = pytest.mark.promise(
    "kernels agree with float64; cuDNN and products agree; a captured step gives the eager "
    "numbers (on a GPU)"
)


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def mlp():
    model = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5))
    return model, (16, 20)


def convnet():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8, track_running_stats=False), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 5),
    )  # fmt: skip
    return model, (16, 3, 8, 8)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.block(x).mean(axis=1))


def transformer():
    return Attention(), (16, 6, 16)


@pytest.mark.parametrize("make", [mlp, convnet, transformer])
def test_a_captured_step_gives_the_numbers_of_the_eager_one(gpu, make):
    from minigrad.on_gpu import cudnn_plans

    if make is convnet and not cudnn_plans.installed():
        pytest.skip("nvidia-cudnn-frontend is not installed: CuPy's products cannot be captured")
    mg.manual_seed(0)
    model, shape = make()
    model.to(device="cuda")
    parameters = list(model.parameters())
    x = mg.tensor(values(*shape), device="cuda")
    target = mg.tensor(np.arange(shape[0]) % 5, device="cuda")
    with mg.Tape() as tape:
        loss = mg.cross_entropy(model(x), target)
    step = mg.cuda.capture(tape.compile(loss, [x, target], wrt=parameters))
    for seed in (1, 2, 3):
        x = mg.tensor(values(*shape, seed=seed), device="cuda")
        target = mg.tensor((np.arange(shape[0]) * seed) % 5, device="cuda")
        value, gradients = step(x, target)
        loss = mg.cross_entropy(model(x), target)
        expected = mg.grad(loss, parameters)
        np.testing.assert_allclose(value.get(), loss.detach().to("cpu").numpy(), rtol=1e-5)
        for a, b in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(a.get(), b.to("cpu").numpy(), rtol=1e-3, atol=1e-6)
    assert len(step) == 1, "one launch for all calls"


def test_what_changes_parameters_in_place_is_seen_by_the_graph(gpu):
    w = mg.tensor(values(4, 4), device="cuda", requires_grad=True)
    x = mg.tensor(values(4, 4, seed=1), device="cuda")
    with mg.Tape() as tape:
        y = mg.tanh(x @ w).sum()
    step = mg.cuda.capture(tape.compile(y, [x], wrt=[w]), copy=True)
    first, _ = step(x)
    w.data[...] *= 2
    second, _ = step(x)
    np.testing.assert_allclose(second.get(), np.tanh(x.data.get() @ w.data.get()).sum(), rtol=1e-4)
    assert first.get() != second.get()


def test_random_draws_cannot_be_captured(gpu):
    x = mg.tensor(values(4, 4), device="cuda", requires_grad=True)
    with mg.Tape() as tape:
        y = mg.dropout(x, 0.5).sum()
    with pytest.raises(TapeError, match="draws random numbers"):
        mg.cuda.capture(tape.compile(y, [x], wrt=[x]))


def test_a_call_that_the_library_refuses_is_named_and_the_stream_is_free_again(gpu):
    x = mg.tensor(values(4, 4) + 4 * np.eye(4, dtype=np.float32), device="cuda")
    with mg.Tape() as tape:
        y = mg.linalg.inv(x).sum()
    program = tape.compile(y, [x])
    try:
        mg.cuda.capture(program)
    except TapeError as error:
        assert "cannot be captured" in str(error)
    assert np.isfinite(mg.matmul(x, x).to("cpu").numpy()).all()
    assert np.isfinite(np.asarray(program(x).get()))
