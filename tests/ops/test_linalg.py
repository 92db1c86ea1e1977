"""Linear algebra beside NumPy and PyTorch: values, conventions, stacks, derivatives."""

import sys
import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad.func import jvp, vmap
from minigrad.testing.function import as_array, results

rng = np.random.default_rng(3)


def leaf(values, dtype=None):
    return mg.tensor(values, dtype=dtype, requires_grad=True)


def matrices(*shape, complex_too=False):
    """Well-conditioned matrices: normal ones, with more on the diagonal."""
    x = rng.standard_normal(shape) + 3 * np.eye(*shape[-2:])
    return x + 1j * rng.standard_normal(shape) if complex_too else x


def positive(x, la):
    """A positive definite function of a square x, by each library's words."""
    return x @ x.conj().mT + 0.5 * la.inv(x @ x.conj().mT)


# -- beside PyTorch ----------------------------------------------------------------------------

# Each function is written once and read with mg.linalg and with torch.linalg. Of factors it takes
# what does not depend on a sign or phase. Both libraries give Hermitian gradients for cholesky and
# eigh, and 2 ∂L/∂x̄ for complex x.
FUNCTIONS = {
    "inv": lambda la, x: la.inv(x),
    "solve": lambda la, x: la.solve(x, x[..., :2] * x[..., 1:3]),
    "pinv of a tall matrix": lambda la, x: la.pinv(x[..., :2]),
    "pinv of a wide matrix": lambda la, x: la.pinv(x[..., :2, :]),
    "det": lambda la, x: la.det(x),
    "sign of slogdet": lambda la, x: la.slogdet(x)[0],
    "log of slogdet": lambda la, x: la.slogdet(x)[1],
    "cholesky": lambda la, x: la.cholesky(positive(x, la)),
    "cholesky, upper": lambda la, x: la.cholesky(positive(x, la), upper=True),
    "qr": lambda la, x: la.qr(x)[0] * la.qr(x)[1],
    "qr of a tall matrix": lambda la, x: la.qr(x[..., :2])[0] * la.qr(x[..., :2])[1][..., :1, :],
    "qr of a wide matrix": lambda la, x: la.qr(x[..., :2, :])[1],
    "singular values": lambda la, x: la.svdvals(x),
    "svd": lambda la, x: _u_f_vh(*la.svd(x, full_matrices=False)),
    "svd of a tall matrix": lambda la, x: _u_f_vh(*la.svd(x[..., :2], full_matrices=False)),
    "svd of a wide matrix": lambda la, x: _u_f_vh(*la.svd(x[..., :2, :], full_matrices=False)),
    "eigvalsh": lambda la, x: la.eigvalsh(x + x.conj().mT),
    "eigh": lambda la, x: _v_f_vh(*la.eigh(x + x.conj().mT)),
    "eig": lambda la, x: _v_f_vh(*la.eig(x)),
    "eigvals": lambda la, x: la.eigvals(x).sum(-1),
    "matrix_exp": lambda la, x: la.matrix_exp(x * 0.3),
    "matrix_power": lambda la, x: la.matrix_power(x, 3) + la.matrix_power(x, -2),
    "frobenius norm": lambda la, x: la.matrix_norm(x),
    "nuclear norm": lambda la, x: la.matrix_norm(x, ord="nuc"),
    "spectral norm": lambda la, x: la.matrix_norm(x, ord=2),
    "column sums": lambda la, x: la.matrix_norm(x, ord=1),
    "cond": lambda la, x: la.cond(x),
}


def _u_f_vh(u, s, vh):
    return (u * (s * s)[..., None, :]) @ vh


def _v_f_vh(w, v):
    return (v * (w * w)[..., None, :]) @ v.conj().mT


