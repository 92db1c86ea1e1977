"""Derivatives far out, where they are small, are right relative to themselves; and at infinity."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad as mg
from minigrad import special
from minigrad.func import jvp

pytestmark = pytest.mark.promise(
    "derivatives in tails are right relative to themselves, and at infinity limits (K32)"
)

inf, nan = np.inf, np.nan


def leaf(x, dtype=None):
    return mg.tensor(np.asarray(x, dtype), requires_grad=True)


def rows_of_jacobian(f, x):
    """∂f_k/∂x for each k, by reverse mode; then the same by forward mode."""
    x = leaf(x)
    y = f(x)
    reverse = [mg.grad(y.reshape(-1)[k], x, retain_graph=True).tolist() for k in range(y.size)]
    columns = [jvp(f, (x.detach(),), (mg.tensor(e),))[1].tolist() for e in np.eye(x.size)]
    return reverse, np.transpose(np.reshape(columns, (x.size, y.size))).tolist()


# -- tanh ------------------------------------------------------------------------------------


def slope_of_tanh(x):
    return float(mpmath.sech(mpmath.mpf(float(x))) ** 2)


@given(st.floats(0.1, 300), st.sampled_from([1, -1]))
def test_tanh_has_a_slope_with_digits_however_flat_it_is(x, sign):
    for dtype, rtol in (("f8", 3e-10), ("f4", 2e-3)):
        a = leaf([sign * x], dtype)
        exact = slope_of_tanh(a.data[0])
        if exact < np.finfo(dtype).smallest_normal:
            continue
        ones = np.ones(1, dtype)
        plain = mg.grad(mg.tanh(a), a, ones).item()
        recorded = mg.grad(mg.tanh(a), a, ones, create_graph=True).item()
        forward = jvp(mg.tanh, (a.detach(),), (mg.tensor(ones),))[1].item()
        np.testing.assert_allclose([plain, recorded, forward], exact, rtol=rtol)


def test_tanh_at_20_has_the_slope_that_it_has():
    assert mg.grad(mg.tanh(x := leaf(20.0)), x).item() == pytest.approx(1.6993417e-17, rel=1e-7)


@pytest.mark.parametrize("size", [1, 5, 5000, 1 << 19])
def test_the_flat_places_of_an_array_are_right_and_the_others_as_they_were(size):
    x = np.resize([0.5, -1.5, 20.0, -40.0, 2.0, nan, inf], size)
    a = leaf(x)
    mg.tanh(a).backward(np.ones(size))
    exact = [slope_of_tanh(v) if np.isfinite(v) else (0.0 if v == inf else nan) for v in x[:7]]
    np.testing.assert_allclose(a.grad.numpy(), np.resize(exact, size), rtol=3e-10)


def test_arrays_of_any_layout_have_their_own_flat_places():
    x = np.linspace(-30, 30, 60).reshape(3, 4, 5).transpose(2, 0, 1)[::-1]
    a = leaf(x)
    mg.tanh(a).backward(np.ones(x.shape))
    np.testing.assert_allclose(a.grad.numpy(), np.vectorize(slope_of_tanh)(x), rtol=3e-10)


@pytest.mark.parametrize("z", [20 + 1j, -20 + 1j, 0.3 - 2j, 5j])
def test_tanh_of_complex_numbers_has_its_slope_too(z):
    a = leaf([z])
    g = mg.grad(mg.tanh(a), a, np.ones(1, complex)).item()
    exact = complex(mpmath.sech(z) ** 2)
    assert abs(g.conjugate() - exact) < 1e-13 * abs(exact)


def test_curvature_of_tanh_far_out():
    x = leaf(20.0)
    g = mg.grad(mg.tanh(x), x, create_graph=True)
    assert mg.grad(g, x).item() == pytest.approx(-2 * slope_of_tanh(20), rel=1e-12)


def test_a_fused_tanh_has_the_same_slope():
    x = leaf(np.array([20.0, -9.0, 0.5]))
    mg.fuse(lambda a: mg.tanh(a) * 2.0)(x).backward(np.ones(3))
    np.testing.assert_allclose(
        x.grad.numpy(), [2 * slope_of_tanh(v) for v in x.data], rtol=1e-12
    )  # fmt: skip


# -- where the value overflows and the derivative does not -----------------------------------


@pytest.mark.parametrize(
    "dtype, x", [("f8", 1024.0), ("f8", 1024.5), ("f4", 128.25), ("f2", 16.0), ("f8", 3.0)]
)
def test_the_slope_of_exp2_is_finite_beyond_the_largest_value(dtype, x):
    exact = float(mpmath.mpf(2) ** x * mpmath.log(2))
    a = leaf([x], dtype)
    with np.errstate(over="ignore"):
        y = mg.exp2(a)
        plain = mg.grad(y, a, np.ones(1, dtype)).item()
        forward = jvp(mg.exp2, (a.detach(),), (mg.ones(1, dtype=dtype),))[1].item()
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose([plain, forward], exact, rtol=4 * eps)


# -- shares of a sum of exponentials ---------------------------------------------------------


@pytest.mark.parametrize("gap", [3.0, 12.0, 40.0, 300.0])
def test_softmax_of_two_has_the_slopes_of_sigmoid(gap):
    p = float(1 / (2 + 2 * mpmath.cosh(gap)))
    for found in rows_of_jacobian(mg.softmax, [gap, 0.0]):
        np.testing.assert_allclose(found, [[p, -p], [-p, p]], rtol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, (0, 2), -1])
def test_softmax_along_any_axes_is_right_where_one_share_is_nearly_all(axis):
    rng = np.random.default_rng(0)
    x, g = rng.uniform(-1, 1, (2, 3, 4)), rng.standard_normal((2, 3, 4))
    x[1, 2, 3] += 60
    a = leaf(x)
    mg.softmax(a, axis=axis).backward(g)
    with mpmath.workdps(60):
        e = np.vectorize(mpmath.exp, otypes=[object])(x)
        p = e / e.sum(axis, keepdims=True)
        exact = (p * (g - (p * g).sum(axis, keepdims=True))).astype(float)
    np.testing.assert_allclose(a.grad.numpy(), exact, rtol=1e-10)


@pytest.mark.parametrize("gap", [12.0, 40.0])
def test_log_softmax_has_the_slopes_of_logsigmoid(gap):
    p = float(mpmath.exp(-gap) / (1 + mpmath.exp(-gap)))
    for found in rows_of_jacobian(mg.log_softmax, [gap, 0.0]):
        np.testing.assert_allclose(found, [[p, -p], [p - 1, 1 - p]], rtol=1e-12)


@pytest.mark.parametrize("shape", [(2,), (5, 2), (3, 2, 4)])
def test_cross_entropy_of_what_is_nearly_sure_has_its_gradient(shape):
    classes = 0 if len(shape) == 1 else 1
    x = np.zeros(shape)
    np.moveaxis(x, classes, 0)[0] = 40
    target = np.zeros(shape[:classes] + shape[classes + 1 :], int)
    p = float(mpmath.exp(-40) / (1 + mpmath.exp(-40)))
    for smoothing in (0.0, 0.25):
        a = leaf(x)
        mg.cross_entropy(a, target, reduction="sum", label_smoothing=smoothing).backward()
        exact = p if not smoothing else p - smoothing / 2
        of_target, of_other = np.moveaxis(a.grad.numpy(), classes, 0)
        np.testing.assert_allclose(of_target, -exact, rtol=1e-12)
        np.testing.assert_allclose(of_other, exact, rtol=1e-12)


def test_second_derivatives_of_shares_have_digits_too():
    p = float(1 / (2 + 2 * mpmath.cosh(40)))
    for f in (lambda x: mg.softmax(x)[0], mg.logsumexp, lambda x: mg.cross_entropy(x, np.array(0))):
        x = leaf([40.0, 0.0])
        g = mg.grad(f(x), x, create_graph=True)
        second = mg.grad(g[0], x).numpy()
        np.testing.assert_allclose(np.abs(second), [p, p], rtol=1e-12)
        assert second.sum() == 0


@pytest.mark.parametrize(
    "f",
    [
        mg.logsumexp,
        lambda x: mg.logcumsumexp(x)[-1],
        lambda x: special.logsumexp(x, b=np.ones(x.shape)),
        lambda x: mg.logaddexp(mg.logaddexp(x[0], x[1]), x[2]),
    ],
    ids=["logsumexp", "logcumsumexp", "weighted", "logaddexp"],
)
def test_what_is_infinite_takes_all_of_a_sum_of_exponentials(f):
    for x, shares in (
        ([0.0, inf, 1.0], [0, 1, 0]),
        ([inf, -inf, 1.0], [1, 0, 0]),
        ([-inf, -inf, -inf], [0, 0, 0]),
        ([-inf, 2.0, -inf], [0, 1, 0]),
    ):
        assert rows_of_jacobian(f, x) == ([shares], [shares])


def test_infinite_terms_share_alike():
    halves = [0.5, 0.0, 0.5]
    assert rows_of_jacobian(mg.logsumexp, [inf, 0.0, inf])[0] == [halves]
    assert rows_of_jacobian(mg.logcumsumexp, [inf, 0.0, inf])[0][-1] == halves
    assert rows_of_jacobian(lambda x: mg.logaddexp(x[0], x[2]), [inf, 0.0, inf])[0] == [halves]
    assert rows_of_jacobian(lambda x: mg.logaddexp2(x[0], x[2]), [inf, 0.0, inf])[0] == [halves]
    assert mg.softmax(mg.tensor([inf, 0.0, inf])).tolist() == halves


def test_a_softmax_with_an_infinity_is_its_limit():
    assert mg.softmax(mg.tensor([0.0, inf])).tolist() == [0, 1]
    assert mg.log_softmax(mg.tensor([0.0, inf])).tolist() == [-inf, 0]
    zeros = [[0, 0], [0, 0]]
    assert rows_of_jacobian(mg.softmax, [0.0, inf]) == (zeros, zeros)


@pytest.mark.parametrize("target, loss, gradient", [(0, inf, [-1, 1]), (1, 0, [0, 0])])
def test_cross_entropy_with_an_infinite_logit_is_its_limit(target, loss, gradient):
    x = leaf([[0.0, inf]])
    y = mg.cross_entropy(x, np.array([target]))
    y.backward()
    assert y.item() == loss and x.grad.tolist() == [gradient]
