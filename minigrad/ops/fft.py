"""Discrete Fourier transforms. Their public names are those of the namespace mg.fft.

Three linear primitives do the work, on axes of full length: `dft` (complex to complex), `rdft`
(real to half of a spectrum), `irdft` (back). NumPy's functions cut or pad their input (`n`, `s`)
and call one of them. The transpose of each is a transform in the other direction. With the unscaled
matrix F_kn = e^(−2πi kn/N), Fᴴ is the inverse transform without its 1/N, that is, with the opposite
`norm`.
"""

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from ..engine.primitive import linear
from ..engine.registry import op
from ..tensor_api.composite import composite
from .axes import array_like, axis_of, module_of, widen
from .batching import behind

__all__: list[str] = []  # mg.fft is the namespace, not an op

_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


@linear
def dft(x, *, axes, norm: Any = "backward", inverse=False):
    """y_k = Σ_n x_n e^(−2πi kn/N), + in the exponent if inverse ;  gx = the other direction of g

    Over each of `axes`. norm: which direction is divided by N, or both by √N ("ortho"). A real x
    gets the real part of gx, by the engine.
    """
    return (np.fft.ifftn if inverse else np.fft.fftn)(widen(x), axes=axes, norm=norm)


@dft.vjp("x")
def dft_dx(g, axes, norm, inverse):
    return dft(g, axes=axes, norm=_OPPOSITE[norm], inverse=not inverse)


@linear
def rdft(x, *, axes, norm: Any = "backward"):
    """dft of a real x with the last of `axes` cut to frequencies 0 … N/2: the rest is conjugate.

    gx = Re Σ_k g_k e^(2πi kn/N) over those alone. irdft counts the frequencies between 0 and N/2
    twice, once for their conjugates, so g is halved there.
    """
    return np.fft.rfftn(widen(x), axes=axes, norm=norm)


@rdft.vjp("x")
def rdft_dx(g, x_shape, axes, norm):
    n = x_shape[axes[-1]]
    g = np.where(_twice_in_spectrum(g, n, axes[-1]), g * 0.5, g)
    return irdft(g, n=n, axes=axes, norm=_OPPOSITE[norm])


@linear
def irdft(x, *, n, axes, norm: Any = "backward"):
    """The real signal, n long in the last of `axes`, of which x holds the spectrum's first half.

    x has n//2 + 1 frequencies there; imaginary parts at 0 and n/2 have no effect. gx = rdft(g),
    doubled at the frequencies between, which represent their conjugates as well.
    """
    if x.shape[axes[-1]] != n // 2 + 1:
        raise ValueError(f"n={n} needs {n // 2 + 1} frequencies in the last of axes={axes}")
    lengths = [x.shape[axis] for axis in axes[:-1]]
    return np.fft.irfftn(widen(x), s=[*lengths, n], axes=axes, norm=norm)


@irdft.vjp("x")
def irdft_dx(g, n, axes, norm):
    y = rdft(g, axes=axes, norm=_OPPOSITE[norm])
    return np.where(_twice_in_spectrum(y, n, axes[-1]), y * 2, y)


