"""The standard's extension for discrete Fourier transforms."""

from collections.abc import Sequence
from typing import Any

from ..backends.device import resolve
from ..backends.dtypes import resolve_dtype
from ..engine.registry import op
from ..tensor_api.tensor import Tensor

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip

Axes = Sequence[int] | None


def fft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """y_k = Σ_j x_j e^(−2πi jk/n) along one axis. n cuts x or pads it with zeros."""
    return op.fft(x, n, axis, norm)


def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The inverse of fft."""
    return op.ifft(x, n, axis, norm)


def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The first n//2 + 1 frequencies of fft of a real x."""
    return op.rfft(x, n, axis, norm)


def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The inverse of rfft."""
    return op.irfft(x, n, axis, norm)


def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The real spectrum of a signal of which x holds the first half."""
    return op.hfft(x, n, axis, norm)


def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The inverse of hfft."""
    return op.ihfft(x, n, axis, norm)


def fftn(x: Any, /, *, s: Axes = None, axes: Axes = None, norm: str = "backward") -> Any:
    """fft along each of `axes` (None: all)."""
    return op.fftn(x, s, axes, norm)


def ifftn(x: Any, /, *, s: Axes = None, axes: Axes = None, norm: str = "backward") -> Any:
    """The inverse of fftn."""
    return op.ifftn(x, s, axes, norm)


def rfftn(x: Any, /, *, s: Axes = None, axes: Axes = None, norm: str = "backward") -> Any:
    """fftn of a real x, with the last axis cut to its first n//2 + 1 frequencies."""
    return op.rfftn(x, s, axes, norm)


def irfftn(x: Any, /, *, s: Axes = None, axes: Axes = None, norm: str = "backward") -> Any:
    """The inverse of rfftn."""
    return op.irfftn(x, s, axes, norm)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Tensor:
    """The frequencies of fft for n samples at a distance of d."""
    return _frequencies(resolve(device).fft.fftfreq(n, d), dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Tensor:
    """The frequencies of rfft for n samples at a distance of d."""
    return _frequencies(resolve(device).fft.rfftfreq(n, d), dtype)


def _frequencies(values: Any, dtype: Any) -> Tensor:
    return Tensor(values if dtype is None else values.astype(resolve_dtype(dtype)))


def fftshift(x: Any, /, *, axes: Any = None) -> Any:
    """Frequency 0 moved to the middle of each axis (None: of all)."""
    return op.fftshift(x, axes)


def ifftshift(x: Any, /, *, axes: Any = None) -> Any:
    """The inverse of fftshift."""
    return op.ifftshift(x, axes)
