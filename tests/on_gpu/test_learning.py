"""Networks learn on a GPU as on the host: the same losses, step by step, within rounding."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import data, nn, optim


def digits():
    images, labels = data.load_digits().arrays
    images, labels = np.asarray(images, np.float32), np.asarray(labels)
    return (images / images.max()).reshape(len(images), -1)[:640], labels[:640]


def mlp():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), (-1, 64)


def convnet():
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    return model, (-1, 1, 8, 8)


class Rows(nn.Module):
    """A transformer that reads a digit row by row."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 32)
        self.block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.block(self.project(x)).mean(axis=1))


def transformer():
    return Rows(), (-1, 8, 8)


@pytest.mark.parametrize("make", [mlp, convnet, transformer])
def test_the_losses_are_those_of_the_host(gpu, make):
    images, labels = digits()

    def trained(device):
        mg.manual_seed(0)
        model, shape = make()
        model.to(device=device)
        optimizer = optim.Adam(model.parameters(), lr=3e-3)
        losses = []
        for start in [*range(0, 640, 64)] * 3:
            x = mg.tensor(images[start : start + 64].reshape(shape), device=device)
            target = mg.tensor(labels[start : start + 64], device=device)
            optimizer.zero_grad()
            loss = mg.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss)
        return np.array([loss.item() for loss in losses])

    host, device = trained("cpu"), trained("cuda")
    print(make.__name__, "host", host[[0, 9, 29]].round(4), "cuda", device[[0, 9, 29]].round(4))
    assert host[-1] < 0.9 * host[0]
    np.testing.assert_allclose(device, host, rtol=5e-3, atol=1e-3)


def test_a_parallel_backward_has_the_bits_of_the_serial_one(gpu):
    mg.manual_seed(0)
    model, shape = transformer()
    model.to(device="cuda")
    images, labels = digits()
    x = mg.tensor(images[:64].reshape(shape), device="cuda")
    target = mg.tensor(labels[:64], device="cuda")
    parameters = list(model.parameters())

    def gradients(**how):
        loss = mg.cross_entropy(model(x), target)
        return [g.to("cpu").numpy() for g in mg.grad(loss, parameters, **how)]

    for a, b in zip(gradients(engine="parallel"), gradients(), strict=True):
        assert a.tobytes() == b.tobytes()
