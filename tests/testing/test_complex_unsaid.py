"""What is taken is right: an op that says real numbers alone, and takes complex ones, too."""

import numpy as np
import pytest

from minigrad.testing.case import Context, differentiated, is_differentiable_op
from minigrad.testing.compare import check_direction, random_pair
from minigrad.testing.errors import Inconclusive
from minigrad.testing.function import Function
from minigrad.testing.run import op_names
from minigrad.testing.spec import specs
from tests.testing.test_every_op import is_of_the_library

# ops that others call, which refuse complex numbers before
INNER = set(
    "power_product gammainc_derivative betainc_derivative self_attention weighted_logsumexp "
    "cross_entropy_index cross_entropy_dx logit_terms standardize standardize_dx "
    "standardize_dw exponential_integral linear_nll linear_nll_grads".split()
)
UNSAID = [
    name
    for name in op_names()
    if is_of_the_library(name)
    and not any("complex" in dtype for dtype in specs[name].dtypes)
    and name not in INNER
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", UNSAID)
def test_the_gradient_of_complex_numbers_is_right_or_they_are_refused(name):
    spec, context = specs[name], Context()
    with np.errstate(all="ignore"):
        if "float64" not in spec.dtypes or not is_differentiable_op(spec, context):
            return
        for sample in context.samples(spec, "float64"):
            places, rng = differentiated(spec, sample.args), np.random.default_rng(1)
            args = [
                x + 1j * rng.uniform(0.1, 0.5, x.shape) if i in places else x
                for i, x in enumerate(sample.args)
            ]
            function = Function(spec.call, args, sample.params, places)
            ys = function.value_or_refusal(function.xs)
            if not function.xs or not ys or not all(np.isfinite(y).all() for y in ys):
                continue
            us, vs = random_pair(function, function.xs, rng)
            try:
                check_direction(function, function.xs, us, vs, sample.name)
            except Inconclusive:  # a kink, such as that of |x| at 0, or a cut
                pass
