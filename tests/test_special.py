"""mg.special, and SciPy's ufuncs on tensors."""

import numpy as np
import pytest

import minigrad as mg

special = pytest.importorskip("scipy.special", reason="SciPy is not installed")


def test_a_ufunc_of_scipy_special_is_recorded_on_a_tensor():
    for name in ("erf", "expit", "gammaln", "psi", "ndtr", "i0e", "log_ndtr", "entr", "j1"):
        x = mg.tensor([0.3, 0.7], requires_grad=True)
        y = getattr(special, name)(x)
        np.testing.assert_allclose(y.detach().numpy(), getattr(special, name)(x.detach().numpy()))
        y.sum().backward()
        h = 1e-6
        slope = getattr(special, name)([0.3 + h, 0.7 + h]) - getattr(special, name)(
            [0.3 - h, 0.7 - h]
        )
        np.testing.assert_allclose(x.grad.numpy(), slope / (2 * h), rtol=1e-6)


def test_a_ufunc_of_two_arrays_takes_a_tensor_and_an_array():
    a = mg.tensor([0.5, 2.0], requires_grad=True)
    special.betaln(a, np.array([1.0, 3.0])).sum().backward()
    expected = special.psi([0.5, 2.0]) - special.psi([1.5, 5.0])
    np.testing.assert_allclose(a.grad.numpy(), expected)


def test_a_ufunc_that_is_not_scipys_own_is_not_taken_for_it_by_its_name():
    named_erf = np.frompyfunc(lambda x: x, 1, 1)
    with pytest.raises(TypeError, match="no derivative rule"):
        named_erf(mg.tensor([1.0]))


def test_every_name_of_mg_special_is_scipys():
    aliases = {"exp2", "expm1", "log1p", "sinc", "softmax", "log_softmax", "logsumexp"}
    for name in mg.special.__all__:
        assert name in aliases or hasattr(special, name), name


def test_an_order_or_a_shape_parameter_without_a_rule_says_so():
    a = mg.tensor([1.5], requires_grad=True)
    with pytest.raises(TypeError, match="order v must be a number"):
        mg.special.jv(a, mg.tensor([1.0]))
    with pytest.raises(mg.errors.RuleError, match="gammainc has no derivative rule .* 'a'"):
        mg.special.gammainc(a, 2.0).sum().backward()


def test_bessel_functions_have_every_derivative_at_zero():
    x = mg.tensor(0.0, requires_grad=True)
    (first,) = mg.grad(mg.special.j1(x), [x], create_graph=True)
    (second,) = mg.grad(first, [x], create_graph=True)
    (third,) = mg.grad(second, [x])
    np.testing.assert_allclose([first.item(), second.item(), third.item()], [0.5, 0.0, -0.375])


def test_i0_is_the_answer_of_numpys_i0():
    x = mg.tensor([0.0, 1.0], requires_grad=True)
    np.i0(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), special.i1([0.0, 1.0]))
