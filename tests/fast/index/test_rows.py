"""Sums of rows at an index: a sparse product, or flat places."""

import numpy as np

from minigrad.fast.index import rows


def test_large_row_gradients_equal_np_add_at():
    """Above the size from which a sparse product does the work."""
    rng = np.random.default_rng(0)
    index, values = rng.integers(0, 50, 1000), rng.standard_normal((1000, 16))
    expected = np.zeros((50, 16))
    np.add.at(expected, index, values)
    np.testing.assert_allclose(rows.sum_rows(values, index, 50), expected, rtol=1e-12)


def test_large_row_gradients_do_not_need_scipy(monkeypatch):
    rng = np.random.default_rng(0)
    index, values = rng.integers(0, 50, 1000), rng.standard_normal((1000, 16))
    fast = rows.sum_rows(values, index, 50)
    monkeypatch.setattr(rows, "optional", lambda name: None)
    np.testing.assert_allclose(rows.sum_rows(values, index, 50), fast, rtol=1e-12)
