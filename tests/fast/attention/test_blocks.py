"""Attention in blocks is that of all scores, and holds a small part of them."""

import tracemalloc

import numpy as np
import pytest

import minigrad as mg
from minigrad.custom.variants import listed
from minigrad.engine.registry import op

pytestmark = pytest.mark.promise(
    "both forms of attention drop the same weights, and no mask is stored"
)

rng = np.random.default_rng(0)
SHAPES = (2, 3, 9, 4), (2, 3, 11, 4), (2, 3, 11, 5)
MASK = rng.random((9, 11)) > 0.4
MASK[2] = False
SEEDS = rng.integers(0, 2**63 - 1, (2, 3, 1, 1))
attention = mg.scaled_dot_product_attention


def arguments(case):
    """(mask, seeds, keywords)"""
    added = np.where(MASK, rng.standard_normal(MASK.shape), -np.inf)
    mask = {"boolean mask": MASK, "added mask": added}.get(case)
    how = {"scale": 0.5, "is_causal": case == "causal"}
    dropped = case == "dropout"
    return mask, SEEDS if dropped else None, {**how, "dropout_p": 0.3 if dropped else 0.0}


@pytest.mark.parametrize("block_size", [None, 1, 4, 16])
@pytest.mark.parametrize("case", ["plain", "causal", "boolean mask", "added mask", "dropout"])
def test_blocks_give_the_results_and_gradients_of_the_reference(case, block_size):
    mask, seeds, how = arguments(case)
    q, k, v = (rng.standard_normal(s) for s in SHAPES)
    (form,) = (x for x in listed(op.attention) if x.on == "cpu")
    before, how = form.calls, {**how, "block_size": block_size}
    y, lse = op.attention.forward(q, k, v, mask, seeds, **how)
    assert form.calls == before + 1
    exact = op.attention.reference(q, k, v, mask, seeds, **how)
    for a, b in zip((y, lse), exact, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    args = (rng.standard_normal(y.shape), q, k, v, mask, y, lse, seeds)
    how = {**how, "mask_gradient": case == "added mask"}
    found = op.attention_grads.forward(*args, **how)
    for a, b in zip(found, op.attention_grads.reference(*args, **how), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def test_blocks_of_later_keys_are_not_looked_at():
    q, k, v = rng.standard_normal((3, 1, 8, 4))
    before = attention(q, k, v, is_causal=True, block_size=3)
    v[:, 5:] = np.nan  # times a weight of 0 it would show
    after = attention(q, k, v, is_causal=True, block_size=3)
    np.testing.assert_array_equal(after[:, :3], before[:, :3])


def test_dropout_in_blocks_keeps_no_array_of_all_weights():
    def peak(block_size):
        xs = [mg.tensor(rng.standard_normal((1024, 8)), np.float32, requires_grad=True)
              for _ in range(3)]  # fmt: skip
        tracemalloc.start()
        y = attention(*xs, block_size=block_size, dropout_p=0.2)
        y.backward(np.ones(y.shape, np.float32))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(128) < 1.5e6  # a mask of all weights alone is 1 MB, their scores 4 MB
    assert peak(None) > 8e6


def test_the_blocks_hold_a_small_part_of_what_the_plain_form_holds():
    """1024 queries and keys in float32: 4 MB of scores, of which blocks of 128 hold 64 kB."""

    def peak(block_size):
        xs = [mg.tensor(rng.standard_normal((1024, 8)), np.float32, requires_grad=True)
              for _ in range(3)]  # fmt: skip
        tracemalloc.start()
        y = attention(*xs, block_size=block_size)
        y.backward(np.ones(y.shape, np.float32))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(None) > 8e6
    assert peak(128) < 1e6