@pytest.mark.parametrize("complex_too", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_value_gradient_and_second_order_are_pytorchs(name, complex_too):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    f, x = FUNCTIONS[name], matrices(2, 3, 3, complex_too=complex_too)
    u = matrices(2, 3, 3, complex_too=complex_too)
    a, b = leaf(x), torch.tensor(x, requires_grad=True)
    y, z = f(mg.linalg, a), f(torch.linalg, b)
    c = rng.standard_normal(y.shape)
    if not complex_too:  # eigenvalues of a real matrix are real or complex as they come
        y, z = y.real, z.real if z.is_complex() else z
    c = c + 1j * rng.standard_normal(y.shape) if y.dtype.kind == "c" else c
    ga = mg.grad(y, a, c, create_graph=True, allow_unused=True)
    if name == "sign of slogdet" and not complex_too:  # piecewise constant
        assert ga is None
        return
    (gb,) = torch.autograd.grad(z, b, torch.tensor(c), create_graph=True)
    np.testing.assert_allclose(y.detach().numpy(), z.numpy(force=True), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(ga.detach().numpy(), gb.numpy(force=True), rtol=1e-8, atol=1e-9)
    if not ga.requires_grad:  # piecewise linear
        return
    ha = mg.grad(ga, a, u, allow_unused=True)
    (hb,) = torch.autograd.grad(gb, b, torch.tensor(u), allow_unused=True)
    expected = np.zeros(x.shape) if hb is None else hb.numpy(force=True)
    found = np.zeros(x.shape) if ha is None else ha.numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_solve_is_pytorchs(upper, unit):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    a, b = matrices(2, 3, 3), rng.standard_normal((3, 2))
    ours, theirs = [leaf(a), leaf(b)], [torch.tensor(x, requires_grad=True) for x in (a, b)]
    y = mg.linalg.triangular_solve(*ours, lower=not upper, unit_diagonal=unit)
    z = torch.linalg.solve_triangular(*theirs, upper=upper, unitriangular=unit)
    np.testing.assert_allclose(y.detach().numpy(), z.numpy(force=True))
    g, h = mg.grad((y**3).sum(), ours), torch.autograd.grad((z**3).sum(), theirs)
    for mine, other in zip(g, h, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy())


# -- NumPy's words -----------------------------------------------------------------------------

NUMPY_CALLS = {
    name: (lambda x, name=name: getattr(np.linalg, name)(x))
    for name in """cholesky cond det diagonal eig eigh eigvals eigvalsh inv matrix_norm matrix_rank
    matrix_transpose norm pinv qr slogdet svd svdvals trace vector_norm""".split()
} | {
    "solve": lambda x: np.linalg.solve(x, x[..., :1]),
    "lstsq": lambda x: np.linalg.lstsq(x[0], x[1]),
    "matrix_power": lambda x: np.linalg.matrix_power(x, -2),
    "matmul": lambda x: np.linalg.matmul(x, x),
    "multi_dot": lambda x: np.linalg.multi_dot([x[0], x[1], x[0]]),
    "outer": lambda x: np.linalg.outer(x[0, 0], x[1, 0]),
    "cross": lambda x: np.linalg.cross(x[0], x[1]),
    "tensordot": lambda x: np.linalg.tensordot(x, x, axes=([0, 1], [0, 1])),
    "tensorinv": lambda x: np.linalg.tensorinv(x[0], ind=1),
    "tensorsolve": lambda x: np.linalg.tensorsolve(x[0], x[1, 0]),
    "vecdot": lambda x: np.linalg.vecdot(x, x),
    "svd of a Hermitian": lambda x: np.linalg.svd(x, hermitian=True),
    "its singular values": lambda x: np.linalg.svd(x, compute_uv=False, hermitian=True),
    "qr, r": lambda x: np.linalg.qr(x, mode="r"),
    "norm over two axes": lambda x: np.linalg.norm(x, "nuc", axis=(0, 2)),
}


def hermitian_stack():
    """Hermitian, and of both signs."""
    x = matrices(2, 3, 3)
    return x + x.mT + np.diag([9.0, 0, -2])


@pytest.mark.parametrize("name", NUMPY_CALLS)
def test_numpys_function_on_a_tensor_gives_tensors_of_its_values(name):
    x = matrices(2, 3, 3) @ matrices(2, 3, 3).mT + 9 * np.eye(3) if name == "cholesky" else None
    x = hermitian_stack() if x is None else (x + x.mT) / 2
    found = NUMPY_CALLS[name](mg.tensor(x))
    expected = NUMPY_CALLS[name](x)
    for y, same in zip(results(found), results(expected), strict=True):
        assert isinstance(y, mg.Tensor)
        np.testing.assert_allclose(y.numpy(), same, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["eig", "eigh", "qr", "slogdet", "svd"])
def test_results_carry_numpys_field_names(name):
    x = hermitian_stack()
    ours, theirs = getattr(mg.linalg, name)(mg.tensor(x)), getattr(np.linalg, name)(x)
    assert ours._fields == theirs._fields


def test_every_public_name_is_there():
    assert all(callable(getattr(mg.linalg, name)) for name in mg.linalg.__all__)
    missing = set(np.linalg.__all__) - set(mg.linalg.__all__) - {"LinAlgError"}
    assert not missing


@pytest.mark.parametrize("name", ["inv", "det", "svd", "eigh", "qr", "cholesky", "matrix_exp"])
def test_bfloat16_raises_and_names_the_way_out(name):
    pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    with pytest.raises(TypeError, match=r"bfloat16.*x\.astype\(mg\.float32\)"):
        getattr(mg.linalg, name)(mg.tensor(np.eye(2)).astype(mg.bfloat16))


def test_integers_are_float64():
    assert mg.linalg.inv(mg.tensor([[2, 0], [0, 4]])).tolist() == [[0.5, 0], [0, 0.25]]


# -- which entries are read --------------------------------------------------------------------


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_reads_one_triangle_and_its_gradient_is_hermitian(lower):
    x = matrices(3, 3, complex_too=True)
    x = x @ x.conj().T + np.eye(3)
    a = leaf(np.tril(x) if lower else np.triu(x))
    y = mg.linalg.cholesky(a, upper=not lower)
    np.testing.assert_allclose(y.detach().numpy(), np.linalg.cholesky(x, upper=not lower))
    g = mg.grad((y * y).real.sum(), a).numpy()
    np.testing.assert_array_equal(g, g.conj().T)


@pytest.mark.parametrize("triangle", ["L", "U"])
@pytest.mark.parametrize("function", ["eigh", "eigvalsh"])
def test_eigh_reads_one_triangle_and_its_gradient_is_hermitian(function, triangle):
    x = matrices(3, 3, complex_too=True)
    x = x + x.conj().T
    a = leaf(np.tril(x) if triangle == "L" else np.triu(x))
    w = results(getattr(mg.linalg, function)(a, UPLO=triangle))[0]
    np.testing.assert_allclose(w.detach().numpy(), np.linalg.eigvalsh(x))
    g = mg.grad((w**3).sum(), a).numpy()
    np.testing.assert_array_equal(g, g.conj().T)
    np.testing.assert_allclose(g, 3 * x @ x, rtol=1e-10)  # d tr x³ = 3 x²


@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.parametrize("scipy_there", [True, False])
def test_triangular_solve_never_reads_the_other_triangle(n, scipy_there, monkeypatch):
    if not scipy_there:
        monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    a = np.tril(rng.standard_normal((2, n, n)) / n) + 2 * np.eye(n)
    b = rng.standard_normal((n, 2))
    spoilt = leaf(np.where(np.tri(n, dtype=bool), a, np.nan))
    y = mg.linalg.triangular_solve(spoilt, b, lower=True)
    np.testing.assert_allclose(y.detach().numpy(), np.linalg.solve(a, b), rtol=1e-12)
    g = mg.grad((y * y).sum(), spoilt).numpy()
    full = leaf(a)
    expected = mg.grad((mg.linalg.solve(full, b) ** 2).sum(), full).numpy()
    np.testing.assert_allclose(g, np.tril(expected), rtol=1e-9, atol=1e-12)


def test_a_unit_diagonal_is_not_read():
    a = np.array([[np.nan, 0.0], [3.0, np.nan]])
    y = mg.linalg.triangular_solve(a, np.array([1.0, 5.0]), lower=True, unit_diagonal=True)
    assert y.tolist() == [1.0, 2.0]


def test_matrix_exp_without_scipy_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    with pytest.raises(ImportError, match=r"checkout\[full\]"):
        mg.linalg.matrix_exp(mg.tensor(np.eye(2)))


# -- least squares -----------------------------------------------------------------------------


def test_lstsq_of_deficient_rank_is_numpys():
    a, b = np.outer([1.0, 2.0, 3.0], [1.0, 1.0]), rng.standard_normal(3)
    for y, expected in zip(mg.linalg.lstsq(mg.tensor(a), b), np.linalg.lstsq(a, b), strict=True):
        np.testing.assert_allclose(y.numpy(), expected, atol=1e-14)


def test_powers_of_float16_are_products_as_numpys():
    x = np.arange(4, dtype=np.float16).reshape(2, 2)
    y = mg.linalg.matrix_power(mg.tensor(x), 3)
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y.numpy(), np.linalg.matrix_power(x, 3))


def test_lstsq_counts_down_to_rounding_with_a_negative_rcond_as_numpys():
    a, b = np.outer([1.0, 2.0, 3.0], [1.0, 2.0]), np.array([1.0, 2.0, 4.0])
    ours, theirs = mg.linalg.lstsq(mg.tensor(a), b, rcond=-1), np.linalg.lstsq(a, b, rcond=-1)
    assert ours.rank.item() == theirs[2] == 1
    np.testing.assert_allclose(ours.x.numpy(), theirs[0], rtol=1e-13)


def test_lstsq_gradient_of_the_residual_is_that_of_the_projection():
    a, b = leaf(matrices(5, 2)), leaf(rng.standard_normal(5))
    r = mg.linalg.lstsq(a, b).residuals.sum()
    x = np.linalg.lstsq(a.data, b.data)[0]
    ga, gb = mg.grad(r, [a, b])
    residual = b.data - a.data @ x  # |b − a x|² depends on x not at all at its minimum
    np.testing.assert_allclose(gb.numpy(), 2 * residual, rtol=1e-10)
    np.testing.assert_allclose(ga.numpy(), -2 * np.outer(residual, x), rtol=1e-9)


def test_lstsq_keeps_the_digits_that_the_pseudoinverse_loses():
    """A polynomial fit of degree 9, condition 1e7, whose right-hand side is in its range."""
    a = np.vander(np.linspace(0, 1, 20), 10)
    assert np.linalg.cond(a) > 1e6
    x = mg.linalg.lstsq(mg.tensor(a), a @ np.ones(10)).x.numpy()
    np.testing.assert_allclose(x, 1, atol=1e-7)


# -- stacks ------------------------------------------------------------------------------------

STACKED = {
    "inv": mg.linalg.inv, "det": mg.linalg.det, "slogdet": lambda x: mg.linalg.slogdet(x)[1],
    "pinv": lambda x: mg.linalg.pinv(x[:, :2]), "svd": lambda x: _u_f_vh(*mg.linalg.svd(x)),
    "svdvals": mg.linalg.svdvals, "qr": lambda x: mg.linalg.qr(x)[1],
    "cholesky": lambda x: mg.linalg.cholesky(x @ x.mT), "eig": lambda x: mg.linalg.eigvals(x).real,
    "eigh": lambda x: _v_f_vh(*mg.linalg.eigh(x + x.mT)), "matrix_exp": mg.linalg.matrix_exp,
    "eigvalsh": lambda x: mg.linalg.eigvalsh(x + x.mT), "rank": mg.linalg.matrix_rank,
    "solve": lambda x: mg.linalg.solve(x, x[0]),
    "solve, matrix": lambda x: mg.linalg.solve(x, x.mT),
    "solve, shared vector": lambda x: mg.linalg.solve(x, mg.tensor([1.0, 2.0, 3.0])),
    "solve, shared matrix": lambda x: mg.linalg.solve(mg.tensor(np.diag([1.0, 2.0, 3.0])), x[0]),
    "triangular_solve": lambda x: mg.linalg.triangular_solve(x, x[1]),
    "lstsq": lambda x: mg.linalg.lstsq(x[:, :2], x[:, 2]).x,
    "matrix_power": lambda x: mg.linalg.matrix_power(x, 3) + mg.linalg.matrix_power(x, 0),
    "nuclear norm": lambda x: mg.linalg.matrix_norm(x, ord="nuc"), "cond": mg.linalg.cond,
}  # fmt: skip


@pytest.mark.parametrize("name", STACKED)
def test_vmap_is_the_loop_and_needs_no_fallback(name):
    f, x = STACKED[name], leaf(matrices(4, 3, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = vmap(f)(x)
    for k in range(4):
        np.testing.assert_allclose(y.detach().numpy()[k], as_array(f(mg.tensor(x.data[k]))))
    if not y.requires_grad:
        return
    c = rng.standard_normal(y.shape)
    g = mg.grad(y, x, c).numpy()
    for k in range(4):
        one = leaf(x.data[k])
        np.testing.assert_allclose(g[k], mg.grad(f(one), one, c[k]).numpy(), rtol=1e-9, atol=1e-12)


# -- forward mode ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["inv", "det", "matrix_exp", "cholesky", "eigvalsh", "svdvals"])
def test_jvp_is_the_slope_along_the_tangent(name):
    f, h = getattr(mg.linalg, name), 1e-6
    x, t = positive(matrices(3, 3), np.linalg), matrices(3, 3)
    t = t + t.T
    x = (x + x.T) / 2
    _, ty = jvp(f, (mg.tensor(x),), (mg.tensor(t),))
    slope = (f(x + h * t) - f(x - h * t)) / (2 * h)
    np.testing.assert_allclose(ty.numpy(), slope, rtol=1e-7, atol=1e-7)


def test_derivatives_of_the_matrix_exponential_of_third_order():
    """d³/dt³ exp(t a) = a³ exp(t a)."""
    a, t = matrices(2, 2) * 0.3, leaf(0.7)
    y = mg.linalg.matrix_exp(t * a)[0, 1]
    for _ in range(3):
        y = mg.grad(y, t, create_graph=True)
    expected = (np.linalg.matrix_power(a, 3) @ mg.linalg.matrix_exp(0.7 * a))[0, 1]
    np.testing.assert_allclose(y.item(), expected, rtol=1e-11)


@pytest.mark.parametrize("axis", [(0, 1), (2, 0), (1, 2)])
@pytest.mark.parametrize("ord", [1, 2, "nuc"])
def test_a_matrix_norm_over_any_two_axes_keeps_them_where_they_were(axis, ord):
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    y = mg.norm(mg.tensor(x), ord, axis, keepdims=True)
    np.testing.assert_allclose(y.data, np.linalg.norm(x, ord, axis, keepdims=True), rtol=1e-13)


@pytest.mark.parametrize("kinds", ["rrc", "rcr", "crr", "rcc", "crc", "ccr"])
def test_sylvester_s_equation_is_solved_where_some_matrices_are_real_and_some_complex(kinds):
    pytest.importorskip("scipy")
    shapes = (4, 4), (3, 3), (4, 3)
    a, b, q = (
        rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if kind == "c" else 0)
        for kind, shape in zip(kinds, shapes, strict=True)
    )
    # complex eigenvalues, so that the real Schur form is not triangular
    a, b = (np.eye(len(x)) + x - x.T for x in (a, b))
    y = mg.linalg.solve_sylvester(mg.tensor(a), mg.tensor(b), mg.tensor(q)).numpy()
    np.testing.assert_allclose(a @ y + y @ b, q, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_roots_and_sylvester_s_equation_of_whole_numbers_keep_their_fractions(dtype):
    pytest.importorskip("scipy")
    x = np.array([[2, 1], [1, 3]], dtype)
    for solve in (mg.linalg.sqrtm, lambda x: mg.linalg.solve_sylvester(x, x, x)):
        y = solve(mg.tensor(x))
        assert y.dtype == np.float64
        np.testing.assert_allclose(y.numpy(), solve(mg.tensor(x.astype(float))).numpy())


@pytest.mark.parametrize(
    "constant",
    [lambda x: mg.linalg.matrix_power(x, 0), lambda x: mg.linalg.vector_norm(x, ord=0)],
)
def test_what_is_constant_in_a_matrix_has_gradient_zero_as_in_pytorch(constant):
    x = mg.tensor([[np.nan, 2.0], [0.0, np.inf]], requires_grad=True)
    y = constant(x)
    np.testing.assert_array_equal(y.detach(), np.eye(2) if y.ndim else 3)
    assert not mg.grad(y.sum(), x).numpy().any()


def test_the_polynomial_of_a_real_matrix_is_real():
    for a in ([[1.0, 2.0], [3.0, 4.0]], [[0.0, -1.0], [1.0, 0.0]]):
        found = np.poly(mg.tensor(a))
        assert found.dtype == np.float64
        np.testing.assert_allclose(found.numpy(), np.poly(np.array(a)), atol=1e-15)


@pytest.mark.parametrize("p", [None, -2, 1, "fro"])
def test_no_matrices_have_no_condition_numbers(p):
    assert mg.linalg.cond(mg.zeros(0, 3, 3), p).shape == (0,)
