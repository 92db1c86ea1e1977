"""Linear algebra at hard points: singular matrices, equal values, free bases."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

import minigrad as mg
from minigrad.ops.linalg.det import det_shifts

rng = np.random.default_rng(5)


def leaf(values):
    return mg.tensor(values, requires_grad=True)


def unitary(n, complex_too=False):
    x = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if complex_too else 0)
    return np.linalg.qr(x)[0]


def with_singular_values(*s, complex_too=False):
    u, v = unitary(len(s), complex_too), unitary(len(s), complex_too)
    return (u * np.array(s)) @ v


def cofactors(x):
    """By minors, which need no division."""
    n = len(x)
    rest = lambda i: [k for k in range(n) if k != i]
    minor = lambda i, j: np.linalg.det(x[np.ix_(rest(i), rest(j))])
    return np.array([[(-1) ** (i + j) * minor(i, j) for j in range(n)] for i in range(n)])


# -- the determinant ---------------------------------------------------------------------------


@pytest.mark.parametrize("complex_too", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize(
    "s", [(2, 1, 0), (3, 0, 0), (0, 0, 0), (1, 1e-9, 0), (2, 1, 1e-14), (5, 4, 3, 0), (1e8, 1, 0)]
)
def test_gradient_of_det_is_the_cofactors_at_a_singular_matrix(s, complex_too):
    x = leaf(with_singular_values(*s, complex_too=complex_too))
    g = mg.grad(mg.linalg.det(x), x, np.asarray(1.0)).numpy()
    # what a change of x in its last digit does to the product of all s but the last
    rounding = 2e-16 * s[0] * np.prod(s[: len(s) - 2]) + 1e-16
    np.testing.assert_allclose(g, cofactors(x.data).conj(), rtol=0, atol=100 * rounding)


@pytest.mark.parametrize("s", [(2, 1, 0), (3, 0, 0), (0, 0, 0)])
def test_second_derivative_of_det_is_exact_at_a_singular_matrix(s):
    """det(x + a + b) is a polynomial: its part linear in a and in b is a sum over permutations."""
    x, a, b = leaf(with_singular_values(*s)), rng.standard_normal((3, 3)), unitary(3)
    g = mg.grad(mg.linalg.det(x), x, create_graph=True)
    second = mg.grad((g * a).sum(), x)
    found, expected = (second * b).sum().item(), mixed(x.data, a, b)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


def mixed(x, a, b):
    """The derivative of det at x along a and b: of three rows one from each, in every order."""
    rows = [[[Fraction(v) for v in row] for row in m.tolist()] for m in (x, a, b)]
    orders = permutations(range(3))
    return float(sum(exact_det([rows[k][i] for i, k in enumerate(order)]) for order in orders))


def exact_det(rows):
    """Of three rows, in fractions: a · (b × c)."""
    a, b, c = rows
    return sum(a[i] * (b[i - 2] * c[i - 1] - b[i - 1] * c[i - 2]) for i in range(3))


def test_second_derivative_of_det_keeps_its_digits_near_a_singular_matrix():
    """At condition 1e10 the derivative of det(x) x⁻ᵀ has six digits left."""
    x, a, b = leaf(with_singular_values(2, 1, 1e-10)), unitary(3), unitary(3)
    g = mg.grad(mg.linalg.det(x), x, create_graph=True)
    found = (mg.grad((g * a).sum(), x) * b).sum().item()
    np.testing.assert_allclose(found, mixed(x.data, a, b), rtol=0, atol=1e-13)


def test_third_derivative_of_det_at_zero_is_the_permutation_symbol():
    x = leaf(np.zeros((3, 3)))
    a, b = rng.standard_normal((2, 3, 3))
    g = mg.grad(mg.linalg.det(x), x, create_graph=True)
    h = mg.grad((g * a).sum(), x, create_graph=True)
    third = mg.grad((h * b).sum(), x).numpy()
    along = rng.standard_normal((3, 3))
    np.testing.assert_allclose((third * along).sum(), mixed(along, a, b), rtol=1e-10)


def test_a_stack_may_mix_singular_and_regular_matrices():
    stack = np.stack([with_singular_values(*s) for s in [(3, 2, 1), (1, 1, 0), (1, 0, 0)]])
    x = leaf(stack)
    g = mg.grad(mg.linalg.det(x).sum(), x).numpy()
    np.testing.assert_allclose(g, np.stack([cofactors(y) for y in stack]), atol=1e-12)


def test_far_from_singular_no_shift_is_made():
    assert det_shifts(with_singular_values(3.0, 2.0, 0.1)).shape == (0, 3, 3)
    assert det_shifts(with_singular_values(3.0, 2.0, 0.0)).shape == (2, 3, 3)


def test_the_gradient_of_det_in_float32_stays_float32():
    x = mg.tensor(np.ones((2, 2)), dtype=mg.float32, requires_grad=True)
    g = mg.grad(mg.linalg.det(x), x)
    assert g.dtype == np.float32
    np.testing.assert_allclose(g.numpy(), [[1, -1], [-1, 1]], rtol=1e-6)


def test_slogdet_of_a_singular_matrix_has_no_derivative():
    x = leaf([[1.0, 2.0], [2.0, 4.0]])
    sign, log = mg.linalg.slogdet(x)
    assert (sign.item(), log.item()) == (0.0, -np.inf)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        log.backward()


# -- equal values ------------------------------------------------------------------------------


def projector_on(columns):
    return columns @ columns.conj().mT


def slopes(f, x, t, h=1e-5):
    return (f(x + h * t) - f(x - h * t)) / (2 * h)


@pytest.mark.parametrize("complex_too", [False, True], ids=["real", "complex"])
def test_the_projector_on_the_space_of_equal_eigenvalues_has_its_derivative(complex_too):
    v = unitary(4, complex_too)
    x = (v * np.array([1.0, 1.0, 3.0, 4.0])) @ v.conj().T
    c, t = unitary(4, complex_too), unitary(4, complex_too)
    t = t + t.conj().T
    f = lambda la, x: (projector_on(la.eigh(x).eigenvectors[:, :2]) * c).real.sum()
    a = leaf(x)
    g = mg.grad(f(mg.linalg, a), a).numpy()
    np.testing.assert_allclose((g.conj() * t).real.sum(), slopes(lambda x: f(np.linalg, x), x, t))


def test_the_projector_on_the_space_of_equal_singular_values_has_its_derivative():
    x, c, t = with_singular_values(3, 1, 1), unitary(3), unitary(3)
    f = lambda la, x: (projector_on(la.svd(x).U[:, 1:]) * c).sum()
    a = leaf(x)
    g = mg.grad(f(mg.linalg, a), a).numpy()
    np.testing.assert_allclose((g * t).sum(), slopes(lambda x: f(np.linalg, x), x, t), rtol=1e-7)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_symmetric_functions_of_equal_eigenvalues_have_their_gradient(power):
    v = unitary(3)
    x = leaf((v * np.array([2.0, 2.0, 2.0])) @ v.T)
    g = mg.grad((mg.linalg.eigvalsh(x) ** power).sum(), x).numpy()  # d tr xᵖ = p xᵖ⁻¹
    np.testing.assert_allclose(g, power * 2.0 ** (power - 1) * np.eye(3), atol=1e-13)


def test_symmetric_functions_of_equal_singular_values_have_their_gradient():
    x = leaf(with_singular_values(2, 2, 1))
    g = mg.grad((mg.linalg.svdvals(x) ** 2).sum(), x).numpy()
    np.testing.assert_allclose(g, 2 * x.data, atol=1e-13)


@pytest.mark.parametrize("x", [np.eye(3), np.zeros((3, 3)), np.ones((3, 3))])
@pytest.mark.parametrize("name", ["eigh", "svd"])
def test_no_derivative_of_factors_is_infinite_at_equal_values(name, x):
    x = leaf(x)
    first, *others = getattr(mg.linalg, name)(x)
    y = (first * np.arange(first.size).reshape(first.shape)).sum()
    y = y + sum((other * other * other).sum() for other in others)
    g = mg.grad(y, x, create_graph=True)
    assert np.isfinite(g.detach().numpy()).all()
    assert np.isfinite(mg.grad((g * g).sum(), x).numpy()).all()


def test_the_nuclear_norm_has_its_least_subgradient_at_deficient_rank():
    u, v = unitary(3), unitary(3)
    x = leaf(3 * np.outer(u[0], v[0]))
    g = mg.grad(mg.linalg.matrix_norm(x, ord="nuc"), x).numpy()
    np.testing.assert_allclose(g, np.outer(u[0], v[0]), atol=1e-14)


# -- free bases --------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", ["qr", "svd"])
def test_the_complement_follows_the_space(factor):
    """With full bases, the projector on the complement is 1 minus that on the space."""
    x, c = leaf(rng.standard_normal((5, 2))), rng.standard_normal((5, 5))
    q = mg.linalg.qr(x, "complete").Q if factor == "qr" else mg.linalg.svd(x).U
    complement = mg.grad((projector_on(q[:, 2:]) * c).sum(), x, retain_graph=True).numpy()
    space = mg.grad((projector_on(q[:, :2]) * c).sum(), x).numpy()
    np.testing.assert_allclose(complement, -space, atol=1e-13)


def test_qr_of_dependent_columns_has_no_derivative():
    x = leaf(np.ones((3, 2)))
    r = mg.linalg.qr(x).R
    r.data[1, 1] = 0  # LAPACK leaves rounding there
    with pytest.raises(np.linalg.LinAlgError, match="(?i)singular"):
        r.sum().backward()


def test_eig_of_a_matrix_without_a_basis_of_eigenvectors_has_no_derivative():
    x = leaf([[1.0, 1.0], [0.0, 1.0]])
    v = mg.linalg.eig(x)
    v.eigenvectors.data[:, 1] = v.eigenvectors.data[:, 0]
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        v.eigenvalues.real.sum().backward()  # NumPy 2.5 gives complex ones


@pytest.mark.parametrize("dtype, most", [(np.float64, 1e-12), (np.float32, 1e-5)])
@pytest.mark.parametrize("size", [2.0**-40, 1.0, 2.0**16, 2.0**100])
def test_the_gradient_of_matrix_exp_has_the_same_digits_for_cotangents_of_any_size(
    size, dtype, most
):
    linalg, rng = pytest.importorskip("scipy.linalg"), np.random.default_rng(0)
    for _ in range(5):
        a, g = rng.standard_normal((3, 3)).astype(dtype), rng.standard_normal((3, 3)).astype(dtype)
        x = mg.tensor(a, requires_grad=True)
        gx = mg.grad(mg.linalg.matrix_exp(x), x, g * dtype(size)).numpy() / dtype(size)
        exact = linalg.expm_frechet(a.T.astype(float), g.astype(float), compute_expm=False)
        np.testing.assert_allclose(gx, exact, rtol=0, atol=most * np.abs(exact).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_singular_vectors_of_a_singular_hermitian_matrix_are_of_length_1(rank, dtype):
    z = np.linalg.qr(rng.standard_normal((3, 3)).astype(dtype))[0]
    x = (z[:, :rank] * np.array([2.0, -1.0], z.real.dtype)[:rank]) @ z[:, :rank].conj().T
    for a in (x, np.diag(np.array([1, -2, 0][:rank] + [0] * (3 - rank), dtype))):
        u, s, vh = np.linalg.svd(mg.tensor(a), hermitian=True)
        assert vh.dtype == dtype
        eps = 50 * np.finfo(dtype).eps
        for v in (u.numpy(), vh.numpy().conj().T):
            np.testing.assert_allclose(v.conj().T @ v, np.eye(3), atol=eps)
        np.testing.assert_allclose((u * s) @ vh, a, atol=eps)


def test_numpys_linalg_outer_takes_vectors_alone():
    v = mg.tensor([1.0, 2.0])
    assert np.linalg.outer(v, v).tolist() == [[1, 2], [2, 4]]
    with pytest.raises(ValueError, match=r"np.linalg.outer: needs two vectors, got .*\(2, 1\)"):
        np.linalg.outer(v[:, None], v)
    assert np.outer(v[:, None], v).tolist() == [[1, 2], [2, 4]]


@pytest.mark.parametrize("dtype", [float, complex])
def test_the_pseudoinverse_of_a_hermitian_matrix_reads_its_lower_triangle_alone(dtype):
    v = unitary(3, complex_too=dtype is complex)
    x = (v * [1.0, -2.0, 0.0]) @ v.conj().T
    other = x + np.triu(rng.standard_normal((3, 3)), 1)
    g = rng.standard_normal((3, 3))
    first, second = [], []
    for values in (x, other):
        a = leaf(values)
        y = mg.linalg.pinv(a, rcond=1e-10, hermitian=True)
        first.append(mg.grad(y, a, g.astype(dtype), create_graph=True))
        second.append(mg.grad(mg.abs(first[-1]).sum(), a).numpy())
    np.testing.assert_allclose(first[1].numpy(), first[0].numpy(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(second[1], second[0], rtol=1e-8, atol=1e-8)
    for found in (first[1].numpy(), second[1]):
        np.testing.assert_allclose(found, found.conj().T, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("p", [1, -1, np.inf, -np.inf, "fro"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
def test_the_condition_of_a_singular_matrix_is_infinite_and_that_of_its_neighbour_as_ever(p, dtype):
    singular, regular = np.array([[1, 2], [2, 4]], dtype), np.array([[2, 1], [0, 3]], dtype)
    for x in (singular, 0 * singular, np.stack([singular, regular])):
        expected = np.linalg.cond(x, p)
        y = mg.linalg.cond(mg.tensor(x), p)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
        assert y.dtype == expected.dtype
    alone, both = mg.tensor(regular, requires_grad=True), mg.tensor(x, requires_grad=True)
    with np.errstate(invalid="ignore"):  # of the singular one
        g = mg.grad(mg.linalg.cond(both, p)[1], both).numpy()
    np.testing.assert_allclose(g[1], mg.grad(mg.linalg.cond(alone, p), alone).numpy(), rtol=1e-6)
    _, t = mg.func.jvp(lambda x: mg.linalg.cond(x, p)[1], (both,), (mg.ones_like(both),))
    assert t.item() == pytest.approx(g[1].conj().sum(), rel=1e-5)
    with pytest.raises(np.linalg.LinAlgError, match="square"):
        mg.linalg.cond(mg.ones((2, 3)), p)
