"""A parameter without axes is stepped like one of a single element."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import optim


def step(optimizer, p, times):
    """Steps down Σ p²."""
    for _ in range(times):
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("dtype", [mg.float64, mg.float32, mg.float16], ids=str)
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Lion"])
def test_a_step_on_a_scalar_is_that_on_a_vector_of_one(kind, dtype):
    after = []
    for shape in ((), (1,)):
        p = mg.tensor(np.full(shape, 0.5), dtype=dtype, requires_grad=True)
        optimizer = getattr(optim, kind)([p], lr=0.1)
        step(optimizer, p, times=3)
        after.append(p.item())
        assert p.shape == shape
    assert after[0] == after[1] < 0.5


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop", "Adagrad", "Lion", "Rprop"])
def test_a_rate_that_is_a_tensor_is_the_number_it_holds(kind):
    after = []
    for lr in (0.125, mg.tensor(0.125), mg.tensor([0.125], dtype=mg.float32)):
        p = mg.tensor(np.array([0.5, -1.0]), requires_grad=True)
        optimizer = getattr(optim, kind)([{"params": [p], "lr": lr}])
        step(optimizer, p, times=2)
        after.append(p.tolist())
    assert after[0] == after[1] == after[2]


def test_decay_rates_and_other_options_may_be_tensors_too():
    after = []
    for make in (float, mg.tensor, np.array):
        p = mg.tensor(np.array([0.5, -1.0]), requires_grad=True)
        options = {"betas": (make(0.8), make(0.9)), "eps": make(1e-4), "weight_decay": make(0.1)}
        optimizer = optim.Adam([p], lr=0.1, **options)
        step(optimizer, p, times=2)
        after.append(p.tolist())
    assert after[0] == after[1] == after[2]
