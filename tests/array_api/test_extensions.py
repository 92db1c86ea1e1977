"""linalg and fft agree with NumPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minigrad.array_api as xp
from tests.array_api.oracle import COMPLEX, INEXACT, compare, few

pytestmark = [
    pytest.mark.promise("the array API standard"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def matrices(dtypes, m, n):
    """Stacks of m × n matrices of numbers of size one; square ones are far from singular."""

    def well_placed(seed_and_dtype):
        seed, dtype = seed_and_dtype
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((2, m, n))
        x = x + 1j * rng.standard_normal(x.shape) if dtype in COMPLEX else x
        return (x + 4 * np.eye(m, n)).astype(dtype)

    return st.tuples(st.integers(0, 999), st.sampled_from(dtypes)).map(well_placed)


@given(matrices(INEXACT, 3, 3), matrices(INEXACT, 3, 2))
@few
def test_linear_algebra_agrees(a, b):
    positive = a @ a.conj().mT
    for name in ("det", "inv", "slogdet", "matrix_rank", "matrix_norm", "vector_norm", "trace"):
        compare(f"linalg.{name}", a, rtol=1e-4)
    for name in ("eigvalsh", "inv", "pinv", "svdvals", "cholesky"):
        compare(f"linalg.{name}", positive, rtol=1e-3)
    compare("linalg.cholesky", positive, upper=True, rtol=1e-3)
    compare("linalg.solve", a, b, rtol=1e-3)
    compare("linalg.solve", a, b[0, :, 0], rtol=1e-3)
    compare("linalg.matrix_power", a, 3, rtol=1e-4)
    compare("linalg.matrix_power", a, -1, rtol=1e-4)
    compare("linalg.diagonal", b, offset=1)
    compare("linalg.cross", b, b, axis=-2)
    compare("linalg.outer", b[0, 0], a[0, 0], rtol=1e-6)
    compare("linalg.outer", a, a)
    compare("linalg.cross", a[..., :2], a[..., :2])
    compare("linalg.vector_norm", a[:0], ord=np.inf)
    for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        compare("linalg.matrix_norm", b, ord=ord, keepdims=True, rtol=1e-4)
    for ord in (0, 1, 2, 3.5, np.inf, -np.inf):
        compare("linalg.vector_norm", b, axis=(0, 1), ord=ord, rtol=1e-4)


@given(matrices(INEXACT, 3, 3), matrices(INEXACT, 4, 2))
@few
def test_decompositions_have_named_parts_that_multiply_to_the_matrix(a, b):
    symmetric = a + a.conj().mT
    w, v = found = xp.linalg.eigh(xp.asarray(symmetric))
    assert found._fields == ("eigenvalues", "eigenvectors")
    assert (w.dtype, v.dtype) == (symmetric.real.dtype, symmetric.dtype)
    np.testing.assert_allclose(
        ((v * w[..., None, :]) @ xp.conj(v).mT).numpy(), symmetric, atol=1e-4
    )
    for x in (a, b):
        q, r = found = xp.linalg.qr(xp.asarray(x))
        assert found._fields == ("Q", "R") and q.dtype == r.dtype == x.dtype
        np.testing.assert_allclose((q @ r).numpy(), x, atol=1e-4)
        u, s, vh = found = xp.linalg.svd(xp.asarray(x), full_matrices=False)
        assert found._fields == ("U", "S", "Vh") and s.dtype == x.real.dtype
        np.testing.assert_allclose(((u * s[..., None, :]) @ vh).numpy(), x, atol=1e-4)
    assert [y.shape for y in xp.linalg.svd(xp.asarray(b))] == [(2, 4, 4), (2, 2), (2, 2, 2)]


@given(matrices(INEXACT, 4, 3), st.sampled_from(["backward", "ortho", "forward"]))
@few
def test_fourier_transforms_agree(x, norm):
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        compare(f"fft.{name}", x, norm=norm, rtol=1e-3)
        compare(f"fft.{name}", x, n=5, axis=1, rtol=1e-3)
    for name in ("fftn", "ifftn", "rfftn", "irfftn"):
        compare(f"fft.{name}", x, s=(3, 4), axes=[2, 1], norm=norm, rtol=1e-3)
        compare(f"fft.{name}", x, rtol=1e-3)
    for name in ("fftshift", "ifftshift"):
        compare(f"fft.{name}", x)
        compare(f"fft.{name}", x, axes=[1])
    for name in ("fftfreq", "rfftfreq"):
        compare(f"fft.{name}", 5, d=0.5)
    assert xp.fft.fftfreq(4, dtype=xp.float32).dtype == np.float32
