"""A compiled tape on a device: the numbers of the eager run, an op a call."""

import numpy as np
import pytest
from small_models import Attention

import minigrad as mg
from minigrad import nn


def convnet():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4, track_running_stats=False), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 4),
    )  # fmt: skip


@pytest.mark.parametrize(("make", "shape"), [(Attention, (6, 5, 8)), (convnet, (6, 2, 6, 6))])
@pytest.mark.parametrize("where", ["fake", "gpu"])
def test_a_program_gives_the_numbers_of_the_eager_run(make, shape, where, request):
    request.getfixturevalue(where)
    mg.manual_seed(0)
    model = make()
    model.to(device="cuda")
    parameters = list(model.parameters())

    def inputs(seed):
        rng = np.random.default_rng(seed)
        x = mg.tensor(rng.standard_normal(shape), dtype=mg.float32, device="cuda")
        return x, mg.tensor(rng.integers(0, 4, len(x.data)), device="cuda")

    x, target = inputs(0)
    with mg.Tape() as tape:
        loss = mg.cross_entropy(model(x), target)
    program = tape.compile(loss, [x, target], wrt=parameters)
    for seed in (1, 2):
        x, target = inputs(seed)
        value, gradients = program(x, target)
        loss = mg.cross_entropy(model(x), target)
        expected = mg.grad(loss, parameters)
        np.testing.assert_allclose(value.get(), loss.detach().to("cpu").numpy(), rtol=1e-6)
        for a, b in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(a.get(), b.to("cpu").numpy(), rtol=1e-5, atol=1e-7)
