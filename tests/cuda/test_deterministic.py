"""With deterministic algorithms asked for, a GPU adds in order or refuses."""

import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import DeterminismError

pytestmark = pytest.mark.promise("results repeat; on a GPU an ordered form or an error")


@pytest.fixture(params=["stand-in", "gpu"])
def device(request):
    request.getfixturevalue("fake" if request.param == "stand-in" else "gpu")
    return "cuda"


def test_gradients_of_reads_are_added_in_order(device):
    index = np.random.default_rng(0).integers(-9, 9, 300)
    weights = np.random.default_rng(1).standard_normal(300)

    def gradient(device):
        x = mg.tensor(np.arange(9.0), device=device, requires_grad=True)
        w = mg.tensor(weights, device=device)
        (x[mg.tensor(index, device=device)] * w).sum().backward()
        return x.grad.to("cpu").numpy()

    expected = gradient("cpu")
    with mg.deterministic():
        first, second = gradient(device), gradient(device)
    assert first.tobytes() == second.tobytes()
    np.testing.assert_allclose(first, expected, rtol=1e-12)


def test_weighted_counts_are_added_in_order(device):
    index = np.random.default_rng(0).integers(0, 9, 300)
    weights = np.random.default_rng(1).standard_normal(300)
    with mg.deterministic():
        y = mg.bincount(mg.tensor(index, device=device), mg.tensor(weights, device=device))
    np.testing.assert_allclose(y.to("cpu").numpy(), np.bincount(index, weights), rtol=1e-12)


def test_what_has_no_ordered_form_raises_or_warns(device):
    x = mg.tensor([1.0, 2.0], device=device)
    with mg.deterministic():
        with pytest.raises(DeterminismError, match="cumsum on cuda:0 scans in an order"):
            mg.cumsum(x)
    with mg.deterministic(warn_only=True), pytest.warns(UserWarning, match="cumsum on cuda:0"):
        assert mg.cumsum(x).to("cpu").tolist() == [1, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mg.cumsum(x)
