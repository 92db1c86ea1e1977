"""What gradcheck says of functions that it cannot check, and of a result of one number."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import Inconclusive, gradcheck
from minigrad.testing.errors import GradcheckError
from minigrad.testing.plant import make

X = np.array([0.3, -1.2, 0.7])


def test_a_function_that_draws_is_told_so():
    rng = np.random.default_rng(0)
    with pytest.raises(GradcheckError, match="other values when it is called again"):
        gradcheck(lambda x: x * rng.standard_normal(3), X)


def test_a_result_in_place_of_the_function_is_told_what_is_wanted():
    with pytest.raises(TypeError, match=r"gradcheck\(f, x\), and not the function's result"):
        gradcheck(mg.ones(3), X)


def test_a_single_number_that_is_wrong_has_no_index():
    wrong = make("half", lambda x: (x * x).sum(), {"x": lambda g, x: g * x}, {})
    with pytest.raises(GradcheckError, match="the worst is ∂ result 0 / ∂ the entry named below"):
        gradcheck(wrong, X)


@pytest.mark.parametrize("f", [mg.relu, lambda x: mg.clip(x, -1.0, 1.0)])
def test_a_slope_of_a_kink_is_not_called_wrong_where_both_steps_agree(f):
    with pytest.raises(Inconclusive, match="a mean of the slopes on both sides"):
        gradcheck(f, np.array([0.0, 1.0]))


def test_a_wrong_rule_beside_a_kink_is_still_called_wrong():
    twice = mg.primitive(lambda x: np.abs(x), name="abs_with_twice_the_slope")
    twice.vjp("x")(lambda g, x: 2 * g * np.sign(x))
    with pytest.raises(GradcheckError, match="entries of the Jacobian are wrong"):
        gradcheck(twice, np.array([0.0, 1.0]))
