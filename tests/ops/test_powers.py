"""What powers owe where the base is 0, and near the largest number; the same in every mode."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import special
from minigrad.func import grad, jvp

inf = np.inf
# b: 0ᵇ, ∂/∂a = lim b aᵇ⁻¹, ∂/∂b = lim aᵇ log a for a → 0 from above, but 0 for b = 0
AT_ZERO = {
    -2.0: (inf, -inf, -inf),
    -1.0: (inf, -inf, -inf),
    -0.5: (inf, -inf, -inf),
    0.0: (1, 0, 0),
    0.1: (0, inf, 0),
    0.5: (0, inf, 0),
    1.0: (0, 1, 0),
    1.5: (0, 0, 0),
    3.0: (0, 0, 0),
}
# b: the limits of ∂²/∂a², ∂²/∂a∂b and ∂²/∂b²
SECOND = {
    -1.0: (inf, inf, inf),
    0.0: (0, inf, 0),
    0.5: (-inf, -inf, 0),
    1.0: (0, -inf, 0),
    1.5: (inf, 0, 0),
    2.0: (2, 0, 0),
    3.0: (0, 0, 0),
}
POWERS = {
    "pow": mg.pow,
    "operator": lambda a, b: a**b,
    "float_power": mg.float_power,
    "powm1": lambda a, b: special.powm1(a, b) + 1,
}
pytestmark = [
    pytest.mark.promise("powers at 0 have the same values and derivatives in every mode"),
    pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning"),
]


def leaf(x, dtype=None):
    return mg.tensor(np.asarray(x, dtype), requires_grad=True)


def derivatives(f, x):
    """f′ at a number by reverse mode, recorded for another derivative, and by forward mode."""
    x = leaf(x)
    plain = mg.grad(f(x), x).item()
    recorded = mg.grad(f(x), x, create_graph=True).item()
    return plain, recorded, jvp(f, (x.detach(),), (mg.tensor(1.0),))[1].item()


@pytest.mark.parametrize("name", POWERS)
@pytest.mark.parametrize("b", AT_ZERO)
def test_a_power_of_zero_has_its_limits_as_derivatives_in_every_mode(name, b):
    y, by_a, by_b = AT_ZERO[b]
    power = POWERS[name]
    assert power(mg.tensor(0.0), mg.tensor(b)).item() == y
    assert derivatives(lambda a: power(a, mg.tensor(b)), 0.0) == (by_a,) * 3
    assert derivatives(lambda e: power(mg.tensor(0.0), e), b) == (by_b,) * 3


@pytest.mark.parametrize("b", AT_ZERO)
def test_a_number_as_base_or_exponent_changes_no_derivative(b):
    _, by_a, by_b = AT_ZERO[b]
    assert derivatives(lambda a: a**b, 0.0) == (by_a,) * 3
    assert derivatives(lambda e: 0.0**e, b) == (by_b,) * 3
    assert derivatives(lambda e: 0**e, b) == (by_b,) * 3


def test_a_power_written_in_place_has_the_same_derivative():
    a, e = mg.zeros(2), leaf([-1.0, 2.0])
    a **= e
    a.backward(np.ones(2))
    assert e.grad.tolist() == [-inf, 0]


@pytest.mark.parametrize("b", [-2.0, -1.0, -0.5])
def test_negative_zero_is_a_base_like_zero_for_the_exponent(b):
    assert derivatives(lambda e: mg.tensor(-0.0) ** e, b) == (-inf,) * 3


@pytest.mark.parametrize("b", SECOND)
def test_second_derivatives_at_zero_are_limits_and_those_in_both_are_equal(b):
    def second(first, then):
        a, e = leaf(0.0), leaf(b)
        g = mg.grad(a**e, [a, e], create_graph=True)[first]
        return mg.grad(g, [a, e])[then].item()

    by_aa, by_ab, by_bb = SECOND[b]
    assert second(0, 0) == by_aa
    assert second(0, 1) == by_ab == second(1, 0)
    assert second(1, 1) == by_bb


@pytest.mark.parametrize("b", SECOND)
def test_forward_over_reverse_is_reverse_over_reverse_at_zero(b):
    def by_b(e):
        return grad(lambda v: mg.tensor(0.0) ** v)(e)

    assert derivatives(by_b, b) == (SECOND[b][2],) * 3


def test_a_complex_power_that_is_none_has_no_derivative_either():
    a, b = leaf(np.zeros(3, complex)), leaf([-1 + 0j, 1j, 2 + 1j])
    with np.errstate(all="ignore"):
        y = a**b
        by_b = mg.grad(y, b, np.ones(3, complex)).numpy()
    assert np.isnan(y.numpy()).tolist() == np.isnan(by_b).tolist() == [True, True, False]
    assert by_b[2] == 0


def test_whole_numbers_are_bases_too():
    b = leaf([2.0, 0.0, -1.0])
    (mg.tensor(np.zeros(3, np.int32)) ** b).backward(np.ones(3))
    assert b.grad.tolist() == [0, 0, -inf]


@pytest.mark.parametrize(
    "dtype, base, exponent",
    [("f8", 2, 1024), ("f4", 2, 128.2), ("f2", 1.5, 27.5), ("f8", 1.5, 1751)],
)
def test_the_derivative_in_the_exponent_is_finite_beyond_the_largest_power(dtype, base, exponent):
    import mpmath

    a, b = leaf([base], dtype), leaf([exponent], dtype)
    x, e = mpmath.mpf(a.data.item()), mpmath.mpf(b.data.item())
    exact = x**e * mpmath.log(x)
    with np.errstate(over="ignore"):
        y = a**b
        plain, recorded = mg.grad(y, b, np.ones(1, dtype)), mg.grad(
            a**b, b, np.ones(1, dtype), create_graph=True
        )  # fmt: skip
    assert y.item() == inf
    eps = float(np.finfo(dtype).eps)
    for found in plain, recorded:
        assert abs(found.item() / float(exact) - 1) < 4 * eps * float(e)


@pytest.mark.parametrize("as_array", [False, True])
def test_the_derivative_in_the_base_is_finite_beyond_the_largest_power(as_array):
    x = leaf([1e-6], np.float16)
    b = mg.tensor(np.array([0.01], np.float16)) if as_array else 0.01
    with np.errstate(over="ignore"):
        found = mg.grad(x**b, x, np.ones(1, np.float16)).item()
    exact = 0.01 * x.data.item() ** -0.99
    assert 1 / x.data.item() > np.finfo(np.float16).max and abs(found / exact - 1) < 0.02


# (a, b): 0 · ∞ on the way to a derivative of a power that is 0
FAR = [(inf, -1.0), (inf, -inf), (2.0, -inf), (0.5, inf), (0.0, inf), (1e200, -inf)]


@pytest.mark.parametrize("name", ["pow", "operator", "float_power"])
@pytest.mark.parametrize("a, b", FAR)
def test_a_power_that_infinity_makes_0_is_flat_in_every_mode(name, a, b):
    power = POWERS[name]
    assert power(mg.tensor(a), mg.tensor(b)).item() == 0
    assert derivatives(lambda x: power(x, mg.tensor(b)), a) == (0,) * 3
    assert derivatives(lambda e: power(mg.tensor(a), e), b) == (0,) * 3
    assert derivatives(lambda x: x**b, a) == (0,) * 3


@pytest.mark.parametrize("b", [-1.0, inf, 2.0])
def test_a_cut_array_has_the_same_derivatives_where_one_element_is_infinite(b):
    a, e = np.array([0.5, inf, 1e-300, 0.0, 2.0]), np.full(5, b)

    def both(a, e):
        a, e = leaf(a), leaf(e)
        with np.errstate(all="ignore"):
            return [g.numpy() for g in mg.grad(a**e, [a, e], -np.ones(len(a.data)))]

    whole, single = both(a, e), [both(a[i : i + 1], e[i : i + 1]) for i in range(5)]
    for k in 0, 1:
        assert whole[k].tobytes() == np.concatenate([g[k] for g in single]).tobytes()
