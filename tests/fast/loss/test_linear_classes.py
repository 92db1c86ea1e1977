"""Cross entropy of a linear map in blocks: the losses and gradients of all logits, which it never
holds."""

import tracemalloc

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.fast.loss import linear_classes

rng = np.random.default_rng(0)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("sure", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (5, 4), (50, 50)], ids="{0[0]} {0[1]}".format)
def test_blocks_of_any_size_have_the_losses_and_gradients_of_all_logits(
    sizes, sure, bias, monkeypatch
):
    rows, classes = sizes
    monkeypatch.setattr(linear_classes, "ROWS", rows)
    monkeypatch.setattr(linear_classes, "BLOCK", rows * classes)
    x, w = rng.standard_normal((7, 3)), rng.standard_normal((9, 3))
    b = rng.standard_normal(9) if bias else None
    x = 50 * x if sure else x
    z = x @ w.T + (0 if b is None else b)
    index = z.argmax(1) if sure else rng.integers(0, 9, 7)
    y, lse = op.linear_nll.forward(x, w, index, b)
    for found, exact in zip((y, lse), op.linear_nll.reference(x, w, index, b), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-13, atol=1e-13)
    a, d = rng.standard_normal((2, 7))
    a[:2], d[1:3] = 0, 0
    grads = [
        f(a, d, x, w, index, lse, b)
        for f in (op.linear_nll_grads.forward, op.linear_nll_grads.reference)
    ]
    for found, exact in zip(*grads, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-13)


def test_the_logits_are_never_all_in_memory():
    x = mg.tensor(rng.standard_normal((2048, 8)).astype(np.float32), requires_grad=True)
    w = mg.tensor(rng.standard_normal((8192, 8)).astype(np.float32), requires_grad=True)
    target = rng.integers(0, 8192, 2048)
    tracemalloc.start()
    try:
        mg.linear_cross_entropy(x, w, target).backward()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2048 * 8192 * 4 / 2  # half of the logits
