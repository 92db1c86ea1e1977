"""mg.stats on the stand-in for a GPU: values and gradients are the host's."""

import numpy as np
import pytest

import minigrad as mg

DISTRIBUTIONS = [
    ("norm", ()), ("t", (5.0,)), ("t", (1e7,)), ("gamma", (2.0,)), ("chi2", (3.0,)),
    ("beta", (2.0, 3.0)), ("expon", ()), ("laplace", ()), ("logistic", ()), ("uniform", ()),
]  # fmt: skip
FUNCTIONS = ["pdf", "logpdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"]


@pytest.mark.parametrize(("name", "shapes"), DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_distribution_has_the_values_and_gradients_of_the_host(fake, name, shapes, dtype):
    for function in FUNCTIONS:
        found = []
        for device in ("cpu", "cuda"):
            leaves = [
                mg.tensor(values, dtype=dtype, device=device, requires_grad=True)
                for values in ([0.1, 0.4, 0.9], *shapes)
            ]
            y = getattr(getattr(mg.stats, name), function)(*leaves)
            gradients = mg.grad(y.sum(), leaves, allow_unused=True)
            assert y.device.startswith(device)
            found.append([y, *(g for g in gradients if g is not None)])
        for host, other in zip(*found, strict=True):
            values = other.detach().to("cpu").numpy()
            np.testing.assert_allclose(values, host.detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", ["gammaincinv", "gammainccinv"])
@pytest.mark.parametrize("q", [0.5, 0.0, 1.5])
def test_a_quantile_takes_a_number_for_its_share(fake, name, q):
    values = [
        getattr(mg.special, name)(mg.tensor([0.7, 3.0], device=device), q).to("cpu").numpy()
        for device in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(values[1], values[0])
