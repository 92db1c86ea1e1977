"""Functions with fractions for results, given whole numbers: nothing is cut off or wraps round."""

import numpy as np
import pytest

import minigrad as mg

NATURAL = np.array([0, 1, 3], np.uint8)


@pytest.mark.parametrize("name", ["sigmoid", "softplus", "logsigmoid", "silu", "erf", "gelu"])
def test_unsigned_numbers_do_not_wrap_round_below_zero(name):
    f = getattr(mg, name)
    expected = f(NATURAL.astype(np.float64))
    np.testing.assert_allclose(f(mg.tensor(NATURAL)).numpy(), expected, rtol=2e-3)


@pytest.mark.parametrize("name", ["logsumexp", "logcumsumexp"])
def test_the_logarithm_of_a_sum_of_whole_numbers_keeps_its_fraction(name):
    f, x = getattr(mg, name), np.array([1, 2, 3])
    np.testing.assert_allclose(f(mg.tensor(x)).numpy(), f(x.astype(np.float64)))


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_a_whole_number_times_a_logarithm_keeps_its_fraction(name):
    f, x = getattr(mg, name), np.array([0, 2, 3])
    np.testing.assert_allclose(f(mg.tensor(x), mg.tensor(x)).numpy(), f(x * 1.0, x * 1.0))


def test_a_constant_argument_that_requires_a_gradient_is_refused():
    x, q = mg.tensor([1.0, 2.0, 4.0]), mg.tensor(0.5, requires_grad=True)
    for f in (mg.quantile, mg.percentile, mg.nanquantile, mg.nanpercentile):
        with pytest.raises(TypeError, match=r"q is a constant here.*q\.detach\(\)"):
            f(x, q)
    with pytest.raises(TypeError, match="aweights is a constant here"):
        mg.cov(x, aweights=mg.tensor(np.ones(3), requires_grad=True))