def _twice_in_spectrum(x: Any, n: int, axis: int) -> Any:
    """Where along `axis` a frequency of a length-n spectrum has a conjugate elsewhere in it."""
    k = module_of(x).arange(n // 2 + 1).reshape((-1, *(1,) * (x.ndim - 1 - axis % x.ndim)))
    return (k > 0) & (2 * k < n)


def _axes_batch(op: Any, xs: list, batched: list[bool], params: dict) -> Any:
    """vmap's batch axis is in front: the axes lie one further back."""
    (x,) = xs
    return op(x, **{**params, "axes": behind(params["axes"], x.ndim - 1)})


for _op in (dft, rdft, irdft):
    _op.batch(_axes_batch)


# -- NumPy's functions -----------------------------------------------------------------------


def _arguments(x: Any, s: Any, axes: Any, norm: Any) -> tuple[Any, tuple, list, str]:
    """(x, axes from the front, lengths s or None for each, norm) as NumPy reads them."""
    x = array_like(x)
    for name, several in ("s", s), ("axes", axes):
        if several is not None and not hasattr(several, "__len__"):
            raise TypeError(f"fft: {name} must be a tuple, one for each axis, got {several!r}")
    if axes is None:  # of more lengths than axes the first is out of bounds
        axes = range(x.ndim) if s is None else range(-len(s), 0)
    axes = tuple([axis_of(axis, x.ndim) for axis in axes])
    if s is not None and not all(n is None or hasattr(n, "__index__") for n in s):
        raise TypeError(f"fft: the lengths n or s must be integers, got {s}")
    # as Python's numbers: 6 - 200 of a uint8 wraps round
    given = [None] * len(axes) if s is None else [None if n is None else index(n) for n in s]
    if len(given) != len(axes):
        raise ValueError(f"fft: {len(given)} lengths s={s} for {len(axes)} axes {axes}")
    lengths = [x.shape[i] if n == -1 else n for i, n in zip(axes, given, strict=True)]
    norm = "backward" if norm is None else norm
    if norm not in _OPPOSITE:
        raise ValueError(f"fft: norm={norm!r}; choose 'backward', 'ortho' or 'forward'")
    return x, axes, lengths, norm


def _resized(x: Any, axes: Sequence[int], lengths: Sequence[int | None]) -> Any:
    """x cut off, or continued with zeros, to these lengths; None leaves an axis as it is."""
    kept, widths = [slice(None)] * x.ndim, [(0, 0)] * x.ndim
    for axis, given in zip(axes, lengths, strict=True):
        n = x.shape[axis] if given is None else given
        if n < 1:
            raise ValueError(
                f"fft: {n} data points along axis {axis} of an array of shape {x.shape}; a "
                "transform needs at least one"
            )
        kept[axis] = slice(n)
        widths[axis] = (0, max(n - x.shape[axis], 0))
    if any(s.stop is not None and s.stop < n for s, n in zip(kept, x.shape, strict=True)):
        x = x[tuple(kept)]
    return op.pad_zeros(x, widths=tuple(widths)) if any(after for _, after in widths) else x


def _one_by_one(x: Any, axes: Sequence[int], lengths: Sequence, norm: str, inverse: bool) -> Any:
    """dft along each axis in turn, for axes named twice: that one is transformed twice."""
    for axis, n in zip(axes, lengths, strict=True):
        x = dft(_resized(x, (axis,), (n,)), axes=(axis,), norm=norm, inverse=inverse)
    return x


def _twice(x: Any, axes: tuple, lengths: list) -> list | None:
    """The length of each transform, x's own where none is given, if an axis is named twice."""
    if len(set(axes)) == len(axes):
        return None
    return [x.shape[i] if n is None else n for i, n in zip(axes, lengths, strict=True)]


def _complex_transform(x: Any, s: Any, axes: Any, norm: Any, inverse: bool) -> Any:
    x, axes, lengths, norm = _arguments(x, s, axes, norm)
    if not axes:
        return x.copy()
    if (full := _twice(x, axes, lengths)) is not None:  # the last one first
        return _one_by_one(x, axes[::-1], full[::-1], norm, inverse)
    return dft(_resized(x, axes, lengths), axes=axes, norm=norm, inverse=inverse)


def _real_transform(x: Any, s: Any, axes: Any, norm: Any) -> Any:
    x, axes, lengths, norm = _arguments(x, s, axes, norm)
    if not axes or x.dtype.kind == "c":
        raise TypeError(
            f"rfft: needs a real array and at least one axis; got {x.dtype} {x.shape}, axes {axes}"
        )
    if (full := _twice(x, axes, lengths)) is not None:
        x = rdft(_resized(x, axes[-1:], full[-1:]), axes=axes[-1:], norm=norm)
        return _one_by_one(x, axes[-2::-1], full[-2::-1], norm, inverse=False)
    return rdft(_resized(x, axes, lengths), axes=axes, norm=norm)


def _to_real_transform(x: Any, s: Any, axes: Any, norm: Any) -> Any:
    x, axes, lengths, norm = _arguments(x, s, axes, norm)
    if not axes:
        raise ValueError("irfft: needs at least one axis")
    n = 2 * (x.shape[axes[-1]] - 1) if lengths[-1] is None else lengths[-1]
    if n < 1:
        raise ValueError(
            f"irfft: {n} data points along axis {axes[-1]}; give n, the length of the result"
        )
    if (full := _twice(x, axes, lengths)) is not None:
        x = _one_by_one(x, axes[:-1], full[:-1], norm, inverse=True)
        axes, lengths = axes[-1:], lengths[-1:]
    x = _resized(x, axes, [*lengths[:-1], n // 2 + 1])
    return irdft(x, n=n, axes=axes, norm=norm)


def _one(n: int | None) -> tuple | None:
    """The length n of one axis. −1 means "as it is" among several lengths only, as in NumPy."""
    if n == -1:
        raise ValueError("fft: n=-1 data points; a transform needs at least one, or n=None")
    return None if n is None else (n,)


@composite(numpy=np.fft.fft)
def fft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """y_k = Σ_j x_j e^(−2πi jk/n) along one axis. n cuts x or pads it with zeros.

    norm: None or "backward" (ifft divides by n), "ortho" (both by √n), "forward" (fft divides).
    """
    return _complex_transform(x, _one(n), (axis,), norm, inverse=False)


@composite(numpy=np.fft.ifft)
def ifft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of fft: y_j = 1/n Σ_k x_k e^(2πi jk/n)."""
    return _complex_transform(x, _one(n), (axis,), norm, inverse=True)


@composite(numpy=np.fft.fftn)
def fftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """fft along each of `axes` (None: all, or as many last ones as s has lengths; −1: as it is)."""
    return _complex_transform(x, s, axes, norm, inverse=False)


@composite(numpy=np.fft.ifftn)
def ifftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """The inverse of fftn."""
    return _complex_transform(x, s, axes, norm, inverse=True)


@composite(numpy=np.fft.fft2)
def fft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """fft along two axes."""
    return _complex_transform(x, s, axes, norm, inverse=False)


@composite(numpy=np.fft.ifft2)
def ifft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """The inverse of fft2."""
    return _complex_transform(x, s, axes, norm, inverse=True)


@composite(numpy=np.fft.rfft)
def rfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The first n//2 + 1 frequencies of fft of a real x; the others are their conjugates."""
    return _real_transform(x, _one(n), (axis,), norm)


@composite(numpy=np.fft.rfftn)
def rfftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """fftn of a real x, with the last axis cut to its first n//2 + 1 frequencies."""
    return _real_transform(x, s, axes, norm)


@composite(numpy=np.fft.rfft2)
def rfft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """rfftn along two axes."""
    return _real_transform(x, s, axes, norm)


@composite(numpy=np.fft.irfft)
def irfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of rfft: a real y, n long (None: an even length, twice x's minus 2)."""
    return _to_real_transform(x, _one(n), (axis,), norm)


@composite(numpy=np.fft.irfftn)
def irfftn(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Any:
    """The inverse of rfftn; s holds the lengths of the result, −1 for that of x."""
    return _to_real_transform(x, s, axes, norm)


@composite(numpy=np.fft.irfft2)
def irfft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None) -> Any:
    """irfftn along two axes."""
    return _to_real_transform(x, s, axes, norm)


@composite(numpy=np.fft.hfft)
def hfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The real spectrum, n long, of a signal of which x holds the first half (the rest: conj)."""
    norm = _arguments(x, _one(n), (axis,), norm)[-1]
    return irfft(op.conj(x), n, axis, _OPPOSITE[norm])


@composite(numpy=np.fft.ihfft)
def ihfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of hfft: half of the signal whose spectrum is the real x."""
    norm = _arguments(x, _one(n), (axis,), norm)[-1]
    return op.conj(rfft(x, n, axis, _OPPOSITE[norm]))


@composite(numpy=np.fft.fftshift)
def fftshift(x: Any, axes: Any = None) -> Any:
    """Frequency 0 moved to the middle of each axis (None: of all)."""
    return _rolled(x, axes, 1)


@composite(numpy=np.fft.ifftshift)
def ifftshift(x: Any, axes: Any = None) -> Any:
    """The inverse of fftshift; the two differ where a length is odd."""
    return _rolled(x, axes, -1)


def _rolled(x: Any, axes: Any, sign: int) -> Any:
    x = array_like(x)
    axes = range(x.ndim) if axes is None else axes if np.iterable(axes) else (axes,)
    axes = tuple([axis_of(axis, x.ndim) for axis in axes])  # one named twice is moved twice
    return op.roll(x, tuple([sign * (x.shape[axis] // 2) for axis in axes]), axis=axes)
