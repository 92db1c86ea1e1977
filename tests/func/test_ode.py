"""odeint: solutions that are known, derivatives in state, times and arguments, clear failures."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import ConvergenceError, TransformError
from minigrad.func import grad, odeint, vmap
from minigrad.testing import gradcheck

pytestmark = pytest.mark.promise(
    "densities are SciPy's; an equation's solution is differentiable in all it depends on"
)

T = np.array([0.0, 0.5, 1.2])


def test_a_linear_equation_has_its_exponential():
    a = np.array([[-0.3, 1.0], [-1.0, -0.2]])
    y0 = np.array([1.0, 2.0])
    y = odeint(lambda y, t: mg.matmul(a, y), y0, T, rtol=1e-11, atol=1e-11)
    expected = np.stack([mg.linalg.expm(a * t) @ y0 for t in T])
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-7)


def test_values_are_scipys_for_an_equation_that_depends_on_time():
    scipy_integrate = pytest.importorskip("scipy.integrate", reason="SciPy is not installed")

    def f(y, t, a):
        return np.array([y[1], -a * np.sin(y[0]) + np.cos(t)])

    expected = scipy_integrate.odeint(f, [0.3, 0.0], T, args=(2.0,))
    y = odeint(
        lambda y, t, a: mg.stack([y[1], -a * mg.sin(y[0]) + mg.cos(t)]), mg.tensor([0.3, 0]), T, 2
    )
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


def test_derivatives_in_the_first_state_the_times_and_the_arguments():
    def solution(y0, t, a):
        return odeint(lambda y, t, a: -a * y**2 + mg.sin(t), y0, t, a, rtol=1e-10, atol=1e-10)

    assert gradcheck(solution, (np.array([0.5, 1.0]), T, np.array(0.7)))


def test_the_second_derivative_of_an_exponential_is_itself():
    f = grad(grad(lambda a: odeint(lambda y, t: a * y, 1.0, [0.0, 1.0])[-1]))
    assert np.isclose(float(f(0.8)), np.exp(0.8), rtol=1e-6)


def test_a_state_may_be_a_tree_and_times_may_fall():
    y = odeint(lambda y, t: {"x": y["v"], "v": -y["x"]}, {"x": 0.0, "v": 1.0}, [2.0, 1.0, 0.0])
    np.testing.assert_allclose(y["x"].numpy(), np.sin([0.0, -1.0, -2.0]), atol=1e-7)
    np.testing.assert_allclose(y["v"].numpy(), np.cos([0.0, -1.0, -2.0]), atol=1e-7)


def test_it_maps_over_first_states():
    y0 = mg.tensor([0.5, 1.0, 2.0])
    mapped = vmap(lambda y: odeint(lambda y, t: -y * y, y, T))(y0)
    np.testing.assert_allclose(mapped.numpy(), 1 / (1 / y0.numpy()[:, None] + T), rtol=1e-6)


def test_a_solution_that_runs_to_infinity_and_bad_times_are_errors():
    with pytest.raises(ConvergenceError, match="too short .* of the way|steps have led"):
        odeint(lambda y, t: y**2, 1.0, [0.0, 2.0], max_steps=500)
    with pytest.raises(TransformError, match=r"t must be real times \(n,\)"):
        odeint(lambda y, t: y, 1.0, 2.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_states_are_computed_with_in_float32_and_come_back_in_16_bits(dtype):
    y0 = mg.ones(2, dtype=dtype, requires_grad=True)
    y = odeint(lambda y, t: -y, y0, mg.tensor([0.0, 1.0], dtype=dtype))
    assert str(y.dtype) == dtype
    y[1].sum().backward()
    wide = np.float32([np.exp(-1)] * 2)
    for found in (y.detach()[1], y0.grad):
        np.testing.assert_array_equal(found.numpy(), wide.astype(y.dtype))


@pytest.mark.parametrize("wrong", [mg.ones(3), mg.ones(2, 2), 1.0])
def test_a_slope_of_another_shape_is_an_error_that_says_both(wrong):
    with pytest.raises(TransformError, match=r"dy/dt, of the shape of y; y is float64 \(2,\), and"):
        odeint(lambda y, t: wrong, mg.ones(2), T)


def test_a_complex_slope_of_a_real_state_and_complex_times_are_errors():
    with pytest.raises(TransformError, match="returned complex128 .* for a real y, which has no"):
        odeint(lambda y, t: 1j * y, mg.tensor(1.0), T)
    with pytest.raises(TransformError, match="t must be real times"):
        odeint(lambda y, t: -y, mg.tensor(1.0), T * 1j)
    y = odeint(lambda y, t: 1j * y, mg.tensor(1 + 0j), T)
    np.testing.assert_allclose(y.numpy(), np.exp(1j * T), rtol=1e-7)
