"""scatter_reduce: places and values of all integer dtypes, and what it takes of memory."""

import tracemalloc

import numpy as np
import pytest

import minigrad as mg


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_a_place_that_many_values_go_to_costs_no_memory_at_the_others(reduce):
    """A hub of a graph beside 20,000 other nodes, not a table of places by values of the hub."""
    n = 20_000
    src = mg.tensor(np.random.default_rng(0).random(2 * n), requires_grad=True)
    places = np.concatenate([np.zeros(n, int), np.arange(n)])
    tracemalloc.start()
    try:
        y = mg.scatter_reduce(mg.zeros(n), 0, places, src, reduce, include_self=False)
        y.sum().backward()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * src.nbytes
    function = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce]
    np.testing.assert_allclose(y[0].item(), function(src.data[: n + 1]), rtol=1e-12)
    np.testing.assert_array_equal(y[1:].numpy(), src.data[n + 1 :])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_places_of_short_integers_reach_all_of_x(dtype):
    index = np.array([[2], [99]], dtype).repeat(3, 1)
    y = mg.scatter_reduce(mg.zeros(100, 40), 0, index, mg.ones(2, 3), "amax")
    assert np.argwhere(y.numpy()).tolist() == [[i, j] for i in (2, 99) for j in range(3)]


def test_a_place_is_no_fraction():
    with pytest.raises(TypeError, match="indices must be integers, got float64"):
        mg.scatter_reduce(mg.zeros(3), 0, np.array([0.5]), mg.ones(1), "sum")


def test_means_of_small_integers_do_not_wrap_round():
    x, src = mg.tensor([100, 0], dtype=np.int8), mg.tensor([100, 100], dtype=np.int8)
    y = mg.scatter_reduce(x, 0, [0, 0], src, "mean")
    assert y.dtype == np.int8 and y.tolist() == [100, 0]
