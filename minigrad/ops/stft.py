"""The short-time Fourier transform and its inverse, with PyTorch's arguments.

Compositions: windows of the signal (unfold), times the window function, by rfft or fft. So all have
derivatives of any order, the window function too.
"""

import operator
from typing import Any

import numpy as np

from ..engine.graph import raw
from ..engine.registry import op
from ..tensor_api.composite import composite, on_its_gpu
from .axes import array_beside, array_like, as_floating, constant_like

__all__ = ["istft", "stft"]

_PAD = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
_GAP = 1e-11  # PyTorch's least sum of squared windows that istft divides by


@composite
def stft(
    x: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
    onesided: bool | None = None, return_complex: bool = True,
) -> Any:  # fmt: skip
    """y[k, m] = Σ_j w_j x[m hop_length + j] e^(−2πi jk/n_fft): the spectra of windows of a signal

    x (L,) or (B, L) -> (n_fft//2 + 1, M) or (B, n_fft//2 + 1, M), complex; with onesided=False, as
    for a complex x or window, all n_fft frequencies. hop_length: n_fft//4. window w (win_length,):
    ones; where it is shorter than n_fft, zeros are added on both sides. center: window m is around
    x[m hop_length], so x is continued by n_fft//2 on both sides as pad_mode says: 'reflect',
    'constant' (zeros), 'replicate' or 'circular'. normalized: times 1/√n_fft.
    """
    x, n_fft = as_floating(array_like(x)), operator.index(n_fft)
    hop, w = _window("stft", x, n_fft, hop_length, win_length, window)
    if not return_complex:
        raise ValueError("stft: the result is complex; y.real and y.imag are its parts")
    if x.ndim not in (1, 2):
        raise ValueError(f"stft: x must be a signal (L,) or several (B, L), got shape {x.shape}")
    if center:
        x = _continued(x, n_fft // 2, pad_mode)
    if x.shape[-1] < n_fft:
        raise ValueError(f"stft: n_fft={n_fft} samples do not fit into a signal of {x.shape[-1]}")
    frames = op.unfold(x, axis=x.ndim - 1, size=n_fft, step=hop) * w
    if onesided is None:
        onesided = frames.dtype.kind != "c"
    elif onesided and frames.dtype.kind == "c":
        raise ValueError("stft: onesided=True, but the spectrum of a complex x or window has two")
    y = (op.rfft if onesided else op.fft)(frames, norm="ortho" if normalized else None)
    return op.swapaxes(y, axis1=-1, axis2=-2)


@composite
@on_its_gpu
def istft(
    x: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Any = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Any:  # fmt: skip
    """The signal whose stft, with the same arguments, is closest to x in least squares

    y = Σ_m w · ifft(x_m) / Σ_m w², each term in its place (Griffin and Lim 1984). x (n_fft//2 + 1,
    M), or (n_fft, M) with all frequencies, with or without a batch axis in front -> (L,) or (B, L).
    length: of the result, cut off or continued with zeros. ValueError where Σ_m w² is 0 within the
    result: the values there are lost. With return_complex all frequencies are needed. A real result
    is made from the first half of them, as the others are its conjugates.
    """
    x, n_fft = array_like(x), operator.index(n_fft)
    hop, w = _window("istft", x, n_fft, hop_length, win_length, window)
    onesided = _half_spectrum(x, n_fft, onesided)
    if return_complex and onesided:
        raise ValueError("istft: return_complex=True needs all frequencies, onesided=False")
    transform = op.ifft if return_complex else op.irfft  # which takes the first half alone
    norm = "ortho" if normalized else None
    frames = transform(op.swapaxes(x, axis1=-1, axis2=-2), n_fft, norm=norm) * w
    *batch, count, _ = frames.shape
    total = n_fft + hop * (count - 1)
    weights = op.broadcast_to(w * w, shape=(count, n_fft))
    y = op.unfold_dx(frames, axis=len(batch), size=n_fft, step=hop, shape=(*batch, total))
    weight = op.unfold_dx(weights, axis=0, size=n_fft, step=hop, shape=(total,))
    start = n_fft // 2 if center else 0
    stop = start + length if length is not None else total - start
    y, weight = y[..., start:stop], weight[start:stop]
    if weight.size == 0 or not (abs(raw(weight)) > _GAP).all():
        raise ValueError(
            f"istft: the windows leave gaps (Σ w² is 0 somewhere between samples {start} and "
            f"{min(stop, total)} of {total}); choose a smaller hop_length than {hop}, a window "
            "without zeros inside, or center=True"
        )
    y, missing = y / weight, stop - total
    return op.pad_zeros(y, widths=((0, 0),) * len(batch) + ((0, missing),)) if missing > 0 else y


def _window(
    name: str, x: Any, n_fft: int, hop: int | None, win_length: int | None, window: Any
) -> tuple[int, Any]:
    """The checked hop_length, and the window function with zeros up to n_fft."""
    hop = n_fft // 4 if hop is None else operator.index(hop)
    size = n_fft if win_length is None else operator.index(win_length)
    if not (n_fft > 0 and hop > 0 and 0 < size <= n_fft):
        raise ValueError(
            f"{name}: needs n_fft > 0, hop_length > 0 and 0 < win_length <= n_fft; got "
            f"n_fft={n_fft}, hop_length={hop}, win_length={size}"
        )
    if window is None:
        real = np.empty(0, x.dtype).real.dtype
        window = constant_like(np.ones(size, real), x)
    window = as_floating(array_beside(window, x))
    if window.shape != (size,):
        raise ValueError(
            f"{name}: window has shape {window.shape}; it must be (win_length,) = ({size},)"
        )
    before = (n_fft - size) // 2
    if size < n_fft:
        window = op.pad_zeros(window, widths=((before, n_fft - size - before),))
    return hop, window


def _continued(x: Any, n: int, mode: str) -> Any:
    """x with n samples more on both sides."""
    if mode not in _PAD:
        raise ValueError(f"stft: pad_mode={mode!r}; choose one of {', '.join(map(repr, _PAD))}")
    least = {"constant": 0, "reflect": n + 1, "replicate": 1, "circular": n}[mode]
    if x.shape[-1] < least:
        raise ValueError(
            f"stft: center=True with pad_mode={mode!r} needs a signal of at least {least} samples "
            f"(n_fft//2 = {n} are added on each side), got {x.shape[-1]}; try 'constant'"
        )
    return op.pad(x, ((0, 0),) * (x.ndim - 1) + ((n, n),), mode=_PAD[mode])


def _half_spectrum(x: Any, n_fft: int, onesided: bool | None) -> bool:
    """Whether x has the first half of the frequencies only; an error where it fits neither."""
    if x.dtype.kind != "c" or x.ndim not in (2, 3):
        raise ValueError(
            "istft: x must be complex, of shape (frequencies, windows) or (batch, frequencies, "
            f"windows); got {x.dtype} {x.shape}"
        )
    found = x.shape[-2]
    half = found != n_fft if onesided is None else onesided
    expected = n_fft // 2 + 1 if half else n_fft
    if found != expected or x.shape[-1] == 0:
        raise ValueError(
            f"istft: n_fft={n_fft} with onesided={half} goes with {expected} frequencies and at "
            f"least one window; x has shape {x.shape}"
        )
    return half
