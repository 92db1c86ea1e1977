"""Questions about dtypes that NumPy answers differently for bfloat16 than for its own types."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

try:
    import ml_dtypes

    bfloat16: np.dtype | None = np.dtype(ml_dtypes.bfloat16)
except ImportError:  # the extra `full` installs it
    bfloat16 = None

INSTALL = "pip install '/path/to/the/checkout[full]'"
NUMBERS = (float, int, complex, bool)
WITHOUT_DTYPE = {*NUMBERS, type(None)}
KINDS = "biufcV"  # of dtypes that a tensor may have; V is bfloat16's
_NUMPYS = {np.dtype(code).type for code in "?bhilqBHILQefdFD"}


def is_floating(dtype: Any) -> bool:
    """Whether the dtype is a real floating type, bfloat16 included."""
    return dtype.kind == "f" or dtype == bfloat16


def is_differentiable(dtype: Any) -> bool:
    """Whether a tensor of this dtype can carry a gradient: floating or complex."""
    return dtype.kind in "fc" or dtype == bfloat16


def accumulator(dtype: Any) -> Any:
    """The dtype for sums of this dtype: float32 for 16-bit floats, else None."""
    return np.float32 if dtype.itemsize == 2 and is_floating(dtype) else None


def common_dtype(*arrays: Any) -> np.dtype:
    """The dtype of a sum of these arrays, numbers or dtypes, and of ops that join or mix them.

    np.result_type refuses bfloat16 with float16 or with integers of 16 bits and more, though NumPy
    adds them: bfloat16 counts as float32 in this case.
    """
    try:
        return np.result_type(*arrays)
    except TypeError:
        kinds = [getattr(x, "dtype", x) for x in arrays]
        return np.result_type(*[np.float32 if kind is bfloat16 else kind for kind in kinds])


def in_one_dtype(*arrays: Any) -> tuple:
    """The arrays, in their common dtype if bfloat16 is among several dtypes."""
    dtypes = {x.dtype for x in arrays if hasattr(x, "dtype")}
    if len(dtypes) < 2 or bfloat16 not in dtypes:
        return arrays
    dtype = common_dtype(*dtypes)
    return tuple([x.astype(dtype, copy=False) if hasattr(x, "dtype") else x for x in arrays])


def weak_scalars(values: list) -> list:
    """Python scalars in the dtype of a bfloat16 array among the values.

    NumPy keeps Python scalars weak for its own dtypes (float16 * 2.0 is float16). For bfloat16 it
    returns float32: the scalars are converted before the call.
    """
    for x in values:
        if type(x) not in WITHOUT_DTYPE and x.dtype is bfloat16:
            break
    else:
        return values
    dtypes = {x.dtype for x in values if hasattr(x, "dtype") and not isinstance(x, np.generic)}
    if bfloat16 not in dtypes or any(d.kind in "fc" for d in dtypes):
        return values
    number: Any = bfloat16.type  # type: ignore[union-attr]  # not None, since an array has it
    return [number(x) if type(x) in NUMBERS and type(x) is not complex else x for x in values]


def plain_numbers(params: dict[str, Any]) -> dict[str, Any]:
    """Static parameters with Python numbers in place of NumPy's, also inside a tuple.

    A rule that negates or adds them must not wrap around: -np.uint8(1) is 255. And np.float64(2) is
    not weak: with it a float32 array becomes float64.
    """
    for name, value in params.items():
        kind = type(value)
        if kind in PLAIN:
            continue
        if kind is not tuple:
            refuse_gradient(value, name, f"{name}={name}.item()")
        if kind in _NUMPYS or (kind is tuple and not _NUMPYS.isdisjoint(map(type, value))):
            return {name: plain_number(value) for name, value in params.items()}
    return params


# The types of parameters that stay unchanged.
PLAIN = {int, float, complex, bool, str, type(None), *map(type, map(np.dtype, "?bhilqefdFD"))}


def refuse_gradient(value: Any, argument: str, instead: str = "") -> None:
    """TypeError for a tensor that requires a gradient, as an argument that gets none.

    instead: the argument that the error recommends, if it is not the detached tensor
    """
    while hasattr(value, "requires_grad"):
        if value.requires_grad or (value.level and value._grad is not None):  # a dual's tangent
            raise TypeError(
                f"{argument} is a constant here, and the one given requires a gradient that it "
                f"would not get; pass {instead or argument + '.detach()'}"
            )
        value = value._data  # in a transform, the tensor one level below


def plain_number(value: Any) -> Any:
    """The Python number for a NumPy number, also inside a tuple; anything else unchanged."""
    if type(value) is tuple:
        return tuple(map(plain_number, value))
    return value.item() if type(value) in _NUMPYS else value


def plain_floats(fn: Callable) -> Callable:
    """Decorator: `plain_number` for those parameters of a function that are annotated `float`."""
    floats = (float, float | None)
    if not any(kind in floats for kind in getattr(fn, "__annotations__", {}).values()):
        return fn  # most have none, and reading a signature takes time
    parameters = inspect.signature(fn).parameters.values()
    positions = {i: p.name for i, p in enumerate(parameters) if p.annotation in floats}

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not _NUMPYS.isdisjoint(map(type, args)):
            args = tuple([plain_number(x) if i in positions else x for i, x in enumerate(args)])
        if kwargs and not _NUMPYS.isdisjoint(map(type, kwargs.values())):
            named = positions.values()
            kwargs = {key: plain_number(x) if key in named else x for key, x in kwargs.items()}
        return fn(*args, **kwargs)

    return called


def finfo(dtype: Any) -> Any:
    """Limits of a floating dtype, bfloat16 included."""
    if bfloat16 is not None and dtype == bfloat16:  # NumPy compares None as float64
        return ml_dtypes.finfo(dtype)
    return np.finfo(dtype)


def lowest(dtype: Any) -> Any:
    """A lower bound of this dtype's values: the start of a maximum."""
    if dtype.kind == "b":
        return False
    return -np.inf if is_floating(dtype) else int(np.iinfo(dtype).min)


