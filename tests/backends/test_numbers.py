"""Numbers of NumPy as parameters: they are Python's numbers, which leave a dtype alone."""

import numpy as np
import pytest

import minigrad as mg
import minigrad.nn.functional as F

NUMBER = np.float64(0.25)  # beside an array of float32 it is not weak

TAKE_A_NUMBER = {
    "leaky_relu": lambda x, a: F.leaky_relu(x, a),
    "leaky_relu by name": lambda x, a: F.leaky_relu(x, negative_slope=a),
    "mg.leaky_relu": lambda x, a: mg.leaky_relu(x, a),
    "hardtanh": lambda x, a: F.hardtanh(x, -a, a),
    "softplus": lambda x, a: F.softplus(x, a),
    "elu": lambda x, a: F.elu(x, a),
    "threshold": lambda x, a: F.threshold(x, a, a),
    "huber_loss": lambda x, a: F.huber_loss(x, 2 * x, delta=a),
    "logit": lambda x, a: mg.logit(x, eps=a),
    "addcmul": lambda x, a: mg.addcmul(x, x, x, value=a),
    "addmm": lambda x, a: mg.addmm(x, x, x, beta=a, alpha=a),
}


@pytest.mark.parametrize("case", TAKE_A_NUMBER)
def test_a_parameter_that_is_numpys_number_leaves_the_dtype_alone(case):
    x = mg.tensor(np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3), requires_grad=True)
    y = TAKE_A_NUMBER[case](x, NUMBER)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y.numpy(), TAKE_A_NUMBER[case](x, float(NUMBER)).numpy())


def test_an_array_of_parameters_is_still_an_array():
    x, slopes = mg.tensor([[-1.0, 2.0]]), np.array([[0.5, 3.0]])
    np.testing.assert_array_equal(mg.leaky_relu(x, slopes).numpy(), [[-0.5, 2.0]])
