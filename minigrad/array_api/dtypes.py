"""Data types, their ranges and promotion; constants; the capabilities of this implementation."""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import cuda
from ..backends import dtypes
from ..engine.registry import op
from ..tensor_api.tensor import Tensor

__all__ = [
    "__array_namespace_info__", "astype", "bool", "can_cast", "complex128", "complex64", "e",
    "finfo", "float32", "float64", "iinfo", "inf", "int16", "int32", "int64", "int8", "isdtype",
    "nan", "newaxis", "pi", "result_type", "uint16", "uint32", "uint64", "uint8",
]  # fmt: skip

bool = np.dtype("bool")
int8, int16, int32, int64 = [np.dtype(name) for name in ("int8", "int16", "int32", "int64")]
uint8, uint16, uint32, uint64 = [
    np.dtype(name) for name in ("uint8", "uint16", "uint32", "uint64")
]  # fmt: skip
float32, float64 = np.dtype("float32"), np.dtype("float64")
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

e, inf, nan, newaxis, pi = np.e, np.inf, np.nan, None, np.pi


def astype(x: Any, dtype: Any, /, *, copy: Any = True, device: str | None = None) -> Any:
    """x in another dtype; a gradient comes back in x's own."""
    y = op.astype(x, dtype, copy=copy)
    return y if device is None else op.to(y, device)


@dataclass(frozen=True)
class FloatInfo:
    """Limits of a floating dtype (of the parts of a complex one), as Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype


def finfo(type: Any, /) -> FloatInfo:
    """Limits of a floating or complex dtype, or of an array's."""
    info = dtypes.finfo(_dtype_of(type))
    return FloatInfo(
        bits=int(info.bits),
        eps=float(info.eps),
        max=float(info.max),
        min=float(info.min),
        smallest_normal=float(info.smallest_normal),
        dtype=np.dtype(info.dtype),
    )


def iinfo(type: Any, /) -> np.iinfo:
    """Limits of an integer dtype, or of an array's: bits, max, min, dtype."""
    return np.iinfo(_dtype_of(type))


def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether every value of one dtype (or of an array's) fits into another, as a Python bool."""
    return np.can_cast(_dtype_of(from_), to)


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether a dtype is of a kind: "bool", "integral", "real floating" ..., a dtype, or a tuple.

    bfloat16 counts as "real floating".
    """
    if dtype == dtypes.bfloat16:
        kinds = kind if isinstance(kind, tuple) else (kind,)
        return not {"real floating", "numeric", dtype}.isdisjoint(kinds)
    return np.isdtype(dtype, kind)


def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The dtype in which arrays, dtypes and Python numbers meet; the numbers are weak."""
    return np.result_type(*[x.dtype if isinstance(x, Tensor) else x for x in arrays_and_dtypes])


def _dtype_of(x: Any) -> np.dtype:
    return x.dtype if isinstance(x, Tensor | np.ndarray) else np.dtype(x)


class NamespaceInfo:
    """What `__array_namespace_info__()` answers; dtypes are NumPy's, on every device."""

    def capabilities(self) -> dict:
        """Optional parts of the standard, all of which are here."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 64,  # NumPy's
        }

    def default_device(self) -> str:
        return "cpu"

    def devices(self) -> list[str]:
        """ "cpu", and the GPUs that CuPy sees once it has been imported."""
        gpus = cuda.device_count() if "cupy" in sys.modules else 0
        return ["cpu", *[f"cuda:{i}" for i in range(gpus)]]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, Any]:
        """The dtypes of results where none is given, by kind."""
        return {**np.__array_namespace_info__().default_dtypes()}

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, np.dtype]:
        """The standard's dtypes by name; with `kind`, those of that kind (see isdtype)."""
        return np.__array_namespace_info__().dtypes(kind=kind)


def __array_namespace_info__() -> NamespaceInfo:
    """The capabilities of this implementation of the standard."""
    return NamespaceInfo()
