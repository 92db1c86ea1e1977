"""LU factors and what is solved with them: SciPy, PyTorch, derivatives, singular matrices."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.func import grad, vmap
from minigrad.testing import gradcheck, gradgradcheck

linalg = pytest.importorskip("scipy.linalg", reason="SciPy is not installed")
rng = np.random.default_rng(0)


def matrix(*shape, kind="f"):
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if kind == "c" else x


@pytest.mark.parametrize("kind", "fc")
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 3), (1, 1), (0, 3), (3, 0)])
def test_factors_multiply_to_the_matrix_and_are_triangular(shape, kind):
    x = matrix(*shape, kind=kind)
    p, l, u = mg.linalg.lu(mg.tensor(x))
    np.testing.assert_allclose((p.astype(l.dtype) @ l @ u).numpy(), x, atol=1e-12)
    assert not np.triu(l.numpy(), 1).any() and not np.tril(u.numpy(), -1).any()
    assert (np.diagonal(l.numpy(), axis1=-2, axis2=-1) == 1).all() and not p.requires_grad


@pytest.mark.parametrize("kind", "fc")
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 2, 2)])
def test_gradients_are_pytorchs(shape, kind):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = matrix(*shape, kind=kind)
    ours, theirs = mg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    pairs = list(zip(mg.linalg.lu(ours)[1:], torch.linalg.lu(theirs)[1:], strict=True))
    gs = [matrix(*y.shape, kind=kind) for y, _ in pairs]
    found = mg.grad([y for y, _ in pairs], [ours], gs)[0].numpy()
    (expected,) = torch.autograd.grad([z for _, z in pairs], theirs, [torch.tensor(g) for g in gs])
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_second_derivatives_are_those_of_differences(shape):
    x = matrix(*shape)
    for part in (1, 2):
        assert gradgradcheck(lambda x: mg.linalg.lu(x)[part], (x,))


@pytest.mark.parametrize("shape", [(3, 4, 4), (3, 5, 2), (3, 2, 5)])
def test_the_packed_factor_is_scipys(shape):
    x = matrix(*shape)
    packed, piv = mg.linalg.lu_factor(x)
    for one, found, exchanges in zip(x, packed, piv, strict=True):
        expected, places = linalg.lu_factor(one)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        np.testing.assert_array_equal(exchanges, places)


@pytest.mark.parametrize("kind", "fc")
def test_equations_are_solved_by_either_factor(kind):
    x, b = matrix(2, 4, 4, kind=kind), matrix(2, 4, 3, kind=kind)
    solve = lambda x, b: mg.linalg.lu_solve(mg.linalg.lu_factor(x), b)
    np.testing.assert_allclose(solve(x, b), np.linalg.solve(x, b), rtol=1e-9)
    np.testing.assert_allclose(solve(x[0], b[0, :, 0]), np.linalg.solve(x[0], b[0, :, 0]), 1e-9)
    assert gradcheck(solve, (x[0], b[0])) and gradgradcheck(solve, (x[0], b[0]))
    h = x @ x.conj().swapaxes(-1, -2) + np.eye(4)
    for upper in (False, True):
        by_factor = lambda h, b: mg.linalg.cholesky_solve(
            b, mg.linalg.cholesky(h, upper=upper), upper
        )
        np.testing.assert_allclose(by_factor(h, b), np.linalg.solve(h, b), rtol=1e-9)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3), (3, 0)])
def test_the_packed_factor_of_nothing_is_empty(shape):
    packed, piv = mg.linalg.lu_factor(np.zeros(shape))
    assert (packed.shape, piv.shape) == (shape, (*shape[:-2], 0))


def test_factors_of_a_matrix_that_is_not_square_solve_nothing():
    with pytest.raises(ValueError, match=r"lu must be \(…, n, n\), got \(3, 2\)"):
        mg.linalg.lu_solve(mg.linalg.lu_factor(matrix(3, 2)), np.ones(3))


def test_a_singular_matrix_has_factors_and_no_derivative():
    x = mg.tensor(np.array([[1.0, 2.0], [2.0, 4.0]]), requires_grad=True)
    _, l, u = mg.linalg.lu(x)
    assert u.numpy()[1, 1] == 0
    with pytest.raises(np.linalg.LinAlgError, match="(?i)singular"):
        mg.sum(l + u).backward()
    with pytest.raises(np.linalg.LinAlgError, match="(?i)singular"):
        mg.linalg.lu_solve(mg.linalg.lu_factor(x.detach()), np.ones(2))


@pytest.mark.filterwarnings("error")
def test_vmap_takes_the_examples_as_a_stack():
    xs, b = matrix(3, 4, 4), matrix(4)
    f = lambda x: mg.sum(mg.linalg.lu_solve(mg.linalg.lu_factor(x), b) ** 2)
    mapped = vmap(grad(f))(xs).numpy()
    for x, found in zip(xs, mapped, strict=True):
        np.testing.assert_allclose(found, grad(f)(x).numpy(), rtol=1e-9)


def test_a_matrix_at_an_odd_address_is_factored():
    x = np.random.default_rng(0).standard_normal((3, 3))
    odd = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    odd[...] = x
    for found, expected in zip(mg.linalg.lu(odd), mg.linalg.lu(x), strict=True):
        np.testing.assert_array_equal(found, expected)
