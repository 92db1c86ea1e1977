"""stft and istft have PyTorch's numbers, gradients and frames, and undo each other."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.testing import gradcheck

pytestmark = [  # PyTorch's
    pytest.mark.filterwarnings("ignore:A window was not provided"),
    pytest.mark.filterwarnings("ignore:The length of signal is shorter"),
]
rng = np.random.default_rng(0)
X = rng.standard_normal((2, 50))
HANN = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(16) / 16)

FORMS = [
    {"n_fft": 16},
    {"n_fft": 16, "hop_length": 5, "window": HANN},
    {"n_fft": 15, "hop_length": 4, "win_length": 9, "window": HANN[:9] + 0.1},
    {"n_fft": 16, "window": HANN + 0.2, "center": False},
    {"n_fft": 16, "window": HANN, "normalized": True},
    {"n_fft": 16, "window": HANN, "onesided": False},
]
PADS = [{"n_fft": 16, "pad_mode": m} for m in ("constant", "reflect", "replicate", "circular")]


def in_torch(name, x, options):
    """(value, gradient of Σ |y|² by x) of torch.stft or torch.istft."""
    torch = pytest.importorskip("torch")
    options = {k: torch.tensor(v) if k == "window" else v for k, v in options.items()}
    if name == "stft":
        options["return_complex"] = True
    x = torch.tensor(x, requires_grad=True)
    y = getattr(torch, name)(x, **options)
    (y.abs() ** 2).sum().backward()
    return y.detach().numpy(), x.grad.numpy()


def ours(name, x, options):
    x = mg.tensor(x, requires_grad=True)
    y = getattr(mg, name)(x, **options)
    (mg.abs(y) ** 2).sum().backward()
    return y.numpy(), x.grad.numpy()


@pytest.mark.parametrize("options", FORMS + PADS)
@pytest.mark.parametrize("x", [X, X[0], X[0] + 1j * X[1]], ids=["batch", "signal", "complex"])
def test_stft_is_pytorchs_in_value_and_gradient(x, options):
    if x.dtype.kind == "c":
        options = {**options, "onesided": False}
    for found, expected in zip(ours("stft", x, options), in_torch("stft", x, options), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "more"),
    [
        *[(form, more) for form in FORMS for more in ({}, {"length": 41})],
        (FORMS[1], {"length": 70}),
    ],
)
def test_istft_is_pytorchs_in_value_and_gradient(options, more):
    spectra = np.asarray(mg.stft(X, **options)) * rng.standard_normal(1)
    options = {**options, **more}
    found, expected = ours("istft", spectra, options), in_torch("istft", spectra, options)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", FORMS)
def test_istft_gives_the_signal_back(options):
    y = mg.istft(mg.stft(mg.tensor(X), **options), **options)
    n = y.shape[-1]
    assert n > 40
    np.testing.assert_allclose(y.numpy(), X[:, :n], atol=1e-13)


def test_istft_of_both_sides_gives_a_complex_signal_back():
    z = X[0] + 1j * X[1]
    y = mg.istft(mg.stft(mg.tensor(z), 16), 16, length=50, return_complex=True)
    np.testing.assert_allclose(y.numpy(), z, atol=1e-13)


def test_both_are_differentiable_in_the_window():
    w = HANN + 0.3
    assert gradcheck(lambda x, w: mg.stft(x, 16, window=w), (X[0], w))
    spectra = np.asarray(mg.stft(X[0], 16, window=w))
    assert gradcheck(lambda s, w: mg.istft(s, 16, window=w), (spectra, w))


def test_both_batch():
    f = lambda x: mg.istft(mg.stft(x, 16, window=HANN) * 2.0, 16, window=HANN)
    expected = mg.stack([f(mg.tensor(x)) for x in X])
    np.testing.assert_allclose(mg.func.vmap(f)(mg.tensor(X)).numpy(), expected.numpy(), atol=1e-13)


def test_float32_stays_float32():
    y = mg.stft(mg.tensor(X.astype("f")), 16, window=HANN.astype("f"))
    assert y.dtype == np.complex64
    assert mg.istft(y, 16, window=HANN.astype("f")).dtype == np.float32


def test_windows_that_leave_gaps_are_refused_as_in_pytorch():
    torch = pytest.importorskip("torch")
    spectra = np.ones((9, 4), complex)
    with pytest.raises(ValueError, match="leave gaps.*smaller hop_length than 16"):
        mg.istft(spectra, 16, hop_length=16, window=HANN)
    with pytest.raises(RuntimeError, match="window overlap add min"):
        torch.istft(torch.tensor(spectra), 16, hop_length=16, window=torch.tensor(HANN))
