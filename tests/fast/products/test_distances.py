"""Distances in blocks, by products where these have the digits of the differences."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.fast.products import distances

RNG = np.random.default_rng(0)


def found(a, b, g, p):
    a, b = (mg.tensor(x, requires_grad=True) for x in (a, b))
    y = mg.cdist(a, b, p)
    return [x.numpy() for x in (y.detach(), *mg.grad(y, (a, b), g))]


@pytest.mark.parametrize("p", [1, 2, 3.0])
def test_blocks_give_what_one_piece_gives(monkeypatch, p):
    a, b, g = (RNG.standard_normal(s) for s in ((2, 1, 23, 5), (3, 17, 5), (2, 3, 23, 17)))
    whole = found(a, b, g, p)
    monkeypatch.setattr(distances, "AT_ONCE", 40)
    monkeypatch.setattr(distances, "ROWS", 1)
    for x, y in zip(found(a, b, g, p), whole, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("p", [1, 2, 3.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_give_the_distances_of_the_reference(dtype, p):
    a, b = (RNG.standard_normal(s).astype(dtype) for s in ((70, 30), (90, 30)))
    (form,) = op.row_distances.variants
    y, expected = form.fn(a, b, p), op.row_distances.reference(a, b, p)
    np.testing.assert_allclose(y, expected, rtol=16 * np.finfo(dtype).eps)
