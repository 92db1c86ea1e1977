"""Reads and sums along an axis by one flat index, in blocks."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.fast.index import along


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_large_reads_along_an_axis_in_blocks_are_numpys(monkeypatch, axis, dtype):
    monkeypatch.setattr(along._Along, "BLOCK", 1500)  # several rows of the first axis at once
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 30, 25))
    shape = list(x.shape)
    shape[axis] = 40
    places = rng.integers(-x.shape[axis], x.shape[axis], shape).astype(dtype)
    t, g = mg.tensor(x, requires_grad=True), rng.standard_normal(shape)
    y = mg.take_along_axis(t, places, axis=axis)
    np.testing.assert_array_equal(y.numpy(), np.take_along_axis(x, places, axis))
    expected = np.zeros(x.shape)
    key = [
        np.arange(n).reshape([-1 if i == k else 1 for i in range(3)]) for k, n in enumerate(shape)
    ]
    key[axis] = places
    np.add.at(expected, tuple(key), g)
    np.testing.assert_array_equal(mg.grad(y, t, g).numpy(), expected)
    places[8, 20, 20] = x.shape[axis]
    with pytest.raises(IndexError, match=f"index {x.shape[axis]} is out of bounds"):
        mg.take_along_axis(t, places, axis=axis)
