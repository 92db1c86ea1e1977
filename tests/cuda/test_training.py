"""A whole training step on a device: the same numbers as on the host, and nothing copied."""

import sys

import numpy as np
import pytest
from small_models import Attention

import minigrad as mg
from minigrad import nn, optim

pytestmark = pytest.mark.promise(
    "every op, and control flow and solvers in transforms, gives on a device what it gives on"
    " the host; a training step copies nothing (K14)"
)


def copied():
    """What the engine has counted, and what the stand-in itself saw: bool(x), float(x) …"""
    stand_in = sys.modules["stand_in"]  # conftest.py has loaded it
    return mg.cuda.transfers(), dict(stand_in.transfers)


def step_of(device, make, steps=3):
    """(losses, parameters, transfers during the steps) of a few steps of Adam."""
    mg.manual_seed(0)
    model, x, target = make()
    model.to(device=device)
    x, target = x.to(device), target.to(device)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    losses = []
    before = copied()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = mg.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss)
    moved = copied(), before
    values = [loss.item() for loss in losses]
    return values, [p.detach().numpy() for p in model.parameters()], moved


def mlp():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    rng = np.random.default_rng(0)
    return model, mg.tensor(rng.standard_normal((6, 8))), mg.tensor(rng.integers(0, 4, 6))


def convnet():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64, 4),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    return model, mg.tensor(rng.standard_normal((5, 1, 8, 8))), mg.tensor(rng.integers(0, 4, 5))


def transformer():
    rng = np.random.default_rng(0)
    return Attention(), mg.tensor(rng.standard_normal((3, 5, 8))), mg.tensor(rng.integers(0, 4, 3))


@pytest.mark.parametrize("make", [mlp, convnet, transformer])
@pytest.mark.parametrize("where", ["fake", "gpu"])
def test_training_steps_are_those_of_the_host_and_copy_nothing(make, where, request):
    request.getfixturevalue(where)
    losses, parameters, _ = step_of("cpu", make)
    there, moved_parameters, (after, before) = step_of("cuda", make)
    np.testing.assert_allclose(there, losses, rtol=1e-6)
    for a, b in zip(parameters, moved_parameters, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-7)
    assert after == before, "a training step copied arrays between host and device"
