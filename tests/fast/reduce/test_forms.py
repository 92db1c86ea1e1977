"""Forms of reductions: what they give for small arrays, and what they leave to the table."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op


def test_the_gradient_of_a_small_sum_is_filled_which_takes_less_time_than_a_view():
    node = mg.ones(4, 3, requires_grad=True).sum(axis=0).node
    (g,) = node.plan.apply_rules((np.arange(3.0), *node.saved))
    assert g.flags.c_contiguous and g.tolist() == [[0.0, 1.0, 2.0]] * 4


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "var", "std", "cumsum"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_a_form_is_the_forward_itself_and_gives_the_reference_to_rounding(name, axis):
    entry, x = getattr(op, name), np.random.default_rng(0).standard_normal((300, 40))
    (form,) = [v for v in entry.variants if v.on == "any"]
    assert form.fn is entry.forward or len(entry.variants) > 1
    y, expected = entry.forward(x, axis=axis), entry.reference(x, axis=axis)
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_norms_of_rows_out_of_range_are_the_reference_s_and_leave_the_others_theirs(dtype):
    x = np.random.default_rng(0).standard_normal((64, 100)).astype(dtype)
    before = op.p_norm.forward(x, axis=1)
    x[3] = 0
    x[5] = np.inf
    y = op.p_norm.forward(x, axis=1)
    assert y.dtype == dtype and y[3] == 0 and y[5] == np.inf
    rest = np.delete(np.arange(64), [3, 5])
    np.testing.assert_array_equal(y[rest], before[rest])