def highest(dtype: Any) -> Any:
    """An upper bound of this dtype's values: the start of a minimum."""
    if dtype.kind == "b":
        return True
    return np.inf if is_floating(dtype) else int(np.iinfo(dtype).max)


def require_fit(values: Any, dtype: Any) -> None:
    """Refuse numbers that do not fit an integer dtype: OverflowError, for NaN ValueError.

    NumPy raises only for Python integers. For the ends of ranges and draws, and for a repeated NaN,
    it silently makes other numbers. `astype` casts any value.
    """
    if dtype is None or dtype.kind not in "iu":
        return
    numbers = np.asarray(values)
    if not numbers.size or numbers.dtype.kind not in "iuf":  # NumPy refuses larger ones
        return
    ends = numbers.min(), numbers.max()
    if any(x != x for x in ends):
        raise ValueError(f"cannot convert float NaN to integer: {dtype} has none")
    limits = np.iinfo(dtype)
    for x in ends:
        whole = x if x in (np.inf, -np.inf) else int(x)
        if not limits.min <= whole <= limits.max:
            raise OverflowError(
                f"{whole} is out of bounds for {dtype}, which goes from {limits.min} to "
                f"{limits.max}; choose a wider dtype, or wrap numbers around with "
                f".astype({dtype})"
            )


def is_number(x: Any) -> bool:
    """Whether x is a number of Python or NumPy (or a list), and not an array."""
    return not hasattr(x, "dtype") or isinstance(x, np.generic)


def whole_numbers(dtype: Any) -> tuple[int, int]:
    """The least and the largest of the consecutive integers that a dtype holds exactly."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if dtype.kind == "b":
        return 0, 1
    most = 2 ** (finfo(np.empty(0, dtype).real.dtype).nmant + 1)
    return -most, most


_OTHERS_DEVICES = ("gpu", "mps", "xpu", "hip")  # names for a GPU, as in x.to("gpu")


def resolve_dtype(dtype: Any) -> np.dtype | None:
    """A dtype from a user's argument: np.float32, "float32", float, "bfloat16"."""
    if dtype is None:
        return None
    if isinstance(dtype, str) and dtype == "bfloat16":
        if bfloat16 is None:
            raise TypeError(f"bfloat16 needs the package ml_dtypes: {INSTALL}")
        return bfloat16
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found.names is not None or found.kind == "V" and found != bfloat16:
        advice = "write mg.float32, 'float32', int or bool, for example"
        if str(dtype).partition(":")[0].lower() in _OTHERS_DEVICES:
            advice = "for a GPU write 'cuda' or 'cuda:0'"
        raise TypeError(f"dtype={dtype!r} is not a dtype; {advice}")
    return found


def is_truth(value: Any) -> bool:
    """Whether it is a truth value (also NumPy's, or in an array of size 1), or the number 0 or
    1."""
    if isinstance(value, int):
        return value in (0, 1)
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return kind in ("b", "i", "u") and value.size == 1 and int(value) in (0, 1)
