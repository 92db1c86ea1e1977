"""Numbers, truth values and lists beside arrays on a device go where those lie."""

import numpy as np
import pytest

import minigrad as mg

VALUES = np.linspace(0.5, 2.5, 6).reshape(2, 3)
CALLS = {
    "where of one truth value": lambda x: mg.where(True, x, 2.0),
    "where of NumPy's": lambda x: mg.where(np.bool_(False), 2.0, x),
    "heaviside of a number": lambda x: mg.heaviside(1.0, x),
    "mse to a list": lambda x: mg.mse(x, [[1, 2, 3], [4, 5, 6]]),
    "smooth l1 to a list": lambda x: mg.huber(x, [[1, 2, 3], [4, 5, 6]]),
    "gaussian_nll of a list": lambda x: mg.gaussian_nll(x, [[1, 2, 3], [4, 5, 6]], 2.0),
    "poisson_nll of a list": lambda x: mg.poisson_nll(x, [[1, 2, 3], [4, 5, 6]]),
    "index_put of a number": lambda x: mg.index_put(x, ([0, 1],), 3.0, accumulate=True),
    "masked_fill by one truth value": lambda x: mg.masked_fill(x, False, 2.0),
    "convolve with a list": lambda x: mg.convolve(x.reshape(-1), [1.0, 2.0]),
    "cross with a list": lambda x: mg.cross(x, [1.0, 2.0, 3.0]),
    "dist from a number": lambda x: mg.dist(1.0, x),
    "searchsorted by a list": lambda x: mg.searchsorted(
        x.reshape(-1), x.reshape(-1), sorter=[0, 1, 2, 3, 4, 5]
    ),
}


@pytest.mark.parametrize("where", ["fake", "gpu"])
@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_array_goes_where_the_array_lies(where, name, request):
    def result_and_gradient(device):
        x = mg.tensor(VALUES, device=device, requires_grad=True)
        y = CALLS[name](x)
        if y.requires_grad:
            (y * y).sum().backward()
        found = [y.detach(), *([] if x.grad is None else [x.grad])]
        return [t.to("cpu").numpy() for t in found], {t.device for t in found}

    request.getfixturevalue(where)
    (expected, _), (found, devices) = result_and_gradient("cpu"), result_and_gradient("cuda")
    assert devices == {"cuda:0"}
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
