"""Attention by products, a part at a time, without a GPU: NumPy in the place of its kernels."""

import numpy as np
import pytest

from minigrad.on_gpu import attention
from minigrad.ops.attention import primitives

pytestmark = pytest.mark.promise(
    "kernels agree with float64; cuDNN and products agree; a captured step gives the eager "
    "numbers (on a GPU)"
)


@pytest.fixture
def scores(monkeypatch):
    """The shapes of the scores that are computed, by NumPy."""
    found = []

    def product(a, b, alpha=1.0, wide=False):
        found.append((*a.shape[:-1], b.shape[-1]))
        return alpha * (a @ b)

    monkeypatch.setattr(attention, "available", lambda x: True)
    monkeypatch.setattr(attention, "product", product)
    monkeypatch.setattr(attention, "place", lambda s: np.arange(s.shape[-1]))
    monkeypatch.setattr(attention.launch, "run", lambda key, words, arrays: words(*arrays))
    return found


def agrees(queries, keys, **how):
    draw = np.random.default_rng(0)
    mask = how.pop("mask", None)
    q, a = draw.standard_normal((2, 2, 3, queries, 8))
    k, v = draw.standard_normal((2, 2, 3, keys, 8))
    o, lse = attention.attention(q, k, v, mask, **how)
    grads = attention.attention_grads(
        a, q, k, v, mask, o, lse, mask_gradient=mask is not None, **how
    )
    expected = primitives.attention.reference(q, k, v, mask, **how)
    others = primitives.attention_grads.reference(
        a, q, k, v, mask, *expected, mask_gradient=mask is not None, **how
    )
    for x, y in zip((o, lse, *grads), (*expected, *others), strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


LENGTHS = [(70, 70), (600, 600), (600, 500), (500, 600), (1000, 30), (30, 1000)]


@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("workspace", [1 << 28, 1 << 20, 400_000], ids=str)
def test_parts_give_what_all_at_once_gives(scores, monkeypatch, workspace, lengths, is_causal):
    monkeypatch.setattr(attention, "SCORES", workspace)
    agrees(*lengths, is_causal=is_causal, scale=0.3)


def test_masks_are_cut_with_their_examples(scores, monkeypatch):
    monkeypatch.setattr(attention, "SCORES", 2 * 70 * 90)
    draw = np.random.default_rng(1)
    for shape in [(70, 90), (2, 1, 1, 90), (2, 3, 70, 90), (70, 1)]:
        agrees(70, 90, mask=draw.standard_normal(shape))
        agrees(70, 90, mask=draw.standard_normal(shape), is_causal=True)


def test_scores_that_a_causal_mask_hides_are_not_computed_where_there_are_many(scores, monkeypatch):
    monkeypatch.setattr(attention, "SCORES", 1 << 20)
    q = np.ones((1, 1024, 8))
    attention.attention(np.repeat(q, 2, 0), *[np.repeat(q, 2, 0)] * 2, is_causal=True)
    shapes = [s for s in scores if s[-1] != 8]
    assert shapes == [(2, 128, keys) for keys in range(1024, 0, -128)]
    scores.clear()
    attention.attention(q, q, q, is_causal=True)
    assert [s for s in scores if s[-1] != 8] == [(1, 1024, 1024)]
