"""Products and running products: exact derivatives at zeros and beyond the numbers of a dtype."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck, gradgradcheck


def leaf(values, dtype=np.float64):
    return mg.tensor(values, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2), (0, 1, 2, 3)])
def test_prod_has_exact_first_and_second_derivatives_at_zeros(zeros):
    x = np.array([2.0, 3.0, -5.0, 7.0])
    x[list(zeros)] = 0
    n = len(x)
    others = [np.prod(np.delete(x, i)) for i in range(n)]
    t = leaf(x)
    g = mg.grad(mg.prod(t), t, create_graph=True)
    assert g.numpy().tolist() == others
    for i in range(n):
        row = mg.grad(g[i], t, retain_graph=True).numpy()
        assert row.tolist() == [0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(n)]


@pytest.mark.parametrize("tiny", [1e-30, 1e30, 0.0, np.inf])
def test_a_product_beyond_the_dtype_has_the_gradient_of_the_others(tiny):
    values = np.array([[tiny, tiny, 2.0], [3.0, 4.0, 5.0]], np.float32)
    x = mg.tensor(values, requires_grad=True)
    with np.errstate(all="ignore"):
        mg.prod(x, axis=1).backward(np.ones(2, np.float32))
        first = np.float32(tiny) * np.float32(tiny)
    assert x.grad is not None
    expected = [[2 * np.float32(tiny), 2 * np.float32(tiny), first], [20, 15, 12]]
    np.testing.assert_allclose(x.grad.numpy(), np.array(expected, np.float32), rtol=1e-6)


def test_prods_gradient_is_exact_where_what_stands_behind_a_factor_is_subnormal():
    x = mg.tensor([[1e300, 5.0, 1e-160, 1e-160], [0.0, 2.0, 3.0, 4.0]], requires_grad=True)
    mg.prod(x, axis=1).backward(np.ones(2))
    assert x.grad is not None
    expected = [[5e-320, 1e-20, 5e140, 5e140], [24, 0, 0, 0]]
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-13, atol=1e-322)


def test_prod_has_exact_third_derivatives_at_zeros():
    t = leaf(np.zeros(3))
    g = mg.grad(mg.prod(t), t, create_graph=True)[0]
    g = mg.grad(g, t, create_graph=True)[1]
    assert mg.grad(g, t).numpy().tolist() == [0, 0, 1]


@pytest.mark.parametrize("zeros", [(0,), (1,), (1, 3), (0, 1, 2, 3)])
def test_cumprod_has_exact_derivatives_at_zeros(zeros):
    x = np.array([2.0, 3.0, -5.0, 7.0])
    x[list(zeros)] = 0
    assert gradcheck(mg.cumprod, x)
    assert gradgradcheck(mg.cumprod, x)


@pytest.mark.parametrize("lines", [1, 100])
def test_zeros_anywhere_in_a_long_running_product_leave_an_exact_gradient(lines):
    """Powers of two, so that every product is exact; the slope at a first zero skips it alone."""
    x = np.random.default_rng(0).choice([0.5, 1.0, 2.0, -1.0], (lines, 200))
    x[:, [40, 150]] = 0
    t = leaf(x)
    g = mg.grad(mg.cumprod(t, axis=1), t, np.ones_like(x)).numpy()
    for k in (3, 40, 41, 150):  # Σ over i ≥ k of the product up to i without x_k
        others = x.copy()
        others[:, k] = 1
        np.testing.assert_array_equal(g[:, k], np.cumprod(others, 1)[:, k:].sum(1))


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_the_running_product_of_a_number_has_a_gradient(axis):
    x = leaf(3.0)
    y = mg.cumprod(x, axis=axis)
    assert y.shape == np.cumprod(np.array(3.0), axis=axis).shape
    assert mg.grad(y, x, np.array([2.0])).item() == 2


def test_a_product_that_overflows_on_the_way_has_the_gradient_of_its_value():
    x = mg.tensor([1e-200, 1e-150, 1e200, 1e200, 3.0], requires_grad=True)
    y = mg.prod(x)  # 1e-350 on the way is 0, and so is the product
    with np.errstate(over="ignore", invalid="ignore"):
        gx = mg.grad(y, x).numpy()
    assert np.isfinite(gx).all()
    x = mg.tensor([2.0, 1e-200, 1e-100, 1e200, 1e200], requires_grad=True)
    y = mg.prod(x)
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_allclose(mg.grad(y, x).numpy(), y.item() / x.numpy())
