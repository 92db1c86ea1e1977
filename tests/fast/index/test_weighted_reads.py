"""Weighted reads of images in blocks, with the channels last."""

import numpy as np
import pytest

from minigrad.engine.registry import op
from minigrad.fast.index import rows


@pytest.mark.parametrize("at", [0, 1])
def test_an_infinite_complex_factor_gives_what_the_reference_gives(at):
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((3, n)) + 1j * rng.standard_normal((3, n)) for n in (5, 6)]
    factors[at][1, 2] = np.inf
    places = rng.integers(0, 7, (2, 5))
    places[0, 2] = 2
    with np.errstate(invalid="ignore"):
        expected = op.weighted_reads_dw.reference(*factors, places)
        got = op.weighted_reads_dw.forward(*factors, places)
    assert not np.isfinite(expected).all()
    np.testing.assert_array_equal(got, expected)


def test_reads_without_scipy_give_the_same_gradients(monkeypatch):
    rng = np.random.default_rng(0)
    u, weights = rng.standard_normal((2, 3, 400)), rng.standard_normal((2, 4, 400))
    places = rng.integers(0, 51, weights.shape)
    expected = op.weighted_reads_dx.forward(u, weights, places, count=50)
    monkeypatch.setattr(rows, "optional", lambda name: None)
    got = op.weighted_reads_dx.forward(u, weights, places, count=50)
    np.testing.assert_allclose(got, expected, rtol=1e-11)
