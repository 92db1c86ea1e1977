"""Complex numbers: the gradient of a real loss is 2 ∂L/∂z̄, as PyTorch has it."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.engine.registry import op
from minigrad.func import jvp

Z = np.array([0.6 + 0.3j, -0.4 + 0.7j, 0.2 - 0.8j])
HOLOMORPHIC = [
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cos", "cosh", "exp", "expm1",
    "log", "log10", "log1p", "reciprocal", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh",
]  # fmt: skip


def leaf(x):
    return mg.tensor(x, requires_grad=True)


def gradient_by_differences(f, z, h=1e-6):
    """∂L/∂Re z + i ∂L/∂Im z of a real function of each element."""
    by_real = (f(z + h) - f(z - h)) / (2 * h)
    by_imag = (f(z + 1j * h) - f(z - 1j * h)) / (2 * h)
    return by_real + 1j * by_imag


@pytest.mark.parametrize("name", HOLOMORPHIC)
@pytest.mark.parametrize("part", [np.real, np.imag, np.abs])
def test_the_gradient_of_a_real_part_of_a_holomorphic_function_is_both_real_derivatives(name, part):
    z = leaf(Z)
    g = mg.grad(part(getattr(op, name)(z)), z, np.ones(3))
    expected = gradient_by_differences(lambda z: part(getattr(op, name)(z)), Z)
    np.testing.assert_allclose(g.numpy(), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ["mul", "div", "pow", "sub", "xlogy"])
def test_both_arguments_of_a_binary_op_get_their_conjugate_gradient(name):
    a, b = leaf(Z), leaf(Z[::-1] + 1)
    for i, x in enumerate((a, b)):
        g = mg.grad(np.imag(getattr(op, name)(a, b)), x, np.ones(3))

        def loss(z, i=i):
            return np.imag(getattr(op, name)(*((z, b.data), (a.data, z))[i]))

        np.testing.assert_allclose(
            g.numpy(), gradient_by_differences(loss, x.data), rtol=1e-7, atol=1e-8
        )


@pytest.mark.parametrize("f", [np.abs, np.angle, np.real, np.imag, np.conj, np.sign])
def test_functions_that_are_not_holomorphic_have_rules_of_their_own(f):
    z = leaf(Z)
    g = mg.grad(np.real(f(z) * (0.3 + 0.4j)), z, np.ones(3))
    expected = gradient_by_differences(lambda z: np.real(f(z) * (0.3 + 0.4j)), Z)
    np.testing.assert_allclose(g.numpy(), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("f", [np.abs, np.angle, np.real, np.imag, np.conj, np.sign])
def test_their_forward_mode_agrees_with_differences(f):
    t = np.array([0.3 - 1j, 1 + 0.2j, -0.5 + 0.5j])
    y, ty = mg.func.jvp(f, (mg.tensor(Z),), (mg.tensor(t),))
    h = 1e-6
    np.testing.assert_allclose(y.numpy(), f(Z))
    np.testing.assert_allclose(ty.numpy(), (f(Z + h * t) - f(Z - h * t)) / (2 * h), atol=1e-8)


@pytest.mark.parametrize("f", [np.abs, np.angle, np.real, np.imag, np.conj, np.sign, np.exp])
@pytest.mark.filterwarnings("error")
def test_vmap_runs_them_once_for_the_whole_batch(f):
    np.testing.assert_array_equal(mg.func.vmap(f)(mg.tensor(Z)).numpy(), f(Z))


def test_abs_and_angle_have_gradient_zero_at_zero():
    for f in (np.abs, np.angle):
        z = leaf(np.array(0j))
        assert mg.grad(f(z), z).item() == 0


def test_a_real_leaf_gets_the_real_part_of_its_gradient():
    x, z = leaf(np.array([1.0, 2.0])), np.array([1 + 2j, 3 - 1j])
    g = mg.grad(np.real(x * z), x, np.ones(2))
    assert g.dtype == np.float64
    assert g.tolist() == [1, 3]


def test_the_angle_is_in_degrees_when_asked():
    z = leaf(np.array([1j, 1 + 1j]))
    y = np.angle(z, deg=True)
    np.testing.assert_allclose(y.numpy(), [90, 45])
    np.testing.assert_allclose(
        mg.grad(y, z, np.ones(2)).numpy(), np.degrees(1) * 1j * Z_over_square(z.data)
    )


def Z_over_square(z):
    return z / np.abs(z) ** 2


@pytest.mark.parametrize("name", [n for n in HOLOMORPHIC if n not in ("sinc", "arccosh")])
def test_gradients_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    names = {"arccos": "acos", "arcsin": "asin", "arctan": "atan", "arcsinh": "asinh",
             "arctanh": "atanh"}  # fmt: skip
    function = getattr(torch, names.get(name, name))
    t = torch.tensor(Z, requires_grad=True)
    (function(t) * (0.3 + 0.4j)).abs().sum().backward()
    z = leaf(Z)
    g = mg.grad(np.abs(getattr(op, name)(z) * (0.3 + 0.4j)), z, np.ones(3))
    np.testing.assert_allclose(g.numpy(), t.grad.numpy(), rtol=1e-12, atol=1e-14)


NOT_HOLOMORPHIC_IN_FORM = (
    "sigmoid",
    "softplus",
    "logsigmoid",
    "softmax",
    "log_softmax",
    "logsumexp",
)


@pytest.mark.parametrize("name", NOT_HOLOMORPHIC_IN_FORM)
def test_functions_written_with_absolute_values_or_maxima_are_right_for_complex_numbers(name):
    z, c = Z * 1.5, np.array([0.3 - 0.2j, 1.0 + 0.5j, -0.7j])

    def loss(z):
        return np.abs(getattr(op, name)(z) * c + 0.2).sum()

    t, h = leaf(z), 1e-6
    steps = [h * row for row in np.eye(3)]
    by_real = [(loss(z + e) - loss(z - e)) / (2 * h) for e in steps]
    by_imag = [(loss(z + 1j * e) - loss(z - 1j * e)) / (2 * h) for e in steps]
    expected = np.array(by_real) + 1j * np.array(by_imag)
    np.testing.assert_allclose(mg.grad(loss(t), t).numpy(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.layer("courtesy")
def test_softsign_refuses_complex_numbers_of_which_it_has_no_derivative():
    with pytest.raises(TypeError, match="softsign.*must be real"):
        mg.softsign(leaf(Z))


@pytest.mark.parametrize("side", [0.0, -0.0], ids=["above", "below"])
@pytest.mark.parametrize(
    "name, along",
    [("arcsin", 1), ("arccos", 1), ("arccosh", 1), ("arcsinh", 1j)],
    ids=["arcsin", "arccos", "arccosh", "arcsinh"],
)
def test_on_a_branch_cut_the_derivatives_are_those_of_the_side_that_the_zeros_sign_names(
    name, along, side
):
    x = np.array([2.0, 3.0, -2.0, -3.0])
    f = getattr(op, name)

    def at(x):
        z = np.zeros(x.shape, complex)
        on_axis, zero = (z.real, z.imag) if along == 1 else (z.imag, z.real)
        on_axis[:], zero[:] = x, side
        return z

    def value(x):
        return f(leaf(at(x))).numpy()

    def slope(z):
        return jvp(f, (z,), (np.full(4, along + 0j),))[1]

    first = slope(at(x)).numpy()
    second = jvp(slope, (at(x),), (np.full(4, along + 0j),))[1].numpy()
    h = 1e-4
    by_h = (value(x + h) - value(x - h)) / (2 * h)
    by_h_twice = (value(x + h) - 2 * value(x) + value(x - h)) / (h * h)
    np.testing.assert_allclose(first, by_h, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(second, by_h_twice, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("base", [-2.0, np.array(-2.0), np.array(-2 + 0j)], ids=repr)
def test_a_negative_base_with_a_complex_exponent_has_the_gradient_of_exp(base):
    z = leaf(Z)
    by_power = mg.grad(np.real(base**z), z, np.ones(3), create_graph=True)
    by_exp = mg.grad(np.real(np.exp(z * np.log(-2 + 0j))), z, np.ones(3), create_graph=True)
    np.testing.assert_allclose(by_power.numpy(), by_exp.numpy(), rtol=1e-13)
    second = [mg.grad(np.real(g), z, np.ones(3)).numpy() for g in (by_power, by_exp)]
    np.testing.assert_allclose(*second, rtol=1e-13)


def test_the_conjugate_of_truths_is_numpys_of_the_method_and_of_the_function():
    truths = np.array([True, False])
    x = mg.tensor(truths)
    assert x.conj().dtype == truths.conj().dtype == bool
    assert np.conjugate(x).dtype == np.conjugate(truths).dtype == np.int8
