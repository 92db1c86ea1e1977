"""Samples of stft and istft: odd and even lengths, every padding, short windows, all norms."""

import numpy as np

from ..spec import ErrorSample, register_op
from .forms import over

COMPLEX = ("complex128", "complex64")
_NUMPYS = {"replicate": "edge", "circular": "wrap"}
HALVES = np.array([0.5, 1.0, 0.75, 0.25], np.float32)  # it widens no result


def _windowed(x, n_fft, win_length, window):
    """The window between zeros."""
    size = win_length or n_fft
    w = np.ones(size, x.real.dtype) if window is None else np.asarray(window)
    before = (n_fft - size) // 2
    return np.pad(w, (before, n_fft - size - before))


def _stft(
    x, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect",
    normalized=False, onesided=None,
):  # fmt: skip
    """One window after the other."""
    hop, w = hop_length or n_fft // 4, _windowed(x, n_fft, win_length, window)
    if x.ndim > 2 or (center and pad_mode == "reflect" and x.shape[-1] <= n_fft // 2):
        raise ValueError("NumPy would take more axes, and reflect again and again")
    if center:
        widths = [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)]
        x = np.pad(x, widths, _NUMPYS.get(pad_mode, pad_mode))
    starts = range(0, x.shape[-1] - n_fft + 1, hop)
    half = x.dtype.kind != "c" if onesided is None else onesided
    transform = np.fft.rfft if half else np.fft.fft
    norm = "ortho" if normalized else None
    return np.stack([transform(x[..., i : i + n_fft] * w, norm=norm) for i in starts], -1)


def _istft(
    x, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False,
    onesided=None, length=None, return_complex=False,
):  # fmt: skip
    hop, w = hop_length or n_fft // 4, _windowed(x, n_fft, win_length, window)
    if x.shape[-2] not in (n_fft, n_fft // 2 + 1):
        raise ValueError("NumPy would cut or continue the spectra")
    norm = "ortho" if normalized else None
    frames = (np.fft.ifft if return_complex else np.fft.irfft)(x, n_fft, axis=-2, norm=norm)
    total = n_fft + hop * (x.shape[-1] - 1)
    y, weight = np.zeros((*x.shape[:-2], total), frames.dtype), np.zeros(total, w.dtype)
    for m in range(x.shape[-1]):
        y[..., m * hop : m * hop + n_fft] += frames[..., m] * w
        weight[m * hop : m * hop + n_fft] += w * w
    start = n_fft // 2 if center else 0
    stop = total - start if length is None else start + length
    if not weight[start:stop].size:
        raise ValueError("NumPy would give a signal of no samples")
    y = y[..., start:stop] / weight[start:stop]
    return np.pad(y, [(0, 0)] * (y.ndim - 1) + [(0, max(0, stop - total))])


register_op(
    "stft",
    over(
        [
            ((10,), {"n_fft": 4}),
            ((2, 9), {"n_fft": 5, "hop_length": 2, "normalized": True}),
            ((9,), {"n_fft": 4, "center": False, "window": HALVES}),
            ((7,), {"n_fft": 7, "hop_length": 3, "win_length": 4, "window": HALVES}),
            ((6,), {"n_fft": 4, "onesided": False, "pad_mode": "constant"}),
            ((6,), {"n_fft": 6, "hop_length": 4, "pad_mode": "replicate"}),
            ((6,), {"n_fft": 6, "win_length": 3, "pad_mode": "circular"}),
        ]
    ),
    reference=_stft,
    dtypes=("float64", "complex128"),
    errors=[
        ErrorSample("hop", (np.ones(8),), ValueError, "hop_length > 0",
                    {"n_fft": 4, "hop_length": 0}),
        ErrorSample("window", (np.ones(8),), ValueError, r"\(win_length,\) = \(3,\)",
                    {"n_fft": 4, "win_length": 3, "window": HALVES}),
        ErrorSample("padding", (np.ones(8),), ValueError, "'edge'; choose one of 'constant'",
                    {"n_fft": 4, "pad_mode": "edge"}),
        ErrorSample("short", (np.ones(2),), ValueError, "at least 3 samples", {"n_fft": 4}),
        ErrorSample("too short", (np.ones(3),), ValueError, "do not fit into a signal of 3",
                    {"n_fft": 4, "center": False}),
        ErrorSample("real parts", (np.ones(8),), ValueError, "y.real",
                    {"n_fft": 4, "return_complex": False}),
        ErrorSample("two sides", (np.ones(8) + 1j,), ValueError, "onesided=True",
                    {"n_fft": 4, "onesided": True}),
        ErrorSample("axes", (np.ones((2, 2, 8)),), ValueError, r"\(B, L\)", {"n_fft": 4}),
    ],
)  # fmt: skip
register_op(
    "istft",
    over(
        [
            ((3, 5), {"n_fft": 4}),
            ((2, 3, 4), {"n_fft": 5, "hop_length": 2, "normalized": True}),
            ((3, 4), {"n_fft": 4, "center": False, "window": HALVES}),
            ((4, 3), {"n_fft": 7, "hop_length": 2, "win_length": 4, "window": HALVES}),
            ((4, 3), {"n_fft": 4, "hop_length": 2}),
            ((4, 3), {"n_fft": 4, "return_complex": True}),
            ((3, 4), {"n_fft": 4, "length": 2}),
            ((3, 4), {"n_fft": 4, "length": 9}),
        ]
    ),
    reference=_istft,
    dtypes=COMPLEX,
    errors=[
        ErrorSample("real", (np.ones((3, 4)),), ValueError, "must be complex", {"n_fft": 4}),
        ErrorSample("frequencies", (np.ones((2, 4)) + 0j,), ValueError, "3 frequencies",
                    {"n_fft": 4}),
        ErrorSample("gaps", (np.ones((3, 4)) + 0j,), ValueError, "the windows leave gaps",
                    {"n_fft": 4, "hop_length": 6}),
        ErrorSample("half of it", (np.ones((3, 4)) + 0j,), ValueError, "all frequencies",
                    {"n_fft": 4, "return_complex": True}),
    ],
)  # fmt: skip
