"""Attention whose products write into the slices of one array is that of the formula."""

import numpy as np
import pytest

from minigrad.custom.variants import listed
from minigrad.engine.registry import op
from minigrad.fast.attention.forms import self_attention_gradient
from minigrad.ops.attention.packed import self_attention_gx

pytestmark = pytest.mark.promise(
    "attention as one op (attention/packed.py) gives what the ops it replaces give"
)

rng = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(5, 3, 24), (64, 8, 192), (4, 0, 12)])
@pytest.mark.parametrize("time", [0, 1])
@pytest.mark.parametrize("is_causal", [True, False])
def test_results_and_gradients_are_those_of_the_reference(shape, time, is_causal):
    x, how = rng.standard_normal(shape), {"heads": 2, "scale": 0.3, "time": time}
    how = {**how, "is_causal": is_causal}
    (form,) = listed(op.self_attention)
    before = form.calls
    y, p = op.self_attention.forward(x, **how)
    assert form.calls == before + 1
    for a, b in zip((y, p), op.self_attention.reference(x, **how), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)
    g = rng.standard_normal(y.shape)
    found, exact = (rule(g, x, p, **how) for rule in (self_attention_gradient, self_attention_gx))
    np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-13)
