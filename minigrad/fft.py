"""mg.fft: discrete Fourier transforms, by NumPy's names and conventions (see ops/fft.py)."""

from typing import Any

from .backends.device import resolve
from .backends.dtypes import resolve_dtype
from .ops.fft import (
    fft,
    fft2,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)
from .tensor_api.help import missing_names_of as _missing_names_of
from .tensor_api.help import with_call_context
from .tensor_api.tensor import Tensor

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


@with_call_context
def fftfreq(n: int, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Tensor:
    """The frequencies, in cycles per unit, of fft's n results for samples d apart: k/(n d)."""
    return _made("fftfreq", n, d, dtype, device)


@with_call_context
def rfftfreq(n: int, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Tensor:
    """The frequencies of rfft's n//2 + 1 results."""
    return _made("rfftfreq", n, d, dtype, device)


def _made(name: str, n: int, d: Any, dtype: Any, device: str | None) -> Tensor:
    if isinstance(d, Tensor):  # which may be differentiated
        return _made(name, n, 1.0, dtype, device) / d
    frequencies = getattr(resolve(device).fft, name)(n, d)
    return Tensor(frequencies if dtype is None else frequencies.astype(resolve_dtype(dtype)))


__getattr__ = _missing_names_of(__name__)
