"""The dtypes of NumPy's computations, for steps that are recorded and not run."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.dtypes import is_floating

COMPARISONS = {
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan", "isinf",
    "isfinite", "logical_and", "logical_or", "logical_not", "logical_xor", "signbit",
}  # fmt: skip
_OF_FLOATS = {"isnan", "isinf", "isfinite", "signbit"}  # kernels have them only for floats
_EXACT = {"add", "subtract", "multiply", "negative", "positive", "absolute", "sign", "maximum",
          "minimum", "square"}  # fmt: skip


def common_dtype(dtypes: Sequence[Any]) -> np.dtype:
    """The dtype of all of these together."""
    return dtypes[0] if len(set(dtypes)) == 1 else np.result_type(*dtypes)


def dtype_of_number(x: Any, common: Any) -> np.dtype | None:
    """NumPy's dtype of a number in an op with arrays of a dtype; None: the number does not fit."""
    # no NumPy scalar is weak, not even float64, which is a subclass of Python's float
    is_weak = is_floating(common) or isinstance(x, bool)
    is_weak |= isinstance(x, int) and common.kind in "iu"
    kind = common if is_weak and not isinstance(x, np.generic) else np.result_type(common, type(x))
    fits = kind.kind not in "iu" or np.iinfo(kind).min <= int(x) <= np.iinfo(kind).max
    return kind if fits else None


def dtype_of_step(name: str, dtypes: Sequence[Any]) -> np.dtype | None:
    """NumPy's dtype for computing a function of arrays of these dtypes.

    None where kernels would compute different numbers.
    """
    common = common_dtype(dtypes)
    if common.kind == "c":
        return None
    if common.kind in "biu":
        return _dtype_of_whole_numbers(name, dtypes)
    if name in COMPARISONS and all(dtype.kind in "biu" for dtype in dtypes):
        return None  # int64 with uint64: different numbers may be equal in float64
    if name == "float_power":
        return np.result_type(common, np.float64)
    if common == np.float16 and not hasattr(np, name):  # SciPy's functions have no half precision
        function = ufunc_of(name)
        return function.resolve_dtypes((*[common] * function.nin, None))[-1]
    return common


def _dtype_of_whole_numbers(name: str, dtypes: Sequence[Any]) -> np.dtype | None:
    """The dtype for computing a function of integers or truth values.

    None for a function of integers that kernels would compute differently.
    """
    if name in _OF_FLOATS or name == "float_power":
        return np.dtype(np.float64)
    if name in COMPARISONS:
        return common_dtype(dtypes)
    function = ufunc_of(name)
    found = function.resolve_dtypes((*dtypes, *[None] * function.nout))[-1]
    return found if found.kind == "f" or name in _EXACT else None


def ufunc_of(name: str) -> Any:
    """The ufunc of this name, NumPy's or one of SciPy's special functions."""
    if hasattr(np, name):
        return getattr(np, name)
    import scipy.special

    return getattr(scipy.special, name)
