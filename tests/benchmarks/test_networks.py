"""The networks that are timed beside PyTorch's are the same: loss and gradients agree."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is what the networks are timed beside")
import networks as benchmark


@pytest.mark.parametrize("name", benchmark.networks(benchmark.library("minigrad")))
def test_loss_and_gradients_of_a_network_are_pytorchs(name):
    (ours, step), (theirs, their_step) = (
        benchmark.stepped(benchmark.library(engine), name, double=True)
        for engine in benchmark.ENGINES
    )
    pairs = list(zip(ours.parameters(), theirs.parameters(), strict=True))
    for mine, other in pairs:
        mine.data[...] = other.detach().numpy()
    loss, expected = step(), their_step()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    gradients = [(mine.grad.numpy(), other.grad.numpy()) for mine, other in pairs]
    largest = max(abs(g).max() for _, g in gradients)  # behind a norm some are 0 but for rounding
    for mine, other in gradients:
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-11 * largest)
