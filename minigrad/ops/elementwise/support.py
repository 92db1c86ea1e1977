"""Helpers for the rows of the table: zero gradients, 16-bit forwards, functions from SciPy."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.device import DeviceError, array_module
from ...backends.dtypes import accumulator, common_dtype, is_differentiable
from ...tensor_api.tensor import Tensor


def zero(g: Any) -> Any:
    """The product of g with a derivative that is 0: exact, also where g is infinite."""
    return np.zeros_like(g)


def recorded(*values: Any) -> bool:
    """Whether a rule is run on tensors, to be differentiated again."""
    for x in values:  # half the time of any()
        if isinstance(x, Tensor):
            return True
    return False


def are_finite(y: Any) -> bool:
    """Whether an array of NumPy's is known to hold finite numbers alone. On a small array argmax is
    faster than max, since NumPy runs it without Python code."""
    if type(y) is not np.ndarray or y.dtype.kind != "f" or not y.size:
        return False
    return y.item(y.argmax()) < np.inf and -np.inf < y.item(y.argmin())


def in_float32(forward: Callable) -> Callable:
    """A forward of one array, run in float32 for 16-bit floats, its results rounded once.

    NumPy computes float16 one element at a time through float32 anyway; a chain of steps is both
    quicker and more accurate when it stays there.
    """

    @functools.wraps(forward)
    def widened(x: Any, *args: Any, **params: Any) -> Any:
        x = x if hasattr(x, "dtype") else np.asarray(x)
        wide = accumulator(x.dtype)
        if wide is None and (x.dtype.kind in "bu" or x.dtype == np.int8):
            # −x of an unsigned integer would wrap round; float16, NumPy's for 8 bits, ends at 65504
            return forward(x.astype(np.result_type(x.dtype, np.float32)), *args, **params)
        if wide is None:
            return forward(x, *args, **params)
        y = forward(x.astype(wide), *args, **params)
        return tuple(a.astype(x.dtype) for a in y) if type(y) is tuple else y.astype(x.dtype)

    return widened


def ordered(x: Any, function: str = "") -> Any:
    """x, whose numbers must have an order: TypeError for complex ones, as in PyTorch. NumPy sorts
    these by their real parts, which no function made of pieces along the real line means. An op's
    errors name it; another function gives its name."""
    dtype = getattr(x, "dtype", None)
    if dtype is not None and dtype.kind == "c":
        raise TypeError(
            f"{function and function + ': '}x must be real, got {dtype}: complex numbers have no "
            "order. Apply it to x.real and x.imag, or to abs(x)"
        )
    return x


def by_other_means(wrong: Any, y: Any, function: Callable, *xs: Any) -> Any:
    """y, a fresh array of NumPy's, with function(*xs) where it is wrong; all are of one shape."""
    if not np.ndim(y):
        return function(*xs) if wrong else y
    places = np.nonzero(wrong)  # as a mask it would be walked once for each of the arrays
    y[places] = function(*[x[places] for x in xs])
    return y


LARGE = 1 << 13  # elements from which np.clip's dearer call pays


def _has_fast_clip(x: Any) -> bool:
    """Whether np.clip has a vectorised loop for x; np.maximum(x, 0) has none for a number."""
    return type(x) is np.ndarray and x.size >= LARGE and x.dtype.char in "fd"


def at_least_0(x: Any) -> Any:
    """max(x, 0), in a third of the time where x is large."""
    if not _has_fast_clip(x):
        return np.maximum(x, 0)
    y = x.clip(0, np.inf)  # np.clip would come to the same later
    y += 0  # −0 becomes 0, as in np.maximum
    return y


def at_most_0(x: Any) -> Any:
    """min(x, 0), in a third of the time where x is large."""
    return x.clip(-np.inf, 0) if _has_fast_clip(x) else np.minimum(x, 0)


def exp_as_quotient(x: Any) -> tuple:
    """(p, q) with eˣ = p/q, p = e^min(x, 0) and q = e^−max(x, 0): neither can overflow.

    Functions of eˣ become quotients of sums of these, with no cancellation in either tail:
    σ(x) = p/(p + q). Two exponentials are cheaper than one and an np.where.
    """
    return np.exp(at_most_0(x)), np.exp(-at_least_0(x))


def special_function(name: str) -> Callable:
    """The function of scipy.special (cupyx.scipy.special on a GPU), imported at its first use."""

    def call(*xs: Any) -> Any:
        array = next((x for x in reversed(xs) if hasattr(x, "dtype")), xs[-1])
        module = "scipy.special" if array_module(array) is np else "cupyx.scipy.special"
        try:
            function = getattr(importlib.import_module(module), name, None)
        except ImportError:
            raise ImportError(
                f"{name} comes from {module}, which is not installed: "
                "pip install '/path/to/the/checkout[full]'"
            ) from None
        if not callable(function):  # CuPy has modules, too, by the names of some
            raise DeviceError(
                f"{module} has no {name}, so there is none on a GPU: bring its arguments to the "
                'host, x.to("cpu")'
            )
        return function(*xs)

    call.__name__ = name
    return call


def in_dtype_of(x: Any, y: Any) -> Any:
    """y in the dtype of x, where that has fractions: some of SciPy's functions answer in float64
    for float32. Of integers y stays as it is."""
    return y.astype(x.dtype, copy=False) if is_differentiable(x.dtype) else y


def of_parameters(name: str) -> Callable:
    """SciPy's function of an order or a degree, more parameters and x: here x comes first, and the
    result is in its dtype."""
    general = special_function(name)

    @in_float32
    def forward(x: Any, *parameters: float) -> Any:
        return in_dtype_of(x, general(*parameters, x))

    return forward


def with_fractions(x: Any) -> Any:
    """x, integers as float64: −x of unsigned ones wraps round, and the logarithm of int8 is a
    float16, even next to a float64."""
    return x.astype(np.float64) if hasattr(x, "dtype") and x.dtype.kind in "biu" else x


def of_several(name: str, *xs: Any, least: type = np.float32) -> Any:
    """A function of several arrays, in floats of `least` or wider ones, rounded once.

    Some of SciPy's functions give float64 for a float32 array and a Python number, which is weak.
    """
    dtype = common_dtype(*xs)
    y = special_function(name)(*[at_least(least, x) for x in xs])
    return y.astype(dtype, copy=False) if is_differentiable(dtype) else y


def of_beta(name: str, *xs: Any) -> Any:
    """An incomplete beta function, in float64: SciPy's of float32 lose up to three digits."""
    return of_several(name, *xs, least=np.float64)


def at_least(dtype: type, x: Any) -> Any:
    """x in `dtype`, where it holds narrower floats."""
    if not hasattr(x, "dtype") or x.dtype.kind in "biu":
        return x
    return x.astype(dtype) if x.dtype.itemsize < np.dtype(dtype).itemsize else x


def number(op: str, name: str, value: Any, variable: str = "x") -> float:
    """A parameter in which there is no derivative, as in `variable`; TypeError for an array."""
    if not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(
            f"{op}: {name} must be a number, got {type(value).__name__}; the derivative is in "
            f"{variable}"
        )
    return float(value)


def whole_number(op: str, what: str, n: Any) -> int:
    """An order or a degree, 0 or more."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise ValueError(f"{op}: the {what} must be an integer, 0 or more, got {n!r}")
    return int(n)
