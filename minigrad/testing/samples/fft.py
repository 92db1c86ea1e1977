"""Samples of discrete Fourier transforms: odd and even lengths, cut and padded, every norm."""

import numpy as np

from ..spec import ErrorSample, register_op
from .forms import normal, over

REAL = ("float64", "float32", "float16", "bfloat16")
COMPLEX = (*REAL, "complex128", "complex64")
SPECTRA = ("complex128", "complex64", "float64", "float32")  # half spectra may be real

ONE_AXIS = [
    ((6,), {}), ((5,), {}), ((2, 3), {"axis": 0}), ((5,), {"n": 8}), ((6,), {"n": 3}),
    ((3, 4), {"n": 2, "axis": 0, "norm": "ortho"}), ((4,), {"norm": "forward"}), ((1,), {}),
    ((5,), {"norm": "ortho", "n": 7}),
]  # fmt: skip
TWO_AXES = [
    ((3, 4), {}), ((2, 3, 2), {}), ((2, 3, 4), {"axes": (0, 2)}), ((3, 4), {"s": (4, 3)}),
    ((4, 3), {"norm": "ortho"}), ((3, 5), {"norm": "forward", "s": (-1, 6), "axes": (1, 0)}),
]  # fmt: skip
ALL_AXES = [((2, 3, 4), {}), ((5,), {}), ((3, 2), {"axes": (1,)}), ((3, 4), {"axes": (-1, 0)})]

NORM = ErrorSample(
    "norm", (np.ones((3, 3)),), ValueError, "norm='both'; choose 'backward'", {"norm": "both"}
)
NO_POINTS = ErrorSample(
    "no points", (np.ones(3),), ValueError, "0 data points along axis 0", {"n": 0}
)
AXIS = ErrorSample("axis", (np.ones(3),), np.exceptions.AxisError, "out of bounds", {"axis": 1})
LENGTHS = ErrorSample(
    "lengths", (np.ones((3, 3)),), ValueError, r"1 lengths s=\(2,\) for 2 axes",
    {"s": (2,), "axes": (0, 1)},
)  # fmt: skip
REAL_ONLY = ErrorSample("complex", (np.ones(3) + 0j,), TypeError, "needs a real array.*complex128")


def half_spectra(forms):
    """Forms that leave at least one point in the result without a given length."""
    return [(shape, params) for shape, params in forms if shape != (1,)]


for _name in ("fft", "ifft"):
    register_op(
        _name, over(ONE_AXIS), reference=getattr(np.fft, _name), dtypes=COMPLEX,
        errors=[NORM, NO_POINTS, AXIS],
    )  # fmt: skip
for _name in ("rfft", "ihfft"):
    register_op(
        _name, over(ONE_AXIS), reference=getattr(np.fft, _name), dtypes=REAL,
        errors=[NORM, NO_POINTS, AXIS, REAL_ONLY],
    )  # fmt: skip
for _name in ("irfft", "hfft"):
    register_op(
        _name, over(half_spectra(ONE_AXIS)), reference=getattr(np.fft, _name), dtypes=SPECTRA,
        errors=[
            NORM,
            ErrorSample("one point", (np.ones(1),), ValueError, "0 data points.*give n"),
        ],
    )  # fmt: skip
TWICE = ((2, 3), {"s": (2, 4), "axes": (1, 1)})  # one axis, the last length first
for _name in ("fft2", "ifft2", "fftn", "ifftn"):
    _forms = [*TWO_AXES, TWICE, *(ALL_AXES if _name.endswith("n") else [])]
    register_op(
        _name, over(_forms), reference=getattr(np.fft, _name), dtypes=COMPLEX,
        errors=[NORM, LENGTHS],
    )  # fmt: skip
for _name in ("rfft2", "rfftn"):
    _forms = [*TWO_AXES, TWICE, *(ALL_AXES if _name.endswith("n") else [])]
    register_op(
        _name, over(_forms), reference=getattr(np.fft, _name), dtypes=REAL, errors=[NORM, LENGTHS]
    )
for _name in ("irfft2", "irfftn"):
    _forms = [*TWO_AXES, TWICE, *(ALL_AXES if _name.endswith("n") else [])]
    register_op(
        _name, over(_forms), reference=getattr(np.fft, _name), dtypes=SPECTRA,
        errors=[NORM, LENGTHS],
    )  # fmt: skip
for _name in ("fftshift", "ifftshift"):
    register_op(
        _name,
        over([((5,), {}), ((4,), {}), ((3, 4), {}), ((3, 4, 2), {"axes": (0, -1)}),
              ((3, 4), {"axes": 1}), ((3, 4), {"axes": (0, 0)})]),
        reference=getattr(np.fft, _name),
        dtypes=COMPLEX,
    )  # fmt: skip

# -- the primitives ----------------------------------------------------------------------------

_AXES = [((5,), {"axes": (0,)}), ((2, 3, 4), {"axes": (2, 0)}), ((6,), {"axes": (0,)})]
_EVERY = [
    *_AXES,
    ((2, 2, 3), {"axes": (0, 2, 1)}),
    *[((4,), {"axes": (0,), "norm": norm}) for norm in ("ortho", "forward")],
]


def _dft(x, axes, norm="backward", inverse=False):
    return (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=axes, norm=norm)


def _irdft(x, n, axes, norm="backward"):
    if x.shape[axes[-1]] != n // 2 + 1:  # NumPy would cut or pad; irfft does that before irdft
        raise ValueError("a spectrum of another length")
    return np.fft.irfftn(x, [*[x.shape[axis] for axis in axes[:-1]], n], axes, norm)


register_op(
    "dft",
    over([*_EVERY, ((3,), {"axes": (0,), "inverse": True})], normal),
    reference=_dft,
    dtypes=SPECTRA,
)
register_op(
    "rdft",
    over(_EVERY, normal),
    reference=lambda x, axes, norm="backward": np.fft.rfftn(x, axes=axes, norm=norm),
    dtypes=("float64", "float32"),
)
_ANOTHER = ErrorSample(
    "another length", (np.ones(3),), ValueError, "n=7 needs 4 frequencies",
    {"n": 7, "axes": (0,)},
)  # fmt: skip
register_op(
    "irdft",
    over(
        [((3,), {"n": 4, "axes": (0,)}), ((3,), {"n": 5, "axes": (0,), "norm": "ortho"}),
         ((2, 3, 3), {"n": 5, "axes": (0, 1)}), ((1,), {"n": 1, "axes": (0,), "norm": "forward"})],
        normal,
    ),
    reference=_irdft,
    errors=[_ANOTHER],
    dtypes=SPECTRA,
)  # fmt: skip
