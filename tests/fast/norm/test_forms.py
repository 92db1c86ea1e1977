"""Each form of a normalisation is asked where it suits, and gives what the reference gives."""

import numpy as np
import pytest

from minigrad.custom.variants import listed
from minigrad.engine.registry import op

# what takes it: (shape of x, of weight and bias, axis)
CALLS = {
    "rows": ((700, 80), (80,), (1,)),
    "images": ((16, 32, 18, 19), (32, 1, 1), (0, 2, 3)),
    "blocks": ((64, 50, 30), (50, 1), (1,)),
}


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("name", CALLS)
def test_a_form_that_suits_gives_the_results_and_residuals_of_the_reference(name, centre):
    (shape, of_weight, axis), rng = CALLS[name], np.random.default_rng(0)
    args = [rng.standard_normal(s) for s in (shape, of_weight, of_weight)]
    how = {"axis": axis, "eps": 1e-5, "centre": centre}
    form = next(v for v in listed(op.standardize) if v.name == name)
    before = form.calls
    found = op.standardize.forward(*args, **how)
    assert form.calls == before + 1
    for a, b in zip(found, op.standardize.reference(*args, **how), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def test_forms_leave_empty_arrays_to_the_reference():
    before = {v: v.calls for v in listed(op.standardize)}
    y, mean, rstd = op.standardize.forward(np.ones((3, 0)), axis=(1,), eps=0.25)
    assert y.shape == (3, 0) and (mean == 0).all() and (rstd == 2).all()
    assert {v: v.calls for v in listed(op.standardize)} == before
