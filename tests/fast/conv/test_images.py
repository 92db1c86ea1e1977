"""Images as matrices, in blocks of the batch: one by one or together, they are the same numbers."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.fast.conv import images
from tests.ops import test_conv


@pytest.mark.parametrize("few_windows", [0, 1000], ids=["one by one", "merged"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_values_and_gradients_are_pytorchs(dims, few_windows, monkeypatch):
    monkeypatch.setattr(images, "FEW_WINDOWS", few_windows)
    test_conv.test_values_and_gradients_are_pytorchs(dims)


def test_blocks_of_the_batch_give_the_same_result(monkeypatch):
    x, w = test_conv.leaf(test_conv.rand(7, 3, 12, 12)), test_conv.leaf(test_conv.rand(4, 3, 3, 3))
    g = test_conv.rand(7, 4, 12, 12, seed=2)

    def run():
        y = mg.conv2d(x, w, padding=1)
        return [y.numpy(), *(c.numpy() for c in mg.grad(y, [x, w], g))]

    whole = run()
    monkeypatch.setattr(images, "BLOCK_BYTES", 1)
    for a, b in zip(run(), whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
