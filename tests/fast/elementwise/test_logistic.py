"""σ, x σ(x), gelu and erf in place: the bits of the table's forms, in one block and in several."""

from itertools import product

import numpy as np
import pytest

from minigrad.custom.variants import listed
from minigrad.engine.registry import op

rng = np.random.default_rng(0)
LOGISTIC = "sigmoid", "sigmoid_derivative", "silu", "silu_derivative"
CASES = [
    *product(LOGISTIC, ("float64", "float32", "float16")),
    *[("gelu", "float32"), ("gelu", "float16"), ("erf", "float32")],  # the others are SciPy's
]


@pytest.mark.parametrize("size", [(1 << 12,), (70, 100), ((1 << 19) + 5,)], ids=str)
@pytest.mark.parametrize("name, dtype", CASES)
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
def test_in_place_gives_the_bits_of_the_expression(name, dtype, size):
    op_ = getattr(op, name)
    form = next(v for v in listed(op_) if v.name == "in place")
    x = (rng.standard_normal(size) * 20).astype(dtype)
    for special in ((), (-1000, np.inf, -np.inf, np.nan)):
        x.flat[: len(special)] = special
        found, exact = form.fn(x), op_.reference(x)
        for a, b in zip(*(y if type(y) is tuple else (y,) for y in (found, exact)), strict=True):
            np.testing.assert_array_equal(a, b, strict=True)
            assert a.flags.owndata
