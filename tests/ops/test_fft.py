"""Fourier transforms beside NumPy and PyTorch, and what they are known to satisfy."""

import warnings

import numpy as np
import pytest

import minigrad as mg
from minigrad.func import jvp, vmap

rng = np.random.default_rng(1)

ONE_AXIS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL = ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]
OF_REAL = {"rfft", "ihfft", "rfft2", "rfftn"}


def values(name, shape):
    x = rng.standard_normal(shape)
    return x if name in OF_REAL else x + 1j * rng.standard_normal(shape)


def leaf(x):
    return mg.tensor(x, requires_grad=True)


FORMS = [
    *[(name, (2, n), {"n": length, "norm": norm})
      for name in ONE_AXIS for n in (5, 6) for length in (None, 4, 7)
      for norm in ("backward", "ortho", "forward")],
    *[(name, (3, 4, 5), params) for name in SEVERAL for params in ({}, {"norm": "ortho"})],
    *[(name, (3, 4, 5), {"s": (4, 6)}) for name in SEVERAL if name.endswith("2")],
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "params"), FORMS)
def test_value_and_gradient_are_pytorchs(name, shape, params):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = values(name, shape)
    a, b = leaf(x), torch.tensor(x, requires_grad=True)
    y, z = getattr(mg.fft, name)(a, **params), getattr(torch.fft, name)(b, **params)
    np.testing.assert_allclose(y.detach().numpy(), z.numpy(force=True), rtol=1e-12, atol=1e-13)
    loss, same = (y * y.conj()).real, (z * z.conj()).real  # the gradient depends on x
    ga = mg.grad((loss * loss).sum(), a, create_graph=True)
    (gb,) = torch.autograd.grad((same * same).sum(), b, create_graph=True)
    np.testing.assert_allclose(ga.detach().numpy(), gb.numpy(force=True), rtol=1e-9, atol=1e-10)
    ha = mg.grad((ga * ga.conj()).real.sum(), a)
    (hb,) = torch.autograd.grad((gb * gb.conj()).real.sum(), b)
    np.testing.assert_allclose(ha.numpy(), hb.numpy(force=True), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", [*ONE_AXIS, *SEVERAL, "fftshift", "ifftshift"])
def test_numpys_function_on_a_tensor_is_recorded(name):
    x = values(name, (3, 4))
    y = getattr(np.fft, name)(leaf(x))
    assert y.requires_grad
    np.testing.assert_allclose(y.detach().numpy(), getattr(np.fft, name)(x), rtol=1e-13)


@pytest.mark.parametrize(("name", "dtype"), [("fft", "complex64"), ("rfft", "complex64")])
def test_float32_gives_complex64_and_its_gradient_is_float32(name, dtype):
    x = mg.tensor(rng.standard_normal(6), dtype=mg.float32, requires_grad=True)
    y = getattr(mg.fft, name)(x)
    assert y.dtype == dtype
    assert mg.grad((y * y.conj()).real.sum(), x).dtype == np.float32


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_parseval(n):
    """Σ |fft x|² = n Σ |x|², so its gradient is 2 n x."""
    x = leaf(values("fft", n))
    y = mg.fft.fft(x)
    np.testing.assert_allclose(mg.grad((y * y.conj()).real.sum(), x).numpy(), 2 * n * x.data)


@pytest.mark.parametrize("n", [2, 5, 8])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_there_and_back_is_the_identity(n, norm):
    x, c = leaf(rng.standard_normal((2, n))), rng.standard_normal((2, n))
    y = mg.fft.irfft(mg.fft.rfft(x, norm=norm), n, norm=norm)
    np.testing.assert_allclose(mg.grad(y, x, c).numpy(), c, rtol=1e-12)


@pytest.mark.parametrize("n", [7, 8])
def test_half_a_spectrum_has_the_gradient_of_that_half(n):
    x = leaf(rng.standard_normal(n))
    c = values("fft", n // 2 + 1)
    half = mg.grad(mg.fft.rfft(x), x, c).numpy()
    np.testing.assert_allclose(half, mg.grad(mg.fft.fft(x)[: n // 2 + 1], x, c).numpy(), rtol=1e-12)


def test_imaginary_parts_that_irfft_ignores_get_no_gradient():
    x = leaf(values("irfft", 4))
    y = mg.fft.irfft(x)
    g = mg.grad(y, x, rng.standard_normal(6)).numpy()
    assert g[0].imag == g[3].imag == 0
    assert (g[1:3].imag != 0).all()


def test_forward_mode_is_the_transform_of_the_tangent():
    x, t = rng.standard_normal((2, 6))
    _, ty = jvp(mg.fft.rfft, (mg.tensor(x),), (mg.tensor(t),))
    np.testing.assert_array_equal(ty.numpy(), np.fft.rfft(t))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: mg.fft.fft(x, axis=0),
        lambda x: mg.fft.rfft(x, n=5),
        lambda x: mg.fft.irfft2(x, s=(3, 5)),
        lambda x: mg.fft.fftshift(mg.fft.fft2(x)),
    ],
    ids=["fft", "rfft", "irfft2", "shifted fft2"],
)
def test_vmap_is_the_loop_and_needs_no_fallback(f):
    x = leaf(rng.standard_normal((3, 4, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = vmap(f)(x)
    expected = np.stack([f(x.data[k]) for k in range(3)])
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-12)
    g = mg.grad((y * y.conj()).real.sum(), x).numpy()
    for k in range(3):
        one = leaf(x.data[k])
        z = f(one)
        np.testing.assert_allclose(g[k], mg.grad((z * z.conj()).real.sum(), one).numpy())


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_are_numpys(name):
    y = getattr(mg.fft, name)(7, d=0.5, dtype="float32")
    assert y.dtype == np.float32 and not y.requires_grad
    np.testing.assert_allclose(y.numpy(), getattr(np.fft, name)(7, d=0.5), rtol=1e-6)


def test_every_public_name_is_there():
    assert set(np.fft.__all__) <= {*mg.fft.__all__, "set_backend"}
    assert all(callable(getattr(mg.fft, name)) for name in mg.fft.__all__)


def test_a_length_may_be_a_small_unsigned_number():
    x = mg.tensor(rng.standard_normal((3, 300)))
    lengths = np.array([2, 200], np.uint8)
    np.testing.assert_array_equal(np.fft.fftn(x, lengths), np.fft.fftn(x, [2, 200]))
    np.testing.assert_array_equal(np.fft.irfft(x, lengths[1]), np.fft.irfft(x, 200))


@pytest.mark.layer("courtesy")
@pytest.mark.parametrize("options", [{"axes": 0}, {"s": 2}])
def test_one_number_for_the_axes_or_lengths_of_several_is_refused_by_name(options):
    (name,) = options
    with pytest.raises(TypeError, match=rf"fft2\(.*: {name} must be a tuple"):
        mg.fft.fft2(mg.ones(2, 2), **options)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2"])
def test_more_lengths_than_axes_are_refused(name):
    with pytest.raises(np.exceptions.AxisError, match="out of bounds for array of dimension 1"):
        getattr(mg.fft, name)(mg.ones(6), s=(4, 3))


@pytest.mark.parametrize("options", [
    {"axes": (0, 0)}, {"axes": (0, 1, 0)}, {"axes": (1, -1)}, {"s": (3, 6), "axes": (1, 1)},
])  # fmt: skip
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_an_axis_named_twice_is_transformed_twice_as_in_numpy(name, options):
    x = values(name, (4, 5))
    y, expected = (getattr(np.fft, name)(v, **options) for v in (mg.tensor(x), x))
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("axes", [None, 0, (0, 0), (1, 0, -1)])
@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_an_axis_named_twice_is_moved_twice_as_in_numpy(name, axes):
    x = rng.standard_normal((4, 5))
    y, expected = (getattr(np.fft, name)(v, axes) for v in (mg.tensor(x), x))
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_a_length_of_minus_1_is_that_of_x(name):
    x = values(name, (4, 5))
    y, expected = (getattr(np.fft, name)(v, s=(3, -1)) for v in (mg.tensor(x), x))
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("name", [*ONE_AXIS, *SEVERAL])
def test_an_empty_name_of_a_norm_is_none(name):
    with pytest.raises(ValueError, match="norm=''; choose 'backward'"):
        getattr(mg.fft, name)(mg.ones(2, 2), norm="")
